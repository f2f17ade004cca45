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

namespace privgrad::report {

/// One line of metrics.jsonl.
struct Measurement {
  double step = 0.0;
  std::optional<double> epsilon;  ///< Nothing: infinite.
  std::optional<double> train_loss, train_accuracy, test_loss, test_accuracy;
  std::optional<double> clip_norm, clipped_fraction;
  std::optional<double> round;            ///< In a federated run: how many had been made.
  std::optional<double> charged_epsilon;  ///< Likewise: the total of the fullest ledger.
};

/// One line of rounds.jsonl.
struct FederatedRound {
  double round = 0.0;               ///< From 1 on.
  double local_iterations = 0.0;    ///< Steps of each client.
  double steps = 0.0;               ///< The most that a client had made by then.
  bool shows_participation = true;  ///< No if secret, in release mode; then these are 0:
  double clients = 0.0, dropped = 0.0;
  std::optional<double> refused;  ///< Who came early; nothing: nobody can.
  double bytes_down = 0.0, bytes_up = 0.0;
  std::optional<double> charged_epsilon;  ///< Nothing: infinite.
};

/// The files that a run left. A run that was cut off lacks the later ones; each is whole, except
/// for the last line of a file that grows, which a kill can cut off and which is left out.
struct RunRecord {
  std::filesystem::path directory;
  std::string manifest;                     ///< As resolved.
  std::string lock;                         ///< "" if there is none.
  std::optional<nlohmann::json> summary;    ///< Nothing: the run did not come to its end.
  std::optional<nlohmann::json> statement;  ///< Nothing: none was written.
  std::optional<nlohmann::json> schedules;
  std::vector<Measurement> measurements;

  std::vector<FederatedRound> rounds;     ///< Empty: a central run, or none was made.
  std::optional<nlohmann::json> clients;  ///< clients.json, in a federated run.

  bool has_ledger = false;   ///< A run without noise has none.
  std::vector<Point> spent;  ///< Epsilon after so many charged steps; finite ones.
  std::uint64_t charged_steps = 0;
  std::optional<double> last_epsilon;  ///< At the ledger's last charge; nothing: infinite or none.
  std::vector<std::string> notes;      ///< Remarks for readers about the record itself.

  /// Why this is not the record that its ledgers bind ("FILE: what is wrong"); empty if it is, as
  /// far as can be seen without the plugins.
  std::vector<std::string> problems;
  std::vector<std::pair<std::string, std::string>> last_lines;  ///< Each ledger's name and hash.
};

/// Finds out whether the files of a run are those that its ledgers bind, and by which last lines.
/// \param record  with directory and statement; problems, last_lines and notes are filled in.
void read_bindings(RunRecord& record);

/// Whether the directory holds a run, or the beginning of one.
bool is_run(const std::filesystem::path& directory);

/// \throws IoError "FILE:LINE: what is wrong" for a file that cannot be read, is larger than runs
///   write, or holds no JSON or members of a wrong type, and for a ledger whose chain is broken.
RunRecord read_run(const std::filesystem::path& directory);

/// A whole file.
/// \throws IoError if it cannot be read or holds more than `most_bytes`.
std::string read_text(const std::filesystem::path& file, std::size_t most_bytes);

/// A file with one JSON object.
/// \throws IoError
nlohmann::json read_object(const std::filesystem::path& file);

/// Members of a record, or nothing where they are missing or null.
/// \throws IoError naming `source` and the member if it has another type.
std::optional<double> number(const nlohmann::json& object, const char* key,
                             const std::string& source);
std::optional<std::string> text(const nlohmann::json& object, const char* key,
                                const std::string& source);

/// A member that is a list (an object); empty where it is missing or null.
/// \throws IoError
const nlohmann::json& list(const nlohmann::json& object, const char* key,
                           const std::string& source);
const nlohmann::json& members(const nlohmann::json& object, const char* key,
                              const std::string& source);

/// The texts of a list.
/// \throws IoError if an element is not a text.
std::vector<std::string> texts(const nlohmann::json& object, const char* key,
                               const std::string& source);

}  // namespace privgrad::report
