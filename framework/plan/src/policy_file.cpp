// Reads policies, and finds the policies in force.
#include <cstdlib>
#include <sstream>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/digest/trusted_path.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/plan/policy.hpp"
#include "program_place.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

ParamSpec texts(const char* name, const char* doc, std::vector<std::string> choices = {}) {
  return param::list(name, doc, param::text("", "").one_of(std::move(choices))).at_least_items(1);
}

std::vector<ParamSpec> rule_keys() {
  return {
      texts("files", "patterns of the absolute paths of data; '*' is all data"),
      param::real("epsilon", "the largest epsilon that a run may state").above(0),
      param::real("delta", "the largest delta at which a run may state it").above(0).below(1),
      param::text("account", "the account that must pay").optional(),
      param::integer("opened_within_days", "the greatest age of that account")
          .at_least(1)
          .at_most(36'500)
          .optional(),
      texts("units", "allowed units", {"example", "client"}).optional(),
      texts("adjacencies", "allowed adjacencies", {"add_or_remove_one", "replace_one", "zero_out"})
          .optional(),
      texts("accountants", "allowed accountants").optional(),
      param::boolean("test_is_public", "whether a run may declare its test rows public")
          .optional()};
}

std::vector<ParamSpec> policy_keys() {
  const auto keys = [](const char* name, const char* doc) {
    return param::list(name, doc, param::text("", "")).optional();
  };
  return {param::integer("privgrad_policy", "write privgrad_policy: 1").at_least(1).at_most(1),
          param::text("mode", "the only mode that starts").one_of({"release"}).optional(),
          param::list("data", "what runs on which data may do", param::object("", "", rule_keys()))
              .optional(),
          param::object("plugins", "which plugins may be loaded, besides built-in ones",
                        {keys("sha256", "hashes of their files"), keys("signers", "public keys")})
              .optional(),
          texts("servers", "HOST:PORT of servers that clients may join").optional()};
}

/// Reports each text at `key`, which holds one text or a list, unless `fits` accepts it.
template <class Fits>
void check_each(const Params& keys, const char* key, const std::string& where, const char* expected,
                ManifestProblems& problems, Fits fits) {
  const Value* value = keys.value().find(key);
  if (value == nullptr) return;
  const auto* list = std::get_if<Value::List>(&value->data());
  for (const Value& one : list != nullptr ? *list : Value::List{*value}) {
    const std::string& text = std::get<std::string>(one.data());
    if (!fits(text)) problems.add(one.mark, where + key, "is '" + text + "', expected " + expected);
  }
}

bool is_absolute(const std::string& text) { return text.starts_with('/'); }

/// Resolves links in the pattern's part before the first wildcard; paths of data have no links.
std::string resolved_pattern(const std::string& pattern) {
  const std::size_t wild = pattern.find_first_of("*?[\\");
  if (wild == 0) return pattern;
  const std::size_t end = wild == pattern.npos ? pattern.size() : pattern.rfind('/', wild);
  const std::string fixed = fs::weakly_canonical(pattern.substr(0, end)).string();
  return (fixed == "/" ? "" : fixed) + pattern.substr(end);
}

/// Checks rules that the declarations of keys cannot express.
void check_texts(const Params& keys, ManifestProblems& problems) {
  if (keys.has("plugins")) {
    for (const char* key : {"sha256", "signers"}) {
      check_each(keys.object("plugins"), key, "plugins.", "64 lower-case hex digits", problems,
                 is_sha256_hex);
    }
  }
  if (!keys.has("data")) return;
  std::size_t number = 0;
  for (const Params& rule : keys.objects("data")) {
    const std::string where = "data." + std::to_string(number++) + ".";
    check_each(rule, "files", where, "an absolute path or '*'", problems,
               [](const std::string& text) { return text == "*" || is_absolute(text); });
    check_each(rule, "account", where, "an absolute path", problems, is_absolute);
    if (rule.has("opened_within_days") && !rule.has("account")) {
      problems.add(rule.value().find("opened_within_days")->mark, where + "opened_within_days",
                   "goes with account");
    }
  }
}

Policy read_system_policy(const fs::path& file) {
  try {
    return parse_policy(read_yaml_file(resolve_trusted(file)), file);
  } catch (const PluginError& problem) {
    throw PrivacyError(file.string() +
                       ": the system's policy is not to be trusted, so nothing "
                       "starts: " +
                       problem.what());
  }
}

}  // namespace

Policy parse_policy(std::string_view text, const fs::path& file) {
  ManifestProblems problems(one_line(file.string(), 4096));
  std::vector<Problem> found;
  const std::optional<Value> root = parse_yaml(text, found);
  problems.add_yaml(found);
  if (!root) problems.throw_if_any();
  found.clear();
  Policy policy{.file = file, .keys = Params::check(policy_keys(), *root, found)};
  for (const Problem& problem : found) problems.add(problem.mark, problem.where, problem.what);
  problems.throw_if_any();
  check_texts(policy.keys, problems);
  problems.throw_if_any();
  if (!policy.keys.has("data")) return policy;
  for (const Params& terms : policy.keys.objects("data")) {
    policy.rules.push_back({.terms = terms});
    for (const std::string& pattern : terms.texts("files"))
      policy.rules.back().patterns.push_back(resolved_pattern(pattern));
  }
  return policy;
}

std::vector<Policy> policies_in_force() {
  std::vector<Policy> policies;
  std::vector<fs::path> files{"/etc/privgrad/policy.yaml"};
  // Packages with the prefix /usr have their configuration in /etc.
  if (const fs::path prefix = program_prefix(); prefix != "/usr" && prefix != "/")
    files.push_back(prefix / "etc/privgrad/policy.yaml");
  for (const fs::path& file : files)
    if (fs::exists(fs::symlink_status(file))) policies.push_back(read_system_policy(file));
  const char* more = std::getenv("PRIVGRAD_POLICY");
  std::istringstream named(more == nullptr ? "" : more);
  for (std::string file; std::getline(named, file, ':');)
    if (!file.empty()) policies.push_back(parse_policy(read_yaml_file(file), file));
  return policies;
}

}  // namespace privgrad::core
