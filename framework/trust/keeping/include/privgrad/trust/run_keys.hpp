// The keys of a run: one per step if the run can be resumed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The keys with which a run draws random numbers, step by step.
///
/// A run with a seed, or a run that cannot be resumed, has one key for all steps. A run that draws
/// its key from the operating system and saves checkpoints has a chain: K_{t+1} follows from K_t
/// and, after a step whose results are published, also from the hash of these results. A derived
/// key reveals nothing about its parent (BLAKE2b keyed with it), so a checkpoint, which holds
/// K_{t+1}, does not reveal the keys of the steps up to t. The keys do not depend on when
/// checkpoints are made, so a run that was killed draws the same numbers when it is resumed.
///
/// In a federated run, a step is a round: the keys of the server and of the clients are derived
/// from the round's key, and each local step has streams of its own under its client's key.
///
/// The key of a step is derived from K_t and from the inputs to which the run is bound: another
/// lock file, manifest, data set or backend gives the step different noise. The seal on a saved
/// chain also depends on the key and these inputs, so a copy with edited inputs cannot continue.
class RunKeys {
 public:
  /// One key for all steps.
  static RunKeys constant(const RandomKey& key) { return RunKeys(key, std::nullopt, ""); }

  /// Returns a chain.
  /// \param key  forgotten once the chain has begun.
  /// \param bound_to  a text on which the keys of steps depend, in addition to the run's key.
  static RunKeys chain(const RandomKey& key, std::string bound_to) {
    return RunKeys(key.derive("lasting"), key.derive("first step"), std::move(bound_to));
  }

  /// Returns the part of a chain that another process receives: the key of one step, without the
  /// keys of other steps.
  static RunKeys of_one_step(const RandomKey& lasting, const RandomKey& of_step) {
    RunKeys keys(lasting, std::nullopt, "");
    keys.told_ = of_step;
    return keys;
  }

  /// Whether each step has a key of its own.
  bool ratchets() const noexcept { return now_ || told_; }

  /// The key for random numbers that belong to the whole run and need no secrecy between steps:
  /// public orders of examples, the step whose model is kept, the contributions that are checked.
  const RandomKey& lasting() const noexcept { return lasting_; }

  /// The key for random numbers of the present step only; a constant key is the same for every
  /// step.
  RandomKey of_step() const {
    if (told_) return *told_;
    return now_ ? now_->derive("step\n" + bound_to_) : lasting_;
  }

  /// Moves to the next step.
  /// \param shown  the hash of everything published about the step; "" if nothing was.
  void next(std::string_view shown) {
    if (now_) now_ = now_->derive("next\n" + std::string(shown));
  }

  /// Makes the keys of steps depend on this text from now on. Called once the text is known,
  /// because transforms may have to learn from the rows first.
  void bind_to(std::string bound_to) { bound_to_ = std::move(bound_to); }

  /// Saves the present state of the chain, sealed; nothing for a constant key.
  void save(StateWriter& out) const;
  /// \param bound_to  the text to which the run is bound now.
  /// \throws IoError for an invalid state; PrivacyError if the chain was bound to another text.
  static RunKeys restored(StateReader& in, const std::optional<RandomKey>& constant,
                          std::string bound_to);

 private:
  RandomKey seal() const { return lasting_.derive("bound to\n" + bound_to_); }

  RunKeys(const RandomKey& lasting, std::optional<RandomKey> now, std::string bound_to)
      : lasting_(lasting), now_(now), bound_to_(std::move(bound_to)) {}

  RandomKey lasting_;
  std::optional<RandomKey> now_;   // K_t
  std::optional<RandomKey> told_;  // the key of a step, if another process holds the chain
  std::string bound_to_;
};

}  // namespace privgrad::core
