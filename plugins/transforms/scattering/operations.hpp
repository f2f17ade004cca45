#pragma once

#include <cstddef>
#include <vector>

#include "privgrad/row_operation.hpp"

namespace scattering {

/// What images are, and what is made of them.
struct Task {
  std::size_t scales = 0, angles = 0, max_order = 0;
  std::size_t height = 0, width = 0, channels = 0;
};

/// The same as Cascade in operations that other programs know, in double: images [height, width,
/// channels] become [height / 2^scales, width / 2^scales, channels, coefficients]. Convolutions are
/// products of Fourier transforms here, too; to keep every 2^j-th pixel, the transform back is
/// asked for these alone.
std::vector<privgrad::RowOperation> operations(const Task& task);

/// How many numbers these operations are made of, about; as a real, because nothing limits it.
double operation_numbers(const Task& task);

}  // namespace scattering
