// Reads an estimate of influence from its directory and makes its chart and page.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "chart.hpp"
#include "document.hpp"
#include "privgrad/influence.hpp"

namespace privgrad::report {

/// Whether the directory contains an estimate of influence (influence.json).
bool is_influence(const std::filesystem::path& directory);

/// An estimate of influence, and its chart.
struct InfluenceChart {
  std::string name;
  std::string method;
  /// Whether the influence was measured on the private rows, for which nothing is charged.
  bool own_data = false;
  std::vector<InfluenceEstimate> estimates;
  std::optional<double> gamma;    ///< The gamma of the best-fitting exponential.
  std::string within_noise = {};  ///< A warning if noise hides differences; otherwise "".
  Chart chart;
};

/// \param file  influence.json, or a copy of it.
/// \throws IoError naming the file and its fault.
InfluenceChart influence_chart(const std::filesystem::path& file);

/// \throws IoError naming the file and its fault.
Page influence_page(const std::filesystem::path& directory);

}  // namespace privgrad::report
