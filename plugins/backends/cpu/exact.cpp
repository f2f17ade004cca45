// The plan of ExactEngine: which steps are combined, what is kept, how sums are divided into
// pieces.
#include "exact.hpp"

#include <algorithm>

#include "chains.hpp"

namespace privgrad::cpu {

Sources::Sources(const Steps& steps) : is_source(steps.size(), false) {
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::size_t back = steps[s]->reaches_back();
    of.push_back(s - back);
    if (back > 0) is_source[s - back] = true;
  }
}

ExactEngine::ExactEngine(const Network& network, const Sources& sources, const Steps& steps,
                         Executor& executor)
    : network_(network), sources_(sources), steps_(steps), tasks_(executor) {
  first_with_parameters_ = steps_.size();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (steps_[s]->parameter_count() == 0) continue;
    first_with_parameters_ = std::min(first_with_parameters_, s);
    group_steps_.push_back(s);
    for (const Piece& piece : steps_[s]->pieces()) pieces_.push_back({s, piece});
  }
  make_stages();
  choose_rows();
  make_ranges();
}

void ExactEngine::make_stages() {
  for (std::size_t s = 0; s < steps_.size();) {
    Stage stage{s, s + 1, steps_[s]->works_on_batches()};
    if (stage.is_batch) {
      // A value that a shortcut adds is kept, so it must not be overwritten.
      if (stage.last < steps_.size() && !sources_.is_source[stage.last])
        stage.function = steps_[stage.last]->function();
      if (stage.function != nullptr) ++stage.last;
    } else {
      while (stage.last < steps_.size() && !steps_[stage.last]->works_on_batches()) ++stage.last;
    }
    stages_.push_back(stage);
    s = stage.last;
  }
}

/// As many as make the products large while a pass stays below about 64 MiB.
void ExactEngine::choose_rows() {
  constexpr std::size_t kFloats = std::size_t{16} << 20;
  std::size_t floats = 1;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!shares_memory(s)) floats += steps_[s]->outputs();
    if (sources_.is_source[s]) floats += steps_[s]->inputs();
    floats += steps_[s]->kept_floats();
  }
  for (const Stage& stage : stages_) floats += steps_[stage.last - 1]->outputs();
  microbatch_rows_ = 512;
  while (microbatch_rows_ > kPanel && microbatch_rows_ * floats > kFloats) microbatch_rows_ /= 2;
}

/// The index after a piece's last parameter, if the parameters before it belong to preceding
/// pieces.
std::size_t ExactEngine::end_of(const PieceOf& one) const {
  return steps_[one.step]->offset() + one.piece.until;
}

/// Consecutive pieces with about as many parameters as a piece of a product. Adjacent pieces of the
/// same units have equal ends, and one range.
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
  if (steps_[s]->passes_on()) return true;
  return s > 0 && steps_[s - 1]->gives_output_away() && !sources_.is_source[s];
}

std::unique_ptr<ExactPass> ExactEngine::make_forward_pass(std::size_t most_rows) const {
  auto pass = std::make_unique<ExactPass>();
  pass->most_rows_ = most_rows;
  pass->steps_.resize(steps_.size());
  pass->entering_.resize(steps_.size() + 1);
  std::size_t widest = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    widest = std::max(widest, steps_[s]->panel_width());
    pass->steps_[s].most_rows = most_rows;
    pass->storage_.push_back(shares_memory(s) ? nullptr
                                              : std::make_unique_for_overwrite<float[]>(
                                                    most_rows * steps_[s]->outputs()));
    // An initial flatten passes the features on, and nothing writes to them.
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
  pass->shares_.resize(most_rows * groups());
  for (const Stage& stage : stages_) {
    pass->deltas_.push_back(
        std::make_unique_for_overwrite<float[]>(most_rows * steps_[stage.last - 1]->outputs()));
    if (stage.is_batch) pass->steps_[stage.first].errors = pass->deltas_.back().get();
  }
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass->added_.push_back(sources_.is_source[s] ? std::make_unique_for_overwrite<float[]>(
                                                       most_rows * steps_[s]->inputs())
                                                 : nullptr);
  }
  for (std::size_t group = 0; group < groups(); ++group) {
    StepPass& own = pass->steps_[group_steps_[group]];
    own.shares = pass->shares_.data() + group;
    own.groups = groups();
    steps_[group_steps_[group]]->allocate(own);
  }
  return pass;
}

}  // namespace privgrad::cpu
