// Each refusal of release mode names the key that resolves it.
#include <algorithm>

#include "fake_program.hpp"
#include "tensor_file.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

const std::string kReleased = R"(privgrad: 1
mode: release
data: {kind: synthetic, rows: 200, test_rows: 50, dimensions: 10, test_is_public: true}
model: linear
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_delta: 1e-8, adjacency: zero_out, accountant: rdp}
steps: 4
)";

const std::string kClients = "federated={clients: 4, rounds: 2, local_iterations: 2}";

struct Refusal {
  Overrides set;
  std::vector<std::string> keys;  ///< The keys in each line of the message.
};

/// One case for everything that is listed as unaccounted, or that release mode refuses for other
/// reasons.
const std::vector<Refusal>& refusals() {
  static const std::string csv = "data={kind: csv, train: t.csv, target: y, classes: 2";
  static const std::string whole = ", columns: [{name: '*', type: number, fill: 0}]";
  static const std::vector<Refusal> all = {
      {{"seed=1"}, {"seed"}},
      {{"gradient_norm=true"}, {"gradient_norm"}},
      {{"data.read_off_rows=[the range]"}, {"data.read_off_rows"}},
      {{"privacy.noise=off"}, {"privacy.noise"}},
      {{"privacy.target_delta=0.1"}, {"allow: {large_delta: true}"}},
      {{"schedules.noise_multiplier=1e-160"}, {"schedules.noise_multiplier"}},
      {{"schedules.noise_multiplier={kind: dynamic, influence: {kind: file, file: i.csv}}",
        "privacy.target_epsilon=4"},
       {"schedules.noise_multiplier"}},
      {{"data.transforms=[standardize]"}, {"statistic: private"}},
      {{"data.transforms=[{kind: scale_max_norm, to: 1}]"}, {"give max_norm"}},
      {{"aggregator.arithmetic=float"}, {"aggregator.arithmetic: exact"}},
      {{"privacy.adjacency=add_or_remove_one"}, {"data.size"}},
      {{csv + "}"}, {"say data.target_fill, or", "say data.malformed, or", "say data.columns, or"}},
      {{"data={kind: csv, train: t.csv, target: y, labels: ['0', '1']" + whole + "}"},
       {"say data.other_label, or", "say data.malformed, or"}},
      {{csv + ", target_fill: 0, columns: [{name: '*', type: number}]}"},
       {"say data.malformed, or", "say data.columns, or"}},
      {{csv + ", target_fill: 0, row: line, malformed: fill, split: {test: 0.5}" + whole + "}",
        "privacy.adjacency=replace_one"},
       {"privacy.adjacency"}},
      {{"data={kind: idx, train: {images: images, labels: labels}}"},
       {"say data.classes, or", "say data.target_fill, or"}},
      {{"data={kind: idx, train: {images: images, labels: labels}, classes: 2, target_fill: 0, "
        "size: 2, limit: 2}",
        "privacy.adjacency=add_or_remove_one"},
       {"data.limit"}},
      {{kClients, "privacy.adjacency=add_or_remove_one", "data.size=200",
        "sampler={kind: poisson, sample_rate: 0.2}"},
       {"federated.shards"}},
      {{kClients, "federated.partition={kind: dirichlet, alpha: 5, at_least: 20}"},
       {"federated.shards", "federated.sizes"}},
      {{"federated={clients: 4, rounds: 2, local_iterations: ali_dpfl, estimates: unaccounted}",
        "privacy.target_epsilon=4", "schedules.noise_multiplier=uniform"},
       {"federated.estimates"}},
      {{"federated={clients: 4, rounds: 2, local_iterations: 1, aggregation: dp_fed_avg, "
        "client_clip_norm: 1}",
        "privacy.target_delta=0.3"},
       {"allow: {large_delta: true}"}},
      {{"model.weights={file: weights}"}, {"model.weights: {public: true}"}},
      {{"backend=without_promises"}, {"use another backend"}},
  };
  return all;
}

/// 200 examples of 10 features in two classes, as described by the source before a row is read.
struct NeverRead final : DataSource {
  explicit NeverRead(const Params&) {}
  DataInfo info() override { throw IoError("a row was read"); }
  Dataset read(Split) override { throw IoError("a row was read"); }
  std::optional<DataInfo> foreseen_info() override {
    DataInfo info;
    info.shape = {{10}, 2};
    return info;
  }
};

/// The same data without targets.
struct WithoutTargets final : DataSource {
  explicit WithoutTargets(const Params&) {}
  DataInfo info() override { throw IoError("a row was read"); }
  Dataset read(Split) override { throw IoError("a row was read"); }
  std::optional<DataInfo> foreseen_info() override {
    DataInfo info;
    info.shape = {{10}, 2};
    info.has_targets = false;
    return info;
  }
};

/// The same with a shape that only rows can determine.
struct OfAnyShape final : DataSource {
  explicit OfAnyShape(const Params&) {}
  DataInfo info() override { throw IoError("a row was read"); }
  Dataset read(Split) override { throw IoError("a row was read"); }
};

/// Its programs make no promises about bits.
struct WithoutPromises final : Backend {
  explicit WithoutPromises(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor&) override {
    return std::make_unique<EchoProgram>(parameter_count(network));
  }
};

const Catalog& catalog() {
  static const Catalog made = house_with({offer<DataSource, NeverRead>("never_read"),
                                          offer<DataSource, OfAnyShape>("of_any_shape"),
                                          offer<DataSource, WithoutTargets>("without_targets"),
                                          offer<Backend, WithoutPromises>("without_promises")});
  return made;
}

/// Returns the refusals, one line per reason; "" if nothing is refused.
std::string refusal_of(const Overrides& set) {
  using namespace std::string_literals;
  Experiment experiment(kReleased, set, catalog());
  write_file(experiment.dir() / "t.csv", "a,b,y\n1,0,0\n0,1,1\n2,0,0\n0,2,1\n");
  write_file(experiment.dir() / "i.csv", "# unaccounted: private rows\n0,1\n1,2\n2,1\n3,2\n");
  write_file(experiment.dir() / "images", "\0\0\x08\x03\0\0\0\x04\0\0\0\x01\0\0\0\x01\1\2\3\4"s);
  write_file(experiment.dir() / "no-rows.csv", "a,b,y\n");
  write_file(experiment.dir() / "no-labels", "\0\0\x08\x01"s);
  write_file(experiment.dir() / "labels", "\0\0\x08\x01\0\0\0\x04\0\1\0\1"s);
  write_file(experiment.dir() / "weights",
             safetensors_of({{"layers.0.weight", {2, 10}, std::vector<float>(20, 0.5f)},
                             {"layers.0.bias", {2}, std::vector<float>(2, 0.5f)}}));
  try {
    experiment.plan();
  } catch (const PrivacyError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each refusal of release mode names the key that answers it", "[plan][privacy]") {
  CHECK_NOTHROW(Experiment(kReleased).plan());
  for (const Refusal& one : refusals()) {
    const std::string text = refusal_of(one.set);
    CAPTURE(one.set, text);
    REQUIRE(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1 ==
            one.keys.size());
    std::size_t begin = 0;
    for (const std::string& key : one.keys) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      CHECK_THAT(text.substr(begin, end - begin), ContainsSubstring(key));
      begin = end + 1;
    }
  }
}

TEST_CASE("rows without targets are refused before one is read", "[plan][privacy]") {
  CHECK_THROWS_WITH(refusal_of({"data=without_targets", "data.size=200"}),
                    ContainsSubstring("its rows have no targets"));
}

TEST_CASE("what does not follow from rows is refused before one is read", "[plan][privacy]") {
  const Overrides unread{"data=never_read", "data.size=200"};
  CHECK_THROWS_WITH(refusal_of(unread), ContainsSubstring("a row was read"));
  std::size_t count = 0;
  for (const Refusal& one : refusals()) {
    // These refusals concern data of other sources, which have their own tests, or depend on the
    // plan's numbers and thus on the number of rows.
    const bool is_of_another_source =
        std::any_of(one.set.begin(), one.set.end(), [](const std::string& set) {
          return set.starts_with("data=") || set.starts_with("schedules.noise_multiplier=1e") ||
                 set.starts_with("schedules.noise_multiplier={");
        });
    if (is_of_another_source || one.keys.front() == "data.size") continue;
    CAPTURE(one.set);
    CHECK(refusal_of(with(unread, one.set)) == refusal_of(with({"data.size=200"}, one.set)));
    CHECK_THAT(refusal_of(with(unread, one.set)), ContainsSubstring(one.keys.front()));
    if (one.set.front() != "backend=without_promises") {  // the shape determines this
      CHECK_THAT(refusal_of(with({"data=of_any_shape", "data.size=200"}, one.set)),
                 ContainsSubstring(one.keys.front()));
    }
    ++count;
  }
  CHECK(count == 14);
}

TEST_CASE("by the shape that a source foresees, a program is refused before a row is read",
          "[plan][privacy]") {
  for (const char* data :
       {"data={kind: csv, train: no-rows.csv, row: line, malformed: fill, target: y, classes: 2, "
        "target_fill: 0, columns: [{name: '*', type: number, fill: 0}]}",
        "data={kind: idx, train: {images: images, labels: no-labels}, classes: 2, target_fill: "
        "0}"}) {
    CAPTURE(data);
    CHECK_THROWS_AS(refusal_of({data}), IoError);  // the message that reading a row would give
    CHECK_THAT(refusal_of({data, "backend=without_promises"}),
               ContainsSubstring("use another backend"));
  }
}
