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

namespace {

/// Walks over all sets, one step after the other.
class Search {
 public:
  Search(const LinearMechanism& mechanism, std::uint64_t max_participations,
         std::uint64_t min_separation)
      : mechanism_(mechanism), most_(max_participations), separation_(min_separation) {}

  double worst() {
    extend(0);
    return worst_;
  }

 private:
  void extend(std::uint64_t from) {
    constexpr std::uint64_t kMostSets = 100'000;
    if (++sets_ > kMostSets) {
      throw ConfigError(
          "too many ways to take part in these steps to try them all; give the participations "
          "themselves");
    }
    worst_ = std::max(worst_, squared_sensitivity(mechanism_, chosen_));
    if (chosen_.size() == most_) return;
    for (std::uint64_t step = from; step < mechanism_.steps(); ++step) {
      chosen_.push_back(step);
      extend(step + 1 + separation_);
      chosen_.pop_back();
    }
  }

  const LinearMechanism& mechanism_;
  std::uint64_t most_, separation_;
  std::vector<std::uint64_t> chosen_;
  std::uint64_t sets_ = 0;
  double worst_ = 0.0;
};

}  // namespace

double worst_squared_sensitivity(const LinearMechanism& mechanism, std::uint64_t max_participations,
                                 std::uint64_t min_separation) {
  return Search(mechanism, max_participations, min_separation).worst();
}

}  // namespace privgrad::core
