// The cost of releases that reuse the noise of earlier steps.
#pragma once

#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/participation.hpp"

namespace privgrad::core {

/// The largest relative difference of the entries' factors between two noise matrices that count as
/// proportional: a few rounding errors.
inline constexpr double kSameFactor = 0x1p-50;

/// The squared sensitivity of C X + zeta, C = N^-1, to each group of rows, for the given order.
///
/// A row that takes part in the steps pi with contributions g_t of norm at most 1 changes C X by
/// C sum_{t in pi} e_t g_t: row r by at most y_r = sum_{t in pi} |C_rt| (triangle inequality), and
/// by exactly that, for equal contributions, where C >= 0. The cost is the sum of y_r^2.
///
/// Let N = D - E, D its diagonal and E strictly lower triangular. If E >= 0, that is, if N has
/// positive entries only on its diagonal, C = sum_k (D^-1 E)^k D^-1 >= 0 (the sum is finite: D^-1 E
/// is nilpotent) and y solves N y = 1_pi: y_t = ([t in pi] + sum_j |N_{t,t-j}| y_{t-j}) / N_tt adds
/// and multiplies non-negative numbers, with 2 window + 2 rounding errors per step: its relative
/// error is below (t + 1) (window + 1) 2^-52 (1 + 2^-20). worst_after has room for that, and for
/// recipes that are proportional to `recipes` up to kSameFactor.
///
/// If E has a negative entry, each row of C is computed from its last entry backwards (C N = I),
/// and a bound on its rounding error is added to its absolute value: steps^2 entries. If that is
/// too many, the upper bound |C| <= sum_k (D^-1 |E|)^k D^-1 = (D - |E|)^-1, entry by entry, is
/// used, with the recurrence above.
///
/// Time of the recurrence: steps x (groups that differ in their steps) x (window + 2), half a
/// nanosecond each.
/// \throws ConfigError if that would take more than about a minute.
CorrelatedCost windowed_cost(const CorrelatedRecipes& recipes, const Participation& participation);

}  // namespace privgrad::core
