// For programs that compute products in less than float32 precision, such as bf16.
#pragma once

#include "privgrad/export.hpp"

namespace privgrad {

/// Optional ability of a program, found with dynamic_cast: how coarsely it rounds the factors of its
/// forward and backward products. Programs without it compute as float32 does.
///
/// The conformance suite compares losses and gradients with the definitions as closely as this
/// allows. All else is as for any program: above all, what an example gets is a function of the
/// example and the parameters alone.
///
/// Privacy: public, as the manifest is.
/// Threads: may be asked concurrently.
class PRIVGRAD_API OperandPrecision {
 public:
  virtual ~OperandPrecision();

  /// The largest relative change of a factor by its rounding: 2^-24 for float32, 2^-11 for tf32,
  /// 2^-8 for bf16. Sums are in float32 or finer.
  virtual double unit_roundoff() const = 0;

  /// Whether the specification of the arithmetic determines the bits of these products. If not, it
  /// was at best tested that they do not depend on an example's place in a batch, and a plan counts
  /// the program's promises about bits (ExactClipping, ReproducibleRows) as not made: it lists
  /// `floating_point`.
  virtual bool is_specified() const = 0;
};

}  // namespace privgrad
