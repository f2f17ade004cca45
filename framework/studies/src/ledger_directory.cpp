#include "ledger_directory.hpp"

#include <stdlib.h>  // mkdtemp is not in <cstdlib>

#include <string>
#include <system_error>

#include "privgrad/error.hpp"

namespace privgrad::core {

namespace fs = std::filesystem;

LedgerDirectory::LedgerDirectory() {
  for (const fs::path& place : {fs::path("/dev/shm"), fs::temp_directory_path()}) {
    std::string name = (place / "privgrad-audit-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) continue;
    path_ = name;
    return;
  }
  throw IoError("cannot make a temporary directory in " + fs::temp_directory_path().string());
}

LedgerDirectory::~LedgerDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path LedgerDirectory::file(std::uint64_t run) const {
  return path_ / (std::to_string(run) + ".jsonl");
}

}  // namespace privgrad::core
