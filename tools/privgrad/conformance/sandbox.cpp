#include "sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>

#include "privgrad/error.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PRIVGRAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PRIVGRAD_SANITIZED 1
#endif
#endif

namespace privgrad::tool {
namespace {

using Clock = std::chrono::steady_clock;

/// Limits on the bytes that a process sends and writes, because the listening process keeps them in
/// memory.
constexpr std::size_t kMostSaid = 1 << 20;
constexpr std::size_t kMostWritten = 4096;  // only the last bytes are kept
constexpr std::string_view kConcluded = "\x04\n";

[[noreturn]] void fail(const char* what) {
  throw IoError(std::string("no process can be started for a rule: ") + what + ": " +
                std::generic_category().message(errno));
}

/// Both ends of a pipe; the destructor closes them.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail("pipe");
  }
  ~Pipe() {
    close_in();
    close_out();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int out() const { return ends_[0]; }
  int in() const { return ends_[1]; }
  void close_out() { close(ends_[0]); }
  void close_in() { close(ends_[1]); }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(to, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) ::_exit(1);  // the reader is gone
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void limit(__rlimit_resource what, rlim_t most) {
  const rlimit both{most, most};
  ::setrlimit(what, &both);
}

void confine(const Limits& limits) {
  ::setpgid(0, 0);  // so that this process and all that it starts can be killed together
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CORE, 0);
  // The limit is for all threads together. It matters only if the process that enforces limits.time
  // is gone.
  limit(RLIMIT_CPU, 16 * static_cast<rlim_t>(limits.time.count()) + 16);
#ifndef PRIVGRAD_SANITIZED
  limit(RLIMIT_AS, limits.memory);
#endif
}

[[noreturn]] void become(const Limits& limits, const std::function<void(const Say&)>& body,
                         int said, int written, pid_t parent) {
  confine(limits);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(written, STDOUT_FILENO) < 0 ||
      ::dup2(written, STDERR_FILENO) < 0) {
    ::_exit(1);
  }
  try {
    body([said](std::string_view line) {
      write_all(said, line);
      write_all(said, "\n");
    });
  } catch (...) {
    ::_exit(1);
  }
  write_all(said, kConcluded);
  ::_exit(0);
}

/// Reads what is available now. \returns false at the end of the stream.
bool read_some(int from, std::string& to) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(from, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  to.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

std::string last_line(const std::string& written) {
  const std::size_t end = written.find_last_not_of("\n\r\t ");
  if (end == written.npos) return "";
  const std::size_t begin = written.find_last_of('\n', end);
  std::string line = written.substr(begin == written.npos ? 0 : begin + 1, end - begin);
  constexpr std::size_t kMost = 200;
  if (line.size() > kMost) line = line.substr(0, kMost) + "...";
  std::ranges::replace_if(
      line, [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

std::string death_of(int status, const std::string& written) {
  std::string death;
  if (WIFEXITED(status)) {
    death = "it ended the process, with exit code " + std::to_string(WEXITSTATUS(status));
  } else {
    const int signal = WTERMSIG(status);
    const char* name = ::sigdescr_np(signal);
    death = "it crashed: " + std::string(name != nullptr ? name : "unknown signal");
    if (signal == SIGSEGV) death += " (a bad address, or too deep a recursion)";
  }
  const std::string line = last_line(written);
  return line.empty() ? death : death + "; its last words: " + line;
}

/// A child process whose messages this process reads.
class Listened {
 public:
  Listened(pid_t pid, int said, int written, const Limits& limits)
      : pid_(pid), limits_(limits), until_(Clock::now() + limits.time) {
    pipes_[0] = {said, POLLIN, 0};
    pipes_[1] = {written, POLLIN, 0};
    for (const pollfd& pipe : pipes_) ::fcntl(pipe.fd, F_SETFL, O_NONBLOCK);
  }

  Ending finish() {
    Ending ending;
    while (!has_ended()) {
      if (Clock::now() >= until_) {
        ending.death = "it had not ended after " + std::to_string(limits_.time.count()) +
                       " s; --time-limit gives it more time";
        break;
      }
      if (said_.size() > kMostSaid) {
        ending.death = "it reports more than the suite accepts";
        break;
      }
      listen(std::chrono::milliseconds(20));
    }
    ::kill(-pid_, SIGKILL);  // this also kills the processes it started
    if (!status_) {
      int status = 0;
      while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
      status_ = status;
    }
    // Reads the rest of the pipes without waiting, because all processes that held the write ends
    // are dead.
    while (said_.size() <= kMostSaid && listen(std::chrono::milliseconds(0))) {
    }
    const std::size_t whole = said_.find_last_of('\n');
    ending.said = said_.substr(0, whole == said_.npos ? 0 : whole + 1);
    ending.concluded = ending.death.empty() && WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0 &&
                       ending.said.ends_with(kConcluded);
    if (ending.concluded) {
      ending.said.resize(ending.said.size() - kConcluded.size());
    } else if (ending.death.empty()) {
      ending.death = death_of(*status_, written_);
    }
    return ending;
  }

 private:
  bool has_ended() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    status_ = status;
    return true;
  }

  /// \returns whether anything was read, including the end of a stream.
  bool listen(std::chrono::milliseconds most) {
    // After both streams have ended, poll() is only a pause until the process ends.
    const bool closed = pipes_[0].fd < 0 && pipes_[1].fd < 0;
    if (::poll(pipes_.data(), pipes_.size(), closed ? 1 : static_cast<int>(most.count())) <= 0)
      return false;
    bool any = false;
    for (std::size_t i = 0; i < pipes_.size(); ++i) {
      if (pipes_[i].fd < 0 || pipes_[i].revents == 0) continue;
      std::string& text = i == 0 ? said_ : written_;
      any = true;
      if (!read_some(pipes_[i].fd, text)) pipes_[i].fd = -1;  // poll() ignores -1
      if (i == 1 && text.size() > 2 * kMostWritten) text.erase(0, text.size() - kMostWritten);
    }
    return any;
  }

  pid_t pid_;
  const Limits& limits_;
  Clock::time_point until_;
  std::array<pollfd, 2> pipes_{};
  std::string said_, written_;
  std::optional<int> status_;
};

}  // namespace

Ending in_sandbox(const Limits& limits, const std::function<void(const Say&)>& body) {
  Pipe said;
  Pipe written;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid == 0) become(limits, body, said.in(), written.in(), parent);
  ::setpgid(pid, pid);  // parent and child both call this, because either may be first
  said.close_in();
  written.close_in();
  return Listened(pid, said.out(), written.out(), limits).finish();
}

}  // namespace privgrad::tool
