#include "fused.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gemm.hpp"
#include "loops.hpp"
#include "losses.hpp"

namespace privgrad::cpu {
namespace {

/// Examples that a task takes through the layers between dense ones.
constexpr std::size_t kBlock = 8;
/// Rows of patches in one product, at least, if the block has as many.
constexpr std::size_t kPatchRows = 256;
/// Extents of the tiles of dense products.
constexpr std::size_t kTileColumns = 256;
constexpr std::size_t kTileUnits = 256;
constexpr std::size_t kTileInputs = 1024;
/// Parameters whose kept gradients are added up by one task.
constexpr std::size_t kRowPiece = 4096;

/// Half the distance from 1 to the next float: the relative error of one operation.
constexpr double kRoundoff = 0x1p-24;

/// What squares of norms grow by so that rounding is covered: twice two float32 operations on each
/// element (the scaling and the product), and the sum of `count` squares in double.
double enlarged(double squares, std::size_t count) {
  return squares * (1.0 + 5.0 * kRoundoff + static_cast<double>(count) * 0x1p-50);
}

}  // namespace

/// A task's memory, given back at the end.
class FusedPass::Lease {
 public:
  explicit Lease(FusedPass& pass) : pass_(pass) {
    const std::lock_guard lock(pass_.mutex_);
    if (pass_.scratch_.empty()) {
      scratch_ = std::make_unique<Scratch>();
    } else {
      scratch_ = std::move(pass_.scratch_.back());
      pass_.scratch_.pop_back();
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(pass_.mutex_);
    pass_.scratch_.push_back(std::move(scratch_));
  }
  Scratch& operator*() const { return *scratch_; }
  Scratch* operator->() const { return scratch_.get(); }

 private:
  FusedPass& pass_;
  std::unique_ptr<Scratch> scratch_;
};

namespace {

float* at_least(std::vector<float>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

}  // namespace

// --- What depends on the network alone.

FusedEngine::FusedEngine(const Network& network, const std::vector<std::unique_ptr<Step>>& steps,
                         Executor& executor)
    : network_(network), steps_(steps), executor_(executor), group_of_(steps.size()) {
  first_with_parameters_ = steps_.size();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (steps_[s]->parameter_count() == 0) continue;
    first_with_parameters_ = std::min(first_with_parameters_, s);
    group_of_[s] = group_steps_.size();
    group_steps_.push_back(s);
  }
  make_stages();
  choose_sums();
  choose_rows();
  for (const std::size_t s : group_steps_) add_pieces(s);
}

const DenseStep& FusedEngine::dense(std::size_t step) const {
  return static_cast<const DenseStep&>(*steps_[step]);
}

const ConvStep& FusedEngine::conv(std::size_t step) const {
  return static_cast<const ConvStep&>(*steps_[step]);
}

void FusedEngine::make_stages() {
  const auto is_dense = [&](std::size_t s) {
    return std::holds_alternative<Dense>(network_.layers[s]);
  };
  for (std::size_t s = 0; s < steps_.size();) {
    Stage stage{s, s + 1, is_dense(s)};
    if (stage.is_dense) {
      if (stage.last < steps_.size() &&
          std::holds_alternative<Activation>(network_.layers[stage.last])) {
        ++stage.last;
      }
    } else {
      while (stage.last < steps_.size() && !is_dense(stage.last)) ++stage.last;
    }
    stages_.push_back(stage);
    s = stage.last;
  }
}

/// Kept rows are written once and read twice, at about ten floating-point operations per byte on
/// today's cores; norms by places cost 2 places^2 (patch + channels) operations, and the patches
/// are gathered once more. The matrix product itself is needed either way.
void FusedEngine::choose_sums() {
  constexpr double kRowCost = 40.0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Layer& layer = network_.layers[s];
    SumBy by = steps_[s]->parameter_count() == 0 ? SumBy::nothing : SumBy::rows;
    if (std::holds_alternative<Dense>(layer)) by = SumBy::product;
    if (std::holds_alternative<Embedding>(layer)) by = SumBy::tokens;
    if (std::holds_alternative<Conv2d>(layer)) {
      const auto places = static_cast<double>(conv(s).places());
      const auto patch = static_cast<double>(conv(s).patch());
      const auto channels = static_cast<double>(conv(s).channels());
      if (places * places * (patch + channels) < kRowCost * patch * channels) by = SumBy::gram;
    }
    sum_by_.push_back(by);
  }
}

/// So many that the products are large, as long as a pass stays below 64 MiB or so.
void FusedEngine::choose_rows() {
  constexpr std::size_t kFloats = std::size_t{16} << 20;
  std::size_t floats = 1;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!shares_memory(s)) floats += steps_[s]->outputs();
    if (sum_by_[s] == SumBy::rows) floats += steps_[s]->parameter_count();
    if (sum_by_[s] == SumBy::gram || sum_by_[s] == SumBy::tokens) floats += steps_[s]->outputs();
  }
  for (const Stage& stage : stages_) floats += steps_[stage.last - 1]->outputs();
  chunk_rows_ = 256;
  while (chunk_rows_ > kBlock && chunk_rows_ * floats > kFloats) chunk_rows_ /= 2;
  pass_rows_ =
      std::clamp(kFloats / floats / chunk_rows_ * chunk_rows_, chunk_rows_, std::size_t{1024});
}

void FusedEngine::add_pieces(std::size_t s) {
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
    case SumBy::gram:
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
bool FusedEngine::shares_memory(std::size_t s) const {
  if (!steps_[s]->works_in_place()) return false;
  return std::holds_alternative<Flatten>(network_.layers[s]) ||
         (s > 0 && steps_[s - 1]->gives_output_away());
}

std::size_t FusedEngine::kept_rows(std::size_t rows, bool has_norms) const {
  return has_norms ? rows : (rows + kBlock - 1) / kBlock;
}

std::unique_ptr<FusedPass> FusedEngine::make_forward_pass(std::size_t most_rows) const {
  auto pass = std::make_unique<FusedPass>();
  pass->most_rows_ = most_rows;
  pass->entering_.resize(steps_.size() + 1);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass->storage_.push_back(shares_memory(s) ? nullptr
                                              : std::make_unique_for_overwrite<float[]>(
                                                    most_rows * steps_[s]->outputs()));
    // Flatten in front of everything passes the features on, which nobody writes to.
    pass->leaving_.push_back(pass->storage_[s] != nullptr ? pass->storage_[s].get()
                             : s > 0                      ? pass->leaving_[s - 1]
                                                          : nullptr);
  }
  return pass;
}

std::unique_ptr<FusedPass> FusedEngine::make_pass(std::size_t most_rows) const {
  auto pass = make_forward_pass(most_rows);
  for (const Stage& stage : stages_) {
    pass->deltas_.push_back(
        std::make_unique_for_overwrite<float[]>(most_rows * steps_[stage.last - 1]->outputs()));
  }
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    std::size_t floats = 0;
    if (sum_by_[s] == SumBy::rows) floats = steps_[s]->parameter_count();
    if (sum_by_[s] == SumBy::gram || sum_by_[s] == SumBy::tokens) floats = steps_[s]->outputs();
    pass->kept_.push_back(
        floats == 0 ? nullptr : std::make_unique_for_overwrite<float[]>(most_rows * floats));
  }
  return pass;
}

// --- Tasks.

void FusedEngine::for_each_block(std::size_t rows, std::size_t block,
                                 const std::function<void(std::size_t, std::size_t)>& body) const {
  executor_.for_each_chunk((rows + block - 1) / block, [&](std::size_t i) {
    body(i * block, std::min(block, rows - i * block));
  });
}

/// body(first row, rows, first column, columns).
void FusedEngine::for_each_tile(
    std::size_t rows, std::size_t columns,
    const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& body) const {
  // Few columns: more rows apart, so that there is work for several threads.
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

const float* FusedEngine::forward(const Batch& batch, FusedPass& pass, const Norms& norms) const {
  use_one_blas_thread();
  pass.batch_ = batch;
  pass.entering_[0] = batch.features.data();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    pass.entering_[s + 1] = pass.leaving_[s] != nullptr ? pass.leaving_[s] : pass.entering_[s];
  }
  for (const Stage& stage : stages_) {
    if (stage.is_dense) {
      if (!norms.squared.empty()) square_inputs(stage, pass, norms);
      dense_forward(stage, pass);
    } else {
      block_forward(stage, pass);
    }
  }
  return pass.entering_.back();
}

/// The half of the norm that is known before the errors are, while the inputs are in the cache.
void FusedEngine::square_inputs(const Stage& stage, const FusedPass& pass,
                                const Norms& norms) const {
  const std::size_t inputs = steps_[stage.first]->inputs();
  for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      norms.at(i, group_of_[stage.first]) =
          sum_of_squares(pass.entering_[stage.first] + i * inputs, inputs);
    }
  });
}

void FusedEngine::dense_forward(const Stage& stage, FusedPass& pass) const {
  const DenseStep& step = dense(stage.first);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  const float* in = pass.entering_[stage.first];
  float* out = pass.leaving_[stage.first];
  for_each_tile(pass.rows(), units,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  float* tile = out + row * units + column;
                  for (std::size_t i = 0; i < rows; ++i) {
                    std::copy_n(step.biases() + column, columns, tile + i * units);
                  }
                  multiply(rows, columns, inputs, {in + row * inputs, inputs},
                           {step.weights() + column * inputs, inputs, true}, true, tile, units);
                  if (stage.last == stage.first + 1) return;
                  const auto kind = std::get<Activation>(network_.layers[stage.first + 1]).kind;
                  for (std::size_t i = 0; i < rows; ++i) {
                    activate(kind, tile + i * units, columns, tile + i * units);
                  }
                });
}

void FusedEngine::block_forward(const Stage& stage, FusedPass& pass) const {
  for_each_block(pass.rows(), kBlock, [&](std::size_t first, std::size_t count) {
    const FusedPass::Lease scratch(pass);
    for (std::size_t s = stage.first; s < stage.last; ++s) {
      const float* in = pass.entering_[s] + first * steps_[s]->inputs();
      if (pass.leaving_[s] == nullptr) continue;
      float* out = pass.leaving_[s] + first * steps_[s]->outputs();
      if (std::holds_alternative<Conv2d>(network_.layers[s])) {
        conv_forward(conv(s), count, in, out, *scratch);
      } else {
        steps_[s]->forward(count, in, out);
      }
    }
  });
}

namespace {

/// Examples of a block whose patches are multiplied together.
std::size_t examples_together(const ConvStep& step, std::size_t count) {
  return std::min(count, (kPatchRows + step.places() - 1) / step.places());
}

}  // namespace

void FusedEngine::conv_forward(const ConvStep& step, std::size_t count, const float* in, float* out,
                               Scratch& scratch) const {
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
      copy_short(step.biases(), step.channels(), product + i * step.channels());
    }
    multiply(rows, step.channels(), step.patch(), {patches, step.patch()},
             {step.weights(), step.patch(), true}, true, product, step.channels());
  }
}

// --- Backwards.

void FusedEngine::backward(const Batch& batch, FusedPass& pass,
                           std::span<double> squared_norms) const {
  pass.has_norms_ = !squared_norms.empty();
  pass.clean_features_.clear();
  const Norms norms{squared_norms, groups()};
  const float* outputs = forward(batch, pass, norms);
  const std::size_t width = steps_.back()->outputs();
  for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      loss_gradient(network_, {outputs + i * width, width}, batch.targets[i],
                    {pass.deltas_.back().get() + i * width, width});
    }
  });
  for (std::size_t k = stages_.size(); k-- > 0 && stages_[k].last > first_with_parameters_;) {
    if (stages_[k].is_dense) {
      dense_backward(k, pass, norms);
    } else {
      block_backward(k, pass, norms);
    }
  }
}

void FusedEngine::dense_backward(std::size_t k, FusedPass& pass, const Norms& norms) const {
  const Stage& stage = stages_[k];
  const std::size_t s = stage.first;
  const DenseStep& step = dense(s);
  const std::size_t inputs = step.inputs();
  const std::size_t units = step.outputs();
  float* delta = pass.deltas_[k].get();
  const bool activated = stage.last > s + 1;
  if (activated || !norms.squared.empty()) {
    for_each_block(pass.rows(), 32, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        if (activated) {
          activate_backward(std::get<Activation>(network_.layers[s + 1]).kind,
                            pass.leaving_[s] + i * units, units, delta + i * units);
        }
        if (norms.squared.empty()) continue;
        // || delta a^T ||^2 + || delta ||^2: the weights and the biases.
        double& squared = norms.at(i, group_of_[s]);
        squared =
            enlarged((squared + 1.0) * sum_of_squares(delta + i * units, units), inputs + units);
      }
    });
  }
  if (s <= first_with_parameters_) return;
  float* below = pass.deltas_[k - 1].get();
  for_each_tile(pass.rows(), inputs,
                [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
                  multiply(rows, columns, units, {delta + row * units, units},
                           {step.weights() + column, inputs}, false, below + row * inputs + column,
                           inputs);
                });
}

void FusedEngine::block_backward(std::size_t k, FusedPass& pass, const Norms& norms) const {
  const Stage& stage = stages_[k];
  std::size_t widest = 0;
  for (std::size_t s = stage.first; s < stage.last; ++s) {
    widest = std::max(widest, steps_[s]->inputs());
  }
  for_each_block(pass.rows(), kBlock, [&](std::size_t first, std::size_t count) {
    const FusedPass::Lease scratch(pass);
    float* one = at_least(scratch->one, count * widest);
    float* other = at_least(scratch->other, count * widest);
    float* delta = pass.deltas_[k].get() + first * steps_[stage.last - 1]->outputs();
    for (std::size_t s = stage.last; s-- > stage.first;) {
      if (s < first_with_parameters_) return;
      delta =
          step_backward(s, pass, first, count, delta, delta == one ? other : one, *scratch, norms);
      if (s == first_with_parameters_) return;
    }
    const std::size_t size = steps_[stage.first]->inputs();
    std::copy_n(delta, count * size, pass.deltas_[k - 1].get() + first * size);
  });
}

float* FusedEngine::step_backward(std::size_t s, FusedPass& pass, std::size_t first,
                                  std::size_t count, float* delta, float* below, Scratch& scratch,
                                  const Norms& norms) const {
  const Step& step = *steps_[s];
  const float* in = pass.entering_[s] + first * step.inputs();
  const float* out = pass.entering_[s + 1] + first * step.outputs();
  const bool goes_on = s > first_with_parameters_;
  if (std::holds_alternative<Conv2d>(network_.layers[s])) {
    conv_backward(s, pass, first, count, delta, goes_on ? below : nullptr, scratch, norms);
    return below;
  }
  const std::size_t parameters = step.parameter_count();
  if (sum_by_[s] == SumBy::tokens) {
    float* kept = pass.kept_[s].get() + first * step.outputs();
    std::copy_n(delta, count * step.outputs(), kept);
    for (std::size_t i = 0; i < count && !norms.squared.empty(); ++i) {
      double squares = 0.0;
      const bool tokens = static_cast<const EmbeddingStep&>(step).for_each_row(
          in + i * step.inputs(), delta + i * step.outputs(),
          [&](std::size_t, std::span<const float> gradient) {
            squares += sum_of_squares(gradient.data(), gradient.size());
          });
      norms.at(first + i, group_of_[s]) =
          tokens ? enlarged(squares, step.outputs()) : std::numeric_limits<double>::quiet_NaN();
    }
  } else if (sum_by_[s] == SumBy::rows && !norms.squared.empty()) {
    float* kept = pass.kept_[s].get() + first * parameters;
    step.gradient_rows(count, in, delta, kept, parameters);
    for (std::size_t i = 0; i < count; ++i) {
      norms.at(first + i, group_of_[s]) =
          enlarged(sum_of_squares(kept + i * parameters, parameters), parameters);
    }
  } else if (sum_by_[s] == SumBy::rows) {
    float* rows = at_least(scratch.scaled, count * parameters);
    float* kept = pass.kept_[s].get() + first / kBlock * parameters;
    step.gradient_rows(count, in, delta, rows, parameters);
    std::copy_n(rows, parameters, kept);
    for (std::size_t i = 1; i < count; ++i) add(rows + i * parameters, parameters, kept);
  }
  return goes_on ? step.backward(count, in, out, delta, below) : below;
}

namespace {

/// The squared norm of one example's gradient from its patches a_t and errors d_t:
///   || sum_t d_t a_t^T ||^2 = sum_{t, u} (a_t . a_u) (d_t . d_u), with 1 in a_t for the bias.
/// With S = sum_t |a_t| |d_t|: a float32 inner product of n terms is off by at most about n 2^-24
/// |x| |y| (Higham 2002, section 3.1), so the sum by (patch + channels) 2^-24 S^2, and the gradient
/// that add_scaled() makes, of products of `places` terms, by places 2^-24 S.
double gram_squared_norm(const ConvStep& step, const float* patches, const float* delta,
                         std::vector<float>& memory) {
  const std::size_t places = step.places();
  float* inputs = at_least(memory, 2 * places * places);
  float* errors = inputs + places * places;
  multiply(places, places, step.patch(), {patches, step.patch()}, {patches, step.patch(), true},
           false, inputs, places);
  multiply(places, places, step.channels(), {delta, step.channels()},
           {delta, step.channels(), true}, false, errors, places);
  double squares = 0.0;
  for (std::size_t i = 0; i < places * places; ++i) {
    squares += (static_cast<double>(inputs[i]) + 1.0) * static_cast<double>(errors[i]);
  }
  double size = 0.0;
  for (std::size_t t = 0; t < places; ++t) {
    size += std::sqrt((sum_of_squares(patches + t * step.patch(), step.patch()) + 1.0) *
                      sum_of_squares(delta + t * step.channels(), step.channels()));
  }
  const auto inner = static_cast<double>(step.patch() + step.channels() + 8);
  const double root = std::sqrt(std::max(squares, 0.0) + inner * 0x1.01p-24 * size * size) +
                      static_cast<double>(places + 4) * 0x1.01p-24 * size;
  return std::isfinite(squares) ? enlarged(root * root, places * places) : squares;
}

}  // namespace

void FusedEngine::conv_backward(std::size_t s, FusedPass& pass, std::size_t first,
                                std::size_t count, const float* delta, float* below,
                                Scratch& scratch, const Norms& norms) const {
  const ConvStep& step = conv(s);
  const std::size_t places = step.places();
  const std::size_t patch = step.patch();
  const std::size_t channels = step.channels();
  const std::size_t size = places * patch;
  const std::size_t parameters = step.parameter_count();
  const bool wanted = !norms.squared.empty();
  const std::size_t together = examples_together(step, count);
  float* patches = at_least(scratch.patches, together * size);
  const float* in = pass.entering_[s] + first * step.inputs();

  // The gradient of `rows` rows of patches and errors, into or onto a kept row.
  const auto add_gradient = [&](std::size_t rows, const float* a, const float* d, bool onto,
                                float* kept) {
    multiply(channels, patch, rows, {d, channels, true}, {a, patch}, onto, kept, patch);
    float* bias = kept + channels * patch;
    if (!onto) std::fill_n(bias, channels, 0.0f);
    for (std::size_t row = 0; row < rows; ++row) add(d + row * channels, channels, bias);
  };

  if (sum_by_[s] == SumBy::gram) {
    std::copy_n(delta, count * step.outputs(), pass.kept_[s].get() + first * step.outputs());
  }
  for (std::size_t begin = 0; begin < count; begin += together) {
    const std::size_t examples = std::min(together, count - begin);
    const float* deltas = delta + begin * step.outputs();
    const bool needs_patches = sum_by_[s] == SumBy::rows || wanted;
    for (std::size_t i = 0; i < examples && needs_patches; ++i) {
      step.gather_patches(in + (begin + i) * step.inputs(), patches + i * size);
    }
    if (sum_by_[s] == SumBy::rows && !wanted) {
      add_gradient(examples * places, patches, deltas, begin > 0,
                   pass.kept_[s].get() + first / kBlock * parameters);
    }
    for (std::size_t i = 0; i < examples && wanted; ++i) {
      const std::size_t row = first + begin + i;
      const float* own_delta = deltas + i * step.outputs();
      double& squared = norms.at(row, group_of_[s]);
      if (sum_by_[s] == SumBy::rows) {
        float* kept = pass.kept_[s].get() + row * parameters;
        add_gradient(places, patches + i * size, own_delta, false, kept);
        squared = enlarged(sum_of_squares(kept, parameters), parameters);
      } else {
        squared = gram_squared_norm(step, patches + i * size, own_delta, scratch.scaled);
      }
    }
    if (below == nullptr) continue;
    multiply(examples * places, patch, channels, {deltas, channels}, {step.weights(), patch}, false,
             patches, patch);
    for (std::size_t i = 0; i < examples; ++i) {
      step.add_patches(patches + i * size, below + (begin + i) * step.inputs());
    }
  }
}

// --- The sum.

float FusedEngine::factor(std::span<const float> factors, std::size_t row, std::size_t s) const {
  return factors.empty() ? 1.0f : factors[row * groups() + group_of_[s]];
}

void FusedEngine::add_scaled(FusedPass& pass, std::span<const float> factors,
                             std::span<float> sum) const {
  use_one_blas_thread();
  for (std::size_t group = 0; group < groups(); ++group) clean_inputs(group, pass, factors);
  executor_.for_each_chunk(pass.rows() == 0 ? 0 : pieces_.size(), [&](std::size_t i) {
    const Piece& piece = pieces_[i];
    switch (sum_by_[piece.step]) {
      case SumBy::nothing:
        return;
      case SumBy::product:
        return sum_product(piece, pass, factors, sum);
      case SumBy::rows:
        return sum_rows(piece, pass, factors, sum);
      case SumBy::gram:
        return sum_gram(piece, pass, factors, sum);
      case SumBy::tokens:
        return sum_tokens(piece, pass, factors, sum);
    }
  });
}

/// In a product over examples, 0 times infinity would reach the others: the inputs of an example
/// that is taken out are set to 0 where they are not finite.
void FusedEngine::clean_inputs(std::size_t group, FusedPass& pass,
                               std::span<const float> factors) const {
  const std::size_t s = group_steps_[group];
  if (sum_by_[s] != SumBy::product) return;
  const std::size_t inputs = steps_[s]->inputs();
  for (std::size_t i = 0; i < pass.rows(); ++i) {
    if (factor(factors, i, s) != 0.0f) continue;
    if (std::isfinite(sum_of_squares(pass.entering_[s] + i * inputs, inputs))) continue;
    if (pass.entering_[s] == pass.batch_.features.data()) {  // which is not ours to change
      pass.clean_features_.assign(pass.batch_.features.begin(), pass.batch_.features.end());
      pass.entering_[s] = pass.clean_features_.data();
    }
    float* rows = pass.clean_features_.data() == pass.entering_[s] ? pass.clean_features_.data()
                                                                   : pass.leaving_[s - 1];
    std::fill_n(rows + i * inputs, inputs, 0.0f);
  }
}

void FusedEngine::sum_product(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                              std::span<float> sum) const {
  const std::size_t s = piece.step;
  const DenseStep& step = dense(s);
  const std::size_t units = piece.end - piece.first;
  const std::size_t inputs = step.inputs();
  const auto stage = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& one) { return one.first == s; });
  const float* delta = pass.deltas_[static_cast<std::size_t>(stage - stages_.begin())].get();
  const FusedPass::Lease scratch(pass);
  float* scaled = factors.empty() ? nullptr : at_least(scratch->scaled, chunk_rows_ * units);
  float* bias = sum.data() + step.offset() + inputs * step.outputs() + piece.first;
  for (std::size_t row = 0; row < pass.rows(); row += chunk_rows_) {
    const std::size_t rows = std::min(chunk_rows_, pass.rows() - row);
    const float* errors = delta + row * step.outputs() + piece.first;
    const MatrixView used = factors.empty() ? MatrixView{errors, step.outputs(), true}
                                            : MatrixView{scaled, units, true};
    for (std::size_t i = 0; i < rows && scaled != nullptr; ++i) {
      const float f = factor(factors, row + i, s);
      float* to = scaled + i * units;
      if (f == 0.0f) {
        std::fill_n(to, units, 0.0f);
      } else {
        scale(f, errors + i * step.outputs(), units, to);
      }
    }
    for (std::size_t i = 0; i < rows && piece.left == 0; ++i) {
      add(used.data + i * used.stride, units, bias);
    }
    multiply(units, piece.right - piece.left, rows, used,
             {pass.entering_[s] + row * inputs + piece.left, inputs}, true,
             sum.data() + step.offset() + piece.first * inputs + piece.left, inputs);
  }
}

void FusedEngine::sum_rows(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                           std::span<float> sum) const {
  const std::size_t s = piece.step;
  const std::size_t parameters = steps_[s]->parameter_count();
  const std::size_t rows = kept_rows(pass.rows(), pass.has_norms());
  const float* kept = pass.kept_[s].get() + piece.first;
  float* to = sum.data() + steps_[s]->offset() + piece.first;
  for (std::size_t i = 0; i < rows; ++i, kept += parameters) {
    const float f = factor(factors, i, s);
    if (f != 0.0f) cpu::add_scaled(f, kept, piece.end - piece.first, to);
  }
}

void FusedEngine::sum_gram(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                           std::span<float> sum) const {
  const std::size_t s = piece.step;
  const ConvStep& step = conv(s);
  const std::size_t units = piece.end - piece.first;
  const std::size_t places = step.places();
  const std::size_t size = places * step.patch();
  const std::size_t together = examples_together(step, kBlock);
  const FusedPass::Lease scratch(pass);
  float* patches = at_least(scratch->patches, together * size);
  float* scaled = at_least(scratch->scaled, together * places * units);
  float* bias = sum.data() + step.offset() + step.channels() * step.patch() + piece.first;
  for (std::size_t first = 0; first < pass.rows(); first += together) {
    const std::size_t examples = std::min(together, pass.rows() - first);
    for (std::size_t i = 0; i < examples; ++i) {
      const float f = factor(factors, first + i, s);
      if (f == 0.0f) {
        std::fill_n(patches + i * size, size, 0.0f);
        std::fill_n(scaled + i * places * units, places * units, 0.0f);
        continue;
      }
      step.gather_patches(pass.entering_[s] + (first + i) * step.inputs(), patches + i * size);
      const float* delta = pass.kept_[s].get() + (first + i) * step.outputs() + piece.first;
      for (std::size_t place = 0; place < places; ++place) {
        float* to = scaled + (i * places + place) * units;
        scale(f, delta + place * step.channels(), units, to);
        add(to, units, bias);
      }
    }
    multiply(units, step.patch(), examples * places, {scaled, units, true}, {patches, step.patch()},
             true, sum.data() + step.offset() + piece.first * step.patch(), step.patch());
  }
}

void FusedEngine::sum_tokens(const Piece& piece, FusedPass& pass, std::span<const float> factors,
                             std::span<float> sum) const {
  const std::size_t s = piece.step;
  const auto& step = static_cast<const EmbeddingStep&>(*steps_[s]);
  for (std::size_t i = 0; i < pass.rows(); ++i) {
    const float f = factor(factors, i, s);
    if (f == 0.0f) continue;
    step.for_each_row(
        pass.entering_[s] + i * step.inputs(), pass.kept_[s].get() + i * step.outputs(),
        [&](std::size_t first, std::span<const float> gradient) {
          cpu::add_scaled(f, gradient.data(), gradient.size(), sum.data() + step.offset() + first);
        });
  }
}

}  // namespace privgrad::cpu
