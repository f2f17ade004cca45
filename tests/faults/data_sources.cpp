// Data sources whose rows differ from their declarations.
#include <cmath>

#include "fault.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"

using namespace privgrad;

namespace data_sources {

class Base : public DataSource {
 public:
  static DataInfo right_info() {
    return {.shape = {{3}, 2},
            .train_rows = 40,
            .test_rows = 20,
            .unaccounted = {},
            .has_test_split = true};
  }
  static Dataset right(Split split, float shift = 0.0f, std::size_t more = 0) {
    const std::size_t rows = (split == Split::train ? 40 : 20) + more;
    std::vector<float> features, targets;
    for (std::size_t i = 0; i < rows; ++i) {
      const auto target = static_cast<float>(i % 2);
      for (int j = 0; j < 3; ++j)
        features.push_back(
            target + 0.01f * static_cast<float>((7 * i + 3 * static_cast<std::size_t>(j)) % 11) +
            shift);
      targets.push_back(target);
    }
    return Dataset({{3}, 2}, std::move(features), std::move(targets));
  }
  int calls_ = 0;
};

struct Row {
  Told told;
  /// Changes the correct facts.
  void (*info)(Base&, DataInfo&) = nullptr;
  Dataset (*read)(Base&, Split) = nullptr;
};

const std::array kTable = std::to_array<Row>({
    {.told = {"right", "nothing: the control"}},
    {.told = {"empty", "no examples"}, .info = [](Base&, DataInfo& info) { info.train_rows = 0; }},
    {.told = {"more_rows_than_told", "more rows than were planned"},
     .read = [](Base& self, Split split) { return self.right(split, 0.0f, 1); }},
    {.told = {"told_more_rows", "fewer rows than were planned"},
     .info = [](Base&, DataInfo& info) { ++info.train_rows; }},
    {.told = {"told_more_test_rows", "fewer test rows than were told"},
     .info = [](Base&, DataInfo& info) { ++info.test_rows; }},
    {.told = {"other_shape", "another shape than was told"},
     .info = [](Base&, DataInfo& info) { info.shape.features = {4}; }},
    {.told = {"no_features", "examples without features"},
     .info = [](Base&, DataInfo& info) { info.shape.features = {0}; }},
    {.told = {"more_classes", "more classes than were told"},
     .info = [](Base&, DataInfo& info) { info.shape.classes = 1; }},
    {.told = {"changes_its_mind", "other facts each time"},
     .info = [](Base& self,
                DataInfo& info) { info.train_rows += static_cast<std::size_t>(self.calls_++); }},
    {.told = {"rows_from_the_last_one_on", "rows in another order", Let::harmless,
              "no promise depends on the order of rows"},
     .read =
         [](Base& self, Split split) {
           const Dataset rows = self.right(split);
           std::vector<float> features, targets;
           for (auto row = static_cast<std::uint32_t>(rows.rows()); row-- > 0;) {
             const std::uint32_t one[]{row};
             std::vector<float> x(3), y(1);
             rows.gather(one, x, y);
             features.insert(features.end(), x.begin(), x.end());
             targets.push_back(y[0]);
           }
           return Dataset({{3}, 2}, std::move(features), std::move(targets));
         }},
    {.told = {"changes_its_rows", "other rows each time"},
     .read = [](Base& self,
                Split split) { return self.right(split, static_cast<float>(++self.calls_)); }},
    {.told = {"train_for_test", "training rows as test rows"},
     .read = [](Base& self, Split) { return self.right(Split::train); }},
    {.told = {"throws_oddly", "an error that is not one of the framework's"},
     .read = [](Base&, Split) -> Dataset { throw std::runtime_error("odd"); }},
    {.told = {"nan_features", "features that are not numbers"},
     .read = [](Base& self, Split split) { return self.right(split, std::nanf("")); }},
    {.told = {"reads_facts_off_rows", "facts from private rows, that are told: listed"},
     .info = [](Base&,
                DataInfo& info) { info.unaccounted.emplace_back("number of classes (classes)"); }},
    {.told = {"normalises_in_secret", "features less the mean of all rows", Let::trusted,
              "a source declares in DataInfo what it computes from all rows (docs/trust.md)"},
     .read =
         [](Base& self, Split split) {
           Dataset data = self.right(split);
           float mean = 0.0f;
           for (const float x : data.features())
             mean += x / static_cast<float>(data.features().size());
           return self.right(split, -mean);
         }},
    {.told = {"doubles_a_row", "an example stands in two rows: each of them is protected, not both",
              Let::trusted, "the source defines what a row is (docs/trust.md)"},
     .read =
         [](Base& self, Split split) {
           Dataset data = self.right(split);
           std::vector<float> features(data.features().begin(), data.features().end());
           for (std::size_t j = 0; j < 3; ++j) features.at(6 + j) = features.at(j);
           data.replace_features({3}, features);
           return data;
         }},
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  DataInfo info() override {
    DataInfo info = right_info();
    if (kTable[I].info != nullptr) kTable[I].info(*this, info);
    return info;
  }
  Dataset read(Split split) override {
    return kTable[I].read != nullptr ? kTable[I].read(*this, split) : right(split);
  }
};

}  // namespace data_sources

std::vector<Fault> data_source_faults() {
  using namespace data_sources;
  return faults_of<DataSource, Faulty>(kTable, "data_source", [](const Row& row) {
    return std::vector<std::string>{std::string("data={kind: ") + row.told.id + "}"};
  });
}
