// The passes of ExactEngine over a batch: forwards, backwards, cells and their sums.
#include <algorithm>
#include <cmath>

#include "exact.hpp"
#include "loops.hpp"

namespace privgrad::cpu {

// --- Forwards.

namespace {

/// Calls use(value, i) for each input of a step.
template <class Use>
void for_each_input(const std::vector<std::size_t>& inputs, const Use& use) {
  for (std::size_t i = 0; i < inputs.size(); ++i) use(inputs[i], i);
}

}  // namespace

const float* ExactEngine::forward(const Batch& batch, ExactPass& pass) const {
  pass.batch_ = batch;
  pass.taken_.clear();
  pass.values_[0] = batch.features.data();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const float* in = pass.values_[flow_.inputs[s].front()];
    pass.values_[s + 1] = steps_[s]->passes_on() ? in : pass.memory_[s + 1];
    pass.steps_[s].rows = batch.rows();
    pass.steps_[s].in = in;
  }
  for (const Stage& stage : stages_) {
    if (stage.is_batch) {
      steps_[stage.first]->forward_batch(whole_batch(stage, pass), pass.steps_[stage.first],
                                         pass.memory_[stage.first + 1]);
    } else {
      block_forward(stage, pass);
    }
  }
  return pass.values_.back();
}

WholeBatch ExactEngine::whole_batch(const Stage& stage, const ExactPass& pass) const {
  return {.tasks = tasks_, .panels = pass.panels_.get(), .function = stage.function};
}

void ExactEngine::block_forward(const Stage& stage, ExactPass& pass) const {
  tasks_.for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    const ExactPass::Lease scratch(pass);
    for (std::size_t s = stage.first; s < stage.last; ++s) {
      if (steps_[s]->passes_on()) continue;
      scratch->in.clear();
      for_each_input(flow_.inputs[s], [&](std::size_t value, std::size_t) {
        scratch->in.push_back(pass.values_[value] + first * size_of(value));
      });
      steps_[s]->forward(count, scratch->in, pass.memory_[s + 1] + first * steps_[s]->outputs(),
                         *scratch);
    }
  });
}

// --- Backwards.

void ExactEngine::backward(const Batch& batch, ExactPass& pass,
                           std::span<double> squared_norms) const {
  const float* outputs = forward(batch, pass);
  const std::size_t width = steps_.back()->outputs(), inputs = size_of(0);
  tasks_.for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      loss_.find_gradient(batch.features.subspan(i * inputs, inputs), {outputs + i * width, width},
                          batch.targets[i], {pass.deltas_.back().get() + i * width, width});
    }
  });
  for (std::size_t k = stages_.size(); k-- > 0;) {
    if (stages_[k].is_batch) {
      batch_backward(stages_[k], pass);
    } else {
      block_backward(stages_[k], pass);
    }
  }
  for (std::size_t i = 0; i < pass.rows() * groups(); ++i) {
    squared_norms[i] = pass.shares_[i].squared_norm;
  }
}

void ExactEngine::batch_backward(const Stage& stage, ExactPass& pass) const {
  const std::size_t s = stage.first, value = flow_.inputs[s].front();
  if (!flow_.needs_derivative[s + 1]) return;
  const bool is_needed = flow_.needs_derivative[value];
  const bool is_first = flow_.hands_down_first(s, 0);
  float* const delta = is_needed ? pass.deltas_[value].get() : nullptr;
  steps_[s]->backward_batch(whole_batch(stage, pass), pass.steps_[s], pass.memory_[s + 1],
                            pass.deltas_[stage.last].get(),
                            is_needed && !is_first ? pass.added_.get() : delta);
  if (!is_needed || is_first) return;
  const std::size_t size = size_of(value);
  tasks_.for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    add(pass.added_.get() + first * size, count * size, delta + first * size);
  });
}

void ExactEngine::block_backward(const Stage& stage, ExactPass& pass) const {
  std::vector<std::size_t> slots;
  std::size_t floats = 0;
  for (const std::size_t size : stage.slots) {
    slots.push_back(floats);
    floats += kExactBlock * size;
  }
  tasks_.for_each_block(pass.rows(), kExactBlock, [&](std::size_t first, std::size_t count) {
    const ExactPass::Lease scratch(pass);
    at_least(scratch->deltas, floats);
    const Block block{.first = first, .count = count, .scratch = *scratch, .slots = slots};
    for (std::size_t s = stage.last; s-- > stage.first;) {
      if (flow_.needs_derivative[s + 1]) step_backward(s, pass, block);
    }
  });
}

/// \returns the derivatives of the losses of the block's examples with respect to a value.
float* ExactEngine::delta_of(std::size_t value, const ExactPass& pass, const Block& block) const {
  const Place& place = places_[value];
  if (place.slot != Place::kNowhere) return block.scratch.deltas.data() + block.slots[place.slot];
  return pass.deltas_[place.kept].get() + block.first * size_of(value);
}

void ExactEngine::step_backward(std::size_t s, ExactPass& pass, const Block& block) const {
  const Step& step = *steps_[s];
  const std::size_t first = block.first, count = block.count;
  Scratch& scratch = block.scratch;
  const float* delta = delta_of(s + 1, pass, block);
  if (flow_.is_trained[s]) step.find_norms(first, count, delta, pass.steps_[s], scratch);
  if (!flow_.hands_down(s)) return;
  const auto& inputs = flow_.inputs[s];
  std::size_t floats = 0;
  for_each_input(inputs, [&](std::size_t value, std::size_t) { floats += count * size_of(value); });
  float* added = at_least(scratch.added, floats);
  scratch.in.clear();
  scratch.below.clear();
  for_each_input(inputs, [&](std::size_t value, std::size_t i) {
    scratch.in.push_back(pass.values_[value] + first * size_of(value));
    scratch.below.push_back(!flow_.needs_derivative[value] ? nullptr
                            : flow_.hands_down_first(s, i) ? delta_of(value, pass, block)
                                                           : added);
    added += count * size_of(value);
  });
  step.backward(count, scratch.in, pass.values_[s + 1] + first * step.outputs(), delta,
                scratch.below, scratch);
  for_each_input(inputs, [&](std::size_t value, std::size_t i) {
    if (flow_.needs_derivative[value] && !flow_.hands_down_first(s, i))
      add(scratch.below[i], count * size_of(value), delta_of(value, pass, block));
  });
}

// --- Cells.

void ExactEngine::make_cells(ExactPass& pass, std::span<const double> scales,
                             std::uint64_t most_cells, std::span<SquaredLength> lengths) const {
  constexpr std::size_t kPairs = 4;
  const Wide most = Wide{most_cells} * most_cells;
  pass.taken_.clear();  // the choice for earlier cells
  tasks_.for_each_block(pass.rows(), 2 * kPairs, [&](std::size_t first, std::size_t count) {
    choose_scales(pass, scales, most_cells, first, count);
    for (std::size_t row = first; row < first + count; row += 2) {
      make_pair(pass, row / 2, most, lengths);
    }
  });
}

/// A gradient that is zero or not finite has no cells. A group's scale is limited so that its cells
/// are no longer than most_cells, whatever the requested scale is.
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

/// Layers that round to nearest do so first. If an example's cells are then too long, these layers
/// truncate instead, and the cells of the other layers stay the same.
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

/// \param first  the index of the parameter that sum[0] belongs to.
void ExactEngine::add_piece(const PieceOf& one, const ExactPass& pass, std::span<std::int64_t> sum,
                            std::size_t first) const {
  const Step& step = *steps_[one.step];
  step.add_cells(one.piece, pass.taken_, pass.steps_[one.step],
                 {.sum = sum, .first = first, .offset = step.offset()});
}

}  // namespace privgrad::cpu
