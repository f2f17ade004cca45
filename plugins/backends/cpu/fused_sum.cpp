// The scaled sum of FusedEngine, in pieces of the parameters.
#include <algorithm>
#include <cmath>

#include "fused.hpp"
#include "fused_task.hpp"
#include "gemm.hpp"
#include "loops.hpp"

namespace privgrad::cpu {

float FusedEngine::factor(std::span<const float> factors, std::size_t row, std::size_t s) const {
  return factors.empty() ? 1.0f : factors[row * groups() + group_of_[s]];
}

void FusedEngine::add_scaled(FusedPass& pass, std::span<const float> factors,
                             std::span<float> sum) const {
  use_one_blas_thread();
  for (std::size_t group = 0; group < groups(); ++group) clean_inputs(group, pass, factors);
  executor_.for_each_chunk(pass.rows() == 0 ? 0 : pieces_.size(), [&](std::size_t i) {
    const Piece& piece = pieces_[i];
    switch (sum_by_[piece.step]) {
      case SumBy::nothing:
        return;
      case SumBy::product:
        return sum_product(piece, pass, factors, sum);
      case SumBy::rows:
        return sum_rows(piece, pass, factors, sum);
      case SumBy::gram:
        return sum_gram(piece, pass, factors, sum);
      case SumBy::tokens:
        return sum_tokens(piece, pass, factors, sum);
    }
  });
}

/// In a product over examples, 0 times infinity would reach the others: the inputs of an example
/// that is taken out are set to 0 where they are not finite.
void FusedEngine::clean_inputs(std::size_t group, FusedPass& pass,
                               std::span<const float> factors) const {
  const std::size_t s = group_steps_[group];
  if (sum_by_[s] != SumBy::product) return;
  const std::size_t inputs = steps_[s]->inputs();
  for (std::size_t i = 0; i < pass.rows(); ++i) {
    if (factor(factors, i, s) != 0.0f) continue;
    if (std::isfinite(sum_of_squares(pass.entering_[s] + i * inputs, inputs))) continue;
    if (pass.entering_[s] == pass.batch_.features.data()) {  // which is not ours to change
      pass.clean_features_.assign(pass.batch_.features.begin(), pass.batch_.features.end());
      pass.entering_[s] = pass.clean_features_.data();
    }
    float* rows = pass.clean_features_.data() == pass.entering_[s] ? pass.clean_features_.data()
                                                                   : pass.leaving_[s - 1];
    std::fill_n(rows + i * inputs, inputs, 0.0f);
  }
}

void FusedEngine::sum_product(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                              std::span<float> sum) const {
  const std::size_t s = piece.step;
  const DenseStep& step = dense(s);
  const std::size_t units = piece.end - piece.first;
  const std::size_t inputs = step.inputs();
  const auto stage = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& one) { return one.first == s; });
  const float* delta = pass.deltas_[static_cast<std::size_t>(stage - stages_.begin())].get();
  const FusedPass::Lease scratch(pass);
  float* scaled = factors.empty() ? nullptr : at_least(scratch->scaled, chunk_rows_ * units);
  float* bias = sum.data() + step.offset() + inputs * step.outputs() + piece.first;
  for (std::size_t row = 0; row < pass.rows(); row += chunk_rows_) {
    const std::size_t rows = std::min(chunk_rows_, pass.rows() - row);
    const float* errors = delta + row * step.outputs() + piece.first;
    const MatrixView used = factors.empty() ? MatrixView{errors, step.outputs(), true}
                                            : MatrixView{scaled, units, true};
    for (std::size_t i = 0; i < rows && scaled != nullptr; ++i) {
      const float f = factor(factors, row + i, s);
      float* to = scaled + i * units;
      if (f == 0.0f) {
        std::fill_n(to, units, 0.0f);
      } else {
        scale(f, errors + i * step.outputs(), units, to);
      }
    }
    for (std::size_t i = 0; i < rows && piece.left == 0; ++i) {
      add(used.data + i * used.stride, units, bias);
    }
    multiply(units, piece.right - piece.left, rows, used,
             {pass.entering_[s] + row * inputs + piece.left, inputs}, true,
             sum.data() + step.offset() + piece.first * inputs + piece.left, inputs);
  }
}

void FusedEngine::sum_rows(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                           std::span<float> sum) const {
  const std::size_t s = piece.step;
  const std::size_t parameters = steps_[s]->parameter_count();
  const std::size_t rows = kept_rows(pass.rows(), pass.has_norms());
  const float* kept = pass.kept_[s].get() + piece.first;
  float* to = sum.data() + steps_[s]->offset() + piece.first;
  for (std::size_t i = 0; i < rows; ++i, kept += parameters) {
    const float f = factor(factors, i, s);
    if (f != 0.0f) cpu::add_scaled(f, kept, piece.end - piece.first, to);
  }
}

void FusedEngine::sum_gram(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                           std::span<float> sum) const {
  const std::size_t s = piece.step;
  const ConvStep& step = conv(s);
  const std::size_t units = piece.end - piece.first;
  const std::size_t places = step.places();
  const std::size_t size = places * step.patch();
  const std::size_t together = examples_together(step, kBlock);
  const FusedPass::Lease scratch(pass);
  float* patches = at_least(scratch->patches, together * size);
  float* scaled = at_least(scratch->scaled, together * places * units);
  float* bias = sum.data() + step.offset() + step.channels() * step.patch() + piece.first;
  for (std::size_t first = 0; first < pass.rows(); first += together) {
    const std::size_t examples = std::min(together, pass.rows() - first);
    for (std::size_t i = 0; i < examples; ++i) {
      const float f = factor(factors, first + i, s);
      if (f == 0.0f) {
        std::fill_n(patches + i * size, size, 0.0f);
        std::fill_n(scaled + i * places * units, places * units, 0.0f);
        continue;
      }
      step.gather_patches(pass.entering_[s] + (first + i) * step.inputs(), patches + i * size);
      const float* delta = pass.kept_[s].get() + (first + i) * step.outputs() + piece.first;
      for (std::size_t place = 0; place < places; ++place) {
        float* to = scaled + (i * places + place) * units;
        scale(f, delta + place * step.channels(), units, to);
        add(to, units, bias);
      }
    }
    multiply(units, step.patch(), examples * places, {scaled, units, true}, {patches, step.patch()},
             true, sum.data() + step.offset() + piece.first * step.patch(), step.patch());
  }
}

void FusedEngine::sum_tokens(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                             std::span<float> sum) const {
  const std::size_t s = piece.step;
  const auto& step = static_cast<const EmbeddingStep&>(*steps_[s]);
  for (std::size_t i = 0; i < pass.rows(); ++i) {
    const float f = factor(factors, i, s);
    if (f == 0.0f) continue;
    step.for_each_row(
        pass.entering_[s] + i * step.inputs(), pass.kept_[s].get() + i * step.outputs(),
        [&](std::size_t first, std::span<const float> gradient) {
          cpu::add_scaled(f, gradient.data(), gradient.size(), sum.data() + step.offset() + first);
        });
  }
}

}  // namespace privgrad::cpu
