// Calls the command in several processes, and compares the results of their runs.
#pragma once

#include <unistd.h>

#include <array>
#include <cstring>
#include <sstream>

#include "../cli/cli.hpp"
#include "shared_files.hpp"

inline constexpr const char* kMpirun = "/usr/bin/mpirun";

#define NEEDS_MPIRUN()                   \
  if (!std::filesystem::exists(kMpirun)) \
  PRIVGRAD_SKIP("no " << kMpirun << ": apt-get install openmpi-bin")

/// A shorter wait for a missing process than the default for users.
inline const std::string kMpi =
    "{kind: mpi, timeout_seconds: " + std::to_string(60 * kSlowness) + "}";

/// Returns mpirun as users may call it, with more processes than cores.
inline Words mpirun(const std::string& processes) {
  return {kMpirun, "--allow-run-as-root", "--oversubscribe", "-np", processes};
}

/// Returns a call of `privgrad WORDS... --cluster {kind: mpi, ...}` in this many processes.
inline Call in_processes(const Cli& cli, int processes, const Words& words) {
  Call what = cli.prepare(words);
  Words all = mpirun(std::to_string(processes));
  all.insert(all.end(), what.words.begin(), what.words.end());
  all.insert(all.end(), {"--cluster", kMpi});
  what.words = all;
  what.environment["HOME"] = cli.dir();
  what.environment["PATH"] = "/usr/bin:/bin";
  // Processes that copy from each other's memory need permissions that containers do not give.
  what.environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none";
  return what;
}

/// Returns the tensors of a model file, without the facts about its making.
inline std::string tensors(const std::filesystem::path& run) {
  const std::string file = read_file(run / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  return file.substr(8 + header);
}

/// Returns the lines of a ledger without the first, which has a date, the last, which depends on
/// the first, and the hashes, which do so, too.
inline std::vector<Json> charges_in(const std::filesystem::path& ledger) {
  std::vector<Json> lines;
  std::istringstream text(read_file(ledger));
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line);
    if (json.at("type") != "release") continue;
    for (const char* key : {"hash", "previous"}) json.erase(key);
    lines.push_back(std::move(json));
  }
  return lines;
}

inline std::vector<Json> charges(const std::filesystem::path& run) {
  return charges_in(run / "ledger.jsonl");
}

/// Returns the name that processes use for this machine.
inline std::string host_name() {
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  return name.data();
}
