#include <cstring>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/trust/random_key.hpp"
#include "resumed_run.hpp"

using namespace resumed;

namespace {

Overrides with(Overrides all, const Overrides& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Returns the complete lines of all ledgers; a truncated line is left out.
std::string whole_lines(const Place& place) {
  std::string all;
  for (const fs::path& file : place.ledgers()) {
    const std::string text = read_file(file);
    all += text.substr(0, text.rfind('\n') + 1);
  }
  return all;
}

/// Begins a run, and kills it at a given operation, with checkpoints after some rounds.
void begin_and_kill(const Place& place, const Overrides& overrides, std::uint64_t operation) {
  REQUIRE(place.begin(overrides).code == 0);
  REQUIRE(place.resume({.operation = operation}).killed);
  REQUIRE(goes_on(place));
}

}  // namespace

TEST_CASE("a checkpoint has the key of the next round, which follows from what was shown before",
          "[resume][federated][privacy]") {
  const std::string name =
      GENERATE("fed_avg", "dp_fed_avg, secret participation", "ali_dpfl, private estimates");
  INFO(name);
  const Place place;
  REQUIRE(place.begin(with(kind(name), {"checkpoint.every_steps=1"})).code == 0);
  // Two checkpoints before the first round: at the beginning, and at the stop.
  const CheckpointBytes first = checkpoints_of(place).back();
  REQUIRE(first.number == 2);
  REQUIRE(place.resume({.operation = 70}).killed);
  const CheckpointBytes last = checkpoints_of(place).back();
  REQUIRE(last.number > 4);
  CHECK(last.key(last.lasting) == first.key(first.lasting));
  const std::vector<std::string> shown = shown_of(place);
  REQUIRE(shown.size() >= last.number - 2);
  std::string key = first.key(first.now);
  for (std::uint64_t round = 0; round < last.number - 2; ++round) {
    CHECK(last.text.find(key) == last.text.npos);
    std::array<std::uint8_t, 32> bytes{};
    std::memcpy(bytes.data(), key.data(), key.size());
    const core::RandomKey made =
        core::RandomKey::from_secret_bytes(bytes).derive("next\n" + shown[round]);
    const auto next = made.secret_bytes();
    key.assign(reinterpret_cast<const char*>(next.data()), next.size());
  }
  CHECK(last.key(last.now) == key);
}

TEST_CASE("with another key of the round, clients and server draw other noise",
          "[resume][federated][privacy]") {
  const std::string name =
      GENERATE("fed_avg", "dp_fed_avg, secret participation", "ali_dpfl, private estimates");
  INFO(name);
  const Place begun;
  REQUIRE(begun.begin(kind(name)).code == 0);
  const Place expected(begun, 0), same(begun, 0), other(begun, 0);
  for (CheckpointBytes& one : checkpoints_of(other)) one.forge();
  for (const Place* place : {&expected, &same, &other}) REQUIRE(place->resume().code == 0);
  CHECK(same.model() == expected.model());
  CHECK(other.model() != expected.model());
}

TEST_CASE("a run that goes on refuses the clients that were there before it was cut off",
          "[resume][federated][privacy]") {
  const Place begun;
  REQUIRE(begun
              .begin(with(kind("dp_fed_avg, clients who come when they may"),
                          {"checkpoint.every_steps=1"}))
              .code == 0);
  const Place expected(begun, 0), cut(begun, 0);
  REQUIRE(expected.resume().code == 0);
  REQUIRE(cut.resume({.operation = 70}).killed);
  REQUIRE(checkpoints_of(cut).back().number > 4);  // after some rounds
  REQUIRE(cut.resume().code == 0);
  check_equal(cut, expected);
}

TEST_CASE("what clients send is bound, also where it is lost on its way and the model stays",
          "[resume][federated][privacy]") {
  // All answers are lost, so the model and the lines of rounds are the same with any noise.
  const Place one;
  REQUIRE(one.begin(with(kind("fed_avg"), {"federated={clients: 3, rounds: 8, local_iterations: 3, "
                                           "client_drop_rate: 0.999999999}"}))
              .code == 0);
  const Place other(one, 0);
  for (CheckpointBytes& checkpoint : checkpoints_of(other)) checkpoint.forge();
  for (const Place* place : {&one, &other}) REQUIRE(place->resume({.operation = 70}).killed);
  const auto first_round = [](const Place& place) {
    const std::string lines = read_file(place.run() / "rounds.jsonl");
    return lines.substr(0, lines.find('\n'));
  };
  REQUIRE_FALSE(first_round(one).empty());
  REQUIRE(first_round(one) == first_round(other));
  REQUIRE_FALSE(shown_of(one).empty());
  REQUIRE_FALSE(shown_of(other).empty());
  CHECK(shown_of(one).front() != shown_of(other).front());
}

TEST_CASE("a checkpoint of a run for release says nothing of who took part",
          "[resume][federated][privacy]") {
  // The guarantee of such a run depends on keeping secret who took part. In research mode the run
  // may show who took part, and then the checkpoint also contains it.
  const auto checkpoint_of = [](const std::string& name) {
    const Place place;
    begin_and_kill(place, kind(name), 45);
    const CheckpointBytes last = checkpoints_of(place).back();
    REQUIRE(last.number > 2);  // after a round
    return last.text;
  };
  const std::string steps = "steps of clients";
  CHECK_THAT(checkpoint_of("dp_fed_avg, secret participation"), ContainsSubstring(steps));
  const std::string released = checkpoint_of("dp_fed_avg, for release");
  CHECK(released.find(steps) == released.npos);
  // After the word "rounds" come the number of rounds and the largest number of local steps, but
  // nothing about clients and bytes.
  std::array<std::uint64_t, 6> totals{};
  std::memcpy(totals.data(), released.data() + released.find("rounds") + 6, sizeof totals);
  CHECK(totals[0] > 0);
  CHECK(totals[1] == 2);
  CHECK(std::all_of(totals.begin() + 2, totals.end(), [](std::uint64_t n) { return n == 0; }));
}

TEST_CASE("what was shown of a round is made again to the last bit, or nothing is shown",
          "[resume][federated][privacy]") {
  const Place begun;
  begin_and_kill(begun, with(kind("ali_dpfl, private estimates"), {"checkpoint.every_steps=1000"}),
                 60);
  const fs::path file = begun.private_folder() / "bindings.jsonl";
  std::string bound = read_file(file);
  REQUIRE(bound.find("round 2") != bound.npos);
  // The binding is changed as if a client had sent another model, or another estimate.
  const std::size_t digit = bound.find("\"released\":\"", bound.find('\n')) + 12;
  bound[digit] = bound[digit] == '0' ? '1' : '0';
  write_file(file, bound);
  const std::string rounds = begun.rounds(), charges = whole_lines(begun);
  CHECK(begun.resume().code == 3);
  CHECK_THAT(begun.last_words(), ContainsSubstring("round 2: the repeated values are not"));
  CHECK(begun.rounds() == rounds);
  CHECK(whole_lines(begun) == charges);
  CHECK_FALSE(fs::exists(begun.run() / "model.safetensors"));
}

TEST_CASE("a federated run goes on with its ledgers and its clients' examples, or not at all",
          "[resume][federated]") {
  const Place begun;
  begin_and_kill(
      begun,
      with(kind("fed_avg"), {"checkpoint.every_steps=1", "federated.participation=full_batch"}),
      70);
  const fs::path ledger = begun.run() / "ledgers" / "client-1.jsonl";
  const std::string text = read_file(ledger);
  REQUIRE(text.find("\"release\"") != text.npos);
  SECTION("a client's ledger was edited") {
    std::string edited = text;
    edited.replace(edited.find("\"step\":0"), 8, "\"step\":9");
    write_file(ledger, edited);
    CHECK(begun.resume().code == 4);
    CHECK_THAT(begun.last_words(), ContainsSubstring("client-1.jsonl:2: the ledger cannot"));
  }
  SECTION("a client's ledger was cut") {
    write_file(ledger, text.substr(0, text.find('\n') + 1));
    CHECK(begun.resume().code == 4);
    CHECK_THAT(begun.last_words(), ContainsSubstring("client-1.jsonl"));
  }
  SECTION("a client's ledger is gone") {
    fs::remove(ledger);
    CHECK(begun.resume().code == 4);
    CHECK_THAT(begun.last_words(), ContainsSubstring("client-1.jsonl"));
  }
  SECTION("what was said of the rounds was edited") {
    std::string edited = read_file(begun.run() / "rounds.jsonl");
    edited.replace(edited.find("\"round\":1"), 9, "\"round\":7");
    write_file(begun.run() / "rounds.jsonl", edited);
    CHECK(begun.resume().code == 4);
    CHECK_THAT(begun.last_words(), ContainsSubstring("rounds.jsonl: was changed"));
  }
  SECTION("the clients have other examples") {
    std::string key = read_file(begun.private_folder() / "plan-key");
    key[0] = static_cast<char>(key[0] ^ 1);
    write_file(begun.private_folder() / "plan-key", key);
    CHECK(begun.resume().code == 3);
    CHECK_THAT(begun.last_words(),
               ContainsSubstring("federated.partition gives the clients other examples"));
  }
  SECTION("what the clients' examples were drawn with is gone") {
    fs::remove(begun.private_folder() / "plan-key");
    CHECK(begun.resume().code == 4);
    CHECK_THAT(begun.last_words(), ContainsSubstring("plan-key: is not the key"));
  }
  CHECK_FALSE(begun.is_over());
}

TEST_CASE("a federated run whose bits nobody promises goes on from an orderly stop alone",
          "[resume][federated][privacy]") {
  const std::string name =
      GENERATE("fed_avg", "dp_fed_avg, secret participation", "ali_dpfl, private estimates");
  INFO(name);
  const Place begun;
  REQUIRE(
      begun.begin(with(kind(name), {"aggregator.arithmetic=float", "checkpoint.every_steps=1000"}))
          .code == 0);
  const Place stopped(begun, 0), killed(begun, 0);
  CHECK(stopped.resume().code == 0);
  // The killed run has charges after its checkpoint.
  REQUIRE(killed.resume({.operation = 30}).killed);
  const std::string charges = whole_lines(killed);
  REQUIRE(charges.find("\"release\"") != charges.npos);
  CHECK(killed.resume().code == 3);
  CHECK_THAT(killed.last_words(),
             ContainsSubstring("a second release, which the budget does not pay"));
  CHECK(whole_lines(killed) == charges);
}

TEST_CASE("a federated run ends where its user says, and is verified when it is over",
          "[resume][federated][verify]") {
  const std::string name =
      GENERATE("fed_avg", "dp_fed_avg, secret participation", "ali_dpfl, private estimates");
  INFO(name);
  const Place begun;
  begin_and_kill(begun, kind(name), 45);
  const Place whole(begun, 0);
  REQUIRE(whole.resume().code == 0);
  CHECK(problems_of(whole) == std::vector<std::string>{});
  const std::string rounds = read_file(begun.run() / "rounds.jsonl");
  const End end = begun.resume({.finish = true});
  INFO(begun.last_words());
  REQUIRE(end.code == 0);
  CHECK(problems_of(begun) == std::vector<std::string>{});
  CHECK_FALSE(begun.has_private_state());
  CHECK(begun.summary().at("status") == "interrupted");
  // The earlier answers are repeated, and the charged rounds are completed.
  CHECK(read_file(begun.run() / "rounds.jsonl")
            .starts_with(rounds.substr(0, rounds.rfind('\n') + 1)));
  CHECK(begun.rounds() != whole.rounds());
}

TEST_CASE("a seed draws the same in a federated run with checkpoints and without",
          "[resume][federated]") {
  const std::string name = GENERATE("fed_avg, of a seed", "dp_fed_avg, of a seed",
                                    "ali_dpfl, private estimates, of a seed");
  INFO(name);
  const Place with_them, whole;
  REQUIRE(with_them.begin(kind(name)).code == 0);
  REQUIRE(with_them.resume().code == 0);
  write_file(whole.manifest(), kBase);
  const core::Manifest manifest =
      core::load_manifest(whole.manifest(), with(kind(name), {"checkpoint=off"}), house());
  core::run(core::make_plan(manifest),
            {.directory = whole.run(), .lock = "", .threads = 1, .on_progress = {}});
  CHECK(with_them.metrics() == whole.metrics());
  CHECK(with_them.rounds() == whole.rounds());
}

TEST_CASE("a directory cannot make anybody throw away the state of another run",
          "[resume][privacy]") {
  const Place mine;
  REQUIRE(mine.begin({}).code == 0);
  // Somebody else's copy of the run, with my state folder.
  const Place theirs(mine, 0);
  const core::RunOptions their_place{
      .directory = theirs.run(), .lock = "", .state = mine.state(), .on_progress = {}};
  SECTION("by a run that is not over") {
    const std::string left = core::discard_state(their_place);
    CHECK_THAT(left, ContainsSubstring("is of the run in " + fs::canonical(mine.run()).string()));
    CHECK_FALSE(fs::exists(theirs.run() / "resume.json"));
  }
  SECTION("by a run that is finished") {
    write_file(theirs.run() / "summary.json", "{}");
    CHECK_FALSE(core::can_be_resumed(their_place));
    CHECK_THROWS_AS(core::check_resumable(their_place), ConfigError);
  }
  CHECK(mine.has_private_state());
  CHECK(mine.resume().code == 0);
}

TEST_CASE("the state of a run that nobody goes on with is thrown away", "[resume][privacy]") {
  const Place mine;
  REQUIRE(mine.begin({}).code == 0);
  CHECK(core::discard_state(
            {.directory = mine.run(), .lock = "", .state = mine.state(), .on_progress = {}}) == "");
  CHECK_FALSE(mine.has_private_state());
}
