#include "run_report.hpp"

#include <cmath>

#include "output.hpp"
#include "privgrad/plan/remarks.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

std::string metric_text(const std::optional<double>& value) {
  return value ? short_number(*value, 4) : "-";
}

void print_headline(const core::Plan& plan, const core::RunResult& result) {
  const bool completed = result.status == core::RunStatus::completed;
  // In release mode the duration is not shown, because it depends on private sizes.
  const bool timed = plan.manifest->mode == core::Mode::research;
  print(plan.manifest->name + ": ");
  print_coloured(core::to_text(result.status), completed ? "32" : "33");
  print(", " + std::to_string(result.steps) + " of " + std::to_string(plan.steps()) + " steps" +
        (timed ? " in " + short_number(result.seconds, 3) + " s\n" : "\n"));
}

std::string metrics_table(const core::Metrics& metrics) {
  const bool any = metrics.train_loss || metrics.test_loss;
  if (!any) return "no metrics: release mode measures nothing on private rows\n";
  Table table({Align::left, Align::right, Align::right});
  table.add({"", "train", "test"});
  if (metrics.train_loss || metrics.test_loss) {
    table.add({"loss", metric_text(metrics.train_loss), metric_text(metrics.test_loss)});
  }
  if (metrics.train_accuracy || metrics.test_accuracy) {
    table.add(
        {"accuracy", metric_text(metrics.train_accuracy), metric_text(metrics.test_accuracy)});
  }
  return table.text();
}

std::string reproducible_text(const core::Manifest& manifest) {
  if (!manifest.seed) return "no: randomness comes from the operating system";
  return "yes, seed " + std::to_string(*manifest.seed) +
         ": anyone who knows it can remove the noise; not for release";
}

}  // namespace

void warn_of(const core::Plan& plan) {
  for (const std::string& remark : core::remarks(plan, plan.epsilon().value))
    complain("warning", remark);
  // The remarks below contain values computed from private rows.
  if (plan.manifest->mode == core::Mode::release) return;
  for (const std::string& remark : plan.setting->info.remarks) complain("note", remark);
}

std::string unaccounted_text(const core::Plan& plan) {
  std::string text;
  for (const core::Unaccounted& item : plan.unaccounted) {
    text +=
        (text.empty() ? "" : ", ") + item.what + (item.why.empty() ? "" : " (" + item.why + ")");
  }
  return text.empty() ? "nothing that PrivGrad read" : text;
}

std::string epsilon_text(const core::AccountantReport& report) {
  if (std::isinf(report.epsilon.value)) return "infinite: " + report.epsilon.note;
  std::string_view bound = "an estimate, not a bound,";
  if (report.epsilon.bound == BoundKind::upper) bound = "upper bound";
  if (report.epsilon.bound == BoundKind::exact) bound = "exact";
  return short_bound(report.epsilon.value) + " (" + std::string(bound) + " by " + report.name + ")";
}

void print_run_report(const core::Plan& plan, const core::RunResult& result) {
  const core::Manifest& manifest = *plan.manifest;
  Table facts({Align::left, Align::left});
  facts.add({"epsilon", epsilon_text({core::name_of_prover(manifest.accountant), result.epsilon}) +
                            (manifest.target_epsilon && !manifest.noise_off
                                 ? ", budget " + format_number(*manifest.target_epsilon)
                                 : "")});
  if (plan.noise_adapts) {
    facts.add({"spent", "epsilon " + short_bound(result.noise->spent_epsilon) +
                            ": not a guarantee, because the noise was chosen from releases"});
  }
  if (const auto& rows = result.counts.rows)
    facts.add({"rows", std::to_string(*rows) + ", as released"});
  if (!result.counts.classes.empty()) {
    std::string counts;
    for (const double count : result.counts.classes)
      counts += (counts.empty() ? "" : ", ") + short_number(count, 6);
    facts.add({"rows of each class", counts + ", as released"});
    std::string weights;
    for (const double weight : core::class_weights_of(plan, result.counts))
      weights += (weights.empty() ? "" : ", ") + short_number(weight, 4);
    if (!weights.empty()) facts.add({"class weights", weights + ", from these"});
  }
  if (plan.report && result.summary.at("reported").at("train_accuracy").contains("value")) {
    const auto& released = result.summary.at("reported").at("train_accuracy");
    facts.add({"train accuracy", short_number(released.at("value").get<double>(), 5) +
                                     ", released with noise of standard deviation " +
                                     short_number(released.at("noise_stddev").get<double>(), 3)});
  }
  facts.add({"delta", format_number(manifest.target_delta)});
  facts.add({"adjacency", std::string(to_text(manifest.adjacency)) + ", per " +
                              std::string(to_text(plan.unit))});
  if (plan.federated) {
    const auto& federated = result.summary.at("federated");
    const auto megabytes = [&](const char* key) {
      return short_number(federated.at(key).get<double>() / 1e6, 4) + " MB";
    };
    const auto shown = [&](const char* key, const char* words) {
      return federated.contains(key) ? ", " + federated.at(key).dump() + words : std::string();
    };
    facts.add({"rounds", federated.at("rounds").dump() + " of " +
                             federated.at("planned_rounds").dump() + shown("clients", " clients") +
                             shown("dropped", " drop-outs") +
                             shown("refused", " refused because they came too early")});
    if (federated.contains("bytes_down")) {
      facts.add({"communication",
                 megabytes("bytes_down") + " to the clients, " + megabytes("bytes_up") + " back"});
    }
  }
  facts.add({"mode", manifest.mode == core::Mode::release ? "release" : "research"});
  facts.add({"unaccounted", unaccounted_text(plan)});
  for (const std::string& remark : core::remarks(plan, result.epsilon.value))
    facts.add({"remark", remark});
  // Computed from the test rows, which are public in release mode.
  const auto evaluation = result.summary.find("test_evaluation");
  if (evaluation != result.summary.end() && evaluation->contains("remark"))
    facts.add({"remark", evaluation->at("remark").get<std::string>()});
  facts.add({"reproducible", reproducible_text(manifest)});
  facts.add({"run directory", result.summary.at("run_dir").get<std::string>()});
  print_headline(plan, result);
  print("\n" + metrics_table(result.metrics) + "\n" + facts.text());
}

}  // namespace privgrad::tool
