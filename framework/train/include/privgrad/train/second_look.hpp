// A process that is shown no row, and asked again for what components make public.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "privgrad/clipping.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/transform.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Looks a second time at what components make public that are shown rows or norms in other
/// instances: what transforms learn of a release, and the clip norms and scalings that follow from
/// releases.
///
/// Two instances share what a plugin keeps in statics, thread-local variables and other places of
/// its process. So a second process, begun before this one reads a row, is given the same releases,
/// in the same order, and must give the same answers, bit for bit. It is begun only for plans with
/// such components, and ends with this object, or with the process that began it.
///
/// Not detected: what reaches both processes, such as a file that a plugin writes; and rows that
/// the same process was shown in an earlier run.
///
/// Threads: calls may overlap.
class SecondLook {
 public:
  /// To be made before the run's rows are read.
  /// \param plan  its manifest outlives this.
  /// \throws IoError if no process can be begun.
  explicit SecondLook(const Plan& plan);
  ~SecondLook();
  SecondLook(const SecondLook&) = delete;
  SecondLook& operator=(const SecondLook&) = delete;

  /// \param number  of the transform in the manifest.
  /// \param transform  has learnt from the release.
  /// \throws PluginError if it has learnt something else than in the other process.
  void check_learnt(std::size_t number, const ExampleShape& input, const Released& mean,
                    const Transform& transform);

  /// \param next  the answer of next_clip_norm().
  /// \throws PluginError for another answer there.
  void check_clip_norm(double clip_norm, double unclipped, double next);

  /// \param clipping  has learnt from the release.
  /// \throws PluginError if it scales otherwise there, or has another state.
  void check_scaling(const Released& release, Clipping& clipping);

  /// Tells the other process the state of a clipping that a resumed run goes on from, which was looked
  /// at when it was reached.
  void restore_scaling(Clipping& clipping);

 private:
  class Child;
  void compare(const std::string& who, const StateWriter& question, const std::string& here,
               const char* what);

  const Manifest& manifest_;
  std::unique_ptr<Child> child_;  // null: the plan has nothing to look at
};

}  // namespace privgrad::core
