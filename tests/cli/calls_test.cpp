#include <sstream>

#include "cli.hpp"

namespace {

const Words kCommands[] = {{"run"},
                           {"plan"},
                           {"validate"},
                           {"plugins", "list"},
                           {"plugins", "describe"},
                           {"plugins", "new"},
                           {"plugins", "test"},
                           {"plugins", "docs"},
                           {"schema"},
                           {"data", "list"},
                           {"data", "fetch"},
                           {"data", "describe"},
                           {"completion"},
                           {"man"}};

}  // namespace

TEST_CASE("every command explains itself, with options and examples") {
  const Cli cli;
  for (Words words : kCommands) {
    words.push_back("--help");
    const Outcome help = cli(words);
    INFO(help.out << help.err);
    CHECK(help.exit_code == 0);
    CHECK(help.err == "");
    CHECK(help.out.starts_with("usage: privgrad " + words[0]));
    CHECK_THAT(help.out, ContainsSubstring("\noptions:\n"));
    CHECK_THAT(help.out, ContainsSubstring("\nexamples:\n  privgrad " + words[0]));
  }
}

TEST_CASE("the overview lists every command") {
  const Cli cli;
  const Outcome help = cli({"--help"});
  CHECK(help.exit_code == 0);
  for (const Words& words : kCommands) {
    const std::string name = words.size() == 1 ? words[0] : words[0] + " " + words[1];
    CHECK_THAT(help.out, ContainsSubstring("\n  " + name + "  "));
  }
}

TEST_CASE("the overview cuts no summary within a quotation") {
  const Cli cli;
  std::istringstream lines(cli({"--help"}).out);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(std::count(line.begin(), line.end(), '`') % 2 == 0);
  }
}

TEST_CASE("run --help says what a signal does to the exit code") {
  const Cli cli;
  CHECK_THAT(cli({"run", "--help"}).out, ContainsSubstring("SIGINT"));
}

TEST_CASE("the version is the one of the project") {
  const Cli cli;
  const Outcome version = cli({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.out.starts_with("privgrad 0."));
  CHECK_THAT(version.out, ContainsSubstring("\nABI privgrad=0."));
}

TEST_CASE("wrong calls get one line and exit code 2") {
  struct Wrong {
    Words words;
    std::string expected;
  };
  const Wrong calls[] = {
      {{}, "see privgrad --help"},
      {{"rnu"}, "did you mean 'run'?"},
      {{"plugin"}, "did you mean 'plugins'?"},
      {{"plugins"}, "needs one of list, describe, new, test, sign, install, remove, docs"},
      {{"plugins", "lst"}, "did you mean 'plugins list'?"},
      {{"frobnicate"}, "there is no command 'frobnicate'"},
      {{"run"}, "MANIFEST is missing"},
      {{"run", "small.yaml", "other.yaml"}, "'other.yaml' is one too many"},
      {{"run", "small.yaml", "--thread", "2"}, "did you mean '--threads'?"},
      {{"run", "small.yaml", "-x"}, "no option '-x'"},
      {{"run", "small.yaml", "--threads"}, "--threads needs a value"},
      {{"run", "small.yaml", "--threads", "two"}, "--threads is 'two', allowed is a whole number"},
      {{"run", "small.yaml", "--threads", "0"}, "--threads is '0'"},
      {{"run", "small.yaml", "--threads=-1"}, "--threads is '-1'"},
      {{"run", "small.yaml", "--threads", "1x"}, "--threads is '1x'"},
      {{"run", "small.yaml", "--json=yes"}, "--json takes no value"},
      {{"run", "small.yaml", "--out", "a", "--out", "b"}, "--out is given twice"},
      {{"run", "small.yaml", "--out", "\xff"}, "not UTF-8"},
      {{"run", "small.yaml", "--plugin-dir", "absent"}, "absent: no such directory"},
      {{"validate", "small.yaml", "--out", "x"}, "no option '--out'"},
      {{"plugins", "describe", "optimizer/momentun"}, "did you mean 'optimizer/momentum'?"},
      {{"plugins", "describe", "momentun"}, "did you mean 'momentum'?"},
      {{"plugins", "new", "scheduel", "x"}, "did you mean 'schedule'?"},
      {{"plugins", "new", "cluster", "x"}, "KIND is 'cluster', allowed are accountant, aggregator"},
      {{"plugins", "new", "schedule", "../x"}, "NAME is '../x'"},
      {{"plugins", "new", "schedule", "Fast"}, "NAME is 'Fast'"},
  };
  const Cli cli;
  for (const Wrong& wrong : calls) {
    const Outcome outcome = cli(wrong.words);
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring(wrong.expected));
  }
  CHECK_FALSE(std::filesystem::exists(cli.out("runs")));
}

TEST_CASE("an error line stays one line whatever the names in it hold") {
  const Cli cli;
  const Outcome outcome = cli({"bad\nname\x1b[2J"});
  check_one_error_line(outcome, 2);
  CHECK(outcome.err.find('\x1b') == std::string::npos);
}

TEST_CASE("a plan names what is trained, and says how much of a step is in memory at once") {
  const Cli cli;
  const Json json = printed_json(cli, {"plan", "small.yaml"});
  CHECK(json.at("trained_tensors") == Json({"layers.0.weight", "layers.0.bias"}));
  CHECK(json.at("pass").at("examples") == 512);
  CHECK(json.at("pass").at("bytes") > 512 * 2 * 4);  // only the outputs
  const std::string page = cli({"plan", "small.yaml"}).out;
  CHECK_THAT(page, ContainsSubstring("2: layers.0.weight, layers.0.bias\n"));
  CHECK_THAT(page, ContainsSubstring("at most 512 examples at once, in about 1 MiB; 1 pass for a "
                                     "batch of 60\n"));
  const std::string few = cli({"plan", "small.yaml", "--set", "microbatch_size=7"}).out;
  CHECK_THAT(few, ContainsSubstring("at most 7 examples at once"));
  CHECK_THAT(few, ContainsSubstring("9 passes for a batch of 60"));
}

TEST_CASE("where losses are not finite because of tokens, the message asks about tokens") {
  const Cli cli;
  write_file(cli.out("t.csv"), "a,b,class\n1,2,0\n0,-1,1\n9,1,0\n2,2,1\n");
  const Outcome outcome = cli.on_manifest(
      "run", {"--set",
              "data={kind: csv, train: t.csv, target: class, labels: ['0', '1'], "
              "columns: [{name: a, type: number}, {name: b, type: number}]}",
              "--set",
              "model={kind: transformer, preset: encoder, vocabulary: 4, layers: 1, "
              "width: 4, heads: 2}",
              "--out", "o"});
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("the loss of the model is not finite; are all features "
                                            "tokens from 0 to 3, and -1 where there is none?"));
}

TEST_CASE("output that does not arrive is exit code 4") {
  const Cli cli;
  for (const Words& words : {Words{"plugins", "list"}, Words{"schema"}, Words{"--help"},
                             Words{"plan", "small.yaml", "--json"}}) {
    Call full = cli.prepare(words);
    full.out = "/dev/full";
    check_one_error_line(call(full), 4);
  }
}

TEST_CASE("a study where a manifest is expected, and a manifest where a study is, are one line") {
  const Cli cli;
  write_file(cli.dir() / "s.yaml", "study: 1\nbase: small.yaml\nseeds: 2\n");
  for (const char* command : {"run", "plan", "validate"}) {
    const Outcome study = cli({command, "s.yaml"});
    CHECK(study.exit_code == 2);
    CHECK(study.err ==
          "s.yaml:1:8: error: study: is the first key of a study, which `privgrad ablate` runs; a "
          "manifest begins with privgrad: 1\n");
  }
  const Outcome manifest = cli({"ablate", "small.yaml"});
  CHECK(manifest.exit_code == 2);
  CHECK(manifest.err ==
        "small.yaml:1:11: error: privgrad: begins a manifest, which `privgrad run` runs, where a "
        "study is expected; that begins with study: 1\n");
}
