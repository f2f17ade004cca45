// Clipping rules that other code, such as a GPU kernel, can carry out bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

/// The rule that computes the factors of one example's gradient from its own norms. For the norm n
/// of the whole gradient, or of one of its groups, and the bound c, the factor is
///
///     shorten:   n <= c ? 1 : c / n
///     normalize: c / (n + gamma), or 0 if that is not finite
struct ClipRule {
  enum class Kind : std::uint32_t { shorten = 1, normalize };

  Kind kind = Kind::shorten;
  double gamma = 0.0;  ///< Finite, >= 0.
  /// Either one bound, for the norm of the whole gradient, or one bound per group. Finite, >= 0.
  std::vector<double> bounds;
};

/// Computes the factors of one example by a rule.
/// \param squared_norms  >= 0, with a finite sum, [groups]: of the example's gradient.
/// \param factors  out: finite, >= 0, [groups].
PRIVGRAD_API void rule_factors(const ClipRule& rule, std::span<const double> squared_norms,
                               std::span<double> factors);

/// Optional ability of a Clipping: its factors follow from a ClipRule, so a program that keeps its
/// steps on a device (ResidentSteps) can compute them there.
///
/// In these steps the core uses only the rule, and never compares it with factors(): whether a run
/// ends must not depend on private norms. Both must give the same bits for all norms; the
/// conformance suite tests this. A wrong rule costs accuracy, not privacy, as wrong factors do.
class PRIVGRAD_API HasClipRule {
 public:
  virtual ~HasClipRule();
  /// \param clip_norm  finite, > 0.
  /// \returns the rule whose rule_factors() equal factors() for this clip norm. It has the same
  ///   number of bounds for every clip norm, and depends only on start() and the argument.
  virtual ClipRule clip_rule(double clip_norm) const = 0;
};

/// How the gradients of a step become cells: the factors of the rule, reduced to the clip norm as
/// the core reduces them (clip_factors.hpp), times the cells of a unit of the gradient.
struct CellScaling {
  ClipRule rule;
  double clip_norm = 0.0;        ///< Finite, > 0.
  double cells_of_a_unit = 0.0;  ///< Finite, > 0: scale of a gradient whose factor is 1.
  std::uint64_t most_cells = 0;  ///< The largest length of a contribution; at most 2^28.
};

/// Computes the scales of one example (ExactClipping::make_cells()). Every operation is on doubles,
/// rounded once, in the order written in clip_rule.cpp: code that follows it gets the same bits.
/// This is the reference for all other implementations.
/// \param squared_norms  [groups]: of the example's gradient; if their sum is not finite, all
///   scales are 0.
/// \param scales  out: finite, >= 0, [groups].
PRIVGRAD_API void cell_scales(const CellScaling& scaling, std::span<const double> squared_norms,
                              std::span<double> scales);

}  // namespace privgrad
