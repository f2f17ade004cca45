#include "microbatches.hpp"

#include <algorithm>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kGatherRows = 32;

}  // namespace

Batch gather(const Dataset& data, std::span<const std::uint32_t> rows, Executor& executor,
             SumMemory& memory) {
  const std::size_t size = data.row_size();
  const std::span<float> features = resized(memory.features, rows.size() * size);
  const std::span<float> targets = resized(memory.targets, rows.size());
  executor.for_each_chunk((rows.size() + kGatherRows - 1) / kGatherRows, [&](std::size_t i) {
    const std::size_t first = i * kGatherRows;
    const std::size_t count = std::min(kGatherRows, rows.size() - first);
    data.gather(rows.subspan(first, count), features.subspan(first * size, count * size),
                targets.subspan(first, count));
  });
  return {features, targets};
}

void for_each_pass(const ExactClipping& program, std::span<const std::uint32_t> batch,
                   std::size_t most_rows, SumMemory& memory,
                   const std::function<void(std::span<const std::uint32_t>, SumMemory&)>& body) {
  memory.lent.reset();
  const std::size_t wanted = most_rows == 0 ? program.microbatch_rows() : most_rows;
  if (wanted == 0) throw PluginError("the program takes 0 examples in a pass, expected at least 1");
  const std::size_t microbatch_rows = std::min(batch.size(), wanted);
  if (microbatch_rows > memory.microbatch_rows) {
    memory.pass.reset();
    // Makes the pass of one example first, so that the others leave memory for it.
    if (memory.passes_of_one.empty()) memory.passes_of_one.push_back(program.make_pass(1));
    memory.pass = program.make_pass(microbatch_rows);
    if (memory.pass == nullptr) throw PluginError("the program makes no memory for a pass");
    memory.microbatch_rows = microbatch_rows;
  }
  for (std::size_t first = 0; first < batch.size(); first += microbatch_rows) {
    body(batch.subspan(first, std::min(microbatch_rows, batch.size() - first)), memory);
  }
}

void for_each_microbatch(const ExactClipping& program, const Dataset& data,
                         std::span<const std::uint32_t> batch, Executor& executor,
                         std::size_t most_rows, SumMemory& memory,
                         const std::function<void(const Batch&, SumMemory&)>& body) {
  for_each_pass(program, batch, most_rows, memory,
                [&](std::span<const std::uint32_t> rows, SumMemory& used) {
                  body(gather(data, rows, executor, used), used);
                });
}

}  // namespace privgrad::core
