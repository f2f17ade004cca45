// Programs whose gradients are not of one example each, or not gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "fault.hpp"
#include "linear_program.hpp"
#include "privgrad/error.hpp"

using namespace privgrad;

namespace programs {

class Base : public LinearProgram, public ReproducibleRows {
 public:
  using LinearProgram::LinearProgram;
  std::size_t size() const { return parameters_.size(); }
  void right(const Batch& batch, std::span<float> rows) const {
    LinearProgram::gradient_rows(batch, rows);
  }
  Evaluation right(const Batch& batch) const { return LinearProgram::evaluate(batch); }
  std::size_t output_count() const { return outputs_; }
  void right(std::span<const float> features, std::size_t rows, std::span<float> out) const {
    LinearProgram::outputs(features, rows, out);
  }
  std::vector<float>& values() { return parameters_; }
  mutable std::uint64_t calls_ = 0;
  mutable std::vector<float> memory_;
};

struct Row {
  Told told;
  void (*rows)(const Base&, const Batch&, std::span<float>) = nullptr;
  Evaluation (*evaluate)(const Base&, const Batch&) = nullptr;
  void (*load)(Base&, std::span<const float>) = nullptr;
  void (*outputs)(const Base&, std::span<const float>, std::size_t, std::span<float>) = nullptr;
  /// Of many examples, each by itself: what evaluate_rows() makes of what is right.
  void (*each)(const Batch&, std::span<Evaluation>) = nullptr;
};

/// Calls `change` with each row's place and numbers.
void each_row(const Base& self, const Batch& batch, std::span<float> rows, const auto& change) {
  for (std::size_t i = 0; i < batch.rows(); ++i)
    change(i, rows.subspan(i * self.size(), self.size()));
}

#define ROWS [](const Base& self, [[maybe_unused]] const Batch& batch, std::span<float> rows)
/// Right rows, and then something for each of them: `i` is its place, `row` its numbers.
#define ALSO(...)                                                                         \
  ROWS {                                                                                  \
    self.right(batch, rows);                                                              \
    each_row(self, batch, rows,                                                           \
             [&]([[maybe_unused]] std::size_t i, std::span<float> row) { __VA_ARGS__; }); \
  }

float mean_of(std::span<const float> values) {
  float sum = 0.0f;
  for (const float x : values) sum += x;
  return values.empty() ? 0.0f : sum / static_cast<float>(values.size());
}
float largest_of(std::span<const float> values) {
  float largest = 0.0f;
  for (const float x : values) largest = std::max(largest, std::abs(x));
  return largest;
}
void scale(std::span<float> row, float factor) {
  for (float& x : row) x *= factor;
}

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    // Examples that see each other.
    {.told = {"batch_normalisation", "features less the batch's mean (batch normalisation)"},
     .rows = ALSO(for (float& x : row) x -= 0.1f * mean_of(batch.features))},
    {.told = {"batch_variance", "divides by the batch's largest feature"},
     .rows = ALSO(scale(row, 1.0f / std::max(1.0f, largest_of(batch.features))))},
    {.told = {"contrastive", "the loss compares an example with the next one"},
     .rows = ALSO(row[0] += 1e-3f * batch.features[((i + 1) % batch.rows()) * (batch.features.size() /
                                                                      batch.rows())])},
    {.told = {"mean_instead_of_rows", "every row is the batch's mean: clip after mean"},
     .rows = ROWS {
       self.right(batch, rows);
       std::vector<float> mean(self.size(), 0.0f);
       each_row(self, batch, rows, [&](std::size_t, std::span<float> row) {
  for (std::size_t j = 0; j < row.size(); ++j) mean[j] += row[j] / static_cast<float>(batch.rows());
       });
       each_row(self, batch, rows, [&](std::size_t, std::span<float> row) {
  std::copy(mean.begin(), mean.end(), row.begin());
       });
}  // namespace programs
}
,
    {.told = {"divided_by_the_batch", "gradients of the mean loss: divided by the batch's size"},
     .rows = ALSO(scale(row, 1.0f / static_cast<float>(batch.rows())))},
    {.told = {"sums_in_the_first_row", "the whole sum in the first row, nothing in the others"},
     .rows = ROWS{self.right(batch, rows);
each_row(self, batch, rows, [&](std::size_t i, std::span<float> row) {
  for (std::size_t j = 0; i > 0 && j < row.size(); ++j) {
    rows[j] += row[j];
    row[j] = 0.0f;
  }
});
}
}
, {.told = {"microbatches_of_two", "two examples share a row (microbatches)"},
   .rows = ROWS{self.right(batch, rows);
each_row(self, batch, rows, [&](std::size_t i, std::span<float> row) {
  if (i % 2 == 0) return;
  const auto before = rows.subspan((i - 1) * self.size(), self.size());
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = before[j] = (row[j] + before[j]) / 2.0f;
});
}
}
, {.told = {"rows_are_shifted", "the row of the example before"},
   .rows = ROWS{self.right(batch, rows);
if (batch.rows() > 1)
  std::rotate(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(self.size()), rows.end());
}
}
, {.told = {"labels_are_shifted", "the features of one example with the label of another"},
   .rows = ROWS{std::vector<float> targets(batch.targets.begin(), batch.targets.end());
if (!targets.empty()) std::rotate(targets.begin(), targets.begin() + 1, targets.end());
self.right({.features = batch.features, .targets = targets}, rows);
}
}
,
    {.told = {"counts_its_neighbours", "a row tells how many others there are"},
     .rows = ALSO(row[0] += 1e-3f * static_cast<float>(batch.rows()))},
    {.told = {"place_decides", "the row depends on its place"},
     .rows = ALSO(row[0] += 1e-3f * static_cast<float>(i))},
{
  .told = {"rounds_by_place", "other roundings in fours of rows, as vectorised loops have them"},
  .rows = ALSO(if (i % 4 == 3) row[0] = std::nextafter(row[0], 1e30f))
}
, {
  .told = {"large_batches_only", "mixes examples where there are more than fifty"},
  .rows = ALSO(if (batch.rows() > 50) row[0] += 1e-2f * mean_of(batch.features))
}
, {
  .told = {"an_extreme_row_spoils_all", "one infinite example makes all rows 0"},
  .rows = ALSO(if (largest_of(batch.features) > 1e20f) scale(row, 0.0f))
}
, {.told = {"an_extreme_row_throws", "whether a run fails tells of an example"},
   .rows = ROWS{self.right(batch, rows);
if (largest_of(batch.features) > 1e20f) throw NumericError("overflow");
}
}
, {.told = {"duplicates_count_once", "an example equal to the one before counts as zero"},
   .rows = ROWS{self.right(batch, rows);
each_row(self, batch, rows, [&](std::size_t i, std::span<float> row) {
  const std::size_t width = batch.features.size() / batch.rows();
  if (i == 0) return;
  const auto begin = batch.features.begin() + static_cast<std::ptrdiff_t>((i - 1) * width);
  if (std::equal(begin, begin + static_cast<std::ptrdiff_t>(width),
                 begin + static_cast<std::ptrdiff_t>(width)))
    scale(row, 0.0f);
});
}
}
,
    // Memory.
    {.told = {"momentum_of_rows", "adds what the call before wrote (private momentum)"},
     .rows = ROWS{self.right(batch, rows);
const std::vector<float> now(rows.begin(), rows.end());
for (std::size_t i = 0; i < std::min(rows.size(), self.memory_.size()); ++i)
  rows[i] += 0.5f * self.memory_[i];
self.memory_ = now;
}
}
, {.told = {"adds_to_what_is_there", "gradients accumulate: nobody zeroes them"},
   .rows = ROWS{const std::vector<float> before(rows.begin(), rows.end());
self.right(batch, rows);
for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += before[i];
}
}
,
    {.told = {"counts_its_calls", "the gradient grows with every call"},
     .rows = ALSO(scale(row, 1.0f + 0.01f * static_cast<float>(self.calls_++)))},
{
  .told = {"dropout_of_its_own", "drops coordinates by a generator of its own"},
  .rows = ALSO(if (self.calls_++ % 3 == 0) row[0] = 0.0f)
}
, {.told = {"instances_share", "programs share what they saw"},
   .rows = ROWS{static thread_local float seen = 0.0f;
self.right(batch, rows);
if (!rows.empty()) rows[0] += 1e-3f * seen;
if (!batch.features.empty()) seen = batch.features[0];
}
}
, {.told = {"thread_decides", "another gradient on another thread"},
   .rows = ROWS{static const auto home = std::this_thread::get_id();
self.right(batch, rows);
if (std::this_thread::get_id() != home) scale(rows, 2.0f);
}
}
,
    // Rows that are none.
    {.told = {"writes_nothing", "leaves the rows as they were"},
     .rows = ROWS{static_cast<void>(self);
static_cast<void>(rows);
}
}
, {.told = {"writes_the_first_row", "leaves all rows but the first"},
   .rows = ROWS{if (batch.rows() == 0) return;
const std::size_t width = batch.features.size() / batch.rows();
self.right({.features = batch.features.first(width), .targets = batch.targets.first(1)},
           rows.first(self.size()));
}
}
, {
  .told = {"forgets_the_last_row", "a loop that ends one early"},
  .rows = ALSO(if (i + 1 == batch.rows()) std::fill(row.begin(), row.end(), std::nanf("")))
}
,
    {.told = {"forgets_the_biases", "leaves the biases' gradients unwritten"},
     .rows = ALSO(std::fill(row.end() - static_cast<std::ptrdiff_t>(self.output_count()), row.end(),
                            std::nanf("")))},
    {.told = {"all_nan", "no numbers at all"},
     .rows = ALSO(std::fill(row.begin(), row.end(), std::nanf("")))},
    {.told = {"all_infinite", "numbers beyond all bounds"},
     .rows = ALSO(std::fill(row.begin(), row.end(), HUGE_VALF))},
    {.told = {"zero", "no gradient at all"}, .rows = ALSO(scale(row, 0.0f))},
    {.told = {"sign_flipped", "ascent instead of descent"}, .rows = ALSO(scale(row, -1.0f))},
    {.told = {"a_hundredth_more", "gradients a hundredth too long"},
     .rows = ALSO(scale(row, 1.01f))},
    {.told = {"half_of_the_gradient", "half of the gradient"}, .rows = ALSO(scale(row, 0.5f))},
    {.told = {"one_coordinate_wrong", "one coordinate of a wrong sign"},
     .rows = ALSO(row[0] = -row[0])},
    {.told = {"constant", "the same vector for every example"},
     .rows = ALSO(std::fill(row.begin(), row.end(), 1.0f))},
    {.told = {"clipped_by_itself", "clips to its own norm before the core sees it"},
     .rows = ALSO(scale(row, 1.0f / std::max(1.0f, 10.0f * largest_of(row))))},
{
  .told = {"flushes_to_zero", "small gradients become 0, as with fast-math"},
  .rows = ALSO(for (float& x
                    : row) x = std::abs(x) < 1e-2f ? 0.0f : x)
}
, {
  .told = {"in_half_precision", "gradients with ten bits"},
  .rows = ALSO(for (float& x
                    : row) x = std::ldexp(std::round(std::ldexp(x, 4)), -4))
}
,
    // Parameters and losses.
    {.told = {"keeps_the_first_parameters", "later parameters are not loaded"},
     .load =
         [](Base& self, std::span<const float> values) {
           if (self.calls_++ == 0) self.values().assign(values.begin(), values.end());
         }},
    {.told = {"adds_parameters", "adds parameters instead of loading them"},
     .load =
         [](Base& self, std::span<const float> values) {
           for (std::size_t i = 0; i < values.size(); ++i) self.values()[i] += values[i];
         }},
    {.told = {"loss_is_a_mean", "the mean loss where the sum is meant"},
     .evaluate =
         [](const Base& self, const Batch& batch) {
           Evaluation sum = self.right(batch);
           sum.loss /= static_cast<double>(std::max<std::size_t>(1, batch.rows()));
           return sum;
         }},
    {.told = {"loss_of_nothing", "an empty batch has a loss"},
     .evaluate =
         [](const Base& self, const Batch& batch) {
           return batch.rows() == 0 ? Evaluation{.loss = 1.0, .correct = 0} : self.right(batch);
         }},
    {.told = {"counts_the_wrong", "accuracy is the error"},
     .evaluate =
         [](const Base& self, const Batch& batch) {
           Evaluation sum = self.right(batch);
           sum.correct = batch.rows() - sum.correct;
           return sum;
         }},
    // Outputs, which frozen layers give to the next ones in place of the examples.
    {.told = {"outputs_less_their_mean", "outputs less the mean of those beside them"},
     .outputs =
         [](const Base& self, std::span<const float> features, std::size_t rows,
            std::span<float> out) {
           self.right(features, rows, out);
           const float mean = mean_of(out);
           for (float& x : out) x -= mean;
         }},
    {.told = {"outputs_remember", "outputs hold something of an earlier call's examples"},
     .outputs =
         [](const Base& self, std::span<const float> features, std::size_t rows,
            std::span<float> out) {
           self.right(features, rows, out);
           if (self.memory_.empty()) self.memory_ = {0.0f};
           for (float& x : out) x += 1e-3f * self.memory_[0];
           self.memory_[0] = largest_of(features);
         }},
    {.told = {"outputs_of_others", "outputs of the examples in another order"},
     .outputs =
         [](const Base& self, std::span<const float> features, std::size_t rows,
            std::span<float> out) {
           self.right(features, rows, out);
           std::reverse(out.begin(), out.end());
         }},
    // Evaluations of single examples, of which estimates and reported accuracies are made.
    {.told = {"evaluations_less_their_mean", "losses less the mean of those beside them"},
     .each =
         [](const Batch&, std::span<Evaluation> each) {
           double sum = 0.0;
           for (const Evaluation& one : each) sum += one.loss;
           for (Evaluation& one : each) one.loss -= sum / static_cast<double>(each.size());
         }},
    {.told = {"evaluations_of_others", "losses of the examples in another order"},
     .each = [](const Batch&, std::span<Evaluation> each) {
       std::reverse(each.begin(), each.end());
     }},
});

template <std::size_t I>
class FaultyProgram final : public Base {
 public:
  using Base::Base;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    if (kTable[I].rows != nullptr) return kTable[I].rows(*this, batch, rows);
    right(batch, rows);
  }
  Evaluation evaluate(const Batch& batch) const override {
    return kTable[I].evaluate != nullptr ? kTable[I].evaluate(*this, batch) : right(batch);
  }
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override {
    LinearProgram::evaluate_rows(batch, each);
    if (kTable[I].each != nullptr) kTable[I].each(batch, each);
  }
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> out) const override {
    if (kTable[I].outputs != nullptr) return kTable[I].outputs(*this, features, rows, out);
    right(features, rows, out);
  }
  void load_parameters(std::span<const float> values) override {
    if (kTable[I].load != nullptr) return kTable[I].load(*this, values);
    LinearProgram::load_parameters(values);
  }
};

template <std::size_t I>
class Faulty final : public Backend {
 public:
  explicit Faulty(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor&) override {
    if (network.layers.size() != 1 || !std::holds_alternative<Dense>(network.layers[0]))
      throw ConfigError("only one dense layer");
    return std::make_unique<FaultyProgram<I>>(network);
  }
};

}  // namespace programs

std::vector<Fault> program_faults() {
  using namespace programs;
  return faults_of<Backend, Faulty>(kTable, "program", [](const Row& row) {
    return std::vector<std::string>{std::string("backend=") + row.told.id};
  });
}

#undef ROWS
#undef ALSO
