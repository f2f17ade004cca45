#include "drawn_rows.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "privgrad/network.hpp"

namespace privgrad::core {
namespace {

/// The most test rows, which are enough for schedules that follow a loss on test examples.
constexpr std::size_t kMostTestRows = 100;

}  // namespace

Dataset drawn_rows(const Network& network, std::size_t rows, const RandomKey& key) {
  const ExampleShape& shape = network.input;
  const auto random = make_random_source(key);
  std::vector<float> features(rows * element_count(shape.features)), targets(rows);
  const auto of_features = random->stream(0), of_targets = random->stream(1);
  if (const std::size_t vocabulary = vocabulary_of(network); vocabulary > 0) {
    for (float& token : features)
      token = static_cast<float>(of_features->uniform_below(vocabulary));
  } else {
    of_features->fill_normal(features);
  }
  if (shape.classes > 0) {
    for (float& target : targets)
      target = static_cast<float>(of_targets->uniform_below(shape.classes));
  } else {
    of_targets->fill_normal(targets);
  }
  return {shape, std::move(features), std::move(targets)};
}

RunData drawn_data(const Setting& setting, const RandomKey& key) {
  RunData data;
  data.train = drawn_rows(setting.network, setting.info.train_rows, key.derive("train"));
  if (setting.info.test_rows > 0) {
    data.test =
        drawn_rows(setting.network, std::min<std::size_t>(setting.info.test_rows, kMostTestRows),
                   key.derive("test"));
  }
  return data;
}

}  // namespace privgrad::core
