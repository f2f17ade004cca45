#include "records.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "privgrad/pipeline/run.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

/// What a run ends with: its status, or what it threw.
std::string end_of_run(const Plan& plan, const fs::path& directory) {
  std::atomic<bool> stop = false;
  const auto after_the_first = [&](const Progress& progress) {
    if (progress.step > 0) stop = true;
  };
  try {
    const RunResult result = run(plan, {.directory = directory,
                                        .lock = "",
                                        .threads = 1,
                                        // Of two runs, one begins after the other.
                                        .state = {},
                                        .date = "1970-01-01T00:00:00Z",
                                        .on_progress = after_the_first,
                                        .stop = &stop});
    return std::string(to_text(result.status)) + " after step " + std::to_string(result.steps);
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  if (!fs::exists(directory)) return names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The statement but for the commitment to the data: with a seed anybody can open it, and without one
/// it is another in each run and tells nobody anything.
std::string statement_in(const fs::path& directory) {
  nlohmann::json statement =
      nlohmann::json::parse(content_of(directory / "statement.json"), nullptr, false);
  if (statement.is_object()) statement.erase("data_commitment");
  return statement.dump();
}

}  // namespace

std::optional<std::string> difference_of(const LedgerContents& a, const LedgerContents& b) {
  if (a.releases.size() != b.releases.size()) {
    return "the ledgers have " + std::to_string(a.releases.size()) + " and " +
           std::to_string(b.releases.size()) + " releases";
  }
  for (std::size_t i = 0; i < a.releases.size(); ++i) {
    const auto &x = a.releases[i], &y = b.releases[i];
    if (x.step != y.step || x.event != y.event || x.epsilon != y.epsilon || x.what != y.what)
      return "line " + std::to_string(i + 2) + " of the ledger is another";
  }
  if (a.status != b.status) return "the ledgers end otherwise";
  return std::nullopt;
}

std::vector<std::string> differing_records(const Plan& plan, const RunData& raw, LastRow change,
                                           std::uint64_t seed, const fs::path& folder) {
  Manifest manifest = *plan.manifest;
  manifest.seed = seed;
  manifest.account.reset();
  Plan a = plan_on(plan, raw, LastRow::as_it_is), b = plan_on(plan, raw, change);
  a.manifest = b.manifest = &manifest;
  std::vector<std::string> found;
  const std::string end_a = end_of_run(a, folder / "a"), end_b = end_of_run(b, folder / "b");
  if (end_a != end_b) found.push_back("the runs end otherwise: " + end_a + "; " + end_b);
  if (names_in(folder / "a") != names_in(folder / "b")) found.emplace_back("other files are left");
  for (const char* name : {"manifest.yaml", "privgrad.lock", "facts.json", "schedules.json"}) {
    if (content_of(folder / "a" / name) != content_of(folder / "b" / name))
      found.push_back(std::string(name) + " is another");
  }
  if (statement_in(folder / "a") != statement_in(folder / "b"))
    found.emplace_back("statement.json is another");
  const std::string model_a = content_of(folder / "a" / "model.safetensors"),
                    model_b = content_of(folder / "b" / "model.safetensors");
  if (model_a.size() != model_b.size()) found.emplace_back("model.safetensors has another size");
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  if (lines(content_of(folder / "a" / "metrics.jsonl")) !=
      lines(content_of(folder / "b" / "metrics.jsonl")))
    found.emplace_back("metrics.jsonl has another number of lines");
  if (fs::exists(folder / "a" / "ledger.jsonl") && fs::exists(folder / "b" / "ledger.jsonl")) {
    const auto text = difference_of(read_ledger(folder / "a" / "ledger.jsonl"),
                                    read_ledger(folder / "b" / "ledger.jsonl"));
    if (text) found.push_back(*text);
    if (fs::file_size(folder / "a" / "ledger.jsonl") !=
        fs::file_size(folder / "b" / "ledger.jsonl"))
      found.emplace_back("ledger.jsonl has another size");
  }
  return found;
}

}  // namespace privgrad::core
