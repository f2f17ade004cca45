// Runs steps that stay on the program's device, and checks a sample of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/clip_rule.hpp"
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
///   - the scales of every example, against cell_scales() by the clipping's rule, and whether the
///     example is added to the sum, against its certified length;
///   - the checksum of every example, against its row in the batch;
///   - the sum at kSumPlaces places, against a sum computed here: the factors of every example's
///     cells at these places, multiplied and added up;
///   - the released cells of kNoiseChunks chunks of kChunk elements, against the noise that
///     RoundedGaussianStream makes for the sum there;
///   - the parameters and the state whenever they are used or fetched, against apply() of the rule
///     on their values before the last step, in the chunks of that step. If the model has no more
///     parameters than these chunks, all of them are checked.
/// A difference in any bit ends the run with a PluginError: all compared values are exact, so no
/// example can make a correct program differ. In a step with a ContributionCheck, the whole sum is
/// compared as well, and some examples are recomputed from rows that the trust base gathered.
///
/// Parameters may move before their release is checked; nothing is fetched until it is checked.
///
/// If nothing differs, the noise equals the noise of Mechanism::release(): the NoiseOrder names the
/// same stream's key, sigma and shift, which determine each element. Limits of the checks: a
/// program that is wrong in a share p of its chunks in every step stays undetected for s steps with
/// probability at most (1 - p)^(64 s). A malicious program has the key and could publish the sums,
/// so it is trusted like the trust base (SECURITY.md).
///
/// Places and chunks follow from a key that the program never sees; the chunks are drawn after the
/// release.
///
/// Threads: calls must not overlap.
class ResidentRun {
 public:
  static constexpr std::size_t kSumPlaces = 64;
  static constexpr std::size_t kNoiseChunks = 64;

  /// \returns the program's ability; null if it has none, or no exact sums.
  static ResidentSteps* ability(Program& program);
  /// \returns the clipping's ability; null if it has none.
  static const HasClipRule* ability(const Clipping& clipping);

  /// \param program  must have the ability; program, data and executor must outlive this.
  /// \param key  used only to choose what is checked.
  /// \param who  the program's name, for errors.
  ResidentRun(Program& program, const Dataset& data, StepRule::Kind kind, const RandomKey& key,
              std::string who, Executor& executor);

  /// The examples of a step's sum, as for exact_sum().
  struct Examples {
    std::span<const std::uint32_t> batch;
    const Clip& clip;  ///< Has no count share; its rule has the ability.
    std::size_t most_rows = 0;
  };

  /// \param memory  the program's memory.
  /// \param check  null: no example is recomputed.
  /// \throws ConfigError or PluginError as exact_sum() does; PluginError also if a checked value
  ///   differs, or if the checks of the last step, or of a sum after it, were not completed.
  ResidentSum sum(std::uint64_t step, const Examples& examples, SumMemory& memory,
                  ContributionCheck* check);

  /// Makes the program release the sum and update its parameters from the release.
  /// \param noise  the noise that was paid for.
  /// \throws PrivacyError for noise that was paid for a different sum or bound, or if the program
  ///   no longer has the sum; PluginError if a checked value differs.
  ResidentSteps::Moved move(ResidentSum sum, const PaidNoise& noise, const StepRule& rule);

  /// Whether the program's parameters have changed since they were last fetched.
  bool is_ahead() const noexcept { return is_ahead_; }
  /// \param out  [parameters].
  /// \throws PluginError if the parameters differ from those after the last step, or if that step's
  ///   checks were not completed.
  void bring_parameters(std::span<float> out);
  /// Must be called after new parameters were loaded into the program: the next sum must use them.
  /// \param values  [parameters].
  void parameters_were_loaded(std::span<const float> values);

  /// \param vector  below state_vectors(kind).
  /// \throws PluginError if the state differs from the state after the last step.
  void bring_state(std::size_t vector, std::span<float> out) const;
  void put_state(std::size_t vector, std::span<const float> values);

 private:
  /// Values read from the memory before and after a sum is used.
  struct Reading {
    std::vector<std::int64_t> sums;  ///< At the checked places.
    /// Parameters and state at the places that were checked in the last step.
    std::vector<std::vector<float>> left;
  };

  void draw_chunks();
  std::vector<std::int64_t> begin_cells_at(ResidentSteps::Cells what,
                                           std::span<const std::uint64_t> places) const;
  std::vector<std::vector<float>> begin_numbers_at(std::span<const std::uint64_t> places) const;
  Reading begin_reading() const;
  void check(const Reading& reading) const;
  CellScaling scaling_of(const Clip& clip, std::uint64_t most) const;
  std::vector<std::uint64_t> checksums_of(std::span<const std::uint32_t> rows) const;
  void add_expected(std::span<const std::uint8_t> taken, std::span<const CellFactors> factors);
  std::vector<std::uint64_t> elements_of(std::uint64_t chunk) const;
  std::vector<std::int64_t> released_here(std::uint64_t chunk, const PaidNoise& noise,
                                          std::span<const std::int64_t> sums) const;
  void make_undecided(std::span<const std::uint64_t> chunks, const PaidNoise& noise);
  void check_noise(const PaidNoise& noise, std::span<const std::int64_t> sums,
                   std::span<const std::int64_t> released) const;
  void expect(const StepRule& rule, double width, std::span<const std::int64_t> released,
              std::vector<std::vector<float>> numbers);
  void require_checked() const;
  [[noreturn]] void refuse(const std::string& what) const;

  Program& program_;
  const Dataset& data_;
  const ExactClipping& exact_;
  ResidentSteps& resident_;
  StepRule::Kind kind_;
  RandomKey key_;
  std::string who_;
  Executor& executor_;
  std::unique_ptr<ResidentSteps::Memory> memory_;
  std::unique_ptr<RandomStream> random_;  // draws what is checked in this step
  std::vector<std::uint64_t> sum_places_;
  std::vector<std::uint64_t> expected_;  // the sum at the checked places
  std::vector<std::uint64_t> chunks_, elements_;
  std::vector<std::uint64_t> all_;  // places; computed on first use
  std::vector<CellFactors> factors_;
  std::vector<std::uint64_t> checksums_;  // as the program gives them
  std::uint64_t sums_ = 0;
  bool has_sum_ = false;
  // The places checked in the last step, and the values that its rule gives there: parameters, then
  // state. After parameters were loaded: the loaded parameters.
  std::vector<std::uint64_t> left_places_;
  std::vector<std::vector<float>> left_;
  bool is_ahead_ = false;
  bool is_checked_ = true;  // false during a sum or step, and for good after a failure
};

}  // namespace privgrad::core
