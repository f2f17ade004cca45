#include "privgrad/studies/run_audit.hpp"

#include <optional>

#include "canary_choice.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/outcome.hpp"
#include "privgrad/statement/statement.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr const char* kFile = "audit.json";
// The most bytes to read; files of audits and runs are far smaller.
constexpr std::size_t kMostRecord = std::size_t{1} << 20;
constexpr std::size_t kMostOfRun = std::size_t{64} << 20;
constexpr int kDeepest = 32;
constexpr std::uint64_t kMostCoins = std::uint64_t{1} << 24;

Json object_in(const RecordDirectory& directory, const std::string& name, std::size_t most) {
  const std::string text = directory.read(name, most);
  if (const std::string wrong = json_problem(kDeepest, text); !wrong.empty())
    throw IoError(name + ": " + wrong);
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw IoError(name + ": holds no JSON object");
  return json;
}

/// The files and hashes that bind an audit to this run.
Json what_it_audits(const RecordDirectory& directory, const Verification& verified) {
  Json audits = Json::object();
  for (const auto& [name, hash] : verified.seals) audits[name] = hash;
  const std::optional<std::string> manifest = directory.sha256("manifest.yaml");
  audits["manifest.yaml"] = manifest ? Json(*manifest) : Json(nullptr);
  return audits;
}

/// Requires a complete run, because a bound concerns all steps that were planned and paid for.
void check_whole(const RecordDirectory& directory) {
  const Json status = object_in(directory, "summary.json", kMostOfRun).value("status", Json());
  if (status == "completed" || status == "budget_exhausted") return;
  throw ConfigError("the run ended as " + status.dump() +
                    "; an audit is of all steps that a budget pays for, and its bound would stand "
                    "beside the epsilon of fewer");
}

std::uint64_t coins_of(const Json& record) {
  return record.at("runs").get<std::uint64_t>() > 1 ||
                 record.at("method").get<std::string>().starts_with("repeated")
             ? guessed_runs(record.at("runs").get<std::uint64_t>(),
                            record.at("canaries").get<std::uint64_t>())
             : record.at("canaries").get<std::uint64_t>();
}

/// Recomputes the bound of the record from its guesses.
AuditBound bound_again(const Json& record, const Verification& verified) {
  const Guesses guesses{coins_of(record), record.at("guesses").get<std::uint64_t>(),
                        record.at("correct").get<std::uint64_t>()};
  const double confidence = record.at("confidence").get<double>();
  const double delta = record.at("delta").get<double>();
  if (guesses.canaries > kMostCoins || guesses.made > guesses.canaries ||
      guesses.correct > guesses.made || !(confidence > 0.0 && confidence < 1.0) ||
      !(delta >= 0.0 && delta < 1.0))
    throw ConfigError("has numbers that no audit writes");
  std::optional<SampledFamily> family;
  if (verified.charged) family = sampled_family(*verified.charged, verified.adjacency);
  return bound_by(record.at("method").get<std::string>(), guesses, delta, confidence, family);
}

void check_record(const Json& record, const RecordDirectory& directory, Verification& verified) {
  const auto problem = [&](const std::string& what) {
    verified.problems.push_back(std::string(kFile) + ": " + what);
  };
  if (record.value("audits", Json()) != what_it_audits(directory, verified))
    return problem(
        "is of another run: it names another manifest, or another last line of a ledger");
  const double upper = record.at("epsilon_upper").get<double>();
  const double lower = record.at("epsilon_lower").get<double>();
  if (!verified.epsilon || !nearly_equal(upper, *verified.epsilon) ||
      !nearly_equal(record.at("delta"), verified.delta ? Json(*verified.delta) : Json()))
    return problem("says another epsilon or delta than the run proves");
  if (!nearly_equal(lower, bound_again(record, verified).epsilon))
    return problem("has another 'epsilon_lower' than follows from its guesses");
  if (lower > upper)
    return problem("contradicts the proof: epsilon is at least " + format_number(lower));
  const Json statement = object_in(directory, "statement.json", kMostOfRun);
  if (!are_files_of(facts_in<Statement>(statement, "statement.json").versions,
                    facts_in<Versions>(record.value("versions", Json::object()), kFile)))
    verified.notes.emplace_back(
        "audit.json: the plugins or the program that it attacked are not the files that the run "
        "had");
  verified.notes.emplace_back(
      "audit.json: its bound follows from its guesses, which only --audit checks; no ledger "
      "binds it, and a lower bound proves nothing about privacy");
}

}  // namespace

RunAudit audit_run(const RecordDirectory& directory, const Catalog& catalog, AuditOptions options) {
  if (options.neighbours != AuditNeighbours::canary)
    throw ConfigError("neighbours: the neighbours in the audit of a run differ in a canary");
  if (options.exposure)
    throw ConfigError("exposure: is measured only for a manifest, whose model is trained");
  const Verification verified = verify_run(directory, catalog);
  if (!verified.verified()) {
    throw PrivacyError(directory.path().string() + ": does not verify (" +
                       verified.problems.front() + "); what it proves cannot be audited");
  }
  check_whole(directory);
  const Manifest manifest =
      parse_manifest(directory.read("manifest.yaml", kMaxYamlBytes),
                     directory.path() / "manifest.yaml", {}, catalog, DataFiles::may_be_missing);
  const Plan plan = make_plan(manifest, facts_from_json(directory.read("facts.json", kMostOfRun)));
  // This also refuses federated runs, so the run has only one ledger and one seal.
  if (const auto why = refuses_audit(plan)) throw ConfigError(*why);
  options.rows = AuditRows::drawn;
  options.key = RandomKey::from_public_hex(verified.seals.front().second).derive("audit.json");
  RunAudit made{audit(plan, options), {}};
  made.record = to_json(made.result);
  made.record.erase("seconds");
  made.record["rows"] = "drawn";
  made.record["versions"] = to_json(privacy_statement(plan, outcome_of_all(plan)).versions);
  made.record["audits"] = what_it_audits(directory, verified);
  return made;
}

void check_audit(const RecordDirectory& directory, Verification& verified) {
  if (!directory.has(kFile)) return;
  try {
    check_record(object_in(directory, kFile, kMostRecord), directory, verified);
  } catch (const IoError& failure) {
    verified.problems.emplace_back(failure.what());
  } catch (const ConfigError& failure) {
    verified.problems.push_back(std::string(kFile) + ": " + failure.what());
  } catch (const Json::exception&) {
    verified.problems.push_back(std::string(kFile) + ": is not what an audit writes");
  }
}

void repeat_audit(const RecordDirectory& directory, const Catalog& catalog, int threads,
                  Verification& verified) {
  const Json record = object_in(directory, kFile, kMostRecord);
  AuditOptions options;
  options.threads = threads;
  try {
    const bool repeated = record.at("method").get<std::string>().starts_with("repeated");
    options.kind = repeated ? AuditKind::repeated : AuditKind::one_run;
    options.canaries = record.at("canaries").get<std::uint64_t>();
    options.runs = record.at("runs").get<std::uint64_t>();
    options.confidence = record.at("confidence").get<double>();
  } catch (const Json::exception&) {
    throw IoError(std::string(kFile) + ": is not what an audit writes");
  }
  if (options.runs > kMostCoins)
    throw IoError(std::string(kFile) + ": has numbers that no audit writes");
  Json again = audit_run(directory, catalog, options).record;
  // Rebuilt plugins are different files, but give the same numbers.
  if (record.contains("versions")) again["versions"] = record.at("versions");
  if (nearly_equal(record, again)) {
    verified.notes.emplace_back("audit.json: was repeated with the same result");
    return;
  }
  verified.problems.push_back(std::string(kFile) + ": differs from the repeated audit");
}

}  // namespace privgrad::core
