// The charts of a page as SVG files, one per chart, for papers.
#include <cmath>
#include <map>
#include <set>

#include "page.hpp"

namespace fs = std::filesystem;

namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".svg") names.insert(file.path().filename().string());
  return names;
}

/// Checks that a picture has a white background, no scripts, a title and names for its axes.
/// \returns the values read from it (read_figure.py).
Json check_picture(const fs::path& file) {
  INFO(file);
  const Outcome read =
      call({.words = {"/usr/bin/python3", (kSource / "tests/report/read_figure.py").string(),
                      file.string()},
            .directory = file.parent_path()});
  INFO(read.err);
  REQUIRE(read.exit_code == 0);
  const std::string svg = read_file(file);
  CHECK(svg.find("<script") == svg.npos);
  CHECK(svg.find("onclick") == svg.npos);
  CHECK_THAT(svg, ContainsSubstring("fill=\"#ffffff\"/>"));
  Json figure = Json::parse(read.out);
  CHECK(figure.at("title").is_string());
  CHECK(figure.at("x").is_string());
  // The names of rows replace an axis name.
  CHECK((figure.at("y").is_string() || !figure.at("rows").empty()));
  CHECK(figure.at("series").empty() == !figure.at("rows").empty());
  return figure;
}

/// \param grain  how far a reading of the axis may be off, because places are written in tenths of a unit.
void check_near(const Json& read, const Json& expected, const Json& grain) {
  INFO(read << " " << expected << " " << grain);
  CHECK(std::abs(read.get<double>() - expected.get<double>()) <= grain.get<double>());
}

/// Checks the last point of a curve.
void check_end(const Json& figure, const std::string& name, const Json& x, const Json& y) {
  CAPTURE(name);
  REQUIRE(figure.at("series").contains(name));
  check_near(figure.at("series").at(name).at(0), x, figure.at("grain").at(0));
  check_near(figure.at("series").at(name).at(1), y, figure.at("grain").at(1));
}

/// Checks a row of a forest plot.
void check_row(const Json& figure, const std::string& name, const Json& middle, const Json& ends) {
  CAPTURE(name);
  REQUIRE(figure.at("rows").contains(name));
  const Json& row = figure.at("rows").at(name);
  check_near(row.at(0), middle, figure.at("grain").at(0));
  check_near(row.at(1), ends.at(0), figure.at("grain").at(0));
  check_near(row.at(2), ends.at(1), figure.at("grain").at(0));
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
  const bool has_pdf = fs::exists("/usr/bin/rsvg-convert");
  CHECK(names_in(cli.out("figures")) == expected);
  CHECK(line_count(outcome.out) == (has_pdf ? 3 : 2) * expected.size());
  CHECK(outcome.out.starts_with("figures/accuracy.csv\nfigures/accuracy.svg\n"));
  std::map<std::string, Json> figures;
  for (const std::string& name : expected) figures[name] = check_picture(cli.out("figures") / name);
  // Each figure comes with its data, and as PDF if a program that makes PDFs is installed.
  for (const std::string& name : expected) {
    const std::string stem = name.substr(0, name.size() - 4);
    CHECK(read_file(cli.out("figures") / (stem + ".csv")).starts_with("\"series\","));
    if (has_pdf) CHECK(read_file(cli.out("figures") / (stem + ".pdf")).starts_with("%PDF-"));
  }
  if (!has_pdf)
    CHECK_THAT(outcome.err, ContainsSubstring("note: no PDF was written: rsvg-convert"));
  const Json summary = Json::parse(read_file(cli.out("run/summary.json")));
  const Json& metrics = summary.at("metrics");
  const Json& steps = summary.at("steps");
  const Json& loss = figures.at("loss.svg");
  CHECK(loss.at("x") == "step");
  CHECK(loss.at("y") == "mean loss");
  check_end(loss, "train", steps, metrics.at("train_loss"));
  check_end(loss, "test", steps, metrics.at("test_loss"));
  check_end(figures.at("accuracy.svg"), "train", steps, metrics.at("train_accuracy"));
  check_end(figures.at("accuracy.svg"), "test", steps, metrics.at("test_accuracy"));
  check_end(figures.at("epsilon-spent.svg"), "spent", steps, summary.at("epsilon"));
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
  std::map<std::string, Json> figures;
  for (const std::string& name : names) figures[name] = check_picture(cli.out("figures") / name);
  // The arms of results.json, and no others.
  const Json results = Json::parse(read_file(cli.out("study/results.json")));
  const Json& curves = figures.at("mean-test-loss-over-the-steps.svg");
  const Json& means = figures.at("mean-test-loss-of-each-arm.svg");
  const Json& pairs = figures.at("difference-in-test-loss-to-slow.svg");
  CHECK(curves.at("x") == "step");
  CHECK(curves.at("y") == "test loss");
  CHECK(curves.at("series").size() == results.at("arms").size());
  CHECK(means.at("x") == "test loss");
  CHECK(means.at("rows").size() == results.at("arms").size());
  CHECK(pairs.at("x") == "difference in test loss");
  CHECK(pairs.at("rows").size() == 1);
  for (const Json& arm : results.at("arms")) {
    const std::string name = arm.at("name");
    const Json& loss = arm.at("metrics").at("test_loss");
    check_end(curves, name, arm.at("steps").at(0), loss.at("mean"));
    check_row(means, name, loss.at("mean"), loss.at("ci95"));
    if (name == results.at("baseline")) continue;
    const Json& pair = arm.at("versus_baseline").at("test_loss");
    check_row(pairs, name, pair.at("difference"), pair.at("ci95"));
  }
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
