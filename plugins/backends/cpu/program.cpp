#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "layers/make_step.hpp"
#include "layers/shared.hpp"
#include "loops.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cpu {
namespace {

/// The number of examples that are processed together: large enough to read the weights rarely, and
/// small enough for the intermediate values to stay in the cache.
constexpr std::size_t kBlock = 64;

constexpr std::uint64_t kMostCells = std::uint64_t{1} << 28;

[[noreturn]] void refuse(const std::string& what) { throw ConfigError("backend cpu: " + what); }

void check_size(const char* what, std::size_t size, std::size_t expected) {
  if (size == expected) return;
  refuse(std::string(what) + " has " + std::to_string(size) + " elements, expected " +
         std::to_string(expected));
}

std::size_t block_end(std::size_t first, std::size_t rows, std::size_t block) {
  return std::min(first + block, rows);
}

Batch part(const Batch& batch, std::size_t inputs, std::size_t first, std::size_t count) {
  return {batch.features.subspan(first * inputs, count * inputs),
          batch.targets.subspan(first, count)};
}

}  // namespace

CpuProgram::CpuProgram(Network network, Executor& executor)
    : network_(std::move(network)), executor_(executor), flow_(network_), loss_(network_) {
  const std::vector<Shape> shapes = value_shapes(network_);
  check_network(network_);
  inputs_ = element_count(shapes.front());
  outputs_ = element_count(shapes.back());
  std::size_t trained = 0, frozen = 0;
  for (std::size_t s = 0; s < network_.nodes.size(); ++s) {
    Place place{.entering = {}, .out = shapes[s + 1]};
    for (const std::size_t value : flow_.inputs[s]) place.entering.push_back(shapes[value]);
    auto step = make_step(network_.nodes[s].layer, place);
    const std::size_t owner = owner_of(network_, s), last = flow_.last_sharer[owner];
    if (last != owner) step = std::make_unique<SharedStep>(std::move(step), place, s != last);
    std::size_t& offset = network_.nodes[owner].is_frozen ? frozen : trained;
    step->place_at(owner == s ? offset : steps_[owner]->offset());
    if (owner == s) offset += step->parameter_count();
    values_per_example_ += step->outputs();
    steps_.push_back(std::move(step));
  }
  parameters_.resize(trained);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const bool is_frozen = network_.nodes[owner_of(network_, s)].is_frozen;
    const std::vector<float>& own = is_frozen ? network_.frozen : parameters_;
    steps_[s]->load(own.data() + steps_[s]->offset());
  }
  engine_ = std::make_unique<ExactEngine>(network_, flow_, steps_, executor);
  // Sizes large enough for efficient products, and small enough for the intermediate values to stay
  // in a cache.
  constexpr std::size_t kFloats = std::size_t{1} << 20, kMostFloats = std::size_t{32} << 20;
  evaluation_rows_ = std::clamp<std::size_t>(kFloats / (values_per_example_ + 1), 32, 256);
  while (evaluation_rows_ > 1 && evaluation_rows_ * values_per_example_ > kMostFloats)
    evaluation_rows_ /= 2;
}

void CpuProgram::load_parameters(std::span<const float> parameters) {
  check_size("the parameter vector", parameters.size(), parameters_.size());
  constexpr std::size_t kPiece = 65536;
  executor_.for_each_chunk((parameters.size() + kPiece - 1) / kPiece, [&](std::size_t i) {
    const auto piece =
        parameters.subspan(i * kPiece, std::min(kPiece, parameters.size() - i * kPiece));
    std::copy(piece.begin(), piece.end(), parameters_.data() + i * kPiece);
  });
  ready_ = false;
}

void CpuProgram::check(const Batch& batch) const {
  check_size("the batch's features", batch.features.size(), batch.rows() * inputs_);
}

/// Prepares the steps; does nothing after the first call since the last load.
void CpuProgram::prepare() const {
  if (ready_) return;
  const std::lock_guard lock(ready_mutex_);
  if (ready_) return;
  for (const auto& step : steps_) step->prepare();
  ready_ = true;
}

void CpuProgram::gradient_rows(const Batch& batch, std::span<float> rows) const {
  check(batch);
  const std::size_t size = parameter_count();
  check_size("the memory for gradient rows", rows.size(), batch.rows() * size);
  prepare();
  Block block;
  for (std::size_t first = 0; first < batch.rows(); first += kBlock) {
    const std::size_t count = block_end(first, batch.rows(), kBlock) - first;
    const Batch examples = part(batch, inputs_, first, count);
    forward(examples, block);
    backward(examples, block, rows.subspan(first * size, count * size));
  }
}

std::size_t CpuProgram::size_of(std::size_t value) const {
  return value == 0 ? inputs_ : steps_[value - 1]->outputs();
}

void CpuProgram::inputs_of_step(std::size_t s, Block& block) const {
  block.scratch.in.clear();
  for (const std::size_t value : flow_.inputs[s]) block.scratch.in.push_back(block.values[value]);
}

void CpuProgram::forward(const Batch& batch, Block& block) const {
  block.count = batch.rows();
  block.storage.resize(block.count * values_per_example_);
  block.values.assign(1, batch.features.data());
  float* out = block.storage.data();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    inputs_of_step(s, block);
    steps_[s]->forward(block.count, block.scratch.in, out, block.scratch);
    block.values.push_back(out);
    out += block.count * steps_[s]->outputs();
  }
}

void CpuProgram::backward(const Batch& batch, Block& block, std::span<float> rows) const {
  std::vector<std::vector<float>> deltas(steps_.size() + 1);  // derivatives, by value
  deltas.back().resize(block.count * outputs_);
  for (std::size_t i = 0; i < block.count; ++i) {
    loss_.find_gradient(features_of(batch, i), {block.values.back() + i * outputs_, outputs_},
                        batch.targets[i], {deltas.back().data() + i * outputs_, outputs_});
  }
  for (std::size_t s = steps_.size(); s-- > 0;) {
    const Step& step = *steps_[s];
    const std::vector<float> delta = std::move(deltas[s + 1]);
    inputs_of_step(s, block);
    if (flow_.is_trained[s]) {
      step.gradient_rows(block.count, block.scratch.in[0], delta.data(),
                         rows.data() + step.offset(), parameter_count(), block.scratch);
    }
    if (!flow_.hands_down(s)) continue;
    const auto& inputs = flow_.inputs[s];
    std::vector<std::vector<float>> below(inputs.size());
    block.scratch.below.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (flow_.needs_derivative[inputs[i]]) below[i].resize(block.count * size_of(inputs[i]));
      block.scratch.below.push_back(below[i].empty() ? nullptr : below[i].data());
    }
    step.backward(block.count, block.scratch.in, block.values[s + 1], delta.data(),
                  block.scratch.below, block.scratch);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<float>& sum = deltas[inputs[i]];
      if (flow_.hands_down_first(s, i)) {
        sum = std::move(below[i]);
      } else if (!below[i].empty()) {
        add(below[i].data(), below[i].size(), sum.data());
      }
    }
  }
}

class CpuProgram::EvaluationPass {
 public:
  explicit EvaluationPass(const CpuProgram& program) : program_(program) {
    const std::lock_guard lock(program_.evaluation_mutex_);
    if (program_.evaluation_passes_.empty()) {
      pass_ = program_.engine_->make_forward_pass(program_.evaluation_rows_);
    } else {
      pass_ = std::move(program_.evaluation_passes_.back());
      program_.evaluation_passes_.pop_back();
    }
  }
  EvaluationPass(const EvaluationPass&) = delete;
  EvaluationPass& operator=(const EvaluationPass&) = delete;
  ~EvaluationPass() {
    const std::lock_guard lock(program_.evaluation_mutex_);
    program_.evaluation_passes_.push_back(std::move(pass_));
  }
  ExactPass& operator*() const { return *pass_; }

 private:
  const CpuProgram& program_;
  std::unique_ptr<ExactPass> pass_;
};

Evaluation CpuProgram::evaluate(const Batch& batch) const {
  check(batch);
  Evaluation evaluation;
  for_each_output(batch, [&](std::size_t row, std::span<const float> output) {
    const Judgement judgement = loss_.judge(features_of(batch, row), output, batch.targets[row]);
    evaluation.loss += judgement.loss;
    evaluation.correct += judgement.correct ? 1 : 0;
  });
  return evaluation;
}

void CpuProgram::evaluate_rows(const Batch& batch, std::span<Evaluation> each) const {
  check(batch);
  check_size("the memory for evaluations", each.size(), batch.rows());
  for_each_output(batch, [&](std::size_t row, std::span<const float> output) {
    const Judgement judgement = loss_.judge(features_of(batch, row), output, batch.targets[row]);
    each[row] = {.loss = judgement.loss, .correct = judgement.correct ? std::size_t{1} : 0};
  });
}

void CpuProgram::outputs(std::span<const float> features, std::size_t rows,
                         std::span<float> outputs) const {
  check_size("the memory for outputs", outputs.size(), rows * outputs_);
  const std::vector<float> targets(rows);  // not used in a forward pass
  const Batch batch{features, targets};
  check(batch);
  for_each_output(batch, [&](std::size_t row, std::span<const float> output) {
    std::copy(output.begin(), output.end(),
              outputs.begin() + static_cast<std::ptrdiff_t>(row * outputs_));
  });
}

template <class Body>
void CpuProgram::for_each_output(const Batch& batch, const Body& body) const {
  if (batch.rows() == 0) return;
  prepare();
  const EvaluationPass pass(*this);
  for (std::size_t first = 0; first < batch.rows(); first += evaluation_rows_) {
    const std::size_t count = block_end(first, batch.rows(), evaluation_rows_) - first;
    const float* outputs = engine_->forward(part(batch, inputs_, first, count), *pass);
    for (std::size_t i = 0; i < count; ++i) body(first + i, {outputs + i * outputs_, outputs_});
  }
}

namespace {

ExactPass& own_pass(ExactClipping::Pass& pass) { return dynamic_cast<ExactPass&>(pass); }

}  // namespace

std::unique_ptr<ExactClipping::Pass> CpuProgram::make_pass(std::size_t most_rows) const {
  if (most_rows == 0) refuse("a pass for 0 examples, expected at least 1");
  return engine_->make_pass(most_rows);
}

void CpuProgram::backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const {
  check(batch);
  ExactPass& own = own_pass(pass);
  if (batch.rows() > own.most_rows()) {
    refuse("a batch of " + std::to_string(batch.rows()) + " examples for a pass of at most " +
           std::to_string(own.most_rows()));
  }
  check_size("the memory for squared norms", squared_norms.size(), batch.rows() * groups());
  prepare();
  engine_->backward(batch, own, squared_norms);
}

void CpuProgram::make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                            std::span<SquaredLength> lengths) const {
  ExactPass& own = own_pass(pass);
  check_size("the list of scales", scales.size(), own.rows() * groups());
  check_size("the memory for lengths", lengths.size(), own.rows());
  if (most_cells > kMostCells) {
    refuse("contributions of " + std::to_string(most_cells) + " cells, allowed are at most 2^28");
  }
  if (!std::all_of(scales.begin(), scales.end(),
                   [](double scale) { return std::isfinite(scale) && scale >= 0.0; })) {
    refuse("a scale is negative or not finite");
  }
  engine_->make_cells(own, scales, most_cells, lengths);
}

void CpuProgram::add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                           std::span<std::int64_t> sum) const {
  ExactPass& own = own_pass(pass);
  check_size("the list of examples that are taken", taken.size(), own.rows());
  check_size("the sum", sum.size(), parameter_count());
  engine_->choose(own, taken);
  engine_->add_cells(own, sum);
}

void CpuProgram::choose(Pass& pass, std::span<const std::uint8_t> taken) const {
  ExactPass& own = own_pass(pass);
  check_size("the list of examples that are taken", taken.size(), own.rows());
  engine_->choose(own, taken);
}

void CpuProgram::add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const {
  ExactPass& own = own_pass(pass);
  check_size("the list of examples that are chosen", own.chosen_rows(), own.rows());
  const auto ends = piece_ends();
  if (piece >= ends.size()) {
    refuse("piece " + std::to_string(piece) + " of " + std::to_string(ends.size()));
  }
  check_size("the sum of a piece", sum.size(), ends[piece] - (piece == 0 ? 0 : ends[piece - 1]));
  engine_->add_range(own, piece, sum);
}

}  // namespace privgrad::cpu
