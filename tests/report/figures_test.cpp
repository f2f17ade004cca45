// The charts of a page as SVG files, one a chart, for papers.
#include <set>

#include "page.hpp"

namespace fs = std::filesystem;

namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(folder))
    names.insert(file.path().filename().string());
  return names;
}

/// Whether a picture is XML, is drawn on white, and runs no script.
void check_picture(const fs::path& file) {
  INFO(file);
  const Outcome parsed = call({.words = {"/usr/bin/python3", "-c",
                                         "import sys, xml.dom.minidom as m; "
                                         "print(m.parse(sys.argv[1]).documentElement.tagName)",
                                         file.string()},
                               .directory = file.parent_path()});
  CHECK(parsed.exit_code == 0);
  CHECK(parsed.out == "svg\n");
  const std::string svg = read_file(file);
  CHECK(svg.find("<script") == svg.npos);
  CHECK(svg.find("onclick") == svg.npos);
  CHECK_THAT(svg, ContainsSubstring("fill = 'none'") || ContainsSubstring("stroke="));
}

}  // namespace

TEST_CASE("the charts of a run are written as pictures, one a file") {
  const Cli cli;
  page_of_run(cli,
              {"--set", "schedules.learning_rate={kind: exponential, initial: 0.5, rate: 0.9}",
               "--set", "schedules.noise_multiplier={kind: exponential, initial: 200, rate: 0.1}"});
  const Outcome outcome = cli({"report", "run", "--figures", "figures"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::set<std::string> expected{"accuracy.svg", "epsilon-spent.svg",    "learning-rate.svg",
                                       "loss.svg",     "noise-multiplier.svg", "roc-curve.svg"};
  CHECK(names_in(cli.out("figures")) == expected);
  CHECK(line_count(outcome.out) == expected.size());
  CHECK(outcome.out.starts_with("figures/accuracy.svg\n"));
  for (const std::string& name : expected) check_picture(cli.out("figures") / name);
  const std::string loss = read_file(cli.out("figures/loss.svg"));
  for (const char* text : {">train<", ">test<", ">mean loss<", ">step<"})
    CHECK_THAT(loss, ContainsSubstring(text));
}

TEST_CASE("the charts of a study are written as pictures, with a forest plot of its arms") {
  const Cli cli;
  write_file(cli.out("study.yaml"),
             "study: 1\nname: rates\nbase: " + cli.manifest().string() +
                 "\nset: {steps: 3, evaluate_every: 1}\narms:\n"
                 "  slow: {schedules.learning_rate: 0.1}\n"
                 "  fast: {schedules.learning_rate: 0.5}\nseeds: 2\nmetrics: [test_loss]\n");
  REQUIRE(cli({"ablate", "study.yaml", "--out", "study"}).exit_code == 0);
  const Outcome outcome = cli({"report", "study", "--figures", "figures"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::set<std::string> names = names_in(cli.out("figures"));
  for (const char* name : {"mean-test-loss-of-each-arm.svg", "mean-test-loss-over-the-steps.svg"})
    CHECK(names.contains(name));
  for (const std::string& name : names) check_picture(cli.out("figures") / name);
  CHECK_THAT(read_file(cli.out("figures/mean-test-loss-of-each-arm.svg")),
             ContainsSubstring(">slow<") && ContainsSubstring(">fast<"));
}

TEST_CASE("figures need something to draw, and a folder") {
  const Cli cli;
  page_of_run(cli, {"--set", "mode=release", "--set", "privacy.noise=off"});
  check_one_error_line(cli({"report", "run", "--figures", "figures", "--out", "page.html"}), 2);
  check_one_error_line(cli({"report", "run", "--figures", "figures", "--statement"}), 2);
  CHECK_FALSE(fs::exists(cli.out("figures")));
  page_of_run(cli, {}, "drawn");
  write_file(cli.out("file"), "");
  check_one_error_line(cli({"report", "drawn", "--figures", "file/figures"}), 4);
}
