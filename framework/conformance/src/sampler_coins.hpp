// Checks that the coins of a sampler's batches are as many, and as independent, as its charge
// assumes.
#pragma once

#include "checker.hpp"

namespace privgrad::testing {

/// The rule that each row is drawn by its own coin, and each key draws its own batch. Compares
/// batches of thousands of keys:
///
/// - no two batches are equal: a sampler with only 20 bits for a batch draws some batches twice;
/// - each two rows, and all rows at each distance from each other, are drawn together as often as
///   independent ones.
///
/// For some keys, batches among very many rows are compared with each other and with themselves: no
/// run of rows that is too long to be repeated by chance is drawn twice, at any distance.
void check_coins(Checker& checker);

}  // namespace privgrad::testing
