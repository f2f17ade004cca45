// Correct samplers of five laws, for derived classes to break.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/params.hpp"
#include "privgrad/sampler.hpp"

/// How a batch is drawn: a fifth of the rows, or all of them.
enum class SamplingLaw {
  poisson = 1,
  subset,  ///< A subset of fixed size, redrawn in each step.
  epochs,  ///< Each row once in five steps.
  all,
  allocation,  ///< Each row once in five steps, in a step that the row draws independently.
};

class RightSampler : public privgrad::Sampler {
 public:
  using Event = privgrad::Event;
  using Events = std::vector<Event>;
  using Releases = std::span<const Event>;
  using Rows = std::vector<std::uint32_t>;
  static constexpr double kRate = 0.2;

  explicit RightSampler(const privgrad::Params&, SamplingLaw law = SamplingLaw::poisson)
      : law_(law) {}
  void start(const privgrad::SamplingPlan& plan) override {
    const bool has_parts = law_ == SamplingLaw::subset || law_ == SamplingLaw::epochs;
    if (has_parts && plan.dataset_size % 5 != 0) throw privgrad::ConfigError("no multiple of 5");
    plan_ = plan;
  }
  double expected_batch_size(std::uint64_t) const override {
    return law_ == SamplingLaw::all ? static_cast<double>(plan_.dataset_size) : fifth();
  }
  Events charges(Releases releases) const override { return charges_as(law_, releases); }
  void sample(std::uint64_t step, std::size_t rows, const privgrad::RandomSource& random,
              Rows& batch) override {
    if (law_ == SamplingLaw::poisson) return poisson(step, rows, kRate, random, batch);
    if (law_ == SamplingLaw::all) {
      batch.resize(rows);
      return std::iota(batch.begin(), batch.end(), 0u);
    }
    if (law_ == SamplingLaw::allocation) return allocation(step / 5, step % 5, rows, random, batch);
    if (rows != plan_.dataset_size) throw privgrad::ConfigError("the size is fixed");
    const bool anew = law_ == SamplingLaw::subset;
    const Rows order = shuffled(anew ? step : step / 5, rows, random);
    const std::size_t from = anew ? 0 : (step % 5) * whole_fifth();
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(from);
    batch.assign(begin, begin + static_cast<std::ptrdiff_t>(whole_fifth()));
  }

  double fifth() const { return kRate * static_cast<double>(plan_.dataset_size); }
  std::size_t whole_fifth() const { return static_cast<std::size_t>(plan_.dataset_size / 5); }
  static void poisson(std::uint64_t index, std::size_t rows, double rate,
                      const privgrad::RandomSource& random, Rows& batch) {
    const auto stream = random.stream(index);
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (stream->uniform() < rate) batch.push_back(row);
    }
  }
  /// Draws the rows whose draw is this one of five steps.
  static void allocation(std::uint64_t epoch, std::uint64_t within, std::size_t rows,
                         const privgrad::RandomSource& random, Rows& batch) {
    const auto stream = random.stream(epoch);
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (stream->uniform_below(5) == within) batch.push_back(row);
    }
  }
  /// Rows in a random order from the stream.
  static Rows shuffled(std::uint64_t index, std::size_t rows,
                       const privgrad::RandomSource& random) {
    const auto stream = random.stream(index);
    Rows order(rows);
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t i = rows; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(stream->uniform_below(i))]);
    return order;
  }
  /// Returns the correct charges for batches drawn by this law.
  Events charges_as(SamplingLaw law, Releases releases) const {
    Events all;
    for (std::size_t step = 0; step < releases.size(); ++step)
      all.push_back(charge_as(law, step, releases[step]));
    return all;
  }

  privgrad::SamplingPlan plan_;

 private:
  Event charge_as(SamplingLaw law, std::size_t step, const Event& release) const {
    if (law == SamplingLaw::poisson) return Event::poisson_sampled(kRate, release);
    if (law == SamplingLaw::subset)
      return Event::sampled_without_replacement(static_cast<std::int64_t>(plan_.dataset_size),
                                                static_cast<std::int64_t>(whole_fifth()), release);
    if (law == SamplingLaw::allocation)
      return step % 5 == 0 ? Event::random_allocation(5, release) : Event::nothing();
    // The steps of an epoch are disjoint: the first step pays for all of them.
    return law == SamplingLaw::all || step % 5 == 0 ? release : Event::nothing();
  }
  SamplingLaw law_;
};
