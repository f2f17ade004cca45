// Whether the coins of a sampler's batches are as many, and as independent, as it is charged for.
#pragma once

#include "checker.hpp"

namespace privgrad::testing {

/// The rule that rows are drawn by coins of their own, and each key draws its own batch. Batches of
/// thousands of keys are compared:
///   - no two are the same: a sampler that has 20 bits for a batch has some of them twice;
///   - each two rows, and all rows at each distance from each other, are together as often as
///     independent ones.
/// Of some keys, batches among very many rows are compared with each other and with themselves: no
/// run of rows that is so long that chance makes no two alike is drawn twice, at whatever distance.
void check_coins(Checker& checker);

}  // namespace privgrad::testing
