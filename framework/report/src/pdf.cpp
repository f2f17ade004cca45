#include "pdf.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "privgrad/error.hpp"

namespace privgrad::report {

bool write_pdf(const std::filesystem::path& svg, const std::filesystem::path& pdf) {
  std::filesystem::path part = pdf;
  part += ".part";
  std::array<std::string, 5> words{"rsvg-convert", "--format=pdf", "--output", part.string(),
                                   svg.string()};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  pid_t child = 0;
  const int failure =
      ::posix_spawnp(&child, words[0].c_str(), nullptr, nullptr, arguments.data(), environ);
  if (failure == ENOENT) return false;
  int status = 0;
  while (failure == 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::error_code lost;
  if (failure == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    std::filesystem::rename(part, pdf, lost);
  else
    lost = std::make_error_code(std::errc::io_error);
  if (lost) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw IoError(pdf.string() + ": cannot be written by rsvg-convert");
  }
  return true;
}

}  // namespace privgrad::report
