#include "record.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <system_error>

#include "privgrad/error.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/json_problem.hpp"
#include "privgrad/trust/ledger_reader.hpp"

namespace privgrad::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Larger files are refused; files that PrivGrad writes are far smaller.
constexpr std::size_t kMostDocumentBytes = std::size_t{16} << 20;
constexpr std::size_t kMostLineBytes = std::size_t{64} << 10;
constexpr int kMostDepth = 32;
// Longer files of metrics or rounds are not drawn, because reading them would take seconds.
constexpr std::uintmax_t kMostMetricsBytes = std::uintmax_t{64} << 20;
constexpr std::uintmax_t kMostLedgerBytes = std::uintmax_t{64} << 20;

[[noreturn]] void fail(const std::string& source, const std::string& what) {
  throw IoError(source + ": " + what);
}

Json parse_object(std::string_view content, const std::string& source) {
  if (const std::string wrong = core::json_problem(kMostDepth, content); !wrong.empty())
    fail(source, wrong);
  Json json = Json::parse(content, nullptr, false);
  if (!json.is_object()) fail(source, "holds no JSON object, as PrivGrad writes it");
  return json;
}

bool is_there(const fs::path& file) {
  std::error_code failure;
  return fs::exists(file, failure);
}

std::uintmax_t size_of(const fs::path& file) {
  std::error_code failure;
  const std::uintmax_t size = fs::file_size(file, failure);
  if (failure) fail(file.string(), "cannot be read: " + failure.message());
  return size;
}

FederatedRound federated_round(const Json& json, const std::string& source) {
  FederatedRound round{core::facts_in<core::RoundLine>(json, source), {}};
  if (round.round == 0) fail(source, "has no 'round' of at least 1");
  if (json.contains("clients"))
    round.participation = core::facts_in<core::RoundParticipation>(json, source);
  return round;
}

/// Calls `use` with the JSON object on each complete line, and with the line's place (FILE:LINE).
/// Of a file that is too long, only adds a note.
template <class Use>
void read_lines(const fs::path& file, RunRecord& record, const Use& use) {
  const std::string name = file.filename().string();
  if (size_of(file) > kMostMetricsBytes) {
    record.notes.push_back(name + " is longer than 64 MiB and is not drawn here.");
    return;
  }
  const std::string content = read_text(file, kMostMetricsBytes);
  std::size_t number_of_line = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    if (end == content.npos) {
      record.notes.push_back("The last line of " + name + " is truncated and is left out.");
      return;
    }
    const std::string source = file.string() + ":" + std::to_string(++number_of_line);
    const auto line = std::string_view(content).substr(begin, end - begin);
    if (line.size() > kMostLineBytes) fail(source, "is longer than any line of a run");
    use(parse_object(line, source), source);
    begin = end + 1;
  }
}

void read_measurements(const fs::path& file, RunRecord& record) {
  read_lines(file, record, [&](const Json& json, const std::string& source) {
    record.measurements.push_back(core::facts_in<Measurement>(json, source));
    if (!record.measurements.back().step) fail(source, "has no 'step' of at least 0");
    const auto& all = record.measurements;
    if (all.size() > 1 && all.back().step < all[all.size() - 2].step) {
      fail(source, "has an earlier step than the line before it");
    }
  });
}

void read_rounds(const fs::path& file, RunRecord& record) {
  read_lines(file, record, [&](const Json& json, const std::string& source) {
    record.rounds.push_back(federated_round(json, source));
    const auto& all = record.rounds;
    if (all.size() > 1 && all.back().round <= all[all.size() - 2].round) {
      fail(source, "has an earlier round than the line before it");
    }
  });
}

void read_spending(const fs::path& file, RunRecord& record) {
  if (size_of(file) > kMostLedgerBytes) {
    record.notes.push_back(
        "ledger.jsonl is longer than 64 MiB: its chain was not checked here, and epsilon is drawn "
        "where it was measured.");
    for (const Measurement& one : record.measurements) {
      if (one.epsilon) record.spent.push_back(point(*one.step, *one.epsilon));
    }
    if (!record.measurements.empty()) record.last_epsilon = record.measurements.back().epsilon;
    return;
  }
  const core::LedgerContents ledger = core::read_ledger(file);
  if (ledger.torn_tail) {
    record.notes.push_back(
        "The last line of ledger.jsonl is truncated and is ignored; nothing was released for it.");
  }
  for (std::size_t i = 0; i < ledger.releases.size(); ++i) {
    const double epsilon = ledger.releases[i].epsilon;
    // Other releases, such as checks of adaptive noise, are part of the total at the next step.
    if (ledger.releases[i].what.empty()) ++record.charged_steps;
    if (!std::isfinite(epsilon) || !ledger.releases[i].what.empty()) continue;
    // Steps that were paid for together have the same total: only the first and last are drawn.
    const bool inside = i > 0 && i + 1 < ledger.releases.size() &&
                        ledger.releases[i - 1].epsilon == epsilon &&
                        ledger.releases[i + 1].epsilon == epsilon;
    if (!inside) record.spent.push_back(point(record.charged_steps, epsilon));
  }
  if (!ledger.releases.empty() && std::isfinite(ledger.releases.back().epsilon)) {
    record.last_epsilon = ledger.releases.back().epsilon;
  }
}

/// Checks the chains of the clients' ledgers. The run's total is the largest total of a ledger.
void read_client_spending(const fs::path& folder, RunRecord& record) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) bytes += size_of(entry.path());
  if (bytes > kMostLedgerBytes) {
    record.notes.push_back(
        "The clients' ledgers are longer than 64 MiB: their chains were not checked here.");
  } else {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const core::LedgerContents ledger = core::read_ledger(entry.path());
      if (ledger.torn_tail) {
        record.notes.push_back("The last line of " + entry.path().filename().string() +
                               " is truncated; nothing was released for it.");
      }
      if (ledger.releases.empty()) continue;
      const double epsilon = ledger.releases.back().epsilon;
      record.charged_steps = std::max<std::uint64_t>(record.charged_steps, ledger.releases.size());
      if (std::isfinite(epsilon))
        record.last_epsilon = std::max(record.last_epsilon.value_or(0.0), epsilon);
    }
  }
  for (const FederatedRound& round : record.rounds) {
    if (round.charged_epsilon) record.spent.push_back(point(round.steps, *round.charged_epsilon));
  }
}

std::uintmax_t size_of_ledgers(const fs::path& directory) {
  std::uintmax_t bytes = 0;
  std::error_code failure;
  if (is_there(directory / "ledger.jsonl")) bytes += size_of(directory / "ledger.jsonl");
  for (const auto& entry : fs::directory_iterator(directory / "ledgers", failure))
    bytes += size_of(entry.path());
  return bytes;
}

}  // namespace

std::string read_text(const fs::path& file, std::size_t most_bytes) {
  if (!is_there(file)) fail(file.string(), "is missing");
  std::string content = core::read_beginning(file, most_bytes + 1);
  if (content.size() > most_bytes) fail(file.string(), "is larger than any that PrivGrad writes");
  return content;
}

Json read_object(const fs::path& file) {
  return parse_object(read_text(file, kMostDocumentBytes), file.string());
}

std::optional<double> number(const Json& object, const char* key, const std::string& source) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_number()) fail(source, std::string("'") + key + "' is not a number");
  const double value = found->get<double>();
  if (!std::isfinite(value)) fail(source, std::string("'") + key + "' is not a finite number");
  return value;
}

std::optional<std::string> text(const Json& object, const char* key, const std::string& source) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) fail(source, std::string("'") + key + "' is not text");
  return found->get<std::string>();
}

const Json& list(const Json& object, const char* key, const std::string& source) {
  static const Json none = Json::array();
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return none;
  if (!found->is_array()) fail(source, std::string("'") + key + "' is not a list");
  return *found;
}

const Json& objects(const Json& object, const char* key, const std::string& source) {
  const Json& all = list(object, key, source);
  if (!std::all_of(all.begin(), all.end(), [](const Json& one) { return one.is_object(); }))
    fail(source, std::string("'") + key + "' holds something that is not an object");
  return all;
}

const Json& members(const Json& object, const char* key, const std::string& source) {
  static const Json none = Json::object();
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return none;
  if (!found->is_object()) fail(source, std::string("'") + key + "' is not an object");
  return *found;
}

bool is_run(const fs::path& directory) {
  return is_there(directory / "manifest.yaml") && is_there(directory / "metrics.jsonl");
}

RunRecord read_run(const fs::path& directory) {
  RunRecord record;
  record.directory = directory;
  record.manifest = read_text(directory / "manifest.yaml", kMostDocumentBytes);
  if (is_there(directory / "privgrad.lock")) {
    record.lock = read_text(directory / "privgrad.lock", kMostDocumentBytes);
  }
  if (is_there(directory / "summary.json"))
    record.summary = read_facts<core::Summary>(directory / "summary.json");
  if (is_there(directory / "statement.json"))
    record.statement = read_facts<core::Statement>(directory / "statement.json");
  if (is_there(directory / "schedules.json"))
    record.schedules = read_facts<core::ScheduleRecord>(directory / "schedules.json");
  read_measurements(directory / "metrics.jsonl", record);
  record.has_ledger = is_there(directory / "ledger.jsonl");
  if (record.has_ledger) read_spending(directory / "ledger.jsonl", record);
  if (is_there(directory / "rounds.jsonl")) read_rounds(directory / "rounds.jsonl", record);
  if (is_there(directory / "clients.json"))
    record.clients = read_facts<core::ClientTable>(directory / "clients.json");
  if (is_there(directory / "ledgers")) {
    record.has_ledger = true;
    read_client_spending(directory / "ledgers", record);
  }
  read_bindings(record);
  return record;
}

void read_bindings(RunRecord& record) {
  if (size_of_ledgers(record.directory) > kMostLedgerBytes) {
    record.notes.push_back(
        "The ledgers are longer than 64 MiB: whether the files are those that they bind was not "
        "checked here; privgrad verify does.");
    return;
  }
  core::Evidence evidence = core::read_evidence(core::RecordDirectory(record.directory));
  record.problems = std::move(evidence.problems);
  record.last_lines = evidence.seals();
  const bool claims_privacy = record.statement && record.statement->noise;
  if (evidence.ledgers.empty() && record.problems.empty() && claims_privacy)
    record.problems.emplace_back("ledger.jsonl: is missing");
}

}  // namespace privgrad::report
