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

/// A program whose per-example gradient in a step is the mean of the gradients of several altered
/// copies of the example (augmentation multiplicity: De et al. 2022, section 3.3).
///
/// Privacy: the copies of an example are drawn with a key derived from the run's secret key, the
/// step's number and the example's features. So the example's gradient row is a function of the
/// example, the parameters, the step and the secret key: the same at any place in any batch, with
/// any other examples. The secret key does not depend on the data, and for every value of it, two
/// neighbouring data sets differ in one example's gradient row. This row is clipped once, after the
/// mean, so an example adds at most the clip norm for any number of copies, as the accounting
/// assumes. ExactClipping is not offered, because its product forms of a gradient's norm apply to
/// one example, not to a mean: the core itself rounds the gradient rows to integers and certifies
/// their length.
///
/// Between steps, and in evaluate(), examples are not altered. Threads: as Program; open_step() and
/// close_step() must not overlap with any other call.
class AugmentedProgram final : public Keeping<ReproducibleRows, RowEvaluations> {
 public:
  /// \param image  the shape of the program's input: [height, width] or [height, width, channels].
  AugmentedProgram(std::unique_ptr<Program> program, Shape image, const Augmentation& how);

  /// \param key  used only for augmentation; the same in all steps.
  void open_step(const RandomKey& key, std::uint64_t step);
  void close_step() { step_key_.reset(); }

  /// The program that computes the copies' gradients. Their mean is computed in a fixed order, so
  /// it is reproducible if the gradients are.
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

/// \returns the program for unaltered examples: the inner program of an AugmentedProgram, otherwise
///   `program`.
const Program& plain_program(const Program& program);

/// Keeps a step of an AugmentedProgram open for its lifetime; does nothing for other programs.
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
