#include <limits>
#include <string>

#include "../coins.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

/// Every example joins each batch by its own coin of probability q, independent of everything else.
///
/// Accounting, amplification on (the default): the event of a step is poisson_sampled(q, release).
/// The event describes exactly what happens, under each adjacency: neighbours differ in one row,
/// whose coin is independent of the others' and has the same q in both, because q is a constant of
/// the plan and is not computed from the actual rows. Its cost under the adjacency in use follows
/// from the accountant's theorem, and an accountant without one refuses the event.
///
/// Accounting, amplification off: the plain release is charged, an upper bound. Fix all coins (of
/// all steps; they do not depend on the data). Then a step whose batch lacks the differing row has
/// the same output distribution for both neighbours, and a step whose batch contains it is the
/// release for neighbouring batches; so for every outcome of the coins the run costs at most the
/// composition of the releases. Drawing the coins mixes both neighbours' outputs with the same
/// weights, and hockey-stick divergences are jointly convex and Renyi divergences jointly
/// quasi-convex (van Erven and Harremoes 2014, Theorem 13), so mixing raises neither.
class Poisson final : public Sampler {
 public:
  explicit Poisson(const Params& params) : amplified_(params.boolean("amplification")) {
    if (params.has("sample_rate") && params.has("batch_size")) {
      throw ConfigError(
          "poisson: give exactly one of sample_rate and batch_size (the expected size)");
    }
    if (params.has("sample_rate")) given_rate_ = params.real("sample_rate");
    if (params.has("batch_size")) given_batch_size_ = params.real("batch_size");
  }

  void start(const SamplingPlan& plan) override {
    if (plan.dataset_size == 0) throw ConfigError("poisson: the data set is empty");
    const int given = (given_rate_ > 0.0 ? 1 : 0) + (given_batch_size_ > 0.0 ? 1 : 0) +
                      (plan.batch_sizes.empty() ? 0 : 1);
    if (given != 1) {
      throw ConfigError(
          "poisson: give exactly one of sample_rate, batch_size (the expected size) and "
          "schedules.batch_size");
    }
    const double size = static_cast<double>(plan.dataset_size);
    if (given_batch_size_ > size) {
      throw ConfigError("poisson: batch_size is " + format_number(given_batch_size_) +
                        ", allowed are at most the " + std::to_string(plan.dataset_size) +
                        " that there are to draw from");
    }
    const bool by_rate = given_rate_ > 0.0;
    constant_ = {by_rate ? given_rate_ : given_batch_size_ / size,
                 by_rate ? given_rate_ * size : given_batch_size_};
    scheduled_.clear();
    for (const double batch : plan.batch_sizes) scheduled_.push_back({batch / size, batch});
    size_is_public_ = plan.adjacency != Adjacency::add_or_remove_one;
    dataset_size_ = plan.dataset_size;
  }

  double expected_batch_size(std::uint64_t step) const override { return at(step).size; }

  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> charged(releases.begin(), releases.end());
    if (!amplified_) return charged;
    for (std::size_t step = 0; step < charged.size(); ++step) {
      const double rate = at(step).rate;
      if (rate >= 1.0 || charged[step] == Event::nothing()) continue;
      charged[step] = Event::poisson_sampled(rate, charged[step]);
    }
    return charged;
  }

  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    if (size_is_public_ && rows != dataset_size_) {
      throw ConfigError("poisson: there are " + std::to_string(rows) + " rows, but the plan says " +
                        std::to_string(dataset_size_) +
                        ", and under this adjacency the size is public and fixed");
    }
    if (rows > std::numeric_limits<std::uint32_t>::max()) {
      throw ConfigError("poisson: " + std::to_string(rows) +
                        " rows, allowed are at most 4294967295");
    }
    batch.clear();
    bernoulli_rows(at(step).rate, rows, *random.stream(step),
                   [&](std::size_t row) { batch.push_back(static_cast<std::uint32_t>(row)); });
  }

 private:
  struct Batch {
    double rate = 0.0;  // the probability of each example
    double size = 0.0;  // the expected size
  };
  const Batch& at(std::uint64_t step) const {
    return scheduled_.empty() ? constant_ : scheduled_.at(step);
  }

  bool amplified_;
  double given_rate_ = 0.0;        // 0 if not given
  double given_batch_size_ = 0.0;  // 0 if not given
  Batch constant_;
  std::vector<Batch> scheduled_;  // one per step; empty without a schedule
  std::uint64_t dataset_size_ = 0;
  bool size_is_public_ = false;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Sampler, Poisson>({
      .name = "poisson",
      .summary = "Each example by its own coin; accounted as Poisson sampled, or un-amplified.",
      .reference = "Abadi et al. 2016, Section 3.1; Mironov, Talwar and Zhang 2019",
      .params =
          {real("sample_rate", "Probability that an example is in a batch.")
               .above(0)
               .at_most(1)
               .optional()
               .example(0.01),
           real("batch_size",
                "Expected number of examples in a batch; instead of sample_rate, which then is "
                "batch_size / data set size. schedules.batch_size gives it for each step.")
               .above(0)
               .optional(),
           boolean("amplification",
                   "true: each step is charged as poisson_sampled. false: each step is charged in "
                   "full, for accountants without a theorem for sampling; still an upper bound.")
               .defaults_to(true)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.poisson", "0.1.0", "sampler/poisson", register_components)
