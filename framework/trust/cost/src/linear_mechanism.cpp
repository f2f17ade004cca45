#include "privgrad/trust/linear_mechanism.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "privgrad/error.hpp"

namespace privgrad::core {

LinearMechanism LinearMechanism::tree(std::uint64_t steps, std::uint64_t completed_to) {
  if (completed_to < steps) {
    throw ConfigError("a tree over " + std::to_string(steps) + " steps cannot end at step " +
                      std::to_string(completed_to));
  }
  LinearMechanism result;
  result.columns_.resize(steps);
  for (std::uint64_t size = 1; size != 0 && size <= completed_to; size *= 2) {
    const std::uint64_t blocks = completed_to / size;
    for (std::uint64_t step = 0; step < std::min(steps, blocks * size); ++step) {
      result.columns_[step].push_back({result.rows_ + step / size, 1.0});
    }
    result.rows_ += blocks;
  }
  return result;
}

LinearMechanism LinearMechanism::toeplitz(std::span<const double> first_column) {
  LinearMechanism result;
  result.rows_ = first_column.size();
  result.toeplitz_.assign(first_column.begin(), first_column.end());
  result.columns_.resize(first_column.size());
  for (std::uint64_t step = 0; step < first_column.size(); ++step) {
    for (std::uint64_t row = step; row < first_column.size(); ++row) {
      result.columns_[step].push_back({row, first_column[row - step]});
    }
  }
  return result;
}

LinearMechanism LinearMechanism::in_sequence(const std::vector<LinearMechanism>& parts) {
  LinearMechanism result;
  for (const LinearMechanism& part : parts) {
    for (const std::vector<Entry>& column : part.columns_) {
      std::vector<Entry>& moved = result.columns_.emplace_back(column);
      for (Entry& entry : moved) entry.row += result.rows_;
    }
    result.rows_ += part.rows_;
  }
  return result;
}

double squared_sensitivity(const LinearMechanism& mechanism,
                           std::span<const std::uint64_t> participations) {
  std::unordered_map<std::uint64_t, long double> change_of_row;
  for (const std::uint64_t step : participations) {
    for (const auto& entry : mechanism.column(step)) {
      change_of_row[entry.row] += std::fabs(static_cast<long double>(entry.value));
    }
  }
  long double sum = 0.0L;
  for (const auto& [row, change] : change_of_row) sum += change * change;
  return static_cast<double>(sum);
}

}  // namespace privgrad::core
