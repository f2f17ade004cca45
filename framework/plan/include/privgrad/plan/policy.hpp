// A site's policy: what the administrator of a machine demands of runs on its data.
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// One rule of a policy, for the data whose files it matches.
struct PolicyRule {
  Params terms = {};  ///< This rule's entry of `data`.
  /// The rule's `files`; links in the part before the first wildcard are resolved. `*` matches any
  /// text, including slashes.
  std::vector<std::string> patterns = {};
};

/// A policy: docs/how-to/site-policy.md describes its keys.
struct Policy {
  std::filesystem::path file = {};
  Params keys = {};
  std::vector<PolicyRule> rules = {};
};

/// \param file  for messages.
/// \throws ManifestError that lists every problem.
Policy parse_policy(std::string_view text, const std::filesystem::path& file);

/// All policies that a run must satisfy: the files in PRIVGRAD_POLICY, separated by ':', and, if
/// they exist, /etc/privgrad/policy.yaml and etc/privgrad/policy.yaml below the program's prefix
/// (unless this is /usr). The prefix follows only from the file that contains this code, so no
/// caller can choose it.
/// \throws IoError, ManifestError for a policy that cannot be read; PrivacyError for a system
///   policy that anyone except root and the user may change.
std::vector<Policy> policies_in_force();

/// The facts about a run that policies judge.
struct RunForPolicy {
  Mode mode = Mode::research;
  bool has_data = true;  ///< False for a server whose clients have the data.
  /// The files that the data's source names, absolute and without links.
  std::vector<std::filesystem::path> files = {};
  double delta = 0.0;
  PrivacyUnit unit = PrivacyUnit::example;
  Adjacency adjacency = Adjacency::add_or_remove_one;
  std::string accountant = {}, accountant_in_full = {};  ///< "pld", "privgrad.pld:pld".
  bool has_noise = true, has_seed = false, test_is_public = false;
  struct Account {
    std::filesystem::path file = {};
    double epsilon = 0.0, delta = 0.0;
    std::string opened_on = {};  ///< "2026-12-31"; "" if the account does not say.
  };
  std::optional<Account> account = {};
  std::vector<PluginIdentity> plugins = {};
  /// For a client that is a separate program: its server as HOST:PORT, "" if it is not known.
  std::optional<std::string> server = {};
  bool sends_exact_changes = false;  ///< Whether a client sends exact changes to `server`.
  std::time_t now = std::time(nullptr);
  /// Known once the plan is made: its proved cost, and its first unaccounted output.
  std::optional<PrivacyAnswer> epsilon = {};
  std::string unaccounted = {};
  /// A use of the rows, besides the plan's mechanism, that is not charged; "" if there is none.
  std::string unprotected = {};
};

/// Describes a run for refusal().
/// \param data  the source to be read; null: the process has no data.
/// \param plan  null if it is not made yet.
/// \param server  RunForPolicy::server.
RunForPolicy run_for_policy(const Manifest& manifest, const ComponentUse* data,
                            const Plan* plan = nullptr,
                            std::optional<std::string> server = std::nullopt);

/// Whether a policy allows a run, as far as the run is known. No other code decides this.
/// \returns the refusal, one line "FILE:LINE: error: RULE: what the run has, what is allowed";
///   nothing if the policy allows the run.
std::optional<std::string> refusal(const Policy& policy, const RunForPolicy& run);

/// A refusal by at least one policy.
class PolicyError : public PrivacyError {
 public:
  explicit PolicyError(std::map<std::filesystem::path, std::string> refusals)
      : PrivacyError(refusals.begin()->second), refusals_(std::move(refusals)) {}
  /// The refusals by policy file; not empty.
  const std::map<std::filesystem::path, std::string>& refusals() const noexcept {
    return refusals_;
  }

 private:
  std::map<std::filesystem::path, std::string> refusals_;
};

/// Refuses a run that a policy in force does not allow. make_plan() calls it before it opens the
/// data, and again with the plan; a client with its own data and a server call it themselves.
/// \param data, plan, server  as for run_for_policy().
/// \throws PolicyError; errors of policies_in_force().
void obey_policies(const Manifest& manifest, const ComponentUse* data, const Plan* plan = nullptr,
                   const std::optional<std::string>& server = std::nullopt);

/// Refuses to use rows without noise or a charge if a policy in force has a rule for these rows.
/// \param use  a clause for the refusal: "an audit trains on the rows without a charge".
/// \throws PolicyError; errors of policies_in_force().
void obey_policies_unprotected(const Manifest& manifest, const std::string& use);

/// Refuses a plugin that a run uses without naming it in its manifest, such as a --cluster plugin.
/// \throws PolicyError; errors of policies_in_force().
void obey_policies(const PluginIdentity& plugin);

}  // namespace privgrad::core
