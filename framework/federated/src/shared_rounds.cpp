#include "shared_rounds.hpp"

#include <algorithm>
#include <tuple>

#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/train/checkpoints.hpp"
#include "privgrad/train/cluster_talk.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {
namespace {

// ---- messages between the processes

std::string state_of(const Client& client) {
  StateWriter out;
  client.save(out);
  return out.text();
}

void restore_client(Client& client, const std::string& state) {
  StateReader in(state, "the saved state of a client");
  client.restore(in);
  in.end();
}

enum class RoundWish : std::uint64_t { steps = 1, estimates, end };

/// An order from process 0 for one client, sent to the process that makes its round.
struct ClientOrder {
  std::uint64_t client = 0;
  std::uint64_t steps = 0;
  std::string kept{};  ///< The client's state; "" if its process already has it.

  static auto state(auto& self) { return std::tie(self.client, self.steps, self.kept); }
};

struct RoundOrder {
  RoundWish wish = RoundWish::end;
  // the text that told() makes of the round's keys; only for RoundWish::steps
  std::string keys{};
  std::vector<float> model{};
  std::optional<std::uint64_t> first_step{};
  std::vector<ClientOrder> clients{};  ///< For estimates: the clients whose estimates are paid for.

  static auto state(auto& self) {
    return std::tie(self.wish, self.keys, self.model, self.first_step, self.clients);
  }
};

RoundOrder order_of(const std::string& text) {
  return from_state_text<RoundOrder>(text, "the order of process 0");
}

/// The keys of one round.
std::string told(const RunKeys& keys) {
  StateWriter out;
  out.put(keys.lasting(), keys.ratchets(), keys.of_step());
  return out.text();
}

RunKeys keys_told(const std::string& text) {
  StateReader in(text, "the keys of a round");
  const RandomKey lasting = in.key();
  const bool ratchets = in.flag();
  const RandomKey of_step = in.key();
  in.end();
  return ratchets ? RunKeys::of_one_step(lasting, of_step) : RunKeys::constant(lasting);
}

/// A client's message and state: private.
void save_sent(StateWriter& out, const ClientRound& round, const Client& client) {
  out.put(round, client.diverged(), state_of(client));
}

/// \param client  process 0's object, which is updated to the other process's state.
ClientRound restored_sent(StateReader& in, Client& client) {
  ClientRound round;
  bool diverged = false;
  std::string kept;
  in.get(round, diverged, kept);
  restore_client(client, kept);
  client.set_diverged(diverged);
  return round;
}

// ---- facts on which the processes must agree

std::vector<CommonPart> common_data(const FederatedPlan& federated, const RunData& data) {
  return {{"other examples", hash_of_examples(data)},
          {"other examples for its clients", hash_of_shards(federated)}};
}

/// The process that makes each client's rounds. Assigns the clients one by one, beginning with the
/// largest, to the process with the fewest examples so far. The result depends only on the plan and
/// the number of processes.
std::vector<std::size_t> owners_of(const FederatedPlan& federated, std::size_t processes) {
  std::vector<std::size_t> order(federated.clients.size()), owners(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return federated.clients[a].rows.size() > federated.clients[b].rows.size();
  });
  std::vector<std::uint64_t> rows(processes, 0);
  for (const std::size_t client : order) {
    const auto least = std::ranges::min_element(rows);
    owners[client] = static_cast<std::size_t>(least - rows.begin());
    *least += federated.clients[client].rows.size();
  }
  return owners;
}

/// Whether the client has a ledger that pays for its steps; with dp_fed_avg only the server has a
/// ledger.
bool is_charged(const FederatedPlan& federated, std::size_t client) {
  return !federated.clients[client].plan->manifest->noise_off;
}

}  // namespace

SharedRounds::SharedRounds(Cluster& cluster, const Plan& plan, const RunOptions& options,
                           const RunData& data, Executor& executor)
    : cluster_(cluster),
      executor_(executor),
      owners_(owners_of(*plan.federated, cluster.size())),
      told_(owners_.size(), true) {
  share_plan(cluster, plan, options);
  compare_common_parts(cluster, common_data(*plan.federated, data));
}

std::vector<std::optional<ClientRound>> SharedRounds::train(
    const std::vector<std::unique_ptr<Client>>& clients, const Round& round,
    std::span<const ClientTask> tasks, WorkbenchPool& pool) {
  // Each ledger is a separate file, flushed before its client's examples are read.
  std::vector<std::uint8_t> is_paid(tasks.size(), 0);
  executor_.for_each_chunk(tasks.size(), [&](std::size_t i) {
    is_paid[i] = clients[tasks[i].client]->pay_for(tasks[i].steps) ? 1 : 0;
  });
  RoundOrder order{.wish = RoundWish::steps,
                   .keys = told(round.keys),
                   .model = {round.model.begin(), round.model.end()},
                   .first_step = round.first_step};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::uint32_t number = tasks[i].client;
    if (is_paid[i] == 0 || owners_[number] == 0) continue;
    Client& client = *clients[number];
    order.clients.push_back(
        {.client = number, .steps = tasks[i].steps, .kept = told_[number] ? "" : state_of(client)});
    told_[number] = true;
    if (client.ledger() != nullptr) client.hand_over(tasks[i].steps);
  }
  broadcast_text(cluster_, state_text(order));
  std::vector<std::optional<ClientRound>> sent(tasks.size());
  executor_.for_each_chunk(tasks.size(), [&](std::size_t i) {
    if (is_paid[i] == 0 || owners_[tasks[i].client] != 0) return;
    Client& client = *clients[tasks[i].client];
    if (round.first_step) client.begin_at(*round.first_step);
    pool.with(
        [&](Workbench& bench) { sent[i] = client.make_steps(round.model, tasks[i].steps, bench); });
  });
  const std::vector<std::string> texts = gathered_texts(cluster_, "");
  std::vector<StateReader> readers;
  readers.reserve(texts.size());
  for (const std::string& text : texts) readers.emplace_back(text, "the answers of clients");
  // Each process answers in the order of the tasks.
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::size_t owner = owners_[tasks[i].client];
    if (is_paid[i] != 0 && owner != 0)
      sent[i] = restored_sent(readers[owner], *clients[tasks[i].client]);
  }
  for (const StateReader& reader : readers) reader.end();
  estimate(clients, round, tasks, sent, pool);
  return sent;
}

void SharedRounds::estimate(const std::vector<std::unique_ptr<Client>>& clients, const Round& round,
                            std::span<const ClientTask> tasks,
                            std::vector<std::optional<ClientRound>>& sent, WorkbenchPool& pool) {
  std::vector<std::uint8_t> is_paid(tasks.size(), 0);
  const auto wants = [&](std::size_t i) {
    return sent[i] && clients[tasks[i].client]->wants_estimate();
  };
  bool any = false;
  for (std::size_t i = 0; i < tasks.size(); ++i) any = any || wants(i);
  if (!any) return;
  executor_.for_each_chunk(tasks.size(), [&](std::size_t i) {
    is_paid[i] = wants(i) && clients[tasks[i].client]->pay_for_estimate() ? 1 : 0;
  });
  RoundOrder order{.wish = RoundWish::estimates};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (is_paid[i] == 0 || owners_[tasks[i].client] == 0) continue;
    order.clients.push_back({.client = tasks[i].client});
    clients[tasks[i].client]->hand_over_estimate();
  }
  broadcast_text(cluster_, state_text(order));
  executor_.for_each_chunk(tasks.size(), [&](std::size_t i) {
    if (is_paid[i] == 0 || owners_[tasks[i].client] != 0) return;
    pool.with([&](Workbench& bench) {
      clients[tasks[i].client]->estimate(round.model, *sent[i], bench);
    });
  });
  const std::vector<std::string> texts = gathered_texts(cluster_, "");
  std::vector<StateReader> readers;
  readers.reserve(texts.size());
  for (const std::string& text : texts) readers.emplace_back(text, "the estimates of clients");
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::size_t owner = owners_[tasks[i].client];
    if (is_paid[i] != 0 && owner != 0)
      sent[i] = restored_sent(readers[owner], *clients[tasks[i].client]);
  }
  for (const StateReader& reader : readers) reader.end();
}

void SharedRounds::dismiss() { broadcast_text(cluster_, state_text(RoundOrder{})); }

namespace {

/// Makes the rounds of this process's clients on request.
class FederatedWorker {
 public:
  FederatedWorker(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        federated_(*plan.federated),
        cluster_(*options.cluster),
        executor_(make_executor(options.threads)),
        data_(read_rows(plan.manifest->data, *plan.setting)),
        pool_(plan, *executor_),
        clients_(federated_.clients.size()),
        sent_(federated_.clients.size()) {
    apply_transforms(*plan.manifest, *plan.setting, data_, options.threads, options.features);
    compare_common_parts(cluster_, common_data(federated_, data_));
    owners_ = owners_of(federated_, cluster_.size());
  }

  void work() {
    for (;;) {
      RoundOrder order = order_of(broadcast_text(cluster_, ""));
      if (order.wish == RoundWish::end) return;
      std::erase_if(order.clients,
                    [&](const ClientOrder& one) { return owner(one) != cluster_.rank(); });
      if (order.wish == RoundWish::steps) {
        make_steps(order);
      } else {
        estimate(order);
      }
      StateWriter out;
      for (const ClientOrder& one : order.clients)
        save_sent(out, sent_[one.client], *clients_[one.client]);
      gathered_texts(cluster_, out.text());
    }
  }

 private:
  std::size_t owner(const ClientOrder& one) const {
    if (one.client >= owners_.size())
      throw IoError("process 0 asked for a client that does not exist");
    return owners_[one.client];
  }

  void make_steps(const RoundOrder& order) {
    model_ = order.model;
    if (model_.size() != plan_.parameters)
      throw IoError("process 0 sent a model with another number of parameters than the plan");
    keys_.emplace(keys_told(order.keys));
    for (const ClientOrder& one : order.clients) prepare(one, order.first_step);
    executor_->for_each_chunk(order.clients.size(), [&](std::size_t i) {
      const ClientOrder& one = order.clients[i];
      pool_.with([&](Workbench& bench) {
        sent_[one.client] = clients_[one.client]->make_steps(model_, one.steps, bench);
      });
    });
  }

  void prepare(const ClientOrder& one, const std::optional<std::uint64_t>& first_step) {
    auto& client = clients_[one.client];
    if (client == nullptr) {
      client = std::make_unique<Client>(one.client, federated_, *plan_.manifest->federated,
                                        data_.train, *keys_, *executor_);
      if (is_charged(federated_, one.client)) client->expect_receipts();
    }
    if (!one.kept.empty()) restore_client(*client, one.kept);
    if (first_step) client->begin_at(*first_step);
    if (one.steps > client->steps_left()) throw IoError("process 0 asked for too many steps");
    if (is_charged(federated_, one.client)) client->take_over(one.steps);
  }

  void estimate(const RoundOrder& order) {
    for (const ClientOrder& one : order.clients) {
      if (clients_[one.client] == nullptr)
        throw IoError("process 0 asked for an estimate too early");
      if (is_charged(federated_, one.client)) clients_[one.client]->take_over_estimate();
    }
    executor_->for_each_chunk(order.clients.size(), [&](std::size_t i) {
      const std::uint64_t number = order.clients[i].client;
      pool_.with(
          [&](Workbench& bench) { clients_[number]->estimate(model_, sent_[number], bench); });
    });
  }

  const Plan& plan_;
  const FederatedPlan& federated_;
  Cluster& cluster_;
  std::unique_ptr<Executor> executor_;
  RunData data_;
  WorkbenchPool pool_;
  std::optional<RunKeys> keys_;  // the keys of this round; clients refer to it
  // null if another process has the client, or it has not been asked yet
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<ClientRound> sent_;
  std::vector<std::size_t> owners_;
  std::vector<float> model_;  // the model that the clients of this round received
};

}  // namespace

void make_rounds_for_others(const Manifest& manifest, const RunOptions& options) {
  const Plan plan = shared_plan(manifest, options);
  FederatedWorker(plan, options).work();
}

}  // namespace privgrad::core
