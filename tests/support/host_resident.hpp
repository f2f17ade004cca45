// Device-resident steps in host memory, for tests of the core without a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/resident_steps.hpp"
#include "privgrad/trust/testing.hpp"

/// ResidentSteps in host memory, on top of any exact program, implemented as plainly as the
/// specification: correct, with functions that faulty derived classes can override.
/// \param Base  a Program that is an ExactClipping, and computes with its load_parameters().
template <class Base>
class HostResident : public Base, public privgrad::ResidentSteps {
 public:
  using Base::Base;

  struct Vectors : privgrad::ResidentSteps::Memory {
    const privgrad::Dataset* data = nullptr;
    std::vector<std::int64_t> sum, released;
    std::vector<std::vector<float>> state;
  };

  void load_parameters(std::span<const float> values) override {
    own_.assign(values.begin(), values.end());
    Base::load_parameters(values);
  }

  std::unique_ptr<Memory> make_memory(std::size_t state_vectors,
                                      const privgrad::Dataset& data) const override {
    auto made = std::make_unique<Vectors>();
    made->data = &data;
    made->sum.assign(this->parameter_count(), 0);
    made->released.assign(this->parameter_count(), 0);
    made->state.assign(state_vectors, std::vector<float>(this->parameter_count(), 0.0f));
    return made;
  }
  void clear_sum(Memory& memory) const override {
    auto& sum = of(memory).sum;
    std::fill(sum.begin(), sum.end(), 0);
  }
  void clip_rows(privgrad::ExactClipping::Pass& pass, std::span<const std::uint32_t> rows,
                 const privgrad::CellScaling& scaling, Memory& memory,
                 const Clipped& found) const override {
    const privgrad::Dataset& data = *of(memory).data;
    features_.assign(rows.size() * data.row_size(), 0.0f);
    targets_.assign(rows.size(), 0.0f);
    data.gather(rows, features_, targets_);
    Base::backward({features_, targets_}, pass, found.squared_norms);
    const std::size_t groups = Base::groups();
    for (std::size_t i = 0; i < rows.size(); ++i)
      privgrad::cell_scales(scaling, found.squared_norms.subspan(i * groups, groups),
                            found.scales.subspan(i * groups, groups));
    Base::make_cells(pass, found.scales, scaling.most_cells, found.lengths);
    taken_.clear();
    for (const privgrad::SquaredLength& length : found.lengths)
      taken_.push_back(
          length <= privgrad::SquaredLength{0, scaling.most_cells * scaling.most_cells} ? 1 : 0);
    std::copy(taken_.begin(), taken_.end(), found.taken.begin());
    for (std::size_t i = 0; i < rows.size(); ++i)
      found.checksums[i] = privgrad::example_checksum(
          std::span(features_).subspan(i * data.row_size(), data.row_size()), targets_[i]);
  }
  void add_to_sum(privgrad::ExactClipping::Pass& pass, std::span<const std::uint8_t> taken,
                  Memory& memory) const override {
    Base::add_cells(pass, taken.empty() ? taken_ : taken, of(memory).sum);
  }
  void settle(Memory&) const override {}
  void factors_at(privgrad::ExactClipping::Pass& pass, std::span<const std::uint64_t> places,
                  Memory&, std::span<privgrad::CellFactors> factors) const override {
    if (places.empty()) return;
    const std::size_t rows = factors.size() / places.size();
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<std::uint8_t> taken(rows, 0);
      taken[row] = 1;
      std::vector<std::int64_t> cells(this->parameter_count(), 0);
      Base::add_cells(pass, taken, cells);
      for (std::size_t i = 0; i < places.size(); ++i)
        factors[row * places.size() + i] = {static_cast<std::int32_t>(cells[places[i]]), 1};
    }
  }
  std::vector<std::uint64_t> release(Memory& memory,
                                     const privgrad::NoiseOrder& order) const override {
    Vectors& own = of(memory);
    privgrad::core::release_for_testing(order, 0, own.sum, own.released);
    return {};
  }
  void put_released(Memory& memory, std::uint64_t chunk,
                    std::span<const std::int64_t> cells) const override {
    std::copy(cells.begin(), cells.end(),
              of(memory).released.begin() + static_cast<std::ptrdiff_t>(chunk * kChunk));
  }
  Moved update(Memory& memory, const privgrad::StepRule& rule, double width) override {
    Vectors& own = of(memory);
    std::vector<float> gradient, moved = own_;
    for (const std::int64_t cell : own.released)
      gradient.push_back(static_cast<float>(static_cast<double>(cell) * width));
    own.state.resize(2);
    privgrad::apply(rule, moved, own.state[0], own.state[1], gradient);
    own.state.resize(privgrad::state_vectors(rule.kind));
    const auto finite = [](float x) { return std::isfinite(x); };
    if (!std::all_of(gradient.begin(), gradient.end(), finite)) return Moved::gradient_not_finite;
    if (!std::all_of(moved.begin(), moved.end(), finite)) return Moved::parameters_not_finite;
    load_parameters(moved);
    return Moved::yes;
  }
  void cells_at(const Memory& memory, Cells what, std::span<const std::uint64_t> places,
                std::span<std::int64_t> out) const override {
    const auto& from = what == Cells::sum ? of(memory).sum : of(memory).released;
    for (std::size_t i = 0; i < places.size(); ++i) out[i] = from[places[i]];
  }
  void numbers_at(const Memory& memory, Numbers what, std::span<const std::uint64_t> places,
                  std::span<float> out) const override {
    for (std::size_t i = 0; i < places.size(); ++i) out[i] = vector_of(of(memory), what)[places[i]];
  }
  void numbers(const Memory& memory, Numbers what, std::span<float> out) const override {
    const std::vector<float>& from = vector_of(of(memory), what);
    std::copy(from.begin(), from.end(), out.begin());
  }
  void put_numbers(Memory& memory, Numbers what, std::span<const float> values) override {
    if (what == Numbers::parameters) return load_parameters(values);
    of(memory).state[what == Numbers::first_state ? 0 : 1].assign(values.begin(), values.end());
  }

 protected:
  static Vectors& of(Memory& memory) { return dynamic_cast<Vectors&>(memory); }
  static const Vectors& of(const Memory& memory) { return dynamic_cast<const Vectors&>(memory); }
  const std::vector<float>& vector_of(const Vectors& memory, Numbers what) const {
    if (what == Numbers::parameters) return own_;
    return memory.state[what == Numbers::first_state ? 0 : 1];
  }

  std::vector<float> own_;
  mutable std::vector<float> features_, targets_;  // the last pass's, and its choice
  mutable std::vector<std::uint8_t> taken_;
};
