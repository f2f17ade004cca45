#include "data_summary.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_set>

#include "privgrad/digest/sha256.hpp"

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

namespace {

/// Calls `take` with a hash of each row (features and target).
template <class Take>
void for_each_hash(const Dataset& data, const Take& take) {
  std::vector<float> row(data.row_size() + 1);
  const std::span<float> all(row);
  for (std::uint32_t i = 0; i < data.rows(); ++i) {
    const std::uint32_t number[]{i};
    data.gather(number, all.first(data.row_size()), all.last(1));
    take(core::sha256_hex(
        std::string_view(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float))));
  }
}

}  // namespace

std::uint64_t rows_in_common(const Dataset& rows, const Dataset& others) {
  std::unordered_set<std::string> known;
  for_each_hash(others, [&](std::string hash) { known.insert(std::move(hash)); });
  std::uint64_t common = 0;
  for_each_hash(rows, [&](const std::string& hash) { common += known.contains(hash) ? 1 : 0; });
  return common;
}

}  // namespace privgrad::tool
