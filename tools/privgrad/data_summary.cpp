#include "data_summary.hpp"

#include <algorithm>
#include <numeric>

namespace privgrad::tool {

void Spread::add(float value) {
  const double x = static_cast<double>(value);
  least = std::min(least, x);
  most = std::max(most, x);
  sum += x;
  ++count;
}

DataSummary summarise(const Dataset& data) {
  constexpr std::size_t kBlock = 256;
  DataSummary summary;
  summary.rows = data.rows();
  summary.class_counts.assign(data.shape().classes, 0);
  std::vector<float> features(std::min(kBlock, data.rows()) * data.row_size());
  std::vector<float> targets(std::min(kBlock, data.rows()));
  for (std::size_t first = 0; first < data.rows(); first += kBlock) {
    std::vector<std::uint32_t> rows(std::min(kBlock, data.rows() - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    const std::span<float> block = std::span(features).first(rows.size() * data.row_size());
    const std::span<float> labels = std::span(targets).first(rows.size());
    data.gather(rows, block, labels);
    for (const float value : block) summary.features.add(value);
    for (const float value : labels) {
      summary.targets.add(value);
      if (!summary.class_counts.empty()) ++summary.class_counts[static_cast<std::size_t>(value)];
    }
  }
  return summary;
}

}  // namespace privgrad::tool
