// Runs made by an earlier build (README.md): this build reports the same as that build did.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/api/model_call.hpp"
#include "privgrad/api/verification.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/record/plan_facts.hpp"
#include "privgrad/report/report.hpp"
#include "process.hpp"
#include "verify.hpp"

namespace {

namespace fs = std::filesystem;
using namespace privgrad;
using Json = nlohmann::json;

const fs::path kKept = kSource / "tests/kept_runs";

Json verification_of(const fs::path& run) {
  api::VerifyRequest request;
  request.directory = run;
  Json said = api::to_json(api::verify(request, core::RecordDirectory(run), house()));
  // Only the note about plugin files differs between builds.
  std::erase_if(said.at("notes").get_ref<Json::array_t&>(), [](const Json& note) {
    return note.get<std::string>().starts_with("the plugins or the program are not the files");
  });
  return said;
}

/// Returns the numbers that `privgrad predict --json` prints for the rows.
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

/// Returns the paragraphs of a text, without the line breaks within them.
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
  CHECK(Json(paragraphs(report::statement(run, "text"))) == kept.at("report"));
}

/// The folders of the archive; related ones are in one test.
const std::vector<std::vector<std::string>> kKinds{
    {"accountants", "samplers"}, {"schedules", "clippings", "optimizers"},
    {"aggregators", "models"},   {"statistics", "release"},
    {"federated", "studies"},    {"audited", "resumed", "stopped"}};

Json answers() { return Json::parse(read_file(kKept / "answers.json")); }

void unpack(const TempDir& dir) {
  const Outcome unpacked = call(
      {.words = {"/bin/tar", "-xzf", (kKept / "runs.tar.gz").string(), "-C", dir.path().string()}});
  REQUIRE(unpacked.exit_code == 0);
}

void check_runs(std::size_t kinds) {
  const Json all = answers();
  const TempDir dir;
  unpack(dir);
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

namespace {

template <core::Facts File>
Json again(const fs::path& path) {
  return core::to_json(core::facts_in<File>(Json::parse(read_file(path)), path.string()));
}

}  // namespace

TEST_CASE("the plans, schedules and tables of clients are read and written again whole") {
  const std::map<std::string, Json (*)(const fs::path&)> forms{
      {"plan.json", again<core::PlanFacts>},
      {"schedules.json", again<core::ScheduleRecord>},
      {"clients.json", again<core::ClientTable>}};
  const TempDir dir;
  unpack(dir);
  std::map<std::string, int> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir.path())) {
    const auto form = forms.find(entry.path().filename().string());
    if (form == forms.end()) continue;
    INFO(entry.path());
    CHECK(form->second(entry.path()) == Json::parse(read_file(entry.path())));
    ++files[form->first];
  }
  for (const auto& [name, _] : forms) {
    INFO(name);
    CHECK(files[name] > 1);
  }
}

TEST_CASE("a run with a component that was removed: its events add up, or it does not verify") {
  const TempDir dir;
  unpack(dir);
  const fs::path run = dir.path() / "aggregators/discrete-gaussian";
  const std::vector<Json> kept = verify::json_lines(run / "ledger.jsonl");
  const auto problems_of = [&](const std::function<void(std::vector<Json>&)>& edit) {
    std::vector<Json> lines = kept;
    edit(lines);
    verify::write_chain(run / "ledger.jsonl", lines);
    return verify::all_of(verify::check(run).problems);
  };
  CHECK(problems_of([](auto&) {}) == "");
  CHECK_THAT(problems_of([](auto& lines) { lines[3].at("event").at("rho") = 0.2; }),
             ContainsSubstring("ledger.jsonl:4: says that epsilon is"));
  CHECK_THAT(problems_of([](auto& lines) { lines[3].at("epsilon") = 0.1; }),
             ContainsSubstring("ledger.jsonl:4: says that epsilon is 0.1 so far"));
  CHECK_THAT(problems_of([](auto& lines) {
               lines[3].at("event") = {{"event", "magic"}};
             }),
             ContainsSubstring("ledger.jsonl:4: is a release that is not planned"));
  CHECK_THAT(problems_of([](auto& lines) { lines.at(7).at("releases_charged") = 5; }),
             ContainsSubstring("does not state the total of the lines before it"));
  CHECK_THAT(problems_of([](auto& lines) { lines[0].at("target_epsilon") = 9.0; }),
             ContainsSubstring("has another 'target_epsilon' than"));
  // A statement that promises more than the events prove, bound by a forged ledger.
  const auto bind = [&](const std::string& file, std::vector<Json>& lines) {
    lines.at(7).at("files").at(file) = core::sha256_hex(read_file(run / file));
  };
  for (const char* file : {"statement.json", "summary.json"}) {
    const std::string text = read_file(run / file);
    Json changed = Json::parse(text);
    Json& statement = file == std::string("summary.json") ? changed.at("statement") : changed;
    statement.at("epsilon") = 1.0;
    write_file(run / file, changed.dump());
    const std::string problems = problems_of([&](auto& lines) { bind(file, lines); });
    CHECK_THAT(problems, ContainsSubstring("holds another statement than statement.json"));
    const bool is_promise = file == std::string("statement.json");
    CHECK((problems.find("says a smaller epsilon") != problems.npos) == is_promise);
    write_file(run / file, text);
  }
}
