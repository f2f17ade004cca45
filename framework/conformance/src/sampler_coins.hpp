// Checks that a sampler's batches have as many coins, and as independent coins, as its charge
// assumes.
#pragma once

#include "checker.hpp"

namespace privgrad::testing {

/// Checks the rule that each row is drawn by its own coin, and each key draws its own batch.
/// Compares the batches of thousands of keys:
///
/// - no two batches are equal: a sampler with only 20 bits for a batch draws some batches twice;
/// - any two rows, and all pairs of rows at each distance, are drawn together as often as
///   independent rows.
///
/// For some keys, batches are drawn from very many rows. In all of these batches together, no run
/// of rows that is too long to repeat by chance occurs twice, wherever it begins.
void check_coins(Checker& checker);

}  // namespace privgrad::testing
