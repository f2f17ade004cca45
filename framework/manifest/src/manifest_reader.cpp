#include "manifest_reader.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "manifest_paths.hpp"
#include "manifest_values.hpp"
#include "privgrad/error.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/manifest/manifest_names.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/theorems/utility_bound.hpp"

namespace privgrad::core {

Manifest ManifestReader::load() {
  Manifest manifest;
  if (!std::holds_alternative<Value::Object>(root_.data())) {
    problems_.add(root_.mark, "",
                  "the manifest is " + std::string(root_.type_name()) +
                      ", expected an object with keys such as data and model");
    return manifest;
  }
  if (!check_version()) return manifest;
  manifest.resolved = Value(Value::Object{});
  manifest.resolved.mark = root_.mark;
  read_root(manifest);
  read_data(manifest);
  read_schedules(manifest);
  read_privacy(manifest);
  if (manifest.size_noise) check_private_size(manifest.adjacency);
  read_federated(manifest);
  read_allow(manifest);
  read_checkpoint(manifest);
  check_unknown(root_section(), root_,
                {"data", "schedules", "privacy", "federated", "allow", "checkpoint"});
  check_release(manifest);
  check_tested(manifest);
  finish(manifest);
  return manifest;
}

Manifest ManifestReader::load_data() {
  Manifest manifest;
  manifest.resolved = Value(Value::Object{});
  read_data(manifest);
  finish(manifest);
  return manifest;
}

bool ManifestReader::check_version() {
  const Value* version = root_.find("privgrad");
  if (const Value* study = root_.find("study"); version == nullptr && study != nullptr) {
    problems_.add(study->mark, "study",
                  "is the first key of a study, which `privgrad ablate` runs; a manifest begins "
                  "with privgrad: 1");
    return false;
  }
  if (version == nullptr) return true;  // reported with the other missing keys
  const auto* number = std::get_if<std::int64_t>(&version->data());
  if (number == nullptr || *number == 1) return true;
  problems_.add(version->mark, "privgrad",
                "is " + std::to_string(*number) +
                    ", a version of manifests that this program does not know; it reads 1");
  return false;
}

void ManifestReader::read_root(Manifest& manifest) {
  const Params params = own_params(root_section(), with_steps(root_, manifest));
  manifest.name = params.has("name") ? params.text("name") : default_name(file_);
  if (!is_name(manifest.name)) {
    problems_.add(root_.find("name")->mark, "name",
                  "is '" + one_line(manifest.name, 80) +
                      "', allowed are letters, digits, '.', '_' and '-', at most 64, beginning "
                      "with a letter or a digit");
  }
  if (params.text("mode") == "release") manifest.mode = Mode::release;
  if (params.has("seed")) manifest.seed = static_cast<std::uint64_t>(params.integer("seed"));
  if (!params.is_auto("steps"))
    manifest.steps = static_cast<std::uint64_t>(params.integer("steps"));
  if (params.has("evaluate_every")) {
    manifest.evaluate_every = static_cast<std::uint64_t>(params.integer("evaluate_every"));
  } else if (const std::uint64_t count = steps_or_rounds(manifest.steps); count > 0) {
    manifest.evaluate_every = std::max<std::uint64_t>(1, count / 20);
  }
  manifest.gradient_norm = params.has("gradient_norm") && params.boolean("gradient_norm");
  if (params.has("microbatch_size"))
    manifest.microbatch_size = static_cast<std::size_t>(params.integer("microbatch_size"));
  manifest.random_iterate = params.text("output") == "random_iterate";
  manifest.keeps_average = params.text("output") == "ema";
  if (params.has("augmentation")) {
    const Params given = params.object("augmentation");
    const std::vector<std::string> kinds = given.texts("kinds");
    const auto has = [&](const char* kind) {
      return std::ranges::find(kinds, kind) != kinds.end();
    };
    manifest.augmentation = {.copies = static_cast<std::size_t>(given.integer("copies")),
                             .flip = has("flip"),
                             .crop = has("crop")};
  }
  read_report(manifest, params);
  if (params.has("ema_decay")) manifest.ema_decay = params.real("ema_decay");
  if (manifest.keeps_average && !manifest.ema_decay) {
    problems_.add(root_.find("output")->mark, "output",
                  "is ema, but there is no moving average; give ema_decay");
  }
  Value own = params.value();
  own.set("name", marked(manifest.name, root_.find("name")));
  if (manifest.evaluate_every > 0) {
    own.set("evaluate_every", marked(static_cast<std::int64_t>(manifest.evaluate_every),
                                     root_.find("evaluate_every")));
  }
  keep(manifest.resolved, root_section().params, own);
  // `data` comes first and has its own reader.
  manifest.resolved.set("data", Value());
  ComponentUse* uses[] = {nullptr,
                          &manifest.model,
                          &manifest.backend,
                          &manifest.sampler,
                          &manifest.clipping,
                          &manifest.aggregator,
                          &manifest.optimizer};
  for (std::size_t i = 1; i < std::size(uses); ++i) {
    const Slot& slot = root_section().slots[i];
    manifest.resolved.set(slot.key,
                          uses[i] == &manifest.aggregator ? read_aggregator(manifest, slot)
                          : uses[i] == &manifest.model    ? read_model(manifest, slot)
                                                          : read_slot(slot, "", root_, *uses[i]));
  }
  // The cluster is not part of the resolved manifest, because the number of processes does not
  // change the result, and a resumed run may use another cluster.
  const Slot& cluster = root_section().slots.back();
  if (root_.find(cluster.key) != nullptr) read_slot(cluster, "", root_, manifest.cluster);
}

void ManifestReader::read_report(Manifest& manifest, const Params& params) {
  if (!params.has("report")) return;
  const Params report = params.object("report");
  if (report.has("train_accuracy")) read_accuracy_report(manifest, report.object("train_accuracy"));
  if (report.has("class_counts")) {
    const Params counts = report.object("class_counts");
    manifest.class_count_noise =
        read_noise(counts, root_.find("report")->mark, "report.class_counts");
    if (counts.has("largest_weight")) manifest.largest_class_weight = counts.real("largest_weight");
  }
}

void ManifestReader::read_accuracy_report(Manifest& manifest, const Params& given) {
  const Mark mark = root_.find("report")->mark;
  const auto noise = read_noise(given, mark, "report.train_accuracy");
  if (!noise) return;
  AccuracyReport wish{.noise = *noise};
  if (given.has("every")) wish.every = static_cast<std::uint64_t>(given.integer("every"));
  if (given.has("patience")) wish.patience = static_cast<std::uint64_t>(given.integer("patience"));
  if (wish.patience > 0 && wish.every == 0) {
    problems_.add(mark, "report.train_accuracy.patience",
                  "counts releases between the steps, but there are none; give every");
    return;
  }
  manifest.report_accuracy = wish;
}

std::optional<StatisticNoise> ManifestReader::read_noise(const Params& given, Mark mark,
                                                         std::string_view where) {
  const bool has_share = given.has("share"), has_noise = given.has("noise_multiplier");
  if (has_share == has_noise) {
    problems_.add(mark, where,
                  std::string("takes share or noise_multiplier, ") +
                      (has_share ? "both are given" : "neither is given"));
    return std::nullopt;
  }
  StatisticNoise noise;
  (has_share ? noise.share : noise.multiplier) =
      given.real(has_share ? "share" : "noise_multiplier");
  return noise;
}

Value ManifestReader::with_steps(const Value& root, Manifest& manifest) {
  const Value* steps = root.find("steps");
  const auto* text = steps == nullptr ? nullptr : std::get_if<std::string>(&steps->data());
  if (text == nullptr || *text != "auto") return root;
  Value changed = root;
  const auto with = [&](std::uint64_t count) {
    changed.set("steps", marked(static_cast<std::int64_t>(count), steps));
    return changed;
  };
  const Value* utility = root.find("utility");
  if (utility == nullptr) return root;  // the aggregator's theorem chooses the number
  manifest.steps_minimise_bound = true;
  std::vector<Problem> found;
  const auto spec = std::ranges::find_if(
      root_section().params, [](const ParamSpec& one) { return one.name == "utility"; });
  const Params facts = Params::check(spec->fields, *utility, found);
  if (!found.empty()) return with(1);  // reported with the manifest's other keys
  const BestSteps best = best_steps(
      Descent{.kappa = facts.real("kappa"), .alpha = facts.real("alpha")},
      divides_noise_by_influence() ? BudgetSplit::dynamic : BudgetSplit::uniform, kMostSteps);
  if (best.bound >= 1.0) {
    problems_.add(steps->mark, "steps",
                  "is auto, but for the constants of utility no number of steps guarantees "
                  "progress: the least bound is " +
                      format_number(best.bound) + ", at " + std::to_string(best.steps) +
                      " step(s); give a number");
  }
  return with(best.steps);
}

bool ManifestReader::divides_noise_by_influence() const {
  const Value* schedules = root_.find("schedules");
  const Value* noise = schedules == nullptr ? nullptr : schedules->find("noise_multiplier");
  const Value* kind = noise == nullptr ? nullptr : noise->find("kind");
  const Value* name = kind == nullptr ? noise : kind;
  const auto* text = name == nullptr ? nullptr : std::get_if<std::string>(&name->data());
  if (text == nullptr) return false;
  try {
    const Component& component = catalog_.find<Schedule>(*text);
    const std::vector<ParamSpec>& specs = component.factory.info.params;
    std::vector<Problem> found;
    Value params =
        Params::check(specs, kind == nullptr ? Value{Value::Object{}} : *noise, found, {"kind"})
            .value();
    ManifestProblems missing_files("");
    resolve_paths(specs, params, "schedules.noise_multiplier", folders_, missing_files);
    if (!found.empty() || !missing_files.empty()) return false;
    const auto schedule = Catalog::create<Schedule>(component, Params::check(specs, params, found));
    return schedule->influence().has_value();
  } catch (const Error&) {
    return false;  // reported where the schedule is read
  }
}

std::uint64_t ManifestReader::steps_or_rounds(std::uint64_t steps) const {
  const Value* federated = root_.find("federated");
  const Value* rounds = federated == nullptr ? nullptr : federated->find("rounds");
  const auto* number = rounds == nullptr ? nullptr : std::get_if<std::int64_t>(&rounds->data());
  return number == nullptr || *number < 1 ? steps : static_cast<std::uint64_t>(*number);
}

void ManifestReader::read_data(Manifest& manifest) {
  const Section& section = data_section();
  const Slot& slot = root_section().slots.front();
  const Value* given = root_.find("data");
  const Value nothing = empty_object(root_.mark);
  const bool is_object = given != nullptr && std::holds_alternative<Value::Object>(given->data());
  const Value& node = is_object ? *given : nothing;
  Value resolved = read_slot(slot, "", root_, manifest.data, section_names(section));
  Value numbers = node;
  const Value* size = node.find("size");
  const bool is_released = size != nullptr && std::holds_alternative<Value::Object>(size->data());
  if (is_released) {
    numbers = without(numbers, "size");
    resolved.set("size", read_private_size(manifest, *size));
  }
  const Params params = own_params(section, numbers);
  if (params.has("size")) {
    manifest.dataset_size = static_cast<std::uint64_t>(params.integer("size"));
  }
  manifest.test_is_public = params.boolean("test_is_public");
  if (params.has("read_off_rows")) manifest.read_off_rows = params.texts("read_off_rows");
  if (params.has("streaming") && params.boolean("streaming")) manifest.streaming.emplace();
  if (params.has("sample")) read_sample(manifest, params.object("sample"));
  Value list = read_list(section.slots.front(), "data", node, manifest.transforms);
  resolved.set("transforms", std::move(list));
  keep(resolved, section.params, params.value());
  manifest.resolved.set("data", std::move(resolved));
}

void ManifestReader::read_sample(Manifest& manifest, const Params& params) {
  DataSample& sample = manifest.sample.emplace();
  sample.rows = static_cast<std::uint64_t>(params.integer("rows"));
  if (params.has("seed")) sample.seed = static_cast<std::uint64_t>(params.integer("seed"));
  const Mark mark = root_.find("data")->find("sample")->mark;
  if (manifest.streaming)
    problems_.add(mark, "data.sample",
                  "copies rows, which data.streaming avoids; use one of the two");
  if (!sample.seed && !manifest.seed && manifest.mode == Mode::release)
    problems_.add(mark, "data.sample",
                  "has no seed, and a run in release mode has no seed; give data.sample.seed");
}

Value ManifestReader::read_private_size(Manifest& manifest, const Value& given) {
  constexpr std::string_view kWhere = "data.size";
  const std::vector<ParamSpec>& fields = private_size_spec().fields;
  std::vector<Problem> found;
  const Params params = Params::check(fields, given, found);
  for (const Problem& problem : found)
    problems_.add(problem.mark, dotted(std::string(kWhere), problem.where), problem.what);
  if (!found.empty()) return given;
  manifest.dataset_size = static_cast<std::uint64_t>(params.integer("about"));
  manifest.size_noise = read_noise(params, given.mark, kWhere);
  Value resolved = empty_object(given.mark);
  keep(resolved, fields, params.value());
  return resolved;
}

/// Refuses a released size unless the adjacency is add/remove: otherwise the number of rows is
/// public, and noise would waste budget.
void ManifestReader::check_private_size(Adjacency adjacency) {
  if (adjacency == Adjacency::add_or_remove_one) return;
  problems_.add(root_.find("data")->find("size")->mark, "data.size",
                "is declared as a private statistic, but under " + std::string(to_text(adjacency)) +
                    " the number of training examples is public; give it as a number, or leave it "
                    "out");
}

Value ManifestReader::read_aggregator(Manifest& manifest, const Slot& slot) {
  const Section& section = aggregator_section();
  const Value* given = root_.find(slot.key);
  const bool is_object = given != nullptr && std::holds_alternative<Value::Object>(given->data());
  Value resolved = read_slot(slot, "", root_, manifest.aggregator, section_names(section));
  const Params params = own_params(section, is_object ? *given : empty_object(root_.mark));
  if (params.text("arithmetic") == to_text(Arithmetic::floating))
    manifest.arithmetic = Arithmetic::floating;
  keep(resolved, section.params, params.value());
  return resolved;
}

void ManifestReader::check_release(const Manifest& manifest) {
  if (manifest.mode != Mode::release) return;
  if (manifest.seed) {
    problems_.add(root_.find("seed")->mark, "seed",
                  "is refused in release mode: anyone who knows the seed can subtract the noise",
                  Fault::privacy);
  }
  if (manifest.gradient_norm) {
    problems_.add(root_.find("gradient_norm")->mark, "gradient_norm",
                  "is refused in release mode: it is measured on private rows, without noise",
                  Fault::privacy);
  }
  if (!manifest.read_off_rows.empty()) {
    problems_.add(
        root_.find("data")->find("read_off_rows")->mark, "data.read_off_rows",
        "is refused in release mode: ranges, values, fills and labels that were read from rows "
        "reveal the rows; replace them by facts that you know without the rows, and remove the key",
        Fault::privacy);
  }
  if (manifest.noise_off) {
    problems_.add(root_.find("privacy")->find("noise")->mark, "privacy.noise",
                  "is off, which release mode refuses: nothing would be private", Fault::privacy);
  }
}

void ManifestReader::finish(Manifest& manifest) {
  manifest.positions.emplace("", problems_.position({}));
  add_positions(manifest.resolved, "", manifest.positions);
}

void ManifestReader::add_positions(
    const Value& node, const std::string& path,
    std::map<std::string, std::string, std::less<>>& positions) const {
  if (node.mark.line != 0 && !path.empty()) positions.emplace(path, problems_.position(node.mark));
  if (const auto* members = std::get_if<Value::Object>(&node.data())) {
    for (const Value::Member& member : *members) {
      add_positions(member.value, dotted(path, member.key), positions);
    }
  } else if (const auto* items = std::get_if<Value::List>(&node.data())) {
    for (std::size_t i = 0; i < items->size(); ++i) {
      add_positions((*items)[i], dotted(path, std::to_string(i)), positions);
    }
  }
}

}  // namespace privgrad::core
