#include "privgrad/federated/remote_client.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "privgrad/data/executor.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/federated/remote_clients.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/plan/account_plan.hpp"
#include "privgrad/plan/before_reading.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/policy.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/checkpoint_folder.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/record/site_receipt.hpp"
#include "privgrad/train/run_output.hpp"
#include "privgrad/train/second_look.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "remote_rounds.hpp"

namespace privgrad::core {

/// The examples of a client, and the plan of its run.
struct OwnPart {
  std::shared_ptr<const FederatedPlan> planned;  // the clients' plans refer to it
  Plan plan;
  // started before a row is read for training
  std::unique_ptr<SecondLook> second_look;
  RunData data;
};

namespace {

using Json = nlohmann::json;

/// The public facts of a run in which each client has its own data: facts about this client's data,
/// and facts that the manifest declares.
PublicFacts declared_facts(const Manifest& manifest, const DataInfo& info) {
  const Federated& wish = *manifest.federated;
  if (wish.sizes.empty()) {
    throw error_at(manifest, "federated.sizes",
                   "is missing: a client knows only its own examples, so the manifest must declare "
                   "the number of each client's examples");
  }
  const std::uint64_t all = std::accumulate(wish.sizes.begin(), wish.sizes.end(), std::uint64_t{0});
  return {.shape = info.shape,
          .dataset_size = manifest.dataset_size.value_or(all),
          .has_test_rows = false,
          .unaccounted = info.unaccounted,
          .first_rows_only = info.first_rows_only,
          .rows_chosen_by_value = info.rows_chosen_by_value,
          .class_names = info.class_names,
          .feature_names = info.feature_names,
          .reading = {},
          .shard_sizes = wish.sizes,
          .scales = std::nullopt,
          .order_key = std::nullopt,
          .account = account_facts(manifest.account),
          .weights = std::nullopt,
          .model_files = hashes_of_files(*manifest.model.make<Model>())};
}

/// The part of a client whose data contains only its own examples.
/// \param kept  the numbers of a part that is resumed; null for a new part.
OwnPart part_of_own_data(const Manifest& manifest, const ComponentUse& own,
                         const RemoteClientOptions& wish, std::shared_ptr<KeptNumbers> kept) {
  OwnPart part;
  refuse_before_reading(manifest, own);
  const auto source = own.make<DataSource>();
  DataInfo info;
  PublicFacts facts;
  own.with_position([&] {
    info = source->info();
    facts = declared_facts(manifest, info);
    part.plan = make_plan(manifest, facts, std::move(kept));
  });
  obey_policies(manifest, &own, &part.plan, wish.server);
  own.with_position([&] {
    if (!info.has_targets && part.plan.setting->network.loss != Loss::next_token)
      throw ConfigError("the rows have no targets, so no model can be trained on them");
    part.second_look = std::make_unique<SecondLook>(part.plan);
    part.data.train = source->read(Split::train);
    const std::uint64_t rows = part.data.train.rows();
    const std::uint64_t declared = facts.shard_sizes.at(wish.number);
    if (size_is_public(manifest) && rows != declared) {
      throw ConfigError("has " + std::to_string(rows) + " examples, but federated.sizes declares " +
                        std::to_string(declared) + " for client " + std::to_string(wish.number) +
                        "; under " + std::string(to_text(manifest.adjacency)) +
                        " the size is public and must be correct");
    }
  });
  part.planned = part.plan.federated;
  auto federated = std::make_shared<FederatedPlan>(*part.planned);
  std::vector<std::uint32_t>& rows = federated->clients[wish.number].rows;
  rows.resize(part.data.train.rows());
  std::iota(rows.begin(), rows.end(), std::uint32_t{0});
  part.plan.federated = federated;
  return part;
}

/// The part of a client whose data contains the examples of all clients, as in a run on one
/// machine.
/// \param kept  as for part_of_own_data().
OwnPart part_of_all_data(const Manifest& manifest, std::shared_ptr<KeptNumbers> kept) {
  const ComponentUse& use = manifest.federated->partition;
  const auto made = use.make<Transform>();
  const auto* partition = dynamic_cast<const Partition*>(made.get());
  if (partition != nullptr && partition->is_drawn() && !manifest.seed) {
    throw error_at(manifest, use.where,
                   use.name() +
                       " draws the client of each example, and each program would draw "
                       "differently; give each client its own data, use by_column, or give a seed");
  }
  OwnPart part;
  part.plan = make_plan(manifest, std::move(kept));
  part.planned = part.plan.federated;
  part.second_look = std::make_unique<SecondLook>(part.plan);
  part.data = read_rows(manifest.data, *part.plan.setting);
  return part;
}

}  // namespace

class RemoteClient::Part {
 public:
  Part(const Manifest& manifest, const ComponentUse* own, const RemoteClientOptions& options)
      : manifest_(manifest), wish_(options), executor_(make_executor(options.threads)) {
    check_wish();
    require_account(manifest);
    obey_policies(manifest, own != nullptr ? own : &manifest.data, nullptr, wish_.server);
    part_ = own != nullptr ? part_of_own_data(manifest, *own, wish_, kept())
                           : part_of_all_data(manifest, kept());
    if (const std::string why = why_not(Engine::remote_clients, part_.plan); !why.empty())
      throw PrivacyError("a client cannot be a separate program: " + why);
    check_trust();
    options_.directory = wish_.directory;
    options_.lock = wish_.lock;
    options_.threads = wish_.threads;
    options_.state = wish_.state;
    ground_ = hash_of_ground(part_.plan);
    if (CheckpointFolder::is_there(wish_.state, folder_id())) take_up();
  }

  Json introduction() const {
    Json said = common_ground_of(manifest_);
    said["facts"] = shared_facts_of(part_.plan);
    said["client"] = wish_.number;
    return said;
  }

  bool failed() const noexcept { return is_broken_; }

  std::string answer(const std::string& text) {
    if (is_broken_) throw PrivacyError("the client failed in an earlier round; start it again");
    if (RemoteFarewell::begins(text)) return take_leave(RemoteFarewell::of(text), text);
    const RemoteOrder order = RemoteOrder::of(text);
    check_addressed(order);
    const std::string hash = sha256_hex(text);
    if (folder_ && order.run == run_ && hash == last_order_) return last_answer_;
    check_new(order);
    is_broken_ = true;  // cleared once everything is on the disk
    if (!folder_) begin(order.run);
    std::string made = carry_out(order, hash);
    is_broken_ = false;
    return made;
  }

 private:
  enum class Phase : std::uint64_t { between_rounds = 1, in_round, leaving, over };

  const FederatedPlan& federated() const { return *part_.plan.federated; }

  void check_wish() const {
    if (!wish_.key.empty()) (void)sign(Signed::receipt, {}, wish_.key);  // a key that can sign
    if (!manifest_.federated) throw ConfigError("the manifest has no section federated");
    if (wish_.number >= manifest_.federated->clients) {
      throw ConfigError("client is " + std::to_string(wish_.number) + ", allowed is [0, " +
                        std::to_string(manifest_.federated->clients - 1) + "]");
    }
    if (wish_.state.empty()) {
      throw ConfigError(
          "there is no directory for the private state of a client; give state, or set "
          "XDG_STATE_HOME or HOME");
    }
  }

  void check_trust() const {
    if (!is_charged() && manifest_.account) {
      throw PrivacyError(
          "privacy.account: with federated.aggregation dp_fed_avg this client is not charged");
    }
    if (is_charged() || wish_.trusts_server) return;
    throw PrivacyError(
        "with federated.aggregation dp_fed_avg the server sees the exact effect of this client's "
        "examples on the model, and adds the noise; if you trust it with this, set trust_server");
  }

  /// The numbers with which this part began; null if it has not begun.
  std::shared_ptr<KeptNumbers> kept() const {
    if (!CheckpointFolder::is_there(wish_.state, folder_id())) return nullptr;
    const auto schedules = CheckpointFolder::kept(wish_.state, folder_id(), kKeptSchedules);
    if (!schedules) return nullptr;  // interrupted at its beginning; take_up() reports this
    return kept_numbers(wish_.directory, read_facts(wish_.directory), *schedules);
  }

  /// Identifies the directory; not secret.
  std::string folder_id() const {
    const std::string place =
        std::filesystem::absolute(wish_.directory).lexically_normal().string();
    return sha256_hex("a client's part in a run\n" + place).substr(0, 32);
  }

  // ---- the server's requests

  template <class Message>
  void check_meant_for_this(const Message& order) const {
    if (order.ground != ground_) {
      throw ConfigError(
          "the order is for another version of PrivGrad, another manifest or other plugins than "
          "this client's");
    }
    if (order.client != wish_.number) {
      throw ConfigError("the order is for client " + std::to_string(order.client) +
                        ", but this is client " + std::to_string(wish_.number));
    }
  }

  void check_is_of_this_run(const std::string& run) const {
    if (!folder_ || run == run_) return;
    throw PrivacyError(wish_.directory.string() +
                       ": contains this client's part of another run; a new run costs its epsilon "
                       "again, and needs its own directory");
  }

  void check_addressed(const RemoteOrder& order) const {
    check_meant_for_this(order);
    if (!CheckpointFolder::is_id(order.run))
      throw ConfigError("the order has no valid id of a run");
    if (order.model.size() != part_.plan.parameters) {
      throw ConfigError("the order has a model of " + std::to_string(order.model.size()) +
                        " parameters, expected " + std::to_string(part_.plan.parameters));
    }
    if (order.first_step.has_value() != federated().at_server)
      throw ConfigError("the order is for another federated.aggregation than this client's");
  }

  void check_new(const RemoteOrder& order) const {
    check_is_of_this_run(order.run);
    if (is_over_) throw PrivacyError("the run is finished, as its server declared");
    if (order.round < next_round_) {
      throw PrivacyError(
          "round " + std::to_string(order.round) +
          " was executed by another order or interrupted, and is not executed again");
    }
    if (order.round >= manifest_.federated->rounds)
      throw ConfigError("the order is for a round that is not in the plan");
    const std::uint64_t planned = federated().clients[wish_.number].plan->planned_steps;
    const bool fits = order.steps > 0 &&
                      (!order.first_step ||
                       (*order.first_step < planned && order.steps <= planned - *order.first_step));
    if (!fits) throw ConfigError("the order requests steps that are not in the plan");
  }

  // ---- beginning and resuming

  /// Draws two keys: one for draws that need no secret of a round, such as public orders of
  /// examples, and one that changes with each order.
  void draw_keys() {
    const RandomKey key = run_key(manifest_.seed);
    lasting_ = manifest_.seed ? key : key.derive("lasting");
    key_ = manifest_.seed ? key : key.derive("first round");
  }

  /// Noise and coins of a round depend on the whole order, including the server's model, and on
  /// everything that the client contributes. A client that was restored from a copy of its state
  /// may have the key of a round that it has already made. It then gives the same answer to the
  /// same order. A different order gets different noise and batches, so no two answers differ only
  /// in their sums. With a seed the noise stays the same, because everyone with the manifest knows
  /// it anyway.
  void use_keys_of_round(const std::string& order) {
    if (manifest_.seed) return;
    const std::string bound = ground_ + "\n" + data_.value.value_or("no data") + "\n" + order;
    *keys_ = RunKeys::of_one_step(*lasting_, key_->derive("round\n" + bound));
    key_ = key_->derive("next\n" + bound);
  }

  void make_client() {
    apply_transforms(manifest_, *part_.plan.setting, part_.data, wish_.threads);
    keys_.emplace(manifest_.seed ? RunKeys::constant(*lasting_)
                                 : RunKeys::of_one_step(*lasting_, key_->derive("no round")));
    pool_.emplace(part_.plan, *executor_);
    // With at_server, the client makes no releases, so its components derive nothing
    // public.
    client_ =
        std::make_unique<Client>(wish_.number, federated(), *manifest_.federated, part_.data.train,
                                 *keys_, *executor_, is_charged() ? &*part_.second_look : nullptr);
  }

  bool is_charged() const { return !federated().at_server; }

  const Plan& own_plan() const { return *federated().clients[wish_.number].plan; }

  /// The hash for the account. It must not confirm guesses about rows, because the account is less
  /// private than the state.
  std::string bound_for_account() const {
    return lasting_
        ->derive("account\n" + run_ + "\n" + ground_ + "\n" + data_.value.value_or("no data"))
        .public_hex();
  }

  std::filesystem::path ledger_file() const {
    return wish_.directory / "ledgers" / ("client-" + std::to_string(wish_.number) + ".jsonl");
  }

  Json facts_for_ledger() const {
    Json facts = output_->ledger_facts();
    facts.update(ledger_facts(part_.plan, wish_.number));
    facts["run"] = run_;
    facts["ground"] = ground_;
    if (manifest_.account) facts["account"] = reservation_facts(manifest_.account, reservation_id_);
    return facts;
  }

  void begin(const std::string& run) {
    run_ = run;
    // A directory that is not new cannot take part, so nothing is reserved for it.
    std::error_code none;
    if (manifest_.account && !std::filesystem::is_empty(wish_.directory, none) && !none)
      throw ConfigError(wish_.directory.string() + ": is not empty; give a new directory");
    std::optional<Reservation> reservation;
    if (manifest_.account) reservation_id_ = reservation.emplace(own_plan(), wish_.directory).id();
    try {
      output_.emplace(part_.plan, options_);
      data_ = commit(manifest_.seed, part_.data.train, wish_.state);
      output_->open(data_);
      draw_keys();
      make_client();
      if (is_charged()) make_directories(wish_.directory / "ledgers");
    } catch (...) {
      if (reservation) reservation->give_back();  // nothing was charged to it
      throw;
    }
    if (reservation) reservation->begin(bound_for_account());
    if (is_charged()) client_->open_ledger(ledger_file(), facts_for_ledger());
    folder_.emplace(CheckpointFolder::make(wish_.state, folder_id()));
    folder_->keep(kKeptSchedules, part_.plan.setting->kept->schedules_text());
    save(Phase::between_rounds);
  }

  static auto progress(auto& self) {
    return std::tie(self.steps_in_round_, self.next_round_, self.last_order_, self.last_answer_);
  }

  /// Writes the state. It marks a round as begun before the round is charged or released.
  void save(Phase phase) {
    StateWriter out;
    out.begin("a client's part");
    out.put(run_, ground_, output_->date(), data_.value.value_or(""), reservation_id_, phase);
    if (phase == Phase::over) {
      out.bytes(unsigned_receipt_);
      return folder_->write(out.text());
    }
    out.put(*lasting_, *key_);
    if (phase == Phase::leaving) out.bytes(to_text(end_));
    out.put(progress(*this));
    if (is_charged()) {
      // The state between rounds is the state at the beginning of the next round.
      if (phase == Phase::between_rounds) kept_ = state_of_client();
      out.bytes(kept_);
    }
    folder_->write(out.text());
  }

  std::string state_of_client() const {
    StateWriter out;
    client_->save(out);
    return out.text();
  }

  void take_up() {
    folder_.emplace(CheckpointFolder::open(wish_.state, folder_id()));
    // Never falls back to the checkpoint before the last one, because its steps may have been made.
    const auto found = folder_->read(/*fall_back=*/false);
    const std::string place = wish_.directory.string();
    if (!found) throw IoError(place + ": its private state is empty; give another directory");
    StateReader in(found->content, place);
    in.begin("a client's part");
    run_ = in.bytes();
    if (in.bytes() != ground_) {
      throw PrivacyError(place +
                         ": contains this client's part of a run with another version of PrivGrad, "
                         "another manifest or other plugins");
    }
    output_.emplace(part_.plan, options_);
    output_->set_date(in.bytes());
    const std::string committed = in.bytes();
    data_ = commit_again(manifest_.seed, part_.data.train, wish_.state,
                         committed.empty() ? std::nullopt : std::optional(committed));
    output_->reopen(data_, {.bytes = 0, .hash = sha256_hex("")});
    reservation_id_ = in.bytes();
    const auto phase = static_cast<Phase>(in.word());
    if (phase == Phase::over) {
      is_over_ = true;
      unsigned_receipt_ = in.bytes();
      in.end();
      save(Phase::over);  // a kill may have left the keys in the other slot
      return settle_up();
    }
    lasting_ = in.key();
    key_ = in.key();
    const bool is_leaving = phase == Phase::leaving;
    const std::string end = is_leaving ? in.bytes() : "";
    if (manifest_.account.has_value() == reservation_id_.empty()) {
      throw PrivacyError(place + ": this part began " +
                         (reservation_id_.empty() ? "without" : "with") +
                         " privacy.account, and continues only so");
    }
    // A client that is leaving releases nothing more, so its reservation may be closed by now.
    if (manifest_.account && !is_leaving)
      Reservation(own_plan(), reservation_id_).resume(bound_for_account());
    in.get(progress(*this));
    make_client();
    if (is_charged()) {
      kept_ = in.bytes();
      StateReader client(kept_, place);
      client_->restore(client);
      client.end();
      // If the state was saved during a round, the ledger's next lines charge for steps that are
      // never made. If it was saved between rounds, the ledger must have no further lines;
      // otherwise, an older state was restored, and its steps would reuse the noise of released
      // steps. If the client was leaving, the last line may follow.
      client_->reopen_ledger(ledger_file(), facts_for_ledger(), phase != Phase::between_rounds);
    }
    in.end();
    output_->write_again();
    if (phase == Phase::in_round) give_up_round();
    if (is_leaving) close(end);
  }

  // ---- the end of the run

  /// Records the end in the state first: if a ledger is closed, the state on the disk shows it.
  std::string take_leave(const RemoteFarewell& word, const std::string& text) {
    check_meant_for_this(word);
    check_is_of_this_run(word.run);
    if (!folder_) return text;  // the client never took part
    if (!is_over_) {
      is_broken_ = true;  // cleared once everything is on the disk
      end_ = word.status;
      save(Phase::leaving);
      close(std::string(to_text(end_)));
      is_broken_ = false;
    }
    const RecordDirectory directory(wish_.directory);
    return directory.has(kReceipt) ? directory.read(kReceipt, kMostReceiptBytes) : text;
  }

  void close(const std::string& status) {
    if (is_charged()) {
      const RecordDirectory directory(wish_.directory);
      Json files = Json::object();
      for (const std::string& name : files_bound_by_client()) {
        const std::optional<std::string> hash = directory.sha256(name);
        if (!hash) throw IoError((wish_.directory / name).string() + ": has vanished");
        files[name] = *hash;
      }
      client_->close_ledger(status, files);
      const SiteReceipt said{.run = run_,
                             .ground = ground_,
                             .client = wish_.number,
                             .status = status,
                             .ledger = client_->ledger()->position().last_hash,
                             .steps = client_->steps_done(),
                             .account = reservation_facts(manifest_.account, reservation_id_),
                             .signer = {}};
      unsigned_receipt_ = said.body().dump();
    }
    is_over_ = true;
    lasting_.reset();
    key_.reset();
    client_.reset();
    // Overwrites both checkpoint slots, so that the keys no longer exist anywhere.
    save(Phase::over);
    save(Phase::over);
    settle_up();
  }

  /// Writes the receipt and settles the account at the reservation's full cost, unless this was
  /// done before. The run's keys are erased first, so they do not stay on the disk if the receipt
  /// cannot be signed, or the account cannot be written.
  void settle_up() {
    if (unsigned_receipt_.empty()) return;
    const SiteReceipt said = SiteReceipt::of_body(Json::parse(unsigned_receipt_));
    if (!wish_.key.empty() && !RecordDirectory(wish_.directory).has(kReceipt))
      write_atomically(wish_.directory / kReceipt, said.signed_by(wish_.key));
    if (!reservation_id_.empty() && manifest_.account)
      settle_in_full(own_plan(), reservation_id_, said.status);
  }

  /// Pays for an interrupted round without repeating it. The round may have reached any point, and
  /// the server may have received a model with its noise.
  void give_up_round() {
    if (is_charged()) {
      client_->give_up(steps_in_round_);
      // The ledger must end with this round; if it continues, an older state was restored.
      if (client_->ledger()->is_behind())
        throw PrivacyError(wish_.directory.string() +
                           ": its ledger has charges that are newer than its private state; "
                           "continuing would release the same noise again");
    }
    steps_in_round_ = 0;
    last_order_.clear();
    last_answer_.clear();
    save(Phase::between_rounds);
  }

  // ---- a round

  std::string carry_out(const RemoteOrder& order, const std::string& hash) {
    const std::uint64_t steps =
        order.first_step ? order.steps : std::min(order.steps, client_->steps_left());
    next_round_ = order.round + 1;
    steps_in_round_ = steps;
    last_order_.clear();
    last_answer_.clear();
    use_keys_of_round(hash);
    save(Phase::in_round);
    RemoteAnswer answer{.run = run_,
                        .ground = ground_,
                        .client = wish_.number,
                        .round = order.round,
                        .sent = {},
                        .steps_done = 0,
                        .estimates_made = 0,
                        .diverged = false};
    if (steps > 0) {
      if (order.first_step) client_->begin_at(*order.first_step);
      pool_->with(
          [&](Workbench& bench) { answer.sent = client_->train(order.model, steps, bench); });
      answer.diverged = client_->diverged();
    }
    answer.steps_done = is_charged() ? client_->steps_done() : 0;
    answer.estimates_made = client_->estimates_made();
    steps_in_round_ = 0;
    last_order_ = hash;
    last_answer_ = answer.text();
    save(Phase::between_rounds);
    return last_answer_;
  }

  static constexpr const char* kReceipt = "receipt.json";

  const Manifest& manifest_;
  RemoteClientOptions wish_;
  RunOptions options_;
  std::unique_ptr<Executor> executor_;
  OwnPart part_;
  std::string ground_;
  // Set once a part has begun.
  std::optional<CheckpointFolder> folder_;
  std::string run_;
  std::string reservation_id_;  // in the account of the manifest, if it names one
  std::optional<RunOutput> output_;
  DataCommitment data_;
  std::optional<RandomKey> lasting_, key_;  // key_ is for the next round
  std::optional<RunKeys> keys_;
  std::optional<WorkbenchPool> pool_;
  std::unique_ptr<Client> client_;
  std::string kept_;  // the client's state before the round
  std::uint64_t steps_in_round_ = 0, next_round_ = 0;
  std::string last_order_, last_answer_;
  std::string unsigned_receipt_;  // once the part is over and a ledger was charged
  RunStatus end_ = RunStatus::completed;
  bool is_over_ = false;
  bool is_broken_ = false;
};

RemoteClient::RemoteClient(const Manifest& manifest, const ComponentUse* own,
                           const RemoteClientOptions& options)
    : part_(std::make_unique<Part>(manifest, own, options)) {}

RemoteClient::~RemoteClient() = default;

nlohmann::json RemoteClient::introduction() const { return part_->introduction(); }

std::string RemoteClient::answer(const std::string& order) { return part_->answer(order); }

bool RemoteClient::failed() const noexcept { return part_->failed(); }

}  // namespace privgrad::core
