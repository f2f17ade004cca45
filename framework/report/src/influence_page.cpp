#include "influence_page.hpp"

#include <cmath>
#include <system_error>
#include <vector>

#include "document.hpp"
#include "html.hpp"
#include "privgrad/error.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "record.hpp"

namespace privgrad::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using core::short_number;

fs::path record_file(const fs::path& directory) { return directory / "influence.json"; }

double required(const Json& object, const char* key, const std::string& source) {
  const auto value = number(object, key, source);
  if (!value) throw IoError(source + ": lacks '" + key + "'");
  return *value;
}

std::vector<InfluenceEstimate> estimates_of(const Json& record, const std::string& source) {
  std::vector<InfluenceEstimate> estimates;
  for (const Json& row : objects(record, "estimates", source)) {
    const double step = required(row, "step", source);
    if (step < 0.0 || step > 1e9) throw IoError(source + ": 'step' is out of range");
    estimates.push_back({static_cast<std::uint64_t>(step), required(row, "influence", source),
                         required(row, "standard_error", source)});
  }
  if (estimates.empty()) throw IoError(source + ": holds no estimates");
  return estimates;
}

/// The curve c gamma^(T - t), with last step T and the factor c that fits the estimates best.
Series fitted(const std::vector<InfluenceEstimate>& estimates, double gamma) {
  const auto last = static_cast<double>(estimates.back().step);
  double above = 0.0;
  double below = 0.0;
  for (const InfluenceEstimate& one : estimates) {
    const double shape = std::pow(gamma, last - static_cast<double>(one.step));
    const double weight =
        one.standard_error > 0.0 ? 1.0 / (one.standard_error * one.standard_error) : 1.0;
    above += weight * shape * one.influence;
    below += weight * shape * shape;
  }
  Series series{.name = "c gamma^(T-t), gamma = " + short_number(gamma, 5), .points = {}};
  for (std::uint64_t step = estimates.front().step; step <= estimates.back().step; ++step) {
    series.points.push_back({static_cast<double>(step),
                             above / below * std::pow(gamma, last - static_cast<double>(step))});
  }
  return series;
}

}  // namespace

bool is_influence(const fs::path& directory) {
  std::error_code failure;
  return fs::exists(record_file(directory), failure);
}

InfluenceChart influence_chart(const fs::path& file) {
  constexpr double kNormal95 = 1.96;
  const std::string source = file.string();
  const Json record = read_object(file);
  InfluenceChart made{.name = text(record, "name", source).value_or("run"),
                      .method = text(record, "method", source).value_or("?"),
                      .own_data = text(record, "data", source) == "own",
                      .estimates = estimates_of(record, source),
                      .gamma = number(record, "gamma", source),
                      .within_noise = text(record, "within_noise", source).value_or(""),
                      .chart = {}};
  const bool measured_some = made.method == "retraining";
  Series measured{.name = "estimate", .points = {}, .markers = measured_some};
  for (const InfluenceEstimate& one : made.estimates) {
    const auto step = static_cast<double>(one.step);
    const double half = kNormal95 * one.standard_error;
    measured.points.push_back({step, one.influence});
    if (measured_some) measured.bands.push_back({step, one.influence - half, one.influence + half});
  }
  made.chart = {.id = "influence",
                .title = "Influence of the noise of each step",
                .x = "step",
                .y = "influence",
                .says =
                    "Where noise costs most at the end, and should be least. Bands are 95 % "
                    "intervals of the estimate."};
  made.chart.from_zero = true;
  made.chart.series.push_back(std::move(measured));
  if (made.gamma) made.chart.series.push_back(fitted(made.estimates, *made.gamma));
  return made;
}

Page influence_page(const fs::path& directory) {
  InfluenceChart made = influence_chart(record_file(directory));
  HtmlTable table(
      "Influence of a step's noise: by how much the training loss at the end grows with the square "
      "of its noise multiplier.",
      {"step", "influence", "standard error"}, {true, true, true});
  for (const InfluenceEstimate& one : made.estimates) {
    table.add({std::to_string(one.step), short_number(one.influence),
               one.standard_error > 0.0 ? short_number(one.standard_error) : "-"});
  }
  std::string body =
      "<h1>" + escaped(made.name) +
      "</h1>\n<p class=\"lead\">An estimate of influence by PrivGrad: " + escaped(made.method) +
      "</p>\n";
  body += made.own_data
              ? "<p class=\"warning\" role=\"note\">Measured on private rows, and charged nowhere: "
                "plans that use it list it as unaccounted.</p>\n"
              : paragraph("Measured on auxiliary data: nothing private was looked at.");
  if (!made.within_noise.empty())
    body += "<p class=\"warning\" role=\"note\">" + escaped(made.within_noise) + "</p>\n";
  body += facts(
      {{"measured steps", std::to_string(made.estimates.size())},
       {"nearest exponential", made.gamma ? "gamma = " + short_number(*made.gamma, 6) : "none"}});
  Charts charts;
  body += "<div class=\"charts\">\n" + charts.add(std::move(made.chart)) + "</div>\n";
  body += section("table", "Estimates", table.html());
  return document(made.name + " - PrivGrad influence", body, std::move(charts));
}

}  // namespace privgrad::report
