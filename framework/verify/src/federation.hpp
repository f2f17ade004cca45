// Verifies what the clients of a federated run, which were separate programs, have charged.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "privgrad/catalog.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Checks each client of a server by its own directory, by its receipt, or not at all, and says
/// which in a note.
/// \param directory  of the server.
/// \param summary  the server's summary.json.
/// \param clients  the directories of clients.
/// \param result  out: problems and notes; epsilon rises to that of a client's directory.
/// \throws IoError if a directory cannot be read; nlohmann::json::exception for a wrong summary.
void check_federation(const RecordDirectory& directory, const Catalog& catalog, const Plan& plan,
                      const nlohmann::json& summary, std::span<const std::filesystem::path> clients,
                      Verification& result);

}  // namespace privgrad::core
