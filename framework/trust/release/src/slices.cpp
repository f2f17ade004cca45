#include "privgrad/trust/slices.hpp"

#include <algorithm>

#include "deferred_pass.hpp"

namespace privgrad::core {
namespace {

/// Size of the pieces for programs that do not add up in pieces.
constexpr std::size_t kPiece = std::size_t{1} << 15;

std::vector<std::size_t> pieces_of(const Program& program) {
  if (const ExactClipping* pieces = DeferredPass::in_pieces(program)) {
    const auto ends = pieces->piece_ends();
    return {ends.begin(), ends.end()};
  }
  std::vector<std::size_t> ends;
  for (std::size_t end = 0; end < program.parameter_count();)
    ends.push_back(end = std::min(end + kPiece, program.parameter_count()));
  return ends;
}

}  // namespace

Slices::Slices(const Program& program, std::size_t processes, bool with_count)
    : pieces_(pieces_of(program)), parameters_(program.parameter_count()) {
  // A slice ends with the piece that reaches the end of its share of the elements, so the first
  // slice is not empty.
  std::size_t piece = 0;
  for (std::size_t process = 1; process <= processes; ++process) {
    const std::size_t wanted = parameters_ / processes * process;
    while (piece + 1 < pieces_.size() && (process == processes || pieces_[piece] < wanted)) ++piece;
    ends_.push_back(pieces_[piece]);
  }
  if (!with_count) return;
  pieces_.push_back(parameters_ + 1);
  ends_.back() = parameters_ + 1;
}

Slice Slices::of(std::size_t process) const {
  const std::size_t first = process == 0 ? 0 : ends_[process - 1];
  return {first, ends_[process] - first, ends_.back()};
}

Slice Slices::parameters_of(std::size_t process) const {
  const Slice slice = of(process);
  const std::size_t end = std::min(slice.first + slice.size, parameters_);
  return {slice.first, end - std::min(slice.first, end), parameters_};
}

std::vector<std::size_t> Slices::parameter_ends() const {
  std::vector<std::size_t> ends(ends_.begin(), ends_.end());
  ends.back() = parameters_;
  return ends;
}

}  // namespace privgrad::core
