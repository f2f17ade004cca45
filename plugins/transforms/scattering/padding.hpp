// The padding of images for the scattering transform, which mirrors pixels at the borders.
#pragma once

#include <algorithm>
#include <cstddef>

namespace scattering {

/// Returns the length of the padded image, a multiple of 2^scales: there is room for one average
/// beyond each border.
inline std::size_t padded(std::size_t length, std::size_t scales) {
  return ((length >> scales) + 2) << scales;
}

/// Returns the place in the image that a pixel of the padded image shows. Beyond the borders, the
/// image is mirrored at the border pixels, which are not repeated.
/// \param before  the number of pixels before the image.
/// \param length  the length of the image, > 1.
inline std::size_t reflected(std::size_t place, std::size_t before, std::size_t length) {
  const std::size_t period = 2 * (length - 1);
  const std::size_t at = (place + period * before - before) % period;
  return std::min(at, period - at);
}

}  // namespace scattering
