#pragma once
// What a call says: the message of the UserError that it throws, and the log lines that it writes.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "hydrahead/base/error.hpp"

namespace hydra::test {

// The message of the UserError that `call` throws; empty (and a failure) if it throws none.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected a UserError";
  return "";
}

// Standard error while `call` runs: its log lines.
inline std::string log_of(const std::function<void()>& call) {
  testing::internal::CaptureStderr();
  call();
  return testing::internal::GetCapturedStderr();
}

inline void expect_pieces(const std::string& text, const std::vector<std::string>& pieces) {
  for (const std::string& piece : pieces) {
    EXPECT_NE(text.find(piece), std::string::npos) << "expected \"" << piece << "\" in: " << text;
  }
}

}  // namespace hydra::test
