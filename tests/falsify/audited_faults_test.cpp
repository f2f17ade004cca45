// Which faults of falsify_test an audit finds, and how often: checks the table of docs/audit.md.
// (tests/pipelines/audit_test.cpp shows that an audit finds noise of half the charged size.)
#include <cstdlib>
#include <map>

#include "fault.hpp"
#include "privgrad/studies/audit.hpp"
#include "test_components.hpp"
#include "train.hpp"
#include "trials.hpp"

using namespace privgrad;

namespace {

constexpr const char* kAttacked = R"(privgrad: 1
name: attacked
data: {kind: synthetic, rows: 400, test_rows: 0, dimensions: 2}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: {kind: zcdp, conversion: classic}}
steps: 10
)";

constexpr int kAudits = 3;

/// A fault, in a run that it could affect.
struct Attacked {
  std::string id;
  std::vector<std::string> set;
  /// For faults of the core: settings of the run that is charged in place of the actual run.
  std::vector<std::string> charged = {};
  std::string imitates = {};
};

const std::string kPld = "privacy.accountant={kind: pld, relative_width: 0.001}";
// The accountant is called 64 times in each of some hundred runs.
const std::string kRdp = "privacy.accountant=rdp";
const std::string kGdp = "privacy.accountant=gdp";
const std::string kPoisson = "sampler={kind: poisson, sample_rate: 0.2}";
const std::string kPoissonOfPoisson = "sampler={kind: poisson, sample_rate: 0.04}";

/// Faults that understate the cost, or spend more than stated, by a factor; noise that repeats; and
/// batches whose distribution differs from the charged one, if the core lets them run.
const std::vector<Attacked>& attacked() {
  static const std::vector<Attacked> all{
      {"accountant/free_after_twenty", {"steps=40", "schedules.noise_multiplier=2"}},
      {"accountant/large_noise_is_free", {"steps=100", "schedules.noise_multiplier=4"}},
      {"accountant/small_noise_is_free", {"steps=1", "schedules.noise_multiplier=0.25"}},
      {"accountant/count_ignored", {"steps=16", "schedules.noise_multiplier=1"}},
      {"accountant/root_of_count", {"steps=16", "schedules.noise_multiplier=1"}},
      {"accountant/repeats_count_once", {"steps=16", "schedules.noise_multiplier=1"}},
      {"accountant/noise_upside_down", {"steps=1", "schedules.noise_multiplier=0.25"}},
      {"accountant/noise_root", {"steps=1", "schedules.noise_multiplier=0.25"}},
      {"accountant/replace_one_as_zero_out",
       {"steps=4", "schedules.noise_multiplier=1", "privacy.adjacency=replace_one"}},
      {"sampler/free_after_a_hundred", {"steps=200", "schedules.noise_multiplier=1.2", kRdp}},
      {"sampler/every_second_step", {"steps=50", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/first_step_only", {"steps=50", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/twice_the_noise_charged", {"steps=16", "schedules.noise_multiplier=1"}},
      {"clipping/twice_the_norm",
       {"steps=4", "schedules.noise_multiplier=1", "aggregator.arithmetic=float"}},
      {"clipping/none", {"steps=4", "schedules.noise_multiplier=1", "aggregator.arithmetic=float"}},
      {"aggregator/noise_of_the_step_before", {"steps=100"}},
      {"aggregator/reused_in_the_run", {"steps=100"}},
      {"aggregator/quieter_in_the_run", {"steps=100"}},
      {"sampler/half_the_rate_charged", {"steps=50", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/noise_of_the_first_step",
       {"steps=20", "schedules.noise_multiplier={kind: step, initial: 2, factor: 0.5, every: 5}",
        kRdp}},
      {"sampler/rate_a_tenth_more", {"steps=50", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/rate_grows", {"steps=50", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/rate_doubles_late", {"steps=200", "schedules.noise_multiplier=1.5", kRdp}},
      {"sampler/first_row_always", {"steps=10", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/last_row_always", {"steps=10", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/even_rows_only", {"steps=20", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/padded_with_others", {"steps=20", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/every_batch_twice", {"steps=20", "schedules.noise_multiplier=1", kRdp}},
      {"sampler/constant_seed", {"steps=20", "schedules.noise_multiplier=1", kRdp}},
      {"core/half_the_noise",
       {kGdp, "schedules.noise_multiplier=2"},
       {kGdp, "schedules.noise_multiplier=4"},
       "noise is half of what was charged for"},
      {"core/three_quarters_of_the_noise",
       {kGdp, "schedules.noise_multiplier=3"},
       {kGdp, "schedules.noise_multiplier=4"},
       "a quarter of the noise is missing"},
      {"core/half_the_noise_of_samples",
       {kPoisson, kRdp, "steps=50", "schedules.noise_multiplier=0.6"},
       {kPoisson, kPld, "steps=50", "schedules.noise_multiplier=1.2"},
       "noise is half of what was charged for, and batches are sampled"},
      {"core/first_half_charged",
       {kGdp, "steps=40"},
       {kGdp, "steps=20"},
       "half of the steps are not charged"},
      {"core/amplified_twice",
       {kPoisson, kRdp, "steps=50", "schedules.noise_multiplier=1"},
       {kPoissonOfPoisson, kPld, "steps=50", "schedules.noise_multiplier=1"},
       "the probability of the sample is squared"},
  };
  return all;
}

bool is_of_the_core(const Attacked& in) { return !in.charged.empty(); }

/// Whether the audit says that the proof does not describe the actual run.
/// \throws the error with which the core stops the fault.
bool is_caught(const Attacked& in, int seed, const core::AuditOptions& options) {
  std::vector<std::string> set;
  Catalog catalog = own_house();
  if (!is_of_the_core(in)) {
    const Fault& fault = fault_named(in.id);
    catalog = house_with({fault.factory});
    set = fault.place;
  }
  const auto with = [&](std::vector<std::string> all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    all.push_back("seed=" + std::to_string(seed));
    if (options.kind == core::AuditKind::repeated) all.emplace_back("data.rows=20");
    if (options.canaries > 400) all.push_back("data.rows=" + std::to_string(options.canaries));
    return all;
  };
  Experiment experiment(kAttacked, with(set, in.set), catalog);
  core::Plan plan = experiment.plan();
  if (!is_of_the_core(in)) return core::audit(plan, options).contradicts();
  Experiment charged(kAttacked, with(set, in.charged), catalog);
  plan.accountants = charged.plan().accountants;
  plan.event = charged.plan().event;
  return core::audit(plan, options).contradicts();
}

struct Counts {
  int one_run = 0, repeated = 0;
  bool operator==(const Counts&) const = default;
};

/// \returns the outcome: a row of the page.
std::string row_of(const Attacked& in, int audits, Counts& counts) {
  const std::string imitates = is_of_the_core(in) ? in.imitates : fault_named(in.id).imitates;
  std::string row = "| `" + in.id + "` | " + imitates + " | ";
  const core::AuditOptions one_run{.canaries = is_of_the_core(in) ? 2000u : 400u};
  const core::AuditOptions repeated{.kind = core::AuditKind::repeated, .canaries = 5, .runs = 300};
  try {
    for (int seed = 0; seed < audits; ++seed) {
      counts.one_run += is_caught(in, seed, one_run) ? 1 : 0;
      counts.repeated += is_caught(in, seed, repeated) ? 1 : 0;
    }
  } catch (const PluginError&) {
    return row + "stopped | stopped |";
  } catch (const PrivacyError&) {
    return row + "stopped | stopped |";
  }
  return row + std::to_string(counts.one_run) + " | " + std::to_string(counts.repeated) + " |";
}

/// Returns the page's rows, by the fault's name.
std::map<std::string, std::string> audited_rows_of_page() {
  std::map<std::string, std::string> rows;
  std::ifstream in(kSource / "docs/audit.md");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| `") && line.find('/') < line.find('`', 3))
      rows[line.substr(3, line.find('`', 3) - 3)] = line;
  }
  return rows;
}

Counts counts_of(const std::string& row) {
  Counts counts;
  const std::size_t last = row.rfind('|', row.size() - 2);
  const std::size_t first = row.rfind('|', last - 1);
  counts.one_run = std::atoi(row.c_str() + first + 1);
  counts.repeated = std::atoi(row.c_str() + last + 1);
  return counts;
}

}  // namespace

TEST_CASE("the table of audited faults says which faults audits catch, and how often",
          "[audit][long][slow]") {
  const auto rows = audited_rows_of_page();
  CHECK(rows.size() == attacked().size());
  const char* out = std::getenv("PRIVGRAD_FAULTS_OUT");
  const int audits = trials(kAudits, "audits in each way, of each fault of the table");
  for (const Attacked& one : attacked()) {
    Counts counts;
    const std::string row = row_of(one, audits, counts);
    if (out != nullptr) std::ofstream(out, std::ios::app) << row << "\n";
    const auto listed = rows.find(one.id);
    INFO(row);
    if (listed == rows.end()) {
      CHECK("docs/audit.md lacks it" == row);
      continue;
    }
    if (audits == kAudits) {
      CHECK(listed->second == row);
      continue;
    }
    // If every seed finds, misses or stops a fault, only the first seeds are tried.
    const Counts told = counts_of(listed->second);
    CHECK(listed->second.ends_with("stopped |") == row.ends_with("stopped |"));
    if (told.one_run % kAudits == 0) CHECK(counts.one_run == told.one_run * audits / kAudits);
    if (told.repeated % kAudits == 0) CHECK(counts.repeated == told.repeated * audits / kAudits);
  }
}
