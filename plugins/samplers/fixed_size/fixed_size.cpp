#include <string>

#include "../epochs.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"

namespace {

using namespace privgrad;

/// A uniformly random subset of fixed size, redrawn in every step.
///
/// Accounting, amplification on (the default), replace_one only: the event of a step is
/// sampled_without_replacement(N, n, release) (Wang, Balle and Kasiviswanathan 2019). The proofs
/// for this event compare batches in which one example is exchanged for another. So amplification
/// is refused
/// - under zero_out: the proofs also exchange the zeroed example for a third example that is
///   present, which moves the sum by 2, but zero_out accounts for 1;
/// - under add_or_remove_one: neighbours differ in N, so their subsets have different
///   distributions.
///
/// Accounting, amplification off, replace_one and zero_out: the plain release is charged, an upper
/// bound. Fix the subsets of row numbers of all steps, which have the same distribution for both
/// neighbours because N is the same. A step without the differing row has the same output
/// distribution for both neighbours, a step with it is the release for neighbouring batches; and
/// mixing both neighbours' outputs over the subsets with the same weights raises neither
/// hockey-stick nor Renyi divergences (joint quasi-convexity: van Erven and Harremoes 2014, Theorem
/// 13).
///
/// For the same reasons the order may be fixed in advance (PublicOrder) if amplification is off.
class FixedSize final : public Sampler, public PublicOrder {
 public:
  explicit FixedSize(const Params& params) : amplified_(params.boolean("amplification")) {
    if (params.has("batch_size")) {
      given_size_ = static_cast<std::uint64_t>(params.integer("batch_size"));
    }
  }

  void start(const SamplingPlan& plan) override {
    if ((given_size_ > 0) == !plan.batch_sizes.empty()) {
      throw ConfigError("fixed_size: give exactly one of batch_size and schedules.batch_size");
    }
    epochs::check_sizes("fixed_size", given_size_, plan);
    scheduled_.clear();
    for (const double size : plan.batch_sizes) {
      if (size < 1.0) {
        throw ConfigError("fixed_size: the batch size at step " +
                          std::to_string(scheduled_.size()) + " is " + format_number(size) +
                          ", expected at least one example");
      }
      scheduled_.push_back(static_cast<std::uint64_t>(size));
    }
    plan_ = plan;
    plan_.batch_sizes = {};
    taken_.assign(plan.dataset_size, false);
  }

  double expected_batch_size(std::uint64_t step) const override {
    return static_cast<double>(size_at(step));
  }

  std::vector<Event> charges(std::span<const Event> releases) const override {
    refuse_add_or_remove();
    if (amplified_ && plan_.adjacency == Adjacency::zero_out) {
      throw PrivacyError(
          "fixed_size: amplification is proved under replace_one only; under zero_out set "
          "`amplification: false`, or use sampler poisson");
    }
    std::vector<Event> charged(releases.begin(), releases.end());
    if (!amplified_) return charged;
    for (std::size_t step = 0; step < charged.size(); ++step) {
      const std::uint64_t size = size_at(step);
      if (size == plan_.dataset_size || charged[step] == Event::nothing()) continue;
      charged[step] =
          Event::sampled_without_replacement(static_cast<std::int64_t>(plan_.dataset_size),
                                             static_cast<std::int64_t>(size), charged[step]);
    }
    return charged;
  }

  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    epochs::check_rows("fixed_size", rows, plan_);
    draw(step, random, batch);
  }

  std::uint64_t groups() const override {
    if (amplified_) {
      throw PrivacyError(
          "fixed_size: no amplification is proved for correlated releases; set `amplification: "
          "false`, or use sampler shuffle");
    }
    refuse_add_or_remove();
    return plan_.dataset_size;
  }
  std::uint32_t group_of(std::uint32_t row) const override { return row; }
  void groups_in(std::uint64_t step, const RandomSource& random,
                 std::vector<std::uint32_t>& members) override {
    draw(step, random, members);
  }

 private:
  void draw(std::uint64_t step, const RandomSource& random, std::vector<std::uint32_t>& batch) {
    const std::uint64_t rows = plan_.dataset_size;
    // Floyd's algorithm (Bentley and Floyd 1987): all subsets are equally likely, with one draw per
    // member.
    const auto stream = random.stream(step);
    batch.clear();
    for (std::uint64_t last = rows - size_at(step); last < rows; ++last) {
      const std::uint64_t draw = stream->uniform_below(last + 1);
      const std::uint64_t row = taken_[draw] ? last : draw;
      taken_[row] = true;
      batch.push_back(static_cast<std::uint32_t>(row));
    }
    for (const std::uint32_t row : batch) taken_[row] = false;
  }

  void refuse_add_or_remove() const {
    if (plan_.adjacency != Adjacency::add_or_remove_one) return;
    throw PrivacyError(
        "fixed_size: nothing is proved under add_or_remove_one, where the size of the data is "
        "private and neighbours' subsets differ in distribution; use sampler poisson or "
        "adjacency replace_one");
  }

  std::uint64_t size_at(std::uint64_t step) const {
    return scheduled_.empty() ? given_size_ : scheduled_.at(step);
  }

  bool amplified_;
  std::uint64_t given_size_ = 0;          // 0 if not given
  std::vector<std::uint64_t> scheduled_;  // sizes per step; empty without a schedule
  SamplingPlan plan_;
  std::vector<bool> taken_;  // per row; all false between calls
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Sampler, FixedSize>({
      .name = "fixed_size",
      .summary =
          "A random subset of fixed size per step; accounted as sampled without replacement.",
      .reference = "Wang, Balle and Kasiviswanathan 2019",
      .params =
          {integer("batch_size",
                   "Number of examples in every batch. schedules.batch_size gives it for each "
                   "step, rounded down.")
               .at_least(1)
               .optional()
               .example(1),
           boolean("amplification",
                   "true: each step is charged as sampled_without_replacement (replace_one only). "
                   "false: each step is charged in full; still an upper bound.")
               .defaults_to(true)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.fixed_size", "0.1.0", "sampler/fixed_size", register_components)
