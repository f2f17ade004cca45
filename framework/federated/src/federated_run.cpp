#include "federated_run.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "federated_record.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/federated/client_program.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/train/resumable_run.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "remote_rounds.hpp"
#include "shared_rounds.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

class FederatedRun final : public ResumableRun {
 public:
  FederatedRun(const Plan& plan, const RunOptions& options)
      : ResumableRun(plan, options),
        federated_(*plan.federated),
        wish_(*manifest_.federated),
        pool_(plan, *executor_),
        chooser_(start_local_iterations(wish_)),
        rule_(chooser_.rule),
        estimator_(wish_.estimates, plan.parameters) {
    if (!federated_.at_server) participation_ = start_participation(wish_);
    if (chooser_.rule != nullptr)
      chooser_.rule->start_rounds(wish_.rounds, federated_.paced_steps(wish_));
  }

 private:
  // ---- beginning and resuming

  void make_parts() override { make_clients(initial_parameters(plan_, keys_->lasting())); }

  void make_clients(std::vector<float> model) {
    bench_ = make_workbench(plan_, *executor_);
    bench_.load(std::move(model));
    for (std::size_t i = 0; i < federated_.clients.size(); ++i) {
      clients_.push_back(std::make_unique<Client>(i, federated_, wish_, data_.train, *keys_,
                                                  *executor_,
                                                  federated_.at_server ? nullptr : &second_look_,
                                                  federated_.at_server ? nullptr : witness()));
    }
    if (federated_.at_server) start_server();
    gather_processes();
  }

  /// \throws ConfigError if the rounds cannot be shared, or a process differs from this one.
  void gather_processes() {
    if (options_.clients != nullptr) remote_.emplace(*options_.clients, plan_);
    if (options_.cluster == nullptr) return;
    if (const std::string why = why_not(Engine::shared_rounds, plan_); !why.empty())
      throw ConfigError(why);
    processes_.emplace(*options_.cluster, plan_, options_, data_, *executor_);
  }

  void open_records() override {
    rounds_file_.emplace(options_.directory / "rounds.jsonl");
    write_clients();
    if (manifest_.noise_off) return;
    if (remote_ && !federated_.at_server) return;  // each client has its own data
    if (!federated_.at_server) make_directories(options_.directory / "ledgers");
    open_ledgers([&](auto& owner, const std::string& name, const Json& facts) {
      owner.open_ledger(options_.directory / name, facts);
    });
  }

  void reopen_records(bool may_repeat) override {
    if (manifest_.noise_off) return;
    open_ledgers([&](auto& owner, const std::string& name, const Json& facts) {
      owner.reopen_ledger(options_.directory / name, facts, may_repeat);
    });
  }

  /// \param open  called for each client, or for the server, with the name and facts of its ledger.
  template <class Open>
  void open_ledgers(const Open& open) {
    Json facts = facts_for_ledger();
    std::vector<std::pair<std::string, std::string>> opened;
    if (federated_.at_server) {
      open(*server_, "ledger.jsonl", facts);
      opened.emplace_back("ledger.jsonl", server_->ledger()->first_hash());
    } else {
      for (std::size_t i = 0; i < clients_.size(); ++i) {
        facts.update(ledger_facts(plan_, i));
        open(*clients_[i], ledger_name(i), facts);
        opened.emplace_back(ledger_name(i), clients_[i]->ledger()->first_hash());
      }
    }
    output_.ledgers_are_open(opened);
  }

  static auto between_rounds(auto& self) {
    return std::tie(self.is_short_, self.first_local_step_, self.last_iterations_, self.estimates_);
  }

  void save_parts(StateWriter& out) override {
    rounds_file_->position().save(out);
    out.begin("rounds");
    out.put(shows_participation() ? totals_ : totals_.without_participation());
    out.put(between_rounds(*this));
    out.put(model());
    estimator_.save(out);
    rule_.save(out);
    if (federated_.at_server) {
      save_server(out);
    } else {
      for (const auto& client : clients_) client->save(out);
    }
  }

  /// Leaves out who took part if the run may not show it. Restoring does not need this: clients
  /// keep no state between rounds, and all rounds together have no more local steps than one client
  /// may make.
  void save_server(StateWriter& out) const {
    server_->save(out, Trainer::Between::steps);
    if (!shows_participation()) return;
    out.begin("steps of clients");
    std::vector<std::uint64_t> steps;
    for (const auto& client : clients_) steps.push_back(client->steps_done());
    out.array(steps);
  }

  void restore_server(StateReader& in) {
    server_->restore(in, Trainer::Between::steps);
    if (!shows_participation()) return;
    in.begin("steps of clients");
    const auto steps = in.array<std::uint64_t>(clients_.size());
    for (std::size_t i = 0; i < clients_.size(); ++i) clients_[i]->restore_steps_done(steps[i]);
  }

  void restore_parts(StateReader& in) override {
    rounds_file_.emplace(options_.directory / "rounds.jsonl", FilePosition::restored(in));
    in.begin("rounds");
    in.get(totals_);
    in.get(between_rounds(*this));
    if (is_short_) result_.status = RunStatus::budget_exhausted;
    std::vector<float> model;
    in.get(model);
    if (model.size() != plan_.parameters) in.fail("its model has another number of parameters");
    estimator_.restore(in);
    rule_.restore(in, wish_.local_iterations.component->full_name());
    make_clients(std::move(model));
    if (processes_) processes_->begin_from_kept();
    if (federated_.at_server) return restore_server(in);
    for (const auto& client : clients_) client->restore(in);
  }

  std::uint64_t receipts_to_take_up() const override {
    std::uint64_t all = server_ ? server_->receipts_to_take_up() : 0;
    for (const auto& client : clients_) all += client->receipts_to_take_up();
    return all;
  }

  bool records_are_behind() const override {
    const auto is_behind = [](const Ledger* ledger) {
      return ledger != nullptr && ledger->is_behind();
    };
    return rounds_file_->is_behind() || (server_ && is_behind(server_->ledger())) ||
           std::ranges::any_of(clients_,
                               [&](const auto& client) { return is_behind(client->ledger()); });
  }

  // ---- the server of dp_fed_avg: a trainer whose examples are clients

  void start_server() {
    std::vector<float> numbers(clients_.size());
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    owners_ = Dataset({{1}, 0}, std::move(numbers), std::vector<float>(clients_.size(), 0.0f));
    auto program = std::make_unique<ClientProgram>(clients_, plan_.parameters, pool_, *executor_);
    client_program_ = program.get();
    server_bench_.program = std::move(program);
    server_bench_.load(model());
    TrainerSetting setting{.second_look = &second_look_, .leader = witness()};
    if (options_.clients != nullptr || options_.cluster != nullptr)
      setting.listener = [&](std::span<const std::uint32_t> drawn) { train_ahead(drawn); };
    server_.emplace(plan_, owners_, server_key(keys_->lasting()), *executor_, std::move(setting));
  }

  std::uint64_t made() const override { return totals_.rounds; }
  std::uint64_t planned() const override { return wish_.rounds; }

  bool make_step() override {
    Round round;
    round.number = totals_.rounds;
    mishaps_ = draw_mishaps(wish_, keys_->lasting(), round.number);
    if (!(federated_.at_server ? server_round(round) : client_round(round))) return false;
    finish_round(round);
    return result_.status != RunStatus::diverged;
  }

  RunStatus status_of_steps() const override {
    const bool is_untrained = result_.status <= RunStatus::budget_exhausted &&
                              shows_participation() && totals_.bytes_up == 0;
    return is_untrained ? RunStatus::untrained : result_.status;
  }

  Workbench& bench() override { return bench_; }
  void put_model(std::vector<float> parameters) override { bench_.load(std::move(parameters)); }
  const std::vector<float>& model() const { return bench_.parameters; }

  /// \returns false if the budget ends the run.
  bool server_round(Round& round) {
    if (keys_->ratchets()) server_->use_key_of_step(server_key(keys_->of_step()));
    if (!server_->pay_for(round.number)) {
      result_.status = RunStatus::budget_exhausted;
      return false;
    }
    round.local_iterations = federated_.local_iterations[round.number];
    client_program_->begin_round(first_local_step_, round.local_iterations, mishaps_);
    first_local_step_ += round.local_iterations;
    if (!server_->take_step(round.number, server_bench_)) result_.status = RunStatus::diverged;
    bench_.load(server_bench_.parameters);
    round.clients = client_program_->clients();
    round.dropped = client_program_->dropped();
    round.stragglers = client_program_->stragglers();
    if (wish_.min_separation) note_refused(round);
    round.count_bytes(plan_.parameters, false);
    return true;
  }

  void note_refused(Round& round) {
    round.refused = server_->refused().size();
    if (!remote_ || !shows_participation()) return;
    for (const auto& [client, why] : server_->refused()) options_.clients->refused(client, why);
  }

  /// Lets all processes train the clients that the server has drawn and paid for, before the server
  /// requests their changes.
  void train_ahead(std::span<const std::uint32_t> drawn) {
    std::vector<ClientTask> tasks;
    for (const std::uint32_t client : drawn) {
      if (client >= clients_.size()) return;  // the server's sum will refuse such a batch
      if (const std::uint64_t steps = client_program_->steps_of(client); steps > 0)
        tasks.push_back({.client = client, .steps = steps});
    }
    auto sent = train_elsewhere(client_program_->model(), client_program_->first_step(), tasks);
    std::map<std::size_t, ClientRound> known;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (sent[i]) known.emplace(tasks[i].client, std::move(*sent[i]));
    }
    client_program_->know(std::move(known));
  }

  /// Trains clients in other processes or in the clients' own programs.
  std::vector<std::optional<ClientRound>> train_elsewhere(std::span<const float> model,
                                                          std::optional<std::uint64_t> first_step,
                                                          const std::vector<ClientTask>& tasks) {
    if (remote_) return remote_->train(clients_, totals_.rounds, model, first_step, tasks);
    return processes_->train(clients_, {.keys = *keys_, .model = model, .first_step = first_step},
                             tasks, pool_);
  }

  std::vector<std::optional<ClientRound>> train_clients(const std::vector<ClientTask>& tasks) {
    if (processes_ || remote_) return train_elsewhere(model(), std::nullopt, tasks);
    std::vector<std::optional<ClientRound>> sent(tasks.size());
    executor_->for_each_chunk(tasks.size(), [&](std::size_t i) {
      Client& client = *clients_[tasks[i].client];
      pool_.with([&](Workbench& bench) { sent[i] = client.train(model(), tasks[i].steps, bench); });
    });
    return sent;
  }

  bool client_round(Round& round) {
    if (steps_left() == 0) {
      if (plan_.affordable_steps < plan_.steps()) result_.status = RunStatus::budget_exhausted;
      return false;
    }
    const std::uint64_t wanted = local_iterations(round.number);
    round.local_iterations = std::min(wanted, steps_left());
    if (round.local_iterations < wanted && plan_.affordable_steps < plan_.steps()) {
      result_.status = RunStatus::budget_exhausted;
      is_short_ = true;
    }
    const std::vector<std::uint32_t> members = members_of(round.number);
    std::vector<ClientTask> tasks;
    for (const std::uint32_t member : members) {
      // A straggler pays for the steps that it makes, and keeps the others for later rounds.
      const std::uint64_t most = std::min(round.local_iterations, clients_[member]->steps_left());
      tasks.push_back({.client = member, .steps = mishaps_.steps_of(member, most)});
    }
    std::vector<std::optional<ClientRound>> sent = train_clients(tasks);
    std::vector<std::string> hashes(members.size());
    executor_->for_each_chunk(members.size(), [&](std::size_t i) {
      if (sent[i] && checkpoints_) hashes[i] = hash_of_sent(*sent[i]);
    });
    std::vector<ClientRound> arrived;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!sent[i]) continue;
      ++round.clients;
      if (checkpoints_) round.sent += hashes[i];
      if (clients_[members[i]]->diverged()) result_.status = RunStatus::diverged;
      if (mishaps_.slow[members[i]]) ++round.stragglers;
      if (mishaps_.dropped[members[i]]) {
        ++round.dropped;
        continue;
      }
      arrived.push_back(std::move(*sent[i]));
      arrived.back().weight = federated_.weights[members[i]];
    }
    aggregate(arrived, round);
    round.count_bytes(plan_.parameters,
                      federated_.estimates && wish_.estimates != EstimateMode::from_models);
    return true;
  }

  std::uint64_t steps_left() const {
    std::uint64_t most = 0;
    for (const auto& client : clients_) most = std::max(most, client->steps_left());
    return most;
  }

  /// The number of local steps in a round. A client with fewer steps left makes only these.
  std::uint64_t local_iterations(std::uint64_t round) {
    if (!federated_.is_adaptive()) return federated_.local_iterations[round];
    FederatedProgress progress;
    progress.round = round;
    progress.rounds_left = wish_.rounds - round;
    progress.steps_left = steps_left();
    std::uint64_t step = 0;
    for (const auto& client : clients_) {
      step = std::max(step, client->steps_done());
      if (!wish_.paced_by_largest && client->steps_left() > 0)
        progress.steps_left = std::min(progress.steps_left, client->steps_left());
    }
    progress.last = last_iterations_;
    progress.parameters = plan_.parameters;
    const std::size_t next = std::min<std::size_t>(step, plan_.steps() - 1);
    progress.learning_rate = plan_.learning_rate[next];
    progress.clip_norm = plan_.clip_norm[next];
    progress.gradient_noise =
        plan_.noise_multiplier[next] * plan_.clip_norm[next] / plan_.batch_size[next];
    progress.lipschitz = estimates_.lipschitz;
    progress.smoothness = estimates_.smoothness;
    progress.divergence = estimates_.divergence;
    progress.convexity = estimates_.convexity;
    progress.heterogeneity = estimates_.heterogeneity;
    const std::uint64_t steps = rule_.next(progress);
    if (steps == 0) {
      throw PluginError(wish_.local_iterations.component->full_name() +
                        ": gave 0 local iterations, expected at least 1");
    }
    last_iterations_ = steps;
    return steps;
  }

  /// The clients of a round that have steps left, in ascending order.
  std::vector<std::uint32_t> members_of(std::uint64_t round) {
    std::vector<std::uint32_t> drawn, members;
    participation_->sample(round, clients_.size(),
                           *make_random_source(keys_->lasting().derive("participation")), drawn);
    std::ranges::sort(drawn);
    for (const std::uint32_t client : drawn) {
      if (client >= clients_.size() || (!members.empty() && members.back() == client)) {
        throw PluginError(wish_.participation.component->full_name() + ": drew client " +
                          std::to_string(client) + " twice, or there is no such client");
      }
      if (clients_[client]->steps_left() > 0) members.push_back(client);
    }
    return members;
  }

  /// Sets the model to the mean of the models that arrived, with their public weights. If no model
  /// arrived, the model does not change.
  void aggregate(std::vector<ClientRound>& arrived, Round& round) {
    estimates_ = {};
    if (arrived.empty()) return;
    double total = 0.0;
    for (const ClientRound& client : arrived) total += client.weight;
    for (ClientRound& client : arrived) client.weight /= total;
    if (federated_.estimates) {
      estimates_ = estimator_.after_round(model(), arrived);
      round.estimates = estimates_;
    }
    constexpr std::size_t kPart = std::size_t{1} << 16;
    std::vector<float> mean(model().size());
    executor_->for_each_chunk((mean.size() + kPart - 1) / kPart, [&](std::size_t part) {
      for (std::size_t j = part * kPart; j < std::min(mean.size(), (part + 1) * kPart); ++j) {
        double sum = 0.0;
        for (const ClientRound& client : arrived)
          sum += client.weight * static_cast<double>(client.model[j]);
        mean[j] = static_cast<float>(sum);
      }
    });
    bench_.load(std::move(mean));
  }

  // ---- the output files

  static std::string ledger_name(std::size_t client) {
    return "ledgers/client-" + std::to_string(client) + ".jsonl";
  }

  const Ledger* ledger() const override {
    if (server_) return server_->ledger();
    const auto client = client_with_fullest_ledger(clients_);
    return client ? clients_[*client]->ledger() : nullptr;
  }

  /// Nothing if clients are separate programs, because the charges are in their ledgers.
  Nullable<double> charged_if_known() const {
    return remote_ && !server_ ? std::nullopt : finite(spent().value);
  }

  /// Whether releases decided when the run ended: by choosing steps, or because it diverged.
  bool is_accounted_in_full() const { return core::is_accounted_in_full(plan_, result_.status); }

  PrivacyAnswer proved() const { return is_accounted_in_full() ? of_all_steps(plan_) : spent(); }
  double shown_epsilon() const override { return proved().value; }

  void finish_round(const Round& round) {
    totals_.add(round);
    result_.steps = 0;
    for (const auto& client : clients_)
      result_.steps = std::max(result_.steps, client->steps_done());
    if (federated_.at_server) result_.steps = totals_.rounds;
    RoundLine facts{totals_.rounds, round.local_iterations, result_.steps, charged_if_known(), {}};
    if (federated_.estimates) facts.estimates = round.estimates;
    Json json = to_json(facts);
    if (shows_participation()) json.update(to_json<RoundParticipation>(round));
    const std::string line = json.dump() + "\n";
    // Everything published about the round, and the next round's charges, follow from this text.
    show("round " + std::to_string(totals_.rounds), model(), round.sent + line);
    rounds_file_->append(line);
    result_.epsilon = spent();
  }

  /// Whether the run may show participation: in release mode, only if it is not secret.
  bool shows_participation() const {
    return !federated_.participation_is_secret || manifest_.mode == Mode::research;
  }

  MetricsLine metrics_facts() override {
    MetricsLine facts;
    facts.step = result_.steps;
    facts.round = totals_.rounds;
    facts.charged_epsilon = charged_if_known();
    return facts;
  }

  void write_clients() const {
    write_atomically(
        options_.directory / "clients.json",
        to_json(client_table(federated_, clients_, shows_participation())).dump() + "\n");
  }

  Summary summary_facts() override {
    const Ledger* fullest = ledger();
    ChargedSteps& paid = result_.paid;
    if (fullest != nullptr) {
      const auto client = client_with_fullest_ledger(clients_);
      const bool pays_for_estimates = client && wish_.estimates == EstimateMode::private_sums;
      paid.charged =
          fullest->releases() - (pays_for_estimates ? clients_[*client]->estimates_made() : 0);
      paid.accounted = is_accounted_in_full() ? plan_.affordable_steps : paid.charged;
      if (!is_accounted_in_full()) result_.client = client;
    } else if (remote_) {
      paid.accounted = plan_.affordable_steps;  // the clients' ledgers contain the actual numbers
    }
    write_clients();
    const Nullable<double> spent = charged_if_known();
    result_.epsilon = proved();
    Summary summary;
    summary.clip_norm = result_.stated(plan_).clip_norm.front();
    FederatedSummary& facts = summary.federated.emplace();
    facts = {.clients = clients_.size(),
             .rounds = totals_.rounds,
             .planned_rounds = wish_.rounds,
             .most_local_iterations = totals_.most_iterations,
             .aggregation = Text(to_text(wish_.aggregation)),
             .partition = wish_.partition.name(),
             .charged_epsilon = spent};
    if (remote_) facts.remote = remote_->facts();
    if (!shows_participation()) return summary;
    std::tie(facts.dropped, facts.stragglers, facts.bytes_down, facts.bytes_up, facts.refused) =
        std::tie(totals_.dropped, totals_.stragglers, totals_.bytes_down, totals_.bytes_up,
                 totals_.refused);
    // The numbers of steps that clients made reveal who took part.
    summary.checks = facts_of(checks(), manifest_.mode);
    return summary;
  }

  void close_ledgers(const Json& files) override {
    const std::string status(to_text(result_.status));
    if (server_ && server_->ledger() != nullptr)
      server_->ledger()->close(status, totals_.rounds, files);
    for (const auto& client : clients_) client->close_ledger(status, files);
  }

  void dismiss() override {
    if (processes_) processes_->dismiss();
    if (remote_) remote_->dismiss(result_.status, options_.directory);
  }

  RunChecks checks() const {
    RunChecks sum;
    if (server_) sum += server_->checks();
    for (const auto& client : clients_) sum += client->checks();
    return sum;
  }

  const FederatedPlan& federated_;
  const Federated& wish_;
  WorkbenchPool pool_;
  Workbench bench_;  // holds the global model
  std::vector<std::unique_ptr<Client>> clients_;

  Dataset owners_;  // one row per client, with its number
  Workbench server_bench_;
  ClientProgram* client_program_ = nullptr;  // owned by server_bench_
  std::optional<Trainer> server_;

  std::optional<SharedRounds> processes_;  // the cluster's other processes
  std::optional<RemoteRounds> remote_;     // clients that are separate programs

  ComponentPtr<Sampler> participation_;  // draws the participants with fed_avg
  LocalIterationsRule chooser_;
  AskedRule rule_;  // repeats and records the questions to chooser_
  LossEstimator estimator_;
  LossEstimates estimates_;  // of the last round
  Mishaps mishaps_;
  std::uint64_t first_local_step_ = 0;  // first local step of the next round, with dp_fed_avg
  std::uint64_t last_iterations_ = 0;
  RoundTotals totals_;
  bool is_short_ = false;  // whether the budget did not pay for all steps of a round
  std::optional<LineFile> rounds_file_;
};

}  // namespace

RunResult federated_run(const Plan& plan, const RunOptions& options) {
  if (options.clients != nullptr && !options.resume) check_account_of_server(plan);
  return FederatedRun(plan, options).run();
}

}  // namespace privgrad::core
