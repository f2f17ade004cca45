#include "page.hpp"

namespace fs = std::filesystem;

namespace {

struct Broken {
  const char* file;
  std::string content;
  const char* says;
};

}  // namespace

TEST_CASE("what is not a run is refused in one line") {
  const Cli cli;
  fs::create_directory(cli.out("empty"));
  check_one_error_line(cli({"report", "empty"}), 2);
  check_one_error_line(cli({"report", "nowhere"}), 4);
  check_one_error_line(cli({"report", "small.yaml"}), 4);
  check_one_error_line(cli({"report"}), 2);
  check_one_error_line(cli({"report", "empty", "--statement"}), 2);
  check_one_error_line(cli({"report", "nowhere", "--statement"}), 4);
  CHECK(fs::is_empty(cli.out("empty")));
}

TEST_CASE("a broken record is refused in one line that names the file, and the page stays") {
  const Cli cli;
  const std::string page = page_of_run(cli);
  const std::string deep(50'000, '[');
  const std::vector<Broken> all{
      {"metrics.jsonl", "{\"step\": 1}\nnonsense\n", "metrics.jsonl:2: holds no JSON object"},
      {"metrics.jsonl", "[1]\n", "metrics.jsonl:1: holds no JSON object"},
      {"metrics.jsonl", "{\"loss\": 1}\n", "metrics.jsonl:1: has no 'step'"},
      {"metrics.jsonl", "{\"step\": \"1\"}\n", "metrics.jsonl:1: 'step' is not a number"},
      {"metrics.jsonl", "{\"step\": 1, \"test_loss\": {}}\n", "'test_loss' is not a number"},
      {"metrics.jsonl", "{\"step\": 1, \"test_loss\": 1e999}\n", "holds no JSON object"},
      {"metrics.jsonl", "{\"step\": 2}\n{\"step\": 1}\n", "metrics.jsonl:2: has an earlier step"},
      {"metrics.jsonl", "{\"step\": 1, \"a\": \"" + std::string(70'000, 'a') + "\"}\n",
       "metrics.jsonl:1: is longer"},
      {"metrics.jsonl", "{\"step\": " + deep + "\n", "metrics.jsonl:1: is nested deeper than"},
      {"metrics.jsonl", std::string("\0\0\0\n", 4), "metrics.jsonl:1: holds no JSON object"},
      {"ledger.jsonl", "{}\n", "ledger.jsonl:1: the ledger is broken here"},
      {"summary.json", "{\"status\": ", "summary.json: holds no JSON object"},
      {"summary.json", "", "summary.json: holds no JSON object"},
      {"summary.json", "{\"name\": 7}", "summary.json: 'name' is not text"},
      {"summary.json", "{\"metrics\": 7}", "summary.json: 'metrics' is not an object"},
      {"statement.json", "{\"prose\": [7]}",
       "statement.json: 'prose' holds something that is not text"},
      {"statement.json", "{\"also\": [7], \"noise\": true}",
       "'also' holds something that is not an object"},
      {"statement.json", "{\"unaccounted\": [7]}",
       "'unaccounted' holds something that is not an object"},
      {"statement.json", "{\"versions\": {\"plugins\": [7]}}",
       "'plugins' holds something that is not an object"},
      {"schedules.json", "{\"slots\": {\"a\": {\"step\": [0], \"value\": []}}}",
       "different lengths"},
      {"schedules.json", "{\"slots\": {\"a\": {\"step\": [0], \"value\": [null]}}}",
       "not a number"},
      {"schedules.json", "{\"slots\": {\"a\": {\"step\": [3, 1], \"value\": [1, 2]}}}",
       "has steps that do not ascend"},
  };
  for (const Broken& broken : all) {
    const std::string before = read_file(cli.out("run") / broken.file);
    write_file(cli.out("run") / broken.file, broken.content);
    INFO(broken.file << ": " << broken.content.substr(0, 80));
    const Outcome outcome = cli({"report", "run"});
    check_one_error_line(outcome, 4);
    CHECK_THAT(outcome.err, ContainsSubstring(broken.says));
    write_file(cli.out("run") / broken.file, before);
  }
  CHECK(page_of(cli, "run") == page);
  CHECK(cli({"report", "run"}).exit_code == 0);
}

TEST_CASE("a record without its later parts still has a page") {
  const Cli cli;
  page_of_run(cli);
  for (const char* file : {"summary.json", "statement.json", "schedules.json", "privgrad.lock",
                           "ledger.jsonl", "model.safetensors"}) {
    fs::remove(cli.out("run") / file);
    const Outcome outcome = cli({"report", "run"});
    INFO("without " << file << ": " << outcome.err);
    CHECK(outcome.exit_code == 0);
  }
  write_file(cli.out("run/metrics.jsonl"), "");
  CHECK(cli({"report", "run"}).exit_code == 0);
}

TEST_CASE("texts of a record are texts on the page, whatever they hold") {
  const Cli cli;
  const std::string name = "</script><script>document.title='taken'</script><img src=x onerror=1>";
  page_of_run(cli);
  for (const char* file : {"run/summary.json", "run/statement.json"}) {
    Json json = Json::parse(read_file(cli.out(file)));
    json["name"] = json["mode"] = json["stain"] = json["accountant"] = name;
    json["prose"] = {name, "subject. " + name};
    write_file(cli.out(file), json.dump());
  }
  write_file(cli.out("run/manifest.yaml"), name);
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  const std::string page = page_of(cli, "run");
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("<script>document") == std::string::npos);
  CHECK_THAT(visible(page), ContainsSubstring("<h1>&lt;/script&gt;&lt;script&gt;"));

  // An entity in a text is shown letter by letter.
  Json summary = Json::parse(read_file(cli.out("run/summary.json")));
  summary["name"] = "a &lt;b&gt;";
  write_file(cli.out("run/summary.json"), summary.dump());
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  CHECK_THAT(visible(page_of(cli, "run")), ContainsSubstring("<h1>a &amp;lt;b&amp;gt;"));

  // The name of a slot becomes part of pictures, data and attributes.
  const Json slot{{"step", {0, 1}}, {"value", {1, 2}}};
  Json schedules{{"steps", 2}};
  schedules["slots"][name] = slot;
  schedules["slots"]["\"onload=\"1"] = slot;
  write_file(cli.out("run/schedules.json"), schedules.dump());
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  const std::string again = page_of(cli, "run");
  CHECK(again.find("<img") == std::string::npos);
  CHECK(again.find("<script>document") == std::string::npos);
  CHECK_THAT(again, ContainsSubstring("%3C/script%3E"));
  CHECK_THAT(again, ContainsSubstring("&quot;onload=&quot;1"));
}

TEST_CASE("numbers at the ends of what a record can hold are drawn, and nothing hangs") {
  const Cli cli;
  page_of_run(cli);
  Json schedules{{"steps", 2}};
  const Json odd[] = {{1e17, 1e17 + 16}, {-1e308, 1e308}, {5e-324, 1e-320}, {0, 5e-324}, {-0.0, 1}};
  for (std::size_t i = 0; i < std::size(odd); ++i)
    schedules["slots"]["slot " + std::to_string(i)] = {{"step", {0, 1}}, {"value", odd[i]}};
  write_file(cli.out("run/schedules.json"), schedules.dump());
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  const std::string page = page_of(cli, "run");
  CHECK(chart(page, "slot-5").at("series").at(0).at("points").at(1) == Json{2, 1});
  for (const char* place : {"\"nan", "\"-nan", "Mnan", "M-nan", "Lnan", "L-nan", "Vnan", "V-nan"})
    CHECK(page.find(place) == std::string::npos);
}

TEST_CASE("bytes that are not UTF-8 do not reach the page") {
  const Cli cli;
  page_of_run(cli);
  write_file(cli.out("run/privgrad.lock"), "a\xff\xc0\xaf\xed\xa0\x80\x1b[2J \xc3\xa9");
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  const std::string page = page_of(cli, "run");
  CHECK(page.find('\xff') == std::string::npos);
  CHECK(page.find('\x1b') == std::string::npos);
  CHECK(page.find("\xc0\xaf") == std::string::npos);
  CHECK(page.find("\xed\xa0\x80") == std::string::npos);
  CHECK_THAT(page, ContainsSubstring(" \xc3\xa9"));
}

TEST_CASE("a hostile statement cannot steer the terminal") {
  const Cli cli;
  page_of_run(cli);
  write_file(cli.out("run/statement.json"), Json{{"prose", {"clean \x1b[2J\r and more"}}}.dump());
  const Outcome outcome = cli({"report", "run", "--statement"});
  CHECK(outcome.exit_code == 0);
  // The text before this states that the ledger is not bound to the statement.
  CHECK(outcome.out.ends_with("\n\nclean ?[2J? and more\n"));
}
