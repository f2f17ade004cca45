// One client of a federated run, and its answers to the server: through the run's own interface,
// without accounting (noise is off), so that values are exact.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "privgrad/data/executor.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

/// All examples in every batch; the clip norm is so large that nothing is clipped.
constexpr const char* kClientsAlone = R"(privgrad: 1
seed: 1
data: {kind: synthetic, rows: 40, test_rows: 10, dimensions: 3}
model: {kind: linear}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 1, clip_norm: 1e6, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp, noise: off}
steps: 40
federated: {clients: 4, rounds: 10, local_iterations: {kind: ali_dpfl}, estimate_bound: 1000}
)";

/// Returns the client's answer after `steps` steps from `model`.
core::ClientRound sent_by(Experiment& experiment, std::size_t number, const Dataset& data,
                          const std::vector<float>& model, std::uint64_t steps) {
  const core::Plan& plan = experiment.plan();
  const auto executor = core::make_executor(1);
  const core::RunKeys keys = core::RunKeys::constant(core::RandomKey::from_seed(1));
  core::Client client(number, *plan.federated, *plan.manifest->federated, data, keys, *executor);
  core::Workbench bench = core::make_workbench(plan, *executor);
  auto sent = client.train(model, steps, bench);
  REQUIRE(sent.has_value());
  return std::move(*sent);
}

Dataset training_data(Experiment& experiment) {
  return experiment.plan().setting->data->read(Split::train);
}

std::vector<float> start_of(Experiment& experiment) {
  std::vector<float> model(experiment.plan().parameters);
  for (std::size_t j = 0; j < model.size(); ++j) model[j] = 0.1f * static_cast<float>(j % 3) - 0.1f;
  return model;
}

/// Returns the mean loss of a client's examples.
double mean_loss(Experiment& experiment, std::size_t client, const Dataset& data,
                 const std::vector<float>& model) {
  const auto executor = core::make_executor(1);
  core::Workbench bench = core::make_workbench(experiment.plan(), *executor);
  bench.load(model);
  const auto& rows = experiment.plan().federated->clients[client].rows;
  std::vector<float> features(rows.size() * data.row_size()), targets(rows.size());
  data.gather(rows, features, targets);
  return bench.program->evaluate({features, targets}).loss / static_cast<double>(rows.size());
}

std::vector<double> difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> out(a.size());
  for (std::size_t j = 0; j < a.size(); ++j)
    out[j] = static_cast<double>(a[j]) - static_cast<double>(b[j]);
  return out;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

TEST_CASE("private estimates are the change of the client's loss, and how it bends on the way",
          "[federated][ali]") {
  Experiment experiment(kClientsAlone);
  const Dataset data = training_data(experiment);
  const std::vector<float> start = start_of(experiment);
  const core::ClientRound sent = sent_by(experiment, 2, data, start, 3);
  std::vector<float> middle(start.size());
  for (std::size_t j = 0; j < middle.size(); ++j) middle[j] = 0.5f * (start[j] + sent.model[j]);
  const double before = mean_loss(experiment, 2, data, start);
  const double halfway = mean_loss(experiment, 2, data, middle);
  const double after = mean_loss(experiment, 2, data, sent.model);
  REQUIRE(sent.loss_changes.has_value());
  const auto [change, second] = *sent.loss_changes;
  CHECK(after < before);
  CHECK_THAT(change, WithinRel(after - before, 1e-4));
  CHECK_THAT(second, WithinRel(after - 2.0 * halfway + before, 1e-3));
  CHECK(second > 0.0);  // the loss of a linear model is convex
}

TEST_CASE("an example counts in a private estimate with no more than estimate_bound",
          "[federated][ali][privacy]") {
  // The bound is so small that the loss of every example changes by more. Each example's vector is
  // therefore clipped to this length, and the client sends the mean of these vectors.
  Experiment experiment(kClientsAlone, {"federated.estimate_bound=1e-4"});
  const Dataset data = training_data(experiment);
  const core::ClientRound sent = sent_by(experiment, 2, data, start_of(experiment), 3);
  const auto [change, second] = sent.loss_changes.value();
  const double length = std::hypot(change, second);
  CHECK(length <= 1e-4 * (1.0 + 1e-6));  // the sum in single precision
  CHECK(length > 0.5e-4);
}

TEST_CASE("unaccounted estimates are the exact losses and gradients at both ends",
          "[federated][ali]") {
  Experiment experiment(kClientsAlone, {"federated.estimates=unaccounted"});
  const Dataset data = training_data(experiment);
  const std::vector<float> start = start_of(experiment);
  const core::ClientRound sent = sent_by(experiment, 1, data, start, 1);
  REQUIRE(sent.exact.has_value());
  CHECK_THAT(sent.exact->before, WithinRel(mean_loss(experiment, 1, data, start), 1e-6));
  CHECK_THAT(sent.exact->after, WithinRel(mean_loss(experiment, 1, data, sent.model), 1e-6));
  // One step of plain descent gives the gradient at its start, (w - w') / 0.5; another step gives
  // it at the new model.
  const core::ClientRound next = sent_by(experiment, 1, data, sent.model, 1);
  const auto step = difference(sent.model, start), then = difference(next.model, sent.model);
  std::vector<double> turn(step.size());
  for (std::size_t j = 0; j < step.size(); ++j) {
    CHECK_THAT(static_cast<double>(sent.exact->gradient[j]), WithinAbs(-step[j] / 0.5, 1e-5));
    turn[j] = -then[j] / 0.5 + step[j] / 0.5;
  }
  CHECK_THAT(sent.exact->gradient_change, WithinRel(std::sqrt(dot(turn, turn)), 1e-3));
  CHECK_THAT(sent.exact->along, WithinRel(dot(turn, step), 1e-3));
}

namespace {

/// Draws all rows. The instance for estimates, which is made after the instance for steps, adds one
/// more: the first row again, or a row that does not exist.
class RowAddingSampler final : public Sampler {
 public:
  explicit RowAddingSampler(const Params&) : number_(made++) {}
  void start(const SamplingPlan& plan) override { size_ = plan.dataset_size; }
  double expected_batch_size(std::uint64_t) const override { return static_cast<double>(size_); }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return {releases.begin(), releases.end()};
  }
  void sample(std::uint64_t, std::size_t rows, const RandomSource&,
              std::vector<std::uint32_t>& batch) override {
    batch.resize(rows);
    std::iota(batch.begin(), batch.end(), 0U);
    if (number_ == last) batch.push_back(adds_existing ? 0U : static_cast<std::uint32_t>(rows));
  }
  inline static int made = 0, last = -1;
  inline static bool adds_existing = true;

 private:
  int number_;
  std::uint64_t size_ = 0;
};

}  // namespace

TEST_CASE("a row that is drawn twice, or does not exist, is in no estimate",
          "[federated][privacy]") {
  const Catalog catalog = house_with({offer<Sampler, RowAddingSampler>("row_adding")});
  for (const char* estimates : {"private", "unaccounted"}) {
    for (const bool existing : {true, false}) {
      INFO(estimates << ", " << existing);
      RowAddingSampler::adds_existing = existing;
      Experiment experiment(kClientsAlone,
                            {std::string("federated.estimates=") + estimates, "sampler=row_adding"},
                            catalog);
      const Dataset data = training_data(experiment);
      const std::vector<float> start = start_of(experiment);
      RowAddingSampler::last = -1;
      const int before = RowAddingSampler::made;
      CHECK_NOTHROW(sent_by(experiment, 0, data, start, 1));
      const int instances = RowAddingSampler::made - before;
      // The same, but only the client's last instance, which draws for estimates, is
      // faulty.
      RowAddingSampler::last = RowAddingSampler::made + instances - 1;
      CHECK_THROWS_WITH(sent_by(experiment, 0, data, start, 1),
                        ContainsSubstring(existing ? "row 0 was drawn twice" : "does not exist"));
    }
  }
}

namespace {

/// Draws each row with probability 1/10, and charges this. The instance for estimates, with one
/// batch for each of ten rounds instead of forty steps, may draw all rows, or charge half.
class TwoFacedSampler final : public Sampler {
 public:
  explicit TwoFacedSampler(const Params&) {}
  void start(const SamplingPlan& plan) override {
    of_estimates_ = plan.steps == 10;
    size_ = plan.dataset_size;
  }
  double expected_batch_size(std::uint64_t) const override {
    return kRate * static_cast<double>(size_);
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    std::vector<Event> charged;
    const double rate = of_estimates_ && charges_less ? kRate / 2.0 : kRate;
    for (const Event& release : releases) charged.push_back(Event::poisson_sampled(rate, release));
    return charged;
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              std::vector<std::uint32_t>& batch) override {
    const auto coins = random.stream(step);
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row) {
      const bool drawn = coins->uniform_below(10) == 0;
      if (drawn || (of_estimates_ && takes_all)) batch.push_back(row);
    }
  }
  inline static bool takes_all = false, charges_less = false;

 private:
  static constexpr double kRate = 0.1;
  bool of_estimates_ = false;
  std::uint64_t size_ = 0;
};

}  // namespace

TEST_CASE("the batches of private estimates are held against what is charged for them",
          "[federated][privacy]") {
  const Catalog catalog = house_with({offer<Sampler, TwoFacedSampler>("two_faced")});
  const auto run = [&](bool takes_all, bool charges_less) {
    Experiment experiment(kClientsAlone,
                          {"sampler=two_faced", "federated.estimates=private", "data.rows=400",
                           "privacy={target_epsilon: 20, target_delta: 1e-5, "
                           "adjacency: add_or_remove_one, accountant: rdp}",
                           "federated.estimate_noise=2"},
                          catalog);
    TwoFacedSampler::takes_all = TwoFacedSampler::charges_less = false;
    experiment.plan();
    TwoFacedSampler::takes_all = takes_all;
    TwoFacedSampler::charges_less = charges_less;
    experiment.run();
  };
  CHECK_NOTHROW(run(false, false));
  CHECK_THROWS_WITH(run(true, false), ContainsSubstring("two_faced (of estimates): the batches") &&
                                          ContainsSubstring("are larger or smaller than"));
  CHECK_THROWS_WITH(run(false, true),
                    ContainsSubstring("two_faced: the charges for estimates differ from the plan"));
}

TEST_CASE("a client looks at no examples but its own", "[federated][privacy]") {
  // Parallel composition relies on this: the examples of other clients may be anything.
  for (const char* estimates : {"private", "unaccounted"}) {
    INFO(estimates);
    Experiment experiment(kClientsAlone, {std::string("federated.estimates=") + estimates});
    Dataset data = training_data(experiment);
    const auto& clients = experiment.plan().federated->clients;
    const std::vector<float> start = start_of(experiment);
    for (std::size_t number = 0; number < clients.size(); ++number) {
      std::vector<float> features(data.features().begin(), data.features().end());
      for (std::size_t other = 0; other < clients.size(); ++other) {
        if (other == number) continue;
        for (const std::uint32_t row : clients[other].rows) {
          for (std::size_t k = 0; k < data.row_size(); ++k)
            features[row * data.row_size() + k] += 1.0f;
        }
      }
      const Dataset changed(data.shape(), std::move(features),
                            {data.targets().begin(), data.targets().end()});
      const auto as_it_was = sent_by(experiment, number, data, start, 2);
      const auto with_others = sent_by(experiment, number, changed, start, 2);
      CHECK(as_it_was.model == with_others.model);
      CHECK(as_it_was.loss_changes == with_others.loss_changes);
      REQUIRE(as_it_was.exact.has_value() == with_others.exact.has_value());
      if (!as_it_was.exact) continue;
      CHECK(as_it_was.exact->before == with_others.exact->before);
      CHECK(as_it_was.exact->after == with_others.exact->after);
      CHECK(as_it_was.exact->gradient == with_others.exact->gradient);
    }
  }
}

TEST_CASE("a client of dp_fed_avg begins each round anew, whatever it did in earlier ones",
          "[federated][privacy]") {
  // Momentum, an adaptive clip norm, and batches and rates that depend on the step number:
  // everything that could remember a round in which the client took part.
  Experiment experiment(
      kClientsAlone,
      {"federated={clients: 4, rounds: 10, local_iterations: 3, aggregation: dp_fed_avg, "
       "client_clip_norm: 1}",
       "steps=30", "clipping=adaptive", "schedules.clip_norm=0.1",
       "optimizer={kind: momentum, beta: 0.9}", "sampler={kind: shuffle, batch_size: 3}",
       "schedules.learning_rate={kind: exponential, initial: 0.5, rate: 0.05}"});
  const Dataset data = training_data(experiment);
  const std::vector<float> model = start_of(experiment);
  const core::Plan& plan = experiment.plan();
  const auto executor = core::make_executor(1);
  core::Workbench bench = core::make_workbench(plan, *executor);
  const auto third_round = [&](bool took_part_in_first) {
    const core::RunKeys keys = core::RunKeys::constant(core::RandomKey::from_seed(1));
    core::Client client(2, *plan.federated, *plan.manifest->federated, data, keys, *executor);
    if (took_part_in_first) REQUIRE(client.train(model, 3, bench).has_value());
    client.begin_at(6);
    return client.train(model, 3, bench).value().model;
  };
  CHECK(third_round(true) == third_round(false));
  CHECK(third_round(false) != model);
}

TEST_CASE("the noise of a round, in its steps and in its estimate, has the key of that round",
          "[federated][resume][privacy]") {
  const auto sent_with = [](const char* learning_rate, const core::RunKeys& keys) {
    Experiment experiment(
        kClientsAlone,
        {"privacy={noise: on, target_delta: 1e-5, adjacency: zero_out, accountant: rdp}",
         "schedules.noise_multiplier=1", "federated.estimate_noise=1", "federated.estimate_bound=1",
         std::string("schedules.learning_rate=") + learning_rate});
    const Dataset data = training_data(experiment);
    const core::Plan& plan = experiment.plan();
    const auto executor = core::make_executor(1);
    core::Workbench bench = core::make_workbench(plan, *executor);
    const TempDir dir;
    core::Client client(1, *plan.federated, *plan.manifest->federated, data, keys, *executor);
    client.open_ledger(dir.path() / "ledger.jsonl", nlohmann::json::object());
    return client.train(start_of(experiment), 1, bench).value();
  };
  core::RunKeys keys = core::RunKeys::chain(core::RandomKey::from_seed(1), "a run");
  core::RunKeys later = keys;
  later.next("what was shown");

  const std::vector<float> stepped = sent_with("0.5", keys).model;
  CHECK(stepped == sent_with("0.5", keys).model);
  CHECK(stepped != sent_with("0.5", later).model);
  // Steps are so short that the model does not change: an estimate contains only its noise.
  const auto estimates_with = [&](const core::RunKeys& of) {
    return sent_with("1e-30", of).loss_changes.value();
  };
  const auto first = estimates_with(keys), next = estimates_with(later);
  CHECK(first == estimates_with(keys));
  CHECK(std::abs(first[0] - next[0]) > 1e-6);
  CHECK(std::abs(first[1] - next[1]) > 1e-6);
}

TEST_CASE("fed_prox pulls back to the model that the round began with", "[federated]") {
  // Two steps by hand: w1 = w0 - eta g(w0), and w2 = w1 - eta (g(w1) + mu (w1 - w0)). Plain descent
  // with the same two steps gives the gradients.
  Experiment plain(kClientsAlone), prox(kClientsAlone, {"optimizer={kind: fed_prox, mu: 0.3}"});
  const Dataset data = training_data(plain);
  const std::vector<float> start = start_of(plain);
  const auto one = sent_by(plain, 0, data, start, 1).model;
  const auto two = sent_by(plain, 0, data, start, 2).model;
  const auto pulled = sent_by(prox, 0, data, start, 2).model;
  double pull = 0.0;
  for (std::size_t j = 0; j < start.size(); ++j) {
    const double back = 0.5 * 0.3 * (static_cast<double>(one[j]) - static_cast<double>(start[j]));
    pull = std::max(pull, std::abs(back));
    CHECK_THAT(static_cast<double>(pulled[j]), WithinAbs(static_cast<double>(two[j]) - back, 1e-6));
  }
  CHECK(pull > 1e-3);
}
