#include "plan_page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "output.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/names.hpp"
#include "privgrad/plan/allocation_price.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/influence_facts.hpp"
#include "privgrad/plan/remarks.hpp"
#include "privgrad/record/event_words.hpp"
#include "privgrad/statement/declared.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "run_report.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

constexpr std::size_t kCurveWidth = 40;
constexpr std::size_t kIndent = 2;

std::string section(const char* title, const Table& table) {
  return std::string("\n") + title + "\n" + table.text(kIndent);
}

std::string components_section(const core::Manifest& manifest) {
  Table table({Align::left, Align::left, Align::left, Align::left});
  for (const core::ComponentUse* use : core::components_of(manifest)) {
    const Component& component = *use->component;
    table.add({use->where, component.full_name(), component.plugin->version,
               component.factory.info.summary});
  }
  return section("components", table);
}

/// Compares noise that was computed from influence with the best and with uniform noise.
std::string influence_text(const core::Plan& plan) {
  const auto facts = core::influence_facts(plan);
  if (!facts) return "";
  std::string text =
      "  noise by its influence: sum of q sigma^2 " + short_number(facts->weighted_noise, 5);
  if (facts->least) text += ", the least is " + short_number(*facts->least, 5);
  return text + "; uniform noise of this guarantee has " + short_number(facts->uniform, 5) + "\n";
}

/// Describes the rule of adaptive noise, and the facts known in advance.
std::string adaptive_text(const core::Plan& plan) {
  if (!plan.noise_adapts) return "";
  const core::AdaptiveNoisePlan& adapts = *plan.noise_adapts;
  const Measurement& measurement = adapts.measurement;
  const std::string every = std::to_string(measurement.every);
  const std::string ends =
      "; the run ends when the budget does, or after " + std::to_string(plan.steps()) + " steps\n";
  if (!adapts.is_charged()) {
    const bool of_loss = measurement.what == Measured::validation_loss;
    return std::string("  the noise follows the ") + (of_loss ? "loss" : "accuracy") +
           " on the public test examples, every " + every + " steps" + ends;
  }
  const auto checks = adapts.checks_before(plan.affordable_steps);
  return "  the noise follows checks of the loss, every " + every +
         " steps, each charged as a step of noise multiplier " +
         short_number(measurement.noise_multiplier, 5) + " (" + std::to_string(checks) +
         " of them alone: epsilon " + short_bound(adapts.of_checks.value) + ")" + ends;
}

std::string schedules_section(const core::Plan& plan) {
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::left});
  table.add({"", "first", "min", "max", "last", ""});
  const auto add = [&](const char* slot, const std::vector<double>& values) {
    const auto [low, high] = std::ranges::minmax_element(values);
    table.add({slot, short_number(values.front(), 5), short_number(*low, 5), short_number(*high, 5),
               short_number(values.back(), 5), sparkline(values, kCurveWidth, speaks_utf8())});
  };
  add(plan.noise_adapts ? "first noise multiplier" : "noise multiplier", plan.noise_multiplier);
  if (plan.releases_count()) {
    add("  of the gradients", plan.gradient_noise_multiplier());
    add("  of the count (examples)", plan.count_noise);
  }
  add(plan.clip_norm_adapts() ? "first clip norm" : "clip norm", plan.clip_norm);
  add("learning rate", plan.learning_rate);
  add("expected batch size", plan.batch_size);
  return section("schedules", table) + adaptive_text(plan) + influence_text(plan);
}

/// Returns the number of names and only the first names, because there may be hundreds.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 6;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost));
  std::string text = std::to_string(names.size()) + ": " + listed({names.begin(), end});
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

std::string trained_text(const core::Plan& plan) {
  std::vector<std::string> names;
  for (const ParameterBlock& block : parameter_blocks(plan.setting->network))
    names.push_back(block.name);
  return some_of(names);
}

/// Returns the number of examples of a step that are in memory at once.
std::string pass_text(const core::Plan& plan) {
  const core::PassFacts& pass = plan.setting->pass;
  const double batch = *std::ranges::max_element(plan.batch_size);
  const auto passes = std::ceil(batch / static_cast<double>(pass.rows));
  std::string text = "at most " + std::to_string(pass.rows) + " examples at once";
  if (pass.bytes > 0) text += ", in about " + std::to_string((pass.bytes >> 20) + 1) + " MiB";
  return text + "; " + short_number(passes, 6) + (passes > 1.0 ? " passes" : " pass") +
         " for a batch of " + short_number(batch, 6);
}

/// Adds the initial weights of the model, tensor by tensor, with a note on frozen tensors.
void add_weights(const core::Plan& plan, Table& table) {
  const core::Setting& setting = *plan.setting;
  if (!setting.weights) return;
  const core::WeightsFacts& weights = *setting.weights;
  if (const std::size_t untrained = core::untrained_parameters(setting); untrained > 0) {
    table.add(
        {"frozen parameters", std::to_string(untrained) + ": no gradients, no noise, no cost"});
  }
  if (setting.lora) {
    for (const core::TrainedTensor& tensor : setting.lora->tensors) {
      table.add(
          {tensor.rank == 0 ? "trained" : "adapted",
           tensor.name + ", " + std::to_string(tensor.rows) + " x " +
               std::to_string(tensor.columns) +
               (tensor.rank == 0 ? ": all of it"
                                 : ": by " + std::to_string(tensor.size()) +
                                       " parameters of rank " + std::to_string(tensor.rank))});
    }
  }
  table.add({"begins from", plan.manifest->weights->file.string()});
  table.add({"  from the file", some_of(weights.loaded)});
  if (!weights.begun_anew.empty()) table.add({"  begun anew", some_of(weights.begun_anew)});
  if (setting.initial && !setting.initial->unused.empty()) {
    std::vector<std::string> unused;
    for (const std::string& name : setting.initial->unused)
      unused.push_back(core::one_line(core::shown_line(name), 80));
    table.add({"  not used", some_of(unused)});
  }
}

std::string training_section(const core::Plan& plan) {
  const core::Manifest& manifest = *plan.manifest;
  std::string steps = std::to_string(plan.steps());
  if (plan.affordable_steps < plan.steps()) {
    steps =
        std::to_string(plan.affordable_steps) + " of " + steps + ": the budget pays for no more";
  }
  Table table({Align::left, Align::left});
  table.add({"parameters (d)", std::to_string(plan.parameters)});
  table.add({"trained tensors", trained_text(plan)});
  if (plan.setting->pass.rows > 0) table.add({"memory of a step", pass_text(plan)});
  add_weights(plan, table);
  table.add(
      {"examples (N)", std::to_string(plan.dataset_size) +
                           (manifest.size_noise ? ", a guess: their number is released" : "")});
  table.add({"steps", steps});
  for (const core::PlannedAuto& chosen : plan.auto_values)
    table.add({chosen.where + ", auto", short_number(chosen.value, 6) + ": " + chosen.reason});
  if (!plan.optimized.empty()) {
    std::string numbers;
    for (const double number : plan.optimized)
      numbers += (numbers.empty() ? "" : ", ") + short_number(number, 4);
    table.add({"aggregator, optimized", numbers});
  }
  table.add(
      {"reproducible",
       manifest.seed ? "yes, seed " + std::to_string(*manifest.seed) + ": not for release" : "no"});
  return section("training", table);
}

std::string labels_text(const std::vector<std::uint64_t>& labels) {
  std::string text;
  for (const std::uint64_t count : labels)
    text += (text.empty() ? "" : " ") + std::to_string(count);
  return text;
}

std::string federated_section(const core::Plan& plan) {
  if (!plan.federated) return "";
  const core::FederatedPlan& federated = *plan.federated;
  const core::Federated& wish = *plan.manifest->federated;
  Table facts({Align::left, Align::left});
  facts.add({"clients", std::to_string(wish.clients)});
  facts.add({"rounds", std::to_string(wish.rounds)});
  facts.add({"aggregation", std::string(to_text(wish.aggregation))});
  std::string iterations = "chosen during the run";
  if (!federated.is_adaptive()) {
    const auto& all = federated.local_iterations;
    const auto [low, high] = std::ranges::minmax_element(all);
    iterations =
        std::to_string(*low) + (*low == *high ? " in every round" : " to " + std::to_string(*high));
  } else if (!federated.estimates) {
    iterations = "1 in every round: there are as many rounds as steps that the budget pays for";
  } else {
    iterations += ", by estimates that are " + std::string(to_text(wish.estimates));
    if (federated.estimate_noise > 0.0)
      iterations += ", of noise multiplier " + short_number(federated.estimate_noise, 5);
  }
  facts.add({"local iterations", iterations});
  facts.add({"local steps at most", std::to_string(federated.affordable_steps)});
  constexpr std::size_t kMostClients = 20;
  const bool has_labels = !federated.clients.front().labels.empty();
  Table clients({Align::right, Align::right, Align::right, Align::right, Align::left});
  clients.add({"client", "examples", "steps", "epsilon", has_labels ? "labels" : ""});
  for (std::size_t i = 0; i < std::min(federated.clients.size(), kMostClients); ++i) {
    const core::ClientPlan& client = federated.clients[i];
    clients.add({std::to_string(i), std::to_string(client.plan->dataset_size),
                 std::to_string(client.plan->affordable_steps),
                 federated.at_server ? "-" : short_bound(client.plan->epsilon().value),
                 labels_text(client.labels)});
  }
  std::string text = section("federated", facts) + "\n" + clients.text(kIndent);
  if (federated.clients.size() > kMostClients)
    text += "  and " + std::to_string(federated.clients.size() - kMostClients) + " more\n";
  return text;
}

/// States in how many steps the examples take part, and the rho that this costs them.
std::string participation_text(const core::Plan& plan) {
  const core::RhoOfExamples of_examples = plan.rho_of_examples();
  const core::Quartiles& rho = of_examples.rho;
  const auto [fewest, most] = of_examples.steps_of_an_example;
  if (of_examples.min_separation) {
    return "in at most " + std::to_string(most) + " of the rounds, with at least " +
           std::to_string(*of_examples.min_separation) + " between two of them; rho at most " +
           short_bound(rho.max);
  }
  std::string steps = std::to_string(fewest);
  if (most > fewest) steps += " to " + std::to_string(most);
  return "in " + steps + " of the steps; rho at most " + short_bound(rho.max) + ", median " +
         short_number(rho.median, 6) + ", least " + short_number(rho.min, 6) +
         ", for the order that was drawn";
}

/// Returns the statistics that transforms learn before the first step.
std::string statistics_section(const core::Plan& plan) {
  if (plan.statistics.empty() && !plan.report) return "";
  Table table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::right});
  table.add({"transform", "released", "numbers", "bound of a row", "noise multiplier", "share"});
  for (const core::PlannedStatistic& one : plan.statistics) {
    const bool weighs =
        one.of == core::StatisticOf::classes && plan.manifest->largest_class_weight.has_value();
    table.add({one.name, one.what + (weighs ? ", for class weights" : ""), std::to_string(one.size),
               short_number(one.l2_bound, 5), short_number(one.noise_multiplier, 5),
               one.share > 0.0 ? short_number(one.share, 5) : "-"});
  }
  if (plan.report) {
    const std::uint64_t between = plan.report->between(plan.affordable_steps);
    table.add({"",
               between == 0
                   ? "accuracy on the training rows, at the end"
                   : "accuracy on the training rows, " + std::to_string(between + 1) + " times" +
                         (plan.report->patience > 0 ? ", may stop the run" : ""),
               "1", short_number(core::PlannedReport::kBound, 5),
               short_number(plan.report->noise_multiplier, 5),
               plan.report->share > 0.0 ? short_number(plan.report->share, 5) : "-"});
  }
  return section("releases beside the steps", table);
}

std::string privacy_section(const core::Plan& plan) {
  const core::Manifest& manifest = *plan.manifest;
  Table table({Align::left, Align::left});
  table.add({"budget", manifest.target_epsilon
                           ? "epsilon " + format_number(*manifest.target_epsilon)
                           : "none: the noise is given, nothing guards it"});
  table.add({"delta", format_number(manifest.target_delta)});
  table.add({"adjacency", std::string(to_text(manifest.adjacency)) + ", per " +
                              std::string(to_text(plan.unit))});
  table.add({"sampling", plan.sampling_words()});
  table.add({"accounted as", core::describe(plan.event)});
  if (const auto price = core::price_of_allocation(plan)) {
    table.add({"with allocation",
               "epsilon " + short_bound(*price->epsilon) + " under " + price->adjacency +
                   ", at the same noise, if each example drew its step of an epoch by itself: "
                   "sampler {kind: allocation, steps_per_epoch: " +
                   std::to_string(price->steps_per_epoch) + "}, accountant pld"});
  }
  if (plan.public_order() != nullptr && !manifest.noise_off)
    table.add({"per example", participation_text(plan)});
  table.add({"unaccounted", unaccounted_text(plan)});
  for (const std::string& remark : core::remarks(plan, plan.epsilon().value))
    table.add({"remark", remark});
  return section("privacy", table);
}

/// Returns the facts for which the author of the manifest vouches.
std::string declared_section(const core::Plan& plan) {
  constexpr std::size_t kLongest = 240;
  Table table({Align::left, Align::left});
  for (const core::Declared& one : core::declared_facts(plan))
    table.add({one.key, core::one_line(one.value, kLongest)});
  return table.empty() ? "" : section("declared by the author and taken as public", table);
}

std::string accountants_section(const core::Plan& plan) {
  Table table({Align::left, Align::right, Align::left, Align::right, Align::left});
  table.add({"", "epsilon", "bound", "lower", ""});
  for (const core::AccountantReport& report : plan.accountants) {
    const PrivacyAnswer& answer = report.epsilon;
    table.add({report.name, short_bound(answer.value), std::string(to_text(answer.bound)),
               answer.lower ? short_lower_bound(*answer.lower) : "-", answer.note});
  }
  return section("accountants", table);
}

}  // namespace

std::string sparkline(std::span<const double> values, std::size_t width, bool utf8) {
  static constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<std::string_view, 8> kAscii{"_", ".", "-", "~", "=", "+", "*", "#"};
  const auto [low, high] = std::ranges::minmax_element(values);
  if (values.empty() || *low == *high) return "";
  const std::size_t columns = std::min(width, values.size());
  std::string line;
  for (std::size_t column = 0; column < columns; ++column) {
    // The first column shows the first value, the last column shows the last value.
    const std::size_t at =
        columns == 1 ? 0 : (column * (values.size() - 1) + (columns - 1) / 2) / (columns - 1);
    const double height = (values[at] - *low) / (*high - *low);
    const auto level = std::min<std::size_t>(static_cast<std::size_t>(height * 8.0), 7);
    line += utf8 ? kBlocks[level] : kAscii[level];
  }
  return line;
}

std::string plan_page(const core::Plan& plan) {
  const core::Manifest& manifest = *plan.manifest;
  const char* mode = manifest.mode == core::Mode::release ? "release" : "research";
  return manifest.name + ": epsilon " + epsilon_text(plan.accountants.front()) + " in " +
         std::to_string(plan.affordable_steps) + " steps, " + mode + " mode\n" +
         components_section(manifest) + training_section(plan) + schedules_section(plan) +
         statistics_section(plan) + federated_section(plan) + privacy_section(plan) +
         declared_section(plan) + accountants_section(plan);
}

}  // namespace privgrad::tool
