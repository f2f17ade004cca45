// Only for LD_PRELOAD in tests. Of the disk calls after the first charge, or from the start, one
// call fails, or that call and all later ones; or it kills the process.
//
// PRIVGRAD_TEST_FAILS_AT: the number of the call, counted from 1. PRIVGRAD_TEST_STAYS_FULL: set if
// all later calls fail too. PRIVGRAD_TEST_FAILED: the file to create when a call fails.
// PRIVGRAD_TEST_FROM_START: set if calls before a charge count too. PRIVGRAD_TEST_KILLS: set if the
// process is killed instead.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr std::string_view kCharge = "\"type\":\"release\"";

std::atomic<bool> is_charged{std::getenv("PRIVGRAD_TEST_FROM_START") != nullptr};
std::atomic<long> calls{0};

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool is_on_disk(int descriptor) {
  struct stat facts {};
  return descriptor > STDERR_FILENO && ::fstat(descriptor, &facts) == 0 &&
         (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode));
}

/// Decides whether this call fails, and if so, sets errno.
bool fails(int why) {
  if (!is_charged) return false;
  static const long at = std::atol(std::getenv("PRIVGRAD_TEST_FAILS_AT"));
  static const bool stays = std::getenv("PRIVGRAD_TEST_STAYS_FULL") != nullptr;
  const long number = ++calls;
  if (number != at && !(stays && number > at)) return false;
  const long made = ::syscall(SYS_openat, AT_FDCWD, std::getenv("PRIVGRAD_TEST_FAILED"),
                              O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ::syscall(SYS_close, made);
  if (std::getenv("PRIVGRAD_TEST_KILLS") != nullptr) ::kill(::getpid(), SIGKILL);
  errno = why;
  return true;
}

void look_for_charge(const void* bytes, std::size_t size) {
  if (!is_charged && ::memmem(bytes, size, kCharge.data(), kCharge.size()) != nullptr)
    is_charged = true;
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* from, std::size_t size) {
  static const auto real = next<ssize_t(int, const void*, std::size_t)>("write");
  if (is_on_disk(descriptor) && fails(ENOSPC)) return -1;
  const ssize_t done = real(descriptor, from, size);
  look_for_charge(from, size);
  return done;
}

ssize_t pwrite(int descriptor, const void* from, std::size_t size, off_t at) {
  static const auto real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  return is_on_disk(descriptor) && fails(ENOSPC) ? -1 : real(descriptor, from, size, at);
}

int fsync(int descriptor) {
  static const auto real = next<int(int)>("fsync");
  return is_on_disk(descriptor) && fails(EIO) ? -1 : real(descriptor);
}

int fdatasync(int descriptor) {
  static const auto real = next<int(int)>("fdatasync");
  return is_on_disk(descriptor) && fails(EIO) ? -1 : real(descriptor);
}

int ftruncate(int descriptor, off_t size) noexcept {
  static const auto real = next<int(int, off_t)>("ftruncate");
  return fails(EIO) ? -1 : real(descriptor, size);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int(const char*, const char*)>("rename");
  return fails(ENOSPC) ? -1 : real(from, to);
}

int mkostemp(char* name, int flags) {
  static const auto real = next<int(char*, int)>("mkostemp");
  return fails(ENOSPC) ? -1 : real(name, flags);
}

int mkdir(const char* name, mode_t mode) noexcept {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return fails(ENOSPC) ? -1 : real(name, mode);
}

/// The data may not have been written; the descriptor is closed anyway.
int close(int descriptor) {
  static const auto real = next<int(int)>("close");
  const int mode = ::fcntl(descriptor, F_GETFL);
  const bool is_written = mode >= 0 && (mode & O_ACCMODE) != O_RDONLY && is_on_disk(descriptor);
  const bool has_failed = is_written && fails(EIO);
  const int why = errno;
  const int result = real(descriptor);
  if (!has_failed) return result;
  errno = why;
  return -1;
}

}  // extern "C"
