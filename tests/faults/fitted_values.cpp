// Transforms that misstate what they have learnt, or what they do. These numbers become part of the
// model, and of its exported forms.
#include <algorithm>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"

using namespace privgrad;

namespace fitted_values {

constexpr double kOffset = 0.5;

/// Subtracts a given, not learnt, number from every feature.
struct Base : Transform {
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset& train) override {
    width_ = train.row_size();
    const auto row = train.features().last(width_);
    last_row_.assign(row.begin(), row.end());
    mean_ = 0.0;
    for (const float x : train.features())
      mean_ += static_cast<double>(x) / static_cast<double>(train.features().size());
  }
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    for (std::size_t i = 0; i < features.size(); ++i)
      out[i] = features[i] - static_cast<float>(offset_);
  }
  Statistic statistic() const override { return Statistic::is_public; }
  std::vector<FittedTensor> right_values() const { return {{"offset", {1}, {offset_}}}; }
  std::vector<RowOperation> right_operations() const {
    return {row_operation::Subtract{{offset_}}};
  }
  void restore(const std::vector<FittedTensor>& values) override {
    const std::size_t size = find_fitted(values, "offset", "offset", {0}).values.size();
    const FittedTensor& offset = find_fitted(values, "offset", "offset", {size});
    if (values.size() != 1) throw ConfigError("offset: expected the offset alone");
    offset_ = offset.values.front();
  }

  std::size_t width_ = 0;
  double offset_ = kOffset, mean_ = 0.0;
  std::vector<double> last_row_;
  mutable int calls_ = 0;
};

struct Row {
  Told told;
  std::vector<FittedTensor> (*values)(const Base&) = nullptr;
  std::vector<RowOperation> (*operations)(const Base&) = nullptr;
  bool uses_none = false;  ///< statistic() reports it, and examples are unchanged.
};

const std::array kTable = std::to_array<Row>({
    {.told = {"gives_what_it_was_given", "nothing: the control"}},
    // Private rows in a model, without a charge.
    {.told = {"learns_nothing_and_gives_a_row", "says it uses no numbers, and saves the last row"},
     .values = [](const Base& self) -> std::vector<FittedTensor> {
       return {{"offset", {self.last_row_.size()}, self.last_row_}};
     },
     .operations = [](const Base&) -> std::vector<RowOperation> { return {}; },
     .uses_none = true},
    {.told = {"given_numbers_and_a_row", "saves the last row beside the numbers it was given"},
     .values = [](const Base& self) -> std::vector<FittedTensor> {
       std::vector<double> values{self.offset_};
       values.insert(values.end(), self.last_row_.begin(), self.last_row_.end());
       return {{"offset", {values.size()}, values}};
     }},
    {.told = {"mean_in_the_low_digits", "hides the training mean in the low digits of a number"},
     .values = [](const Base& self) -> std::vector<FittedTensor> {
       return {{"offset", {1}, {self.offset_ + 1e-12 * self.mean_}}};
     }},
    // A model that is applied with other numbers than those of the training.
    {.told = {"gives_other_numbers", "saves another number than was applied"},
     .values = [](const Base&) -> std::vector<FittedTensor> {
       return {{"offset", {1}, {0.25}}};
     }},
    {.told = {"gives_other_numbers_later", "saves another number the second time"},
     .values = [](const Base& self) -> std::vector<FittedTensor> {
       return {{"offset", {1}, {self.offset_ + 1e-12 * self.calls_++}}};
     }},
    {.told = {"tells_another_sign", "exports a sum where it takes a difference"},
     .operations = [](const Base& self) -> std::vector<RowOperation> {
       return {row_operation::Subtract{{-self.offset_}}};
     }},
    {.told = {"tells_nothing", "exports nothing of what it does"},
     .operations = [](const Base&) -> std::vector<RowOperation> { return {}; }},
    {.told = {"tells_what_it_does_to_others", "exports its numbers for half of the features"},
     .operations = [](const Base& self) -> std::vector<RowOperation> {
       std::vector<double> values(self.width_, self.offset_);
       std::fill_n(values.begin(), self.width_ / 2, 0.0);
       return {row_operation::Subtract{values}};
     }},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {
    if (kTable[I].uses_none) offset_ = 0.0;
  }
  Statistic statistic() const override {
    return kTable[I].uses_none ? Statistic::none : Statistic::is_public;
  }
  void restore(const std::vector<FittedTensor>& values) override {
    const double before = offset_;
    Base::restore(values);
    if (kTable[I].uses_none) offset_ = before;
  }
  std::vector<FittedTensor> fitted_values() const override {
    return kTable[I].values != nullptr ? kTable[I].values(*this) : right_values();
  }
  std::vector<RowOperation> row_operations(const Shape&) const override {
    return kTable[I].operations != nullptr ? kTable[I].operations(*this) : right_operations();
  }
};

}  // namespace fitted_values

std::vector<Fault> fitted_value_faults() {
  using namespace fitted_values;
  return faults_of<Transform, Faulty>(kTable, "transform", [](const Row& row) {
    return std::vector<std::string>{std::string("data.transforms=[") + row.told.id + "]"};
  });
}
