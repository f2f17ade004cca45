// Reproducible random numbers for tests, independent of the core's generator.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>

#include "privgrad/random.hpp"

/// Random numbers for tests: the same on every machine for the same seed. Not cryptographic, and
/// not the core's generator, so that tests of samplers do not depend on it.
class TestStream final : public privgrad::RandomStream {
 public:
  TestStream(std::uint64_t seed, std::uint64_t index) {
    std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                        static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)};
    engine_.seed(mixed);
  }

  std::uint64_t uniform_below(std::uint64_t bound) override {
    // The lowest 2^64 mod bound outcomes are rejected, because otherwise some results would be more
    // likely.
    const std::uint64_t surplus = (0 - bound) % bound;
    for (;;) {
      const std::uint64_t draw = engine_();
      if (draw >= surplus) return draw % bound;
    }
  }

  double uniform() override { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  void fill_normal(std::span<float> out) override {
    std::normal_distribution<float> normal;
    for (float& value : out) value = normal(engine_);
  }

 private:
  std::mt19937_64 engine_;
};

class TestRandom final : public privgrad::RandomSource {
 public:
  explicit TestRandom(std::uint64_t seed) : seed_(seed) {}
  std::unique_ptr<privgrad::RandomStream> stream(std::uint64_t index) const override {
    return std::make_unique<TestStream>(seed_, index);
  }

 private:
  std::uint64_t seed_;
};
