#include "hydrahead/dist/local_launch.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"

extern char** environ;

namespace hydra::dist {
namespace {

constexpr const char* launcher_variable = "HYDRA_LAUNCHER_PID";
constexpr int stopped_status = 75;
constexpr int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

// A port that was free a moment ago.
int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  HYDRA_CHECK(descriptor >= 0, "no socket: ", std::strerror(errno));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(descriptor);
  HYDRA_CHECK(bound, "no free port: ", std::strerror(errno));
  return ntohs(address.sin_port);
}

sigset_t signal_set(bool with_children) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : passed_on) {
    sigaddset(&set, signal);
  }
  if (with_children) {
    sigaddset(&set, SIGCHLD);
  }
  return set;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

std::string reason(int status) {
  if (WIFSIGNALED(status)) {
    return "killed by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
  }
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

class Ranks {
 public:
  explicit Ranks(const LocalLaunch& launch) : launch_(launch) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    send(SIGKILL);
    while (!running_.empty()) {
      ::waitpid(running_.begin()->first, nullptr, 0);
      running_.erase(running_.begin());
    }
  }

  void start(int rank, int port, const sigset_t& signals_before) {
    std::vector<std::string> variables = environment(rank, port);
    std::vector<std::string> arguments = launch_.command;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    // A process group of its own: a terminal's Ctrl-C reaches the launcher alone, which passes it on once.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &signals_before);
    pid_t pid = 0;
    const int code = ::posix_spawnp(&pid, arguments[0].c_str(), nullptr, &attributes, pointers(arguments).data(),
                                    pointers(variables).data());
    posix_spawnattr_destroy(&attributes);
    HYDRA_REQUIRE(code == 0, "launch: ", arguments[0], " cannot be started: ", std::strerror(code));
    running_[pid] = rank;
  }

  void send(int signal) const {
    for (const auto& [pid, rank] : running_) {
      ::kill(-pid, signal);
    }
  }

  bool any_running() const { return !running_.empty(); }
  bool failed() const { return failed_.has_value(); }

  // Takes note of the ranks that have ended.
  void reap() {
    for (auto entry = running_.begin(); entry != running_.end();) {
      int status = 0;
      if (::waitpid(entry->first, &status, WNOHANG) != entry->first) {
        ++entry;
        continue;
      }
      const bool stopped = WIFEXITED(status) && WEXITSTATUS(status) == stopped_status;
      if (stopped) {
        stopped_ = true;
      } else if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) && !failed_) {
        failed_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        message_ = "launch: rank " + std::to_string(entry->second) + " failed first: " + reason(status);
      }
      entry = running_.erase(entry);
    }
  }

  // The job's exit status. The reason stands below whatever the ranks said.
  int result() const {
    if (failed_) {
      log_error(message_);
      return *failed_;
    }
    return stopped_ ? stopped_status : 0;
  }

 private:
  std::vector<std::string> environment(int rank, int port) const {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::map<std::string, std::string> own = {{"RANK", std::to_string(rank)},
                                              {"LOCAL_RANK", std::to_string(rank)},
                                              {"WORLD_SIZE", std::to_string(launch_.ranks)},
                                              {"LOCAL_WORLD_SIZE", std::to_string(launch_.ranks)},
                                              {"MASTER_ADDR", "127.0.0.1"},
                                              {"MASTER_PORT", std::to_string(port)},
                                              {launcher_variable, std::to_string(::getpid())}};
    if (std::getenv("OMP_NUM_THREADS") == nullptr) {
      own["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / launch_.ranks));
    }
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (!own.contains(text.substr(0, text.find('='))) && !text.starts_with("TORCHELASTIC_")) {
        variables.push_back(text);
      }
    }
    for (const auto& [name, value] : own) {
      variables.push_back(name + "=" + value);
    }
    return variables;
  }

  const LocalLaunch& launch_;
  std::map<pid_t, int> running_;  // process -> rank
  std::optional<int> failed_;     // status of the rank that failed first
  std::string message_;
  bool stopped_ = false;
};

}  // namespace

int run_local_ranks(const LocalLaunch& launch) {
  HYDRA_REQUIRE(launch.ranks >= 1 && launch.ranks <= 1024, "launch: found ", launch.ranks,
                " ranks, expected 1 to 1024");
  HYDRA_REQUIRE(!launch.command.empty(), "launch: found no command after --");
  // The signals are blocked and taken one by one, so that none is lost between two waits.
  const sigset_t waited = signal_set(true);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &waited, &before);
  int result = 1;
  {
    Ranks ranks(launch);
    const int port = launch.port > 0 ? launch.port : free_port();
    for (int rank = 0; rank < launch.ranks; ++rank) {
      ranks.start(rank, port, before);
    }
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> deadline;
    for (ranks.reap(); ranks.any_running(); ranks.reap()) {
      if (ranks.failed() && !deadline) {
        deadline = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(1000 * launch.grace_seconds));
      }
      if (deadline && Clock::now() >= *deadline) {
        ranks.send(SIGKILL);
      }
      const timespec pause = {0, 100'000'000};
      siginfo_t info{};
      const int signal = ::sigtimedwait(&waited, &info, &pause);
      if (signal > 0 && signal != SIGCHLD) {
        ranks.send(signal);
      }
    }
    result = ranks.result();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

void follow_launcher() {
  const char* launcher = std::getenv(launcher_variable);
  if (launcher == nullptr || std::to_string(::getppid()) != launcher) {
    return;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(::getppid()) != launcher) {
    ::raise(SIGTERM);  // it died in between
  }
}

}  // namespace hydra::dist
