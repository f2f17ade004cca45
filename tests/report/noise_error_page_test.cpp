#include <algorithm>

#include "page.hpp"

namespace {

const std::string kManifest = R"(privgrad: 1
name: momentum
seed: 1
data: {kind: synthetic, rows: 100, dimensions: 4}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 5, fresh: false}
aggregator: {kind: tree, momentum: 0.95}
optimizer: {kind: sgd}
schedules: {clip_norm: 2.0, learning_rate: 0.1}
privacy: {target_epsilon: 2, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 60
)";

}  // namespace

TEST_CASE("noise-error writes a page with the table and a chart of every step") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  CHECK(cli({"noise-error", "m.yaml", "--report", "page.html"}).exit_code == 0);
  const std::string page = read_file(cli.dir() / "page.html");
  CHECK_THAT(page, ContainsSubstring("<table") && ContainsSubstring("variance reduction") &&
                       ContainsSubstring("give --smoothness"));
  // The chart's data: curves of 60 steps, with the numbers that --json prints.
  const Json mechanisms =
      Json::parse(cli({"noise-error", "m.yaml", "--json"}).out).at("mechanisms");
  REQUIRE(chart_data(page).size() == 1);
  const Json series = chart(page, "noise").at("series");
  CHECK(series.size() == 3);
  for (const Json& one : series) {
    const auto is_it = [&](const Json& arm) { return arm.at("name") == one.at("name"); };
    const auto arm = std::find_if(mechanisms.begin(), mechanisms.end(), is_it);
    REQUIRE(arm != mechanisms.end());
    REQUIRE(one.at("points").size() == 60);
    for (std::size_t i = 0; i < 60; ++i)
      CHECK(one.at("points").at(i) == Json({i + 1, arm->at("stddev").at(i)}));
  }
}
