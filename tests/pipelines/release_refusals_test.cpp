// Each refusal of release mode names the key with which it is answered.
#include <algorithm>

#include "train.hpp"

using privgrad::PrivacyError;

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
  std::vector<std::string> keys;  ///< Of each line of the message.
};

/// One for each thing that is listed as unaccounted, or that release mode refuses besides.
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
  };
  return all;
}

}  // namespace

using namespace std::string_literals;

TEST_CASE("each refusal of release mode names the key that answers it", "[plan][privacy]") {
  CHECK_NOTHROW(Experiment(kReleased).plan());
  for (const Refusal& one : refusals()) {
    Experiment experiment(kReleased, one.set);
    write_file(experiment.dir() / "t.csv", "a,b,y\n1,0,0\n0,1,1\n2,0,0\n0,2,1\n");
    write_file(experiment.dir() / "i.csv", "# unaccounted: private rows\n0,1\n1,2\n2,1\n3,2\n");
    write_file(experiment.dir() / "images", "\0\0\x08\x03\0\0\0\x04\0\0\0\x01\0\0\0\x01\1\2\3\4"s);
    write_file(experiment.dir() / "labels", "\0\0\x08\x01\0\0\0\x04\0\1\0\1"s);
    std::string text;
    try {
      experiment.plan();
    } catch (const PrivacyError& error) {
      text = error.what();
    }
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
