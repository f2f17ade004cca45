// Augmentation multiplicity: a program that averages an example's gradient over altered copies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/row_evaluations.hpp"
#include "privgrad/trust/program_around.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// A program whose per-example gradient is, in a step, the mean of the gradients of several altered
/// copies of the example (augmentation multiplicity: De et al. 2022, section 3.3).
///
/// Privacy: the copies of an example are drawn by a key that grows from the run's secret key, the
/// step's number and the example's features, so that its row is a function of the example, the
/// parameters and that key: the same at any place in any batch, beside any other rows. For every
/// value of the key, which knows nothing of the data, two neighbouring data sets then differ in one
/// example's row, and that row is clipped as one, after the mean: an example adds at most the clip
/// norm, whatever the number of copies, and the mechanism that was accounted is the one that runs.
/// The product forms of a gradient's norm (ExactClipping) are of one example alone, not of a mean
/// of several, so the ability is not offered: the core makes whole numbers of the rows, and
/// certifies their length itself.
///
/// Between steps, and for evaluate(), examples are as they are.
/// Threads: as Program; open_step() and close_step() not beside anything.
class AugmentedProgram final : public Keeping<ReproducibleRows, RowEvaluations> {
 public:
  /// \param image  shape of the program's input, [height, width] or [height, width, channels].
  AugmentedProgram(std::unique_ptr<Program> program, Shape image, const Augmentation& how);

  /// \param key  for augmentation alone, the same for all steps.
  void open_step(const RandomKey& key, std::uint64_t step);
  void close_step() { step_key_.reset(); }

  /// The program that computes the copies' gradients, each reproducibly if it does that; the mean
  /// of them is made in a fixed order.
  const Program& inside() const override { return *program_; }

  std::size_t parameter_count() const override { return program_->parameter_count(); }
  void load_parameters(std::span<const float> parameters) override {
    program_->load_parameters(parameters);
  }
  void gradient_rows(const Batch& batch, std::span<float> rows) const override;
  Evaluation evaluate(const Batch& batch) const override { return program_->evaluate(batch); }

 private:
  void mean_of_copies(std::span<const float> features, float target, std::span<float> row) const;

  std::unique_ptr<Program> program_;
  std::size_t height_, width_, channels_;
  Augmentation how_;
  std::optional<RandomKey> step_key_;
};

/// \returns the program for examples as they are: the one inside an AugmentedProgram, else
///   `program`.
const Program& plain_program(const Program& program);

/// Holds a step open for as long as it lives; nothing to do for other programs.
class AugmentedStep {
 public:
  /// \param program  outlives this.
  AugmentedStep(Program& program, const RandomKey& key, std::uint64_t step);
  AugmentedStep(const AugmentedStep&) = delete;
  AugmentedStep& operator=(const AugmentedStep&) = delete;
  ~AugmentedStep();

 private:
  AugmentedProgram* program_;
};

}  // namespace privgrad::core
