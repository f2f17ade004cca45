// Random numbers for plugins, derived from the run's key; privacy noise does not come from here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "privgrad/export.hpp"

namespace privgrad {

/// A stream of random numbers for one purpose of one component.
///
/// The core derives each stream's key from the run's key, the component's place in the manifest and
/// the purpose, so exchanging one component in an ablation does not change the numbers of any other
/// component. Plugins must not create generators of their own: because of hidden visibility, each
/// library would have its own copy of a static engine with the same seed, so two plugins would draw
/// the same "independent" numbers.
///
/// Not for privacy noise, which the core draws. Threads: a stream must not be shared; get one per
/// task from the RandomSource.
class PRIVGRAD_API RandomStream {
 public:
  virtual ~RandomStream();
  RandomStream(const RandomStream&) = delete;
  RandomStream& operator=(const RandomStream&) = delete;

  /// \param bound  > 0.
  /// \returns an integer uniform on [0, bound), without modulo bias.
  virtual std::uint64_t uniform_below(std::uint64_t bound) = 0;

  /// \returns a real uniform on [0, 1), a multiple of 2^-53.
  virtual double uniform() = 0;

  /// Fills `out` with independent N(0, 1) draws.
  virtual void fill_normal(std::span<float> out) = 0;

 protected:
  RandomStream() = default;
};

/// Streams addressed by a counter (a step, an epoch), so that a resumed run draws the numbers that
/// an uninterrupted run would have drawn. Threads: const, may be shared.
class PRIVGRAD_API RandomSource {
 public:
  virtual ~RandomSource();
  RandomSource(const RandomSource&) = delete;
  RandomSource& operator=(const RandomSource&) = delete;

  /// An index always gives the same numbers; different indices give independent numbers.
  virtual std::unique_ptr<RandomStream> stream(std::uint64_t index) const = 0;

 protected:
  RandomSource() = default;
};

}  // namespace privgrad
