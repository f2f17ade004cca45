// Transforms that let rows affect each other, or hide what they learnt.
#include <algorithm>
#include <cmath>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"
#include "spans.hpp"

using namespace privgrad;

namespace transforms {

class Base : public Transform {
 public:
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  std::vector<float> fitted_ = std::vector<float>(1024);  // apply() may be called without fit()
  mutable float before_ = 0.0f, largest_ = 0.0f;
  mutable std::uint64_t calls_ = 0;
};

/// All features of a split, [rows, width], which a fault changes.
struct Features {
  const Base& self;
  Dataset& data;
  std::vector<float>& numbers;
  std::size_t width;

  std::span<float> row(std::size_t i) const { return std::span(numbers).subspan(i * width, width); }
  std::vector<float> targets() const { return {data.targets().begin(), data.targets().end()}; }
  void subtract(float what) const {
    for (float& x : numbers) x -= what;
  }
  void subtract_row(const std::vector<float>& what) const {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] -= what[i % width];
  }
  void divide(float by) const {
    for (float& x : numbers) x /= by;
  }
};
using Given = std::span<const float>;
using Written = std::span<float>;

struct Row {
  Told told;
  void (*apply)(const Features&) = nullptr;
  void (*fit)(Base&, Dataset&) = nullptr;
  /// One row by itself.
  void (*one)(const Base&, Given, Written) = nullptr;
  /// Several rows at once.
  void (*together)(std::size_t rows, Given, Written) = nullptr;
  Statistic statistic = Statistic::none;
  ExampleShape (*shape)(const ExampleShape&) = nullptr;
};

void fit_mean(Base& self, Dataset& train) { self.fitted_ = {mean_of(train.features())}; }
std::vector<float> twice(std::vector<float> values) {
  const std::vector<float> copy = values;
  values.insert(values.end(), copy.begin(), copy.end());
  return values;
}

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"},
     .one = [](const Base&, Given in,
               Written out) { std::copy(in.begin(), in.end(), out.begin()); }},
    // Undeclared learning.
    {.told = {"mean_in_secret", "subtracts the training mean and says that it learned nothing"},
     .apply = [](const Features& all) { all.subtract(all.self.fitted_[0]); },
     .fit = fit_mean},
    {.told = {"mean_called_public", "a statistic of private rows that is called public"},
     .apply = [](const Features& all) { all.subtract(all.self.fitted_[0]); },
     .fit = fit_mean,
     .statistic = Statistic::is_public},
    {.told = {"scale_in_secret", "divides by the largest training feature in secret"},
     .apply = [](const Features& all) { all.divide(std::max(1.0f, all.self.fitted_[0])); },
     .fit = [](Base& self, Dataset& train) { self.fitted_ = {largest_of(train.features())}; }},
    {.told = {"count_in_secret", "divides by the number of training rows"},
     .apply = [](const Features& all) { all.divide(all.self.fitted_[0]); },
     .fit = [](Base& self, Dataset& train) { self.fitted_ = {static_cast<float>(train.rows())}; }},
    {.told = {"first_row_in_secret", "subtracts the first training row"},
     .apply = [](const Features& all) { all.subtract_row(all.self.fitted_); },
     .fit =
         [](Base& self, Dataset& train) {
           const auto row = train.features().first(train.row_size());
           self.fitted_.assign(row.begin(), row.end());
         }},
    {.told = {"last_row_in_secret", "subtracts the last training row"},
     .apply = [](const Features& all) { all.subtract_row(all.self.fitted_); },
     .fit =
         [](Base& self, Dataset& train) {
           const auto row = train.features().last(train.row_size());
           self.fitted_.assign(row.begin(), row.end());
         }},
    {.told = {"mean_of_targets", "subtracts the mean of the targets"},
     .apply = [](const Features& all) { all.subtract(all.self.fitted_[0]); },
     .fit = [](Base& self, Dataset& train) { self.fitted_ = {mean_of(train.targets())}; }},
    {.told = {"by_row_with_a_secret_mean", "says that rows are its own, and subtracts the mean"},
     .fit = fit_mean,
     .one =
         [](const Base& self, Given in, Written out) {
           for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] - self.fitted_[0];
         }},
    {.told = {"mean_declared", "a fitted mean that is declared: listed, and refused for release"},
     .apply = [](const Features& all) { all.subtract(all.self.fitted_[0]); },
     .fit = fit_mean,
     .statistic = Statistic::unaccounted},
    // Rows that affect each other while they are transformed.
    {.told = {"own_mean_per_split", "each split less its own mean"},
     .apply = [](const Features& all) { all.subtract(mean_of(all.numbers)); }},
    {.told = {"own_scale_per_split", "each split divided by its own largest feature"},
     .apply = [](const Features& all) { all.divide(std::max(1.0f, largest_of(all.numbers))); }},
    {.told = {"neighbour_averages", "each row is averaged with the one before (smoothing)"},
     .apply =
         [](const Features& all) {
           for (std::size_t i = all.numbers.size(); i-- > all.width;)
             all.numbers[i] = 0.5f * (all.numbers[i] + all.numbers[i - all.width]);
         }},
    {.told = {"running_sums", "rows by row, and still a sum of those before"},
     .one =
         [](const Base& self, Given in, Written out) {
           std::copy(in.begin(), in.end(), out.begin());
           out[0] += 1e-3f * self.before_;
           self.before_ = in[0];
         }},
    {.told = {"running_scale", "divides by the largest number so far"},
     .one =
         [](const Base& self, Given in, Written out) {
           self.largest_ = std::max(self.largest_, largest_of(in));
           for (std::size_t i = 0; i < in.size(); ++i)
             out[i] = in[i] / std::max(1.0f, self.largest_);
         }},
    {.told = {"caught_by_an_outlier", "a huge row changes all that follow"},
     .one =
         [](const Base& self, Given in, Written out) {
           std::copy(in.begin(), in.end(), out.begin());
           if (largest_of(in) > 1e30f) self.before_ = 1.0f;
           out[0] += self.before_;
         }},
    {.told = {"mixup", "rows are mixed with others (mixup)"},
     .apply =
         [](const Features& all) {
           for (std::size_t i = 0; i < all.numbers.size(); ++i)
             all.numbers[i] =
                 0.9f * all.numbers[i] + 0.1f * all.numbers[all.numbers.size() - 1 - i];
         }},
    {.told = {"ranks", "features become ranks among all rows (quantile transform)"},
     .apply =
         [](const Features& all) {
           std::vector<float> sorted = all.numbers;
           std::sort(sorted.begin(), sorted.end());
           for (float& x : all.numbers)
             x = static_cast<float>(std::lower_bound(sorted.begin(), sorted.end(), x) -
                                    sorted.begin());
         }},
    {.told = {"duplicates_become_zero", "rows equal to the first one become 0"},
     .apply =
         [](const Features& all) {
           for (std::size_t i = 1; i * all.width < all.numbers.size(); ++i) {
             const auto first = all.row(0), other = all.row(i);
             if (std::equal(first.begin(), first.end(), other.begin()))
               std::fill(other.begin(), other.end(), 0.0f);
           }
         }},
    {.told = {"place_decides", "a row's number is added to it"},
     .apply =
         [](const Features& all) {
           for (std::size_t i = 0; i < all.numbers.size(); ++i)
             all.numbers[i] += 0.01f * static_cast<float>(i / all.width);
         }},
    {.told = {"counts_calls", "another result for every call"},
     .apply = [](const Features& all) { all.subtract(-static_cast<float>(all.self.calls_++)); }},
    {.told = {"noise_of_its_own", "noise from a generator of its own (augmentation)"},
     .apply =
         [](const Features& all) {
           static thread_local std::uint32_t state = 7;
           for (float& x : all.numbers) {
             state = state * 1664525u + 1013904223u;
             x += static_cast<float>(state) * 0x1p-32f;
           }
         }},
    // Changes of things that must stay the same.
    {.told = {"drops_a_row", "drops the last row"},
     .apply =
         [](const Features& all) {
           std::vector<float> targets = all.targets();
           targets.pop_back();
           all.numbers.resize(all.numbers.size() - all.width);
           all.data = Dataset(all.data.shape(), all.numbers, targets);
         }},
    {.told = {"doubles_rows", "two rows of each (augmentation without accounting)"},
     .apply =
         [](const Features& all) {
           all.data = Dataset(all.data.shape(), twice(all.numbers), twice(all.targets()));
         }},
    {.told = {"reverses_rows", "another order"},
     .apply =
         [](const Features& all) {
           const std::vector<float> copy = all.numbers;
           for (std::size_t i = 0; i < copy.size(); ++i)
             all.numbers[i] =
                 copy[copy.size() - all.width - (i / all.width) * all.width + i % all.width];
         }},
    {.told = {"changes_targets", "targets become 0"},
     .apply =
         [](const Features& all) {
           all.data =
               Dataset(all.data.shape(), all.numbers, std::vector<float>(all.data.rows(), 0.0f));
         }},
    {.told = {"changes_in_fit", "changes the rows while it is fitted"},
     .apply = [](const Features&) {},
     .fit =
         [](Base& self, Dataset& train) {
           std::vector<float> features(train.features().begin(), train.features().end());
           for (float& x : features) x *= 2.0f;
           train.replace_features(train.shape().features, features);
           self.fitted_ = {1.0f};
         }},
    {.told = {"tells_another_shape", "says another shape than it makes"},
     .apply = [](const Features&) {},
     .shape = [](const ExampleShape& input) -> ExampleShape {
       return {{element_count(input.features), 1, 1}, input.classes};
     }},
    {.told = {"tells_more_classes", "says that there are more classes"},
     .apply = [](const Features&) {},
     .shape = [](const ExampleShape& input) -> ExampleShape {
       return {input.features, input.classes + 1};
     }},
    {.told = {"fails_on_huge_rows", "whether a run fails tells of a row"},
     .apply =
         [](const Features& all) {
           if (largest_of(all.numbers) > 1e20f) throw ConfigError("features must be below 1e20");
         }},
    {.told = {"makes_nan", "makes NaN"},
     .apply =
         [](const Features& all) {
           std::fill(all.numbers.begin(), all.numbers.end(), std::nanf(""));
         }},
    {.told = {"by_row_nan", "makes NaN, row by row"},
     .one = [](const Base&, Given,
               Written out) { std::fill(out.begin(), out.end(), std::nanf("")); }},
    {.told = {"by_row_writes_nothing", "leaves the row unwritten", Let::harmless,
              "what is not written is 0"},
     .one = [](const Base&, Given, Written) {}},
    {.told = {"by_row_beside", "writes beside its row"},
     .one =
         [](const Base& self, Given in, Written out) {
           std::copy(in.begin(), in.end(), out.begin());
           out[0] = in[0] + 1e-3f * static_cast<float>(++self.calls_ % 7);
         }},
    {.told = {"at_once_with_the_next_row", "given rows at once, a row takes a bit of the next one"},
     .one = [](const Base&, Given in,
               Written out) { std::copy(in.begin(), in.end(), out.begin()); },
     .together =
         [](std::size_t rows, Given in, Written out) {
           std::copy(in.begin(), in.end(), out.begin());
           for (std::size_t at = in.size() / rows, next = at; next < in.size(); next += at)
             out[next - at] += 1e-6f * in[next];
         }},
});

template <std::size_t I>
class Whole : public Base {
 public:
  ExampleShape output_shape(const ExampleShape& input) const override {
    return kTable[I].shape != nullptr ? kTable[I].shape(input) : input;
  }
  void fit(Dataset& train) override {
    if (kTable[I].fit != nullptr) kTable[I].fit(*this, train);
  }
  void apply(Dataset& data) const override {
    const std::size_t rows = data.rows();
    std::vector<float> features(data.features().begin(), data.features().end());
    if (kTable[I].apply == nullptr) return;
    kTable[I].apply({*this, data, features, data.row_size()});
    if (data.rows() == rows && features.size() == rows * data.row_size())
      data.replace_features(data.shape().features, features);
  }
  Statistic statistic() const override { return kTable[I].statistic; }
};
template <std::size_t I>
class ByRow : public Whole<I> {
 public:
  bool is_by_row() const override { return true; }
  void apply(Dataset& data) const override { Transform::apply(data); }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    if (kTable[I].one != nullptr) kTable[I].one(*this, features, out);
  }
};

template <std::size_t I>
class AtOnce : public ByRow<I> {
 public:
  void apply_rows(const Shape&, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    if (kTable[I].together != nullptr) kTable[I].together(rows, features, out);
  }
};

// `I` is the row of the table, a constant at compile time.
template <std::size_t I>
class FaultyWhole final : public Whole<I> {
 public:
  explicit FaultyWhole(const Params&) {}
};
template <std::size_t I>
class FaultyRow final : public ByRow<I> {
 public:
  explicit FaultyRow(const Params&) {}
};
template <std::size_t I>
class FaultyRows final : public AtOnce<I> {
 public:
  explicit FaultyRows(const Params&) {}
};

}  // namespace transforms

std::vector<Fault> transform_faults() {
  using namespace transforms;
  const auto place = [](const Row& row) {
    return std::vector<std::string>{std::string("data.transforms=[") + row.told.id + "]"};
  };
  std::vector<Fault> whole = faults_of<Transform, FaultyWhole>(kTable, "transform", place);
  const std::vector<Fault> by_row = faults_of<Transform, FaultyRow>(kTable, "transform", place);
  const std::vector<Fault> at_once = faults_of<Transform, FaultyRows>(kTable, "transform", place);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (kTable[i].one != nullptr) whole[i] = by_row[i];
    if (kTable[i].together != nullptr) whole[i] = at_once[i];
  }
  return whole;
}
