#include "federated_section.hpp"

#include <algorithm>

#include "digits.hpp"
#include "html.hpp"
#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;
using core::short_bound;
using core::short_number;

std::vector<Point> iterations_by_round(const RunRecord& record) {
  std::vector<Point> points;
  for (const FederatedRound& round : record.rounds)
    points.push_back(point(round.round, static_cast<double>(round.local_iterations)));
  return points;
}

std::vector<Point> accuracy_by_round(const RunRecord& record) {
  std::vector<Point> points;
  for (const Measurement& one : record.measurements) {
    const auto value = one.test_accuracy ? one.test_accuracy : one.train_accuracy;
    if (!one.round || !value) continue;
    const Point next = point(*one.round, *value);
    if (points.empty() || points.back().x < next.x) points.push_back(next);
  }
  return points;
}

std::vector<Point> accuracy_by_epsilon(const RunRecord& record) {
  std::vector<Point> points;
  for (const Measurement& one : record.measurements) {
    const auto value = one.test_accuracy ? one.test_accuracy : one.train_accuracy;
    const auto charged = one.charged_epsilon.value_or(std::nullopt);
    const auto epsilon = charged ? charged : one.epsilon;
    if (!epsilon || !value) continue;
    if (points.empty() || points.back().x < *epsilon) points.push_back({*epsilon, *value});
  }
  return points;
}

std::vector<Point> megabytes(const RunRecord& record, core::Count core::RoundMishaps::*bytes) {
  std::vector<Point> points;
  double all = 0.0;
  for (const FederatedRound& round : record.rounds)
    points.push_back(
        point(round.round, (all += static_cast<double>((*round.participation).*bytes)) / 1e6));
  return points;
}

bool shows_participation(const RunRecord& record) {
  return std::ranges::all_of(
      record.rounds, [](const FederatedRound& round) { return round.participation.has_value(); });
}

std::string communication_facts(const RunRecord& record) {
  if (!shows_participation(record)) {
    return paragraph("Who takes part in a round is a secret that the guarantee rests on.");
  }
  core::RoundParticipation all;
  for (const FederatedRound& round : record.rounds) {
    all.bytes_down += round.participation->bytes_down;
    all.bytes_up += round.participation->bytes_up;
    all.clients += round.participation->clients;
    all.dropped += round.participation->dropped;
    if (const auto refused = round.participation->refused)
      all.refused = all.refused.value_or(0) + *refused;
  }
  return facts(
      {{"rounds", whole(static_cast<double>(record.rounds.size()))},
       {"sent to clients", short_number(static_cast<double>(all.bytes_down) / 1e6, 4) + " MB"},
       {"received from clients", short_number(static_cast<double>(all.bytes_up) / 1e6, 4) + " MB"},
       {"drop-outs",
        std::to_string(all.dropped) + " of " + std::to_string(all.clients) +
            (all.refused ? "; " + std::to_string(*all.refused) + " more came early and were refused"
                         : "")}});
}

std::string client_table(const RunRecord& record) {
  if (!record.clients) return "";
  const std::vector<core::ClientFacts>& clients = record.clients->clients;
  std::size_t classes = 0;
  for (const core::ClientFacts& client : clients) classes = std::max(classes, client.labels.size());
  // A larger table would be unreadable.
  constexpr std::size_t kMostClasses = 20, kMostClients = 200;
  const std::size_t shown = classes <= kMostClasses ? classes : 0;
  std::vector<std::string> headings{"client", "examples", "steps", "epsilon charged"};
  for (std::size_t label = 0; label < shown; ++label)
    headings.push_back("label " + std::to_string(label));
  HtmlTable table(shown > 0 ? "The clients, and how many examples of each label they have (exact "
                              "counts, for which nothing was charged)."
                            : "The clients.",
                  headings, std::vector<bool>(headings.size(), true));
  for (std::size_t i = 0; i < std::min(clients.size(), kMostClients); ++i) {
    const core::ClientFacts& client = clients[i];
    const auto epsilon = client.charged_epsilon.value_or(core::Nullable<double>());
    std::vector<std::string> cells{std::to_string(client.client),
                                   std::to_string(client.dataset_size),
                                   client.steps ? std::to_string(*client.steps) : "-",
                                   epsilon ? short_bound(*epsilon, kBoundDigits) : "-"};
    for (std::size_t label = 0; label < shown; ++label)
      cells.push_back(label < client.labels.size() ? std::to_string(client.labels[label]) : "-");
    table.add(cells);
  }
  return table.html() + (clients.size() > kMostClients
                             ? paragraph("The first " + std::to_string(kMostClients) + " of " +
                                         std::to_string(clients.size()) + " clients.")
                             : "");
}

}  // namespace

std::string federated_section(const RunRecord& record, Charts& charts) {
  if (record.rounds.empty() && !record.clients) return "";
  std::string html;
  const std::vector<Series> iterations{{"local iterations", iterations_by_round(record), {}, true}};
  const auto always = only_value(iterations);
  if (!always) {
    html += charts.add({.id = "local-iterations",
                        .title = "Local iterations",
                        .x = "round",
                        .y = "steps of each client",
                        .says = "How many private steps a client makes between two exchanges. An "
                                "adaptive number follows from released values.",
                        .series = iterations,
                        .from_zero = true});
  }
  html += charts.add({.id = "accuracy-rounds",
                      .title = "Accuracy against rounds",
                      .x = "round",
                      .y = "share of right answers",
                      .says = "What the model is worth for the communication that it took.",
                      .series = {{"accuracy", accuracy_by_round(record)}},
                      .share = true});
  html += charts.add({.id = "accuracy-epsilon",
                      .title = "Accuracy against epsilon",
                      .x = "epsilon, as charged",
                      .y = "share of right answers",
                      .says = "What the model is worth for the privacy that it took.",
                      .series = {{"accuracy", accuracy_by_epsilon(record)}},
                      .share = true});
  if (shows_participation(record)) {
    html += charts.add({.id = "communication",
                        .title = "Communication",
                        .x = "round",
                        .y = "MB in all",
                        .says = "What was sent to clients, and what arrived from them.",
                        .series = {{"down", megabytes(record, &core::RoundMishaps::bytes_down)},
                                   {"up", megabytes(record, &core::RoundMishaps::bytes_up)}},
                        .from_zero = true});
  }
  html = "<div class=\"charts\">\n" + html + "</div>\n";
  if (always) html += facts({{"local iterations", whole(*always) + " in every round"}});
  html += communication_facts(record);
  return section("federated", "Clients and rounds", html + client_table(record));
}

}  // namespace privgrad::report
