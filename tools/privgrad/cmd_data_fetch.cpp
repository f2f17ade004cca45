#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "command.hpp"
#include "data_fetch_usage.hpp"
#include "known_datasets.hpp"
#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// The program that downloads. It is one of its own because libcurl brings some thirty libraries
/// along, which would make every other command take 35 ms longer to start.
fs::path fetcher() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  const fs::path fetcher = program.parent_path().parent_path() / "lib/privgrad/privgrad-fetch";
  if (unknown || !fs::exists(fetcher, unknown)) {
    throw IoError(fetcher.string() + ": is missing; install PrivGrad again");
  }
  return fetcher;
}

int run(const Arguments& arguments) {
  // A wrong call is told before anything is started.
  find_dataset(known_datasets(), arguments.operand(0));
  std::vector<std::string> words{fetcher().string()};
  if (arguments.has("timeout")) {
    whole_number("timeout", arguments.text("timeout"), 1, kMostTimeout);
    words.push_back("--timeout=" + arguments.text("timeout"));
  }
  for (const char* option : {"json", "quiet"}) {
    if (arguments.has(option)) words.push_back(std::string("--") + option);
  }
  words.insert(words.end(), {"--", arguments.operand(0)});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(words.front().c_str(), pointers.data());
  throw IoError(words.front() + ": cannot be started: " + std::generic_category().message(errno));
}

}  // namespace

Command data_fetch_command() { return {.usage = data_fetch_usage(), .run = run}; }

}  // namespace privgrad::tool
