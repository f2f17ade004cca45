// Copies of a run's state in which somebody has edited what the run is bound to, so that no list
// gives them away: sealed with the keys, and where the seal is forged as well, another run.

#include <cmath>
#include <set>

#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "resumed_run.hpp"

using namespace resumed;

namespace {

/// What a checkpoint says that its run is bound to.
struct Bindings {
  std::string head, test_rows, commitment;

  explicit Bindings(const CheckpointBytes& checkpoint) {
    const std::size_t begin = CheckpointBytes::kMagic + CheckpointBytes::kNumber;
    const std::string content =
        checkpoint.text.substr(begin, checkpoint.text.size() - begin - CheckpointBytes::kHash);
    core::StateReader in(content, "a checkpoint");
    in.begin("run");
    constexpr int kParts = 5;
    for (int i = 0; i < kParts; ++i) head += in.bytes() + "\n";
    const std::string body = in.bytes();
    core::StateReader run(body, "a checkpoint");
    run.word();
    for (int i = 0; i < 2; ++i) run.bytes();  // its reservation, and its date
    commitment = run.bytes();
    test_rows = run.bytes();
  }

  /// As RunKeys seals a chain of keys.
  std::string seal(const std::string& lasting) const {
    const auto key = core::RandomKey::from_secret_bytes(std::span<const std::uint8_t, 32>(
        reinterpret_cast<const std::uint8_t*>(lasting.data()), 32));
    const std::string rows_made = "\n";  // no transform
    const auto made =
        key.derive("bound to\n" + head + test_rows + "\n" + commitment + rows_made).secret_bytes();
    return {reinterpret_cast<const char*>(made.data()), made.size()};
  }
};

/// The hash of the test rows, by the state of a run that began with them.
std::string test_rows_of(const Place& place) {
  return Bindings(checkpoints_of(place).front()).test_rows;
}

/// Makes a place's private state say that its run began with other test rows.
/// \param sealed  and that its keys did.
void forge_test_rows(const Place& place, const std::string& is, bool sealed) {
  const std::string was = test_rows_of(place);
  REQUIRE(is != was);
  for (CheckpointBytes& checkpoint : checkpoints_of(place)) {
    const std::size_t seal = checkpoint.now + 32 + 8;
    REQUIRE(checkpoint.text.substr(seal, 32) ==
            Bindings(checkpoint).seal(checkpoint.key(checkpoint.lasting)));
    std::string& text = checkpoint.text;
    REQUIRE(text.find(was) != text.npos);
    for (std::size_t at = 0; (at = text.find(was, at)) != text.npos; at += is.size())
      text.replace(at, is.size(), is);
    if (sealed)
      text.replace(seal, 32, Bindings(checkpoint).seal(checkpoint.key(checkpoint.lasting)));
    text.resize(text.size() - CheckpointBytes::kHash);
    write_file(checkpoint.file, text + core::sha256_hex(text));
  }
}

constexpr int kRows = 64, kQuiet = 500;

/// Rows that each have a feature of their own, and features that no row has.
std::string table(int rows) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < kRows + kQuiet; ++j) text += i == j ? "1," : "0,";
    text += i % 2 ? "1\n" : "0\n";
  }
  return text;
}

/// A run that was stopped before its first step, and the hash of test rows that it did not begin with.
struct Begun {
  Place place;
  std::string other_test_rows;

  explicit Begun(Overrides more) {
    const Place other;
    for (const Place* one : {&other, static_cast<const Place*>(&place)}) {
      const fs::path folder = one->manifest().parent_path();
      write_file(folder / "rows.csv", table(kRows));
      write_file(folder / "test.csv", table(one == &other ? 9 : 10));
      Overrides all{"data={kind: csv, header: false, train: rows.csv, test: test.csv, target: '" +
                    std::to_string(kRows + kQuiet) + "'}"};
      all.insert(all.end(), more.begin(), more.end());
      const End end = one->begin(all);
      INFO(one->last_words());
      REQUIRE(end.code == 0);
    }
    other_test_rows = test_rows_of(other);
  }

  /// The test rows are others from now on.
  void change_test_rows() const {
    write_file(place.manifest().parent_path() / "test.csv", table(9));
  }
};

/// The weights of features, one row for each output.
std::vector<float> weights_of(const Place& place) {
  const std::string file = place.model();
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto header = nlohmann::json::parse(file.substr(sizeof length, length));
  const auto offsets = header.at("layers.0.weight").at("data_offsets");
  const auto begin = offsets[0].get<std::size_t>(), end = offsets[1].get<std::size_t>();
  std::vector<float> weights((end - begin) / sizeof(float));
  std::memcpy(weights.data(), file.data() + sizeof length + length + begin, end - begin);
  return weights;
}

/// What a step from weights of 0 shows of itself: which rows it had, by the features that they alone
/// have, and its noise, by the features that no row has.
struct Step {
  std::set<int> batch;
  std::vector<double> noise;

  explicit Step(const Place& place) {
    const std::vector<float> weights = weights_of(place);
    float most = 0.0f;
    for (const float weight : weights) most = std::max(most, std::fabs(weight));
    for (int i = 0; i < kRows; ++i)
      if (std::fabs(weights[static_cast<std::size_t>(i)]) > most / 2) batch.insert(i);
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (i % (kRows + kQuiet) >= kRows) noise.push_back(static_cast<double>(weights[i]));
  }
};

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double both = 0.0, first = 0.0, second = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += a[i] * b[i];
    first += a[i] * a[i];
    second += b[i] * b[i];
  }
  return both / std::sqrt(first * second);
}

}  // namespace

TEST_CASE("an edited copy of a state does not go on, of whatever kind the run is",
          "[resume][privacy]") {
  const std::string wanted = GENERATE(
      as<std::string>(), "central", "fixed sizes, adam", "a shuffled epoch over checkpoints",
      "correlated, in whole numbers", "correlated, in fractions", "correlated, of differences");
  INFO(wanted);
  const Begun begun(kind(wanted));
  const Place original(begun.place, 0);
  begun.change_test_rows();
  forge_test_rows(begun.place, begun.other_test_rows, /*sealed=*/false);
  const auto before = files_below(begun.place.run());
  CHECK(begun.place.resume().code == 3);
  CHECK_THAT(begun.place.last_words(), ContainsSubstring("sealed with other inputs"));
  const bool is_untouched = files_below(begun.place.run()) == before;
  CHECK(is_untouched);
}

// The correlation of 500 independent pairs is beyond 6 / sqrt(500) once in 10^9 times, and two
// independent batches are the same once in 2^64.
TEST_CASE("two forks of a run share neither noise nor batch", "[resume][privacy]") {
  const Begun begun({"sampler={kind: poisson, batch_size: 32}", "steps=1", "optimizer=sgd",
                     "schedules.noise_multiplier={kind: constant, value: 0.02}",
                     "privacy.target_epsilon=1e7"});
  const Place same(begun.place, 0), fork(begun.place, 0);
  for (const Place* one : {static_cast<const Place*>(&begun.place), &same}) {
    const End end = one->resume();
    INFO(one->last_words());
    REQUIRE(end.code == 0);
  }
  begun.change_test_rows();
  forge_test_rows(fork, begun.other_test_rows, /*sealed=*/true);
  const End end = fork.resume();
  INFO(fork.last_words());
  REQUIRE(end.code == 0);
  const Step one(begun.place), two(same), other(fork);
  REQUIRE(one.batch.size() > 16);
  REQUIRE(one.batch.size() < 48);
  CHECK(two.batch == one.batch);
  CHECK(two.noise == one.noise);
  CHECK(other.batch != one.batch);
  CHECK(std::fabs(correlation(one.noise, other.noise)) < 6.0 / std::sqrt(500.0));
}

TEST_CASE("an account pays for no fork of a run that it has paid for",
          "[resume][account][privacy]") {
  const TempDir dir;
  const fs::path file = dir.path() / "rows.account";
  core::DataAccount::open(file, {.name = "rows",
                                 .adjacency = Adjacency::zero_out,
                                 .target_epsilon = 5.0,
                                 .target_delta = 1e-5,
                                 .accountant = "zcdp"});
  const Begun begun({"sampler=full_batch", "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
                     "privacy.target_epsilon=2", "privacy.account=" + file.string()});
  begun.change_test_rows();
  forge_test_rows(begun.place, begun.other_test_rows, /*sealed=*/true);
  const auto before = files_below(begun.place.run());
  const std::string account = read_file(file);
  CHECK(begun.place.resume().code == 3);
  CHECK_THAT(begun.place.last_words(),
             ContainsSubstring("pays for a run that began with other inputs"));
  const bool is_untouched = files_below(begun.place.run()) == before;
  CHECK(is_untouched);
  CHECK(read_file(file) == account);
}
