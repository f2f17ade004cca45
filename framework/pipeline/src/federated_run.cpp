#include "federated_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "account_plan.hpp"
#include "client_program.hpp"
#include "privgrad/pipeline/client.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/federated_plan.hpp"
#include "privgrad/pipeline/plan_json.hpp"
#include "privgrad/pipeline/trainer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "run_output.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// Values of four bytes, and a number of steps with the model.
std::uint64_t bytes_of_model(std::size_t parameters) { return 4 * parameters; }
constexpr std::uint64_t kBytesOfSteps = 8;
/// Two numbers in double precision.
constexpr std::uint64_t kBytesOfEstimates = 16;

/// What happened in a round, as its line in rounds.jsonl says.
struct Round {
  std::uint64_t number = 0;
  std::uint64_t local_iterations = 0;
  std::uint64_t clients = 0, dropped = 0, stragglers = 0;
  std::uint64_t bytes_down = 0, bytes_up = 0;
  LossEstimates estimates;
};

class FederatedRun {
 public:
  FederatedRun(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        manifest_(*plan.manifest),
        federated_(*plan.federated),
        wish_(*manifest_.federated),
        options_(options),
        output_(plan, options),
        executor_(make_executor(options.threads)),
        key_(run_key(manifest_)),
        pool_(plan, *executor_),
        chooser_(start_local_iterations(wish_)),
        estimator_(wish_.estimates, plan.parameters) {
    if (!federated_.at_server) participation_ = start_participation(manifest_);
    if (chooser_.rule != nullptr)
      chooser_.rule->start_rounds(wish_.rounds, federated_.affordable_steps);
  }

  RunResult run() {
    // A run that fails keeps its reservation: what each client has spent is in a ledger of its own.
    if (manifest_.account) reservation_.emplace(plan_, options_.directory);
    const DataCommitment data = read_committed_data(plan_, options_, data_);
    bench_ = make_workbench(plan_, *executor_);
    model_ = initial_parameters(plan_, key_);
    bench_.load(model_);
    for (std::size_t i = 0; i < federated_.clients.size(); ++i) {
      clients_.push_back(
          std::make_unique<Client>(i, federated_, wish_, data_.train, key_, *executor_));
    }
    if (federated_.at_server) start_server();
    output_.open(data);
    rounds_file_.emplace(options_.directory / "rounds.jsonl");
    write_clients();
    open_ledgers();
    const auto begin = std::chrono::steady_clock::now();
    train();
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    close();
    if (reservation_) reservation_->settle({}, std::string(to_text(result_.status)));
    return std::move(result_);
  }

 private:
  // ---- the server of dp_fed_avg: a trainer whose examples are clients

  void start_server() {
    std::vector<float> numbers(clients_.size());
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    owners_ = Dataset({{1}, 0}, std::move(numbers), std::vector<float>(clients_.size(), 0.0f));
    auto program = std::make_unique<ClientProgram>(clients_, plan_.parameters, pool_, *executor_);
    client_program_ = program.get();
    server_bench_.program = std::move(program);
    server_bench_.load(model_);
    server_.emplace(plan_, owners_, std::nullopt, server_key(key_), *executor_);
  }

  // ---- the loop

  void train() {
    result_.status = RunStatus::completed;
    result_.epsilon = charged();
    mishaps_.dropped.resize(clients_.size());
    mishaps_.slow.resize(clients_.size());
    for (std::uint64_t number = 0; number < wish_.rounds; ++number) {
      if (options_.stop != nullptr && options_.stop->load()) {
        result_.status = RunStatus::interrupted;
        break;
      }
      Round round{.number = number, .estimates = {}};
      draw_mishaps(number);
      const bool goes_on = federated_.at_server ? server_round(round) : client_round(round);
      if (!goes_on) break;
      rounds_ = number + 1;
      finish_round(round);
      if (result_.status == RunStatus::diverged) break;
      if (rounds_ % manifest_.evaluate_every == 0 || rounds_ == wish_.rounds) report_progress();
    }
    if (measured_at_ != rounds_) report_progress();
  }

  /// From random numbers alone, for all clients, whoever takes part.
  void draw_mishaps(std::uint64_t round) {
    const auto lost = make_random_source(key_.derive("drop-outs"))->stream(round);
    const auto slow = make_random_source(key_.derive("stragglers"))->stream(round);
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      mishaps_.dropped[i] = lost->uniform() < wish_.client_drop_rate;
      const double luck = slow->uniform(), pace = slow->uniform();
      mishaps_.slow[i].reset();
      if (luck < wish_.straggler_rate) mishaps_.slow[i] = pace;
    }
  }

  /// \returns false if the budget ends the run.
  bool server_round(Round& round) {
    if (!server_->pay_for(round.number)) {
      result_.status = RunStatus::budget_exhausted;
      return false;
    }
    round.local_iterations = federated_.local_iterations[round.number];
    client_program_->begin_round(first_local_step_, round.local_iterations, mishaps_);
    first_local_step_ += round.local_iterations;
    if (!server_->take_step(round.number, server_bench_)) result_.status = RunStatus::diverged;
    model_ = server_bench_.parameters;
    round.clients = client_program_->clients();
    round.dropped = client_program_->dropped();
    round.stragglers = client_program_->stragglers();
    count_bytes(round, 0);
    return true;
  }

  bool client_round(Round& round) {
    if (steps_left() == 0) {
      if (plan_.affordable_steps < plan_.steps()) result_.status = RunStatus::budget_exhausted;
      return false;
    }
    const std::uint64_t wanted = local_iterations(round.number);
    round.local_iterations = std::min(wanted, steps_left());
    if (round.local_iterations < wanted && plan_.affordable_steps < plan_.steps())
      result_.status = RunStatus::budget_exhausted;
    const std::vector<std::uint32_t> members = members_of(round.number);
    std::vector<std::optional<ClientRound>> sent(members.size());
    executor_->for_each_chunk(members.size(), [&](std::size_t i) {
      Client& client = *clients_[members[i]];
      // A straggler pays for what it makes, and keeps the rest for later rounds.
      const std::uint64_t steps =
          mishaps_.steps_of(members[i], std::min(round.local_iterations, client.steps_left()));
      pool_.with([&](Workbench& bench) { sent[i] = client.train(model_, steps, bench); });
    });
    std::vector<ClientRound> arrived;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!sent[i]) continue;
      ++round.clients;
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
    count_bytes(round, federated_.estimates && wish_.estimates != EstimateMode::from_models
                           ? kBytesOfEstimates
                           : 0);
    return true;
  }

  std::uint64_t steps_left() const {
    std::uint64_t most = 0;
    for (const auto& client : clients_) most = std::max(most, client->steps_left());
    return most;
  }

  /// What a client can make less than this, it makes.
  std::uint64_t local_iterations(std::uint64_t round) {
    if (!federated_.is_adaptive()) return federated_.local_iterations[round];
    FederatedProgress progress;
    progress.round = round;
    progress.rounds_left = wish_.rounds - round;
    progress.steps_left = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t step = 0;
    for (const auto& client : clients_) {
      step = std::max(step, client->steps_done());
      if (client->steps_left() > 0)
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
    const std::uint64_t steps = chooser_.rule->next(progress);
    if (steps == 0) {
      throw PluginError(wish_.local_iterations.component->full_name() +
                        ": gave 0 local iterations, expected at least 1");
    }
    last_iterations_ = steps;
    return steps;
  }

  /// The clients of a round that have steps left, ascending.
  std::vector<std::uint32_t> members_of(std::uint64_t round) {
    std::vector<std::uint32_t> drawn, members;
    participation_->sample(round, clients_.size(),
                           *make_random_source(key_.derive("participation")), drawn);
    std::sort(drawn.begin(), drawn.end());
    for (const std::uint32_t client : drawn) {
      if (client >= clients_.size() || (!members.empty() && members.back() == client)) {
        throw PluginError(wish_.participation.component->full_name() + ": drew client " +
                          std::to_string(client) + " twice, or there is none of that number");
      }
      if (clients_[client]->steps_left() > 0) members.push_back(client);
    }
    return members;
  }

  /// The mean of the models that arrived, by their public weights. Nothing arrived: the model
  /// stays.
  void aggregate(std::vector<ClientRound>& arrived, Round& round) {
    estimates_ = {};
    if (arrived.empty()) return;
    double total = 0.0;
    for (const ClientRound& client : arrived) total += client.weight;
    for (ClientRound& client : arrived) client.weight /= total;
    if (federated_.estimates) {
      estimates_ = estimator_.after_round(model_, arrived);
      round.estimates = estimates_;
    }
    constexpr std::size_t kPart = std::size_t{1} << 16;
    const std::size_t size = model_.size();
    executor_->for_each_chunk((size + kPart - 1) / kPart, [&](std::size_t part) {
      for (std::size_t j = part * kPart; j < std::min(size, (part + 1) * kPart); ++j) {
        double sum = 0.0;
        for (const ClientRound& client : arrived)
          sum += client.weight * static_cast<double>(client.model[j]);
        model_[j] = static_cast<float>(sum);
      }
    });
  }

  /// A client that is lost has received the model; the server has not received its.
  void count_bytes(Round& round, std::uint64_t more) {
    round.bytes_down = round.clients * (bytes_of_model(plan_.parameters) + kBytesOfSteps);
    round.bytes_up = (round.clients - round.dropped) * (bytes_of_model(plan_.parameters) + more);
    bytes_down_ += round.bytes_down;
    bytes_up_ += round.bytes_up;
  }

  // ---- what is left of it

  void open_ledgers() {
    if (manifest_.noise_off) return;
    Json facts = output_.ledger_facts();
    if (reservation_) facts["account"] = reservation_->facts();
    std::vector<std::pair<std::string, std::string>> opened;
    if (federated_.at_server) {
      server_->open_ledger(options_.directory / "ledger.jsonl", facts);
      opened.emplace_back("ledger.jsonl", server_->ledger()->first_hash());
    } else {
      make_directories(options_.directory / "ledgers");
      for (std::size_t i = 0; i < clients_.size(); ++i) {
        facts.update(ledger_facts(plan_, i));
        clients_[i]->open_ledger(options_.directory / ledger_name(i), facts);
        opened.emplace_back(ledger_name(i), clients_[i]->ledger()->first_hash());
      }
    }
    output_.ledgers_are_open(opened);
  }

  static std::string ledger_name(std::size_t client) {
    return "ledgers/client-" + std::to_string(client) + ".jsonl";
  }

  /// The ledger whose total is the largest, or null.
  const Ledger* fullest_ledger() const {
    if (server_) return server_->ledger();
    const Ledger* fullest = nullptr;
    for (const auto& client : clients_) {
      const Ledger* ledger = client->ledger();
      if (ledger == nullptr) continue;
      if (fullest == nullptr || ledger->spent().value > fullest->spent().value) fullest = ledger;
    }
    return fullest;
  }

  /// The client whose ledger that is.
  std::optional<std::size_t> client_of(const Ledger* ledger) const {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (clients_[i]->ledger() == ledger) return i;
    }
    return std::nullopt;
  }

  std::uint64_t estimates_of(const Ledger* ledger) const {
    for (const auto& client : clients_) {
      if (client->ledger() == ledger) return client->estimates_made();
    }
    return 0;
  }

  PrivacyAnswer charged() const {
    const Ledger* ledger = fullest_ledger();
    return ledger == nullptr ? plan_.epsilon() : ledger->spent();
  }

  /// Releases decide when a run ends that chooses its rounds by them, or that diverges.
  bool is_accounted_in_full() const {
    return plan_.is_accounted_in_full || result_.status == RunStatus::diverged;
  }

  PrivacyAnswer proved() const { return is_accounted_in_full() ? of_all_steps(plan_) : charged(); }

  void finish_round(const Round& round) {
    result_.steps = 0;
    for (const auto& client : clients_)
      result_.steps = std::max(result_.steps, client->steps_done());
    if (federated_.at_server) result_.steps = rounds_;
    Json line{{"round", round.number + 1},
              {"local_iterations", round.local_iterations},
              {"steps", result_.steps},
              {"charged_epsilon", json_number(charged().value)}};
    if (shows_participation()) {
      line.update({{"clients", round.clients},
                   {"dropped", round.dropped},
                   {"stragglers", round.stragglers},
                   {"bytes_down", round.bytes_down},
                   {"bytes_up", round.bytes_up}});
    }
    if (federated_.estimates) line["estimates"] = estimates_json(round.estimates);
    rounds_file_->append(line.dump() + "\n");
    most_iterations_ = std::max(most_iterations_, round.local_iterations);
    dropped_in_all_ += round.dropped;
    stragglers_in_all_ += round.stragglers;
    result_.epsilon = charged();
  }

  /// Where participation is secret, release mode shows nothing that follows from it.
  bool shows_participation() const {
    return !federated_.participation_is_secret || manifest_.mode == Mode::research;
  }

  static Json estimates_json(const LossEstimates& estimates) {
    return {{"lipschitz", optional_json(estimates.lipschitz)},
            {"smoothness", optional_json(estimates.smoothness)},
            {"divergence", optional_json(estimates.divergence)},
            {"convexity", optional_json(estimates.convexity)},
            {"heterogeneity", optional_json(estimates.heterogeneity)}};
  }

  void report_progress() {
    bench_.load(model_);
    output_.report(
        {.step = rounds_, .steps = wish_.rounds, .epsilon = proved().value, .metrics = {}},
        {{"round", rounds_},
         {"step", result_.steps},
         {"charged_epsilon", json_number(charged().value)}},
        data_, bench_, *executor_);
    measured_at_ = rounds_;
  }

  void write_clients() const {
    Json list = Json::array();
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const ClientPlan& client = federated_.clients[i];
      Json json{{"client", i},
                {"dataset_size", client.plan->dataset_size},
                {"affordable_steps", client.plan->affordable_steps}};
      if (shows_participation()) {
        json["steps"] = clients_[i]->steps_done();
        json["estimates"] = clients_[i]->estimates_made();
      }
      if (!client.labels.empty()) json["labels"] = client.labels;
      if (!federated_.at_server) {
        json["weight"] = federated_.weights[i];
        const Ledger* ledger = clients_[i]->ledger();
        json["epsilon"] = json_number(client.plan->epsilon().value);
        json["charged_epsilon"] =
            ledger == nullptr ? Json(nullptr) : json_number(ledger->spent().value);
      }
      list.push_back(std::move(json));
    }
    write_atomically(options_.directory / "clients.json",
                     Json{{"clients", std::move(list)}}.dump() + "\n");
  }

  void close() {
    result_.status = output_.status_of_model(result_.status);
    const std::string status(to_text(result_.status));
    const Ledger* fullest = fullest_ledger();
    ChargedSteps& paid = result_.paid;
    if (fullest != nullptr) {
      paid.charged = fullest->releases() - estimates_of(fullest);
      paid.accounted = is_accounted_in_full() ? plan_.affordable_steps : paid.charged;
    }
    if (!server_ && fullest != nullptr && !is_accounted_in_full())
      result_.client = client_of(fullest);
    write_clients();
    const double spent = charged().value;
    result_.epsilon = proved();
    Json facts{{"clients", clients_.size()},           {"rounds", rounds_},
               {"planned_rounds", wish_.rounds},       {"aggregation", to_text(wish_.aggregation)},
               {"partition", wish_.partition.name()},  {"most_local_iterations", most_iterations_},
               {"charged_epsilon", json_number(spent)}};
    if (shows_participation()) {
      facts.update({{"dropped", dropped_in_all_},
                    {"stragglers", stragglers_in_all_},
                    {"bytes_down", bytes_down_},
                    {"bytes_up", bytes_up_}});
    }
    Json more{{"clip_norm", result_.stated(plan_).clip_norm.front()},
              {"federated", std::move(facts)},
              {"test_evaluation", output_.test_evaluation(data_, bench_, *executor_)}};
    // How many steps clients made says who took part.
    if (shows_participation()) more["checks"] = checks_json(checks(), manifest_.mode);
    output_.close(result_, model_, data_.preprocessing, more, [&](const Json& files) {
      if (server_ && server_->ledger() != nullptr) server_->ledger()->close(status, rounds_, files);
      for (const auto& client : clients_) client->close_ledger(status, files);
    });
  }

  RunChecks checks() const {
    RunChecks sum;
    if (server_) sum += server_->checks();
    for (const auto& client : clients_) sum += client->checks();
    return sum;
  }

  const Plan& plan_;
  const Manifest& manifest_;
  const FederatedPlan& federated_;
  const Federated& wish_;
  const RunOptions& options_;
  RunOutput output_;
  std::optional<Reservation> reservation_;
  std::unique_ptr<Executor> executor_;
  RandomKey key_;
  RunData data_;
  WorkbenchPool pool_;
  Workbench bench_;  // for measurements
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<float> model_;  // the global one

  Dataset owners_;  // one row a client: its number
  Workbench server_bench_;
  ClientProgram* client_program_ = nullptr;  // of server_bench_
  std::optional<Trainer> server_;

  ComponentPtr<Sampler> participation_;  // of fed_avg
  LocalIterationsRule chooser_;
  LossEstimator estimator_;
  LossEstimates estimates_;  // of the last round
  Mishaps mishaps_;
  std::uint64_t first_local_step_ = 0;  // of the next round of dp_fed_avg
  std::uint64_t last_iterations_ = 0, most_iterations_ = 0;
  std::uint64_t rounds_ = 0, dropped_in_all_ = 0, stragglers_in_all_ = 0, bytes_down_ = 0,
                bytes_up_ = 0;
  std::optional<AppendOnlyFile> rounds_file_;
  std::optional<std::uint64_t> measured_at_;
  RunResult result_;
};

}  // namespace

RunResult federated_run(const Plan& plan, const RunOptions& options) {
  return FederatedRun(plan, options).run();
}

}  // namespace privgrad::core
