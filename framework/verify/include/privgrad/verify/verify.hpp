// Verifies a run from its files, and verifies the data to which its ledgers are bound.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/event.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// Whether two JSON values are equal up to rounding errors: numbers may differ by a relative 1e-9,
/// because logarithms on another processor can change a calibration. Numbers in a "note", in which
/// an accountant describes its own errors, may have any values, because no claim depends on them.
bool nearly_equal(const nlohmann::json& a, const nlohmann::json& b);

/// The first member of `said`, a run's claims, that differs from the recomputed member in
/// `derived`; "" if none differs. Additional members of `said` are ignored. Answers of accountants
/// (each "epsilon" and its "lower" bound, a "spent_epsilon", the bound on a membership test) may
/// differ by kOfProcessors, and all other values as in nearly_equal().
std::string first_difference(const nlohmann::json& said, const nlohmann::json& derived);

/// Whether the program and the plugins in `versions` are the files that a run had, according to
/// `of_run`. Records of the plugins' tests may differ. The run may have had more plugins: the
/// plugin of a data set's account decides no number, and is not loaded for verification.
bool are_files_of(const Versions& of_run, const Versions& versions);

/// The result of verifying a run from its files.
struct Verification {
  /// The run's recomputed guarantee at delta, for the requested client or for everyone: the larger
  /// of the recorded and the recomputed value, which may differ by kOfProcessors. Nothing if the
  /// value is not finite or could not be derived.
  std::optional<double> epsilon, delta;
  /// The charges of the recomputed plan; nothing without such a plan, and for federated runs.
  std::optional<Event> charged;
  Adjacency adjacency = Adjacency::add_or_remove_one;
  /// By name: {"role": "named" | "second", "epsilon", "lower", "bound", "note"}.
  nlohmann::json accountants = nlohmann::json::object();
  std::vector<std::string> problems;  ///< "FILE: the problem"; empty if the run is verified.
  std::vector<std::string> notes;     ///< Parts that were not recomputed, and the check's limits.
  /// The name of each ledger, and the hash of its last line, which covers all files of the run.
  std::vector<std::pair<std::string, std::string>> seals;

  bool verified() const { return problems.empty(); }
};

/// Checks a run from the files of its directory and the loaded plugins, without its data:
/// - the chains of its ledgers are complete and closed, and all files match the hashes in them;
/// - the plan is recomputed from manifest.yaml and facts.json, and every line of every ledger is a
///   charge of that plan, in order;
/// - the manifest's accountant recomputes the cost of the ledgers' events after each payment, and a
///   second accountant that has a proof about all these events computes the total;
/// - statement, summary, schedules and the model's metadata are recomputed from the plan and the
///   ledgers, and compared.
///
/// verify_run() cannot detect a chain that someone fabricated from the first line with this
/// program, unless the last line was signed or is recorded elsewhere. It cannot check that the run
/// read the data as it claims; for this, readers must trust the plugins in the lock file.
/// With fed_avg, a server whose clients were separate programs has no ledger. Its statement, its
/// summary and its model are checked against the plan, and each client by the client's directory or
/// receipt; a note names each client that has neither.
/// \param client  in a run with a ledger for each client: the client whose guarantee is requested.
/// \param clients  the directories of clients of this run that were separate programs.
/// \throws ConfigError if `client` has no ledger, or if `clients` is not empty although the run's
///   clients were not separate programs or its manifest names removed components; IoError if a
///   directory in `clients` cannot be read.
Verification verify_run(const RecordDirectory& directory, const Catalog& catalog,
                        std::optional<std::size_t> client = std::nullopt,
                        std::span<const std::filesystem::path> clients = {});

/// Checks whether the data that the run's manifest names is the data to which the run's ledgers are
/// bound.
/// \param opening  the opening file that the run wrote; empty: the opening follows from its seed.
/// \returns problems; empty if the data is the same.
/// \throws ConfigError if `opening` is not an opening file, or is empty although the run has no
///   seed; IoError if the data cannot be read.
std::vector<std::string> verify_data(const RecordDirectory& directory, const Catalog& catalog,
                                     const std::filesystem::path& opening);

}  // namespace privgrad::core
