// How the elements of a sum are divided among the processes of a cluster.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/trust/slice.hpp"

namespace privgrad::core {

/// Divides the elements of a step's sum among processes, in order, into slices of about the same
/// size that consist of whole pieces (ExactClipping::piece_ends()). The division depends only on
/// the network and the number of processes, so all processes compute the same one.
class Slices {
 public:
  /// \param processes  > 0. The first process has elements; others may have none if there are few
  ///   pieces.
  /// \param with_count  whether the count follows the parameters as one more element
  ///   (joint_release.hpp); it is in the last process's slice.
  Slices(const Program& program, std::size_t processes, bool with_count);

  std::size_t processes() const noexcept { return ends_.size(); }
  Slice of(std::size_t process) const;
  /// Returns the process's slice of the parameters, without the count.
  Slice parameters_of(std::size_t process) const;

  /// [processes]: the ends of the slices.
  std::span<const std::size_t> ends() const noexcept { return ends_; }
  /// The ends of the slices of the parameters, without the count.
  std::vector<std::size_t> parameter_ends() const;
  /// The ends of the pieces; each piece lies in one slice.
  std::span<const std::size_t> pieces() const noexcept { return pieces_; }

 private:
  std::vector<std::size_t> pieces_, ends_;
  std::size_t parameters_;
};

}  // namespace privgrad::core
