#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.hpp"

/// How a program is to be called.
struct Call {
  std::vector<std::string> words;                       ///< The program first.
  std::map<std::string, std::string> environment = {};  ///< On top of a bare one.
  std::filesystem::path directory = {};  ///< Working directory; default the test's own.
  std::filesystem::path out = {};        ///< Standard output goes here; default: captured.
  rlim_t file_size = RLIM_INFINITY;      ///< Bytes; beyond them every write fails.
  bool terminal = false;                 ///< Standard error is a terminal, 80 columns wide.
};

/// What came of it.
struct Outcome {
  int exit_code = -1;  ///< -1 if a signal ended it.
  int signal = 0;
  std::string out, err;
};

/// A program that runs beside the test, and ends with it at the latest.
class Process {
 public:
  explicit Process(const Call& call) : out_(call.out.empty() ? dir_.path() / "out" : call.out) {
    const std::string err = open_error_channel(call.terminal);
    child_ = ::fork();
    if (child_ < 0) throw std::runtime_error("fork failed");
    if (child_ == 0) become(call, err);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (terminal_ >= 0) ::close(terminal_);
  }

  /// How many threads it has now.
  std::ptrdiff_t threads() const {
    const auto tasks =
        std::filesystem::directory_iterator("/proc/" + std::to_string(child_) + "/task");
    return std::distance(begin(tasks), end(tasks));
  }

  void send(int signal) const { ::kill(child_, signal); }

  /// The processes that it has started and not yet seen ending.
  std::vector<pid_t> children() const {
    const std::string own = std::to_string(child_);
    std::ifstream in("/proc/" + own + "/task/" + own + "/children");
    return {std::istream_iterator<pid_t>(in), {}};
  }

  /// Waits until `condition` holds.
  /// \returns false if it took longer than two minutes: sanitizers on a busy machine are slow.
  static bool wait_for(const std::function<bool()>& condition) {
    for (int i = 0; i < 24000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  Outcome finish() {
    Outcome outcome;
    if (terminal_ >= 0) outcome.err = read_terminal();
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    if (std::filesystem::is_regular_file(out_)) outcome.out = read_file(out_);
    if (terminal_ < 0) outcome.err = read_file(dir_.path() / "err");
    return outcome;
  }

 private:
  std::string open_error_channel(bool terminal) {
    if (!terminal) return (dir_.path() / "err").string();
    terminal_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal_ < 0 || ::grantpt(terminal_) != 0 || ::unlockpt(terminal_) != 0) {
      throw std::runtime_error("no pseudo terminal");
    }
    return ::ptsname(terminal_);
  }

  [[noreturn]] void become(const Call& call, const std::string& err) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit size{call.file_size, call.file_size};
    const int in = ::open("/dev/null", O_RDONLY);
    const int out = ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY, 0600);
    const int error = ::open(err.c_str(), O_WRONLY | O_CREAT | O_NOCTTY, 0600);
    const bool ready = ::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(error, 2) >= 0 &&
                       (call.directory.empty() || ::chdir(call.directory.c_str()) == 0) &&
                       ::setrlimit(RLIMIT_FSIZE, &size) == 0;
    std::map<std::string, std::string> variables = call.environment;
    variables.insert({{"PATH", "/usr/bin:/bin"},
                      {"TERM", "xterm"},
                      {"HOME", "/nonexistent"},
                      // Files of runs are compared, whenever these began.
                      {"SOURCE_DATE_EPOCH", "1700000000"}});
    std::vector<std::string> environment;
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    if (ready) {
      ::execve(call.words.front().c_str(), pointers(call.words).data(),
               pointers(environment).data());
    }
    ::_exit(126);
  }

  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
    out.push_back(nullptr);
    return out;
  }

  /// Everything until the program has closed its side.
  std::string read_terminal() const {
    std::string text;
    char buffer[4096];
    for (;;) {
      const ssize_t count = ::read(terminal_, buffer, sizeof buffer);
      if (count <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(count));
    }
  }

  TempDir dir_;
  std::filesystem::path out_;
  int terminal_ = -1;
  pid_t child_ = -1;
};

inline Outcome call(const Call& what) { return Process(what).finish(); }
