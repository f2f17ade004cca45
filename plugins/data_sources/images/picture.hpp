// Decodes PNG and JPEG images, and resizes them with the same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

/// An image with 8 bits per channel.
struct Picture {
  std::size_t height = 0, width = 0, channels = 0;  ///< channels: 1 or 3 (red, green, blue).
  std::vector<std::uint8_t> pixels;                 ///< [height, width, channels].
};

/// The error for bytes that are not a readable image. It names the problem, such as "is truncated".
class BadPicture : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The most pixels of a decoded image, so that a few kilobytes cannot fill the memory: a file
/// states its number of pixels before any pixel is decompressed.
inline constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 26;

/// Decodes a PNG or JPEG file, identified by its first bytes.
///
/// PNG: palettes become colours; channels of 1, 2, 4 and 16 bits become 8 bits (16 by rounding);
/// interlaced files are reassembled; transparency, gamma and colour profiles are ignored. JPEG:
/// baseline and progressive, with the exact inverse transform; damaged files and CMYK colours are
/// errors; the camera's orientation (Exif) is ignored.
/// \param channels  1 or 3. Grey becomes three equal channels; colours become grey by ITU-R BT.601,
///   in 16 fractional bits, rounded.
/// \throws BadPicture if the bytes are not a readable image.
Picture decode_picture(std::span<const std::uint8_t> bytes, std::size_t channels);

/// Resizes an image: each pixel is a mean of the source pixels around its place, with weights from
/// a triangle as wide as two pixels of the coarser grid (bilinear; if the image shrinks, every
/// source pixel contributes). The result has the same bits on every machine.
/// \pre height, width > 0
Picture resized(const Picture& picture, std::size_t height, std::size_t width);
