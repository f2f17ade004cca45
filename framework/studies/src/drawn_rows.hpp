// Random rows from a public distribution, for audits that must not use anyone's data.
#pragma once

#include <cstddef>

#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Examples with the network's input shape that depend on no data: standard normal features
/// (tokens: uniform over the vocabulary), and targets that are uniform among the classes, or
/// standard normal.
/// \param key  public, or from the operating system.
Dataset drawn_rows(const Network& network, std::size_t rows, const RandomKey& key);

/// Draws as many training examples as the setting has, and at most 100 test examples if it has any.
RunData drawn_data(const Setting& setting, const RandomKey& key);

}  // namespace privgrad::core
