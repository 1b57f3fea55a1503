#include "hydrahead/io/safetensors.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <tuple>

#include "hydrahead/base/json.hpp"

namespace hydra::io {
namespace {

constexpr std::pair<std::string_view, at::ScalarType> scalar_types[] = {{"BOOL", at::kBool},
                                                                        {"U8", at::kByte},
                                                                        {"I8", at::kChar},
                                                                        {"F8_E4M3", at::kFloat8_e4m3fn},
                                                                        {"F8_E5M2", at::kFloat8_e5m2},
                                                                        {"I16", at::kShort},
                                                                        {"U16", at::kUInt16},
                                                                        {"F16", at::kHalf},
                                                                        {"BF16", at::kBFloat16},
                                                                        {"I32", at::kInt},
                                                                        {"U32", at::kUInt32},
                                                                        {"F32", at::kFloat},
                                                                        {"I64", at::kLong},
                                                                        {"U64", at::kUInt64},
                                                                        {"F64", at::kDouble},
                                                                        {"C64", at::kComplexFloat}};

at::ScalarType scalar_type(std::string_view dtype) {
  for (const auto& [name, type] : scalar_types) {
    if (name == dtype) {
      return type;
    }
  }
  HYDRA_CHECK(false, "no torch type for ", dtype);
  return at::kFloat;
}

std::string dtype_name(at::ScalarType type) {
  for (const auto& [name, known] : scalar_types) {
    if (known == type) {
      return std::string(name);
    }
  }
  throw Error(detail::concat("safetensors has no name for the type ", at::toString(type)));
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.bytes_ = std::make_shared<const MappedFile>(MappedFile::open(path));
  file.header_ = std::make_shared<const SafetensorsHeader>(
      parse_safetensors_header(file.bytes_->bytes()).value_or_fail(path.string()));
  return file;
}

at::Tensor SafetensorsFile::load(const std::string& name) const {
  const auto found = header_->tensors.find(name);
  HYDRA_REQUIRE(found != header_->tensors.end(), path().string(), ": tensor ", name, " is not in this file");
  const TensorInfo& info = found->second;
  const auto options = at::TensorOptions().dtype(scalar_type(info.dtype));
  const std::byte* data = bytes_->bytes().data() + header_->data_start + info.begin;
  if (info.begin == info.end || reinterpret_cast<std::uintptr_t>(data) % element_bytes(info.dtype) != 0) {
    at::Tensor copy = at::empty(info.shape, options);
    if (info.end > info.begin) {
      std::memcpy(copy.data_ptr(), data, static_cast<std::size_t>(info.end - info.begin));
    }
    return copy;
  }
  return at::from_blob(
      const_cast<std::byte*>(data), info.shape, [keep = bytes_](void*) {}, options);
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  NamedTensors order = tensors;
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tuple(b.second.element_size(), std::string_view(a.first)) <
           std::tuple(a.second.element_size(), std::string_view(b.first));
  });
  Json header = Json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    HYDRA_CHECK(!header.contains(name), "two tensors are named ", name);
    const std::uint64_t end = offset + tensor.nbytes();
    header[name] = {
        {"dtype", dtype_name(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');

  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  std::uint64_t length = text.size();
  char prefix[8];
  for (char& byte : prefix) {
    byte = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  out.write(prefix, sizeof prefix);
  out << text;
  for (const auto& [name, tensor] : order) {
    const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
    out.write(static_cast<const char*>(host.const_data_ptr()), static_cast<std::streamsize>(host.nbytes()));
  }
  out.close();
  if (!out) {
    throw Error(detail::concat(path.string(), ": cannot be written (is the disk full?)"));
  }
  sync_path(path);
}

}  // namespace hydra::io
