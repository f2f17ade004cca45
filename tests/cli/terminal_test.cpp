// Only harmless text reaches a terminal, whatever names and texts are printed.
#include <algorithm>

#include "cli.hpp"

namespace {

/// Copied, because the fixtures' own folder contains plugins that cannot be loaded, which causes
/// warnings.
Words with_fixture(const Cli& cli, const std::string& name, Words words) {
  const std::string file = "test_" + name + ".privgrad.so";
  std::filesystem::create_directories(cli.out("plugins"));
  std::filesystem::copy_file(kFixtures / file, cli.out("plugins/" + file),
                             std::filesystem::copy_options::skip_existing);
  std::filesystem::permissions(cli.out("plugins/" + file), std::filesystem::perms(0644));
  words.insert(words.end(), {"--plugin-dir", "plugins"});
  return words;
}

/// Whether this text is harmless on a terminal: UTF-8 without control characters and marks of
/// direction.
bool only_shows(const std::string& text) {
  const bool has_c0 = std::any_of(text.begin(), text.end(), [](unsigned char c) {
    return (c < 0x20 && c != '\n') || c == 0x7f || c == 0xff;
  });
  return !has_c0 && text.find("\302\233") == text.npos &&  // U+009B, CSI
         text.find("\342\200\256") == text.npos;           // U+202E, right-to-left override
}

const std::string kHostile =
    "a\033[2Jb\033]0;t\007c\302\233"
    "31md\342\200\256"
    "e\177f\rg";
const std::string kShown = "a?[2Jb?]0;t?c?31md?e?f?g";

}  // namespace

TEST_CASE("what a data source says of itself cannot steer the terminal") {
  const Cli cli;
  for (const char* command : {"plan", "run"}) {
    const Outcome outcome = cli(
        with_fixture(cli, "steers_terminal", {command, "small.yaml", "--set", "data=steering"}));
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(only_shows(outcome.out));
    CHECK(only_shows(outcome.err));
    CHECK_THAT(outcome.out, ContainsSubstring("clear?[2J, title?]0;x?, C1 ?31m, bidi ?, byte ?, "
                                              "two lines"));
  }
}

TEST_CASE("what release mode refuses is named without steering the terminal") {
  const Cli cli;
  const Json listed =
      Json::parse(cli(with_fixture(cli, "steers_terminal", {"plugins", "list", "--json"})).out);
  std::string hash;
  for (const Json& plugin : listed.at("plugins")) {
    if (plugin.at("plugin") == "test.steers_terminal") hash = plugin.at("sha256");
  }
  const Outcome outcome =
      cli(with_fixture(cli, "steers_terminal",
                       {"plan", "small.yaml", "--set", "data={kind: steering, size: 4}", "--set",
                        "mode=release", "--set", "allow.plugins=[" + hash + "]"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(only_shows(outcome.err));
  CHECK_THAT(outcome.err, ContainsSubstring("'clear?[2J'"));
}

TEST_CASE("a plugin's words about its components cannot steer the terminal") {
  const Cli cli;
  for (const Words& words :
       {Words{"plugins", "list"}, Words{"plugins", "describe", "data_source/steering"}}) {
    const Outcome outcome = cli(with_fixture(cli, "steers_terminal", words));
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(only_shows(outcome.out));
    CHECK_THAT(outcome.out, ContainsSubstring("Clears?[2J the screen"));
  }
}

TEST_CASE("JSON has the same value, and nothing in it steers the terminal") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--out", kHostile, "--json", "--quiet"});
  INFO(outcome.out);
  CHECK(outcome.exit_code == 0);
  CHECK(only_shows(outcome.out));
  CHECK(Json::parse(outcome.out).at("run_dir") == kHostile);
}

TEST_CASE("the name of a run directory cannot steer the terminal") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("run", {"--out", kHostile, "--quiet"});
  CHECK(outcome.exit_code == 0);
  CHECK(only_shows(outcome.out));
  CHECK_THAT(outcome.out, ContainsSubstring("run directory  " + kShown + "\n"));
  const Outcome again = cli.on_manifest("run", {"--out", kHostile, "--quiet"});
  check_one_error_line(again, 4);
  CHECK(only_shows(again.err));
}

TEST_CASE("names in errors cannot steer the terminal") {
  const Cli cli;
  for (const Words& words :
       {Words{kHostile}, Words{"run", kHostile}, Words{"run", "small.yaml", "--set", kHostile},
        Words{"run", "small.yaml", "--threads", kHostile},
        Words{"account", "--accountant", kHostile, "--event", "-", "--delta", "0.1"},
        Words{"plugins", "describe", kHostile}, Words{"report", kHostile},
        Words{"ablate", kHostile}, Words{"run", "small.yaml", "--locked=" + kHostile},
        Words{"run", "not \377 UTF-8"}}) {
    const Outcome outcome = cli(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code > 1);
    CHECK(outcome.err != "");
    CHECK(only_shows(outcome.err));
  }
}

TEST_CASE("text that is not a threat stays as it is") {
  const Cli cli;
  const std::string name = "r\u00e9sum\u00e9 \u65e5\u672c \U0001f600 \u0627";
  const Outcome outcome = cli.on_manifest("run", {"--out", name, "--quiet"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("run directory  " + name + "\n"));
}
