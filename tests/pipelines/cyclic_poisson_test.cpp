// Runs in which each example is drawn in one step of each cycle, and samplers that charge like this
// but draw differently.
#include <string>
#include <vector>

#include "privgrad/sampler.hpp"
#include "test_components.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace {

constexpr const char* kCycles = R"(privgrad: 1
name: cycles
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 4, test_is_public: true}
model: {kind: linear}
sampler: {kind: cyclic_poisson, batch_size: 6, cycle: 3}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 50, target_delta: 1e-5, adjacency: zero_out, accountant: pld}
steps: 14
)";

/// Cycles of three steps, drawn and charged as the variant defines.
class Cycles : public Sampler {
 public:
  explicit Cycles(const Params&) {}
  void start(const SamplingPlan& plan) override { size_ = static_cast<double>(plan.dataset_size); }
  double expected_batch_size(std::uint64_t) const override { return 0.1 * size_; }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> charged;
    for (std::size_t step = 0; step < releases.size(); ++step)
      charged.push_back(begins_cycle(step) ? cost(step, releases[step]) : Event::nothing());
    return charged;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    const auto stream = random.stream(step);
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row)
      if (row % 3 == group(step) && stream->uniform() < 0.3) batch.push_back(row);
  }

 protected:
  virtual bool begins_cycle(std::size_t step) const { return step % 3 == 0; }
  virtual Event cost(std::size_t, const Event& release) const {
    return Event::poisson_sampled(0.3, release);
  }
  virtual std::uint64_t group(std::uint64_t step) const { return step % 3; }

 private:
  double size_ = 0.0;
};
struct DrawsOthers final : Cycles {
  using Cycles::Cycles;
  std::uint64_t group(std::uint64_t step) const override { return (step + 1) % 3; }
};
struct LongerLater final : Cycles {
  using Cycles::Cycles;
  bool begins_cycle(std::size_t step) const override { return step == 3 || step % 6 == 0; }
};
struct CyclesOfMoreNoise final : Cycles {
  using Cycles::Cycles;
  Event cost(std::size_t, const Event&) const override {
    return Event::poisson_sampled(0.3, Event::gaussian(2.001));
  }
};
/// Every second cycle is charged as one full release, in which rows of any group may take part.
struct InFullBetween final : Cycles {
  using Cycles::Cycles;
  Event cost(std::size_t step, const Event& release) const override {
    return step % 2 == 0 ? Event::poisson_sampled(0.3, release) : release;
  }
};

template <class Impl>
Factory cycles(const std::string& name) {
  Registrar registrar;
  registrar.add<Sampler, Impl>(
      {.name = name, .summary = "Of this test.", .reference = "none", .params = {}});
  return registrar.factories().front();
}

const Catalog& parts_with_cycles() {
  static const Catalog all =
      house_with({cycles<Cycles>("thirds"), cycles<DrawsOthers>("draws_others"),
                  cycles<LongerLater>("longer_later"), cycles<CyclesOfMoreNoise>("more_noise"),
                  cycles<InFullBetween>("in_full_between")});
  return all;
}

}  // namespace

TEST_CASE("cycles: each is charged as one sampled release, and an unfinished one whole",
          "[cyclic][privacy]") {
  Experiment experiment(kCycles);
  experiment.run();
  const auto& charges = experiment.plan().charges;
  REQUIRE(charges.size() == 14);
  const Event cycle = Event::poisson_sampled(0.3, Event::gaussian(2.0));
  for (const core::Charge& charge : charges)
    CHECK(charge.cost == (charge.step % 3 == 0 ? cycle : Event::nothing()));
  // The cost of five steps of Poisson sampling at three times the rate.
  Experiment poisson(kCycles, {"sampler={kind: poisson, sample_rate: 0.3}", "steps=5"});
  CHECK(experiment.plan().epsilon().value == poisson.plan().epsilon().value);
  CHECK(verify::problems_of(experiment).empty());
}

TEST_CASE("cycles: a sampler that charges them otherwise than it draws them does not run",
          "[cyclic][privacy]") {
  const auto refused = [](const std::string& name, const std::string& why) {
    INFO(name);
    Experiment experiment(kCycles, {"sampler=" + name}, parts_with_cycles());
    CHECK_THROWS_WITH(experiment.run(), ContainsSubstring(name) && ContainsSubstring(why) &&
                                            !ContainsSubstring("\n"));
    CHECK_FALSE(std::filesystem::exists(experiment.run_dir() / "model.safetensors"));
  };
  CHECK_NOTHROW(Experiment(kCycles, {"sampler=thirds"}, parts_with_cycles()).run());
  refused("draws_others", "charged for another step of the cycle");
  refused("longer_later", "has another length than the first");
  refused("more_noise", "a step with less noise than is charged");
  refused("in_full_between", "charges cycles, and step 3 as no cycle");
}

TEST_CASE("cycles: under add_or_remove_one, where rows change their numbers, none are charged",
          "[cyclic][privacy]") {
  for (const std::string name : {"cyclic_poisson", "thirds"}) {
    INFO(name);
    Experiment experiment(kCycles,
                          {name == "thirds" ? "sampler=thirds" : "sampler.cycle=2",
                           "privacy.adjacency=add_or_remove_one"},
                          parts_with_cycles());
    CHECK_THROWS_WITH(experiment.plan(), ContainsSubstring("add_or_remove_one"));
  }
}
