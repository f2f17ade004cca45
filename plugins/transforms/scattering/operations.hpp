// The scattering transform as generic operations, for exporting models to other programs.
#pragma once

#include <cstddef>
#include <vector>

#include "privgrad/row_operation.hpp"

namespace scattering {

/// The shape of images, and the parameters of their transform.
struct Task {
  std::size_t scales = 0, angles = 0, max_order = 0;
  std::size_t height = 0, width = 0, channels = 0;
};

/// Computes the same as Cascade, in double, by operations that other programs support: images
/// [height, width, channels] become [height / 2^scales, width / 2^scales, channels, coefficients].
/// Here, too, convolutions are products of Fourier transforms. If only every 2^j-th pixel is
/// needed, the inverse transform computes only those.
std::vector<privgrad::RowOperation> operations(const Task& task);

/// Returns about how many numbers these operations have, as a double because there is no limit.
double operation_numbers(const Task& task);

}  // namespace scattering
