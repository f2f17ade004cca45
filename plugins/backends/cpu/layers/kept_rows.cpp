#include "layers/kept_rows.hpp"

#include "cells.hpp"
#include "loops.hpp"

namespace privgrad::cpu {

void KeptRows::allocate(StepPass& pass) const {
  pass.kept = std::make_unique_for_overwrite<float[]>(pass.most_rows * parameter_count_);
}

void KeptRows::find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                          Scratch& scratch) const {
  const bool is_owner = pass.kept_by_owner == nullptr;
  float* kept = (is_owner ? pass.kept.get() : pass.kept_by_owner) + first * parameter_count_;
  gradient_rows(count, pass.in + first * inputs_, delta, kept, parameter_count_, scratch);
  for (std::size_t i = 0; is_owner && i < count; ++i) {
    pass.share(first + i).squared_norm =
        norm_or_nan(sum_of_squares(kept + i * parameter_count_, parameter_count_));
  }
}

void KeptRows::make_cells(std::size_t pair, const bool*, StepPass& pass, Wide* squares) const {
  for_each_of_pair(pair, pass, squares, [&](std::size_t row, Wide& square) {
    square += truncated_squares(truncating_scale(pass.share(row)),
                                pass.kept.get() + row * parameter_count_, parameter_count_);
  });
}

std::vector<Piece> KeptRows::pieces() const {
  std::vector<Piece> pieces;
  cut(parameter_count_, kRowPiece, [&](std::size_t first, std::size_t end) {
    pieces.push_back({.first = first, .end = end, .until = end});
  });
  return pieces;
}

void KeptRows::add_cells(const Piece& piece, std::span<const std::uint8_t> taken,
                         const StepPass& pass, const Target& target) const {
  for_each_chosen(0, pass.rows, taken, pass, [&](std::size_t row) {
    add_truncated(truncating_scale(pass.share(row)),
                  pass.kept.get() + row * parameter_count_ + piece.first, piece.end - piece.first,
                  target.at(piece.first));
  });
}

}  // namespace privgrad::cpu
