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
  // This order matters: each open() takes the lowest free number, so all smaller numbers must be
  // taken already.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_closed(descriptor)) continue;
    // The direction is wrong on purpose, so that any use of the stream fails. O_CLOEXEC is not set,
    // so that a companion inherits the stream.
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", flags) != descriptor) fail();
  }
}

}  // namespace privgrad::tool
