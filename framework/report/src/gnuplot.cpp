#include "gnuplot.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "privgrad/error.hpp"

namespace privgrad::report {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// An unnamed temporary file, so that nothing is left behind. Files instead of pipes, so that
/// neither side ever waits for the other.
File nameless_file() {
  File file(std::tmpfile(), &std::fclose);
  if (file == nullptr) throw IoError("a temporary file for gnuplot cannot be made");
  return file;
}

std::string content_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 4096> part{};
  for (std::size_t read = 0; (read = std::fread(part.data(), 1, part.size(), file)) > 0;)
    text.append(part.data(), read);
  return text;
}

/// The first line that is not blank.
std::string first_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return "it said nothing";
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

std::string gnuplot(const std::string& commands) {
  const File in = nameless_file(), out = nameless_file(), said = nameless_file();
  if (std::fwrite(commands.data(), 1, commands.size(), in.get()) != commands.size() ||
      std::fflush(in.get()) != 0) {
    throw IoError("the commands for gnuplot cannot be written");
  }
  std::rewind(in.get());
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_adddup2(&streams, fileno(in.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&streams, fileno(out.get()), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&streams, fileno(said.get()), STDERR_FILENO);
  std::array<char, 8> name{"gnuplot"};
  std::array<char, 3> defaults{"-d"};
  const std::array<char*, 3> words{name.data(), defaults.data(), nullptr};
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, name.data(), &streams, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&streams);
  if (failure != 0) {
    throw IoError(
        "gnuplot, which draws charts as SVG, cannot be started; install it (Debian: "
        "gnuplot-nox)");
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw IoError("gnuplot failed: " + first_line(content_of(said.get())));
  return content_of(out.get());
}

}  // namespace privgrad::report
