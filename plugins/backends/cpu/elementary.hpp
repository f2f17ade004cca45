// Exponential and logarithm with the same bits on every processor and with every C library.
#pragma once

// The functions consist of additions, multiplications and divisions in double, in a fixed order,
// without fused multiply-adds.
namespace privgrad::cpu {

/// e^x with an error below 2 units in the last place where the result is a normal number, and below
/// 2 of the smallest steps otherwise; NaN for NaN.
double exp_fixed(double x);

/// ln(1 + x) for x >= 0 with an error below 2 units in the last place; NaN for NaN and below 0.
double log1p_fixed(double x);

}  // namespace privgrad::cpu
