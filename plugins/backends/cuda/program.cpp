#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "layers/make_step.hpp"
#include "pass.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cuda {
namespace {

/// The most rows in an evaluation or a block of gradient rows.
constexpr std::size_t kOwnRows = 1024;
/// The number of places that the core checks; memory for more is allocated when needed.
constexpr std::size_t kFactorPlaces = 64;
/// The best number of rows for a pass.
constexpr std::size_t kPassRows = 4096;

/// A device that has no memory and counts the requested bytes.
class CountingDevice final : public Device {
 public:
  std::string name() const override { return "nothing"; }
  void* allocate(std::size_t bytes) override {
    bytes_ += bytes;
    return &bytes_;
  }
  void free(void*) noexcept override {}
  void* allocate_pinned(std::size_t) override { return &bytes_; }
  void free_pinned(void*) noexcept override {}
  std::size_t free_bytes() override { return 0; }
  std::size_t pass_bytes() const override { return 0; }
  std::unique_ptr<Queue> make_queue() override { return nullptr; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

std::size_t most_inputs(const Flow& flow) {
  std::size_t most = 0;
  for (const auto& inputs : flow.inputs) most = std::max(most, inputs.size());
  return most;
}

Batch part(const Batch& batch, std::size_t inputs, std::size_t first, std::size_t count) {
  return {batch.features.subspan(first * inputs, count * inputs),
          batch.targets.subspan(first, count)};
}

}  // namespace

void refuse(const std::string& what) { throw ConfigError("backend cuda: " + what); }

void check_size(const char* what, std::size_t size, std::size_t expected) {
  if (size == expected) return;
  refuse(std::string(what) + " has " + std::to_string(size) + " elements, expected " +
         std::to_string(expected));
}

void check_rows(std::size_t rows, const CudaPass& pass) {
  if (rows <= pass.most_rows) return;
  refuse("a batch has " + std::to_string(rows) + " examples, but its pass has memory for at most " +
         std::to_string(pass.most_rows));
}

void check_most_cells(std::uint64_t most_cells) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;
  if (most_cells <= kMost) return;
  refuse("contributions of " + std::to_string(most_cells) +
         " cells were requested; at most 2^28 are allowed");
}

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

CudaProgram::CudaProgram(Network network, std::shared_ptr<Device> device)
    : network_(std::move(network)), device_(std::move(device)), flow_(network_) {
  const std::vector<Shape> shapes = value_shapes(network_);
  check_network(network_);
  for (const Node& node : network_.nodes) {
    if (node.shares)
      refuse("the layer '" + to_text(node.layer) +
             "' shares the parameters of another node, which this backend does not support; use "
             "the backend cpu");
  }
  inputs_ = element_count(shapes.front());
  outputs_ = element_count(shapes.back());
  places_ = shapes.back().front();
  for (std::size_t s = 0; s < network_.nodes.size(); ++s) {
    Place place{.entering = {}, .out = shapes[s + 1]};
    for (const std::size_t value : flow_.inputs[s]) place.entering.push_back(shapes[value]);
    steps_.push_back(make_step(network_.nodes[s].layer, place));
    if (!flow_.trains[s]) continue;
    parameter_count_ += steps_.back()->parameter_count();
    group_steps_.push_back(s);
  }
  microbatch_rows_ = rows_within(device_->pass_bytes(), kPassRows, PassUse::cells);
  own_rows_ = rows_within(device_->pass_bytes(), kOwnRows, PassUse::gradients);
  try {
    parameters_ = {device_, parameter_count_};
    frozen_ = {device_, network_.frozen.size()};
    class_weights_ = {device_, network_.class_weights.size()};
  } catch (const OutOfMemory&) {
    refuse("the network's parameters take " +
           mebibytes((parameter_count_ + network_.frozen.size()) * sizeof(float)) + ", but " +
           device_->name() + " has only " + mebibytes(device_->free_bytes()) + " free");
  }
  place_steps();
}

CudaProgram::~CudaProgram() = default;

void CudaProgram::place_steps() {
  std::size_t trained = 0, frozen = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const bool is_frozen = network_.nodes[s].is_frozen;
    std::size_t& offset = is_frozen ? frozen : trained;
    steps_[s]->place_at(offset, is_frozen ? frozen_.data() : parameters_.data());
    offset += steps_[s]->parameter_count();
  }
  if (!network_.frozen.empty()) {
    device_->make_queue()->copy_in(frozen_.data(), network_.frozen.data(),
                                   network_.frozen.size() * sizeof(float));
  }
  if (!network_.class_weights.empty()) {
    device_->make_queue()->copy_in(class_weights_.data(), network_.class_weights.data(),
                                   network_.class_weights.size() * sizeof(double));
  }
  load_parameters(std::vector<float>(parameter_count_, 0.0f));
}

void CudaProgram::load_parameters(std::span<const float> parameters) {
  check_size("the parameter vector", parameters.size(), parameter_count_);
  device_->make_queue()->copy_in(parameters_.data(), parameters.data(), parameters.size_bytes());
}

void CudaProgram::check(const Batch& batch) const {
  check_size("the batch's features", batch.features.size(), batch.rows() * inputs_);
}

std::size_t CudaProgram::size_of(std::size_t value) const {
  return value == 0 ? inputs_ : steps_[value - 1]->outputs();
}

LossOf CudaProgram::loss() const {
  LossOf of{.loss = LossCode::cross_entropy,
            .classes = network_.input.classes,
            .places = 1,
            .outputs = outputs_,
            .inputs = inputs_,
            .weights = network_.class_weights.empty() ? nullptr : class_weights_.data()};
  if (network_.loss == Loss::squared) of.loss = LossCode::squared;
  if (network_.loss == Loss::logistic) of.loss = LossCode::logistic;
  if (network_.loss == Loss::next_token) {
    of.loss = LossCode::next_token;
    of.places = places_;
    of.outputs = outputs_ / places_;
  }
  return of;
}

// --- Memory.

std::unique_ptr<CudaPass> CudaProgram::make(const std::shared_ptr<Device>& device,
                                            std::size_t most_rows, PassUse use) const {
  auto pass = std::make_unique<CudaPass>();
  pass->most_rows = most_rows;
  pass->queue = device->make_queue();
  pass->features = {device, most_rows * inputs_};
  pass->targets = {device, most_rows};
  pass->losses = {device, most_rows};
  pass->correct = {device, most_rows};
  pass->steps.resize(steps_.size());
  std::size_t place_sums = 0, added = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = *steps_[s];
    StepPass& own = pass->steps[s];
    const std::size_t value = flow_.inputs[s].front();
    StepPass* const maker = value == 0 ? nullptr : &pass->steps[value - 1];
    own.in = maker == nullptr ? pass->features.data() : maker->out;
    if (step.passes_on()) {
      own.out = maker == nullptr ? pass->features.data() : maker->out;
    } else {
      own.outputs = {device, most_rows * step.outputs()};
      own.out = own.outputs.data();
    }
    const bool shares_derivatives = step.passes_on() && flow_.hands_down_first(s, 0);
    if (shares_derivatives) {
      own.delta = maker == nullptr ? nullptr : maker->delta;
    } else if (use >= PassUse::gradients && flow_.needs_derivative[s + 1]) {
      own.deltas = {device, most_rows * step.outputs()};
      own.delta = own.deltas.data();
    }
    step.allocate(device, most_rows, flow_.trains[s] ? use : std::min(use, PassUse::gradients),
                  own);
    if (flow_.trains[s]) place_sums = std::max(place_sums, step.place_sums());
    for (std::size_t i = 0; i < flow_.inputs[s].size(); ++i) {
      if (flow_.needs_derivative[flow_.inputs[s][i]] && !flow_.hands_down_first(s, i))
        added = std::max(added, size_of(flow_.inputs[s][i]));
    }
  }
  if (use >= PassUse::gradients) {
    for (std::size_t i = 0; added > 0 && i < most_inputs(flow_); ++i)
      pass->added.emplace_back(device, most_rows * added);
  }
  connect(*pass);
  if (use < PassUse::cells) return pass;
  pass->shares = {device, most_rows * groups()};
  pass->squares = {device, most_rows * groups()};
  pass->norms = {device, most_rows * groups()};
  pass->scales = {device, most_rows * groups()};
  pass->numbers = {device, most_rows};
  for (auto& largest : pass->largest) largest = {device, most_rows};
  for (auto& sums : pass->sums_of_squares) sums = {device, most_rows};
  pass->place_sums = {device, most_rows * place_sums};
  pass->lengths = {device, most_rows};
  pass->checksums = {device, most_rows};
  pass->truncates = {device, most_rows};
  pass->taken = {device, most_rows};
  pass->sum = {device, parameter_count_};
  pass->factors = {device, most_rows * kFactorPlaces};
  return pass;
}

/// Gives each step the addresses of its inputs and of the derivatives with respect to these inputs.
void CudaProgram::connect(CudaPass& pass) const {
  const auto maker = [&](std::size_t value) {
    return value == 0 ? nullptr : &pass.steps[value - 1];
  };
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    StepPass& own = pass.steps[s];
    for (std::size_t i = 0; i < flow_.inputs[s].size(); ++i) {
      const std::size_t value = flow_.inputs[s][i];
      const float* const in = value == 0 ? pass.features.data() : maker(value)->out;
      float* below = nullptr;
      if (flow_.needs_derivative[value] && own.delta != nullptr)
        below = flow_.hands_down_first(s, i) ? maker(value)->delta : pass.added[i].data();
      if (i == 0) {
        own.below = below;
      } else {
        own.more_in.push_back(in);
        own.more_below.push_back(below);
      }
    }
  }
}

std::size_t CudaProgram::bytes_of_microbatch(std::size_t rows, PassUse use) const {
  const auto counting = std::make_shared<CountingDevice>();
  static_cast<void>(make(counting, rows, use));
  return counting->bytes();
}

/// \returns how many rows fit in a pass of this many bytes, from 1 to most_rows.
std::size_t CudaProgram::rows_within(std::size_t bytes, std::size_t most_rows, PassUse use) const {
  const std::size_t fixed = bytes_of_microbatch(1, use);
  const std::size_t of_a_row = bytes_of_microbatch(2, use) - fixed;
  if (bytes <= fixed) return 1;
  return std::clamp<std::size_t>((bytes - fixed) / of_a_row + 1, 1, most_rows);
}

std::unique_ptr<CudaPass> CudaProgram::make_if_it_fits(std::size_t most_rows, PassUse use) const {
  try {
    return make(device_, most_rows, use);
  } catch (const OutOfMemory&) {
    const std::size_t free = device_->free_bytes();
    const std::string what = "a pass of " + std::to_string(most_rows) + " examples takes " +
                             mebibytes(bytes_of_microbatch(most_rows, use)) + ", but " +
                             device_->name() + " has only " + mebibytes(free) + " free; ";
    // Memory is allocated in large pieces, so up to a tenth of it may be unusable.
    const std::size_t fit = rows_within(free / 10 * 9, most_rows, use);
    throw IoError("backend cuda: " + what +
                  (bytes_of_microbatch(fit, use) > free
                       ? "a pass of one example does not fit either"
                       : "microbatch_size: " + std::to_string(fit) + " fits"));
  }
}

/// A pass borrowed from the program, for evaluations and gradient rows, and returned at the end.
class CudaProgram::Lease {
 public:
  explicit Lease(const CudaProgram& program) : program_(program) {
    {
      const std::lock_guard lock(program_.mutex_);
      if (!program_.idle_.empty()) {
        pass_ = std::move(program_.idle_.back());
        program_.idle_.pop_back();
      }
    }
    if (pass_ == nullptr) pass_ = make();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(program_.mutex_);
    program_.idle_.push_back(std::move(pass_));
  }
  CudaPass& operator*() const { return *pass_; }
  CudaPass* operator->() const { return pass_.get(); }

 private:
  /// Makes a pass, with fewer rows if memory is short, which does not change results.
  std::unique_ptr<CudaPass> make() const {
    std::size_t rows = program_.own_rows_;
    while (rows > 1) {
      try {
        return program_.make(program_.device_, rows, PassUse::gradients);
      } catch (const OutOfMemory&) {
        rows /= 2;
      }
    }
    return program_.make_if_it_fits(1, PassUse::gradients);
  }

  const CudaProgram& program_;
  std::unique_ptr<CudaPass> pass_;
};

std::unique_ptr<ExactClipping::Pass> CudaProgram::make_pass(std::size_t most_rows) const {
  if (most_rows == 0 || most_rows >> 31 != 0) {
    refuse("a pass of " + std::to_string(most_rows) +
           " examples was requested; expected 1 to 2^31 - 1");
  }
  return make_if_it_fits(most_rows, PassUse::cells);
}

// --- Forwards and backwards.

void CudaProgram::forward(const Batch& batch, CudaPass& pass) const {
  pass.rows = batch.rows();
  pass.has_cells = false;
  pass.queue->copy_in(pass.features.data(), batch.features.data(), batch.features.size_bytes());
  pass.queue->copy_in(pass.targets.data(), batch.targets.data(), batch.targets.size_bytes());
  run_forward(*pass.queue, pass);
}

void CudaProgram::run_forward(Queue& queue, CudaPass& pass) const {
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    steps_[s]->forward(queue, pass.rows, pass.steps[s]);
  }
}

/// Propagates derivatives from the last step back to the first step with trained parameters.
void CudaProgram::run_backward(Queue& queue, CudaPass& pass, bool with_norms) const {
  const StepPass& last = pass.steps.back();
  const LossOf of = loss();
  if (of.loss == LossCode::next_token) {
    launch(queue, TokenLossGradient{pass.rows * of.places, of, pass.features.data(), last.out,
                                    last.delta});
  } else {
    launch_each(queue, LossGradient{pass.rows, of, last.out, pass.targets.data(), last.delta});
  }
  std::size_t group = groups();
  for (std::size_t s = steps_.size(); s-- > 0;) {
    const StepPass& own = pass.steps[s];
    if (flow_.trains[s]) {
      --group;
      if (with_norms) steps_[s]->find_norms(queue, pass.rows, own, group_pass(pass, group));
    }
    if (!flow_.hands_down(s)) continue;
    steps_[s]->backward(queue, pass.rows, own);
    for (std::size_t i = 0; i < flow_.inputs[s].size(); ++i) {
      const std::size_t value = flow_.inputs[s][i];
      if (!flow_.needs_derivative[value] || flow_.hands_down_first(s, i)) continue;
      launch_each(queue, AddTo{pass.rows * size_of(value), pass.added[i].data(),
                               pass.steps[value - 1].delta});
    }
  }
}

void CudaProgram::gradient_rows(const Batch& batch, std::span<float> rows) const {
  check(batch);
  check_size("the memory for gradient rows", rows.size(), batch.rows() * parameter_count_);
  if (batch.rows() == 0) return;
  const std::size_t fit =
      device_->pass_bytes() / (parameter_count_ * sizeof(float) + 1);  // rows that fit
  const Lease pass(*this);
  const std::size_t block =
      std::clamp<std::size_t>(std::min(fit, batch.rows()), 1, pass->most_rows);
  const Array<float> gradients(device_, block * parameter_count_);
  for (std::size_t first = 0; first < batch.rows(); first += block) {
    const std::size_t count = std::min(block, batch.rows() - first);
    const std::size_t bytes = count * parameter_count_ * sizeof(float);
    forward(part(batch, inputs_, first, count), *pass);
    run_backward(*pass->queue, *pass, false);
    pass->queue->zero(gradients.data(), bytes);
    for (const std::size_t s : group_steps_) {
      steps_[s]->gradient_rows(*pass->queue, count, pass->steps[s],
                               gradients.data() + steps_[s]->offset(), parameter_count_);
    }
    pass->queue->copy_out(rows.data() + first * parameter_count_, gradients.data(), bytes);
  }
}

Evaluation CudaProgram::evaluate(const Batch& batch) const {
  check(batch);
  Evaluation evaluation;
  if (batch.rows() == 0) return evaluation;
  const Lease pass(*this);
  const std::size_t block = pass->most_rows;
  std::vector<double> losses(block);
  std::vector<std::uint8_t> correct(block);
  for (std::size_t first = 0; first < batch.rows(); first += block) {
    const std::size_t count = std::min(block, batch.rows() - first);
    forward(part(batch, inputs_, first, count), *pass);
    launch_each(*pass->queue,
                Judge{count, loss(), pass->features.data(), pass->steps.back().out,
                      pass->targets.data(), pass->losses.data(), pass->correct.data()});
    pass->queue->copy_out(losses.data(), pass->losses.data(), count * sizeof(double));
    pass->queue->copy_out(correct.data(), pass->correct.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      evaluation.loss += losses[i];
      evaluation.correct += correct[i];
    }
  }
  return evaluation;
}

void CudaProgram::outputs(std::span<const float> features, std::size_t rows,
                          std::span<float> outputs) const {
  check_size("the memory for outputs", outputs.size(), rows * outputs_);
  const std::vector<float> targets(rows);  // not used in a forward pass
  const Batch batch{features, targets};
  check(batch);
  if (rows == 0) return;
  const Lease pass(*this);
  const std::size_t block = pass->most_rows;
  for (std::size_t first = 0; first < rows; first += block) {
    const std::size_t count = std::min(block, rows - first);
    forward(part(batch, inputs_, first, count), *pass);
    pass->queue->copy_out(outputs.data() + first * outputs_, pass->steps.back().out,
                          count * outputs_ * sizeof(float));
  }
}

// --- Norms, cells and their sums.

GroupPass CudaProgram::group_pass(CudaPass& pass, std::size_t group) const {
  return {.groups = groups(),
          .group = group,
          .shares = pass.shares.data(),
          .squares = pass.squares.data() + group * pass.most_rows,
          .truncates = pass.truncates.data(),
          .taken = pass.taken.data(),
          .largest_input = pass.largest[0].data(),
          .largest_error = pass.largest[1].data(),
          .input_squares = pass.sums_of_squares[0].data(),
          .error_squares = pass.sums_of_squares[1].data(),
          .place_sums = pass.place_sums.data()};
}

void CudaProgram::backward(const Batch& batch, Pass& given, std::span<double> squared_norms) const {
  check(batch);
  CudaPass& pass = own_pass(given);
  check_rows(batch.rows(), pass);
  check_size("the memory for squared norms", squared_norms.size(), batch.rows() * groups());
  forward(batch, pass);
  if (batch.rows() == 0) return;
  run_backward(*pass.queue, pass, true);
  std::vector<Share> shares(pass.rows * groups());
  pass.queue->copy_out(shares.data(), pass.shares.data(), shares.size() * sizeof(Share));
  std::transform(shares.begin(), shares.end(), squared_norms.begin(),
                 [](const Share& share) { return share.squared_norm; });
}

void CudaProgram::make_cells(Pass& given, std::span<const double> scales, std::uint64_t most_cells,
                             std::span<SquaredLength> lengths) const {
  CudaPass& pass = own_pass(given);
  check_size("the list of scales", scales.size(), pass.rows * groups());
  check_size("the memory for lengths", lengths.size(), pass.rows);
  check_most_cells(most_cells);
  if (!std::all_of(scales.begin(), scales.end(),
                   [](double scale) { return std::isfinite(scale) && scale >= 0.0; })) {
    refuse("a scale is negative or not finite");
  }
  if (pass.rows == 0) return;
  Queue& queue = *pass.queue;
  queue.copy_in(pass.scales.data(), scales.data(), scales.size_bytes());
  launch_each(queue, ChooseScales{scales.size(), static_cast<double>(most_cells),
                                  pass.scales.data(), pass.shares.data()});
  run_cells(queue, pass, most_cells);
  static_assert(sizeof(Wide) == sizeof(SquaredLength) && offsetof(Wide, high) == 0);
  std::vector<Wide> found(pass.rows);
  queue.copy_out(found.data(), pass.lengths.data(), found.size() * sizeof(Wide));
  std::transform(found.begin(), found.end(), lengths.begin(), [](const Wide& length) {
    return SquaredLength{length.high, length.low};
  });
  pass.has_cells = true;
}

/// Makes the cells from the shares' scales.
void CudaProgram::run_cells(Queue& queue, CudaPass& pass, std::uint64_t most_cells) const {
  queue.zero(pass.truncates.data(), pass.rows);
  // The second time, examples that were too long are rounded towards zero; the others stay the
  // same.
  for (int time = 0; time < 2; ++time) {
    for (std::size_t group = 0; group < groups(); ++group) {
      const std::size_t s = group_steps_[group];
      steps_[s]->make_cells(queue, pass.rows, pass.steps[s], group_pass(pass, group));
    }
    launch_each(queue,
                SumSquares{pass.rows, groups(), pass.most_rows, product_of(most_cells, most_cells),
                           pass.squares.data(), pass.lengths.data(), pass.truncates.data()});
  }
}

void CudaProgram::run_sum(Queue& queue, CudaPass& pass, std::uint64_t* sum) const {
  for (std::size_t group = 0; group < groups(); ++group) {
    const Step& step = *steps_[group_steps_[group]];
    step.add_cells(queue, pass.rows, pass.steps[group_steps_[group]], group_pass(pass, group),
                   sum + step.offset());
  }
}

void CudaProgram::add_cells(Pass& given, std::span<const std::uint8_t> taken,
                            std::span<std::int64_t> sum) const {
  CudaPass& pass = own_pass(given);
  check_size("the list of taken examples", taken.size(), pass.rows);
  check_size("the sum", sum.size(), parameter_count_);
  if (pass.rows == 0) return;
  if (!pass.has_cells) refuse("add_cells() was called before make_cells()");
  Queue& queue = *pass.queue;
  queue.zero(pass.sum.data(), parameter_count_ * sizeof(std::uint64_t));
  queue.copy_in(pass.taken.data(), taken.data(), taken.size());
  run_sum(queue, pass, pass.sum.data());
  std::vector<std::uint64_t> added(parameter_count_);
  queue.copy_out(added.data(), pass.sum.data(), added.size() * sizeof(std::uint64_t));
  std::transform(sum.begin(), sum.end(), added.begin(), sum.begin(),
                 [](std::int64_t before, std::uint64_t more) {
                   return static_cast<std::int64_t>(static_cast<std::uint64_t>(before) + more);
                 });
}

}  // namespace privgrad::cuda
