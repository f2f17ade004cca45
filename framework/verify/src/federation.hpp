// Verifies the charges of a federated run's clients, if the clients were separate programs.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "privgrad/catalog.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::core {

/// Checks each client by the client's directory and receipt. A note for each client names the
/// available proof, or says that there is none.
/// \param directory  the server's directory.
/// \param summary  the server's summary.json.
/// \param clients  the directories of clients.
/// \param result  out: problems and notes; `epsilon` rises to the largest epsilon of a client.
/// \throws IoError if a directory cannot be read; nlohmann::json::exception for a wrong summary.
void check_federation(const RecordDirectory& directory, const Catalog& catalog, const Plan& plan,
                      const nlohmann::json& summary, std::span<const std::filesystem::path> clients,
                      Verification& result);

}  // namespace privgrad::core
