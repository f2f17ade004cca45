// A checksum by which the core verifies which examples a device computes with.
#pragma once

#include <cstdint>
#include <span>

#include "privgrad/export.hpp"

namespace privgrad {

/// Returns a checksum of an example of n features, modulo 2^64:
///
///     sum_i mix(2^32 i + bits of feature i) + mix(2^32 n + bits of the target)
///
/// with mix() of SplitMix64 (Steele, Lea and Flood 2014):
///
///     x ^= x >> 30;  x *= 0xbf58476d1ce4e5b9;  x ^= x >> 27;  x *= 0x94d049bb133111eb;
///     x ^= x >> 31
///
/// The terms can be added in any order. Examples that differ in one number have different
/// checksums, because mix() is a bijection; among other examples, about one pair in 2^64 has the
/// same checksum. Privacy: as private as the example.
/// \param features  fewer than 2^32.
PRIVGRAD_API std::uint64_t example_checksum(std::span<const float> features, float target);

}  // namespace privgrad
