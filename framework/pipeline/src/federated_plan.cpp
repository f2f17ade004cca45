#include "privgrad/pipeline/federated_plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "planner.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/pipeline/trainer.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::core {
namespace {

/// By the number of a client's examples, what clients of that size have in common.
using PlansBySize = std::map<std::uint64_t, Plan>;

class FederatedPlanner {
 public:
  explicit FederatedPlanner(const Manifest& manifest)
      : manifest_(manifest),
        wish_(*manifest.federated),
        federated_(std::make_shared<FederatedPlan>()) {}

  Plan make() {
    setting_ = plan_setting(manifest_);
    plan_shards();
    plan_iterations();
    Plan plan = wish_.aggregation == Aggregation::dp_fed_avg ? plan_server() : plan_clients();
    plan.data = std::move(setting_.data);
    plan.transforms = std::move(setting_.transforms);
    plan.model = std::move(setting_.model);
    plan.federated = federated_;
    list_unaccounted(plan, unaccounted());
    return plan;
  }

 private:
  // ---- who has which examples

  void plan_shards() {
    partition_ = wish_.partition.make<Transform>();
    const auto* partition = dynamic_cast<const Partition*>(partition_.get());
    wish_.partition.with_position([&] {
      if (partition == nullptr) {
        throw ConfigError(wish_.partition.component->factory.info.name +
                          " changes examples and does not share them out; use iid, shards, "
                          "dirichlet or by_column");
      }
      const auto random = make_random_source(run_key(manifest_).derive("partition"));
      share_out(*partition, *random);
      declare_sizes(*partition, *random);
    });
    plan_weights();
  }

  void share_out(const Partition& partition, const RandomSource& random) {
    const Dataset train =
        manifest_.data.with_position([&] { return setting_.data->read(Split::train); });
    const std::vector<std::uint32_t> owners = partition.clients_of(train, wish_.clients, random);
    if (owners.size() != train.rows()) {
      throw PluginError("named the clients of " + std::to_string(owners.size()) + " of " +
                        std::to_string(train.rows()) + " examples");
    }
    federated_->clients.resize(wish_.clients);
    const std::size_t classes = train.shape().classes;
    has_histograms_ = wish_.label_histograms && classes > 0 && manifest_.mode == Mode::research;
    for (ClientPlan& client : federated_->clients) {
      if (has_histograms_) client.labels.assign(classes, 0);
    }
    for (std::uint32_t row = 0; row < owners.size(); ++row) {
      if (owners[row] >= wish_.clients) {
        throw PluginError("gave an example to client " + std::to_string(owners[row]) + " of " +
                          std::to_string(wish_.clients));
      }
      ClientPlan& client = federated_->clients[owners[row]];
      client.rows.push_back(row);
      if (has_histograms_) ++client.labels[static_cast<std::size_t>(train.targets()[row])];
    }
    for (std::size_t i = 0; i < federated_->clients.size(); ++i) {
      if (!federated_->clients[i].rows.empty()) continue;
      throw ConfigError("leaves client " + std::to_string(i) + " without examples, of " +
                        std::to_string(owners.size()) + "; use fewer clients");
    }
  }

  /// The sizes that sampling rates, divisors and weights follow from: public ones where there are
  /// some.
  void declare_sizes(const Partition& partition, const RandomSource& random) {
    sizes_ = partition.sizes(setting_.dataset_size, wish_.clients, random);
    if (!wish_.sizes.empty()) {
      if (!sizes_.empty()) {
        throw ManifestError({manifest_.position_of("federated.sizes") +
                             ": error: federated.sizes: is given, but the sizes follow from "
                             "data.size; leave it out, or use another partition"});
      }
      sizes_ = wish_.sizes;
    }
    looks_ = partition.looks_at_examples();
    const bool are_counted = sizes_.empty();
    if (are_counted) {
      for (const ClientPlan& client : federated_->clients) sizes_.push_back(client.rows.size());
    }
    // Shares of a number that was counted: without the examples of one client it is another one.
    const bool share_a_count = wish_.aggregation == Aggregation::dp_fed_avg &&
                               manifest_.adjacency != Adjacency::zero_out &&
                               !manifest_.dataset_size && wish_.sizes.empty();
    sizes_are_public_ = !are_counted && !share_a_count;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] > 0) continue;
      throw ConfigError("leaves client " + std::to_string(i) + " without examples, of the " +
                        std::to_string(setting_.dataset_size) +
                        " that data.size declares; use fewer clients");
    }
  }

  void plan_weights() {
    const auto total =
        static_cast<double>(std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0}));
    for (const std::uint64_t size : sizes_) {
      federated_->weights.push_back(wish_.equal_weights ? 1.0 / static_cast<double>(sizes_.size())
                                                        : static_cast<double>(size) / total);
    }
  }

  // ---- how many steps they make

  void plan_iterations() {
    const ComponentUse& use = wish_.local_iterations;
    federated_->schedule = use.make<Schedule>();
    federated_->adaptive = dynamic_cast<AdaptiveLocalIterations*>(federated_->schedule.get());
    most_steps_ = manifest_.steps;
    if (federated_->adaptive != nullptr) {
      use.with_position([&] {
        federated_->schedule->start({.steps = wish_.rounds, .slot = "local_iterations"});
      });
      return;
    }
    const ScheduleValues values =
        schedule_values(use, "local_iterations", wish_.rounds, /*above_zero=*/true);
    use.with_position([&] {
      if (values.is_shape) throw ConfigError("gives a shape without a scale; give whole numbers");
      std::uint64_t all = 0;
      for (std::size_t round = 0; round < values.at.size(); ++round) {
        const double value = values.at[round];
        if (value != std::floor(value) || value > 1e8) {
          throw ConfigError("is " + format_number(value) + " in round " + std::to_string(round) +
                            ", expected a whole number from 1 to 100000000");
        }
        federated_->local_iterations.push_back(static_cast<std::uint64_t>(value));
        all += federated_->local_iterations.back();
      }
      iterations_in_all_ = all;
      most_steps_ = std::min(most_steps_, all);
    });
  }

  // ---- fed_avg: every client for itself

  Plan plan_clients() {
    wish_.participation.with_position([&] {
      federated_->participation = wish_.participation.make<Sampler>();
      federated_->participation->start({.dataset_size = wish_.clients,
                                        .steps = wish_.rounds,
                                        .adjacency = Adjacency::zero_out,
                                        .batch_sizes = {}});
    });
    PlansBySize sizes;
    for (const std::uint64_t size : sizes_) {
      if (sizes.contains(size)) continue;
      sizes[size] = plan_owner(manifest_, setting_, owner_of(size));
      refuse_correlated(sizes[size]);
    }
    if (federated_->adaptive != nullptr) plan_estimates(sizes);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      ClientPlan& client = federated_->clients[i];
      client.plan = twin_of(sizes.at(sizes_[i]));
      if (wish_.estimates != EstimateMode::from_models && federated_->estimates)
        start_estimates(client, sizes_[i]);
    }
    federated_->affordable_steps = affordable(sizes);
    if (federated_->adaptive != nullptr && federated_->estimates) {
      // With what the estimates leave of the budget.
      federated_->adaptive->start_rounds(wish_.rounds, federated_->affordable_steps);
    }
    for (std::size_t i = 1; i < sizes_.size(); ++i) {
      const auto epsilon = [&](std::size_t client) {
        return federated_->clients[client].plan.epsilon().value;
      };
      if (epsilon(i) > epsilon(federated_->weakest)) federated_->weakest = i;
    }
    Plan plan = twin_of(federated_->clients[federated_->weakest].plan);
    plan.dataset_size = setting_.dataset_size;
    return plan;
  }

  OwnerSetting owner_of(std::uint64_t size) const {
    return {.dataset_size = size,
            .steps = most_steps_,
            .is_accounted_in_full = federated_->adaptive != nullptr};
  }

  static std::uint64_t affordable(const PlansBySize& sizes) {
    std::uint64_t least = sizes.begin()->second.affordable_steps;
    for (const auto& [size, plan] : sizes) least = std::min(least, plan.affordable_steps);
    return least;
  }

  void refuse_correlated(const Plan& plan) const {
    if (!plan.correlated) return;
    manifest_.aggregator.with_position([&] {
      throw ConfigError(manifest_.aggregator.component->factory.info.name +
                        " shares noise between steps, and the steps of a client begin anew with "
                        "every round; use gaussian, or federated.aggregation: dp_fed_avg");
    });
  }

  /// Asks whether the rounds will be chosen by estimates, and plans what these cost.
  void plan_estimates(PlansBySize& sizes) {
    wish_.local_iterations.with_position([&] {
      federated_->estimates = federated_->adaptive->start_rounds(wish_.rounds, affordable(sizes));
    });
    if (!federated_->estimates || wish_.estimates != EstimateMode::private_sums ||
        manifest_.noise_off) {
      return;
    }
    if (sizes.begin()->second.grid_levels != 0) {
      throw ManifestError({manifest_.position_of("federated.estimates") +
                           ": error: federated.estimates: private estimates are released with "
                           "continuous noise, and aggregator " +
                           manifest_.aggregator.component->factory.info.name +
                           " promises a grid; use from_models"});
    }
    const double noise = estimate_noise();
    federated_->estimate_noise = noise;
    for (auto& [size, plan] : sizes) {
      OwnerSetting owner = owner_of(size);
      owner.beside = estimate_charges(size, noise);
      plan = plan_owner(manifest_, setting_, owner);
    }
    if (!federated_->adaptive->start_rounds(wish_.rounds, affordable(sizes)))
      leave_out_estimates(sizes);
  }

  /// What they would leave of the budget has a round for every step, so nothing would ask for them.
  void leave_out_estimates(PlansBySize& sizes) {
    federated_->estimates = false;
    federated_->estimate_noise = 0.0;
    most_steps_ = std::min(most_steps_, wish_.rounds);
    for (auto& [size, plan] : sizes) plan = plan_owner(manifest_, setting_, owner_of(size));
    federated_->adaptive->start_rounds(wish_.rounds, affordable(sizes));
  }

  /// The same for all clients: the least that costs none of them more than its share.
  double estimate_noise() const {
    if (wish_.estimate_noise) return *wish_.estimate_noise;
    if (!manifest_.target_epsilon) {
      throw ManifestError({manifest_.position_of("federated.estimates") +
                           ": error: federated.estimates: private estimates have their share of "
                           "privacy.target_epsilon, which is missing; give it, or "
                           "federated.estimate_noise"});
    }
    const std::uint64_t smallest = *std::min_element(sizes_.begin(), sizes_.end());
    return smallest_scale(
        [&](double candidate) {
          return guard_answer(manifest_, estimate_charges(smallest, candidate)).value;
        },
        wish_.estimate_share * *manifest_.target_epsilon);
  }

  ComponentPtr<Sampler> estimate_sampler(std::uint64_t size) const {
    return manifest_.sampler.with_position([&] {
      auto sampler = manifest_.sampler.make<Sampler>();
      std::vector<double> batch_sizes;
      if (manifest_.batch_size.component != nullptr) {
        const auto all = schedule_values(manifest_.batch_size, "batch_size", most_steps_, true);
        if (!all.is_shape) batch_sizes.assign(wish_.rounds, all.at.front());
      }
      sampler->start({.dataset_size = size,
                      .steps = wish_.rounds,
                      .adjacency = manifest_.adjacency,
                      .batch_sizes = batch_sizes});
      return sampler;
    });
  }

  std::vector<Charge> estimate_charges(std::uint64_t size, double noise) const {
    const std::vector<Event> releases(wish_.rounds, Event::gaussian(noise));
    return sampled_charges(manifest_, *estimate_sampler(size), releases, "estimate");
  }

  void start_estimates(ClientPlan& client, std::uint64_t size) const {
    client.estimate_sampler = estimate_sampler(size);
    client.estimate_divisor = client.estimate_sampler->expected_batch_size(0);
  }

  // ---- dp_fed_avg: the server for all

  Plan plan_server() {
    if (federated_->adaptive != nullptr) {
      wish_.local_iterations.with_position([&] {
        throw ConfigError(wish_.local_iterations.component->factory.info.name +
                          " follows what single clients release, and with dp_fed_avg they "
                          "release nothing; give a number or a list");
      });
    }
    refuse_rounds_without_steps();
    Manifest& server = federated_->manifest;
    server = manifest_;
    server.sampler = wish_.participation;
    server.clipping = wish_.client_clipping;
    server.optimizer = wish_.server_optimizer;
    server.batch_size = {};
    Plan plan = plan_owner(server, setting_,
                           {.dataset_size = wish_.clients,
                            .steps = wish_.rounds,
                            .clip_norm = wish_.client_clip_norm,
                            .learning_rate = wish_.server_learning_rate,
                            .key = server_key(run_key(manifest_))});
    refuse_differences(plan);
    federated_->participation_is_secret = is_amplified(plan);
    plan.unit = PrivacyUnit::client;
    plan.dataset_size = wish_.clients;

    Manifest& local = federated_->local_manifest;
    local = manifest_;
    local.aggregator = wish_.client_aggregator;  // the manifest's makes the server's noise
    local.noise_off = true;
    local.noise_multiplier = {};
    local.noise_std = {};
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      federated_->clients[i].plan =
          plan_owner(local, setting_, {.dataset_size = sizes_[i], .steps = most_steps_});
    }
    federated_->affordable_steps = most_steps_;
    return plan;
  }

  static bool is_amplified(const Plan& plan) {
    return !plan.correlated &&
           std::any_of(plan.charges.begin(), plan.charges.end(),
                       [](const Charge& charge) { return !(charge.cost == charge.release); });
  }

  /// Rounds in which no client has steps left would be paid for all the same.
  void refuse_rounds_without_steps() const {
    if (most_steps_ < manifest_.steps || iterations_in_all_ == manifest_.steps) return;
    throw ManifestError({manifest_.position_of("steps") + ": error: steps: is " +
                         std::to_string(manifest_.steps) +
                         ", but the rounds of dp_fed_avg, each of which is charged, have " +
                         std::to_string(iterations_in_all_) +
                         " local steps; give at least so many, or fewer rounds"});
  }

  void refuse_differences(const Plan& plan) const {
    if (plan.differences == nullptr) return;
    manifest_.aggregator.with_position([&] {
      throw ConfigError(manifest_.aggregator.component->factory.info.name +
                        " takes differences of the gradients of examples, and what the server of "
                        "dp_fed_avg adds up are clients' changes; use gaussian or tree");
    });
  }

  // ---- what nobody is charged for

  std::vector<Unaccounted> unaccounted() const {
    std::vector<Unaccounted> list;
    const std::string& position = wish_.partition.position;
    // Without one example the others move up, and lie elsewhere. Neighbours of the client unit have
    // the same shards but one's.
    if (!wish_.shards_are_given &&
        (looks_ || (manifest_.adjacency == Adjacency::add_or_remove_one &&
                    wish_.aggregation == Aggregation::fed_avg))) {
      list.push_back(
          {"partition of the examples (" + wish_.partition.component->factory.info.name + ")",
           position});
    }
    if (!sizes_are_public_) list.push_back({"sizes of the clients' shards", position});
    if (has_histograms_) {
      list.push_back({"label histograms of the clients",
                      manifest_.position_of("federated.label_histograms"), Reach::shown_values});
    }
    // Release mode shows neither.
    if (federated_->participation_is_secret && manifest_.mode == Mode::research) {
      list.push_back(
          {"who takes part in which round", wish_.participation.position, Reach::shown_values});
    }
    if (federated_->estimates && wish_.estimates == EstimateMode::unaccounted) {
      list.push_back(
          {"estimates of the clients' losses", manifest_.position_of("federated.estimates")});
    }
    return list;
  }

  const Manifest& manifest_;
  const Federated& wish_;
  std::shared_ptr<FederatedPlan> federated_;
  Plan setting_;
  ComponentPtr<Transform> partition_;
  std::vector<std::uint64_t> sizes_;  // one per client, as declared
  bool sizes_are_public_ = false, looks_ = false, has_histograms_ = false;
  std::uint64_t most_steps_ = 0, iterations_in_all_ = 0;
};

}  // namespace

RandomKey server_key(const RandomKey& run_key) { return run_key.derive("server"); }

Plan make_federated_plan(const Manifest& manifest) { return FederatedPlanner(manifest).make(); }

nlohmann::json to_json(const FederatedPlan& federated, const Manifest& manifest) {
  using Json = nlohmann::json;
  const Federated& wish = *manifest.federated;
  Json clients = Json::array();
  for (const ClientPlan& client : federated.clients) {
    Json json{{"dataset_size", client.plan.dataset_size},
              {"affordable_steps", client.plan.affordable_steps}};
    if (!federated.at_server()) json["epsilon"] = json_number(client.plan.epsilon().value);
    if (!client.labels.empty()) json["labels"] = client.labels;
    clients.push_back(std::move(json));
  }
  Json json{{"clients", std::move(clients)},
            {"rounds", wish.rounds},
            {"aggregation", to_text(wish.aggregation)},
            {"partition", wish.partition.component->factory.info.name},
            {"affordable_steps", federated.affordable_steps},
            {"local_iterations",
             federated.adaptive != nullptr ? Json("adaptive") : Json(federated.local_iterations)}};
  if (!federated.at_server()) json["weights"] = federated.weights;
  if (federated.adaptive != nullptr) {
    json["estimates"] = federated.estimates ? Json(to_text(wish.estimates)) : Json("none");
    json["estimate_noise"] = federated.estimate_noise;
  }
  return json;
}

}  // namespace privgrad::core
