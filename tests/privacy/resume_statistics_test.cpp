// Runs whose transforms learn from released statistics, interrupted around these releases.
#include <array>
#include <cstring>

#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/trust/random_key.hpp"
#include "resumed_run.hpp"

using namespace resumed;

namespace {

const char* const kPaid = "statistics that are paid for";

std::size_t charged(const Place& place) {
  return core::read_ledger(place.run() / "ledger.jsonl").releases.size();
}

/// Returns a copy, killed when `is_there` is true, of a run that was stopped before its statistics.
template <class Predicate>
std::unique_ptr<Place> killed_where(const Place& begun, const Predicate& is_there) {
  for (std::uint64_t operation = 1; operation < 60; ++operation) {
    auto place = std::make_unique<Place>(begun, 0);
    if (!place->resume({.operation = operation}).killed) break;
    if (is_there(*place)) return place;
  }
  return nullptr;
}

std::string next_key(const std::string& key, const std::string& shown) {
  std::array<std::uint8_t, 32> bytes{};
  std::memcpy(bytes.data(), key.data(), key.size());
  const core::RandomKey made = core::RandomKey::from_secret_bytes(bytes).derive("next\n" + shown);
  const auto next = made.secret_bytes();
  return {reinterpret_cast<const char*>(next.data()), next.size()};
}

}  // namespace

TEST_CASE("a run that is stopped before its statistics has been charged for nothing",
          "[resume][privacy][statistics]") {
  const Place place;
  REQUIRE(place.begin(kind(kPaid)).code == 0);
  CHECK(charged(place) == 0);
  CHECK(shown_of(place).empty());
  REQUIRE(place.resume().code == 0);
  CHECK(charged(place) == 26);
  CHECK(problems_of(place).empty());
}

TEST_CASE("a checkpoint behind the statistics holds no key of their noise",
          "[resume][privacy][statistics]") {
  const Place begun;
  REQUIRE(begun.begin(kind(kPaid)).code == 0);
  const CheckpointBytes first = checkpoints_of(begun).back();
  REQUIRE(first.number == 2);  // one at the beginning, and one at the stop
  const auto place =
      killed_where(begun, [](const Place& one) { return checkpoints_of(one).back().number == 3; });
  REQUIRE(place != nullptr);
  const CheckpointBytes last = checkpoints_of(*place).back();
  const std::vector<std::string> shown = shown_of(*place);
  REQUIRE(shown.size() >= 2);  // both were bound before further results depended on them
  CHECK(last.text.find(first.key(first.now)) == last.text.npos);
  CHECK(last.key(last.now) == next_key(first.key(first.now), shown[1]));
  CHECK(last.key(last.lasting) == first.key(first.lasting));
}

TEST_CASE("with another key, statistics have other noise; with the same key the same",
          "[resume][privacy][statistics]") {
  const Place begun;
  REQUIRE(begun.begin(kind(kPaid)).code == 0);
  const Place expected(begun, 0), same(begun, 0), other(begun, 0);
  for (CheckpointBytes& one : checkpoints_of(other)) one.forge();
  for (const Place* place : {&expected, &same, &other}) REQUIRE(place->resume().code == 0);
  CHECK(same.model() == expected.model());
  CHECK(other.model() != expected.model());
}

TEST_CASE("a statistic that was bound is released again to the last bit, or not at all",
          "[resume][privacy][statistics]") {
  const Place begun;
  REQUIRE(begun.begin(kind(kPaid)).code == 0);
  const auto place = killed_where(begun, [](const Place& one) {
    return !shown_of(one).empty() && checkpoints_of(one).back().number == 2;
  });
  REQUIRE(place != nullptr);
  CHECK(charged(*place) == 2);
  const Place same(*place, 0), other(*place, 0);
  for (CheckpointBytes& one : checkpoints_of(other)) one.forge();
  CHECK(other.resume().code == 3);
  CHECK(same.resume().code == 0);
  CHECK(charged(same) == 26);
}

TEST_CASE("a copy with other class counts, which would weigh losses otherwise, does not go on",
          "[resume][privacy][statistics]") {
  const Place begun;
  REQUIRE(begun.begin(kind("class weights from counts")).code == 0);
  const auto place =
      killed_where(begun, [](const Place& one) { return checkpoints_of(one).back().number == 3; });
  REQUIRE(place != nullptr);
  const Place same(*place, 0);
  for (CheckpointBytes& one : checkpoints_of(*place)) {
    if (one.number < 3) continue;
    // The word "statistics", 1 because they are kept, the number of classes, and a count.
    const std::size_t at =
        one.text.find("statistics") + std::strlen("statistics") + 2 * sizeof(std::uint64_t);
    double count = 0.0;
    std::memcpy(&count, one.text.data() + at, sizeof count);
    REQUIRE(count > 1.0);
    REQUIRE(count < 61.0);
    count *= 1.5;
    std::memcpy(one.text.data() + at, &count, sizeof count);
    one.text.resize(one.text.size() - CheckpointBytes::kHash);
    write_file(one.file, one.text + core::sha256_hex(one.text));
  }
  CHECK(same.resume().code == 0);
  CHECK(place->resume().code == 3);
  CHECK_THAT(place->last_words(), ContainsSubstring("sealed with other inputs"));
}
