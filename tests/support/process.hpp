// Runs programs as child processes, for tests of the command.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.hpp"
#include "time_limit.hpp"

/// A call of a program.
struct Call {
  std::vector<std::string> words;                       ///< The program and its arguments.
  std::map<std::string, std::string> environment = {};  ///< Added to a minimal one.
  std::filesystem::path directory = {};  ///< Working directory; default the test's own.
  std::filesystem::path out = {};        ///< The file for standard output; default: captured.
  rlim_t file_size = RLIM_INFINITY;      ///< In bytes; beyond it every write fails.
  bool terminal = false;                 ///< Standard error is a terminal, 80 columns wide.
};

/// The result of a call.
struct Outcome {
  int exit_code = -1;  ///< -1 if a signal ended it.
  int signal = 0;
  std::string out, err;
};

/// A program that runs concurrently with the test, and ends with it at the latest. It leads a
/// process group, which is killed as a whole if the program does not end by itself.
class Process {
 public:
  explicit Process(const Call& call)
      : words_(call.words), out_(call.out.empty() ? dir_.path() / "out" : call.out) {
    const std::string err = open_error_channel(call.terminal);
    child_ = ::fork();
    if (child_ < 0) throw std::runtime_error("fork failed");
    if (child_ == 0) become(call, err);
    ::setpgid(child_, child_);  // parent and child both call this, because either may be first
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (child_ > 0) {
      end_all();
      ::waitpid(child_, nullptr, 0);
      // If a test fails while it waits for some output, it shows the actual output.
      if (std::uncaught_exceptions() > exceptions_) std::cerr << last_words(said()) << std::endl;
    }
    if (terminal_ >= 0) ::close(terminal_);
  }

  /// Returns the current number of the program's threads.
  std::ptrdiff_t threads() const {
    const auto tasks =
        std::filesystem::directory_iterator("/proc/" + std::to_string(child_) + "/task");
    return std::distance(begin(tasks), end(tasks));
  }

  void send(int signal) const { ::kill(child_, signal); }

  /// Returns the child processes for which it has not yet waited.
  std::vector<pid_t> children() const {
    const std::string own = std::to_string(child_);
    std::ifstream in("/proc/" + own + "/task/" + own + "/children");
    return {std::istream_iterator<pid_t>(in), {}};
  }

  /// Waits until `condition` is true.
  /// \returns false if it is not true before time_limit::default_end().
  static bool wait_for(const std::function<bool()>& condition) {
    for (const auto end = time_limit::default_end(); Clock::now() < end;) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return condition();
  }

  /// Waits until the program has written `text` to standard error, which may be a terminal.
  /// \returns false if the program or the time ends earlier.
  bool says(const std::string& text) {
    bool is_said = false;
    const bool is_over = !wait_for([&] {
      const bool ended = has_ended();
      is_said = err_so_far().find(text) != text.npos;
      return is_said || ended;
    });
    return is_said && !is_over;
  }

  /// Waits for the program's end.
  /// \param limit  default: until time_limit::default_end().
  /// \throws std::runtime_error if it has not ended by then, with its output so far. It is then
  ///   killed, with its process group.
  Outcome finish(std::optional<std::chrono::milliseconds> limit = {}) {
    const auto begun = Clock::now();
    const auto end = limit ? begun + *limit : time_limit::default_end();
    const bool in_time = read_terminal(end) && ends_before(end);
    if (!in_time) end_all();
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    if (!in_time) {
      const std::chrono::duration<double> waited = Clock::now() - begun;
      throw std::runtime_error("not ended after " + std::to_string(waited.count()) +
                               " s: " + last_words(said()));
    }
    Outcome outcome = said();
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    return outcome;
  }

 private:
  using Clock = time_limit::Clock;

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
    ::setpgid(0, 0);
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
                      // Tests compare files of runs, so these must not depend on when a run began.
                      {"SOURCE_DATE_EPOCH", "1700000000"}});
    // The mutant that scripts/mutants.py is trying.
    if (const char* mutant = std::getenv("PRIVGRAD_MUTANT"))
      variables.insert({"PRIVGRAD_MUTANT", mutant});
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

  void end_all() const {
    ::kill(-child_, SIGKILL);
    ::kill(child_, SIGKILL);
  }

  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  }

  bool ends_before(Clock::time_point end) const {
    while (!has_ended()) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  /// Reads from the terminal until the program has closed its side.
  /// \returns false if this has not happened before `end`.
  bool read_terminal(Clock::time_point end) {
    if (terminal_ < 0) return true;
    char buffer[4096];
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd waiting{terminal_, POLLIN, 0};
      const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return false;
      const ssize_t count = ::read(terminal_, buffer, sizeof buffer);
      if (count <= 0) return true;
      shown_.append(buffer, static_cast<std::size_t>(count));
    }
  }

  std::string err_so_far() {
    if (terminal_ < 0) return read_file(dir_.path() / "err");
    read_terminal(Clock::now());
    return shown_;
  }

  Outcome said() {
    Outcome outcome;
    if (std::filesystem::is_regular_file(out_)) outcome.out = read_file(out_);
    outcome.err = err_so_far();
    return outcome;
  }

  std::string last_words(const Outcome& outcome) const {
    std::string text;
    for (const std::string& word : words_) text += word + ' ';
    return text + "\nstandard output:\n" + outcome.out + "\nstandard error:\n" + outcome.err;
  }

  TempDir dir_;
  std::vector<std::string> words_;
  std::filesystem::path out_;
  int exceptions_ = std::uncaught_exceptions();
  int terminal_ = -1;
  std::string shown_;  // text shown on the terminal
  pid_t child_ = -1;
};

inline Outcome call(const Call& what) { return Process(what).finish(); }
