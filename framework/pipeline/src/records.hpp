#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "neighbours.hpp"
#include "privgrad/trust/ledger_reader.hpp"

namespace privgrad::core {

/// \returns the first thing in which two ledgers differ; nothing if they say the same.
std::optional<std::string> difference_of(const LedgerContents& a, const LedgerContents& b);

/// Runs the plan on the data and on the neighbour with the same seed, and compares what both leave in
/// their directories but for the model's numbers and the measurements of research mode. Runs end
/// with their first measurement: a twentieth of the steps.
/// \param folder  empty.
/// \returns one line for each thing that differs.
std::vector<std::string> differing_records(const Plan& plan, const RunData& raw, LastRow change,
                                           std::uint64_t seed, const std::filesystem::path& folder);

}  // namespace privgrad::core
