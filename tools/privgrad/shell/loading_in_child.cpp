#include "loading_in_child.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "exit_code.hpp"
#include "last_words.hpp"
#include "privgrad/error.hpp"
#include "privgrad/host/loading.hpp"

namespace privgrad::tool {
namespace {

/// Returns zeroed memory that this process shares with its children.
char* shared_memory(std::size_t size) {
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw IoError(std::string("no memory: ") + std::strerror(errno));
  return static_cast<char*>(memory);
}

[[noreturn]] void be_child(const std::function<int()>& action) {
  watch_for_the_end(Silence::while_loading);
  const int code = with_exit_code(action);
  std::cout.flush();
  std::fflush(nullptr);
  conclude();
  ::_exit(code);
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw IoError(std::string("a child process: ") + std::strerror(errno));
  }
  return status;
}

std::string ending(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotLoadedInTime)
    return "it did not finish loading in time";
  if (!WIFSIGNALED(status)) return "it ended the process when it was loaded";
  const char* const name = ::sigdescr_np(WTERMSIG(status));
  return std::string("it crashed when it was loaded: ") + (name != nullptr ? name : "a signal");
}

}  // namespace

int load_in_child(const std::function<int(const host::RefusedFiles&)>& action) {
  char* const loading = shared_memory(host::kMostLoading);
  host::keep_loading_in(loading);
  for (host::RefusedFiles refused;;) {
    std::cout.flush();  // otherwise the child would print it too
    const pid_t child = ::fork();
    if (child < 0) throw IoError(std::string("no child process: ") + std::strerror(errno));
    if (child == 0) be_child([&] { return action(refused); });
    const int status = wait_for(child);
    const bool was_loading = loading[0] != '\0';
    if (!was_loading) {
      if (WIFSIGNALED(status)) ::raise(WTERMSIG(status));
      return WEXITSTATUS(status);
    }
    // A path that one_line() has changed refuses no file: the plugin ends the next child, too, and
    // this call then fails.
    if (!refused.emplace(loading, ending(status)).second)
      throw PluginError(std::string(loading) + ": " + ending(status));
    loading[0] = '\0';
  }
}

}  // namespace privgrad::tool
