// Transforms that let rows see each other, or hide what they learned.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"

using namespace privgrad;

namespace transforms {

class Base : public Transform {
 public:
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  std::vector<float> fitted_ = std::vector<float>(1024);  // apply() may come without fit()
  mutable float before_ = 0.0f, largest_ = 0.0f;
  mutable std::uint64_t calls_ = 0;
};

struct Row {
  Told told;
  /// Changes all features, [rows, width].
  void (*apply)(const Base&, Dataset&, std::vector<float>& features, std::size_t width) = nullptr;
  void (*fit)(Base&, Dataset&) = nullptr;
  void (*one)(const Base&, std::span<const float>, std::span<float>) = nullptr;
  Statistic statistic = Statistic::none;
  ExampleShape (*shape)(const ExampleShape&) = nullptr;
};

#define APPLY                                                           \
  []([[maybe_unused]] const Base& self, [[maybe_unused]] Dataset& data, \
     [[maybe_unused]] std::vector<float>& features, [[maybe_unused]] std::size_t width)
#define ONE                                                                         \
  []([[maybe_unused]] const Base& self, [[maybe_unused]] std::span<const float> in, \
     [[maybe_unused]] std::span<float> out)
#define FIT [](Base & self, Dataset & train)

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
void fit_mean(Base& self, Dataset& train) { self.fitted_ = {mean_of(train.features())}; }

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}, .one = ONE { std::copy(in.begin(), in.end(), out.begin());
}  // namespace transforms
}
,
    // What is learned and not told.
    {.told = {"mean_in_secret", "subtracts the training mean and says that it learned nothing"},
     .apply = APPLY{for (float& x
                         : features) x -= self.fitted_[0];
}
, .fit = fit_mean
}
, {.told = {"mean_called_public", "a statistic of private rows that is called public"},
   .apply = APPLY{for (float& x
                       : features) x -= self.fitted_[0];
}
, .fit = fit_mean, .statistic = Statistic::is_public
}
, {.told = {"scale_in_secret", "divides by the largest training feature in secret"},
   .apply = APPLY{for (float& x
                       : features) x /= std::max(1.0f, self.fitted_[0]);
}
, .fit = FIT { self.fitted_ = {largest_of(train.features())}; }
}
, {.told = {"count_in_secret", "divides by the number of training rows"},
   .apply = APPLY{for (float& x
                       : features) x /= self.fitted_[0];
}
, .fit = FIT { self.fitted_ = {static_cast<float>(train.rows())}; }
}
, {.told = {"first_row_in_secret", "subtracts the first training row"},
   .apply = APPLY{for (std::size_t i = 0; i < features.size(); ++i) features[i] -=
                  self.fitted_[i % width];
}
, .fit = FIT {
  const auto first = train.features().first(train.row_size());
  self.fitted_.assign(first.begin(), first.end());
}
}
, {.told = {"last_row_in_secret", "subtracts the last training row"},
   .apply = APPLY{for (std::size_t i = 0; i < features.size(); ++i) features[i] -=
                  self.fitted_[i % width];
}
, .fit = FIT {
  const auto last = train.features().last(train.row_size());
  self.fitted_.assign(last.begin(), last.end());
}
}
, {.told = {"mean_of_targets", "subtracts the mean of the targets"},
   .apply = APPLY{for (float& x
                       : features) x -= self.fitted_[0];
}
, .fit = FIT { self.fitted_ = {mean_of(train.targets())}; }
}
, {.told = {"by_row_with_a_secret_mean", "says that rows are its own, and subtracts the mean"},
   .fit = fit_mean,
   .one = ONE{for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] - self.fitted_[0];
}
}
, {.told = {"mean_declared", "a fitted mean that is declared: listed, and refused for release"},
   .apply = APPLY{for (float& x
                       : features) x -= self.fitted_[0];
}
, .fit = fit_mean, .statistic = Statistic::unaccounted
}
,
    // Rows that see each other while they are changed.
    {.told = {"own_mean_per_split", "each split less its own mean"},
     .apply = APPLY{const float mean = mean_of(features);
for (float& x : features) x -= mean;
}
}
, {.told = {"own_scale_per_split", "each split divided by its own largest feature"},
   .apply = APPLY{const float largest = std::max(1.0f, largest_of(features));
for (float& x : features) x /= largest;
}
}
, {.told = {"neighbour_averages", "each row is averaged with the one before (smoothing)"},
   .apply = APPLY{for (std::size_t i = features.size(); i-- > width;) features[i] =
                      0.5f * (features[i] + features[i - width]);
}
}
, {.told = {"running_sums", "rows by row, and still a sum of those before"},
   .one = ONE{std::copy(in.begin(), in.end(), out.begin());
out[0] += 1e-3f * self.before_;
self.before_ = in[0];
}
}
, {.told = {"running_scale", "divides by the largest number so far"},
   .one = ONE{self.largest_ = std::max(self.largest_, largest_of(in));
for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] / std::max(1.0f, self.largest_);
}
}
, {.told = {"caught_by_an_outlier", "a huge row changes all that follow"},
   .one = ONE{std::copy(in.begin(), in.end(), out.begin());
if (largest_of(in) > 1e30f) self.before_ = 1.0f;
out[0] += self.before_;
}
}
, {.told = {"mixup", "rows are mixed with others (mixup)"},
   .apply = APPLY{for (std::size_t i = 0; i < features.size(); ++i) features[i] =
                      0.9f * features[i] + 0.1f * features[features.size() - 1 - i];
}
}
, {.told = {"ranks", "features become ranks among all rows (quantile transform)"},
   .apply = APPLY{std::vector<float> sorted = features;
std::sort(sorted.begin(), sorted.end());
for (float& x : features)
  x = static_cast<float>(std::lower_bound(sorted.begin(), sorted.end(), x) - sorted.begin());
}
}
, {.told = {"duplicates_become_zero", "rows equal to the first one become 0"},
   .apply = APPLY{for (std::size_t i = width; i < features.size(); i += width){
       if (std::equal(features.begin(), features.begin() + static_cast<std::ptrdiff_t>(width),
                      features.begin() + static_cast<std::ptrdiff_t>(i)))
           std::fill_n(features.begin() + static_cast<std::ptrdiff_t>(i), width, 0.0f);
}
}
}
, {.told = {"place_decides", "a row's number is added to it"},
   .apply = APPLY{for (std::size_t i = 0; i < features.size(); ++i) features[i] +=
                  0.01f * static_cast<float>(i / width);
}
}
, {.told = {"counts_calls", "another result for every call"},
   .apply = APPLY{for (float& x
                       : features) x += static_cast<float>(self.calls_);
++self.calls_;
}
}
, {.told = {"noise_of_its_own", "noise from a generator of its own (augmentation)"},
   .apply = APPLY{static thread_local std::uint32_t state = 7;
for (float& x : features) {
  state = state * 1664525u + 1013904223u;
  x += static_cast<float>(state) * 0x1p-32f;
}
}
}
,
    // What must stay.
    {.told = {"drops_a_row", "drops the last row"},
     .apply =
         APPLY{const std::vector<float> targets(data.targets().begin(), data.targets().end() - 1);
features.resize(features.size() - width);
data = Dataset(data.shape(), features, targets);
}
}
, {.told = {"doubles_rows", "two rows of each (augmentation without accounting)"},
   .apply = APPLY{std::vector<float> targets(data.targets().begin(), data.targets().end());
targets.insert(targets.end(), data.targets().begin(), data.targets().end());
const std::vector<float> copy = features;
features.insert(features.end(), copy.begin(), copy.end());
data = Dataset(data.shape(), features, targets);
}
}
, {.told = {"reverses_rows", "another order"},
   .apply = APPLY{const std::vector<float> copy = features;
for (std::size_t i = 0; i < features.size(); ++i)
  features[i] = copy[copy.size() - width - (i / width) * width + i % width];
}
}
, {.told = {"changes_targets", "targets become 0"},
   .apply = APPLY{data = Dataset(data.shape(), features, std::vector<float>(data.rows(), 0.0f));
}
}
, {.told = {"changes_in_fit", "changes the rows while it is fitted"},
   .apply = APPLY{static_cast<void>(self);
}
, .fit = FIT {
  std::vector<float> features(train.features().begin(), train.features().end());
  for (float& x : features) x *= 2.0f;
  train.replace_features(train.shape().features, features);
  self.fitted_ = {1.0f};
}
}
, {.told = {"tells_another_shape", "says another shape than it makes"},
   .apply = APPLY{static_cast<void>(self);
}
, .shape = [](const ExampleShape& input) -> ExampleShape {
  return {{element_count(input.features), 1, 1}, input.classes};
}
}
, {.told = {"tells_more_classes", "says that there are more classes"},
   .apply = APPLY{static_cast<void>(self);
}
, .shape = [](const ExampleShape& input) -> ExampleShape {
  return {input.features, input.classes + 1};
}
}
, {.told = {"fails_on_huge_rows", "whether a run fails tells of a row"},
   .apply =
       APPLY{if (largest_of(features) > 1e20f) throw ConfigError("features must be below 1e20");
}
}
, {.told = {"makes_nan", "makes what is no number"},
   .apply = APPLY{for (float& x
                       : features) x = std::nanf("");
}
}
, {.told = {"by_row_nan", "makes what is no number, row by row"},
   .one = ONE{std::fill(out.begin(), out.end(), std::nanf(""));
}
}
, {.told = {"by_row_writes_nothing", "leaves the row unwritten", Let::harmless,
            "what is not written is 0"},
   .one = ONE{static_cast<void>(self);
}
}
, {.told = {"by_row_beside", "writes beside its row"},
   .one = ONE{std::copy(in.begin(), in.end(), out.begin());
out[0] = in[0] + 1e-3f * static_cast<float>(++self.calls_ % 7);
}
}
,
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
    kTable[I].apply(*this, data, features, data.row_size());
    if (data.rows() == rows && features.size() == rows * data.row_size())
      data.replace_features(data.shape().features, features);
  }
  Statistic statistic() const override { return kTable[I].statistic; }
};
template <std::size_t I>
class ByRow : public Whole<I>, public RowTransform {
 public:
  void apply(Dataset& data) const override {
    apply_to_each_row(*this, data.shape().features, data);
  }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    if (kTable[I].one != nullptr) kTable[I].one(*this, features, out);
  }
};

// Which of the two a row is, is known while the program is compiled.
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

}  // namespace transforms

std::vector<Fault> transform_faults() {
  using namespace transforms;
  const auto place = [](const Row& row) {
    return std::vector<std::string>{std::string("data.transforms=[") + row.told.id + "]"};
  };
  std::vector<Fault> whole = faults_of<Transform, FaultyWhole>(kTable, "transform", place);
  const std::vector<Fault> by_row = faults_of<Transform, FaultyRow>(kTable, "transform", place);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (kTable[i].one != nullptr) whole[i] = by_row[i];
  }
  return whole;
}

#undef APPLY
#undef ONE
#undef FIT
