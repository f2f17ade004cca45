#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "chart.hpp"
#include "privgrad/influence.hpp"

namespace privgrad::report {

/// Whether the directory holds an estimate of influence (influence.json).
bool is_influence(const std::filesystem::path& directory);

/// What the estimate says, ready to be drawn.
struct InfluenceChart {
  std::string name;
  std::string method;
  bool own_data = false;  ///< Measured on private rows, and charged nowhere.
  std::vector<InfluenceEstimate> estimates;
  std::optional<double> gamma;    ///< Of the nearest exponential.
  std::string within_noise = {};  ///< What the estimates do not show; empty if they do.
  Chart chart;
};

/// \throws IoError naming the file and what is wrong with it.
InfluenceChart influence_chart(const std::filesystem::path& directory);

/// Its page.
/// \throws IoError naming the file and what is wrong with it.
std::string influence_page(const std::filesystem::path& directory);

}  // namespace privgrad::report
