// If release mode refuses because a declaration is missing, the message is the same whatever the
// rows contain, even if they cannot be read at all.
#include "cli.hpp"

namespace {

using namespace std::string_literals;

const std::string kReleased =
    "privgrad: 1\nmode: release\nmodel: linear\nsampler: full_batch\noptimizer: sgd\n"
    "schedules: {noise_multiplier: 20, clip_norm: 1.0, learning_rate: 0.5}\n"
    "privacy: {target_delta: 1e-8, adjacency: zero_out, accountant: rdp}\nsteps: 4\n";

/// A call with several alternative contents of the same file.
struct Undeclared {
  std::string data;                   ///< The section.
  Words set;                          ///< Additional settings.
  std::string file;                   ///< The file that gets these contents.
  std::vector<std::string> contents;  ///< The first one is valid.
};

const std::vector<Undeclared>& undeclared() {
  static const std::string csv = "data: {kind: csv, train: t.csv, target: y, ";
  static const std::string all = "columns: [{name: a, type: number, fill: 0}], ";
  static const std::string line = "row: line, malformed: fill, ";
  // A cell that is not a number, an invalid target, a row with an additional field, a quote that
  // never closes, a byte that no text contains, and no row at all.
  static const std::vector<std::string> tables = {"a,y\n1,0\n2,1\n",
                                                  "a,y\nx,0\n2,1\n",
                                                  "a,y\n1,7\n2,1\n",
                                                  "a,y\n1,0\n2,1,3\n",
                                                  "a,y\n1,0\n2,\"1\n\n\n",
                                                  "a,y\n1,\0\n"s,
                                                  "a,y\n"};
  static const std::string head = "\0\0\x08\x01\0\0\0\2"s;
  static const std::vector<std::string> labels = {head + "\0\1"s, head + "\0\xff"s, head + "\0"s};
  static const std::vector<Undeclared> kept = {
      {csv + "classes: 2}", {}, "t.csv", tables},
      {csv + all + line + "target_fill: 0}", {}, "t.csv", tables},
      {csv + all + "classes: 2, target_fill: 0}", {}, "t.csv", tables},
      {csv + "labels: ['0', '1'], columns: [{name: '*', type: number, fill: 0}]}",
       {},
       "t.csv",
       tables},
      {csv + "classes: 2, target_fill: 0, columns: [{name: '*', type: number}]}",
       {},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0, transforms: [standardize]}",
       {},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0}",
       {"privacy.adjacency=add_or_remove_one"},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0}",
       {"aggregator.arithmetic=float"},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0, split: {test: 0.5}}",
       {"privacy.adjacency=replace_one"},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0, test: t.csv, test_is_public: true}",
       {},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0}",
       {"privacy.target_delta=0.5", "data.size=2"},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0}",
       {"model.weights={file: weights}"},
       "t.csv",
       tables},
      {csv + all + line + "classes: 2, target_fill: 0}",
       {"federated={clients: 2, rounds: 2, local_iterations: 1}",
        "federated.partition={kind: dirichlet, alpha: 5}"},
       "t.csv",
       tables},
      {"data: {kind: idx, train: {images: images, labels: labels}}", {}, "labels", labels},
      {"data: {kind: idx, train: {images: images, labels: labels}, classes: 2}",
       {},
       "labels",
       labels},
  };
  return kept;
}

}  // namespace

TEST_CASE("a missing declaration is refused with the same words whatever the rows hold",
          "[plan][privacy]") {
  for (const Undeclared& one : undeclared()) {
    CAPTURE(one.data, one.set);
    const Cli cli;
    write_file(cli.dir() / "m.yaml", kReleased + one.data + "\n");
    const std::string tensors =
        R"({"layers.0.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
    write_file(cli.dir() / "weights", std::string(1, static_cast<char>(tensors.size())) +
                                          std::string(7, '\0') + tensors + std::string(8, '\0'));
    write_file(cli.dir() / "images", "\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\1\1\2"s);
    Words words{"plan", "m.yaml"};
    for (const std::string& set : one.set) words.insert(words.end(), {"--set", set});
    std::optional<Outcome> good;
    for (const std::string& content : one.contents) {
      CAPTURE(content);
      write_file(cli.dir() / one.file, content);
      const Outcome outcome = cli(words);
      if (!good) good = outcome;
      CHECK(outcome.exit_code == 3);
      CHECK(outcome.out == "");
      CHECK(outcome.err == good->err);
    }
    CHECK_THAT(good->err, ContainsSubstring("release mode refuses") ||
                              ContainsSubstring("they are training rows"));
  }
}
