// A plugin that sets a locale with decimal commas does not change any number.
#include <regex>

#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// Makes a folder with the locale de_DE.UTF-8 and the plugin that sets it. \returns false if the
/// system has no localedef.
bool make_locale(const Cli& cli) {
  Call call = cli.prepare({});
  call.words = {"/bin/sh", "-c",
                "mkdir locales && localedef -i de_DE -f UTF-8 ./locales/de_DE.UTF-8 || test -e "
                "locales/de_DE.UTF-8/LC_NUMERIC"};
  return ::call(call).exit_code == 0;
}

Outcome in_german(const Cli& cli, Words words) {
  words.insert(words.end(), {"--plugin-dir", "plugins"});
  Call call = cli.prepare(words);
  call.environment["LOCPATH"] = cli.out("locales").string();
  return ::call(call);
}

}  // namespace

TEST_CASE("a plugin that sets a locale changes no number in any output") {
  const Cli cli;
  if (!make_locale(cli)) {
    WARN("not tested: localedef cannot make the locale de_DE.UTF-8 on this system");
    return;
  }
  const std::string file = "test_sets_locale.privgrad.so";
  fs::create_directories(cli.out("plugins"));
  fs::copy_file(kFixtures / file, cli.out("plugins/" + file));
  fs::permissions(cli.out("plugins/" + file), fs::perms(0644));
  const auto with = [](const char* rate, const char* out) {
    return Words{"run",    "small.yaml", "--set",
                 "seed=7", "--set",      std::string("schedules.learning_rate=") + rate,
                 "--out",  out};
  };
  const Outcome german = in_german(cli, with("german", "german"));
  INFO(german.out << german.err);
  REQUIRE(german.exit_code == 0);
  const Outcome plain = cli(with("0.5", "plain"));
  REQUIRE(plain.exit_code == 0);

  const std::regex comma("[0-9],[0-9]");
  CHECK(german.err == plain.err);
  CHECK_FALSE(std::regex_search(german.out, comma));
  for (const char* name : {"metrics.jsonl", "schedules.json"})
    CHECK(read_file(cli.out("german") / name) == read_file(cli.out("plain") / name));
  // The ledger is bound to the lock, and the model to the ledger: they differ only in hashes.
  const std::regex hash("[0-9a-f]{64}");
  for (const char* name : {"ledger.jsonl", "model.safetensors"}) {
    const auto without_hashes = [&](const char* run) {
      return std::regex_replace(read_file(cli.out(run) / name), hash, "");
    };
    CHECK(without_hashes("german") == without_hashes("plain"));
  }
  const auto statement = [&](const char* run) {
    return Json::parse(read_file(cli.out(run) / "statement.json"));
  };
  CHECK(statement("german").at("short") == statement("plain").at("short"));
  const Json prose = statement("german").at("prose");
  for (std::size_t i = 0; i + 1 < prose.size(); ++i)  // the last one names the plugins
    CHECK(prose.at(i) == statement("plain").at("prose").at(i));
  const Outcome plan =
      in_german(cli, {"plan", "small.yaml", "--set", "schedules.learning_rate=german"});
  CHECK_FALSE(std::regex_search(plan.out, comma));
}
