// Reads and checks the files that a run leaves in its directory, for pages about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/record/summary_facts.hpp"

namespace privgrad::report {

using Measurement = core::MetricsLine;

/// One line of rounds.jsonl. `participation` is absent in release mode if it is secret.
struct FederatedRound : core::RoundLine {
  std::optional<core::RoundParticipation> participation;
};

/// The files of a run. An interrupted run lacks the later files. Each file is complete, except that
/// a kill can truncate the last line of a growing file; such a line is left out.
struct RunRecord {
  std::filesystem::path directory;
  std::string manifest;                      ///< The resolved manifest.
  std::string lock;                          ///< "" if there is none.
  std::optional<core::Summary> summary;      ///< Absent for an interrupted run.
  std::optional<core::Statement> statement;  ///< Nothing if none was written.
  std::optional<core::ScheduleRecord> schedules;
  std::vector<Measurement> measurements;

  std::vector<FederatedRound> rounds;        ///< Empty for a central run, or if no round was made.
  std::optional<core::ClientTable> clients;  ///< In a federated run.

  bool has_ledger = false;   ///< False for a run without noise.
  std::vector<Point> spent;  ///< Epsilon by the number of charged steps; only finite values.
  std::uint64_t charged_steps = 0;
  /// The epsilon at the ledger's last charge; nothing if it is infinite or missing.
  std::optional<double> last_epsilon;
  std::vector<std::string> notes;  ///< Remarks for readers about the record itself.

  /// Contradictions between the files and the hashes in the ledgers ("FILE: the problem"), from all
  /// checks that need no plugins.
  std::vector<std::string> problems;
  /// The name of each ledger, and the hash of its last line.
  std::vector<std::pair<std::string, std::string>> last_lines;
};

/// Checks whether the files of a run match the hashes in its ledgers, and finds the ledgers' last
/// lines.
/// \param record  `directory` and `statement` are inputs; sets `problems` and `last_lines`, and
///   adds notes.
void read_bindings(RunRecord& record);

/// Whether the directory contains a run, or the beginning of a run.
bool is_run(const std::filesystem::path& directory);

/// \throws IoError "FILE:LINE: what is wrong" for a file that cannot be read, is larger than files
///   of runs, is not JSON or has members of a wrong type, and for a ledger with a broken chain.
RunRecord read_run(const std::filesystem::path& directory);

/// Reads a whole file.
/// \throws IoError if the file cannot be read, or is longer than `most_bytes`.
std::string read_text(const std::filesystem::path& file, std::size_t most_bytes);

/// \throws IoError if the file cannot be read, or is not one JSON object.
nlohmann::json read_object(const std::filesystem::path& file);
template <core::Facts T>
T read_facts(const std::filesystem::path& file) {
  return core::facts_in<T>(read_object(file), file.string());
}

/// number() and text() return a member of an object; nothing if it is missing or null.
/// \throws IoError naming `source` and the member if it has the wrong type or is not finite.
std::optional<double> number(const nlohmann::json& object, const char* key,
                             const std::string& source);
std::optional<std::string> text(const nlohmann::json& object, const char* key,
                                const std::string& source);

/// list() returns a member that is a list, and members() a member that is an object; the result is
/// empty if the member is missing or null.
/// \throws IoError if the member has another type.
const nlohmann::json& list(const nlohmann::json& object, const char* key,
                           const std::string& source);
const nlohmann::json& members(const nlohmann::json& object, const char* key,
                              const std::string& source);

/// Returns a member that is a list of objects; empty if it is missing or null.
/// \throws IoError if an element is not an object.
const nlohmann::json& objects(const nlohmann::json& object, const char* key,
                              const std::string& source);

}  // namespace privgrad::report
