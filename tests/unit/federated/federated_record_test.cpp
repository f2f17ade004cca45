#include "federated_record.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/federated/client_program.hpp"
#include "privgrad/record/facts.hpp"
#include "support.hpp"

using namespace privgrad;
using core::AskedRule;
using core::ClientRound;
using core::Mishaps;
using core::Round;
using core::RoundTotals;

namespace {

Round counted_round(std::uint64_t number, std::optional<std::uint64_t> refused = {}) {
  Round round;
  round.number = number;
  round.local_iterations = 10 - number;
  round.clients = 5;
  round.dropped = 2;
  round.stragglers = 1;
  round.refused = refused;
  round.count_bytes(3, false);
  return round;
}

/// A rule that adds up the numbers of the rounds for which it was called, so its answers depend on
/// all calls.
class Adding final : public AdaptiveLocalIterations {
 public:
  explicit Adding(std::uint64_t first) : sum_(first) {}
  bool start_rounds(std::uint64_t, std::uint64_t) override { return false; }
  std::uint64_t next(const FederatedProgress& progress) override {
    return sum_ += progress.steps_left;
  }

 private:
  std::uint64_t sum_;
};

FederatedProgress progress_with(std::uint64_t steps_left) {
  FederatedProgress progress;
  progress.steps_left = steps_left;
  return progress;
}

}  // namespace

TEST_CASE("a lost client has received the model and sent nothing", "[rounds]") {
  // Sent to 5 clients: 4 bytes for each of 3 parameters, and 8 for the steps. Received from 3 of
  // them: the model, and 16 bytes if there are estimates.
  Round round = counted_round(0);
  CHECK(round.bytes_down == 5 * 20);
  CHECK(round.bytes_up == 3 * 12);
  round.count_bytes(3, true);
  CHECK(round.bytes_down == 5 * 20);
  CHECK(round.bytes_up == 3 * 28);
}

TEST_CASE("totals add up rounds, and without participation say only how many there were",
          "[rounds][privacy]") {
  RoundTotals totals;
  for (std::uint64_t i = 0; i < 3; ++i) totals.add(counted_round(i));
  CHECK(totals.rounds == 3);
  CHECK(totals.most_iterations == 10);
  CHECK(totals.dropped == 6);
  CHECK(totals.stragglers == 3);
  CHECK(totals.bytes_up == 3 * 36);
  CHECK_FALSE(totals.refused);
  totals.add(counted_round(3, 2));
  totals.add(counted_round(4, 0));
  CHECK(totals.refused == 2);
  const nlohmann::json shown = core::to_json<core::RoundMishaps>(totals.without_participation());
  CHECK(shown ==
        nlohmann::json{{"dropped", 0}, {"stragglers", 0}, {"bytes_down", 0}, {"bytes_up", 0}});
  CHECK(totals.without_participation().rounds == 5);
  CHECK(totals.without_participation().most_iterations == 10);
}

TEST_CASE("what a client sent is told apart by its model and its estimates", "[rounds]") {
  ClientRound sent;
  sent.model = {1.0f, 2.0f};
  const std::string without = core::hash_of_sent(sent);
  sent.loss_changes = std::array{0.5, 0.25};
  const std::string with = core::hash_of_sent(sent);
  sent.loss_changes = std::array{0.5, 0.125};
  const std::string other = core::hash_of_sent(sent);
  CHECK(with != without);
  CHECK(with != other);
  sent.model = {1.0f, 2.5f};
  CHECK(core::hash_of_sent(sent) != other);
  sent.weight = 0.5;  // the server's own
  CHECK(core::hash_of_sent(sent) ==
        core::hash_of_sent(
            {.model = {1.0f, 2.5f}, .loss_changes = std::array{0.5, 0.125}, .exact = {}}));
}

TEST_CASE("a resumed run asks its rule all earlier questions again", "[rounds][resume]") {
  Adding rule(1);
  AskedRule asked(&rule);
  CHECK(asked.next(progress_with(10)) == 11);
  CHECK(asked.next(progress_with(20)) == 31);
  core::StateWriter out;
  asked.save(out);
  const auto resumed = [&](Adding& fresh) {
    AskedRule again(&fresh);
    core::StateReader in(out.text(), "state");
    again.restore(in, "adding");
    in.end();
    return again.next(progress_with(30));
  };
  Adding same(1), other(2);
  CHECK(resumed(same) == 61);
  CHECK_THROWS_AS(resumed(other), PluginError);
  AskedRule none(nullptr);
  core::StateReader in(out.text(), "state");
  CHECK_THROWS_AS(none.restore(in, "nobody"), PluginError);
}

TEST_CASE("a straggler makes at least one of its steps, and at most all", "[rounds]") {
  const auto steps = [](std::optional<double> slow, std::uint64_t of) {
    Mishaps mishaps;
    mishaps.dropped = {false};
    mishaps.slow = {slow};
    return mishaps.steps_of(0, of);
  };
  CHECK(steps(std::nullopt, 10) == 10);
  CHECK(steps(0.0, 10) == 1);
  CHECK(steps(0.55, 10) == 6);
  CHECK(steps(0.999, 10) == 10);
  CHECK(steps(0.5, 0) == 0);
}

TEST_CASE("drop-outs and stragglers follow from the key and the round, and from no data",
          "[rounds][privacy]") {
  core::Federated wish;
  wish.clients = 2000;
  wish.client_drop_rate = 0.25;
  wish.straggler_rate = 0.5;
  const core::RandomKey key = core::RandomKey::from_seed(3);
  const Mishaps one = core::draw_mishaps(wish, key, 1);
  CHECK(one.dropped == core::draw_mishaps(wish, key, 1).dropped);
  CHECK(one.slow == core::draw_mishaps(wish, key, 1).slow);
  CHECK(one.dropped != core::draw_mishaps(wish, key, 2).dropped);
  // Means 500 and 1000, standard deviations 19.4 and 22.4; six standard deviations.
  const auto lost = std::count(one.dropped.begin(), one.dropped.end(), true);
  const auto slow = std::count_if(one.slow.begin(), one.slow.end(),
                                  [](const auto& pace) { return pace.has_value(); });
  CHECK(std::abs(static_cast<double>(lost) - 500.0) < 117.0);
  CHECK(std::abs(static_cast<double>(slow) - 1000.0) < 135.0);
  wish.client_drop_rate = wish.straggler_rate = 0.0;
  const Mishaps none = core::draw_mishaps(wish, key, 1);
  CHECK(std::count(none.dropped.begin(), none.dropped.end(), true) == 0);
}
