#include "plain_step.hpp"

#include <cblas.h>

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "layers/embedding.hpp"
#include "layers/make_step.hpp"
#include "loops.hpp"
#include "losses.hpp"
#include "privgrad/error.hpp"

namespace privgrad::bench {
namespace {

using cpu::at_least;

/// The number of examples that a task takes through the layers between dense ones.
constexpr std::size_t kBlock = 8;
/// The size of the tiles of dense products.
constexpr std::size_t kTileColumns = 256;
constexpr std::size_t kTileUnits = 256;
constexpr std::size_t kTileInputs = 1024;
/// The number of parameters whose stored gradients one task adds up.
constexpr std::size_t kRowPiece = 4096;

/// A row-major matrix, or its transpose.
struct MatrixView {
  const float* data = nullptr;
  std::size_t stride = 0;  // distance between stored rows, in floats
  bool transposed = false;
};

/// product = a b, or product += a b; a [rows, inner], b [inner, columns], product [rows, columns].
void multiply(std::size_t rows, std::size_t columns, std::size_t inner, MatrixView a, MatrixView b,
              bool add_up, float* product, std::size_t stride) {
  const auto size = [](std::size_t value) { return static_cast<blasint>(value); };
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, size(rows), size(columns), size(inner),
              1.0f, a.data, size(a.stride), b.data, size(b.stride), add_up ? 1.0f : 0.0f, product,
              size(stride));
}

/// Returns how many examples of a block have their patches multiplied together: enough for a
/// product of 256 rows of patches, if the block has so many.
std::size_t examples_together(const cpu::ConvStep& step, std::size_t count) {
  constexpr std::size_t kPatchRows = 256;
  return std::min(count, (kPatchRows + step.places() - 1) / step.places());
}

}  // namespace

/// A task's memory, returned by the destructor.
class PlainSum::Lease {
 public:
  explicit Lease(PlainSum& sum) : sum_(sum) {
    const std::lock_guard lock(sum_.mutex_);
    if (sum_.scratch_.empty()) {
      scratch_ = std::make_unique<cpu::Scratch>();
    } else {
      scratch_ = std::move(sum_.scratch_.back());
      sum_.scratch_.pop_back();
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(sum_.mutex_);
    sum_.scratch_.push_back(std::move(scratch_));
  }
  cpu::Scratch& operator*() const { return *scratch_; }
  cpu::Scratch* operator->() const { return scratch_.get(); }

 private:
  PlainSum& sum_;
  std::unique_ptr<cpu::Scratch> scratch_;
};

// --- Parts that depend only on the network.

PlainSum::PlainSum(const Network& network, Executor& executor)
    : network_(network), executor_(executor) {
  const std::vector<Shape> shapes = value_shapes(network);
  std::size_t parameters = 0;
  first_with_parameters_ = network.nodes.size();
  for (std::size_t s = 0; s < network.nodes.size(); ++s) {
    if (!network.nodes[s].from.empty())
      throw ConfigError("the plain step is of chains of layers alone");
    steps_.push_back(cpu::make_step(network.nodes[s].layer, {{shapes[s]}, shapes[s + 1]}));
    steps_[s]->place_at(parameters);
    parameters += steps_[s]->parameter_count();
    if (parameters > 0) first_with_parameters_ = std::min(first_with_parameters_, s);
  }
  make_stages();
  choose_sums();
  choose_rows();
  for (std::size_t s = 0; s < steps_.size(); ++s) add_pieces(s);
  make_memory();
}

void PlainSum::load_parameters(std::span<const float> parameters) {
  for (auto& step : steps_) step->load(parameters.data() + step->offset());
}

const cpu::DenseStep& PlainSum::dense(std::size_t step) const {
  return static_cast<const cpu::DenseStep&>(*steps_[step]);
}

const cpu::ConvStep& PlainSum::conv(std::size_t step) const {
  return static_cast<const cpu::ConvStep&>(*steps_[step]);
}

void PlainSum::make_stages() {
  const auto is_dense = [&](std::size_t s) {
    return std::holds_alternative<Dense>(network_.nodes[s].layer);
  };
  for (std::size_t s = 0; s < steps_.size();) {
    Stage stage{s, s + 1, is_dense(s)};
    if (stage.is_dense) {
      if (stage.last < steps_.size()) stage.function = steps_[stage.last]->function();
      if (stage.function != nullptr) ++stage.last;
    } else {
      while (stage.last < steps_.size() && !is_dense(stage.last)) ++stage.last;
    }
    stages_.push_back(stage);
    s = stage.last;
  }
}

void PlainSum::choose_sums() {
  constexpr double kRowCost = 40.0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Layer& layer = network_.nodes[s].layer;
    SumBy by = steps_[s]->parameter_count() == 0 ? SumBy::nothing : SumBy::rows;
    if (std::holds_alternative<Dense>(layer)) by = SumBy::product;
    if (std::holds_alternative<Embedding>(layer)) by = SumBy::tokens;
    if (std::holds_alternative<Conv2d>(layer)) {
      const auto places = static_cast<double>(conv(s).places());
      const auto patch = static_cast<double>(conv(s).patch());
      const auto channels = static_cast<double>(conv(s).channels());
      if (places * places * (patch + channels) < kRowCost * patch * channels) by = SumBy::places;
    }
    sum_by_.push_back(by);
  }
}

/// Chooses enough rows for large products, but keeps a pass below about 64 MiB.
void PlainSum::choose_rows() {
  constexpr std::size_t kFloats = std::size_t{16} << 20;
  std::size_t floats = 1;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!shares_memory(s)) floats += steps_[s]->outputs();
    if (sum_by_[s] == SumBy::rows) floats += steps_[s]->parameter_count();
    if (sum_by_[s] == SumBy::places || sum_by_[s] == SumBy::tokens) floats += steps_[s]->outputs();
  }
  for (const Stage& stage : stages_) floats += steps_[stage.last - 1]->outputs();
  chunk_rows_ = 256;
  while (chunk_rows_ > kBlock && chunk_rows_ * floats > kFloats) chunk_rows_ /= 2;
  microbatch_rows_ =
      std::clamp(kFloats / floats / chunk_rows_ * chunk_rows_, chunk_rows_, std::size_t{1024});
}

void PlainSum::add_pieces(std::size_t s) {
  const auto cut = [](std::size_t extent, std::size_t size, const auto& use) {
    for (std::size_t first = 0; first < extent; first += size) {
      use(first, std::min(first + size, extent));
    }
  };
  switch (sum_by_[s]) {
    case SumBy::nothing:
      return;
    case SumBy::product: {
      const std::size_t units = steps_[s]->outputs();
      cut(units, kTileUnits, [&](std::size_t first, std::size_t end) {
        cut(steps_[s]->inputs(), units < kTileUnits ? kTileColumns : kTileInputs,
            [&](std::size_t left, std::size_t right) {
              pieces_.push_back({s, first, end, left, right});
            });
      });
      return;
    }
    case SumBy::rows:
      cut(steps_[s]->parameter_count(), kRowPiece, [&](std::size_t first, std::size_t end) {
        pieces_.push_back({s, first, end, 0, 0});
      });
      return;
    case SumBy::places:
      cut(conv(s).channels(), kTileUnits, [&](std::size_t first, std::size_t end) {
        pieces_.push_back({s, first, end, 0, 0});
      });
      return;
    case SumBy::tokens:
      pieces_.push_back({s, 0, 0, 0, 0});
      return;
  }
}

/// Whether step s writes its output over its input.
bool PlainSum::shares_memory(std::size_t s) const {
  if (!steps_[s]->works_in_place()) return false;
  return steps_[s]->passes_on() || (s > 0 && steps_[s - 1]->gives_output_away());
}

void PlainSum::make_memory() {
  entering_.resize(steps_.size() + 1);
  const auto make = [&](std::size_t floats) {
    return std::make_unique_for_overwrite<float[]>(microbatch_rows_ * floats);
  };
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    storage_.push_back(shares_memory(s) ? nullptr : make(steps_[s]->outputs()));
    // A leading Flatten passes on the features, to which nothing writes.
    leaving_.push_back(storage_[s] != nullptr ? storage_[s].get()
                       : s > 0                ? leaving_[s - 1]
                                              : nullptr);
    std::size_t floats = 0;
    if (sum_by_[s] == SumBy::rows) floats = (steps_[s]->parameter_count() + kBlock - 1) / kBlock;
    if (sum_by_[s] == SumBy::places || sum_by_[s] == SumBy::tokens) floats = steps_[s]->outputs();
    kept_.push_back(floats == 0 ? nullptr : make(floats));
  }
  for (const Stage& stage : stages_) deltas_.push_back(make(steps_[stage.last - 1]->outputs()));
}

void PlainSum::for_each_block(std::size_t rows, std::size_t block,
                              const std::function<void(std::size_t, std::size_t)>& body) const {
  executor_.for_each_chunk((rows + block - 1) / block, [&](std::size_t i) {
    body(i * block, std::min(block, rows - i * block));
  });
}

/// Calls body(first row, rows, first column, columns) for each tile.
void PlainSum::for_each_tile(
    std::size_t rows, std::size_t columns,
    const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const {
  // Few columns need more and smaller row tiles, so that there is work for several threads.
  const std::size_t tile_rows =
      columns < kTileColumns ? std::min<std::size_t>(chunk_rows_, 32) : chunk_rows_;
  const std::size_t across = (columns + kTileColumns - 1) / kTileColumns;
  const std::size_t down = (rows + tile_rows - 1) / tile_rows;
  executor_.for_each_chunk(across * down, [&](std::size_t i) {
    const std::size_t row = i / across * tile_rows;
    const std::size_t column = i % across * kTileColumns;
    body(row, std::min(tile_rows, rows - row), column, std::min(kTileColumns, columns - column));
  });
}

// --- Forwards.

void PlainSum::forward() {
  entering_[0] = batch_.features.data();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    entering_[s + 1] = leaving_[s] != nullptr ? leaving_[s] : entering_[s];
  }
  for (const Stage& stage : stages_) {
    if (stage.is_dense) {
      dense_forward(stage);
    } else {
      block_forward(stage);
    }
  }
}

void PlainSum::dense_forward(const Stage& stage) {
  const cpu::DenseStep& step = dense(stage.first);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  const float* in = entering_[stage.first];
  float* out = leaving_[stage.first];
  for_each_tile(batch_.rows(), units,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  float* tile = out + row * units + column;
                  for (std::size_t i = 0; i < rows; ++i) {
                    std::copy_n(step.biases() + column, columns, tile + i * units);
                  }
                  multiply(rows, columns, inputs, {in + row * inputs, inputs},
                           {step.weights() + column * inputs, inputs, true}, true, tile, units);
                  if (stage.function == nullptr) return;
                  for (std::size_t i = 0; i < rows; ++i) {
                    stage.function->apply(tile + i * units, columns, tile + i * units);
                  }
                });
}

void PlainSum::block_forward(const Stage& stage) {
  for_each_block(batch_.rows(), kBlock, [&](std::size_t first, std::size_t count) {
    const Lease scratch(*this);
    for (std::size_t s = stage.first; s < stage.last; ++s) {
      const float* in = entering_[s] + first * steps_[s]->inputs();
      if (leaving_[s] == nullptr) continue;
      float* out = leaving_[s] + first * steps_[s]->outputs();
      if (std::holds_alternative<Conv2d>(network_.nodes[s].layer)) {
        conv_forward(conv(s), count, in, out, *scratch);
      } else {
        steps_[s]->forward(count, {&in, 1}, out, *scratch);
      }
    }
  });
}

void PlainSum::conv_forward(const cpu::ConvStep& step, std::size_t count, const float* in,
                            float* out, cpu::Scratch& scratch) const {
  const std::size_t together = examples_together(step, count);
  const std::size_t size = step.places() * step.patch();
  float* patches = at_least(scratch.patches, together * size);
  for (std::size_t first = 0; first < count; first += together) {
    const std::size_t examples = std::min(together, count - first);
    float* product = out + first * step.outputs();
    for (std::size_t i = 0; i < examples; ++i) {
      step.gather_patches(in + (first + i) * step.inputs(), patches + i * size);
    }
    const std::size_t rows = examples * step.places();
    for (std::size_t i = 0; i < rows; ++i) {
      cpu::copy_short(step.biases(), step.channels(), product + i * step.channels());
    }
    multiply(rows, step.channels(), step.patch(), {patches, step.patch()},
             {step.weights(), step.patch(), true}, true, product, step.channels());
  }
}

// --- Backwards.

void PlainSum::backward() {
  const cpu::LossOf loss(network_);
  const std::size_t inputs = steps_.front()->inputs(), width = steps_.back()->outputs();
  for_each_block(batch_.rows(), 32, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      loss.find_gradient({entering_.front() + i * inputs, inputs},
                         {entering_.back() + i * width, width}, batch_.targets[i],
                         {deltas_.back().get() + i * width, width});
    }
  });
  for (std::size_t k = stages_.size(); k-- > 0 && stages_[k].last > first_with_parameters_;) {
    if (stages_[k].is_dense) {
      dense_backward(k);
    } else {
      block_backward(k);
    }
  }
}

void PlainSum::dense_backward(std::size_t k) {
  const Stage& stage = stages_[k];
  const std::size_t s = stage.first;
  const cpu::DenseStep& step = dense(s);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  float* delta = deltas_[k].get();
  if (stage.function != nullptr) {
    for_each_block(batch_.rows(), 32, [&](std::size_t first, std::size_t count) {
      stage.function->hand_down(leaving_[s] + first * units, count * units, delta + first * units);
    });
  }
  if (s <= first_with_parameters_) return;
  float* below = deltas_[k - 1].get();
  for_each_tile(batch_.rows(), inputs,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  multiply(rows, columns, units, {delta + row * units, units},
                           {step.weights() + column, inputs}, false, below + row * inputs + column,
                           inputs);
                });
}

void PlainSum::block_backward(std::size_t k) {
  const Stage& stage = stages_[k];
  std::size_t widest = 0;
  for (std::size_t s = stage.first; s < stage.last; ++s) {
    widest = std::max(widest, steps_[s]->inputs());
  }
  for_each_block(batch_.rows(), kBlock, [&](std::size_t first, std::size_t count) {
    const Lease scratch(*this);
    float* one = at_least(scratch->deltas, count * widest);
    float* other = at_least(scratch->added, count * widest);
    float* delta = deltas_[k].get() + first * steps_[stage.last - 1]->outputs();
    for (std::size_t s = stage.last; s-- > stage.first;) {
      if (s < first_with_parameters_) return;
      delta = step_backward(s, first, count, delta, delta == one ? other : one, *scratch);
      if (s == first_with_parameters_) return;
    }
    const std::size_t size = steps_[stage.first]->inputs();
    std::copy_n(delta, count * size, deltas_[k - 1].get() + first * size);
  });
}

float* PlainSum::step_backward(std::size_t s, std::size_t first, std::size_t count, float* delta,
                               float* below, cpu::Scratch& scratch) {
  const cpu::Step& step = *steps_[s];
  const float* in = entering_[s] + first * step.inputs();
  const float* out = entering_[s + 1] + first * step.outputs();
  const bool goes_on = s > first_with_parameters_;
  if (std::holds_alternative<Conv2d>(network_.nodes[s].layer)) {
    conv_backward(s, first, count, delta, goes_on ? below : nullptr, scratch);
    return below;
  }
  const std::size_t parameters = step.parameter_count();
  if (sum_by_[s] == SumBy::tokens) {
    std::copy_n(delta, count * step.outputs(), kept_[s].get() + first * step.outputs());
  } else if (sum_by_[s] == SumBy::rows) {
    float* rows = at_least(scratch.scaled, count * parameters);
    float* kept = kept_[s].get() + first / kBlock * parameters;
    step.gradient_rows(count, in, delta, rows, parameters, scratch);
    std::copy_n(rows, parameters, kept);
    for (std::size_t i = 1; i < count; ++i) cpu::add(rows + i * parameters, parameters, kept);
  }
  if (!goes_on) return below;
  if (step.hands_down_in_place()) below = delta;
  step.backward(count, {&in, 1}, out, delta, {&below, 1}, scratch);
  return below;
}

void PlainSum::conv_backward(std::size_t s, std::size_t first, std::size_t count,
                             const float* delta, float* below, cpu::Scratch& scratch) {
  const cpu::ConvStep& step = conv(s);
  const std::size_t places = step.places();
  const std::size_t patch = step.patch();
  const std::size_t channels = step.channels();
  const std::size_t size = places * patch;
  const std::size_t together = examples_together(step, count);
  float* patches = at_least(scratch.patches, together * size);
  const float* in = entering_[s] + first * step.inputs();
  if (sum_by_[s] == SumBy::places) {
    std::copy_n(delta, count * step.outputs(), kept_[s].get() + first * step.outputs());
  }
  for (std::size_t begin = 0; begin < count; begin += together) {
    const std::size_t examples = std::min(together, count - begin);
    const std::size_t rows = examples * places;
    const float* deltas = delta + begin * step.outputs();
    if (sum_by_[s] == SumBy::rows) {
      for (std::size_t i = 0; i < examples; ++i) {
        step.gather_patches(in + (begin + i) * step.inputs(), patches + i * size);
      }
      float* kept = kept_[s].get() + first / kBlock * step.parameter_count();
      multiply(channels, patch, rows, {deltas, channels, true}, {patches, patch}, begin > 0, kept,
               patch);
      float* bias = kept + channels * patch;
      if (begin == 0) std::fill_n(bias, channels, 0.0f);
      for (std::size_t row = 0; row < rows; ++row) {
        cpu::add(deltas + row * channels, channels, bias);
      }
    }
    if (below == nullptr) continue;
    multiply(rows, patch, channels, {deltas, channels}, {step.weights(), patch}, false, patches,
             patch);
    for (std::size_t i = 0; i < examples; ++i) {
      step.add_patches(patches + i * size, below + (begin + i) * step.inputs());
    }
  }
}

// --- Sums.

void PlainSum::add(const Batch& batch, std::span<float> sum) {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
  batch_ = batch;
  forward();
  backward();
  executor_.for_each_chunk(batch_.rows() == 0 ? 0 : pieces_.size(), [&](std::size_t i) {
    const Piece& piece = pieces_[i];
    switch (sum_by_[piece.step]) {
      case SumBy::nothing:
        return;
      case SumBy::product:
        return sum_product(piece, sum);
      case SumBy::rows:
        return sum_rows(piece, sum);
      case SumBy::places:
        return sum_places(piece, sum);
      case SumBy::tokens:
        return sum_tokens(piece, sum);
    }
  });
}

void PlainSum::sum_product(const Piece& piece, std::span<float> sum) const {
  const std::size_t s = piece.step;
  const cpu::DenseStep& step = dense(s);
  const std::size_t units = piece.end - piece.first;
  const std::size_t inputs = step.inputs();
  const auto stage = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& one) { return one.first == s; });
  const float* delta = deltas_[static_cast<std::size_t>(stage - stages_.begin())].get();
  float* bias = sum.data() + step.offset() + inputs * step.outputs() + piece.first;
  for (std::size_t row = 0; row < batch_.rows(); row += chunk_rows_) {
    const std::size_t rows = std::min(chunk_rows_, batch_.rows() - row);
    const float* errors = delta + row * step.outputs() + piece.first;
    for (std::size_t i = 0; i < rows && piece.left == 0; ++i) {
      cpu::add(errors + i * step.outputs(), units, bias);
    }
    multiply(units, piece.right - piece.left, rows, {errors, step.outputs(), true},
             {entering_[s] + row * inputs + piece.left, inputs}, true,
             sum.data() + step.offset() + piece.first * inputs + piece.left, inputs);
  }
}

void PlainSum::sum_rows(const Piece& piece, std::span<float> sum) const {
  const std::size_t s = piece.step;
  const std::size_t parameters = steps_[s]->parameter_count();
  const std::size_t blocks = (batch_.rows() + kBlock - 1) / kBlock;
  const float* kept = kept_[s].get() + piece.first;
  float* to = sum.data() + steps_[s]->offset() + piece.first;
  for (std::size_t i = 0; i < blocks; ++i) {
    cpu::add(kept + i * parameters, piece.end - piece.first, to);
  }
}

void PlainSum::sum_places(const Piece& piece, std::span<float> sum) {
  const std::size_t s = piece.step;
  const cpu::ConvStep& step = conv(s);
  const std::size_t units = piece.end - piece.first;
  const std::size_t places = step.places();
  const std::size_t size = places * step.patch();
  const std::size_t together = examples_together(step, kBlock);
  const Lease scratch(*this);
  float* patches = at_least(scratch->patches, together * size);
  float* bias = sum.data() + step.offset() + step.channels() * step.patch() + piece.first;
  for (std::size_t first = 0; first < batch_.rows(); first += together) {
    const std::size_t examples = std::min(together, batch_.rows() - first);
    const float* delta = kept_[s].get() + first * step.outputs() + piece.first;
    for (std::size_t i = 0; i < examples; ++i) {
      step.gather_patches(entering_[s] + (first + i) * step.inputs(), patches + i * size);
    }
    for (std::size_t row = 0; row < examples * places; ++row) {
      cpu::add(delta + row * step.channels(), units, bias);
    }
    multiply(units, step.patch(), examples * places, {delta, step.channels(), true},
             {patches, step.patch()}, true, sum.data() + step.offset() + piece.first * step.patch(),
             step.patch());
  }
}

void PlainSum::sum_tokens(const Piece& piece, std::span<float> sum) const {
  const std::size_t s = piece.step;
  const auto& step = static_cast<const cpu::EmbeddingStep&>(*steps_[s]);
  for (std::size_t i = 0; i < batch_.rows(); ++i) {
    step.for_each_row(entering_[s] + i * step.inputs(), kept_[s].get() + i * step.outputs(),
                      [&](std::size_t first, std::span<const float> gradient) {
                        cpu::add(gradient.data(), gradient.size(),
                                 sum.data() + step.offset() + first);
                      });
  }
}

}  // namespace privgrad::bench
