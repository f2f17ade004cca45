// Functions of several numbers, for faults.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

inline float mean_of(std::span<const float> values) {
  float sum = 0.0f;
  for (const float x : values) sum += x;
  return values.empty() ? 0.0f : sum / static_cast<float>(values.size());
}
inline float largest_of(std::span<const float> values) {
  float largest = 0.0f;
  for (const float x : values) largest = std::max(largest, std::abs(x));
  return largest;
}
