// A process that sees no rows, and recomputes the public answers of components.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "privgrad/clipping.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/transform.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Recomputes the public answers of components whose other instances see rows or norms: the values
/// that transforms learn from a release, and the clip norms and scalings that follow from releases.
///
/// Two instances in one process share a plugin's statics, thread-local variables and other process
/// state. A second process, started before this one reads a row, therefore receives the same
/// releases in the same order, and must give the same answers, bit for bit. This second process
/// exists only for plans with such components, and ends with this object or its parent process.
///
/// Not detected: information that reaches both processes, such as through a file that a plugin
/// writes; and rows that the same process saw in an earlier run.
///
/// Threads: calls may overlap.
class SecondLook {
 public:
  /// Must be made before the run's rows are read.
  /// \param plan  its manifest outlives this.
  /// \throws IoError if no process can be started.
  explicit SecondLook(const Plan& plan);
  ~SecondLook();
  SecondLook(const SecondLook&) = delete;
  SecondLook& operator=(const SecondLook&) = delete;

  /// \param number  the transform's number in the manifest.
  /// \param transform  has already learnt from `mean`.
  /// \throws PluginError if the transform of the other process has learnt other values.
  void check_learnt(std::size_t number, const ExampleShape& input, const Released& mean,
                    const Transform& transform);

  /// \param next  the answer of next_clip_norm().
  /// \throws PluginError if the other process answers differently.
  void check_clip_norm(double clip_norm, double unclipped, double next);

  /// \param clipping  has already learnt from `release`.
  /// \throws PluginError if the clipping of the other process has another scaling or state.
  void check_scaling(const Released& release, Clipping& clipping);

  /// Sends the other process the clipping's state from which a resumed run continues. The state was
  /// checked before it was saved.
  void restore_scaling(Clipping& clipping);

 private:
  class Child;
  void compare(const std::string& who, const StateWriter& question, const std::string& here,
               const char* what);

  const Manifest& manifest_;
  std::unique_ptr<Child> child_;  // null if the plan has nothing to check
};

}  // namespace privgrad::core
