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
  /// 2^-9 for bf16. Sums are in float32 or finer.
  virtual double unit_roundoff() const = 0;

  /// Whether the bits of these products follow from what is specified of the arithmetic. If not, that
  /// they are the same wherever an example stands in a batch was tried at best, and a plan counts the
  /// program's promises of bits (ExactClipping, ReproducibleRows) as not made: it lists
  /// `floating_point`.
  virtual bool is_specified() const = 0;
};

}  // namespace privgrad
