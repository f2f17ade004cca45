#include "fused.hpp"

#include <algorithm>
#include <functional>
#include <variant>

#include "fused_task.hpp"

namespace privgrad::cpu {
namespace {

/// Extents of the tiles of dense products.
constexpr std::size_t kTileColumns = 256;
constexpr std::size_t kTileUnits = 256;
constexpr std::size_t kTileInputs = 1024;
/// Parameters whose kept gradients are added up by one task.
constexpr std::size_t kRowPiece = 4096;

}  // namespace

// --- What depends on the network alone.

FusedEngine::FusedEngine(const Network& network, const std::vector<std::unique_ptr<Step>>& steps,
                         Executor& executor)
    : network_(network), steps_(steps), executor_(executor), group_of_(steps.size()) {
  first_with_parameters_ = steps_.size();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (steps_[s]->parameter_count() == 0) continue;
    first_with_parameters_ = std::min(first_with_parameters_, s);
    group_of_[s] = group_steps_.size();
    group_steps_.push_back(s);
  }
  make_stages();
  choose_sums();
  choose_rows();
  for (const std::size_t s : group_steps_) add_pieces(s);
}

const DenseStep& FusedEngine::dense(std::size_t step) const {
  return static_cast<const DenseStep&>(*steps_[step]);
}

const ConvStep& FusedEngine::conv(std::size_t step) const {
  return static_cast<const ConvStep&>(*steps_[step]);
}

void FusedEngine::make_stages() {
  const auto is_dense = [&](std::size_t s) {
    return std::holds_alternative<Dense>(network_.layers[s]);
  };
  for (std::size_t s = 0; s < steps_.size();) {
    Stage stage{s, s + 1, is_dense(s)};
    if (stage.is_dense) {
      if (stage.last < steps_.size() &&
          std::holds_alternative<Activation>(network_.layers[stage.last])) {
        ++stage.last;
      }
    } else {
      while (stage.last < steps_.size() && !is_dense(stage.last)) ++stage.last;
    }
    stages_.push_back(stage);
    s = stage.last;
  }
}

/// Kept rows are written once and read twice, at about ten floating-point operations per byte on
/// today's cores; norms by places cost 2 places^2 (patch + channels) operations, and the patches
/// are gathered once more. The matrix product itself is needed either way.
void FusedEngine::choose_sums() {
  constexpr double kRowCost = 40.0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Layer& layer = network_.layers[s];
    SumBy by = steps_[s]->parameter_count() == 0 ? SumBy::nothing : SumBy::rows;
    if (std::holds_alternative<Dense>(layer)) by = SumBy::product;
    if (std::holds_alternative<Embedding>(layer)) by = SumBy::tokens;
    if (std::holds_alternative<Conv2d>(layer)) {
      const auto places = static_cast<double>(conv(s).places());
      const auto patch = static_cast<double>(conv(s).patch());
      const auto channels = static_cast<double>(conv(s).channels());
      if (places * places * (patch + channels) < kRowCost * patch * channels) by = SumBy::gram;
    }
    sum_by_.push_back(by);
  }
}

/// So many that the products are large, as long as a pass stays below 64 MiB or so.
void FusedEngine::choose_rows() {
  constexpr std::size_t kFloats = std::size_t{16} << 20;
  std::size_t floats = 1;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!shares_memory(s)) floats += steps_[s]->outputs();
    if (sum_by_[s] == SumBy::rows) floats += steps_[s]->parameter_count();
    if (sum_by_[s] == SumBy::gram || sum_by_[s] == SumBy::tokens) floats += steps_[s]->outputs();
  }
  for (const Stage& stage : stages_) floats += steps_[stage.last - 1]->outputs();
  chunk_rows_ = 256;
  while (chunk_rows_ > kBlock && chunk_rows_ * floats > kFloats) chunk_rows_ /= 2;
  pass_rows_ =
      std::clamp(kFloats / floats / chunk_rows_ * chunk_rows_, chunk_rows_, std::size_t{1024});
}

void FusedEngine::add_pieces(std::size_t s) {
  const auto cut = [](std::size_t extent, std::size_t size, const auto& use) {
    for (std::size_t first = 0; first < extent; first += size) {
      use(first, std::min(first + size, extent));
    }
  };
  switch (sum_by_[s]) {
    case SumBy::nothing:
      return;
    case SumBy::product: {
      const std::size_t units = steps_[s]->outputs();
      cut(units, kTileUnits, [&](std::size_t first, std::size_t end) {
        cut(steps_[s]->inputs(), units < kTileUnits ? kTileColumns : kTileInputs,
            [&](std::size_t left, std::size_t right) {
              pieces_.push_back({s, first, end, left, right});
            });
      });
      return;
    }
    case SumBy::rows:
      cut(steps_[s]->parameter_count(), kRowPiece, [&](std::size_t first, std::size_t end) {
        pieces_.push_back({s, first, end, 0, 0});
      });
      return;
    case SumBy::gram:
      cut(conv(s).channels(), kTileUnits, [&](std::size_t first, std::size_t end) {
        pieces_.push_back({s, first, end, 0, 0});
      });
      return;
    case SumBy::tokens:
      pieces_.push_back({s, 0, 0, 0, 0});
      return;
  }
}

/// Whether step s writes its output over its input.
bool FusedEngine::shares_memory(std::size_t s) const {
  if (!steps_[s]->works_in_place()) return false;
  return std::holds_alternative<Flatten>(network_.layers[s]) ||
         (s > 0 && steps_[s - 1]->gives_output_away());
}

std::size_t FusedEngine::kept_rows(std::size_t rows, bool has_norms) const {
  return has_norms ? rows : (rows + kBlock - 1) / kBlock;
}

std::unique_ptr<FusedPass> FusedEngine::make_forward_pass(std::size_t most_rows) const {
  auto pass = std::make_unique<FusedPass>();
  pass->most_rows_ = most_rows;
  pass->entering_.resize(steps_.size() + 1);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass->storage_.push_back(shares_memory(s) ? nullptr
                                              : std::make_unique_for_overwrite<float[]>(
                                                    most_rows * steps_[s]->outputs()));
    // Flatten in front of everything passes the features on, which nobody writes to.
    pass->leaving_.push_back(pass->storage_[s] != nullptr ? pass->storage_[s].get()
                             : s > 0                      ? pass->leaving_[s - 1]
                                                          : nullptr);
  }
  return pass;
}

std::unique_ptr<FusedPass> FusedEngine::make_pass(std::size_t most_rows) const {
  auto pass = make_forward_pass(most_rows);
  for (const Stage& stage : stages_) {
    pass->deltas_.push_back(
        std::make_unique_for_overwrite<float[]>(most_rows * steps_[stage.last - 1]->outputs()));
  }
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    std::size_t floats = 0;
    if (sum_by_[s] == SumBy::rows) floats = steps_[s]->parameter_count();
    if (sum_by_[s] == SumBy::gram || sum_by_[s] == SumBy::tokens) floats = steps_[s]->outputs();
    pass->kept_.push_back(
        floats == 0 ? nullptr : std::make_unique_for_overwrite<float[]>(most_rows * floats));
  }
  return pass;
}

// --- Tasks.

void FusedEngine::for_each_block(std::size_t rows, std::size_t block,
                                 const std::function<void(std::size_t, std::size_t)>& body) const {
  executor_.for_each_chunk((rows + block - 1) / block, [&](std::size_t i) {
    body(i * block, std::min(block, rows - i * block));
  });
}

/// body(first row, rows, first column, columns).
void FusedEngine::for_each_tile(
    std::size_t rows, std::size_t columns,
    const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const {
  // Few columns: more rows apart, so that there is work for several threads.
  const std::size_t tile_rows =
      columns < kTileColumns ? std::min<std::size_t>(chunk_rows_, 32) : chunk_rows_;
  const std::size_t across = (columns + kTileColumns - 1) / kTileColumns;
  const std::size_t down = (rows + tile_rows - 1) / tile_rows;
  executor_.for_each_chunk(across * down, [&](std::size_t i) {
    const std::size_t row = i / across * tile_rows;
    const std::size_t column = i % across * kTileColumns;
    body(row, std::min(tile_rows, rows - row), column, std::min(kTileColumns, columns - column));
  });
}

}  // namespace privgrad::cpu
