// Verification of a run by its files alone, and of the data that its ledgers are bound to.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/event.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/record/record_directory.hpp"

namespace privgrad::core {

/// Whether two JSON values are the same but for roundings: numbers may differ by one in 1e9, which
/// another processor's logarithms can make of the same calibration. Numbers in the text of a
/// "note", which an accountant writes about its own errors, may be any: no claim rests on them.
bool nearly_equal(const nlohmann::json& a, const nlohmann::json& b);

/// A member of what is said about a run that differs from the same derived again. Answers of
/// accountants (each "epsilon" and its "lower" bound, a "spent_epsilon", what a membership test
/// finds) may differ by kOfProcessors, everything else as above.
/// \returns "" where no member of `derived` differs; `said` may have others.
std::string first_difference(const nlohmann::json& said, const nlohmann::json& derived);

/// The result of verifying a run by its files.
struct Verification {
  /// Derived again (the larger of what was recorded and derived, which may differ by kOfProcessors):
  /// the run's guarantee at delta, to the client that was asked about or to everybody; nothing: it is
  /// not finite, or could not be derived.
  std::optional<double> epsilon, delta;
  /// The charges of the plan that was made again, and their adjacency; nothing: there is no such
  /// plan.
  std::optional<Event> charged;
  Adjacency adjacency = Adjacency::add_or_remove_one;
  /// By name: {"role": "named" | "second", "epsilon", "lower", "bound", "note"}.
  nlohmann::json accountants = nlohmann::json::object();
  std::vector<std::string> problems;  ///< "FILE: the problem"; none: it is verified.
  std::vector<std::string> notes;     ///< Parts not derived again, and limits of the check.
  /// The name of each ledger, and the hash of its last line: all that the run has left follows
  /// from them.
  std::vector<std::pair<std::string, std::string>> seals;

  bool verified() const { return problems.empty(); }
};

/// Checks a run by the files of its directory and the loaded plugins, without its data:
/// - the chains of its ledgers are whole and closed, and all files are those that they bind;
/// - the plan is made again from manifest.yaml and facts.json, and every line of every ledger is a
///   charge of that plan, in order;
/// - the accountant that the manifest names is asked again about the events of the ledgers, after
///   each payment, and a second one that has a proof about all of them;
/// - statement, summary, schedules and the model's metadata are made again from the plan and the
///   ledgers, and compared.
///
/// It cannot see a run whose chain was made anew from its first line on by somebody who has this
/// program, unless the last line was signed or written down elsewhere; nor whether the run looked
/// at the data as it says (the plugins of the lock file answer for that).
/// \param client  in a run with a ledger for each client: the one whose guarantee is asked for.
/// \throws ConfigError if there is no such client.
Verification verify_run(const RecordDirectory& directory, const Catalog& catalog,
                        std::optional<std::size_t> client = std::nullopt);

/// Whether the data that the manifest of the run names is the data that its ledgers are bound to.
/// \param opening  the file that the run left; empty: the opening of its seed.
/// \returns problems; none: it is the same.
/// \throws ConfigError for a file that is no opening, IoError if the data cannot be read.
std::vector<std::string> verify_data(const RecordDirectory& directory, const Catalog& catalog,
                                     const std::filesystem::path& opening);

}  // namespace privgrad::core
