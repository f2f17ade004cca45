// Every fault undergoes everything that could find it: the conformance suite, the core and the
// neighbouring-run test. docs/falsify.md lists the results, which this test checks.
#include <cstdlib>
#include <map>
#include <set>

#include "fault.hpp"
#include "findings.hpp"
#include "privgrad/falsify/falsify.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

/// The manifest of which each fault changes one line.
constexpr const char* kBase = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 60, dimensions: 4}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp, conversion: classic}}
steps: 10
)";

/// The findings about a fault, in order: a rule, a kind of error, a name from falsify().
struct Verdicts {
  std::string suite, core, replay;
  std::string detail;  ///< The message of the first finding.
  bool found() const { return !suite.empty() || !core.empty() || !replay.empty(); }
};

/// Whether rules after the first finding are checked too, because some faults count their calls.
enum class Suite { until_found = 1, whole };

std::string suite_verdict(const Fault& fault, Suite suite, std::string& detail) {
  const auto failure = suite == Suite::whole ? first_failure(findings_on(fault.factory))
                                             : first_failure_on(fault.factory);
  if (!failure) return "";
  detail = failure->detail;
  return failure->rule;
}

/// Names an error's kind. For an error of the plugin itself, only the lack of a model matters.
std::string kind_of_error(const std::exception& problem) {
  if (dynamic_cast<const PrivacyError*>(&problem) != nullptr) return "PrivacyError";
  if (dynamic_cast<const ConfigError*>(&problem) != nullptr) return "ConfigError";
  if (dynamic_cast<const IoError*>(&problem) != nullptr) return "IoError";
  if (dynamic_cast<const PluginError*>(&problem) != nullptr) return "PluginError";
  if (dynamic_cast<const NumericError*>(&problem) != nullptr) return "NumericError";
  return "exception";
}

/// Whether an entry is listed for the base manifest whatever its components, so that it indicates
/// no fault.
bool is_of_the_manifest(const std::string& listed) {
  return listed.ends_with("metrics") || listed == "number of training examples";
}

/// Plans and runs, and then makes the neighbouring-run test if both succeeded.
void pipeline_verdicts(const Fault& fault, Verdicts& verdicts) {
  const Catalog catalog = house_with({fault.factory});
  Experiment experiment(kBase, fault.place, catalog);
  std::string detail;
  try {
    const auto& plan = experiment.plan();
    const auto result = experiment.run();
    if (result.status == core::RunStatus::diverged) verdicts.core = "diverged";
    if (!plan.unaccounted.empty() && verdicts.core.empty()) {
      for (const auto& listed : plan.unaccounted) {
        if (!is_of_the_manifest(listed.what)) verdicts.core = "unaccounted: " + listed.what;
      }
    }
  } catch (const std::exception& problem) {
    verdicts.core = kind_of_error(problem);
    detail = problem.what();
  }
  if (verdicts.core.empty() || verdicts.core.starts_with("unaccounted")) {
    try {
      const auto result = core::falsify(experiment.plan(), {.steps = 10, .threads = 2});
      if (!result.differences.empty()) {
        verdicts.replay = result.differences.front().what;
        detail = result.differences.front().detail;
      }
    } catch (const std::exception& problem) {
      verdicts.core = kind_of_error(problem);
      detail = problem.what();
    }
  }
  if (verdicts.detail.empty()) verdicts.detail = detail;
}

Verdicts verdicts_on(const Fault& fault, Suite suite) {
  Verdicts verdicts;
  verdicts.suite = suite_verdict(fault, suite, verdicts.detail);
  pipeline_verdicts(fault, verdicts);
  return verdicts;
}

std::string cell(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string outcome(const Fault& fault, const Verdicts& verdicts) {
  std::string text;
  const auto add = [&](const char* who, const std::string& what) {
    if (!what.empty()) text += (text.empty() ? "" : ", ") + std::string(who) + " " + cell(what);
  };
  add("suite", verdicts.suite);
  add("core", verdicts.core);
  add("replay", verdicts.replay);
  if (!text.empty()) return text;
  switch (fault.let) {
    case Let::harmless:
      return "not found, harmless: " + fault.why;
    case Let::trusted:
      return "not found, trusted: " + fault.why;
    case Let::gap:
      return "**gap**: " + fault.why;
    case Let::not_through:
      break;
  }
  return "**not found**";
}

std::string row_of(const Fault& fault, const Verdicts& verdicts) {
  return "| `" + fault.id + "` | " + fault.imitates + " | " + outcome(fault, verdicts) + " |";
}

const std::filesystem::path kPage = kSource / "docs/falsify.md";

/// Returns the rows of the page, by the fault's name.
std::map<std::string, std::string> rows_of_page() {
  std::map<std::string, std::string> rows;
  std::ifstream in(kPage);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| `")) continue;
    rows[line.substr(3, line.find('`', 3) - 3)] = line;
  }
  return rows;
}

void check_kind(std::vector<Fault> faults, Suite suite = Suite::until_found) {
  const auto rows = rows_of_page();
  const char* out = std::getenv("PRIVGRAD_FAULTS_OUT");
  const Fault control = faults.front();
  {
    const Verdicts verdicts = verdicts_on(control, suite);
    INFO(control.id << ": " << verdicts.detail);
    CHECK(outcome({.id = "", .imitates = "", .factory = {}, .place = {}, .let = Let::harmless},
                  verdicts) == "not found, harmless: ");
  }
  faults.erase(faults.begin());
  for (const Fault& fault : faults) {
    const Verdicts verdicts = verdicts_on(fault, suite);
    const std::string row = row_of(fault, verdicts);
    if (out != nullptr) std::ofstream(out, std::ios::app) << row << "\n";
    INFO(fault.id << ", " << fault.imitates << ": " << verdicts.detail);
    CHECK((fault.let != Let::not_through) != verdicts.found());
    // Release mode requires a plugin's record of the suite, but not of the neighbouring-run test.
    CHECK((verdicts.replay.empty() || !(verdicts.suite + verdicts.core).empty()));
    const auto listed = rows.find(fault.id);
    CHECK((listed == rows.end() ? "docs/falsify.md lacks it" : listed->second) == row);
  }
}

}  // namespace

TEST_CASE("faults of samplers") { check_kind(sampler_faults()); }
TEST_CASE("faults of samplers of random allocation") { check_kind(allocation_faults()); }
TEST_CASE("faults of aggregators") { check_kind(aggregator_faults()); }
TEST_CASE("faults of accountants") { check_kind(accountant_faults()); }
TEST_CASE("faults of clippings") { check_kind(clipping_faults()); }
TEST_CASE("faults of programs") { check_kind(program_faults()); }
TEST_CASE("faults of exact programs") { check_kind(exact_program_faults()); }
TEST_CASE("faults of transforms") { check_kind(transform_faults()); }
TEST_CASE("faults of what transforms give away") { check_kind(fitted_value_faults()); }
TEST_CASE("faults of transforms that learn from a release") { check_kind(statistic_faults()); }
TEST_CASE("faults of components that let out late what they were shown") {
  check_kind(smuggler_faults(), Suite::whole);
}
TEST_CASE("faults of schedules") { check_kind(schedule_faults()); }
TEST_CASE("faults of optimizers") { check_kind(optimizer_faults()); }
TEST_CASE("faults of models") { check_kind(model_faults()); }
TEST_CASE("faults of data sources") { check_kind(data_source_faults()); }
