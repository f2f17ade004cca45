// Runs steps that stay on the program's device, and checks a sample of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/random.hpp"
#include "privgrad/resident_steps.hpp"
#include "privgrad/step_rule.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// A sum over examples that stays on the program's device, in cells of the grid of exact_sum(),
/// with the sensitivity that exact_sum() states and proves: the cells are certified in the same
/// way, and the program adds them up as add_cells() would. The ResidentRun that made it must
/// release it exactly once, before making another.
class ResidentSum {
 public:
  ResidentSum(ResidentSum&&) noexcept = default;
  ResidentSum& operator=(ResidentSum&&) noexcept = default;
  ResidentSum(const ResidentSum&) = delete;
  ResidentSum& operator=(const ResidentSum&) = delete;
  ~ResidentSum() = default;

  double l2_bound() const noexcept { return l2_bound_; }
  std::size_t rows() const noexcept { return rows_; }

 private:
  friend class ResidentRun;
  ResidentSum(double l2_bound, std::size_t rows, std::uint64_t number)
      : l2_bound_(l2_bound), rows_(rows), number_(number) {}

  double l2_bound_;
  std::size_t rows_;
  std::uint64_t number_;
};

/// The steps of a run in which the program makes the sums and the noise and runs the optimizer
/// (ResidentSteps). In each step the trust base checks:
///   - the sum at kSumPlaces places, against the factors of every example's cells there, multiplied
///     and added up here;
///   - the released cells of kNoiseChunks chunks of kChunk elements, against the noise that
///     RoundedGaussianStream makes for the sum there;
///   - the parameters and the state in these chunks, against apply() of the rule on their previous
///     values;
///   - the parameters whenever they are used or fetched, against the parameters after the last
///     step. If the model has no more parameters than these chunks, all of them are checked. A
///     difference in any bit ends the run with a PluginError: all compared values are exact, so no
///     example can make a correct program differ. In a step with a ContributionCheck the whole sum
///     is compared as well.
///
/// If nothing differs, the noise equals that of Mechanism::release(): the order names the key of
/// the same stream and the same sigma and shift, which fix each element. Limits of the checks: a
/// program that is wrong in a share p of its chunks in every step stays undetected for s steps with
/// probability at most (1 - p)^(64 s). A malicious program has the key and could publish the sums,
/// so it is trusted like the trust base (SECURITY.md).
///
/// Places and chunks follow from a key that the program never sees; the chunks for the noise are
/// drawn only after the release.
///
/// Threads: calls never overlap.
class ResidentRun {
 public:
  static constexpr std::size_t kSumPlaces = 64;
  static constexpr std::size_t kNoiseChunks = 64;

  /// \returns the program's ability; null if it has none, or no exact sums.
  static ResidentSteps* ability(Program& program);

  /// \param program  has the ability; it and the executor outlive this.
  /// \param key  used only to choose the places that are checked.
  /// \param who  the program's name, for errors.
  ResidentRun(Program& program, StepRule::Kind kind, const RandomKey& key, std::string who,
              Executor& executor);

  /// The examples of a step's sum, as for exact_sum().
  struct Examples {
    const Dataset& data;
    std::span<const std::uint32_t> batch;
    const Clip& clip;  ///< Has no count share.
    std::size_t most_rows = 0;
  };

  /// \param memory  the program's memory.
  /// \param check  null: no example is checked.
  /// \throws as exact_sum(); PluginError if a checked value differs.
  ResidentSum sum(std::uint64_t step, const Examples& examples, SumMemory& memory,
                  ContributionCheck* check);

  /// Makes the program release the sum.
  /// \param noise  the noise that was paid for.
  /// \throws PrivacyError for noise with another bound, or for another sum; PluginError if a
  ///   checked value differs.
  void release(ResidentSum sum, const PaidNoise& noise);

  /// Updates the parameters by the last release.
  /// \throws PluginError if a checked value differs.
  ResidentSteps::Moved update(const StepRule& rule);

  /// Whether the program's parameters have changed since they were last fetched.
  bool is_ahead() const noexcept { return is_ahead_; }
  /// \param out  [parameters].
  /// \throws PluginError if the parameters differ from those after the last step.
  void bring_parameters(std::span<float> out);
  /// Must be called after the program was given other parameters.
  void forget_parameters();

  /// \param vector  below state_vectors(kind).
  /// \throws PluginError if the state differs from the state after the last step.
  void bring_state(std::size_t vector, std::span<float> out) const;
  void put_state(std::size_t vector, std::span<const float> values);

 private:
  struct Seen;

  void draw_sum_places(std::uint64_t step);
  void draw_chunks();
  std::vector<std::int64_t> cells_at(ResidentSteps::Cells what,
                                     std::span<const std::uint64_t> places) const;
  std::vector<float> numbers_at(ResidentSteps::Numbers what,
                                std::span<const std::uint64_t> places) const;
  void add_expected(ExactClipping::Pass& pass, std::span<const std::uint8_t> taken);
  void check_sum() const;
  void check_what_is_left() const;
  std::vector<std::uint64_t> elements_of(std::uint64_t chunk) const;
  std::vector<std::int64_t> released_here(std::uint64_t chunk, const PaidNoise& noise,
                                          std::span<const std::int64_t> sums) const;
  void make_undecided(std::span<const std::uint64_t> chunks, const PaidNoise& noise);
  void check_noise(const PaidNoise& noise);
  [[noreturn]] void refuse(const std::string& what) const;

  Program& program_;
  const ExactClipping& exact_;
  ResidentSteps& resident_;
  StepRule::Kind kind_;
  RandomKey key_;
  std::string who_;
  Executor& executor_;
  std::unique_ptr<ResidentSteps::Memory> memory_;
  std::unique_ptr<RandomStream> random_;  // draws this step's places
  std::vector<std::uint64_t> sum_places_;
  std::vector<std::uint64_t> expected_;  // the sum at the checked places
  std::vector<std::uint64_t> chunks_, elements_;
  std::vector<std::int64_t> released_;  // the released cells of these elements
  std::vector<std::uint64_t> all_;      // places; computed on first use
  std::vector<CellFactors> factors_;
  std::uint64_t sums_ = 0;
  bool has_sum_ = false, has_release_ = false;
  double width_ = 0.0;
  // The places checked in the last step, and the parameters, followed by the state, at these places
  // after it.
  std::vector<std::uint64_t> left_places_;
  std::vector<std::vector<float>> left_;
  bool is_ahead_ = false;
};

}  // namespace privgrad::core
