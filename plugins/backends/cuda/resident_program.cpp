#include "resident_program.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "device_noise.hpp"
#include "launch.hpp"
#include "pass.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cuda {
namespace {

static_assert(ResidentSteps::kChunk == RoundedNoise::kChunk);
static_assert(ResidentSteps::kChunk == MoveParameters::kChunk);
static_assert(sizeof(Factors) == sizeof(CellFactors) &&
              offsetof(Factors, left) == offsetof(CellFactors, left) &&
              offsetof(Factors, right) == offsetof(CellFactors, right));

std::size_t chunks_of(std::size_t parameters) {
  return (parameters + ResidentSteps::kChunk - 1) / ResidentSteps::kChunk;
}

RuleCode code_of(StepRule::Kind kind) {
  switch (kind) {
    case StepRule::Kind::descent:
      return RuleCode::descent;
    case StepRule::Kind::momentum:
      return RuleCode::momentum;
    case StepRule::Kind::adam:
      break;
  }
  return RuleCode::adam;
}

/// Makes room for this many numbers, reallocating memory that is too small.
template <class Value>
Value* enlarged(Array<Value>& array, const std::shared_ptr<Device>& device, std::size_t size) {
  if (array.size() < size) {
    array = {};  // freed before the new allocation
    array = {device, size};
  }
  return array.data();
}

}  // namespace

/// The memory of resident steps, all on the device.
class StepMemory final : public ResidentSteps::Memory {
 public:
  StepMemory(std::shared_ptr<Device> of, std::size_t parameters, std::size_t state_vectors)
      : device(std::move(of)),
        noise(device),
        queue(device->make_queue()),
        sum(device, parameters),
        released(device, parameters),
        previous(device, parameters),
        flags(device, chunks_of(parameters)) {
    for (std::size_t i = 0; i < state_vectors; ++i) {
      state.emplace_back(device, parameters);
      queue->zero(state.back().data(), parameters * sizeof(float));
    }
    // Memory for the number of places that the core usually checks is allocated now, so that passes
    // do not use it up.
    const std::size_t looked_at = std::min<std::size_t>(parameters, 64 * ResidentSteps::kChunk);
    places = {device, looked_at};
    cells = {device, looked_at};
    floats = {device, looked_at};
    queue->zero(sum.data(), parameters * sizeof(std::int64_t));
    queue->zero(released.data(), parameters * sizeof(std::int64_t));
    queue->wait();
  }

  /// out[i] = from[places[i]], computed on the device.
  template <class Number>
  void gather(std::span<const std::uint64_t> at, const Number* from, Array<Number>& room,
              std::span<Number> out) const {
    if (at.empty()) return;
    std::uint64_t* const place = enlarged(places, device, at.size());
    Number* const gathered = enlarged(room, device, at.size());
    queue->copy_in(place, at.data(), at.size_bytes());
    launch_each(*queue, Gather<Number>{at.size(), place, from, gathered});
    queue->copy_out(out.data(), gathered, out.size_bytes());
  }

  std::shared_ptr<Device> device;
  DeviceNoise noise;
  std::unique_ptr<Queue> queue;
  Array<std::int64_t> sum, released;
  Array<float> previous;
  std::vector<Array<float>> state;
  Array<std::uint8_t> flags;  // the flags of each chunk
  // For checked values, with room for the most ever checked:
  mutable Array<std::uint64_t> places;
  mutable Array<std::int64_t> cells;
  mutable Array<float> floats;
};

namespace {

StepMemory& own(ResidentSteps::Memory& memory) { return dynamic_cast<StepMemory&>(memory); }
const StepMemory& own(const ResidentSteps::Memory& memory) {
  return dynamic_cast<const StepMemory&>(memory);
}

/// The flags of every chunk.
std::vector<std::uint8_t> flags_of(const StepMemory& memory) {
  std::vector<std::uint8_t> flags(memory.flags.size());
  memory.queue->copy_out(flags.data(), memory.flags.data(), flags.size());
  return flags;
}

}  // namespace

std::unique_ptr<ResidentSteps::Memory> ResidentProgram::make_memory(
    std::size_t state_vectors) const {
  if (state_vectors > 2) {
    refuse("the optimizer has " + std::to_string(state_vectors) +
           " vectors of state; at most 2 are allowed");
  }
  try {
    return std::make_unique<StepMemory>(device(), parameter_count(), state_vectors);
  } catch (const OutOfMemory&) {
    const std::size_t bytes = parameter_count() * (20 + state_vectors * sizeof(float));
    throw IoError("backend cuda: sums, noise and optimizer of a step take " + mebibytes(bytes) +
                  ", but " + device()->name() + " has only " + mebibytes(device()->free_bytes()) +
                  " free; with steps: host the processor's memory holds them");
  }
}

void ResidentProgram::clear_sum(Memory& memory) const {
  StepMemory& step = own(memory);
  step.queue->zero(step.sum.data(), parameter_count() * sizeof(std::int64_t));
  step.queue->wait();
}

void ResidentProgram::add_to_sum(ExactClipping::Pass& given, std::span<const std::uint8_t> taken,
                                 Memory& memory) const {
  CudaPass& pass = own_pass(given);
  check_size("the list of taken examples", taken.size(), pass.rows);
  if (pass.rows == 0) return;
  if (!pass.has_cells) refuse("add_to_sum() was called before make_cells()");
  add_cells_to(pass, taken, reinterpret_cast<std::uint64_t*>(own(memory).sum.data()));
  pass.queue->wait();
}

void ResidentProgram::check_places(std::span<const std::uint64_t> places) const {
  for (const std::uint64_t place : places) {
    if (place < parameter_count()) continue;
    refuse("there is no parameter " + std::to_string(place) + "; the network has " +
           std::to_string(parameter_count()) + ", numbered from 0");
  }
}

void ResidentProgram::factors_at(ExactClipping::Pass& given, std::span<const std::uint64_t> places,
                                 std::span<CellFactors> factors) const {
  CudaPass& pass = own_pass(given);
  check_size("the memory for factors", factors.size(), pass.rows * places.size());
  check_places(places);
  if (factors.empty()) return;
  if (!pass.has_cells) refuse("factors_at() was called before make_cells()");
  const FactorPlaces at{places.size(), enlarged(pass.places, device(), places.size()),
                        enlarged(pass.factors, device(), factors.size())};
  pass.queue->copy_in(pass.places.data(), places.data(), places.size_bytes());
  for (std::size_t group = 0; group < groups(); ++group) {
    const std::size_t s = step_of(group);
    step(s).find_factors(*pass.queue, pass.rows, pass.steps[s], group_pass(pass, group), at);
  }
  pass.queue->copy_out(factors.data(), pass.factors.data(), factors.size_bytes());
}

std::vector<std::uint64_t> ResidentProgram::release(Memory& memory, const NoiseOrder& order) const {
  StepMemory& step = own(memory);
  const NoiseScale scale = make_noise_scale(order.sigma(), order.shift());
  step.noise.release(*step.queue, order.key(), scale, 0, step.sum.data(), step.released.data(),
                     parameter_count(), step.flags.data());
  const std::vector<std::uint8_t> open = flags_of(step);
  std::vector<std::uint64_t> undecided;
  for (std::size_t chunk = 0; chunk < open.size(); ++chunk) {
    if (open[chunk] != 0) undecided.push_back(chunk);
  }
  return undecided;
}

void ResidentProgram::put_released(Memory& memory, std::uint64_t chunk,
                                   std::span<const std::int64_t> cells) const {
  if (chunk >= chunks_of(parameter_count())) {
    refuse("there is no chunk " + std::to_string(chunk) + "; a release has " +
           std::to_string(chunks_of(parameter_count())) + ", numbered from 0");
  }
  StepMemory& step = own(memory);
  const std::size_t begin = chunk * kChunk;
  check_size("a chunk of cells", cells.size(), std::min(kChunk, parameter_count() - begin));
  step.queue->copy_in(step.released.data() + begin, cells.data(), cells.size_bytes());
}

ResidentSteps::Moved ResidentProgram::update(Memory& memory, const StepRule& rule, double width) {
  StepMemory& step = own(memory);
  if (privgrad::state_vectors(rule.kind) != step.state.size())
    refuse("the optimizer's rule needs " + std::to_string(privgrad::state_vectors(rule.kind)) +
           " vectors of state, but its memory has " + std::to_string(step.state.size()));
  const auto vector = [&](std::size_t i) {
    return i < step.state.size() ? step.state[i].data() : nullptr;
  };
  launch(*step.queue, MoveParameters{.count = parameter_count(),
                                     .rule = code_of(rule.kind),
                                     .rate = rule.rate,
                                     .keep = rule.keep,
                                     .take = rule.take,
                                     .keep_squares = rule.keep_squares,
                                     .take_squares = rule.take_squares,
                                     .root_scale = rule.root_scale,
                                     .epsilon = rule.epsilon,
                                     .width = width,
                                     .released = step.released.data(),
                                     .parameters = parameters(),
                                     .previous = step.previous.data(),
                                     .first = vector(0),
                                     .second = vector(1),
                                     .bad = step.flags.data()});
  std::uint8_t bad = 0;
  for (const std::uint8_t chunk : flags_of(step)) bad |= chunk;
  if (bad == 0) return Moved::yes;
  launch_each(*step.queue, CopyFloats{parameter_count(), step.previous.data(), parameters()});
  step.queue->wait();
  return (bad & kBadGradient) != 0 ? Moved::gradient_not_finite : Moved::parameters_not_finite;
}

void ResidentProgram::cells_at(const Memory& memory, Cells what,
                               std::span<const std::uint64_t> places,
                               std::span<std::int64_t> out) const {
  check_size("the memory for cells", out.size(), places.size());
  check_places(places);
  const StepMemory& step = own(memory);
  step.gather(places, what == Cells::sum ? step.sum.data() : step.released.data(), step.cells, out);
}

float* ResidentProgram::vector_of(const StepMemory& memory, Numbers what) const {
  if (what == Numbers::parameters) return parameters();
  const std::size_t vector = what == Numbers::first_state ? 0 : 1;
  if (vector >= memory.state.size())
    refuse("there is no vector of state " + std::to_string(vector) + "; the optimizer has " +
           std::to_string(memory.state.size()) + ", numbered from 0");
  return memory.state[vector].data();
}

void ResidentProgram::numbers_at(const Memory& memory, Numbers what,
                                 std::span<const std::uint64_t> places,
                                 std::span<float> out) const {
  check_size("the memory for numbers", out.size(), places.size());
  check_places(places);
  const StepMemory& step = own(memory);
  step.gather(places, static_cast<const float*>(vector_of(step, what)), step.floats, out);
}

void ResidentProgram::numbers(const Memory& memory, Numbers what, std::span<float> out) const {
  check_size("the memory for numbers", out.size(), parameter_count());
  const StepMemory& step = own(memory);
  step.queue->copy_out(out.data(), vector_of(step, what), out.size_bytes());
}

void ResidentProgram::put_numbers(Memory& memory, Numbers what, std::span<const float> values) {
  check_size("the list of numbers", values.size(), parameter_count());
  StepMemory& step = own(memory);
  step.queue->copy_in(vector_of(step, what), values.data(), values.size_bytes());
}

}  // namespace privgrad::cuda
