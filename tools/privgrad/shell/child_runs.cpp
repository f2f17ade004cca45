#include "child_runs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <system_error>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

constexpr const char* kProgram = "/proc/self/exe";
/// Only the last bytes of a child's standard error are kept.
constexpr std::size_t kMostError = 16384;

[[noreturn]] void fail(const char* what) {
  throw IoError(std::string("a run cannot be started: ") + what + ": " +
                std::generic_category().message(errno));
}

}  // namespace

/// A child process whose standard error this process reads. When that stream ends, the child has
/// ended.
class ChildRuns::Child {
 public:
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  explicit Child(const ChildCall& call) {
    // Allocates all memory before the fork: plugins may have threads, which may hold heap locks.
    std::vector<char*> words{const_cast<char*>("privgrad")};
    for (const std::string& word : call.words) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) {
      ::close(ends[0]);
      ::close(ends[1]);
      fail("fork");
    }
    if (pid_ == 0) become(words.data(), ends[1], parent);
    ::close(ends[1]);
    pipe_ = ends[0];
  }

  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    if (pipe_ >= 0) ::close(pipe_);
  }

  int pipe() const { return pipe_; }
  void ask_to_end() const { ::kill(pid_, SIGTERM); }

  /// \returns false at the end of the stream; then call finish().
  bool read() {
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(pipe_, buffer.data(), buffer.size());
    if (count < 0) return errno == EINTR;
    if (count == 0) return false;
    error_.append(buffer.data(), static_cast<std::size_t>(count));
    if (error_.size() > kMostError) error_.erase(0, error_.size() - kMostError);
    return true;
  }

  ChildEnd finish() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    const bool by_signal = WIFSIGNALED(status);
    return {by_signal, by_signal ? WTERMSIG(status) : WEXITSTATUS(status), std::move(error_)};
  }

 private:
  /// Makes only async-signal-safe calls.
  [[noreturn]] static void become(char* const* words, int error, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(nothing, STDOUT_FILENO) >= 0 &&
        ::dup2(error, STDERR_FILENO) >= 0) {
      ::execv(kProgram, words);
    }
    ::_exit(127);
  }

  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string error_;
};

ChildRuns::ChildRuns() = default;
ChildRuns::~ChildRuns() = default;

void ChildRuns::start(std::size_t number, const ChildCall& call) {
  running_.emplace(number, std::make_unique<Child>(call));
}

void ChildRuns::stop(int most_ms) {
  using Clock = std::chrono::steady_clock;
  for (const auto& [number, child] : running_) child->ask_to_end();
  const auto until = Clock::now() + std::chrono::milliseconds(most_ms);
  while (running() > 0 && Clock::now() < until) wait(100);
  running_.clear();
}

std::vector<ChildRuns::Ended> ChildRuns::wait(int most_ms) {
  std::vector<pollfd> wanted;
  for (const auto& [number, child] : running_) {
    wanted.push_back({.fd = child->pipe(), .events = POLLIN, .revents = 0});
  }
  ::poll(wanted.data(), wanted.size(), most_ms);
  std::vector<Ended> ended;
  for (auto at = running_.begin(); at != running_.end();) {
    const auto ready =
        std::ranges::find_if(wanted, [&](const pollfd& p) { return p.fd == at->second->pipe(); });
    if (ready->revents == 0 || at->second->read()) {
      ++at;
      continue;
    }
    ended.push_back({at->first, at->second->finish()});
    at = running_.erase(at);
  }
  return ended;
}

}  // namespace privgrad::tool
