// The plan of ExactEngine: it combines steps, chooses the stored values, and divides sums into
// pieces.
#include "exact.hpp"

#include <algorithm>

#include "chains.hpp"

namespace privgrad::cpu {

ExactEngine::ExactEngine(const Network& network, const Flow& flow, const Steps& steps,
                         Executor& executor)
    : network_(network), loss_(network), flow_(flow), steps_(steps), tasks_(executor) {
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!flow_.trains[s]) continue;
    group_steps_.push_back(s);
    for (const Piece& piece : steps_[s]->pieces()) pieces_.push_back({s, piece});
  }
  make_stages();
  place_derivatives();
  choose_rows();
  make_ranges();
}

std::size_t ExactEngine::size_of(std::size_t value) const {
  return value == 0 ? steps_.front()->inputs() : steps_[value - 1]->outputs();
}

void ExactEngine::make_stages() {
  for (std::size_t s = 0; s < steps_.size();) {
    Stage stage;
    stage.first = s;
    stage.last = s + 1;
    stage.is_batch = steps_[s]->works_on_batches();
    if (stage.is_batch) {
      // A value that another step uses must not be overwritten.
      const std::size_t next = stage.last, value = s + 1;
      if (next < steps_.size() && flow_.inputs[next].front() == value && flow_.users[value] == 1)
        stage.function = steps_[next]->function();
      if (stage.function != nullptr) ++stage.last;
    } else {
      while (stage.last < steps_.size() && !steps_[stage.last]->works_on_batches()) ++stage.last;
    }
    stages_.push_back(stage);
    s = stage.last;
  }
}

/// Stores the derivatives with respect to a value for the whole batch if a stage ends with the
/// value, or if another stage uses it.
void ExactEngine::place_derivatives() {
  places_.resize(steps_.size() + 1);
  const auto keep = [&](std::size_t value) {
    if (flow_.needs_derivative[value]) places_[value].kept = value;
  };
  keep(steps_.size());
  for (const Stage& stage : stages_) {
    if (stage.is_batch) keep(stage.last);
    for (std::size_t s = stage.first; s < stage.last; ++s) {
      for (std::size_t i = 0; i < flow_.inputs[s].size(); ++i) {
        const std::size_t value = flow_.inputs[s][i];
        if (value <= stage.first) keep(value);
        if (stage.is_batch && value <= stage.first && flow_.needs_derivative[value] &&
            !flow_.hands_down_first(s, i)) {
          added_ = std::max(added_, size_of(value));
        }
      }
    }
  }
  for (Stage& stage : stages_) {
    if (!stage.is_batch) place_in_blocks(stage);
  }
}

/// Gives slots to the values inside a stage, from the last step to the first. In the backward pass,
/// the step that made a value frees its slot after it has propagated derivatives to its inputs.
void ExactEngine::place_in_blocks(Stage& stage) {
  std::vector<bool> is_taken;
  const auto take = [&](std::size_t size) {
    const auto free = std::find(is_taken.begin(), is_taken.end(), false);
    const auto slot = static_cast<std::size_t>(free - is_taken.begin());
    if (free == is_taken.end()) {
      is_taken.push_back(true);
      stage.slots.push_back(0);
    }
    is_taken[slot] = true;
    stage.slots[slot] = std::max(stage.slots[slot], size);
    return slot;
  };
  for (std::size_t s = stage.last; s-- > stage.first;) {
    const Place& own = places_[s + 1];
    bool is_handed_on = false;
    for (std::size_t i = 0; i < flow_.inputs[s].size(); ++i) {
      const std::size_t value = flow_.inputs[s][i];
      if (!flow_.needs_derivative[value] || !flow_.hands_down_first(s, i) ||
          places_[value].kept == value) {
        continue;
      }
      if (i == 0 && steps_[s]->hands_down_in_place()) {
        places_[value] = own;
        is_handed_on = true;
      } else {
        places_[value].slot = take(size_of(value));
      }
    }
    if (own.slot != Place::kNowhere && !is_handed_on) is_taken[own.slot] = false;
  }
}

/// Returns the approximate number of floats that a pass stores for each example.
std::size_t ExactEngine::floats_per_example() const {
  std::size_t floats = added_ + 1;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!steps_[s]->passes_on() && !works_in_place(s)) floats += steps_[s]->outputs();
    if (flow_.trains[s]) floats += steps_[s]->kept_floats();
  }
  for (std::size_t value = 0; value < places_.size(); ++value) {
    if (places_[value].kept == value) floats += size_of(value);
  }
  return floats;
}

/// Returns how many floats a pass stores for the examples that enter steps on whole batches.
std::size_t ExactEngine::panel_floats(std::size_t most_rows) const {
  std::size_t widest = 0;
  for (const auto& step : steps_) widest = std::max(widest, step->panel_width());
  return (most_rows + kPanel - 1) / kPanel * kPanel * widest;
}

std::uint64_t ExactEngine::pass_bytes(std::size_t most_rows) const {
  std::size_t scratch = 0;  // floats of a block's scratch; each block uses at most one scratch
  std::uint64_t floats = panel_floats(most_rows);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (flow_.is_trained[s]) scratch = std::max(scratch, steps_[s]->scratch_floats());
    floats += steps_[s]->copied_floats();
  }
  const std::uint64_t blocks = (most_rows + kExactBlock - 1) / kExactBlock;
  floats += most_rows * std::uint64_t{floats_per_example()} + blocks * scratch;
  return floats * sizeof(float);
}

/// Chooses the number of rows in a pass: 512, halved down to kPanel while the pass needs more than
/// about 64 MiB, and further while it needs more than 256 MiB. Each pass reads and writes the whole
/// sum, so a large sum raises the second limit, up to 1 GiB.
void ExactEngine::choose_rows() {
  constexpr std::size_t kFloats = std::size_t{16} << 20;
  const std::size_t floats = floats_per_example(), parameters = parameter_count(network_);
  const std::size_t most =
      std::min((std::size_t{64} << 20) + 10 * parameters, std::size_t{256} << 20);
  microbatch_rows_ = 512;
  while (microbatch_rows_ > kPanel && microbatch_rows_ * floats > kFloats) microbatch_rows_ /= 2;
  while (microbatch_rows_ > 1 && microbatch_rows_ * floats > most) microbatch_rows_ /= 2;
}

/// Returns the end of a piece among the network's parameters: every parameter before the end
/// belongs to this piece or to an earlier one.
std::size_t ExactEngine::end_of(const PieceOf& one) const {
  return steps_[one.step]->offset() + one.piece.until;
}

/// Makes ranges of consecutive pieces with about as many parameters as a piece of a product.
/// Adjacent pieces of the same units have equal ends, and share one range.
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

/// Whether a step may write over a value: only that step uses it, and its maker does not need it.
bool ExactEngine::may_be_overwritten(std::size_t value) const {
  if (value == 0 || flow_.users[value] != 1) return false;
  const std::size_t maker = value - 1;
  if (steps_[maker]->passes_on()) return may_be_overwritten(flow_.inputs[maker].front());
  return steps_[maker]->gives_output_away();
}

/// Whether step s writes its output over its first input.
bool ExactEngine::works_in_place(std::size_t s) const {
  return steps_[s]->works_in_place() && may_be_overwritten(flow_.inputs[s].front());
}

std::unique_ptr<ExactPass> ExactEngine::make_forward_pass(std::size_t most_rows) const {
  auto pass = std::make_unique<ExactPass>();
  pass->most_rows_ = most_rows;
  pass->steps_.resize(steps_.size());
  pass->values_.resize(steps_.size() + 1);
  pass->storage_.resize(steps_.size() + 1);
  pass->memory_.resize(steps_.size() + 1);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass->steps_[s].most_rows = most_rows;
    if (steps_[s]->passes_on() || works_in_place(s)) {
      pass->memory_[s + 1] = pass->memory_[flow_.inputs[s].front()];
      continue;
    }
    pass->storage_[s + 1] =
        std::make_unique_for_overwrite<float[]>(most_rows * steps_[s]->outputs());
    pass->memory_[s + 1] = pass->storage_[s + 1].get();
  }
  pass->panels_ = std::make_unique_for_overwrite<float[]>(panel_floats(most_rows));
  return pass;
}

std::unique_ptr<ExactPass> ExactEngine::make_pass(std::size_t most_rows) const {
  auto pass = make_forward_pass(most_rows);
  pass->shares_.resize(most_rows * groups());
  pass->deltas_.resize(places_.size());
  for (std::size_t value = 0; value < places_.size(); ++value) {
    if (places_[value].kept == value)
      pass->deltas_[value] = std::make_unique_for_overwrite<float[]>(most_rows * size_of(value));
  }
  pass->added_ = std::make_unique_for_overwrite<float[]>(most_rows * added_);
  for (const Stage& stage : stages_) {
    if (stage.is_batch) pass->steps_[stage.first].errors = pass->deltas_[stage.last].get();
  }
  for (std::size_t group = 0; group < groups(); ++group) {
    StepPass& own = pass->steps_[group_steps_[group]];
    own.shares = pass->shares_.data() + group;
    own.groups = groups();
    steps_[group_steps_[group]]->allocate(own);
  }
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (const std::size_t owner = owner_of(network_, s); owner != s && flow_.is_trained[s])
      pass->steps_[s].kept_by_owner = pass->steps_[owner].kept.get();
  }
  return pass;
}

}  // namespace privgrad::cpu
