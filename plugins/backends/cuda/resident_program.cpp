#include "resident_program.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include "device_noise.hpp"
#include "exchange.hpp"
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

}  // namespace

/// The memory of resident steps, all of it on the device except rows that do not fit there.
class StepMemory final : public ResidentSteps::Memory {
 public:
  StepMemory(std::shared_ptr<Device> of, std::size_t parameters, std::size_t state_vectors,
             const Dataset& of_rows, std::size_t most_bytes_of_rows)
      : device(std::move(of)),
        data(of_rows),
        noise(device),
        queue(device->make_queue()),
        exchange(device, *queue, usual_bytes(parameters, state_vectors)),
        sum(device, parameters),
        released(device, parameters),
        previous(device, parameters),
        flags(device, chunks_of(parameters)) {
    for (std::size_t i = 0; i < state_vectors; ++i) {
      state.emplace_back(device, parameters);
      queue->zero(state.back().data(), parameters * sizeof(float));
    }
    queue->zero(sum.data(), parameters * sizeof(std::int64_t));
    queue->zero(released.data(), parameters * sizeof(std::int64_t));
    if (data.rows() * (data.row_size() + 1) * sizeof(float) <= most_bytes_of_rows) keep_rows();
    queue->wait();
  }

  /// Waits for copies from and to pinned memory before the memory is freed.
  ~StepMemory() override { queue.reset(); }

  bool keeps_rows() const { return targets.size() > 0; }

  std::shared_ptr<Device> device;
  const Dataset& data;
  DeviceNoise noise;
  std::unique_ptr<Queue> queue;
  mutable Exchange exchange;
  Array<std::int64_t> sum, released;
  Array<float> previous;
  std::vector<Array<float>> state;
  Array<std::uint8_t> flags;                       // the flags of each chunk
  Array<float> features, targets;                  // all rows of the data, if they fit
  Array<float, true> some_features, some_targets;  // otherwise a pass's rows, in transit
  bool are_on_their_way = false;

 private:
  /// Returns the number of bytes that a step exchanges when the core checks the usual 64 chunks and
  /// reads each twice. The Exchange is allocated first, because passes could use up the memory.
  static std::size_t usual_bytes(std::size_t parameters, std::size_t state_vectors) {
    const std::size_t looked_at = std::min<std::size_t>(parameters, 64 * ResidentSteps::kChunk);
    constexpr std::size_t kOthers = std::size_t{1} << 14;
    return looked_at * (4 * sizeof(std::int64_t) + 2 * (1 + state_vectors) * sizeof(float)) +
           kOthers;
  }

  void keep_rows() {
    constexpr std::size_t kTogether = 4096;
    features = {device, data.rows() * data.row_size()};
    targets = {device, data.rows()};
    std::vector<float> some(std::min(kTogether, data.rows()) * data.row_size());
    std::vector<float> some_targets_of(std::min(kTogether, data.rows()));
    std::vector<std::uint32_t> rows;
    for (std::size_t first = 0; first < data.rows(); first += kTogether) {
      rows.resize(std::min(kTogether, data.rows() - first));
      std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
      const auto of_rows = std::span(some).first(rows.size() * data.row_size());
      data.gather(rows, of_rows, std::span(some_targets_of).first(rows.size()));
      queue->copy_in(features.data() + first * data.row_size(), some.data(), of_rows.size_bytes());
      queue->copy_in(targets.data() + first, some_targets_of.data(), rows.size() * sizeof(float));
    }
  }
};

namespace {

/// Gives one call access to the memory. If the call fails, settle() no longer writes the outputs of
/// earlier calls, because the caller may have freed them by then.
template <class Step>
class CallOn {
 public:
  template <class Memory>
  explicit CallOn(Memory& memory) : step_(dynamic_cast<Step&>(memory)) {}
  CallOn(const CallOn&) = delete;
  CallOn& operator=(const CallOn&) = delete;
  ~CallOn() {
    if (std::uncaught_exceptions() > before_) step_.exchange.drop();
  }
  Step& operator*() const { return step_; }
  Step* operator->() const { return &step_; }

 private:
  Step& step_;
  int before_ = std::uncaught_exceptions();
};

using Call = CallOn<StepMemory>;
using ReadingCall = CallOn<const StepMemory>;

/// out[i] = from[places[i]], gathered on the device.
template <class Number>
void gather(const StepMemory& step, std::span<const std::uint64_t> places, const Number* from,
            std::span<Number> out) {
  if (places.empty()) return;
  Number* const gathered = step.exchange.room<Number>(places.size());
  launch_each(*step.queue,
              Gather<Number>{places.size(), step.exchange.send_places(places), from, gathered});
  step.exchange.fetch(gathered, out);
}

/// Waits for the flags of every chunk.
std::vector<std::uint8_t> flags_of(StepMemory& memory) {
  std::vector<std::uint8_t> flags(memory.flags.size());
  memory.exchange.fetch(memory.flags.data(), std::span(flags));
  memory.exchange.settle();
  return flags;
}

}  // namespace

std::unique_ptr<ResidentSteps::Memory> ResidentProgram::make_memory(std::size_t state_vectors,
                                                                    const Dataset& data) const {
  if (state_vectors > 2) {
    refuse("the optimizer has " + std::to_string(state_vectors) +
           " vectors of state; at most 2 are allowed");
  }
  check_size("an example of the data", data.row_size(), inputs());
  try {
    return std::make_unique<StepMemory>(device(), parameter_count(), state_vectors, data,
                                        most_bytes_of_rows_.value_or(device()->free_bytes() / 4));
  } catch (const OutOfMemory&) {
    const std::size_t bytes = parameter_count() * (20 + state_vectors * sizeof(float));
    throw IoError("backend cuda: sums, noise and optimizer of a step take " + mebibytes(bytes) +
                  ", but " + device()->name() + " has only " + mebibytes(device()->free_bytes()) +
                  " free; with steps: host the processor's memory holds them");
  }
}

void ResidentProgram::clear_sum(Memory& memory) const {
  const Call step(memory);
  step->queue->zero(step->sum.data(), parameter_count() * sizeof(std::int64_t));
}

/// Gathers rows on the device, or copies them to it from pinned memory, block by block: while one
/// block is copied, the next one is gathered.
void ResidentProgram::bring_rows(std::span<const std::uint32_t> rows, StepMemory& step,
                                 CudaPass& pass) const {
  Queue& queue = *step.queue;
  if (step.keeps_rows()) {
    step.exchange.send(rows, pass.numbers.data());
    launch_each(queue, GatherRows{rows.size() * inputs(), inputs(), pass.numbers.data(),
                                  step.features.data(), pass.features.data()});
    launch_each(queue, GatherRows{rows.size(), 1, pass.numbers.data(), step.targets.data(),
                                  pass.targets.data()});
    return;
  }
  if (std::exchange(step.are_on_their_way, true)) {
    step.exchange.settle();
    step.are_on_their_way = true;
  }
  if (step.some_targets.size() < rows.size()) {
    step.some_features = needed<float, true>(device(), pass.most_rows * inputs());
    step.some_targets = needed<float, true>(device(), pass.most_rows);
  }
  constexpr std::size_t kTogether = 512, kOfTask = 32;
  for (std::size_t first = 0; first < rows.size(); first += kTogether) {
    const auto some = rows.subspan(first, std::min(kTogether, rows.size() - first));
    float* const features = step.some_features.data() + first * inputs();
    float* const targets = step.some_targets.data() + first;
    executor_.for_each_chunk((some.size() + kOfTask - 1) / kOfTask, [&](std::size_t task) {
      const std::size_t begin = task * kOfTask, size = std::min(kOfTask, some.size() - begin);
      step.data.gather(some.subspan(begin, size), {features + begin * inputs(), size * inputs()},
                       {targets + begin, size});
    });
    queue.send(pass.features.data() + first * inputs(), features,
               some.size() * inputs() * sizeof(float));
    queue.send(pass.targets.data() + first, targets, some.size() * sizeof(float));
  }
}

void ResidentProgram::clip_rows(ExactClipping::Pass& given, std::span<const std::uint32_t> rows,
                                const CellScaling& scaling, Memory& memory,
                                const Clipped& found) const {
  CudaPass& pass = own_pass(given);
  const Call step(memory);
  check_rows(rows.size(), pass);
  for (const std::uint32_t row : rows) {
    if (row >= step->data.rows())
      refuse("row " + std::to_string(row) + " of " + std::to_string(step->data.rows()));
  }
  check_size("the memory for squared norms", found.squared_norms.size(), rows.size() * groups());
  check_size("the memory for scales", found.scales.size(), rows.size() * groups());
  check_size("the memory for lengths", found.lengths.size(), rows.size());
  check_size("the memory for the examples that are taken", found.taken.size(), rows.size());
  const std::vector<double>& bounds = scaling.rule.bounds;
  if (bounds.size() != 1) check_size("the list of bounds", bounds.size(), groups());
  check_size("the memory for checksums", found.checksums.size(), rows.size());
  check_most_cells(scaling.most_cells);
  pass.rows = rows.size();
  pass.has_cells = false;
  if (rows.empty()) return;
  Queue& queue = *step->queue;
  bring_rows(rows, *step, pass);
  run_forward(queue, pass);
  run_backward(queue, pass, true);
  double* const own_bounds = step->exchange.room<double>(bounds.size());
  step->exchange.send(std::span(bounds), own_bounds);
  launch_each(queue, ClipScales{.count = pass.rows,
                                .groups = groups(),
                                .shortens = scaling.rule.kind == ClipRule::Kind::shorten,
                                .gamma = scaling.rule.gamma,
                                .clip_norm = scaling.clip_norm,
                                .cells_of_a_unit = scaling.cells_of_a_unit,
                                .most_cells = static_cast<double>(scaling.most_cells),
                                .bounds_count = bounds.size(),
                                .bounds = own_bounds,
                                .shares = pass.shares.data(),
                                .norms = pass.norms.data(),
                                .scales = pass.scales.data()});
  run_cells(queue, pass, scaling.most_cells);
  launch_each(queue, TakeWithin{pass.rows, product_of(scaling.most_cells, scaling.most_cells),
                                pass.lengths.data(), pass.taken.data()});
  // Computes the checksums last, so that they cover the data that the pass has used.
  launch(queue, ExampleChecksums{pass.rows, inputs(), pass.features.data(), pass.targets.data(),
                                 pass.checksums.data()});
  static_assert(sizeof(Wide) == sizeof(SquaredLength) && offsetof(Wide, high) == 0);
  step->exchange.fetch(pass.norms.data(), found.squared_norms);
  step->exchange.fetch(pass.scales.data(), found.scales);
  step->exchange.fetch(reinterpret_cast<const SquaredLength*>(pass.lengths.data()), found.lengths);
  step->exchange.fetch(static_cast<const std::uint8_t*>(pass.taken.data()), found.taken);
  step->exchange.fetch(static_cast<const std::uint64_t*>(pass.checksums.data()), found.checksums);
  pass.has_cells = true;
}

void ResidentProgram::add_to_sum(ExactClipping::Pass& given, std::span<const std::uint8_t> taken,
                                 Memory& memory) const {
  CudaPass& pass = own_pass(given);
  const Call step(memory);
  if (!taken.empty()) check_size("the list of taken examples", taken.size(), pass.rows);
  if (pass.rows == 0) return;
  if (!pass.has_cells) refuse("add_to_sum() was called before make_cells()");
  step->exchange.send(taken, pass.taken.data());
  run_sum(*step->queue, pass, reinterpret_cast<std::uint64_t*>(step->sum.data()));
}

void ResidentProgram::check_places(std::span<const std::uint64_t> places) const {
  for (const std::uint64_t place : places) {
    if (place < parameter_count()) continue;
    refuse("there is no parameter " + std::to_string(place) + "; the network has " +
           std::to_string(parameter_count()) + ", numbered from 0");
  }
}

void ResidentProgram::factors_at(ExactClipping::Pass& given, std::span<const std::uint64_t> places,
                                 Memory& memory, std::span<CellFactors> factors) const {
  CudaPass& pass = own_pass(given);
  const Call step(memory);
  check_size("the memory for factors", factors.size(), pass.rows * places.size());
  check_places(places);
  if (factors.empty()) return;
  if (!pass.has_cells) refuse("factors_at() was called before make_cells()");
  if (pass.factors.size() < factors.size()) {
    step->exchange.settle();
    pass.factors = {};  // freed before the new allocation
    pass.factors = needed<Factors>(device(), factors.size());
  }
  const FactorPlaces at{places.size(), step->exchange.send_places(places), pass.factors.data()};
  for (std::size_t group = 0; group < groups(); ++group) {
    const std::size_t s = step_of(group);
    this->step(s).find_factors(*step->queue, pass.rows, pass.steps[s], group_pass(pass, group), at);
  }
  step->exchange.fetch(reinterpret_cast<const CellFactors*>(pass.factors.data()), factors);
}

std::vector<std::uint64_t> ResidentProgram::release(Memory& memory, const NoiseOrder& order) const {
  const Call step(memory);
  const NoiseScale scale = make_noise_scale(order.sigma(), order.shift());
  step->noise.release(*step->queue, order.key(), scale, 0, step->sum.data(), step->released.data(),
                      parameter_count(), step->flags.data());
  const std::vector<std::uint8_t> open = flags_of(*step);
  std::vector<std::uint64_t> undecided;
  for (std::size_t chunk = 0; chunk < open.size(); ++chunk) {
    if (open[chunk] != 0) undecided.push_back(chunk);
  }
  return undecided;
}

void ResidentProgram::put_released(Memory& memory, std::uint64_t chunk,
                                   std::span<const std::int64_t> cells) const {
  const Call step(memory);
  if (chunk >= chunks_of(parameter_count())) {
    refuse("there is no chunk " + std::to_string(chunk) + "; a release has " +
           std::to_string(chunks_of(parameter_count())) + ", numbered from 0");
  }
  const std::size_t begin = chunk * kChunk;
  check_size("a chunk of cells", cells.size(), std::min(kChunk, parameter_count() - begin));
  step->queue->copy_in(step->released.data() + begin, cells.data(), cells.size_bytes());
}

ResidentSteps::Moved ResidentProgram::update(Memory& memory, const StepRule& rule, double width) {
  const Call step(memory);
  if (privgrad::state_vectors(rule.kind) != step->state.size())
    refuse("the optimizer's rule needs " + std::to_string(privgrad::state_vectors(rule.kind)) +
           " vectors of state, but its memory has " + std::to_string(step->state.size()));
  const auto vector = [&](std::size_t i) {
    return i < step->state.size() ? step->state[i].data() : nullptr;
  };
  launch(*step->queue, MoveParameters{.count = parameter_count(),
                                      .rule = code_of(rule.kind),
                                      .rate = rule.rate,
                                      .keep = rule.keep,
                                      .take = rule.take,
                                      .keep_squares = rule.keep_squares,
                                      .take_squares = rule.take_squares,
                                      .root_scale = rule.root_scale,
                                      .epsilon = rule.epsilon,
                                      .width = width,
                                      .released = step->released.data(),
                                      .parameters = parameters(),
                                      .previous = step->previous.data(),
                                      .first = vector(0),
                                      .second = vector(1),
                                      .bad = step->flags.data()});
  std::uint8_t bad = 0;
  for (const std::uint8_t chunk : flags_of(*step)) bad |= chunk;
  if (bad == 0) return Moved::yes;
  launch_each(*step->queue, CopyFloats{parameter_count(), step->previous.data(), parameters()});
  step->queue->wait();
  return (bad & kBadGradient) != 0 ? Moved::gradient_not_finite : Moved::parameters_not_finite;
}

void ResidentProgram::cells_at(const Memory& memory, Cells what,
                               std::span<const std::uint64_t> places,
                               std::span<std::int64_t> out) const {
  const ReadingCall step(memory);
  check_size("the memory for cells", out.size(), places.size());
  check_places(places);
  gather<std::int64_t>(*step, places, what == Cells::sum ? step->sum.data() : step->released.data(),
                       out);
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
  const ReadingCall step(memory);
  check_size("the memory for numbers", out.size(), places.size());
  check_places(places);
  gather<float>(*step, places, vector_of(*step, what), out);
}

void ResidentProgram::numbers(const Memory& memory, Numbers what, std::span<float> out) const {
  const ReadingCall step(memory);
  check_size("the memory for numbers", out.size(), parameter_count());
  step->queue->copy_out(out.data(), vector_of(*step, what), out.size_bytes());
  step->exchange.settle();
}

void ResidentProgram::put_numbers(Memory& memory, Numbers what, std::span<const float> values) {
  const Call step(memory);
  check_size("the list of numbers", values.size(), parameter_count());
  step->queue->copy_in(vector_of(*step, what), values.data(), values.size_bytes());
}

void ResidentProgram::settle(Memory& memory) const {
  const Call step(memory);
  step->exchange.settle();
  step->are_on_their_way = false;
}

}  // namespace privgrad::cuda
