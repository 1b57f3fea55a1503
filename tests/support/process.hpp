#pragma once
// Runs a program and captures its exit status and both output streams, for tests of the command line.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.hpp"

extern char** environ;

namespace hydra::test {

struct ProcessResult {
  int status = -1;  // exit status; 128 + signal if a signal ended it
  bool timed_out = false;
  double seconds = 0.0;      // wall clock: depends on what else the machine does
  double cpu_seconds = 0.0;  // user and system time
  long peak_kib = 0;         // resident memory
  std::string out, err;
};

struct ProcessOptions {
  std::string input;                               // standard input
  std::map<std::string, std::string> environment;  // added to ours
  std::string directory;                           // working directory; empty: ours
  double timeout_seconds = 120.0;                  // SIGKILL after that
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// Starts the program; streams go to files in `scratch`. The caller waits with finish_process.
inline pid_t start_process(const std::vector<std::string>& arguments, const ProcessOptions& options,
                           const std::filesystem::path& scratch) {
  std::ofstream(scratch / "stdin", std::ios::binary) << options.input;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, (scratch / "stdin").c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (scratch / "stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (scratch / "stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!options.directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.directory.c_str());
  }
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (options.environment.count(text.substr(0, text.find('='))) == 0) {
      variables.push_back(text);
    }
  }
  for (const auto& [name, value] : options.environment) {
    variables.push_back(name + "=" + value);
  }
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (const std::string& text : texts) {
      result.push_back(const_cast<char*>(text.c_str()));
    }
    result.push_back(nullptr);
    return result;
  };
  pid_t pid = -1;
  const int code = ::posix_spawnp(&pid, arguments.front().c_str(), &actions, nullptr, pointers(arguments).data(),
                                  pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) {
    throw std::runtime_error("cannot start " + arguments.front());
  }
  return pid;
}

inline ProcessResult finish_process(pid_t pid, double timeout_seconds, const std::filesystem::path& scratch) {
  using Clock = std::chrono::steady_clock;
  ProcessResult result;
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, WNOHANG, &usage) == 0) {
    if (elapsed() > timeout_seconds && !result.timed_out) {
      result.timed_out = true;
      ::kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  result.seconds = elapsed();
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  result.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  result.peak_kib = usage.ru_maxrss;
  result.out = slurp(scratch / "stdout");
  result.err = slurp(scratch / "stderr");
  return result;
}

inline ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) {
  const TempDir scratch;
  return finish_process(start_process(arguments, options, scratch.path()), options.timeout_seconds, scratch.path());
}

}  // namespace hydra::test
