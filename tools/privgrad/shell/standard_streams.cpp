#include "standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace privgrad::tool {
namespace {

bool is_closed(int descriptor) { return ::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF; }

[[noreturn]] void fail() {
  constexpr char kText[] =
      "privgrad: error: /dev/null: cannot be opened in place of a closed standard stream\n";
  constexpr int kInputOutput = 4;
  [[maybe_unused]] const auto nobody_to_tell = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(kInputOutput);
}

}  // namespace

void open_standard_streams() {
  // In this order: each open() takes the lowest number that is free, and those below are not.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_closed(descriptor)) continue;
    // The wrong way round on purpose. Without O_CLOEXEC: a companion inherits them.
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", flags) != descriptor) fail();
  }
}

}  // namespace privgrad::tool
