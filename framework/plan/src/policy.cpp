#include "privgrad/plan/policy.hpp"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "privgrad/data_source.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/names.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/value.hpp"
#include "program_place.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

fs::path without_links(const fs::path& file) { return fs::weakly_canonical(fs::absolute(file)); }

bool matches(const PolicyRule& rule, const std::string& file) {
  return std::ranges::any_of(rule.patterns, [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), file.c_str(), 0) == 0;
  });
}

/// A list in a policy; empty if the key is absent.
std::vector<std::string> list_of(const Params& keys, std::string_view key) {
  return keys.has(key) ? keys.texts(key) : std::vector<std::string>{};
}

bool is_in(const std::vector<std::string>& allowed, std::string_view one) {
  return std::ranges::find(allowed, one) != allowed.end();
}

/// Keeps the first refusal of a policy.
class Verdict {
 public:
  explicit Verdict(const Policy& policy) : policy_(policy) {}

  /// From now on, keys are looked up in this rule.
  void of_rule(const PolicyRule& rule, std::size_t number) {
    keys_ = &rule.terms.value();
    where_ = "data." + std::to_string(number) + ".";
  }

  void unless(bool allowed, const char* key, const std::string& what) {
    if (allowed || refusal_) return;
    const Value* written = keys_->find(key);
    refusal_ = one_line(policy_.file.string(), 4096) + ":" +
               std::to_string((written != nullptr ? written : keys_)->mark.line) +
               ": error: " + where_ + key + ": " + one_line(what, 8192);
  }

  const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  const Policy& policy_;
  const Value* keys_ = &policy_.keys.value();
  std::string where_;
  std::optional<std::string> refusal_;
};

void ask_account(const Params& terms, const RunForPolicy& run, Verdict& verdict) {
  if (!terms.has("account")) return;
  const std::string wanted = ", expected " + terms.text("account");
  verdict.unless(run.account.has_value(), "account",
                 "the run names no account" + wanted + " as privacy.account");
  if (!run.account) return;
  const double epsilon = terms.real("epsilon"), delta = terms.real("delta");
  verdict.unless(without_links(run.account->file) == without_links(terms.path("account")),
                 "account", "the run's account is " + run.account->file.string() + wanted);
  verdict.unless(run.account->epsilon <= epsilon && run.account->delta <= delta, "account",
                 "the account pays for epsilon " + format_number(run.account->epsilon) +
                     " at delta " + format_number(run.account->delta) + ", allowed is at most " +
                     format_number(epsilon) + " at " + format_number(delta));
  if (!terms.has("opened_within_days")) return;
  const std::int64_t days = terms.integer("opened_within_days");
  const std::string& opened = run.account->opened_on;
  verdict.unless(utc_day(run.now - days * 24 * 60 * 60) <= opened && opened <= utc_day(run.now),
                 "opened_within_days",
                 "the account was opened on '" + opened + "', allowed are the last " +
                     std::to_string(days) + " days");
}

void ask_rule(const Params& terms, const RunForPolicy& run, Verdict& verdict) {
  const auto list = [&](const char* key, std::string_view has, const std::string& verb,
                        std::string_view in_full = "") {
    const std::vector<std::string> allowed = list_of(terms, key);
    verdict.unless(allowed.empty() || is_in(allowed, has) || is_in(allowed, in_full), key,
                   "the run " + verb + std::string(has) + ", allowed are " + listed(allowed));
  };
  const std::string allowed = ", allowed is at most ";
  const std::string at_most = allowed + format_number(terms.real("epsilon"));
  verdict.unless(run.unprotected.empty(), "epsilon", run.unprotected + ", so no epsilon holds");
  verdict.unless(run.has_noise, "epsilon", "the run adds no noise, so no epsilon holds" + at_most);
  verdict.unless(
      !run.has_seed, "epsilon",
      "anybody with the run's seed can remove its noise, so no epsilon holds; leave seed "
      "out");
  constexpr const char* kTest = "test_is_public";
  verdict.unless(!run.test_is_public || (terms.has(kTest) && terms.boolean(kTest)), kTest,
                 "the run shows exact metrics on its test rows; leave data.test_is_public out");
  list("units", to_text(run.unit), "protects each ");
  list("adjacencies", to_text(run.adjacency), "is for ");
  list("accountants", run.accountant, "is accounted by ", run.accountant_in_full);
  verdict.unless(run.delta <= terms.real("delta"), "delta",
                 "the run states delta " + format_number(run.delta) + allowed +
                     format_number(terms.real("delta")));
  ask_account(terms, run, verdict);
  if (!run.epsilon) return;
  verdict.unless(run.epsilon->bound != BoundKind::estimate, "accountants",
                 run.accountant + " only estimates the run's epsilon, expected a proof");
  verdict.unless(run.epsilon->value <= terms.real("epsilon"), "epsilon",
                 "the run states epsilon " + format_number(run.epsilon->value) + " at delta " +
                     format_number(run.delta) + at_most);
  verdict.unless(run.unaccounted.empty(), "epsilon",
                 "the run shows or uses '" + run.unaccounted +
                     "', which its epsilon does not cover; use mode: release");
}

void ask_about_data(const Policy& policy, const RunForPolicy& run, Verdict& verdict) {
  if (!policy.keys.has("data") || !run.has_data) return;
  verdict.unless(!run.sends_exact_changes || policy.keys.has("servers"), "data",
                 "the client sends exact changes to its server; allowed where the policy has "
                 "servers");
  std::vector<std::string> files;
  for (const fs::path& file : run.files) files.push_back(file.string());
  if (files.empty()) files.emplace_back();  // the data is in no file
  for (const std::string& file : files) {
    const auto fits = [&](const PolicyRule& rule) { return matches(rule, file); };
    verdict.unless(
        std::ranges::any_of(policy.rules, fits), "data",
        "no rule is for " + (file.empty() ? "data in no file, which only '*' matches" : file));
  }
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    const auto fits = [&](const std::string& file) { return matches(policy.rules[i], file); };
    if (!std::ranges::any_of(files, fits)) continue;
    verdict.of_rule(policy.rules[i], i);
    ask_rule(policy.rules[i].terms, run, verdict);
  }
}

/// Whether a plugin is one of the program's own, and belongs to root.
bool is_built_in(const fs::path& file) {
  // lib/privgrad, lib64/privgrad, lib/x86_64-linux-gnu/privgrad
  const std::string own = without_links(program_prefix()).string() + "/lib*/privgrad/plugins/*";
  struct stat info {};
  return ::fnmatch(own.c_str(), without_links(file).c_str(), 0) == 0 &&
         ::stat(file.c_str(), &info) == 0 && info.st_uid == 0;
}

/// \returns the key that signed a plugin; "" if none did.
std::string signer(const PluginIdentity& plugin) {
  constexpr std::size_t kMostBytes = 4096;
  const std::array seal{std::pair<std::string, std::string>("sha256", plugin.sha256)};
  try {
    return signer_of(Signed::plugin_file, seal, read_whole(plugin.file + ".sig", kMostBytes))
        .value_or("");
  } catch (const IoError&) {
    return "";  // it has no signature
  }
}

void ask_about_plugin(const Params& allowed, const PluginIdentity& plugin, Verdict& verdict) {
  if (is_built_in(plugin.file) || is_in(list_of(allowed, "sha256"), plugin.sha256)) return;
  const std::string key = signer(plugin);
  verdict.unless(!key.empty() && is_in(list_of(allowed, "signers"), key), "plugins",
                 "the run loads " + plugin.name + " (" + plugin.file + ", sha256 " + plugin.sha256 +
                     (key.empty() ? "" : ", signed by " + key) +
                     "), allowed are built-in plugins and the policy's hashes and signers");
}

}  // namespace

RunForPolicy run_for_policy(const Manifest& manifest, const ComponentUse* data, const Plan* plan,
                            std::optional<std::string> server) {
  RunForPolicy run{.mode = manifest.mode,
                   .has_data = data != nullptr,
                   .delta = manifest.target_delta,
                   .unit = unit_of(manifest.federated),
                   .adjacency = manifest.adjacency,
                   .accountant = manifest.accountant.name(),
                   .accountant_in_full = manifest.accountant.component->full_name(),
                   .has_noise = !manifest.noise_off,
                   .has_seed = manifest.seed.has_value(),
                   .test_is_public = manifest.test_is_public};
  if (data != nullptr) {
    const auto source = data->make<DataSource>();
    for (const fs::path& file : data->with_position([&] { return source->files(); }))
      run.files.push_back(without_links(file));
  }
  run.sends_exact_changes =
      server && manifest.federated && manifest.federated->aggregation == Aggregation::dp_fed_avg;
  run.server = std::move(server);
  if (plan != nullptr) {
    run.epsilon = plan->epsilon();
    if (!plan->unaccounted.empty()) run.unaccounted = plan->unaccounted.front().what;
  }
  if (manifest.account) {
    const AccountTerms& terms = manifest.account->terms;
    run.account = {.file = manifest.account->file,
                   .epsilon = terms.target_epsilon,
                   .delta = terms.target_delta,
                   .opened_on = DataAccount(manifest.account->file).opened_on()};
  }
  for (const UsedPlugin& used : plugins_of(manifest)) run.plugins.push_back(*used.plugin);
  if (data != nullptr) run.plugins.push_back(*data->component->plugin);
  if (manifest.cluster.is_given()) run.plugins.push_back(*manifest.cluster.component->plugin);
  return run;
}

std::optional<std::string> refusal(const Policy& policy, const RunForPolicy& run) {
  Verdict verdict(policy);
  verdict.unless(!policy.keys.has("mode") || run.mode == Mode::release, "mode",
                 "the run is in research mode, allowed is release");
  if (policy.keys.has("servers") && run.server) {
    const std::vector<std::string> allowed = policy.keys.texts("servers");
    verdict.unless(is_in(allowed, *run.server), "servers",
                   "the client's server is " + (run.server->empty() ? "not known" : *run.server) +
                       ", allowed are " + listed(allowed));
  }
  if (policy.keys.has("plugins")) {
    for (const PluginIdentity& plugin : run.plugins)
      ask_about_plugin(policy.keys.object("plugins"), plugin, verdict);
  }
  ask_about_data(policy, run, verdict);
  return verdict.refusal();
}

namespace {

/// \param describe  makes the RunForPolicy, if there is a policy.
template <class Describe>
void obey(const Describe& describe) {
  const std::vector<Policy> policies = policies_in_force();
  if (policies.empty()) return;
  const RunForPolicy run = describe();
  std::map<fs::path, std::string> refusals;
  for (const Policy& policy : policies)
    if (auto no = refusal(policy, run)) refusals.emplace(policy.file, *std::move(no));
  if (!refusals.empty()) throw PolicyError(std::move(refusals));
}

}  // namespace

void obey_policies(const Manifest& manifest, const ComponentUse* data, const Plan* plan,
                   const std::optional<std::string>& server) {
  obey([&] { return run_for_policy(manifest, data, plan, server); });
}

void obey_policies_unprotected(const Manifest& manifest, const std::string& use) {
  obey([&] {
    RunForPolicy run = run_for_policy(manifest, &manifest.data);
    run.unprotected = use;
    return run;
  });
}

void obey_policies(const PluginIdentity& plugin) {
  obey([&] {
    RunForPolicy run{.mode = Mode::release, .has_data = false};
    run.plugins.push_back(plugin);
    return run;
  });
}

}  // namespace privgrad::core
