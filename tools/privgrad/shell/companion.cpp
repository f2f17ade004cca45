#include "companion.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "exit_code.hpp"
#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

std::string path_of(const std::string& name, const std::string& remedy) {
  const fs::path companion = installation() / "lib/privgrad" / name;
  if (!fs::exists(companion)) throw IoError(companion.string() + ": is missing; " + remedy);
  return companion.string();
}

}  // namespace

fs::path installation() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path(); }

void become_companion(const std::string& name, std::vector<std::string> words,
                      const std::string& remedy) {
  words.insert(words.begin(), path_of(name, remedy));
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  throw IoError(words.front() + ": cannot be started: " + std::generic_category().message(errno));
}

int run_companion(const std::string& name, std::vector<std::string> words, const fs::path& errors) {
  const int file = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) throw IoError(errors.string() + ": " + std::generic_category().message(errno));
  std::cout.flush();  // otherwise the child would print it too
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(file, STDERR_FILENO);
    ::_exit(with_exit_code([&]() -> int { become_companion(name, std::move(words)); }));
  }
  ::close(file);
  if (child < 0) throw IoError("no child process: " + std::generic_category().message(errno));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw IoError("a child process: " + std::generic_category().message(errno));
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  throw PluginError(name + " was ended by signal " + std::to_string(WTERMSIG(status)));
}

}  // namespace privgrad::tool
