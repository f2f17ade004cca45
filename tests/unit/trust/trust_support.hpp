// Rows, sums and noise words for tests of the trust base.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/noise_words.hpp"

inline privgrad::Dataset make_data(std::size_t row_size, std::vector<float> features,
                                   std::vector<float> targets) {
  return privgrad::Dataset(privgrad::ExampleShape{{row_size}, 0}, std::move(features),
                           std::move(targets));
}

inline std::vector<std::uint32_t> all_rows(const privgrad::Dataset& data) {
  std::vector<std::uint32_t> rows(data.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

inline std::vector<float> values(const privgrad::Released& released) {
  return {released.values().begin(), released.values().end()};
}

/// Returns the aggregator `tree`, started with one noise multiplier.
inline privgrad::ComponentPtr<privgrad::Aggregator> tree(std::uint64_t steps,
                                                         privgrad::Value::Object params,
                                                         double multiplier) {
  auto made = house().create<privgrad::Aggregator>("tree", std::move(params));
  const std::vector<double> sigma(steps, multiplier);
  made->start({.steps = steps, .noise_multipliers = sigma});
  return made;
}

inline privgrad::core::NormalWords random_words(std::uint64_t seed) {
  privgrad::core::NormalWords words;
  privgrad::core::CounterCipher(privgrad::core::RandomKey::from_seed(seed))
      .read(0, 0, {reinterpret_cast<std::uint8_t*>(&words), sizeof words});
  return words;
}
