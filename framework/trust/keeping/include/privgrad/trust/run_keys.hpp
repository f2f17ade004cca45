// The keys of a run, one per step where the run can be resumed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The keys that a run draws with, step by step.
///
/// A run with a seed, or one that nobody can resume, has one key for all steps. A run from the
/// operating system's randomness that leaves checkpoints has a chain: K_{t+1} follows from K_t and,
/// after a step of which something is shown, from the hash of that as well. A derived key
/// tells nothing about what it was derived from (BLAKE2b keyed with it), so that a checkpoint, which
/// holds K_{t+1}, gives nobody the keys of the steps up to t. The keys do not depend on when
/// checkpoints are made, so that a run which was killed draws what it would have drawn.
///
/// A step of a federated run is a round here: the keys of its server and of its clients are derived
/// from that of the round, and each local step has streams of its own under its client's.
///
/// The key of a step is derived from K_t and from what the run is bound to: with another lock file,
/// manifest, data set or backend the same step has other noise. The seal on a saved chain follows
/// from both, too: a copy in which somebody has edited what the run is bound to does not go on.
class RunKeys {
 public:
  /// One key for everything, for ever.
  static RunKeys constant(const RandomKey& key) { return RunKeys(key, std::nullopt, ""); }

  /// A chain.
  /// \param key  forgotten once the chain has begun.
  /// \param bound_to  a text that the keys of steps depend on, besides the run's key.
  static RunKeys chain(const RandomKey& key, std::string bound_to) {
    return RunKeys(key.derive("lasting"), key.derive("first step"), std::move(bound_to));
  }

  /// The part of a chain that another process is told: the key of one step, and no earlier or later
  /// one.
  static RunKeys of_one_step(const RandomKey& lasting, const RandomKey& of_step) {
    RunKeys keys(lasting, std::nullopt, "");
    keys.told_ = of_step;
    return keys;
  }

  /// Whether each step has a key of its own.
  bool ratchets() const noexcept { return now_ || told_; }

  /// For what the whole run draws with and is no secret of a single step: public orders of examples,
  /// which step is kept, which contributions are looked at.
  const RandomKey& lasting() const noexcept { return lasting_; }

  /// For what belongs to the present step alone. For a constant key, that key.
  RandomKey of_step() const {
    if (told_) return *told_;
    return now_ ? now_->derive("step\n" + bound_to_) : lasting_;
  }

  /// Goes on to the next step.
  /// \param shown  the hash of everything shown of the step; "" if nothing was shown.
  void next(std::string_view shown) {
    if (now_) now_ = now_->derive("next\n" + std::string(shown));
  }

  /// From here on the keys of steps depend on this text. Called once it is known: transforms may
  /// have to learn from the rows first.
  void bind_to(std::string bound_to) { bound_to_ = std::move(bound_to); }

  /// Saves the chain as it is now, sealed; of a constant key nothing.
  void save(StateWriter& out) const;
  /// \param bound_to  the text that the run is bound to now.
  /// \throws IoError; PrivacyError if it was saved bound to something else.
  static RunKeys restored(StateReader& in, const std::optional<RandomKey>& constant,
                          std::string bound_to);

 private:
  RandomKey seal() const { return lasting_.derive("bound to\n" + bound_to_); }

  RunKeys(const RandomKey& lasting, std::optional<RandomKey> now, std::string bound_to)
      : lasting_(lasting), now_(now), bound_to_(std::move(bound_to)) {}

  RandomKey lasting_;
  std::optional<RandomKey> now_;   // K_t
  std::optional<RandomKey> told_;  // that of a step, where another process has the chain
  std::string bound_to_;
};

}  // namespace privgrad::core
