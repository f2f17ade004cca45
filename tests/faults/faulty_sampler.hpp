// Samplers that are correct except for one thing, which a row of a table describes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "fault.hpp"
#include "right_sampler.hpp"

namespace samplers {

using namespace privgrad;

using Law = SamplingLaw;
using Events = RightSampler::Events;
using Releases = RightSampler::Releases;
using Rows = RightSampler::Rows;
constexpr double kRate = RightSampler::kRate;

class Base : public RightSampler {
 public:
  using RightSampler::RightSampler;
  Rows last_;
  mutable std::uint64_t calls_ = 0;
  std::size_t drawn_ = 0;
};

/// The batch to draw.
struct Draw {
  Base& self;
  std::uint64_t step;
  std::size_t rows;
  const RandomSource& random;
  Rows& batch;

  std::size_t fifth() const { return rows / 5; }
  void right() const { self.RightSampler::sample(step, rows, random, batch); }
  void poisson(double rate) const { self.poisson(step, rows, rate, random, batch); }
  /// Rows at this distance share one coin.
  void poisson_again_after(std::size_t distance) const {
    self.poisson(step, std::min(rows, distance), kRate, random, batch);
    const Rows first = batch;
    for (std::size_t begin = distance; begin < rows; begin += distance)
      for (const std::uint32_t row : first)
        if (begin + row < rows) batch.push_back(static_cast<std::uint32_t>(begin + row));
  }
  /// Draws the batch of another step.
  void poisson_at(std::uint64_t other) const { self.poisson(other, rows, kRate, random, batch); }
  void subset(std::size_t size) const {
    batch = self.shuffled(step, rows, random);
    batch.resize(size);
  }
  /// Draws the rows whose draw is this step, from the stream of this or another epoch.
  void allocation_of(std::uint64_t epoch) const {
    self.allocation(epoch, step % 5, rows, random, batch);
  }
  bool holds(std::uint32_t row) const {
    return std::find(batch.begin(), batch.end(), row) != batch.end();
  }
};

struct Row {
  Told told;
  Law law = Law::poisson;
  void (*draw)(const Draw&) = nullptr;
  /// Changes the charge for each release.
  Event (*cost)(const Event& release) = nullptr;
  Events (*charges)(const Base&, Releases) = nullptr;
  /// Whether a step is charged correctly; otherwise it is not charged.
  bool (*pays)(std::size_t step) = nullptr;
  /// Charges correctly for another law.
  Law charged_as = {};
  double (*size)(const Base&) = nullptr;
};

inline Event quieter(const Event& release, double factor) {
  const auto* gaussian = std::get_if<GaussianEvent>(&release.kind());
  return gaussian == nullptr ? release : Event::gaussian(factor * gaussian->noise_multiplier);
}

/// Behaves as a row of the table describes.
template <const auto& table, std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params& params) : Base(params, table[I].law) {}
  double expected_batch_size(std::uint64_t step) const override {
    return table[I].size != nullptr ? table[I].size(*this) : Base::expected_batch_size(step);
  }
  Events charges(Releases releases) const override {
    if (table[I].charges != nullptr) return table[I].charges(*this, releases);
    const bool as_drawn = table[I].charged_as == Law{};
    Events all = charges_as(as_drawn ? table[I].law : table[I].charged_as, releases);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (table[I].cost != nullptr) all[i] = table[I].cost(releases[i]);
      if (table[I].pays != nullptr && !table[I].pays(i)) all[i] = Event::nothing();
    }
    return all;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    if (table[I].draw == nullptr) return Base::sample(step, rows, random, batch);
    table[I].draw({*this, step, rows, random, batch});
  }
};

/// Overrides that put a row's sampler into a manifest, with an accountant that accepts its charges.
inline std::vector<std::string> place_of(const Row& row) {
  const Law charged = row.charged_as == Law{} ? row.law : row.charged_as;
  const bool may_be_missing = row.law == Law::poisson || row.law == Law::allocation;
  const bool has_epochs = charged == Law::allocation;
  return {std::string("sampler=") + row.told.id,
          std::string("privacy.accountant=") + (has_epochs ? "pld" : "rdp"),
          std::string("privacy.adjacency=") + (may_be_missing ? "add_or_remove_one"
                                               : has_epochs   ? "zero_out"
                                                              : "replace_one")};
}

}  // namespace samplers
