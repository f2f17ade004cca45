// The passes of ExactEngine over a batch: forwards, backwards, cells and their sums.
#include <algorithm>
#include <cmath>

#include "exact.hpp"
#include "loops.hpp"
#include "losses.hpp"

namespace privgrad::cpu {

// --- Forwards.

const float* ExactEngine::forward(const Batch& batch, ExactPass& pass) const {
  pass.batch_ = batch;
  pass.taken_.clear();
  pass.entering_[0] = batch.features.data();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass.entering_[s + 1] = pass.leaving_[s] != nullptr ? pass.leaving_[s] : pass.entering_[s];
    pass.steps_[s].rows = batch.rows();
    pass.steps_[s].in = pass.entering_[sources_.of[s]];
  }
  for (const Stage& stage : stages_) {
    if (stage.is_batch) {
      steps_[stage.first]->forward_batch(whole_batch(stage, pass), pass.steps_[stage.first],
                                         pass.leaving_[stage.first]);
    } else {
      block_forward(stage, pass);
    }
  }
  return pass.entering_.back();
}

WholeBatch ExactEngine::whole_batch(const Stage& stage, const ExactPass& pass) const {
  return {.tasks = tasks_, .panels = pass.panels_.get(), .function = stage.function};
}

void ExactEngine::block_forward(const Stage& stage, ExactPass& pass) const {
  tasks_.for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    const ExactPass::Lease scratch(pass);
    for (std::size_t s = stage.first; s < stage.last; ++s) {
      if (pass.leaving_[s] == nullptr) continue;
      float* out = pass.leaving_[s] + first * steps_[s]->outputs();
      steps_[s]->forward(count, pass.entering_[s] + first * steps_[s]->inputs(), out, *scratch);
      const std::size_t source = sources_.of[s];
      if (source == s) continue;
      const float* earlier = pass.entering_[source] + first * steps_[source]->inputs();
      steps_[s]->add_earlier(count, earlier, out, *scratch);
    }
  });
}

// --- Backwards.

void ExactEngine::backward(const Batch& batch, ExactPass& pass,
                           std::span<double> squared_norms) const {
  const float* outputs = forward(batch, pass);
  const std::size_t width = steps_.back()->outputs();
  tasks_.for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      loss_gradient(network_, {outputs + i * width, width}, batch.targets[i],
                    {pass.deltas_.back().get() + i * width, width});
      for (std::size_t s = 0; s < steps_.size(); ++s) {
        const std::size_t size = steps_[s]->inputs();
        if (sources_.is_source[s]) std::fill_n(pass.added_[s].get() + i * size, size, 0.0f);
      }
    }
  });
  for (std::size_t k = stages_.size(); k-- > 0 && stages_[k].last > first_with_parameters_;) {
    if (stages_[k].is_batch) {
      batch_backward(k, pass);
    } else {
      block_backward(k, pass);
    }
  }
  for (std::size_t i = 0; i < pass.rows() * groups(); ++i) {
    squared_norms[i] = pass.shares_[i].squared_norm;
  }
}

void ExactEngine::batch_backward(std::size_t k, ExactPass& pass) const {
  const Stage& stage = stages_[k];
  const std::size_t s = stage.first;
  float* below = s > first_with_parameters_ ? pass.deltas_[k - 1].get() : nullptr;
  steps_[s]->backward_batch(whole_batch(stage, pass), pass.steps_[s], pass.leaving_[s],
                            pass.deltas_[k].get(), below);
  if (below == nullptr || !sources_.is_source[s]) return;
  tasks_.for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    add_from_shortcuts(s, pass, first, count, below + first * steps_[s]->inputs());
  });
}

void ExactEngine::block_backward(std::size_t k, ExactPass& pass) const {
  const Stage& stage = stages_[k];
  std::size_t widest = 0;
  for (std::size_t s = stage.first; s < stage.last; ++s) {
    widest = std::max(widest, steps_[s]->inputs());
  }
  tasks_.for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    const ExactPass::Lease scratch(pass);
    float* one = at_least(scratch->one, count * widest);
    float* other = at_least(scratch->other, count * widest);
    float* delta = pass.deltas_[k].get() + first * steps_[stage.last - 1]->outputs();
    for (std::size_t s = stage.last; s-- > stage.first;) {
      if (s < first_with_parameters_) return;
      delta = step_backward(s, pass, first, count, delta, delta == one ? other : one, *scratch);
      if (s == first_with_parameters_) return;
      add_from_shortcuts(s, pass, first, count, delta);
    }
    const std::size_t size = steps_[stage.first]->inputs();
    std::copy_n(delta, count * size, pass.deltas_[k - 1].get() + first * size);
  });
}

float* ExactEngine::step_backward(std::size_t s, ExactPass& pass, std::size_t first,
                                  std::size_t count, float* delta, float* below,
                                  Scratch& scratch) const {
  const Step& step = *steps_[s];
  if (step.parameter_count() > 0) step.find_norms(first, count, delta, pass.steps_[s], scratch);
  if (s <= first_with_parameters_) return below;
  const std::size_t source = sources_.of[s];
  // Before the first parameters no derivatives are needed.
  if (source != s && source > first_with_parameters_) {
    step.add_backward(count, delta, pass.added_[source].get() + first * steps_[source]->inputs(),
                      scratch);
  }
  const float* in = pass.entering_[s] + first * step.inputs();
  const float* out = pass.entering_[s + 1] + first * step.outputs();
  return step.backward(count, in, out, delta, below, scratch);
}

/// delta += the derivatives that shortcuts pass back to the input of step s.
void ExactEngine::add_from_shortcuts(std::size_t s, const ExactPass& pass, std::size_t first,
                                     std::size_t count, float* delta) const {
  const std::size_t size = steps_[s]->inputs();
  if (sources_.is_source[s]) add(pass.added_[s].get() + first * size, count * size, delta);
}

// --- Cells.

void ExactEngine::make_cells(ExactPass& pass, std::span<const double> scales,
                             std::uint64_t most_cells, std::span<SquaredLength> lengths) const {
  constexpr std::size_t kPairs = 4;
  const Wide most = Wide{most_cells} * most_cells;
  pass.taken_.clear();  // from earlier cells
  tasks_.for_each_block(pass.rows(), 2 * kPairs, [&](std::size_t first, std::size_t count) {
    choose_scales(pass, scales, most_cells, first, count);
    for (std::size_t row = first; row < first + count; row += 2) {
      make_pair(pass, row / 2, most, lengths);
    }
  });
}

/// A gradient that is zero or not finite has no cells; and no group's scale makes it longer than
/// most_cells, whatever was requested.
void ExactEngine::choose_scales(ExactPass& pass, std::span<const double> scales,
                                std::uint64_t most_cells, std::size_t first,
                                std::size_t count) const {
  for (std::size_t i = first * groups(); i < (first + count) * groups(); ++i) {
    Share& share = pass.shares_[i];
    share.scale = 0.0;
    share.largest_cell = 0;
    if (!(share.squared_norm > 0.0)) continue;  // false for a NaN
    share.scale =
        std::min(scales[i], static_cast<double>(most_cells) / std::sqrt(share.squared_norm));
  }
}

/// Numbers are first rounded to nearest if their layer does that, and truncated if that makes them
/// too long; the others are the same either way.
void ExactEngine::make_pair(ExactPass& pass, std::size_t pair, Wide most,
                            std::span<SquaredLength> lengths) const {
  Wide fixed[2] = {}, squares[2] = {};
  bool truncates[2] = {false, false};
  const auto make = [&](bool may_lengthen, Wide* sums) {
    for (const std::size_t s : group_steps_) {
      if (steps_[s]->may_lengthen() == may_lengthen)
        steps_[s]->make_cells(pair, truncates, pass.steps_[s], sums);
    }
  };
  make(false, fixed);
  std::copy_n(fixed, 2, squares);
  make(true, squares);
  if (squares[0] > most || squares[1] > most) {
    truncates[0] = squares[0] > most;
    truncates[1] = squares[1] > most;
    std::copy_n(fixed, 2, squares);
    make(true, squares);
  }
  for (std::size_t half = 0; half < 2 && 2 * pair + half < pass.rows(); ++half) {
    lengths[2 * pair + half] = {static_cast<std::uint64_t>(squares[half] >> 64),
                                static_cast<std::uint64_t>(squares[half])};
  }
}

// --- Sums.

void ExactEngine::choose(ExactPass& pass, std::span<const std::uint8_t> taken) const {
  if (!pass.taken_.empty()) {
    for (const std::size_t s : group_steps_) steps_[s]->undo_choice(pass.taken_, pass.steps_[s]);
  }
  pass.taken_.assign(taken.begin(), taken.end());
  for (const std::size_t s : group_steps_) steps_[s]->choose(pass.taken_, pass.steps_[s]);
}

void ExactEngine::add_cells(ExactPass& pass, std::span<std::int64_t> sum) const {
  tasks_.for_each(pass.rows() == 0 ? 0 : pieces_.size(),
                  [&](std::size_t i) { add_piece(pieces_[i], pass, sum, 0); });
}

void ExactEngine::add_range(ExactPass& pass, std::size_t range, std::span<std::int64_t> sum) const {
  if (pass.rows() == 0) return;
  const std::size_t first = range == 0 ? 0 : range_ends_[range - 1];
  for (std::size_t i = range == 0 ? 0 : range_pieces_[range - 1]; i < range_pieces_[range]; ++i) {
    add_piece(pieces_[i], pass, sum, first);
  }
}

/// \param first  the first parameter of the sum.
void ExactEngine::add_piece(const PieceOf& one, const ExactPass& pass, std::span<std::int64_t> sum,
                            std::size_t first) const {
  const Step& step = *steps_[one.step];
  step.add_cells(one.piece, pass.taken_, pass.steps_[one.step],
                 {.sum = sum, .first = first, .offset = step.offset()});
}

}  // namespace privgrad::cpu
