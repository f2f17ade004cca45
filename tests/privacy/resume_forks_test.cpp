// Copies of a run's state whose bindings are edited so that no list reveals it: the keys are sealed
// with the bindings, and if the seal is forged, too, the copy is a different run.

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "privgrad/transform.hpp"
#include "privgrad/trust/chained_line.hpp"
#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/hash_chain.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "resumed_run.hpp"
#include "tensor_file.hpp"
#include "test_components.hpp"

using namespace resumed;

namespace {

/// The inputs to which a run is bound, in addition to its training rows.
enum class Part { manifest, lock, backend, weights, plan, test_rows, rows_made };

/// A checkpoint begins with a list of the hashes of these.
constexpr std::array kInList{Part::manifest, Part::lock, Part::backend, Part::weights, Part::plan};

/// The bindings of a run in a checkpoint.
struct Bindings {
  std::map<Part, std::string> parts;
  std::string commitment;

  explicit Bindings(const CheckpointBytes& checkpoint) {
    const std::size_t begin = CheckpointBytes::kMagic + CheckpointBytes::kNumber;
    const std::string content =
        checkpoint.text.substr(begin, checkpoint.text.size() - begin - CheckpointBytes::kHash);
    core::StateReader in(content, "a checkpoint");
    in.begin("run 2");
    for (const Part part : kInList) parts[part] = in.bytes();
    const std::string body = in.bytes();
    core::StateReader run(body, "a checkpoint");
    run.word();
    for (int i = 0; i < 2; ++i) run.bytes();  // reservation and date
    commitment = run.bytes();
    parts[Part::test_rows] = run.bytes();
    run.begin("statistics");
    REQUIRE(run.word() == 0);  // no statistic is kept
    parts[Part::rows_made] = run.bytes();
  }

  /// Returns the seal as RunKeys makes it for a chain of keys.
  std::string seal(const std::string& lasting) const {
    const auto key = core::RandomKey::from_secret_bytes(std::span<const std::uint8_t, 32>(
        reinterpret_cast<const std::uint8_t*>(lasting.data()), 32));
    std::string text = "bound to\n";
    for (const Part part : kInList) text += parts.at(part) + "\n";
    text += parts.at(Part::test_rows) + "\n" + commitment + "\n" + parts.at(Part::rows_made);
    const core::RandomKey sealed = key.derive(text);
    const auto made = sealed.secret_bytes();
    return {reinterpret_cast<const char*>(made.data()), made.size()};
  }
};

/// A hash in a checkpoint, and its replacement.
struct Exchange {
  std::string was, is;
};

/// Changes the private state of a place so that its run seems to have begun with other inputs.
/// \param sealed  whether the keys are sealed accordingly.
void forge(const Place& place, const std::vector<Exchange>& exchanges, bool sealed) {
  for (CheckpointBytes& checkpoint : checkpoints_of(place)) {
    const std::size_t seal = checkpoint.now + 32 + 8;
    REQUIRE(checkpoint.text.substr(seal, 32) ==
            Bindings(checkpoint).seal(checkpoint.key(checkpoint.lasting)));
    std::string& text = checkpoint.text;
    for (const auto& [was, is] : exchanges) {
      REQUIRE(is != was);
      REQUIRE(is.size() == was.size());
      REQUIRE(text.find(was) != text.npos);
      for (std::size_t at = 0; (at = text.find(was, at)) != text.npos; at += is.size())
        text.replace(at, is.size(), is);
    }
    if (sealed)
      text.replace(seal, 32, Bindings(checkpoint).seal(checkpoint.key(checkpoint.lasting)));
    text.resize(text.size() - CheckpointBytes::kHash);
    write_file(checkpoint.file, text + core::sha256_hex(text));
  }
}

/// Changes one fact in the public files of a run to the fact of another run: in facts.json, and in
/// the only line of the ledger, which contains its hash. \returns how the hash of that line has
/// changed.
Exchange forge_facts(const Place& place, const Place& other, const std::string& fact) {
  const auto facts_of = [](const Place& one) {
    return nlohmann::json::parse(read_file(one.run() / "facts.json"));
  };
  nlohmann::json facts = facts_of(place);
  facts.at(fact) = facts_of(other).at(fact);
  const std::string text = facts.dump() + "\n";
  write_file(place.run() / "facts.json", text);
  const auto ledger = core::read_chain(read_file(place.run() / "ledger.jsonl"), "a ledger");
  REQUIRE(ledger.lines.size() == 1);
  nlohmann::json line = ledger.lines.front().json;
  for (const char* key : {"line", "previous"}) line.erase(key);
  line.at("binds").at("facts.json") = core::sha256_hex(text);
  core::HashChain chain;
  write_file(place.run() / "ledger.jsonl", chain.next(line));
  return {ledger.lines.front().hash, chain.last_hash()};
}

constexpr int kRows = 64, kQuiet = 500;

/// Returns rows that each have a feature of their own, and features that no row has.
std::string table(int rows) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < kRows + kQuiet; ++j) text += i == j ? "1," : "0,";
    text += i % 2 ? "1\n" : "0\n";
  }
  return text;
}

/// Returns weights of a linear model on these rows, all 0 except one.
std::string weights_file(float one) {
  std::vector<float> values(std::size_t{2} * (kRows + kQuiet));
  values.front() = one;
  return safetensors_of(
      {{"layers.0.weight", {2, kRows + kQuiet}, values}, {"layers.0.bias", {2}, {0.0f, 0.0f}}});
}

/// A transform without promises about bits; this variable, which no manifest shows, controls it.
float stretch = 1.0f;

class Stretching : public Transform {
 public:
  explicit Stretching(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply(Dataset& data) const override {
    for (float& feature : data.features()) feature *= stretch;
  }
  Statistic statistic() const override { return Statistic::none; }
};

const Catalog& components() {
  static const Catalog all = house_with({offer<Transform, Stretching>("stretching")});
  return all;
}

/// An input whose content neither the manifest nor the public files show, except for the weights,
/// which are the same in both forks.
struct Input {
  std::string name;
  Part part;
  Overrides overrides;
  std::function<void(const fs::path& folder, bool is_other)> write;
  std::string refusal;  ///< The refusal of a copy that is resumed with the other input.
};

const std::vector<Input>& inputs() {
  static const std::vector<Input> all{
      {"the test rows",
       Part::test_rows,
       {},
       [](const fs::path& folder, bool is_other) {
         write_file(folder / "test.csv", table(is_other ? 9 : 10));
       },
       "the test rows, which are measured, are others"},
      {"the weights that training begins with",
       Part::weights,
       {"model.weights={file: begin.safetensors}"},
       [](const fs::path& folder, bool is_other) {
         write_file(folder / "begin.safetensors", weights_file(is_other ? 0.001f : 0.002f));
       },
       "does not match facts.json"},
      {"the file that the noise follows",
       Part::plan,
       // After the first step the model does not change.
       {"steps=2", "schedules.learning_rate={kind: list, values: [0.5, 1e-30]}",
        "schedules.noise_multiplier={kind: dynamic, influence: {kind: file, file: noise.csv}}"},
       [](const fs::path& folder, bool is_other) {
         write_file(folder / "noise.csv", is_other ? "0,1\n1,2\n" : "0,1\n1,1\n");
       },
       "what the plan says of steps, noise, clip norms and learning rates (facts.json) is not what "
       "the run began with"},
      {"what a transform makes of the rows",
       Part::rows_made,
       {"data.transforms=[{kind: stretching}]"},
       [](const fs::path&, bool is_other) { stretch = is_other ? 1.5f : 1.0f; },
       "the transforms make other examples of the data"}};
  return all;
}

const Input& input_of(Part part) {
  return *std::find_if(inputs().begin(), inputs().end(),
                       [&](const Input& one) { return one.part == part; });
}

/// A run that was stopped before its first step, and a run that began with another input.
struct Begun {
  const Input& input;
  Place place{components()}, other{components()};

  Begun(const Input& what, const Overrides& more) : input(what) {
    for (const Place* one : std::array<const Place*, 2>{&other, &place}) {
      const fs::path folder = one->manifest().parent_path();
      write_file(folder / "rows.csv", table(kRows));
      write_file(folder / "test.csv", table(10));
      input.write(folder, one == &other);
      Overrides all{"data={kind: csv, header: false, train: rows.csv, test: test.csv, target: '" +
                    std::to_string(kRows + kQuiet) + "'}"};
      all.insert(all.end(), more.begin(), more.end());
      all.insert(all.end(), input.overrides.begin(), input.overrides.end());
      const End end = one->begin(all);
      INFO(one->last_words());
      REQUIRE(end.code == 0);
    }
  }

  /// Replaces the input by the other one from now on.
  void change_input() const { input.write(place.manifest().parent_path(), true); }

  /// Edits a copy, as its holder could, so that it seems to have begun with the other input.
  void forge_copy(const Place& copy, bool sealed) const {
    const auto hash = [&](const Place& one) {
      return Bindings(checkpoints_of(one).front()).parts.at(input.part);
    };
    std::vector<Exchange> exchanges{{hash(copy), hash(other)}};
    if (input.part == Part::weights) exchanges.push_back(forge_facts(copy, other, "weights"));
    if (input.part == Part::plan) {
      // Two budgets that are almost irrelevant have the same scale.
      if (Exchange facts = forge_facts(copy, other, "scales"); facts.is != facts.was)
        exchanges.push_back(std::move(facts));
      write_file(copy.private_folder() / "schedules",
                 read_file(other.private_folder() / "schedules"));
    }
    forge(copy, exchanges, sealed);
  }
};

/// Returns the weights of features, one row for each output.
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

/// A step from weights of 0 reveals which rows it used (by their own features), and its noise (by
/// the features that no row has).
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

void check_refused(const Place& copy, const std::string& why) {
  const auto before = files_below(copy.run());
  CHECK(copy.resume().code == 3);
  CHECK_THAT(copy.last_words(), ContainsSubstring(why));
  const bool is_untouched = files_below(copy.run()) == before;
  CHECK(is_untouched);
}

/// Changes the private state of a place so that the clip norm is half of its value.
void halve_clip_norm(const Place& place) {
  CheckpointBytes checkpoint = checkpoints_of(place).back();
  const std::string part = checkpoint.text.substr(checkpoint.text.find("trainer") + 7);
  core::StateReader in(part, "a checkpoint");
  for (int i = 0; i < 2; ++i) in.word();  // the ledger's number of lines and of bytes
  std::size_t at = 3 * sizeof(std::uint64_t) + in.bytes().size();
  in.word();  // unused receipts
  at += sizeof(std::uint64_t);
  for (int i = 0; i < 2; ++i) {  // the optimizer and the aggregator
    const bool has_state = in.word() == 1;
    at += sizeof(std::uint64_t);
    if (has_state) at += sizeof(std::uint64_t) + sizeof(float) * in.array<float>().size();
  }
  double clip_norm = in.real();
  REQUIRE(clip_norm > 0.5);
  REQUIRE(clip_norm < 1.5);
  clip_norm /= 2.0;
  std::string& text = checkpoint.text;
  std::memcpy(text.data() + (text.size() - part.size()) + at, &clip_norm, sizeof clip_norm);
  text.resize(text.size() - CheckpointBytes::kHash);
  write_file(checkpoint.file, text + core::sha256_hex(text));
}

/// Returns a copy, killed between the two steps, of a run that had stopped before the first.
std::unique_ptr<const Place> killed_between_steps(const Place& begun) {
  const auto number = [](const Place& place) { return checkpoints_of(place).back().number; };
  const std::uint64_t before = number(begun);
  for (std::uint64_t operation = 1;; ++operation) {
    auto place = std::make_unique<const Place>(begun, 0);
    REQUIRE(place->resume({.operation = operation}).killed);
    if (number(*place) == before + 1) return place;
  }
}

/// The noise multiplier of every step is small enough to show which rows it used.
const Overrides kLoud{"sampler={kind: poisson, batch_size: 32}", "steps=1", "optimizer=sgd",
                      "schedules.noise_multiplier={kind: constant, value: 0.02}",
                      "privacy.target_epsilon=1e7"};

}  // namespace

TEST_CASE("an edited copy of a state does not go on, of whatever kind the run is",
          "[resume][privacy]") {
  const std::string wanted = GENERATE(
      as<std::string>(), "central", "fixed sizes, adam", "a shuffled epoch over checkpoints",
      "correlated, in whole numbers", "correlated, in fractions", "correlated, of differences");
  INFO(wanted);
  const Begun begun(input_of(Part::test_rows), kind(wanted));
  begun.change_input();
  begun.forge_copy(begun.place, /*sealed=*/false);
  check_refused(begun.place, "sealed with other inputs");
}

TEST_CASE("a copy of a state does not go on with another input, nor one that is edited to match",
          "[resume][privacy]") {
  const Part part = GENERATE(Part::test_rows, Part::weights, Part::plan, Part::rows_made);
  const Begun begun(input_of(part), {});
  INFO(begun.input.name);
  const Place same(begun.place, 0), edited(begun.place, 0);
  begun.input.write(begun.place.manifest().parent_path(), false);
  CHECK(same.resume().code == 0);
  begun.change_input();
  check_refused(begun.place, begun.input.refusal);
  begun.forge_copy(edited, /*sealed=*/false);
  check_refused(edited, "sealed with other inputs");
}

TEST_CASE("the weights that a run began with are in its list, whatever facts.json says",
          "[resume][privacy]") {
  const Begun begun(input_of(Part::weights), {});
  begun.change_input();
  const std::string why = ": the file of model.weights is not what the run began with";
  SECTION("facts.json alone is edited") {
    const Place copy(begun.place, 0);
    forge_facts(copy, begun.other, "weights");
    write_file(copy.run() / "ledger.jsonl", read_file(begun.place.run() / "ledger.jsonl"));
    check_refused(copy, why);
  }
  SECTION("so are the ledger and what the checkpoint says of it") {
    forge(begun.place, {forge_facts(begun.place, begun.other, "weights")}, /*sealed=*/false);
    check_refused(begun.place, why);
  }
}

// The correlation of 500 independent pairs is beyond 6 / sqrt(500) once in 10^9 times, and two
// independent batches are equal once in 2^64 times.
TEST_CASE("two forks of a run share neither noise nor batch", "[resume][privacy]") {
  const Part part = GENERATE(Part::test_rows, Part::weights, Part::plan, Part::rows_made);
  const Begun begun(input_of(part), kLoud);
  INFO(begun.input.name);
  const Place same(begun.place, 0), fork(begun.place, 0);
  begun.input.write(begun.place.manifest().parent_path(), false);
  for (const Place* one : {static_cast<const Place*>(&begun.place), &same}) {
    const End end = one->resume();
    INFO(one->last_words());
    REQUIRE(end.code == 0);
  }
  begun.change_input();
  begun.forge_copy(fork, /*sealed=*/true);
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

// The first step changes nothing, so the model shows the second step. Two independent batches are
// equal once in 2^64 times; for the noise, see above.
TEST_CASE("coins of a step ignore the clip norm that its copy has come to; its noise does not",
          "[resume][privacy]") {
  Overrides adaptive = kLoud;
  adaptive.insert(adaptive.end(), {"clipping={kind: adaptive, quantile: 0.5}", "steps=2",
                                   "checkpoint.every_steps=1",
                                   "schedules.learning_rate={kind: list, values: [1e-30, 0.5]}"});
  const Begun begun(input_of(Part::test_rows), adaptive);
  begun.input.write(begun.place.manifest().parent_path(), false);
  const auto own = killed_between_steps(begun.place);
  const Place tighter(*own, 0);
  halve_clip_norm(tighter);
  for (const Place* one : {own.get(), &tighter}) {
    const End end = one->resume();
    INFO(one->last_words());
    REQUIRE(end.code == 0);
  }
  const Step one(*own), other(tighter);
  REQUIRE(one.batch.size() > 16);
  REQUIRE(one.batch.size() < 48);
  CHECK(other.batch == one.batch);
  CHECK(std::fabs(correlation(one.noise, other.noise)) < 6.0 / std::sqrt(500.0));
}

// Studies pair their arms in this way: the noise is also the same, except for its scale.
TEST_CASE("coins of a step ignore clip norm and noise multiplier, where runs have one seed",
          "[resume][privacy]") {
  const auto step = [](const std::string& noise_multiplier, const std::string& clip_norm) {
    Overrides all = kLoud;
    all.insert(all.end(), {"seed=7", "schedules.clip_norm=" + clip_norm,
                           "schedules.noise_multiplier=" + noise_multiplier});
    const Begun begun(input_of(Part::test_rows), all);
    begun.input.write(begun.place.manifest().parent_path(), false);
    REQUIRE(begun.place.resume().code == 0);
    return Step(begun.place);
  };
  const Step one = step("0.02", "1.0"), noisier = step("0.03", "1.0"),
             tighter = step("0.02", "0.5");
  REQUIRE(one.batch.size() > 16);
  REQUIRE(one.batch.size() < 48);
  CHECK(noisier.batch == one.batch);
  CHECK(tighter.batch == one.batch);
  CHECK(correlation(one.noise, noisier.noise) > 0.99);
  CHECK(correlation(one.noise, tighter.noise) > 0.99);
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
  const auto rows = [](int count) {
    std::string text = "a,b,y\n";
    for (int i = 0; i < count; ++i)
      text += std::to_string(i % 5) + "," + std::to_string(i % 3) + (i % 2 ? ",1\n" : ",0\n");
    return text;
  };
  const Input test_rows{
      "the test rows, of a run for release",
      Part::test_rows,
      {"data={kind: csv, train: named.csv, test: named-test.csv, target: y, row: line, malformed: "
       "fill, columns: [{name: '*', type: number, fill: 0}], classes: 2, target_fill: 0, size: 64, "
       "test_is_public: true}",
       "mode=release"},
      [&](const fs::path& folder, bool is_other) {
        write_file(folder / "named.csv", rows(64));
        write_file(folder / "named-test.csv", rows(is_other ? 9 : 10));
      },
      ""};
  const Begun begun(test_rows,
                    {"sampler=full_batch", "privacy.accountant=zcdp", "privacy.adjacency=zero_out",
                     "privacy.target_epsilon=2", "privacy.account=" + file.string()});
  begun.change_input();
  begun.forge_copy(begun.place, /*sealed=*/true);
  const auto before = files_below(begun.place.run());
  const std::string account = read_file(file);
  CHECK(begun.place.resume().code == 3);
  CHECK_THAT(begun.place.last_words(),
             ContainsSubstring("pays for a run that began with other inputs"));
  const bool is_untouched = files_below(begun.place.run()) == before;
  CHECK(is_untouched);
  CHECK(read_file(file) == account);
}
