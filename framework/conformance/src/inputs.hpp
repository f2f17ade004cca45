// Reproducible random numbers and simple executors for the rules of the conformance suite.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/executor.hpp"
#include "privgrad/random.hpp"

namespace privgrad::testing {

/// Invented numbers that look random and are the same everywhere. SplitMix64 (Steele, Lea and Flood
/// 2014) is a bijection of a counter, so the counter's start value determines a stream.
class PublicStream final : public RandomStream {
 public:
  explicit PublicStream(std::uint64_t seed) : counter_(seed) {}

  std::uint64_t uniform_below(std::uint64_t bound) override;
  double uniform() override;
  void fill_normal(std::span<float> out) override;

  double normal();

 private:
  std::uint64_t next();
  std::uint64_t counter_;
};

class PublicSource final : public RandomSource {
 public:
  explicit PublicSource(std::uint64_t seed) : seed_(seed) {}
  std::unique_ptr<RandomStream> stream(std::uint64_t index) const override;

 private:
  std::uint64_t seed_;
};

/// \returns `count` draws from N(0, scale^2).
std::vector<float> normal_values(std::uint64_t seed, std::size_t count, double scale = 1.0);

/// Executes one chunk after the other, from the first or from the last.
class SerialExecutor final : public Executor {
 public:
  explicit SerialExecutor(bool backwards = false) : backwards_(backwards) {}
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override;

 private:
  bool backwards_;
};

/// Executes chunks on two threads, each of which takes the next chunk.
class TwoThreadExecutor final : public Executor {
 public:
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override;
};

}  // namespace privgrad::testing
