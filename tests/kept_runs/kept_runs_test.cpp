// Runs that an earlier build left (README.md): what is said of them today is what that build said.
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/api/model_call.hpp"
#include "privgrad/api/verification.hpp"
#include "privgrad/report/report.hpp"
#include "process.hpp"

namespace {

namespace fs = std::filesystem;
using namespace privgrad;
using Json = nlohmann::json;

const fs::path kKept = kSource / "tests/kept_runs";

Json verification_of(const fs::path& run) {
  api::VerifyRequest request;
  request.directory = run;
  Json said = api::to_json(api::verify(request, core::RecordDirectory(run), house()));
  // Which files the plugins were is the one thing that every build says differently.
  std::erase_if(said.at("notes").get_ref<Json::array_t&>(), [](const Json& note) {
    return note.get<std::string>().starts_with("the plugins or the program are not the files");
  });
  return said;
}

/// The numbers that `privgrad predict --json` prints for the rows.
Json prediction_of(const fs::path& run, const std::string& points) {
  const api::ModelRequest request{
      .model = run.string(),
      .data = (kKept / "points" / (points + ".yaml")).string(),
      .split = std::nullopt,
  };
  const api::ModelCall call = api::open_model_call(request, house());
  const core::Predictions predictions = call.model->predict(call.rows);
  Json rows = Json::array();
  for (std::size_t row = 0; row < predictions.rows(); ++row) {
    if (predictions.has_probabilities()) rows.push_back(predictions.probabilities(row));
    if (!predictions.has_probabilities() && predictions.classes == 0)
      rows.push_back(predictions.of(row).front());
  }
  return {{predictions.has_probabilities() ? "probabilities" : "values", std::move(rows)}};
}

/// What a text says, without its line ends.
std::vector<std::string> paragraphs(const std::string& text) {
  std::vector<std::string> all(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) all.emplace_back();
    std::istringstream words(line);
    for (std::string word; words >> word;) all.back() += (all.back().empty() ? "" : " ") + word;
  }
  return all;
}

void check_run(const fs::path& run, const Json& kept) {
  const Json now = verification_of(run);
  CHECK(core::first_difference(now, kept.at("verify")).empty());
  CHECK(core::first_difference(kept.at("verify"), now).empty());
  INFO(now.dump(1));
  CHECK_NOTHROW(report::page(run));
  if (!kept.contains("predict")) return;
  CHECK(prediction_of(run, kept.at("points")) == kept.at("predict"));
  CHECK(Json(paragraphs(report::statement(run))) == kept.at("report"));
}

/// The folders of the archive, those beside each other in one test.
const std::vector<std::vector<std::string>> kKinds{
    {"accountants", "samplers"}, {"schedules", "clippings", "optimizers"},
    {"aggregators", "models"},   {"statistics", "release"},
    {"federated", "studies"},    {"audited", "resumed", "stopped"}};

Json answers() { return Json::parse(read_file(kKept / "answers.json")); }

void check_runs(std::size_t kinds) {
  const Json all = answers();
  const TempDir dir;
  const Outcome unpacked = call(
      {.words = {"/bin/tar", "-xzf", (kKept / "runs.tar.gz").string(), "-C", dir.path().string()}});
  REQUIRE(unpacked.exit_code == 0);
  for (const auto& [name, kept] : all.items()) {
    const auto& mine = kKinds.at(kinds);
    if (std::find(mine.begin(), mine.end(), name.substr(0, name.find('/'))) == mine.end()) continue;
    INFO(name);
    check_run(dir.path() / name, kept);
  }
}

}  // namespace

TEST_CASE("kept runs, by accountant and sampler: as ever") { check_runs(0); }
TEST_CASE("kept runs, by schedule, clipping and optimizer: as ever") { check_runs(1); }
TEST_CASE("kept runs, by aggregator, model and data: as ever") { check_runs(2); }
TEST_CASE("kept runs with released statistics, and in release mode: as ever") { check_runs(3); }
TEST_CASE("kept runs of clients, and of a study: as ever") { check_runs(4); }
TEST_CASE("kept runs that were stopped, taken up again or audited: as ever") { check_runs(5); }

TEST_CASE("every kept run is in one of these tests") {
  std::set<std::string> kinds, of_tests;
  const Json all = answers();
  for (const auto& [name, kept] : all.items()) kinds.insert(name.substr(0, name.find('/')));
  for (const auto& mine : kKinds) of_tests.insert(mine.begin(), mine.end());
  CHECK(kinds == of_tests);
}
