#include "exact.hpp"

#include <algorithm>
#include <functional>
#include <variant>

#include "cells.hpp"
#include "chains.hpp"
#include "exact_task.hpp"

namespace privgrad::cpu {
namespace {

/// Parameters of a product that one task adds up, about: so many that its operands are read seldom,
/// so few that there is work for several threads.
constexpr std::size_t kProductPiece = 32768;

}  // namespace

ExactEngine::ExactEngine(const Network& network, const Shortcuts& shortcuts,
                         const std::vector<std::unique_ptr<Step>>& steps, Executor& executor)
    : network_(network),
      shortcuts_(shortcuts),
      steps_(steps),
      executor_(executor),
      group_of_(steps.size()),
      stage_of_(steps.size()) {
  first_with_parameters_ = steps_.size();
  std::size_t widest = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    widest = std::max({widest, steps_[s]->inputs(), steps_[s]->outputs()});
    if (steps_[s]->parameter_count() == 0) continue;
    first_with_parameters_ = std::min(first_with_parameters_, s);
    group_of_[s] = group_steps_.size();
    group_steps_.push_back(s);
  }
  zeros_.resize(widest);
  make_stages();
  choose_cells();
  choose_rows();
  for (const std::size_t s : group_steps_) add_pieces(s);
  make_ranges();
}

const DenseStep& ExactEngine::dense(std::size_t step) const {
  return static_cast<const DenseStep&>(*steps_[step]);
}

const ConvStep& ExactEngine::conv(std::size_t step) const {
  if (is_shortcut(step)) return *static_cast<const ShortcutStep&>(*steps_[step]).projection();
  return static_cast<const ConvStep&>(*steps_[step]);
}

void ExactEngine::make_stages() {
  const auto is_dense = [&](std::size_t s) {
    return std::holds_alternative<Dense>(network_.layers[s]);
  };
  for (std::size_t s = 0; s < steps_.size();) {
    Stage stage{s, s + 1, is_dense(s)};
    if (stage.is_dense) {
      // A value that a shortcut adds is kept, so nothing is written over it.
      if (stage.last < steps_.size() && !shortcuts_.is_source[stage.last] &&
          std::holds_alternative<Activation>(network_.layers[stage.last])) {
        ++stage.last;
      }
    } else {
      while (stage.last < steps_.size() && !is_dense(stage.last)) ++stage.last;
    }
    std::fill(stage_of_.begin() + static_cast<std::ptrdiff_t>(s),
              stage_of_.begin() + static_cast<std::ptrdiff_t>(stage.last), stages_.size());
    stages_.push_back(stage);
    s = stage.last;
  }
}

void ExactEngine::choose_cells() {
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Layer& layer = network_.layers[s];
    CellsBy by = steps_[s]->parameter_count() == 0 ? CellsBy::nothing : CellsBy::rows;
    if (std::holds_alternative<Dense>(layer)) by = CellsBy::product;
    if (std::holds_alternative<Conv2d>(layer)) by = CellsBy::places;
    if (std::holds_alternative<Shortcut>(layer) && by == CellsBy::rows) by = CellsBy::places;
    if (std::holds_alternative<Embedding>(layer)) by = CellsBy::tokens;
    cells_by_.push_back(by);
  }
}

/// So many that the products are large, as long as a pass stays below 64 MiB or so.
void ExactEngine::choose_rows() {
  constexpr std::size_t kFloats = std::size_t{16} << 20;
  std::size_t floats = 1;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!shares_memory(s)) floats += steps_[s]->outputs();
    if (shortcuts_.is_source[s]) floats += steps_[s]->inputs();
    if (cells_by_[s] == CellsBy::rows) floats += steps_[s]->parameter_count();
    if (cells_by_[s] == CellsBy::places) floats += steps_[s]->parameter_count() / 2;
    if (cells_by_[s] == CellsBy::tokens) floats += steps_[s]->outputs();
    if (cells_by_[s] == CellsBy::product)
      floats += (steps_[s]->inputs() + steps_[s]->outputs()) / 2;
  }
  for (const Stage& stage : stages_) floats += steps_[stage.last - 1]->outputs();
  microbatch_rows_ = 512;
  while (microbatch_rows_ > kPanel && microbatch_rows_ * floats > kFloats) microbatch_rows_ /= 2;
}

void ExactEngine::add_pieces(std::size_t s) {
  const auto cut = [](std::size_t extent, std::size_t size, const auto& use) {
    for (std::size_t first = 0; first < extent; first += size) {
      use(first, std::min(first + size, extent));
    }
  };
  switch (cells_by_[s]) {
    case CellsBy::nothing:
      return;
    case CellsBy::product: {
      const std::size_t units = (steps_[s]->outputs() + kUnitTile - 1) / kUnitTile;
      const std::size_t inputs = (steps_[s]->inputs() + kInputTile - 1) / kInputTile;
      // Whole rows of weights, unless there are few of them.
      const std::size_t across = units < 8 ? std::min<std::size_t>(inputs, 4) : inputs;
      const std::size_t down =
          std::max<std::size_t>(1, kProductPiece / (across * kUnitTile * kInputTile));
      cut(units, down, [&](std::size_t first, std::size_t end) {
        cut(inputs, across, [&](std::size_t left, std::size_t right) {
          pieces_.push_back({s, first, end, left, right});
        });
      });
      cut(steps_[s]->outputs(), kBiasPiece, [&](std::size_t first, std::size_t end) {
        pieces_.push_back({s, first, end, 0, 0});
      });
      return;
    }
    case CellsBy::places:
    case CellsBy::rows:
      cut(steps_[s]->parameter_count(), kRowPiece, [&](std::size_t first, std::size_t end) {
        pieces_.push_back({s, first, end, 0, 0});
      });
      return;
    case CellsBy::tokens:
      pieces_.push_back({s, 0, 0, 0, 0});
      return;
  }
}

/// The parameter behind a piece's last one, if those before it belong to pieces before it.
std::size_t ExactEngine::end_of(const Piece& piece) const {
  const Step& step = *steps_[piece.step];
  switch (cells_by_[piece.step]) {
    case CellsBy::product:
      if (piece.right == 0) return step.offset() + step.inputs() * step.outputs() + piece.end;
      return step.offset() + std::min(piece.end * kUnitTile, step.outputs()) * step.inputs();
    case CellsBy::rows:
      return step.offset() + piece.end;
    case CellsBy::places: {
      // The last piece has all biases, which may begin in the one before it.
      if (piece.end > step.parameter_count() - conv(piece.step).channels()) break;
      return step.offset() + piece.end;
    }
    case CellsBy::nothing:
    case CellsBy::tokens:
      break;
  }
  return step.offset() + step.parameter_count();
}

/// Pieces one after the other, about as many parameters as a product's piece has. Pieces side by
/// side in the same units have ends alike, and one range.
void ExactEngine::make_ranges() {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::size_t end = end_of(pieces_[i]);
    const bool is_last = i + 1 == pieces_.size();
    if (!is_last) {
      const std::size_t next = end_of(pieces_[i + 1]);
      if (next == end || next - begin <= kProductPiece) continue;
    }
    range_ends_.push_back(end);
    range_pieces_.push_back(i + 1);
    begin = end;
  }
}

/// Whether step s writes its output over its input.
bool ExactEngine::shares_memory(std::size_t s) const {
  if (!steps_[s]->works_in_place()) return false;
  if (std::holds_alternative<Flatten>(network_.layers[s])) return true;
  return s > 0 && steps_[s - 1]->gives_output_away() && !shortcuts_.is_source[s];
}

/// The derivatives by the outputs of dense step s, [rows, outputs].
const float* ExactEngine::errors(const ExactPass& pass, std::size_t s) const {
  return pass.deltas_[stage_of_[s]].get();
}

std::unique_ptr<ExactPass> ExactEngine::make_forward_pass(std::size_t most_rows) const {
  auto pass = std::make_unique<ExactPass>();
  pass->most_rows_ = most_rows;
  pass->groups_ = groups();
  pass->entering_.resize(steps_.size() + 1);
  std::size_t widest = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (cells_by_[s] == CellsBy::product) widest = std::max(widest, steps_[s]->inputs());
    pass->storage_.push_back(shares_memory(s) ? nullptr
                                              : std::make_unique_for_overwrite<float[]>(
                                                    most_rows * steps_[s]->outputs()));
    // Flatten in front of everything passes the features on, which nobody writes to.
    pass->leaving_.push_back(pass->storage_[s] != nullptr ? pass->storage_[s].get()
                             : s > 0                      ? pass->leaving_[s - 1]
                                                          : nullptr);
  }
  const std::size_t panels = (most_rows + kPanel - 1) / kPanel;
  pass->panels_ = std::make_unique_for_overwrite<float[]>(panels * kPanel * widest);
  return pass;
}

std::unique_ptr<ExactPass> ExactEngine::make_pass(std::size_t most_rows) const {
  auto pass = make_forward_pass(most_rows);
  for (const Stage& stage : stages_) {
    pass->deltas_.push_back(
        std::make_unique_for_overwrite<float[]>(most_rows * steps_[stage.last - 1]->outputs()));
  }
  const std::size_t pairs = (most_rows + 1) / 2;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass->added_.push_back(shortcuts_.is_source[s] ? std::make_unique_for_overwrite<float[]>(
                                                         most_rows * steps_[s]->inputs())
                                                   : nullptr);
    std::size_t floats = 0;
    if (cells_by_[s] == CellsBy::rows) floats = steps_[s]->parameter_count();
    if (cells_by_[s] == CellsBy::tokens) floats = steps_[s]->outputs();
    std::size_t numbers = 0;
    if (cells_by_[s] == CellsBy::places) {
      floats = conv(s).channels();
      numbers = steps_[s]->parameter_count() - floats;
    }
    pass->whole_.push_back(
        numbers == 0 ? nullptr
                     : std::make_unique_for_overwrite<std::int16_t[]>(most_rows * numbers));
    pass->kept_.push_back(
        floats == 0 ? nullptr : std::make_unique_for_overwrite<float[]>(most_rows * floats));
  }
  for (const std::size_t s : group_steps_) {
    ExactPass::Operands& operands = pass->operands_.emplace_back();
    if (cells_by_[s] != CellsBy::product) continue;
    operands.units = std::make_unique_for_overwrite<std::uint32_t[]>(
        operand_size(steps_[s]->outputs(), kUnitTile, pairs));
    operands.inputs = std::make_unique_for_overwrite<std::uint32_t[]>(
        operand_size(steps_[s]->inputs(), kInputTile, pairs));
  }
  pass->shares_.resize(most_rows * groups());
  return pass;
}

void ExactEngine::for_each_block(std::size_t rows, std::size_t block,
                                 const std::function<void(std::size_t, std::size_t)>& body) const {
  executor_.for_each_chunk((rows + block - 1) / block, [&](std::size_t i) {
    body(i * block, std::min(block, rows - i * block));
  });
}

/// body(first row, rows, first column, columns): rows change faster.
void ExactEngine::for_each_tile(
    std::size_t rows, std::size_t tile_rows, std::size_t columns, std::size_t tile_columns,
    const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const {
  const std::size_t down = (rows + tile_rows - 1) / tile_rows;
  const std::size_t across = (columns + tile_columns - 1) / tile_columns;
  executor_.for_each_chunk(across * down, [&](std::size_t i) {
    const std::size_t row = i % down * tile_rows;
    const std::size_t column = i / down * tile_columns;
    body(row, std::min(tile_rows, rows - row), column, std::min(tile_columns, columns - column));
  });
}

}  // namespace privgrad::cpu
