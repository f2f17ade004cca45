#include "privgrad/train/run_checks.hpp"

namespace privgrad::core {

RunChecks& RunChecks::operator+=(const RunChecks& other) {
  contributions += other.contributions;
  batches += other.batches;
  if (noise_by.empty()) noise_by = other.noise_by;
  reported_differences += other.reported_differences;
  return *this;
}

}  // namespace privgrad::core
