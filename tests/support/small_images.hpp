// Writes a data set of small images that a network can learn, for tests of training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include "support.hpp"

namespace small_images {

inline constexpr std::uint32_t kImages = 120, kPixels = 8;

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xff);
  return bytes;
}

/// Writes noisy images whose left or right half is bright; the class is the half.
inline void write(const std::filesystem::path& dir) {
  std::mt19937 random(3);
  std::string pixels, labels;
  for (std::uint32_t i = 0; i < kImages; ++i) {
    const std::uint32_t label = i % 2;
    labels += static_cast<char>(label);
    for (std::uint32_t at = 0; at < kPixels * kPixels; ++at) {
      const bool bright = (at % kPixels < kPixels / 2) == (label == 0);
      pixels += static_cast<char>(random() % 100 + (bright ? 100 : 0));
    }
  }
  write_file(dir / "images", std::string("\0\0\x08\x03", 4) + big_endian(kImages) +
                                 big_endian(kPixels) + big_endian(kPixels) + pixels);
  write_file(dir / "labels", std::string("\0\0\x08\x01", 4) + big_endian(kImages) + labels);
}

}  // namespace small_images
