// Programs whose rows depend on several examples, or are not gradients.
#include <algorithm>
#include <cmath>
#include <thread>

#include "fault.hpp"
#include "linear_program.hpp"
#include "privgrad/error.hpp"
#include "spans.hpp"

using namespace privgrad;

namespace programs {

class Base : public LinearProgram, public ReproducibleRows {
 public:
  using LinearProgram::LinearProgram;
  std::size_t size() const { return parameters_.size(); }
  void right(const Batch& batch, std::span<float> rows) const {
    LinearProgram::gradient_rows(batch, rows);
  }
  std::size_t output_count() const { return outputs_; }
  std::vector<float>& values() { return parameters_; }
  mutable std::uint64_t calls_ = 0;
  mutable std::vector<float> memory_;
};

/// The gradients to write.
struct AllRows {
  const Base& self;
  const Batch& batch;
  std::span<float> rows;

  void right() const { self.right(batch, rows); }
  std::span<float> row(std::size_t i) const { return rows.subspan(i * self.size(), self.size()); }
};
/// A correct gradient of example i of the batch, which a fault changes.
struct OneRow {
  const Base& self;
  const Batch& batch;
  std::size_t i;
  std::span<float> row;

  void scale(float factor) const {
    for (float& x : row) x *= factor;
  }
  void fill(float value) const { std::fill(row.begin(), row.end(), value); }
  std::span<const float> features_of(std::size_t example) const {
    const std::size_t width = batch.features.size() / batch.rows();
    return batch.features.subspan(example * width, width);
  }
};

struct Row {
  Told told;
  void (*rows)(const AllRows&) = nullptr;
  void (*change)(const OneRow&) = nullptr;
  void (*load)(Base&, std::span<const float>) = nullptr;
  /// Changes the correct result.
  void (*evaluate)(const Batch&, Evaluation& sum) = nullptr;
  void (*outputs)(const Base&, std::span<const float> features, std::span<float> out) = nullptr;
  /// Changes the correct results of evaluate_rows(), which evaluates each example separately.
  void (*each)(const Batch&, std::span<Evaluation>) = nullptr;
};

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    // Examples that affect each other.
    {.told = {"batch_normalisation", "features less the batch's mean (batch normalisation)"},
     .change =
         [](const OneRow& one) {
           const float mean = mean_of(one.batch.features);
           for (float& x : one.row) x -= 0.1f * mean;
         }},
    {.told = {"batch_variance", "divides by the batch's largest feature"},
     .change =
         [](const OneRow& one) {
           one.scale(1.0f / std::max(1.0f, largest_of(one.batch.features)));
         }},
    {.told = {"contrastive", "the loss compares an example with the next one"},
     .change =
         [](const OneRow& one) {
           one.row[0] += 1e-3f * one.features_of((one.i + 1) % one.batch.rows())[0];
         }},
    {.told = {"mean_instead_of_rows", "every row is the batch's mean: clip after mean"},
     .rows =
         [](const AllRows& all) {
           all.right();
           std::vector<float> mean(all.self.size(), 0.0f);
           for (std::size_t k = 0; k < all.rows.size(); ++k)
             mean[k % mean.size()] += all.rows[k] / static_cast<float>(all.batch.rows());
           for (std::size_t k = 0; k < all.rows.size(); ++k) all.rows[k] = mean[k % mean.size()];
         }},
    {.told = {"divided_by_the_batch", "gradients of the mean loss: divided by the batch's size"},
     .change = [](const OneRow& one) { one.scale(1.0f / static_cast<float>(one.batch.rows())); }},
    {.told = {"sums_in_the_first_row", "the whole sum in the first row, nothing in the others"},
     .rows =
         [](const AllRows& all) {
           all.right();
           for (std::size_t k = all.self.size(); k < all.rows.size(); ++k) {
             all.rows[k % all.self.size()] += all.rows[k];
             all.rows[k] = 0.0f;
           }
         }},
    {.told = {"microbatches_of_two", "two examples share a row (microbatches)"},
     .rows =
         [](const AllRows& all) {
           all.right();
           for (std::size_t i = 1; i < all.batch.rows(); i += 2) {
             const auto first = all.row(i - 1), second = all.row(i);
             for (std::size_t j = 0; j < first.size(); ++j)
               first[j] = second[j] = (first[j] + second[j]) / 2.0f;
           }
         }},
    {.told = {"rows_are_shifted", "the row of the example before"},
     .rows =
         [](const AllRows& all) {
           all.right();
           if (all.batch.rows() < 2) return;
           const auto size = static_cast<std::ptrdiff_t>(all.self.size());
           std::rotate(all.rows.begin(), all.rows.end() - size, all.rows.end());
         }},
    {.told = {"labels_are_shifted", "the features of one example with the label of another"},
     .rows =
         [](const AllRows& all) {
           std::vector<float> targets(all.batch.targets.begin(), all.batch.targets.end());
           if (!targets.empty()) std::rotate(targets.begin(), targets.begin() + 1, targets.end());
           all.self.right({.features = all.batch.features, .targets = targets}, all.rows);
         }},
    {.told = {"counts_its_neighbours", "a row tells how many others there are"},
     .change =
         [](const OneRow& one) { one.row[0] += 1e-3f * static_cast<float>(one.batch.rows()); }},
    {.told = {"place_decides", "the row depends on its place"},
     .change = [](const OneRow& one) { one.row[0] += 1e-3f * static_cast<float>(one.i); }},
    {.told = {"rounds_by_place", "other roundings in fours of rows, as vectorised loops have them"},
     .change =
         [](const OneRow& one) {
           if (one.i % 4 == 3) one.row[0] = std::nextafter(one.row[0], 1e30f);
         }},
    {.told = {"large_batches_only", "mixes examples where there are more than fifty"},
     .change =
         [](const OneRow& one) {
           if (one.batch.rows() > 50) one.row[0] += 1e-2f * mean_of(one.batch.features);
         }},
    {.told = {"an_extreme_row_spoils_all", "one infinite example makes all rows 0"},
     .change =
         [](const OneRow& one) {
           if (largest_of(one.batch.features) > 1e20f) one.scale(0.0f);
         }},
    {.told = {"an_extreme_row_throws", "whether a run fails tells of an example"},
     .rows =
         [](const AllRows& all) {
           all.right();
           if (largest_of(all.batch.features) > 1e20f) throw NumericError("overflow");
         }},
    {.told = {"duplicates_count_once", "an example equal to the one before counts as zero"},
     .change =
         [](const OneRow& one) {
           if (one.i == 0) return;
           const auto before = one.features_of(one.i - 1), own = one.features_of(one.i);
           if (std::equal(before.begin(), before.end(), own.begin())) one.scale(0.0f);
         }},
    // Memory.
    {.told = {"momentum_of_rows", "adds what the call before wrote (private momentum)"},
     .rows =
         [](const AllRows& all) {
           all.right();
           const std::vector<float> now(all.rows.begin(), all.rows.end());
           std::vector<float>& memory = all.self.memory_;
           for (std::size_t k = 0; k < std::min(now.size(), memory.size()); ++k)
             all.rows[k] += 0.5f * memory[k];
           memory = now;
         }},
    {.told = {"adds_to_what_is_there", "gradients accumulate: nobody zeroes them"},
     .rows =
         [](const AllRows& all) {
           const std::vector<float> before(all.rows.begin(), all.rows.end());
           all.right();
           for (std::size_t k = 0; k < before.size(); ++k) all.rows[k] += before[k];
         }},
    {.told = {"counts_its_calls", "the gradient grows with every call"},
     .change =
         [](const OneRow& one) {
           one.scale(1.0f + 0.01f * static_cast<float>(one.self.calls_++));
         }},
    {.told = {"dropout_of_its_own", "drops coordinates by a generator of its own"},
     .change =
         [](const OneRow& one) {
           if (one.self.calls_++ % 3 == 0) one.row[0] = 0.0f;
         }},
    {.told = {"instances_share", "programs share what they saw"},
     .rows =
         [](const AllRows& all) {
           static thread_local float seen = 0.0f;
           all.right();
           if (!all.rows.empty()) all.rows[0] += 1e-3f * seen;
           if (!all.batch.features.empty()) seen = all.batch.features[0];
         }},
    {.told = {"thread_decides", "another gradient on another thread"},
     .rows =
         [](const AllRows& all) {
           all.right();
           if (std::this_thread::get_id() == kHome) return;
           for (float& x : all.rows) x *= 2.0f;
         }},
    // Rows that are not gradients.
    {.told = {"writes_nothing", "leaves the rows as they were"}, .rows = [](const AllRows&) {}},
    {.told = {"writes_the_first_row", "leaves all rows but the first"},
     .rows =
         [](const AllRows& all) {
           if (all.batch.rows() == 0) return;
           const std::size_t width = all.batch.features.size() / all.batch.rows();
           const Batch first{.features = all.batch.features.first(width),
                             .targets = all.batch.targets.first(1)};
           all.self.right(first, all.row(0));
         }},
    {.told = {"forgets_the_last_row", "a loop that ends one early"},
     .change =
         [](const OneRow& one) {
           if (one.i + 1 == one.batch.rows()) one.fill(std::nanf(""));
         }},
    {.told = {"forgets_the_biases", "leaves the biases' gradients unwritten"},
     .change =
         [](const OneRow& one) {
           for (float& x : one.row.last(one.self.output_count())) x = std::nanf("");
         }},
    {.told = {"all_nan", "no numbers at all"},
     .change = [](const OneRow& one) { one.fill(std::nanf("")); }},
    {.told = {"all_infinite", "numbers beyond all bounds"},
     .change = [](const OneRow& one) { one.fill(HUGE_VALF); }},
    {.told = {"zero", "no gradient at all"}, .change = [](const OneRow& one) { one.scale(0.0f); }},
    {.told = {"sign_flipped", "ascent instead of descent"},
     .change = [](const OneRow& one) { one.scale(-1.0f); }},
    {.told = {"a_hundredth_more", "gradients a hundredth too long"},
     .change = [](const OneRow& one) { one.scale(1.01f); }},
    {.told = {"half_of_the_gradient", "half of the gradient"},
     .change = [](const OneRow& one) { one.scale(0.5f); }},
    {.told = {"one_coordinate_wrong", "one coordinate of a wrong sign"},
     .change = [](const OneRow& one) { one.row[0] = -one.row[0]; }},
    {.told = {"constant", "the same vector for every example"},
     .change = [](const OneRow& one) { one.fill(1.0f); }},
    {.told = {"clipped_by_itself", "clips to its own norm before the core sees it"},
     .change =
         [](const OneRow& one) { one.scale(1.0f / std::max(1.0f, 10.0f * largest_of(one.row))); }},
    {.told = {"flushes_to_zero", "small gradients become 0, as with fast-math"},
     .change =
         [](const OneRow& one) {
           for (float& x : one.row) x = std::abs(x) < 1e-2f ? 0.0f : x;
         }},
    {.told = {"in_half_precision", "gradients with ten bits"},
     .change =
         [](const OneRow& one) {
           for (float& x : one.row) x = std::ldexp(std::round(std::ldexp(x, 4)), -4);
         }},
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
         [](const Batch& batch, Evaluation& sum) {
           sum.loss /= static_cast<double>(std::max<std::size_t>(1, batch.rows()));
         }},
    {.told = {"loss_of_nothing", "an empty batch has a loss"},
     .evaluate =
         [](const Batch& batch, Evaluation& sum) {
           if (batch.rows() == 0) sum.loss = 1.0;
         }},
    {.told = {"counts_the_wrong", "accuracy is the error"},
     .evaluate = [](const Batch& batch,
                    Evaluation& sum) { sum.correct = batch.rows() - sum.correct; }},
    // Outputs, which frozen layers pass on instead of the examples.
    {.told = {"outputs_less_their_mean", "outputs less the mean of those beside them"},
     .outputs =
         [](const Base&, std::span<const float>, std::span<float> out) {
           const float mean = mean_of(out);
           for (float& x : out) x -= mean;
         }},
    {.told = {"outputs_remember", "outputs hold something of an earlier call's examples"},
     .outputs =
         [](const Base& self, std::span<const float> features, std::span<float> out) {
           if (self.memory_.empty()) self.memory_ = {0.0f};
           for (float& x : out) x += 1e-3f * self.memory_[0];
           self.memory_[0] = largest_of(features);
         }},
    {.told = {"outputs_of_others", "outputs of the examples in another order"},
     .outputs = [](const Base&, std::span<const float>,
                   std::span<float> out) { std::reverse(out.begin(), out.end()); }},
    // Evaluations of single examples, from which estimates and reported accuracies are computed.
    {.told = {"evaluations_less_their_mean", "losses less the mean of those beside them"},
     .each =
         [](const Batch&, std::span<Evaluation> each) {
           double sum = 0.0;
           for (const Evaluation& one : each) sum += one.loss;
           for (Evaluation& one : each) one.loss -= sum / static_cast<double>(each.size());
         }},
    {.told = {"evaluations_of_others", "losses of the examples in another order"},
     .each = [](const Batch&,
                std::span<Evaluation> each) { std::reverse(each.begin(), each.end()); }},
});

template <std::size_t I>
class FaultyProgram final : public Base {
 public:
  using Base::Base;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    const AllRows all{*this, batch, rows};
    if (kTable[I].rows != nullptr) return kTable[I].rows(all);
    right(batch, rows);
    for (std::size_t i = 0; kTable[I].change != nullptr && i < batch.rows(); ++i)
      kTable[I].change({*this, batch, i, all.row(i)});
  }
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation sum = LinearProgram::evaluate(batch);
    if (kTable[I].evaluate != nullptr) kTable[I].evaluate(batch, sum);
    return sum;
  }
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override {
    LinearProgram::evaluate_rows(batch, each);
    if (kTable[I].each != nullptr) kTable[I].each(batch, each);
  }
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> out) const override {
    LinearProgram::outputs(features, rows, out);
    if (kTable[I].outputs != nullptr) kTable[I].outputs(*this, features, out);
  }
  void load_parameters(std::span<const float> values) override {
    if (kTable[I].load != nullptr) return kTable[I].load(*this, values);
    LinearProgram::load_parameters(values);
  }
};

template <std::size_t I>
using Faulty = OneLayerBackend<FaultyProgram<I>>;

}  // namespace programs

std::vector<Fault> program_faults() {
  using namespace programs;
  return faults_of<Backend, Faulty>(kTable, "program", [](const Row& row) {
    return std::vector<std::string>{std::string("backend=") + row.told.id};
  });
}
