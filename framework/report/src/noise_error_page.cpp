#include "privgrad/report/noise_error.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "document.hpp"
#include "html.hpp"
#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;

std::string rounded(double value) { return core::short_number(value, 4); }

Series curve(const Json& mechanism) {
  Series series{.name = mechanism.at("name"), .points = {}};
  double step = 1.0;
  for (const double value : mechanism.at("stddev")) series.points.push_back({step++, value});
  return series;
}

}  // namespace

std::string noise_error_page(const Json& comparison) {
  const double momentum = comparison.at("momentum");
  const std::string released = momentum < 1.0 ? "momentum " + rounded(momentum) : "prefix sums";
  const std::string name = comparison.at("name");
  std::vector<std::string> head{"mechanism", "aggregator", "node noise",     "first step",
                                "half way",  "last step",  "all steps (rms)"};
  for (const Json& window : comparison.at("windows"))
    head.push_back("mean of " + std::to_string(window.get<std::uint64_t>()));
  std::vector<bool> is_number(head.size(), true);
  is_number[0] = is_number[1] = false;
  HtmlTable table("Standard deviation of the noise in each coordinate", head, is_number);
  std::string refusals;
  Chart chart{.id = "noise",
              .title = "Noise in the released " + released + ", step by step",
              .x = "step",
              .y = "standard deviation",
              .says =
                  "All have the same guarantee: the lowest curve is best. Trees rise where the sum "
                  "so far consists of many blocks, and fall after a restart."};
  for (const Json& mechanism : comparison.at("mechanisms")) {
    if (!mechanism.at("refused").is_null()) {
      refusals += paragraph(mechanism.at("name").get<std::string>() + ": " +
                            mechanism.at("refused").get<std::string>());
      continue;
    }
    const Json& stddev = mechanism.at("stddev");
    std::vector<std::string> row{mechanism.at("name"),
                                 mechanism.at("aggregator"),
                                 rounded(mechanism.at("noise_multiplier")),
                                 rounded(stddev.front()),
                                 rounded(stddev.at(stddev.size() / 2)),
                                 rounded(stddev.back()),
                                 rounded(mechanism.at("root_mean_square"))};
    for (const Json& averaged : mechanism.at("averaged")) row.push_back(rounded(averaged));
    table.add(row);
    chart.series.push_back(curve(mechanism));
  }
  chart.from_zero = true;
  Charts charts;
  const std::string figure = charts.add(std::move(chart));
  std::string body = "<h1>" + escaped(name) + "</h1>\n";
  body += paragraph("At epsilon " + rounded(comparison.at("target_epsilon")) + ", delta " +
                    rounded(comparison.at("target_delta")) + ", " +
                    comparison.at("adjacency").get<std::string>() + ", over " +
                    std::to_string(comparison.at("steps").get<std::uint64_t>()) +
                    " steps. Predicted from the plan alone: nothing was trained.");
  body +=
      section("noise-by-step", "Step by step", "<div class=\"charts\">\n" + figure + "</div>\n");
  body += section("table", "In numbers", table.html());
  if (!refusals.empty()) body += section("refused", "Without a proof here", refusals);
  return document(name + ": noise of " + released, body, std::move(charts)).html;
}

}  // namespace privgrad::report
