#include <limits>
#include <numeric>
#include <string>

#include "privgrad/plugin.hpp"
#include "privgrad/sampler.hpp"

namespace {

using namespace privgrad;

/// Every example in every step.
///
/// Accounting: each step is one release on the whole data set and is charged as such, and steps
/// compose sequentially, under every adjacency. The divisor is the size that the plan declares.
/// Under add_or_remove_one the number of rows is private and may differ from the declared one;
/// neither the divisor nor the charges depend on it.
///
/// Its order is public under every adjacency, because every existing row takes part in every step.
class FullBatch final : public Sampler, public PublicOrder {
 public:
  explicit FullBatch(const Params&) {}

  void start(const SamplingPlan& plan) override {
    if (plan.dataset_size == 0) throw ConfigError("full_batch: the data set is empty");
    plan_ = plan;
  }

  double expected_batch_size(std::uint64_t) const override {
    return static_cast<double>(plan_.dataset_size);
  }

  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }

  void sample(std::uint64_t, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    const bool size_is_public = plan_.adjacency != Adjacency::add_or_remove_one;
    if (size_is_public && rows != plan_.dataset_size) {
      throw ConfigError("full_batch: there are " + std::to_string(rows) +
                        " rows, but the plan says " + std::to_string(plan_.dataset_size) +
                        ", and under " + std::string(to_text(plan_.adjacency)) +
                        " the size is public and fixed");
    }
    if (rows > std::numeric_limits<std::uint32_t>::max()) {
      throw ConfigError("full_batch: " + std::to_string(rows) +
                        " rows, allowed are at most 4294967295");
    }
    batch.resize(rows);
    std::iota(batch.begin(), batch.end(), std::uint32_t{0});
  }

  std::uint64_t groups() const override { return 1; }
  std::uint32_t group_of(std::uint32_t) const override { return 0; }
  void groups_in(std::uint64_t, const RandomSource&, std::vector<std::uint32_t>& members) override {
    members.assign(1, 0);
  }

 private:
  SamplingPlan plan_;
};

void register_components(Registrar& registrar) {
  registrar.add<Sampler, FullBatch>({
      .name = "full_batch",
      .summary = "Every example in every step; each step is charged in full.",
      .reference = "Hong, Wang and Zhou 2022, Algorithm 1 (private gradient descent)",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.full_batch", "0.1.0", "sampler/full_batch", register_components)
