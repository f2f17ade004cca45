#include "account_waits.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "output.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/trust/data_account.hpp"

namespace privgrad::tool {
namespace {

/// \returns the id of the process that has locked a file; "" if the system does not know it, for
///   example because the process runs on another machine.
std::string holder_of(const std::filesystem::path& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0) return "";
  std::array<char, 64> place{};
  std::snprintf(place.data(), place.size(), "%02x:%02x:%llu", ::major(facts.st_dev),
                ::minor(facts.st_dev), static_cast<unsigned long long>(facts.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // Format: "1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF"; a process that waits has "->" after
    // the first number.
    std::istringstream words(line);
    std::string number, kind, how, what, process, where;
    words >> number >> kind >> how >> what >> process >> where;
    if (kind == "FLOCK" && where == place.data()) return process;
  }
  return "";
}

/// Returns the command line of a process, as one line.
std::string call_of(const std::string& process) {
  constexpr std::size_t kShown = 160;
  std::ifstream in("/proc/" + process + "/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(in), {}};
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  words.resize(std::min(words.size(), kShown));
  return core::shown_line(words);
}

}  // namespace

void say_waits_for_accounts() {
  core::DataAccount::on_waiting([](const std::filesystem::path& account) {
    const std::string process = holder_of(account);
    const std::string called = call_of(process);
    complain("note",
             account.string() + ": waits for " +
                 (process.empty() ? "another process" : "process " + process) +
                 (called.empty() ? "" : " (" + called + ")") +
                 ", which holds this account, two minutes at most; a stopped process holds it "
                 "until it continues or ends");
  });
}

}  // namespace privgrad::tool
