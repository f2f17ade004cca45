#include "privgrad/verify/verify.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "answers_again.hpp"
#include "by_events.hpp"
#include "federation.hpp"
#include "ledger_check.hpp"
#include "privgrad/data/data_commitment.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/record/date.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/schedule_record.hpp"
#include "privgrad/statement/statement.hpp"
#include "privgrad/train/checkpoints.hpp"
#include "privgrad/train/run_output.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/json_problem.hpp"
#include "run_files.hpp"
#include "second_accountant.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

const std::string kStatement = "statement.json";

/// The first member in which two objects differ; "" if none differs.
std::string difference(const Json& said, const Json& derived) {
  if (std::string key = first_difference(said, derived); !key.empty()) return key;
  for (const auto& [key, value] : said.items()) {
    if (!derived.contains(key)) return key;
  }
  return "";
}

class Verifier {
 public:
  Verifier(const RecordDirectory& directory, const Catalog& catalog,
           std::optional<std::size_t> client, std::span<const std::filesystem::path> clients)
      : directory_(directory),
        catalog_(catalog),
        client_(client),
        clients_(clients),
        checker_(result_.problems) {}

  Verification verify() {
    const Evidence evidence = read_evidence(directory_);
    result_.problems = evidence.problems;
    result_.seals = evidence.seals();
    attempt("manifest.yaml", [&] { make_plan_again(); });
    if (!plan_) return std::move(result_);
    if (manifest_->noise_off) {
      problem(kNoNoise);
      return std::move(result_);
    }
    if (has_client_ledgers() && evidence.ledgers.empty() && is_of_server()) {
      attempt("summary.json", [&] { derive_for_server(evidence); });
      return std::move(result_);
    }
    if (!clients_.empty()) {
      throw ConfigError(directory_.path().string() +
                        ": is not the directory of a server whose clients were separate programs");
    }
    if (check_ledgers(evidence)) {
      attempt("ledger", [&] { derive(evidence); });
    }
    return std::move(result_);
  }

 private:
  void problem(std::string what) {
    auto& all = result_.problems;
    if (std::ranges::find(all, what) == all.end()) all.push_back(std::move(what));
  }
  void note(std::string what) { result_.notes.push_back(std::move(what)); }

  /// Reports a failure caused by a file as a problem of that file.
  void attempt(const std::string& file, const std::function<void()>& action) {
    try {
      action();
    } catch (const IoError& failure) {
      problem(first_line(failure.what()));
    } catch (const Error& failure) {
      problem(file + ": cannot be recomputed: " + first_line(failure.what()));
    } catch (const Json::exception&) {
      problem(file + ": is not what a run writes");
    }
  }

  void make_plan_again() {
    manifest_ =
        std::make_unique<Manifest>(manifest_of(directory_, catalog_, DataFiles::may_be_missing));
    PublicFacts facts;
    try {
      facts = facts_from_json(directory_.read("facts.json", kMostDocument));
    } catch (const ConfigError& failure) {
      throw IoError(std::string("facts.json: ") + failure.what());
    }
    plan_ = make_plan(*manifest_, facts);
    if (!plan_->federated) result_.charged = plan_->event;
    result_.adjacency = manifest_->adjacency;
  }

  // ---- the ledgers

  bool has_client_ledgers() const { return plan_->federated && !plan_->federated->at_server; }

  /// Checks each ledger, and that the run has exactly the ledgers that its plan requires.
  bool check_ledgers(const Evidence& evidence) {
    if (has_client_ledgers() && evidence.ledgers.size() == 1 &&
        is_of_client_alone(evidence.ledgers.front().contents.facts))
      return check_ledger_of_client(evidence.ledgers.front());
    const std::size_t wanted = has_client_ledgers() ? plan_->federated->clients.size() : 1;
    const auto name_of = [&](std::size_t i) {
      return has_client_ledgers() ? ledger_of_client(i) : std::string("ledger.jsonl");
    };
    std::size_t found = 0;
    for (std::size_t i = 0; i < wanted; ++i) {
      const auto it = std::ranges::find_if(
          evidence.ledgers, [&](const NamedLedger& ledger) { return ledger.name == name_of(i); });
      if (it == evidence.ledgers.end()) {
        if (!directory_.has(name_of(i))) problem(name_of(i) + ": is missing");
        continue;
      }
      ++found;
      check_ledger(*it, i);
    }
    if (evidence.ledgers.size() > found)
      problem("ledgers: holds ledgers of clients that the run does not have");
    return found == wanted && accounts_.size() == wanted;
  }

  /// Checks the ledger of a client that was a separate program, whose directory contains neither
  /// the model nor the other clients' ledgers.
  bool check_ledger_of_client(const NamedLedger& ledger) {
    for (std::size_t i = 0; i < plan_->federated->clients.size(); ++i) {
      if (ledger.name != ledger_of_client(i)) continue;
      client_ = i;
      is_client_alone_ = true;
      check_ledger(ledger, i);
      return accounts_.size() == 1;
    }
    problem(ledger.name + ": is the ledger of a client that the run does not have");
    return false;
  }

  void check_ledger(const NamedLedger& ledger, std::size_t i) {
    // The last line of such a client's ledger contains the hashes of fewer files.
    if (is_of_client_alone(ledger.contents.facts) && !is_client_alone_)
      problem(ledger.name + ":1: is of a client that was a program of its own, and lies elsewhere");
    const Plan& own = has_client_ledgers() ? *plan_->federated->clients[i].plan : *plan_;
    Json facts = ledger_facts(*plan_, has_client_ledgers() ? std::optional(i) : std::nullopt);
    facts["type"] = "open";
    facts["accountant"] = manifest_->accountant.component->full_name();
    facts["target_epsilon"] =
        manifest_->target_epsilon ? Json(*manifest_->target_epsilon) : Json(nullptr);
    facts["target_delta"] = manifest_->target_delta;
    if (auto account = checker_.check(ledger, *manifest_, &own, facts))
      accounts_.push_back(std::move(*account));
    check_commitment(ledger);
  }

  /// Checks that all ledgers of a run state the same date, and are bound to the same data.
  void check_commitment(const NamedLedger& ledger) {
    const Json& first = ledger.contents.facts;
    if (!first.is_object()) return;
    const Json value = first.value("data_commitment", Json());
    DataCommitment said;
    if (value.is_string()) said.value = value.get<std::string>();
    said.why_not = first.value("no_data_commitment", Json("")).is_string()
                       ? first.value("no_data_commitment", std::string())
                       : std::string();
    const Json date = first.value("date", Json(""));
    const std::string said_date = date.is_string() ? date.get<std::string>() : "?";
    if (!date_) date_ = said_date;
    if (*date_ != said_date || (!said_date.empty() && !is_utc_date(said_date)))
      problem(ledger.name + ":1: does not say when the run began, as the others do");
    if (!commitment_) commitment_ = said;
    if (commitment_->value != said.value)
      problem(ledger.name + ":1: is bound to other data than the ledger before it");
  }

  // ---- the totals of the ledgers

  const LedgerAccount& fullest() const { return accounts_[fullest_client()]; }
  /// The client with the largest total; of several such clients the first, as in the run.
  std::size_t fullest_client() const {
    std::size_t most = 0;
    for (std::size_t i = 1; i < accounts_.size(); ++i) {
      if (accounts_[i].spent.value > accounts_[most].spent.value) most = i;
    }
    return most;
  }

  bool is_accounted_in_full() const { return core::is_accounted_in_full(*plan_, fullest().status); }

  Outcome outcome() {
    const LedgerAccount& account = fullest();
    Outcome outcome;
    outcome.status = account.status;
    for (const LedgerAccount& one : accounts_)
      outcome.steps = std::max(outcome.steps, one.steps_done);
    outcome.paid = {.charged = account.steps, .accounted = account.steps, .beside = {}};
    outcome.epsilon = account.spent;
    outcome.date = date_.value_or("");
    outcome.data = commitment_.value_or(DataCommitment{});
    if (plan_->noise_adapts) {
      outcome.noise = account.noise;
      outcome.epsilon = plan_->epsilon();
    } else if (is_accounted_in_full()) {
      outcome.paid.accounted = plan_->affordable_steps;
      outcome.epsilon = of_all_steps(*plan_);
    } else if (has_client_ledgers()) {
      outcome.client = fullest_client();
    } else if (!plan_->federated) {
      outcome.paid.beside = account.beside;
    }
    return outcome;
  }

  void derive(const Evidence& evidence) {
    for (const LedgerAccount& one : accounts_) {
      if (one.status != accounts_.front().status)
        problem("ledgers: name different endings of the same run");
    }
    if (is_client_alone_) return derive_for_client();
    Outcome made = outcome();
    ask_accountants(made);
    // An unfinished run's statement gives the largest possible cost, so it is not compared.
    const bool is_closed = made.status != RunStatus::unfinished;
    if (!is_closed) return;
    attempt("summary.json", [&] { made.counts = released_counts(); });
    attempt("statement.json", [&] { check_statement(made); });
    attempt("schedules.json", [&] { check_schedules(made); });
    attempt("summary.json", [&] { check_summary(made); });
    attempt("model.safetensors", [&] { check_model(made, evidence); });
    attempt("model.safetensors", [&] { check_learnt(made.counts); });
    attempt("metrics.jsonl", [&] { check_last_metrics(); });
    tell_limits();
  }

  /// The counts in summary.json; the statement and the model file must state the same counts.
  ReleasedCounts released_counts() {
    const Json summary = object_of(directory_, "summary.json");
    try {
      return counts_from_json(*plan_, summary.value("reported", Json()));
    } catch (const IoError& failure) {
      throw IoError(std::string("summary.json: ") + failure.what());
    }
  }

  /// Derives the epsilon of a client that was a separate program: the largest possible cost, which
  /// the client stated before it read an example. The charges until the end of the run are no
  /// bound, because the server, which sees the client's releases, decides when the run ends.
  void derive_for_client() {
    Outcome planned = outcome_of_all(*plan_);
    planned.date = date_.value_or("");
    planned.data = commitment_.value_or(DataCommitment{});
    ask_accountants(planned);
    if (accounts_.front().status == RunStatus::unfinished) return;
    attempt("statement.json", [&] { check_statement(planned); });
    attempt("schedules.json", [&] { check_schedules(planned); });
    note(
        "the directory is that of one client: its model, and what the others charged, lie "
        "elsewhere");
    tell_limits();
  }

  // ---- a server whose clients were separate programs

  /// Whether summary.json describes a run whose clients were separate programs.
  bool is_of_server() {
    if (!directory_.has("summary.json")) return false;
    attempt("summary.json", [&] {
      const Json federated = object_of(directory_, "summary.json").value("federated", Json());
      is_server_ = federated.is_object() && federated.contains("remote");
    });
    return is_server_;
  }

  /// Derives the epsilon of a server from the plan: the largest possible cost.
  void derive_for_server(const Evidence& evidence) {
    const Json said = object_of(directory_, "summary.json");
    Outcome made = outcome_of_all(*plan_);
    const auto status = status_of(said.at("status").get<std::string>());
    if (!status) return problem("summary.json: has no 'status' of a run");
    made.status = *status;
    made.steps = said.at("steps").get<std::uint64_t>();
    made.date = object_of(directory_, "statement.json").value("date", std::string());
    made.data.why_not = kCommittedByClients;
    made.paid.charged = 0;  // the server itself charges nothing
    accounts_.resize(plan_->federated->clients.size());
    ask_accountants(made);
    attempt("statement.json", [&] { check_statement(made); });
    attempt("schedules.json", [&] { check_schedules(made); });
    attempt("summary.json", [&] { check_summary(made); });
    attempt("model.safetensors", [&] { check_model(made, evidence); });
    attempt("metrics.jsonl", [&] { check_last_metrics(); });
    check_federation(directory_, catalog_, *plan_, said, clients_, result_);
    note(
        "the directory is that of a server: epsilon is that of the plan, for clients that obey it; "
        "no ledger binds the model and the other files here");
    tell_limits();
  }

  /// The charges of the ledger, or all charges of the plan for a run that is accounted for in full.
  /// All charges of the plan count, too, if clients were separate programs, because the server had
  /// seen releases when it ended the rounds.
  Charged charged_of(const LedgerAccount& account, const PlanNumbers& plan) const {
    const bool in_full = is_accounted_in_full() || is_client_alone_ || is_server_;
    Charged charged{in_full ? of_all_steps(plan) : account.spent, account.costs,
                    plan.charges_are_bounds || plan_->noise_adapts};
    if (!in_full) return charged;
    charged.costs.clear();
    for (const Charge& charge : plan.beside) charged.costs.push_back(charge.cost);
    for (std::uint64_t i = 0; i < plan.affordable_steps; ++i)
      charged.costs.push_back(plan.charges[i].cost);
    return charged;
  }

  void ask_accountants(const Outcome& made) {
    const std::size_t which = is_client_alone_ ? 0 : client_ ? *client_ : fullest_client();
    const Plan& plan = !has_client_ledgers() ? *plan_
                       : is_client_alone_    ? *plan_->federated->clients[*client_].plan
                                             : *plan_->federated->clients[which].plan;
    Charged charged = charged_of(accounts_[which], plan);
    if (!client_) charged.named = made.epsilon;
    core::ask_accountants(
        *manifest_, catalog_, plan_->noise_adapts.has_value(), charged,
        client_ || !has_client_ledgers() ? 0 : accounts_.size(),
        [&](std::size_t i) { return charged_of(accounts_[i], *plan_->federated->clients[i].plan); },
        result_);
  }

  // ---- the other files of the run

  /// Compares the statement's numbers with the numbers that follow from the plan and the ledgers.
  /// Then recomputes the words from the stated numbers; every letter and digit must match.
  void check_statement(Outcome& made) {
    statement_ = privacy_statement(*plan_, made);
    const Json said = object_of(directory_, "statement.json");
    if (take_epsilon_of(said, made)) statement_ = privacy_statement(*plan_, made);
    const auto versions = facts_in<Versions>(said.value("versions", Json::object()), kStatement);
    if (check_versions(versions)) statement_.versions = versions;
    // Statements of earlier builds lack this member.
    if (!said.contains("gaussian_mu")) statement_.gaussian_mu.reset();
    std::string key = difference(without_words(said), without_words(to_json(statement_)));
    if (key.empty()) statement_ = facts_in<Statement>(said, kStatement);
    statement_ = with_words(std::move(statement_));
    if (key.empty()) key = difference(said, to_json(statement_));
    if (!key.empty()) problem_of("statement.json: has another '" + key);
  }

  void problem_of(const std::string& said) {
    problem(said + "' than the plan and the ledgers, derived again");
  }

  /// Puts the recorded epsilon into `made`, if it differs from the recomputed epsilon only as
  /// answers on two processors may: both are proofs. The verified epsilon is the larger of both.
  /// \returns whether the epsilon of `made` has changed.
  bool take_epsilon_of(const Json& said, Outcome& made) {
    const Json derived{{"epsilon", json_number(made.epsilon.value)}};
    const bool is_it = first_difference(said, derived).empty();
    if (!is_it || !std::isfinite(made.epsilon.value)) return false;
    const double epsilon = said.at("epsilon").get<double>();
    if (result_.epsilon && (!client_ || is_client_alone_))
      result_.epsilon = std::max(*result_.epsilon, epsilon);
    return std::exchange(made.epsilon.value, epsilon) != epsilon;
  }

  static Json without_words(Json statement) {
    for (const char* words : {"stain", "lead", "short", "prose"}) statement.erase(words);
    return statement;
  }

  /// Checks that the lock file, which identifies the run's plugins by hash, has all plugins that
  /// the statement names. The plugins that are loaded now may differ; a note says so.
  /// \returns whether the statement names any plugins.
  bool check_versions(const Versions& said) {
    const std::string lock = directory_.read("privgrad.lock", kMostDocument);
    if (said.plugins.empty()) {
      problem("statement.json: does not say which plugins the run had");
      return false;
    }
    for (const PluginFacts& plugin : said.plugins) {
      // Runs of programs that load no files, such as tests, have an empty lock file.
      if (!lock.empty() && lock.find("\"" + plugin.sha256 + "\"") == lock.npos) {
        problem("statement.json: names a plugin " + Json(plugin.name).dump() +
                " that privgrad.lock does not have");
      }
    }
    if (are_files_of(said, statement_.versions)) return true;
    note(
        "the plugins or the program are not the files that the run had (statement.json, "
        "versions); everything was recomputed with those that are loaded now");
    return true;
  }

  void check_schedules(const Outcome& made) {
    const Json said = object_of(directory_, "schedules.json");
    if (const std::string key = difference(said, to_json(schedule_record(*plan_, made)));
        !key.empty())
      problem("schedules.json: has another '" + key + "' than the recomputed plan");
  }

  void check_summary(const Outcome& made) {
    const Json said = object_of(directory_, "summary.json");
    Json derived = to_json(outcome_facts(*plan_, made, to_json(statement_)));
    if (said.value("statement", Json()) != object_of(directory_, "statement.json"))
      problem("summary.json: holds another statement than statement.json");
    derived.erase("statement");
    derived.erase("privgrad");
    // Adaptive clip norms are in metrics.jsonl; a diverged run may already state the next one.
    if (!plan_->clip_norm_adapts() && made.status != RunStatus::diverged) {
      derived["clip_norm"] = plan_->federated
                                 ? made.stated(*plan_).clip_norm.front()
                                 : plan_->clip_norm[std::max<std::uint64_t>(1, made.steps) - 1];
    }
    if (const std::string key = first_difference(said, derived); !key.empty())
      return problem_of("summary.json: has another '" + key);
    const Json reported = said.value("reported", Json::object());
    const Json counts = to_json(reported_facts(*plan_, made.counts).value_or(ReportedFacts()));
    for (const auto& [key, value] : counts.items()) {
      if (!reported.contains(key) || !nearly_equal(reported.at(key), value))
        problem("summary.json: has another 'reported." + key + "' than the plan");
    }
    summary_ = said;
    check_reports(said, made);
  }

  /// Checks that the run continued or ended exactly as its released accuracies require.
  void check_reports(const Json& summary, const Outcome& made) {
    if (!plan_->report || plan_->report->every == 0) return;
    const PlannedReport& planned = *plan_->report;
    const Json& between = summary.at("reported").at("train_accuracy").at("between");
    const auto steps = between.at("step").get<std::vector<std::uint64_t>>();
    const auto values = between.at("value").get<std::vector<double>>();
    bool is_it = steps.size() == values.size() &&
                 steps.size() ==
                     std::min(made.steps / planned.every, planned.between(plan_->affordable_steps));
    for (std::size_t i = 0; is_it && i < steps.size(); ++i) {
      const bool is_last = i + 1 == steps.size();
      const bool stops = planned.ends_run(std::span(values).first(i + 1));
      const bool stopped = is_last && made.status == RunStatus::stopped_early;
      // An infinite loss or NaN may have ended the run instead.
      const bool may_differ = is_last && made.status == RunStatus::diverged;
      is_it = steps[i] == (i + 1) * planned.every && (stops == stopped || may_differ);
    }
    if (!is_it || (made.status == RunStatus::stopped_early && steps.empty()))
      problem("summary.json: its released accuracies do not explain where the run ended");
  }

  /// Lets transforms learn again from the releases, without any rows.
  void check_learnt(const ReleasedCounts& released) {
    const bool has_any = std::ranges::any_of(
        plan_->statistics, [](const auto& one) { return one.of == StatisticOf::transform; });
    if (!has_any) return;
    const ModelFile model = parse_model_file(
        directory_.read("model.safetensors", std::size_t{1} << 32), "model.safetensors");
    for (std::string& one : learnt_otherwise(*plan_, released, model, result_.notes))
      problem(std::move(one));
  }

  /// Checks that the metrics in the summary are the last measured metrics.
  void check_last_metrics() {
    const std::string lines = directory_.read("metrics.jsonl", std::size_t{1} << 30);
    if (const std::string wrong = other_clip_norm(*plan_, lines); !wrong.empty())
      problem("metrics.jsonl: " + wrong);
    const std::size_t end = lines.empty() ? 0 : lines.rfind('\n', lines.size() - 2);
    const std::string last = lines.substr(end == lines.npos ? 0 : end + (lines.empty() ? 0 : 1));
    if (const std::string wrong = json_problem(kDeepest, last); !wrong.empty())
      throw IoError("metrics.jsonl: " + wrong);
    const Json json = Json::parse(last, nullptr, false);
    const bool has_clip_norm = plan_->clip_norm_adapts() && !plan_->federated && json.is_object() &&
                               json.value("step", Json()) == summary_.value("steps", Json());
    if (has_clip_norm && json.value("clip_norm", Json()) != summary_.value("clip_norm", Json()))
      problem("summary.json: has another 'clip_norm' than the last line of metrics.jsonl");
    const Json metrics = summary_.value("metrics", Json());
    for (const auto& [key, value] : metrics.items()) {
      if (key == "mean_gradient_norm") {
        if (value == json_number(mean_gradient_norm_along(lines))) continue;
        problem("summary.json: has another 'mean_gradient_norm' than metrics.jsonl");
        return;
      }
      if (json.is_object() && json.value(key, Json()) == value) continue;
      problem("summary.json: has another '" + key + "' than the last line of metrics.jsonl");
      return;
    }
  }

  void check_model(const Outcome& made, const Evidence& evidence) {
    const std::string name = "model.safetensors";
    TensorHeader header;
    try {
      header = parse_tensor_header(directory_.read_beginning(name, kMostTensorHeader),
                                   directory_.size(name));
      check_tensors(header, plan_->setting->whole, plan_->setting->is_restorable.size());
    } catch (const IoError& failure) {
      throw IoError(name + ": " + failure.what());
    }
    std::vector<std::pair<std::string, std::string>> opened;
    for (const NamedLedger& ledger : evidence.ledgers)
      opened.emplace_back(ledger.name, ledger.contents.first_hash);
    std::map<std::string, std::string> derived =
        model_metadata(*plan_, made, statement_, opened.empty() ? "" : joint_hash(opened));
    Json said = in_todays_form(header.metadata);
    derived.erase("privgrad");
    said.erase("privgrad");
    if (const std::string key = difference(said, derived); !key.empty())
      problem_of(name + ": its metadata has another '" + key);
  }

  void tell_limits() {
    if (plan_->noise_adapts) {
      note(
          "the noise followed what the run released, so that the noise of each step was read from "
          "the ledger and not derived from the manifest; the guarantee is the budget, which every "
          "line keeps");
    }
    if (has_client_ledgers() && plan_->federated->is_adaptive()) {
      note(
          "the local iterations followed what the run released; the guarantee is the cost of all "
          "steps and estimates that were planned");
    }
    if (commitment_ && !commitment_->value) {
      note("the run has no commitment to its data: " + (commitment_->why_not.empty()
                                                            ? std::string("it does not say why")
                                                            : commitment_->why_not));
    }
  }

  const RecordDirectory& directory_;
  const Catalog& catalog_;
  std::optional<std::size_t> client_;
  std::span<const std::filesystem::path> clients_;
  bool is_client_alone_ = false, is_server_ = false;
  Verification result_;
  LedgerChecker checker_;
  std::unique_ptr<Manifest> manifest_;
  std::optional<Plan> plan_;
  std::vector<LedgerAccount> accounts_;
  std::optional<DataCommitment> commitment_;
  std::optional<std::string> date_;
  Statement statement_;
  Json summary_ = Json::object();
};

/// The removed components that a run's manifest names; empty if the manifest cannot be read, which
/// the verification reports.
std::vector<const RemovedComponent*> removed_components_in(const RecordDirectory& directory) {
  try {
    return removed_components_of(directory.read("manifest.yaml", kMaxYamlBytes));
  } catch (const IoError&) {
    return {};
  }
}

}  // namespace

Verification verify_run(const RecordDirectory& directory, const Catalog& catalog,
                        std::optional<std::size_t> client,
                        std::span<const std::filesystem::path> clients) {
  // An unknown client number is the caller's error, not a problem of the directory.
  if (client && !directory.has(ledger_of_client(*client))) {
    throw ConfigError("there is no client " + std::to_string(*client) + " with a ledger in " +
                      directory.path().string());
  }
  const auto removed = removed_components_in(directory);
  if (!removed.empty() && !clients.empty())
    throw ConfigError("a run of removed components is verified without directories of clients");
  Verification result = removed.empty() ? Verifier(directory, catalog, client, clients).verify()
                                        : verify_by_events(directory, catalog, client, removed);
  // Then the run's keys still exist elsewhere, and anyone with these keys can remove its noise.
  if (directory.has(kResumeFile)) {
    result.problems.push_back(std::string(kResumeFile) +
                              ": the run is not over: its keys still exist for resuming it; resume "
                              "it, or end it with privgrad run --resume DIR --finish");
  }
  return result;
}

}  // namespace privgrad::core
