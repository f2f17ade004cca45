#include <algorithm>
#include <memory>
#include <numeric>

#include "privgrad/federated/any_run.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

/// How a sampler violates its declaration in step 20.
enum class Lapse { none, takes_another, takes_one_more, takes_one_twice, takes_less };

/// Batches of 5 of 60 rows, in order, repeatedly: declared, and followed except in one step.
template <Lapse kLapse>
class Wanderer final : public Sampler, public PublicOrder {
 public:
  explicit Wanderer(const Params&) {}
  void start(const SamplingPlan&) override {}
  double expected_batch_size(std::uint64_t) const override { return 5.0; }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }
  void sample(std::uint64_t step, std::size_t, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    groups_in(step, random, batch);
    if (step != 20 || kLapse == Lapse::none) return;
    if (kLapse == Lapse::takes_another) batch.back() = 0;
    if (kLapse == Lapse::takes_one_more) batch.push_back(0);
    if (kLapse == Lapse::takes_one_twice) batch.back() = batch.front();
    if (kLapse == Lapse::takes_less) batch.pop_back();
  }
  std::uint64_t groups() const override { return 60; }
  std::uint32_t group_of(std::uint32_t row) const override { return row; }
  void groups_in(std::uint64_t step, const RandomSource&,
                 std::vector<std::uint32_t>& members) override {
    members.resize(5);
    std::iota(members.begin(), members.end(), static_cast<std::uint32_t>(step % 12 * 5));
  }
};

const Catalog& wanderers() {
  static const Catalog catalog =
      house_with({offer<Sampler, Wanderer<Lapse::none>>("keeps_to_it"),
                  offer<Sampler, Wanderer<Lapse::takes_another>>("takes_another"),
                  offer<Sampler, Wanderer<Lapse::takes_one_more>>("takes_one_more"),
                  offer<Sampler, Wanderer<Lapse::takes_one_twice>>("takes_one_twice"),
                  offer<Sampler, Wanderer<Lapse::takes_less>>("takes_less")});
  return catalog;
}

constexpr const char* kInPublicOrder = R"(privgrad: 1
name: wanderer
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 5}
model: {kind: linear}
sampler: keeps_to_it
aggregator: {kind: tree, momentum: 0.9}
optimizer: {kind: normalized_sgd}
schedules: {clip_norm: 1.0, learning_rate: 0.02}
privacy: {target_epsilon: 4, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 60
)";

/// One run, in its own folder.
struct Outcome {
  std::string error = "none";
  std::size_t paid_steps = 0;
  bool has_model = false;
};

Outcome run_with(const std::string& sampler, const std::string& aggregator) {
  const TempDir dir;
  const core::Manifest manifest =
      core::parse_manifest(kInPublicOrder, dir.path() / "manifest.yaml",
                           {"sampler=" + sampler, "aggregator=" + aggregator}, wanderers());
  const core::Plan plan = core::make_plan(manifest);
  Outcome outcome;
  try {
    core::run(plan, {.directory = dir.path() / "run", .lock = "", .threads = 1, .on_progress = {}});
  } catch (const PluginError& error) {
    outcome.error = error.what();
  }
  outcome.paid_steps = core::read_ledger(dir.path() / "run" / "ledger.jsonl").releases.size();
  outcome.has_model = std::filesystem::exists(dir.path() / "run" / "model.safetensors");
  return outcome;
}

}  // namespace

TEST_CASE("a sampler that leaves the order it declared ends a correlated run there",
          "[tree][privacy]") {
  for (const char* aggregator :
       {"{kind: tree, momentum: 0.9}", "{kind: tree_reduced, momentum: 0.9, smoothness: 5}"}) {
    INFO(aggregator);
    const Outcome kept = run_with("keeps_to_it", aggregator);
    CHECK(kept.error == "none");
    CHECK(kept.has_model);
    for (const char* sampler : {"takes_another", "takes_one_more"}) {
      INFO(sampler);
      const Outcome left = run_with(sampler, aggregator);
      CHECK_THAT(left.error, ContainsSubstring("test:" + std::string(sampler)) &&
                                 ContainsSubstring("the batch of step 20 has rows that its order "
                                                   "does not name"));
      // The 20 earlier steps were released and charged; the run has no other result.
      CHECK(left.paid_steps >= 21);
      CHECK_FALSE(left.has_model);
    }
    // An example that takes part twice in a step would change its sum by twice the charged amount.
    const Outcome twice = run_with("takes_one_twice", aggregator);
    CHECK_THAT(twice.error, ContainsSubstring("drawn twice in one batch"));
    CHECK_FALSE(twice.has_model);
    // Drawing fewer examples is charged in full.
    CHECK(run_with("takes_less", aggregator).error == "none");
  }
}
