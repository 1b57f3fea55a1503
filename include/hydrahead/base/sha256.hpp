#pragma once
// SHA-256 (OpenSSL) of bytes and files, as 64 lower-case hex digits.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace hydra {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::string_view bytes);
  std::string hex();  // ends the hash; call once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view bytes);
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace hydra
