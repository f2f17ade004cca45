// Trained models, exported in the form of their initial weights: a folder, or a state_dict.
#include <filesystem>
#include <string>

#include "cli.hpp"
#include "npy_file.hpp"

namespace export_weights_test {
namespace {

const std::filesystem::path kFolders = kSource / "plugins/models/pretrained/sample";

std::string yaml(const std::string& name, const std::string& model, bool has_targets) {
  return "privgrad: 1\nname: words\nseed: 1\n"
         "data: " +
         std::string(has_targets ? "{kind: csv, train: rows.csv, target: y, labels: [a, b]}"
                                 : "{kind: npy, train: {features: rows.npy}}") +
         "\nmodel: {kind: pretrained, path: " + name + ", weights: {public: true}" + model +
         "}\nsampler: full_batch\noptimizer: sgd\n"
         "schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.1}\n"
         "privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}\nsteps: 1\n";
}

/// A folder with a copy of a public model, and rows of five tokens.
struct Place {
  Cli cli;

  Place(const std::string& name, const std::string& model, bool has_targets = true) {
    std::filesystem::copy(kFolders / name, cli.out(name));
    write_file(cli.out("rows.csv"), "t0,t1,t2,t3,t4,y\n1,2,3,-1,-1,a\n4,5,6,7,8,b\n");
    write_file(cli.out("rows.npy"),
               array_file("<f4", "2, 5", std::vector<float>{1, 2, 3, -1, -1, 4, 5, 6, 7, 8}));
    write_file(cli.manifest(), yaml(name, model, has_targets));
    const Outcome run = cli.on_manifest("run", {"--out", "run", "-q"});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
  }
  Outcome export_to(const std::string& format, const std::string& out) const {
    return cli({"export", "run", "--format", format, "--out", out});
  }
};

}  // namespace

TEST_CASE("a folder that was frozen is written back byte by byte, with the new layer beside it") {
  const std::string name = GENERATE("bert", "gpt2", "llama");
  const Place place(name, ", train: [last]");
  const Outcome done = place.export_to("huggingface", "back");
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  for (const char* file : {"config.json", "model.safetensors"})
    CHECK(read_file(place.cli.out("back") / file) == read_file(kFolders / name / file));
  CHECK(std::filesystem::exists(place.cli.out("back/output.safetensors")));
  CHECK(Json::parse(read_file(place.cli.out("back/privacy.json"))).contains("epsilon"));
}

TEST_CASE("a trained language model has its output layer in the folder's file") {
  const std::string name = GENERATE("gpt2", "llama");
  const Place place(name, ", loss: next_token", false);
  const Outcome done = place.export_to("huggingface", "back");
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  const std::string before = read_file(kFolders / name / "model.safetensors");
  const std::string after = read_file(place.cli.out("back/model.safetensors"));
  CHECK(after != before);
  CHECK_THAT(after, ContainsSubstring("trained_by"));
  CHECK_FALSE(std::filesystem::exists(place.cli.out("back/output.safetensors")));
}

TEST_CASE("what a run was not begun from is not written") {
  const Place place("bert", ", train: [last]");
  const auto refused = [&](const std::string& part) {
    const Outcome outcome = place.export_to("huggingface", "back");
    check_one_error_line(outcome, 4);
    CHECK_THAT(outcome.err, ContainsSubstring(part));
    CHECK_FALSE(std::filesystem::exists(place.cli.out("back")));
  };
  const std::filesystem::path config = place.cli.out("bert/config.json");
  const std::string text = read_file(config);
  write_file(config, text + "\n");
  refused("model.path/config.json: is not the file that the run has read");
  write_file(config, text);
  std::filesystem::remove(place.cli.out("run/manifest.yaml"));
  refused("manifest.yaml");
}

TEST_CASE("a state_dict has the trained weights, and behind them those that began anew") {
  const Place place("bert", "");
  const Outcome done = place.export_to("state_dict", "back.safetensors");
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  const std::string after = read_file(place.cli.out("back.safetensors"));
  CHECK_THAT(after, ContainsSubstring(R"("output.weight":{)"));
  CHECK_THAT(after, ContainsSubstring(R"("encoder.layer.1.attention.self.query.weight":{)"));
  const Cli other;
  REQUIRE(other.on_manifest("run", {"--out", "run", "-q"}).exit_code == 0);
  const Outcome refused = other({"export", "run", "--format", "state_dict", "--out", "x"});
  check_one_error_line(refused, 2);
  CHECK_THAT(refused.err, ContainsSubstring("did not begin from weights"));
}

}  // namespace export_weights_test
