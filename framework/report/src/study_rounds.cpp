#include "study_rounds.hpp"

#include <utility>

#include "digits.hpp"
#include "html.hpp"

namespace privgrad::report {

std::string federated_section(const StudyRecord& study, Charts& charts) {
  Chart taus{.id = "local-iterations",
             .title = "Local iterations",
             .x = "round",
             .y = "steps of each client",
             .says =
                 "How many steps clients made between two exchanges, in each arm's first "
                 "seed."};
  taus.from_zero = true;
  Chart rounds{.id = "accuracy-rounds",
               .title = "Mean test accuracy against rounds",
               .x = "round",
               .y = "test accuracy",
               .says = "What each arm is worth for the communication that it took."};
  rounds.share = true;
  Chart epsilon{.id = "accuracy-epsilon",
                .title = "Mean test accuracy against epsilon",
                .x = "epsilon, as charged",
                .y = "test accuracy",
                .says =
                    "What each arm is worth for the privacy that it took: means over the "
                    "seeds, of both, at each round."};
  epsilon.share = true;
  for (const Arm* shown : study.curves()) {
    const Arm& arm = *shown;
    if (arm.runs.empty() || arm.runs.front().rounds.empty()) continue;
    Series made{.name = arm.name, .points = {}, .stepped = true, .colour = arm.of_level};
    for (const FederatedRound& round : arm.runs.front().rounds)
      made.points.push_back(point(round.round, static_cast<double>(round.local_iterations)));
    add_or_name(taus.series, std::move(made));
    Series accuracy = curve(arm, &Measurement::test_accuracy, &Measurement::round);
    const auto charged = [](const Measurement& one) {
      return one.charged_epsilon.value_or(std::nullopt);
    };
    const Series spent = curve(arm, charged, &Measurement::round);
    Series over_epsilon{.name = arm.name, .points = {}, .colour = arm.of_level};
    for (const Point& point : accuracy.points) {
      for (const Point& cost : spent.points) {
        if (cost.x == point.x) over_epsilon.points.push_back({cost.y, point.y});
      }
    }
    rounds.series.push_back(std::move(accuracy));
    epsilon.series.push_back(std::move(over_epsilon));
  }
  if (taus.series.empty()) return "";
  const auto always = only_value(taus.series);
  std::string figures = always ? "" : charts.add(std::move(taus));
  figures += charts.add(std::move(rounds));
  figures += charts.add(std::move(epsilon));
  figures = "<div class=\"charts\">\n" + figures + "</div>\n";
  if (always)
    figures += facts({{"local iterations", whole(*always) + " in every round of all arms"}});
  return section("federated", "Clients and rounds", figures);
}

}  // namespace privgrad::report
