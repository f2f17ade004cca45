#include "records.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "privgrad/trust/ledger_reader.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The names of all files below the directory.
std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  if (!fs::exists(directory)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), directory).string());
  }
  return names;
}

bool is_ledger(const std::string& name) {
  return name == "ledger.jsonl" || name.starts_with("ledgers/");
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Erases metrics on private rows, which a run in research mode publishes and lists as unaccounted.
void erase_private_metrics(Json& metrics, Mode mode) {
  if (mode != Mode::research || !metrics.is_object()) return;
  for (const char* name : {"train_loss", "train_accuracy", "gradient_norm"}) metrics.erase(name);
}

/// The lines of metrics.jsonl without the members that may differ.
std::string metrics_in(const std::string& text, Mode mode) {
  std::istringstream in(text);
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line, nullptr, false);
    erase_private_metrics(json, mode);
    if (json.contains("ema")) erase_private_metrics(json["ema"], mode);
    kept += json.dump() + "\n";
  }
  return kept;
}

/// The statement without the data commitment: with a seed anyone can open the commitment, and
/// without a seed it differs in each run and reveals nothing.
std::string statement_in(const std::string& text) {
  Json statement = Json::parse(text, nullptr, false);
  if (statement.is_object()) statement.erase("data_commitment");
  return statement.dump();
}

std::string summary_in(const std::string& text, Mode mode) {
  Json summary = Json::parse(text, nullptr, false);
  if (!summary.is_object()) return text;
  summary.erase("run_dir");
  if (mode == Mode::research) summary.erase("seconds");
  if (summary.contains("statement")) summary["statement"].erase("data_commitment");
  if (summary.contains("metrics")) erase_private_metrics(summary["metrics"], mode);
  if (summary.contains("checks") && mode == Mode::research)
    summary["checks"].erase("reported_differences");
  return summary.dump();
}

/// The size of a model file, and the trained numbers at its end. The other bytes contain the
/// ledger's hash and the transforms' learnt values, which may differ.
std::string parameters_in(const std::string& text, const Network& whole) {
  const std::size_t size = parameter_count(whole) * sizeof(float);
  return std::to_string(text.size()) + " bytes " +
         text.substr(text.size() - std::min(size, text.size()));
}

/// The part of a file that must not depend on the rows.
std::string public_part(const Plan& plan, const std::string& name, const std::string& text) {
  const Mode mode = plan.manifest->mode;
  if (name == "metrics.jsonl") return metrics_in(text, mode);
  if (name == "statement.json") return statement_in(text);
  if (name == "summary.json") return summary_in(text, mode);
  if (name == "model.safetensors") return parameters_in(text, plan.setting->whole);
  return text;
}

/// \returns the first release in which two ledgers differ; nothing if their releases are the same.
std::optional<std::string> difference_of(const LedgerContents& a, const LedgerContents& b) {
  if (a.releases.size() != b.releases.size()) {
    return "the ledgers have " + std::to_string(a.releases.size()) + " and " +
           std::to_string(b.releases.size()) + " releases";
  }
  for (std::size_t i = 0; i < a.releases.size(); ++i) {
    const auto &x = a.releases[i], &y = b.releases[i];
    if (x.step != y.step || x.event != y.event || x.epsilon != y.epsilon || x.what != y.what)
      return "line " + std::to_string(i + 2) + " of the ledger differs";
  }
  return std::nullopt;
}

}  // namespace

fs::path ledger_of(const fs::path& directory, std::optional<std::size_t> client) {
  return client ? directory / "ledgers" / ("client-" + std::to_string(*client) + ".jsonl")
                : directory / "ledger.jsonl";
}

std::vector<std::string> differing_ledgers(const fs::path& a, const fs::path& b) {
  std::vector<std::string> found;
  for (const std::string& name : names_in(a)) {
    if (!is_ledger(name) || !fs::exists(b / name)) continue;
    const auto text = difference_of(read_ledger(a / name), read_ledger(b / name));
    if (text) found.push_back(name + ": " + *text);
  }
  return found;
}

std::vector<std::string> differing_records(const Plan& plan, const fs::path& a, const fs::path& b) {
  std::vector<std::string> found;
  const std::set<std::string> names = names_in(a);
  if (names != names_in(b)) found.emplace_back("the runs leave different files");
  for (const std::string& name : names) {
    if (!fs::exists(b / name)) continue;
    const std::string in_a = content_of(a / name), in_b = content_of(b / name);
    if (is_ledger(name)) {
      if (in_a.size() != in_b.size()) found.push_back(name + " differs in size");
    } else if (public_part(plan, name, in_a) != public_part(plan, name, in_b)) {
      found.push_back(name + " differs");
    }
  }
  return found;
}

}  // namespace privgrad::core
