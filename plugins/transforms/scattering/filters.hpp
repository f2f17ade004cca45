// The Morlet wavelets and averages with which the scattering transform convolves images.
#pragma once

#include <cstddef>
#include <vector>

namespace scattering {

/// The sizes for which a bank of filters is made.
struct Bank {
  std::size_t scales = 0;  ///< J: the coefficients are averages over about 2^J pixels.
  std::size_t angles = 0;  ///< L, over half a turn.
  std::size_t height = 0;  ///< Of the padded image; a multiple of 2^J.
  std::size_t width = 0;
};

/// Returns the Fourier transform of a Morlet wavelet of scale j and angle number `angle`, [height,
/// width]. It is real. It is the sum of all aliases of the transform on the infinite plane, and
/// thus the transform of the wavelet wrapped around the image.
///
/// In space it is (Bruna and Mallat, "Invariant scattering convolution networks", 2013)
///     g(u) (exp(i xi . u) - K),
/// g a Gaussian of deviation 0.8 2^j along xi and L / 4 times as much across,
/// |xi| = 3 pi / (4 2^j), and K such that its mean is 0. The lengths, and the constant in
/// front, are the same as in kymatio, where pi is taken to be 3.1415.
std::vector<double> wavelet(const Bank& bank, std::size_t j, std::size_t angle);

/// Returns the filter to use on an image that has been subsampled to every 2^j-th pixel. It is
/// `filter`, the filter for the whole image, restricted to the frequencies -n / 2 to n / 2 - 1 in
/// each direction, where n is the subsampled extent (height or width / 2^j).
std::vector<double> at_resolution(const Bank& bank, std::size_t j,
                                  const std::vector<double>& filter);

/// Returns the Gaussian average of deviation 0.8 2^(J - 1) along one axis: [outputs, n], which maps
/// n = length / 2^j pixels to every 2^(J - j)-th average, except the first and the last one. The
/// two-dimensional average is the product of the averages along both axes.
std::vector<double> averages(std::size_t scales, std::size_t length, std::size_t j);

}  // namespace scattering
