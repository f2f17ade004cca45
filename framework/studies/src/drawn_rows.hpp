// Random rows from a public law, for audits that must not use anybody's data.
#pragma once

#include <cstddef>

#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Examples that nobody's data went into, of the shape that the network takes: standard normal
/// features (tokens: any of the vocabulary), and targets that are uniform among the classes, or
/// standard normal.
/// \param key  public, or from the operating system.
Dataset drawn_rows(const Network& network, std::size_t rows, const RandomKey& key);

/// As many training examples as the setting has, and at most 100 test examples if it has some.
RunData drawn_data(const Setting& setting, const RandomKey& key);

}  // namespace privgrad::core
