#include "deferred_pass.hpp"

#include <algorithm>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/trust/program_around.hpp"
#include "release_memory.hpp"

namespace privgrad::core {
namespace {

/// 1 MiB of cells.
constexpr std::size_t kLargestPiece = std::size_t{1} << 17;

}  // namespace

const ExactClipping* DeferredPass::in_pieces(const Program& program) {
  const auto* exact = ability_of<ExactClipping>(program);
  if (exact == nullptr || exact->piece_ends().empty()) return nullptr;
  std::size_t begin = 0, largest = 0;
  for (const std::size_t end : exact->piece_ends()) {
    if (end <= begin) throw PluginError("the program's pieces of its parameters do not ascend");
    largest = std::max(largest, end - begin);
    begin = end;
  }
  if (begin != program.parameter_count()) {
    throw PluginError("the program's pieces end at parameter " + std::to_string(begin) +
                      ", expected at " + std::to_string(program.parameter_count()));
  }
  return largest <= kLargestPiece ? exact : nullptr;
}

DeferredPass::DeferredPass(const ExactClipping& program, SumMemory& memory,
                           std::span<const std::uint8_t> taken, std::optional<std::int64_t> count)
    : program_(program),
      pass_(*memory.pass),
      count_(count),
      ends_(program.piece_ends().begin(), program.piece_ends().end()) {
  memory.lent = std::make_shared<char>();
  lent_ = memory.lent;
  if (memory.of_release == nullptr) memory.of_release = std::make_shared<ReleaseMemory>();
  memory_ = memory.of_release;
  program_.choose(pass_, taken);
  if (count_) ends_.push_back(ends_.back() + 1);
}

void DeferredPass::add(std::size_t piece, std::span<std::int64_t> cells) const {
  // The memory now holds another pass, whose examples have not been charged.
  if (lent_.expired()) {
    throw PrivacyError("a sum is released after the memory of its examples was used for others");
  }
  if (count_ && piece + 1 == ends_.size()) {
    cells.front() = static_cast<std::int64_t>(static_cast<std::uint64_t>(cells.front()) +
                                              static_cast<std::uint64_t>(*count_));
    return;
  }
  program_.add_piece(pass_, piece, cells);
}

}  // namespace privgrad::core
