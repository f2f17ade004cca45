// Compares the files and ledgers of two runs on neighbouring data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The differences between the files of two runs; the second was led through the first run's
/// releases. Compares files exactly, except for parts that are declared to depend on private rows
/// (the commitment to the data; training metrics and checks in research mode), and the hashes of
/// these parts.
/// \returns one line for each difference.
std::vector<std::string> differing_records(const Plan& plan, const std::filesystem::path& a,
                                           const std::filesystem::path& b);

/// The ledger file of a client of fed_avg; without a client, the file of the run's owner or server.
std::filesystem::path ledger_of(const std::filesystem::path& directory,
                                std::optional<std::size_t> client);

/// The differences between the ledgers of the two runs.
std::vector<std::string> differing_ledgers(const std::filesystem::path& a,
                                           const std::filesystem::path& b);

}  // namespace privgrad::core
