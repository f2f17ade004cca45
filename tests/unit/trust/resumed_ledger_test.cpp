#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "fake_accountant.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/trust/run_keys.hpp"
#include "support.hpp"

using namespace privgrad;
using core::Charge;
using core::Ledger;
using core::LedgerPosition;
using core::Receipt;
using core::RunKeys;

namespace {

const nlohmann::json kFacts{{"name", "a test"}};

/// The charges of `count` Gaussian releases from step `first` on, with noise multiplier 1 each.
std::vector<Charge> gaussians(std::uint64_t first, std::size_t count) {
  std::vector<Charge> charges;
  for (std::size_t i = 0; i < count; ++i)
    charges.push_back({first + i, Event::gaussian(1.0), Event::gaussian(1.0)});
  return charges;
}

/// A ledger of a run that is killed, and reopened later.
class Killed {
  TempDir dir_;

 public:
  std::filesystem::path file = dir_.path() / "ledger.jsonl";

  /// Charges `before` steps, makes a checkpoint, and charges `after` more.
  explicit Killed(std::size_t before, std::size_t after) {
    CountingAccountant accountant;
    Ledger ledger(file, kBudget, accountant, "test:counting", kFacts);
    if (before > 0) ledger.charge(gaussians(0, before));
    at = ledger.position();
    if (after > 0) ledger.charge(gaussians(before, after));
  }

  Ledger again(std::uint64_t in_hand, bool may_repeat, const nlohmann::json& facts = kFacts) {
    return Ledger(file, kBudget, accountant_, "test:counting", facts,
                  {.at = at, .in_hand = in_hand, .may_repeat = may_repeat});
  }
  std::string text() const { return read_file(file); }

  LedgerPosition at;

 private:
  static constexpr core::Budget kBudget{.target_epsilon = 10.0, .target_delta = 1e-5};
  CountingAccountant accountant_;
};

}  // namespace

TEST_CASE("a ledger that is taken up again has paid for what it had paid for", "[ledger][resume]") {
  Killed killed(3, 0);
  const std::string text = killed.text();
  auto ledger = killed.again(2, false);
  CHECK(ledger.releases() == 3);
  CHECK(ledger.spent().value == 3.0);
  CHECK(ledger.first_hash() == core::read_ledger(killed.file).first_hash);
  // Unused receipts are handed out once.
  std::vector<Receipt> in_hand = ledger.take_receipts_in_hand();
  REQUIRE(in_hand.size() == 2);
  CHECK(in_hand[0].step() == 1);
  CHECK(in_hand[1].step() == 2);
  CHECK(ledger.take_receipts_in_hand().empty());
  CHECK(killed.text() == text);
  // Of the budget of 10, 7 is left.
  CHECK(ledger.charge(gaussians(3, 8)).empty());
  CHECK(killed.text() == text);
}

TEST_CASE("in hand are receipts of steps, also where something was paid for beside them",
          "[ledger][resume][privacy]") {
  // Three steps are charged together; one of them was made before an estimate was charged and made.
  const TempDir dir;
  const core::Budget budget{.target_epsilon = 10.0, .target_delta = 1e-5};
  CountingAccountant before, after;
  core::LedgerReopening again{.at = {}, .in_hand = 2, .may_repeat = true};
  {
    Ledger ledger(dir.path() / "ledger.jsonl", budget, before, "test:counting", kFacts);
    ledger.charge(gaussians(0, 3));
    const std::vector<Charge> estimate{{0, Event::gaussian(1.0), Event::gaussian(1.0), "estimate"}};
    ledger.charge(estimate);
    again.at = ledger.position();
  }
  Ledger ledger(dir.path() / "ledger.jsonl", budget, after, "test:counting", kFacts, again);
  const std::vector<Receipt> in_hand = ledger.take_receipts_in_hand();
  REQUIRE(in_hand.size() == 2);
  CHECK(in_hand[0].step() == 1);
  CHECK(in_hand[1].step() == 2);
  CHECK(ledger.spent().value == 4.0);
}

TEST_CASE("charges behind the checkpoint are made again, and stand in the file once",
          "[ledger][resume][privacy]") {
  Killed killed(2, 3), whole(2, 3);
  auto ledger = killed.again(0, true);
  CHECK(ledger.is_behind());
  const std::string before = killed.text();
  CHECK(ledger.charge(gaussians(2, 3)).size() == 3);
  CHECK_FALSE(ledger.is_behind());
  CHECK(killed.text() == before);
  CHECK(ledger.spent().value == 5.0);
  CHECK(ledger.charge(gaussians(5, 1)).size() == 1);
  ledger.close("completed", 6);
  const auto contents = core::read_ledger(killed.file);
  CHECK(contents.releases.size() == 6);
  CHECK(contents.releases.back().epsilon == 6.0);
}

// Processors may differ by up to 2e-5 (kOfProcessors).
TEST_CASE("the epsilon of another processor is taken if it differs by rounding, and else refused",
          "[ledger][resume][privacy]") {
  class Elsewhere final : public CountingAccountant {
   public:
    explicit Elsewhere(double factor) : factor_(factor) {}
    PrivacyAnswer epsilon(double delta) const override {
      PrivacyAnswer answer = CountingAccountant::epsilon(delta);
      answer.value *= factor_;
      return answer;
    }

   private:
    double factor_;
  };
  const core::Budget budget{.target_epsilon = 10.0, .target_delta = 1e-5};
  for (const double factor : {1.0 - 1e-5, 1.0 + 1e-5, 1.0 - 1e-4, 1.0 + 1e-4, 0.5, 1.5}) {
    CAPTURE(factor);
    const bool is_rounding = std::abs(factor - 1.0) < 2e-5;
    Killed killed(2, 3), stopped(2, 0);
    Elsewhere accountant(factor), other(factor);
    const std::string before = killed.text();
    Ledger ledger(killed.file, budget, accountant, "test:counting", kFacts,
                  {.at = killed.at, .in_hand = 0, .may_repeat = true});
    if (is_rounding) {
      CHECK(ledger.charge(gaussians(2, 3)).size() == 3);
      CHECK(ledger.spent().value == 5.0);
    } else {
      CHECK_THROWS_AS(ledger.charge(gaussians(2, 3)), PrivacyError);
    }
    CHECK(killed.text() == before);
    const Ledger taken_up(stopped.file, budget, other, "test:counting", kFacts,
                          {.at = stopped.at, .in_hand = 0, .may_repeat = false});
    CHECK(taken_up.spent().value == (is_rounding ? 2.0 : 2.0 * factor));
  }
}

TEST_CASE("charges behind the checkpoint are for the same noise, or nothing is charged",
          "[ledger][resume][privacy]") {
  Killed killed(2, 3);
  const std::string before = killed.text();
  auto ledger = killed.again(0, true);
  std::vector<Charge> others = gaussians(2, 3);
  others[1].release = others[1].cost = Event::gaussian(2.0);
  CHECK_THROWS_AS(ledger.charge(others), PrivacyError);
  CHECK(killed.text() == before);
  CHECK_THROWS_AS(ledger.charge(gaussians(2, 3)), IoError);  // the ledger accepts nothing further
}

TEST_CASE("without a promise of the same bits, charges behind the checkpoint end it",
          "[ledger][resume][privacy]") {
  Killed killed(2, 1);
  CHECK_THROWS_AS(killed.again(0, false), PrivacyError);
  Killed stopped(2, 0);
  CHECK(stopped.again(1, false).take_receipts_in_hand().size() == 1);
}

// Other processors may find an epsilon 2e-5 larger; a filter's answer is equal everywhere.
TEST_CASE("the budget of a ledger that is taken up is wider by rounding, and a filter's is not",
          "[ledger][resume][privacy]") {
  class Filter final : public CountingAccountant {
   public:
    bool is_filter() const override { return true; }
  };
  const core::Budget budget{.target_epsilon = 10.0, .target_delta = 1e-5};
  const auto receipts = [&](Accountant& accountant, double cost) {
    const Killed killed(2, 0);
    Ledger ledger(killed.file, budget, accountant, "test:counting", kFacts,
                  {.at = killed.at, .in_hand = 0, .may_repeat = true});
    const Event release = Event::gaussian(1.0 / std::sqrt(cost));
    return ledger.charge(std::vector<Charge>{{2, release, release}}).size();
  };
  CountingAccountant any, other;
  Filter filter, second;
  CHECK(receipts(any, 8.0001) == 1);
  CHECK(receipts(other, 8.001) == 0);
  CHECK(receipts(filter, 7.9999) == 1);
  CHECK(receipts(second, 8.0001) == 0);
}

TEST_CASE("a block that was cut off while it was written is completed", "[ledger][resume]") {
  // Kills at every byte of the block's lines: complete lines stay, and a truncated line is removed.
  Killed whole(1, 4);
  const std::string text = whole.text();
  for (std::size_t size = whole.at.bytes; size <= text.size(); size += 97) {
    INFO("cut at " << size);
    Killed killed(1, 4);
    REQUIRE(killed.text() == text);
    write_file(killed.file, text.substr(0, size));
    auto ledger = killed.again(0, true);
    CHECK(ledger.charge(gaussians(1, 4)).size() == 4);
    CHECK(killed.text() == text);
  }
  // The possible remainders of a line after a power failure.
  Killed zeros(1, 0);
  write_file(zeros.file, zeros.text() + std::string(100, '\0'));
  auto ledger = zeros.again(0, true);
  CHECK(ledger.charge(gaussians(1, 4)).size() == 4);
  CHECK(zeros.text() == text);
}

TEST_CASE("a ledger is taken up by the run that it is of", "[ledger][resume]") {
  Killed killed(2, 0);
  CHECK_THROWS_AS(killed.again(0, true, {{"name", "another"}}), PrivacyError);
  CHECK_THROWS_AS(killed.again(3, true), IoError);  // more receipts than charges
  SECTION("a changed line") {
    std::string text = killed.text();
    text.replace(text.find("\"step\":1"), 8, "\"step\":7");
    write_file(killed.file, text);
    CHECK_THROWS_AS(killed.again(0, true), IoError);
  }
  SECTION("a missing one") {
    const std::string text = killed.text();
    write_file(killed.file, text.substr(0, text.rfind('\n', text.size() - 2) + 1));
    CHECK_THROWS_AS(killed.again(0, true), IoError);
  }
  SECTION("another process has it") {
    auto ledger = killed.again(0, true);
    CHECK_THROWS_WITH(killed.again(0, true), ContainsSubstring("is in use"));
  }
}

TEST_CASE("the key of a step tells nothing of an earlier one", "[resume][privacy]") {
  RunKeys keys = RunKeys::chain(core::RandomKey::from_seed(1), "bound to");
  std::vector<std::string> of_steps, saved;
  for (int step = 0; step < 4; ++step) {
    of_steps.push_back(keys.of_step().public_hex());
    core::StateWriter out;
    keys.save(out);
    saved.push_back(out.text());
    keys.next(step == 1 ? "shown" : "");
  }
  for (std::size_t i = 0; i < of_steps.size(); ++i) {
    for (std::size_t j = i + 1; j < of_steps.size(); ++j) CHECK(of_steps[i] != of_steps[j]);
    // The state saved at a step gives the keys of that step and of the next steps.
    core::StateReader in(saved[i], "saved");
    RunKeys again = RunKeys::restored(in, std::nullopt, "bound to");
    in.end();
    for (std::size_t j = i; j < of_steps.size(); ++j) {
      CHECK(again.of_step().public_hex() == of_steps[j]);
      again.next(j == 1 ? "shown" : "");
    }
  }
  // The saved state has the lasting key, one key of the chain, and a seal common to the whole
  // chain, but nothing of the previous key.
  constexpr std::size_t kSeal = 8 + 32;  // including its length
  const std::string chained = saved[0].substr(saved[0].size() - kSeal - 32, 32);
  for (std::size_t i = 1; i < saved.size(); ++i) {
    CHECK(saved[i].find(chained) == std::string::npos);
    CHECK(saved[i].size() == saved[0].size());
  }
}

TEST_CASE("what a key is bound to, and what was shown, is in every later key",
          "[resume][privacy]") {
  const auto key = core::RandomKey::from_seed(1);
  const RunKeys one = RunKeys::chain(key, "these data"), two = RunKeys::chain(key, "those data");
  CHECK(one.of_step().public_hex() != two.of_step().public_hex());
  RunKeys shown = one, shown_otherwise = one;
  shown.next("a model");
  shown_otherwise.next("another model");
  CHECK(shown.of_step().public_hex() != shown_otherwise.of_step().public_hex());
}

TEST_CASE("a chain that was saved goes on with what it was bound to, or not at all",
          "[resume][privacy]") {
  const auto key = core::RandomKey::from_seed(1);
  RunKeys keys = RunKeys::chain(key, "these data");
  const auto restored = [&](const std::string& bound_to) {
    core::StateWriter out;
    keys.save(out);
    core::StateReader in(out.text(), "saved");
    return RunKeys::restored(in, std::nullopt, bound_to).of_step().public_hex();
  };
  CHECK(restored("these data") == keys.of_step().public_hex());
  CHECK_THROWS_AS(restored("those data"), PrivacyError);
  // The holder of the keys can seal them again. The keys of steps are then different.
  keys.bind_to("those data");
  CHECK(restored("those data") == RunKeys::chain(key, "those data").of_step().public_hex());
  CHECK_THROWS_AS(restored("these data"), PrivacyError);
}

TEST_CASE("a seed has one key for all steps", "[resume]") {
  RunKeys keys = RunKeys::constant(core::RandomKey::from_seed(1));
  const std::string first = keys.of_step().public_hex();
  keys.next("a model");
  CHECK(keys.of_step().public_hex() == first);
  CHECK(keys.lasting().public_hex() == first);
  core::StateWriter out;
  keys.save(out);
  CHECK(out.text().find("keys") != std::string::npos);
  CHECK(out.text().size() < 32);  // and no key is written
}

TEST_CASE("keys of a seed and keys that were drawn are not restored as each other",
          "[resume][privacy]") {
  const auto seed = core::RandomKey::from_seed(1);
  const auto refused = [](const RunKeys& saved, const std::optional<core::RandomKey>& constant) {
    core::StateWriter out;
    saved.save(out);
    core::StateReader in(out.text(), "saved");
    CHECK_THROWS_AS(RunKeys::restored(in, constant, "data"), IoError);
  };
  refused(RunKeys::chain(core::RandomKey::from_seed(2), "data"), seed);
  refused(RunKeys::constant(seed), std::nullopt);
}

TEST_CASE("what is not a checkpoint is refused before memory is taken for it", "[resume]") {
  core::StateWriter out;
  out.begin("part");
  out.array(std::vector<double>{1.0, 2.0});
  for (std::size_t size = 0; size < out.text().size(); ++size) {
    core::StateReader in(std::string_view(out.text()).substr(0, size), "cut");
    CHECK_THROWS_AS((in.begin("part"), in.array<double>()), IoError);
  }
  std::string huge(8, '\xff');  // a length of 2^64 - 1
  core::StateReader in(huge, "huge");
  CHECK_THROWS_AS(in.array<double>(), IoError);
  core::StateReader other(out.text(), "other");
  CHECK_THROWS_WITH(other.begin("another part"), ContainsSubstring("'another part'"));
}
