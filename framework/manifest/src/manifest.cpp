#include "privgrad/manifest/manifest.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "manifest_keys.hpp"
#include "manifest_overrides.hpp"
#include "manifest_paths.hpp"
#include "privgrad/manifest/manifest_names.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/utility_bound.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/trust/certified_accountant.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

std::string dotted(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : std::string(section) + "." + std::string(key);
}

/// Checks the manifest against its own keys and the components' declarations.
class Loader {
 public:
  Loader(const Value& root, const fs::path& file, const Catalog& catalog,
         ManifestProblems& problems)
      : root_(root),
        file_(file),
        folders_(data_folders(file)),
        catalog_(catalog),
        problems_(problems) {}

  Manifest load() {
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
    read_federated(manifest);
    check_unknown(root_section(), root_, {"data", "schedules", "privacy", "federated"});
    check_release(manifest);
    finish(manifest);
    return manifest;
  }

 private:
  /// A manifest of another version has other keys: nothing else can be said about it.
  bool check_version() {
    const Value* version = root_.find("privgrad");
    if (version == nullptr) return true;  // reported with the other missing keys
    const auto* number = std::get_if<std::int64_t>(&version->data());
    if (number == nullptr || *number == 1) return true;
    problems_.add(version->mark, "privgrad",
                  "is " + std::to_string(*number) +
                      ", a version of manifests that this program does not know; it reads 1");
    return false;
  }

  void read_root(Manifest& manifest) {
    const Params params = own_params(root_section(), with_steps(root_));
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
    } else if (const std::uint64_t count = steps_or_rounds(manifest); count > 0) {
      manifest.evaluate_every = std::max<std::uint64_t>(1, count / 20);
    }
    keep(manifest.resolved, params, {"privgrad"});
    manifest.resolved.set("name", marked(manifest.name, root_.find("name")));
    keep(manifest.resolved, params, {"mode", "seed", "steps", "utility"});
    if (manifest.evaluate_every > 0) {
      manifest.resolved.set(
          "evaluate_every",
          marked(static_cast<std::int64_t>(manifest.evaluate_every), root_.find("evaluate_every")));
    }
    manifest.gradient_norm = params.has("gradient_norm") && params.boolean("gradient_norm");
    keep(manifest.resolved, params, {"gradient_norm"});
    if (params.has("microbatch_size"))
      manifest.microbatch_size = static_cast<std::size_t>(params.integer("microbatch_size"));
    keep(manifest.resolved, params, {"microbatch_size"});
    manifest.random_iterate = params.text("output") == "random_iterate";
    keep(manifest.resolved, params, {"output"});
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
      manifest.resolved.set(slot.key, read_slot(slot, "", root_, *uses[i]));
    }
  }

  /// The manifest with a number for steps: auto where `utility` says enough, the one with the least
  /// utility bound: that of dynamic noise if the schedule is that one, else of uniform noise. Known
  /// before any data is.
  Value with_steps(const Value& root) {
    const Value* steps = root.find("steps");
    const auto* text = steps == nullptr ? nullptr : std::get_if<std::string>(&steps->data());
    if (text == nullptr || *text != "auto") return root;
    Value changed = root;
    const auto with = [&](std::uint64_t count) {
      changed.set("steps", marked(static_cast<std::int64_t>(count), steps));
      return changed;
    };
    const Value* utility = root.find("utility");
    if (utility == nullptr) return root;  // a theorem of the aggregator's, then
    std::vector<Problem> found;
    const auto spec = std::find_if(root_section().params.begin(), root_section().params.end(),
                                   [](const ParamSpec& one) { return one.name == "utility"; });
    const Params facts = Params::check(spec->fields, *utility, found);
    if (!found.empty()) return with(1);  // reported with the manifest's other keys
    const BestSteps best =
        best_steps(Descent{.kappa = facts.real("kappa"), .alpha = facts.real("alpha")},
                   has_dynamic_noise() ? BudgetSplit::dynamic : BudgetSplit::uniform);
    if (best.bound >= 1.0) {
      problems_.add(steps->mark, "steps",
                    "is auto, but by utility no number of steps promises any progress: the least "
                    "bound is " +
                        format_number(best.bound) + ", at " + std::to_string(best.steps) +
                        " step(s); give a number");
    }
    return with(best.steps);
  }

  bool has_dynamic_noise() const {
    const Value* schedules = root_.find("schedules");
    const Value* noise = schedules == nullptr ? nullptr : schedules->find("noise_multiplier");
    const Value* kind = noise == nullptr ? nullptr : noise->find("kind");
    const Value* name = kind == nullptr ? noise : kind;
    const auto* text = name == nullptr ? nullptr : std::get_if<std::string>(&name->data());
    return text != nullptr && (*text == "dynamic" || text->ends_with(":dynamic"));
  }

  /// What the progress line counts.
  std::uint64_t steps_or_rounds(const Manifest& manifest) const {
    const Value* federated = root_.find("federated");
    const Value* rounds = federated == nullptr ? nullptr : federated->find("rounds");
    const auto* number = rounds == nullptr ? nullptr : std::get_if<std::int64_t>(&rounds->data());
    return number == nullptr || *number < 1 ? manifest.steps : static_cast<std::uint64_t>(*number);
  }

  void read_data(Manifest& manifest) {
    const Section& section = data_section();
    const Slot& slot = root_section().slots.front();
    const Value* given = root_.find("data");
    const Value nothing = empty_object(root_.mark);
    const bool is_object = given != nullptr && std::holds_alternative<Value::Object>(given->data());
    const Value& node = is_object ? *given : nothing;
    Value resolved = read_slot(slot, "", root_, manifest.data, section_names(section));
    const Params params = own_params(section, node);
    if (params.has("size")) {
      manifest.dataset_size = static_cast<std::uint64_t>(params.integer("size"));
    }
    manifest.test_is_public = params.boolean("test_is_public");
    Value list = read_list(section.slots.front(), "data", node, manifest.transforms);
    resolved.set("transforms", std::move(list));
    keep(resolved, params, {"size", "test_is_public"});
    manifest.resolved.set("data", std::move(resolved));
  }

  void read_schedules(Manifest& manifest) {
    const Section& section = schedules_section();
    const Value node = section_node(section);
    check_unknown(section, node, {});
    Value resolved = empty_object(node.mark);
    ComponentUse* uses[] = {&manifest.noise_multiplier, &manifest.clip_norm,
                            &manifest.learning_rate, &manifest.noise_std, &manifest.batch_size};
    const Value* std_given = node.find("noise_std");
    if (std_given != nullptr && node.find("noise_multiplier") != nullptr) {
      problems_.add(std_given->mark, "schedules.noise_std",
                    "is given beside noise_multiplier; give one of the two");
    }
    for (std::size_t i = 0; i < std::size(uses); ++i) {
      Slot slot = section.slots[i];
      const bool is_given = node.find(slot.key) != nullptr;
      if (slot.key == "noise_multiplier" && !is_given) {
        if (std_given != nullptr) continue;
        slot = with_default_noise(slot);
      } else if (!slot.required && !is_given) {
        continue;
      }
      if (slot.takes_auto && is_given && is_word(*node.find(slot.key), "auto")) {
        const Value* given = node.find(slot.key);
        uses[i]->where = dotted(section.key, slot.key);
        uses[i]->position = problems_.position(given->mark);
        manifest.auto_learning_rate = true;  // the only slot that takes it
        resolved.set(slot.key, *given);
        continue;
      }
      resolved.set(slot.key, read_slot(slot, section.key, node, *uses[i]));
    }
    manifest.resolved.set(section.key, std::move(resolved));
  }

  static bool is_word(const Value& value, std::string_view word) {
    const auto* text = std::get_if<std::string>(&value.data());
    return text != nullptr && *text == word;
  }

  /// Without a target there is nothing that a default could be scaled to.
  Slot with_default_noise(Slot slot) {
    if (is_given("privacy", "target_epsilon") || is_off()) {
      slot.default_name = "uniform";
    } else {
      slot.doc = "give it, or privacy.target_epsilon";
    }
    return slot;
  }

  void read_privacy(Manifest& manifest) {
    const Section& section = privacy_section();
    const Value node = section_node(section);
    check_unknown(section, node, {});
    const Params params = own_params(section, node);
    if (params.has("target_epsilon")) manifest.target_epsilon = params.real("target_epsilon");
    manifest.target_delta = params.real("target_delta");
    manifest.adjacency = adjacency_from_text(params.text("adjacency"));
    manifest.noise_off = params.text("noise") == "off";
    manifest.scale_all_noise = params.text("calibrate") == "all";
    Value resolved = empty_object(node.mark);
    keep(resolved, params, {"target_epsilon", "target_delta", "adjacency", "noise", "calibrate"});
    resolved.set("accountant", read_slot(section.slots[0], section.key, node, manifest.accountant));
    resolved.set("also", read_list(section.slots[1], section.key, node, manifest.also));
    manifest.resolved.set(section.key, std::move(resolved));
  }

  void read_federated(Manifest& manifest) {
    const Section& section = federated_section();
    if (root_.find(section.key) == nullptr) return;
    const Value node = section_node(section);
    check_unknown(section, node, {});
    const Params params = own_params(section, node);
    if (manifest.steps == 0) {
      const Value* steps = root_.find("steps");
      problems_.add(steps == nullptr ? root_.mark : steps->mark, "steps",
                    "is auto, and no theorem is for federated runs; give the most local steps of a "
                    "client");
    }
    Federated& federated = manifest.federated.emplace();
    federated.clients = static_cast<std::uint64_t>(params.integer("clients"));
    federated.rounds = static_cast<std::uint64_t>(params.integer("rounds"));
    if (params.text("aggregation") == "dp_fed_avg") federated.aggregation = Aggregation::dp_fed_avg;
    federated.equal_weights = params.text("weights") == "equal";
    federated.client_drop_rate = params.real("client_drop_rate");
    federated.straggler_rate = params.real("straggler_rate");
    federated.shards_are_given = params.text("shards") == "given";
    federated.label_histograms = params.text("label_histograms") == "shown";
    read_sizes(federated, params, node);
    for (const EstimateMode mode : {EstimateMode::from_models, EstimateMode::unaccounted}) {
      if (params.text("estimates") == to_text(mode)) federated.estimates = mode;
    }
    federated.estimate_share = params.real("estimate_share");
    if (params.has("estimate_noise")) federated.estimate_noise = params.real("estimate_noise");
    federated.estimate_bound = params.real("estimate_bound");
    federated.server_learning_rate = params.real("server_learning_rate");
    if (params.has("client_clip_norm"))
      federated.client_clip_norm = params.real("client_clip_norm");
    const bool at_server = federated.aggregation == Aggregation::dp_fed_avg;
    Value resolved = empty_object(node.mark);
    keep(resolved, params,
         {"clients", "rounds", "aggregation", "client_drop_rate", "straggler_rate", "shards",
          "sizes", "label_histograms"});
    keep_federated_of_one_kind(resolved, params, node, at_server);
    ComponentUse* uses[] = {&federated.partition, &federated.participation,
                            &federated.local_iterations, &federated.client_clipping,
                            &federated.server_optimizer};
    for (std::size_t i = 0; i < std::size(uses); ++i) {
      if (i >= 3 && !at_server) break;
      const Slot& slot = section.slots[i];
      resolved.set(slot.key, read_slot(slot, section.key, node, *uses[i]));
    }
    manifest.resolved.set(section.key, std::move(resolved));
    if (at_server) {
      // Clients make no noise, so how `aggregator` would arrange it is not theirs.
      read_slot(client_aggregator_slot(), section.key, empty_object(node.mark),
                federated.client_aggregator);
    }
    if (!manifest.random_iterate) return;
    problems_.add(root_.find("output")->mark, "output",
                  "is random_iterate, which federated runs do not have; use last");
  }

  void read_sizes(Federated& federated, const Params& params, const Value& node) {
    if (!params.has("sizes")) return;
    for (const std::int64_t size : params.integers("sizes"))
      federated.sizes.push_back(static_cast<std::uint64_t>(size));
    if (federated.sizes.size() == federated.clients) return;
    problems_.add(node.find("sizes")->mark, "federated.sizes",
                  "has " + std::to_string(federated.sizes.size()) + " numbers for " +
                      std::to_string(federated.clients) + " clients");
  }

  /// Keys that only one kind of aggregation knows.
  void keep_federated_of_one_kind(Value& resolved, const Params& params, const Value& node,
                                  bool at_server) {
    const std::string_view of_clients[] = {"weights", "estimates", "estimate_share",
                                           "estimate_noise", "estimate_bound"};
    const std::string_view of_server[] = {"client_clip_norm", "server_learning_rate",
                                          "client_clipping", "server_optimizer"};
    const auto refuse = [&](std::string_view key, const char* which) {
      const Value* given = node.find(key);
      if (given == nullptr) return;
      problems_.add(given->mark, dotted("federated", key),
                    "is given, but only aggregation " + std::string(which) + " uses it");
    };
    if (at_server) {
      for (const std::string_view key : of_clients) refuse(key, "fed_avg");
      keep(resolved, params, {"client_clip_norm", "server_learning_rate"});
      if (!params.has("client_clip_norm")) {
        problems_.add(node.mark, "federated.client_clip_norm",
                      "is missing; aggregation dp_fed_avg clips each client's change to it");
      }
    } else {
      for (const std::string_view key : of_server) refuse(key, "dp_fed_avg");
      keep(resolved, params, {"weights", "estimates", "estimate_bound"});
      const bool by_noise = params.has("estimate_noise");
      keep(resolved, params, {by_noise ? "estimate_noise" : "estimate_share"});
      const Value* share = node.find("estimate_share");
      if (by_noise && share != nullptr) {
        problems_.add(share->mark, "federated.estimate_share",
                      "is given beside estimate_noise; give one of the two");
      }
    }
  }

  /// What a release must not have, as far as the manifest alone shows it.
  void check_release(const Manifest& manifest) {
    if (manifest.mode != Mode::release) return;
    if (manifest.seed) {
      problems_.add(root_.find("seed")->mark, "seed",
                    "is refused in release mode: who knows the seed can subtract the noise",
                    Fault::privacy);
    }
    if (manifest.gradient_norm) {
      problems_.add(root_.find("gradient_norm")->mark, "gradient_norm",
                    "is refused in release mode: it is measured on private rows, without noise",
                    Fault::privacy);
    }
    if (manifest.noise_off) {
      problems_.add(root_.find("privacy")->find("noise")->mark, "privacy.noise",
                    "is off, which release mode refuses: nothing would be private", Fault::privacy);
    }
  }

  void finish(Manifest& manifest) {
    manifest.positions.emplace("", problems_.position({}));
    add_positions(manifest.resolved, "", manifest.positions);
  }

  // ---- components

  Value read_slot(const Slot& slot, std::string_view section, const Value& parent,
                  ComponentUse& use, const std::vector<std::string_view>& reserved = {}) {
    const std::string where = dotted(section, slot.key);
    const Value* given = parent.find(slot.key);
    if (given != nullptr) return read_component(slot, where, *given, use, reserved);
    if (!slot.default_name.empty()) {
      // What is wrong with it is shown at the section that lacks it.
      Value left_out{std::string(slot.default_name)};
      if (!section.empty()) left_out.mark = parent.mark;
      return read_component(slot, where, left_out, use, reserved);
    }
    problems_.add(parent.mark, where, "is missing; " + std::string(slot.doc));
    return {};
  }

  Value read_list(const Slot& slot, std::string_view section, const Value& parent,
                  std::vector<ComponentUse>& uses) {
    const std::string where = dotted(section, slot.key);
    Value::List resolved;
    const Value* given = parent.find(slot.key);
    if (given == nullptr) return resolved;
    const auto* items = std::get_if<Value::List>(&given->data());
    if (items == nullptr) {
      problems_.add(given->mark, where,
                    "is " + std::string(given->type_name()) + ", expected a list of components");
      return resolved;
    }
    for (std::size_t i = 0; i < items->size(); ++i) {
      resolved.push_back(read_component(slot, where + "." + std::to_string(i), (*items)[i],
                                        uses.emplace_back(), {}));
    }
    return marked(std::move(resolved), given);
  }

  /// \returns the component's node with its full name and all parameters.
  Value read_component(const Slot& slot, const std::string& where, const Value& given,
                       ComponentUse& use, const std::vector<std::string_view>& reserved) {
    use.where = where;
    use.position = problems_.position(given.mark);
    const std::optional<Value> node = as_object(slot, where, given);
    if (!node) return {};
    use.component = find(slot, where, *node);
    if (use.component == nullptr) return {};
    try {
      use.certifier = certifier_of(*use.component, catalog_);
    } catch (const ConfigError& problem) {
      problems_.add(given.mark, where, problem.what());
    }
    use.params = check_params(*use.component, where, *node, reserved);
    Value resolved = empty_object(given.mark);
    resolved.set("kind", marked(use.component->full_name(), node->find("kind")));
    for (const Value::Member& member : std::get<Value::Object>(use.params.value().data())) {
      resolved.set(member.key, member.value);
    }
    return resolved;
  }

  /// Writes out what is short: NAME is {kind: NAME}; a number x is {kind: constant, value: x}.
  std::optional<Value> as_object(const Slot& slot, const std::string& where, const Value& given) {
    if (std::holds_alternative<Value::Object>(given.data())) return given;
    Value node = empty_object(given.mark);
    if (std::holds_alternative<std::string>(given.data())) {
      node.set("kind", given);
      return node;
    }
    const bool is_number = std::holds_alternative<std::int64_t>(given.data()) ||
                           std::holds_alternative<double>(given.data());
    if (slot.takes_number && is_number) {
      node.set("kind", marked("constant", &given));
      node.set("value", given);
      return node;
    }
    problems_.add(given.mark, where,
                  "is " + std::string(given.type_name()) + ", expected " +
                      (slot.takes_number ? "a number, " : "") + "the name of " + article(slot) +
                      " or {kind: NAME, ...}");
    return std::nullopt;
  }

  const Component* find(const Slot& slot, const std::string& where, const Value& node) {
    const Value* kind = node.find("kind");
    if (kind == nullptr) {
      problems_.add(node.mark, where + ".kind",
                    "is missing; it is the name of " + article(slot) + known_names(slot));
      return nullptr;
    }
    const auto* name = std::get_if<std::string>(&kind->data());
    if (name == nullptr) {
      problems_.add(kind->mark, where + ".kind",
                    "is " + std::string(kind->type_name()) + ", expected the name of " +
                        article(slot) + known_names(slot));
      return nullptr;
    }
    try {
      return &catalog_.find(slot.kind, slot.interface_version, *name);
    } catch (const ConfigError& problem) {
      problems_.add(kind->mark, where, problem.what());
    } catch (const PluginError& problem) {
      throw PluginError(problems_.position(kind->mark) + ": error: " + where + ": " +
                        problem.what());
    }
    return nullptr;
  }

  Params check_params(const Component& component, const std::string& where, const Value& node,
                      const std::vector<std::string_view>& reserved) {
    const std::vector<ParamSpec>& specs = component.factory.info.params;
    for (const ParamSpec& spec : specs) {
      if (spec.name == "kind" ||
          std::find(reserved.begin(), reserved.end(), spec.name) != reserved.end()) {
        throw PluginError(component.full_name() + ": declares the parameter '" + spec.name +
                          "', a name that manifests keep for themselves here");
      }
    }
    std::vector<std::string_view> ignored = reserved;
    ignored.push_back("kind");
    std::vector<Problem> found;
    Value completed = Params::check(specs, node, found, ignored).value();
    for (const Problem& problem : found) {
      problems_.add(problem.mark, dotted(where, problem.where),
                    with_own_name(problem, specs, reserved));
    }
    resolve_paths(specs, completed, where, folders_, problems_);
    std::vector<Problem> already_reported;
    return Params::check(specs, completed, already_reported);
  }

  /// Someone else's name for something that is set elsewhere is likelier than a typing error, and
  /// a component knows only its own parameters, not the keys that the manifest reads beside them.
  static std::string with_own_name(const Problem& problem, const std::vector<ParamSpec>& specs,
                                   const std::vector<std::string_view>& reserved) {
    if (!problem.what.starts_with("is unknown")) return problem.what;
    const std::string hint = unknown_hint(problem.where, "");
    if (!hint.empty()) return "is unknown" + hint;
    if (problem.where.find('.') != std::string::npos) return problem.what;  // of a nested object
    std::vector<std::string> names{"kind"};
    for (const ParamSpec& spec : specs) names.push_back(spec.name);
    for (const std::string_view name : reserved) names.emplace_back(name);
    const std::string nearest = nearest_name(problem.where, names);
    return nearest.empty() ? problem.what : "is unknown; did you mean '" + nearest + "'?";
  }

  static std::string article(const Slot& slot) {
    std::string kind(slot.kind);
    std::replace(kind.begin(), kind.end(), '_', ' ');
    const bool vowel = std::string_view("aeiou").find(kind.front()) != std::string_view::npos;
    return (vowel ? "an " : "a ") + kind;
  }

  std::string known_names(const Slot& slot) const {
    std::vector<std::string> names;
    for (const Component& component : catalog_.components()) {
      if (component.factory.kind == slot.kind) names.push_back(component.factory.info.name);
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? ": " : ", ") + name;
    return text;
  }

  // ---- the manifest's own keys

  /// The object of a section, or an empty one after reporting what stands there instead.
  Value section_node(const Section& section) {
    const Value* given = root_.find(section.key);
    if (given == nullptr) {
      // Its required keys are each reported as missing, at the manifest's beginning.
      return empty_object(root_.mark);
    }
    if (std::holds_alternative<Value::Object>(given->data())) return *given;
    problems_.add(given->mark, section.key,
                  "is " + std::string(given->type_name()) + ", expected an object");
    return empty_object(given->mark);
  }

  /// Checks the parameters of a section, leaving components and unknown keys alone. Where something
  /// is wrong,
  /// \returns legal stand-ins, so that reading can go on to find more.
  Params own_params(const Section& section, const Value& node) {
    const auto& members = std::get<Value::Object>(node.data());
    Value::Object own;
    for (const Value::Member& member : members) {
      const auto is_own = [&](const ParamSpec& spec) { return spec.name == member.key; };
      if (std::any_of(section.params.begin(), section.params.end(), is_own)) own.push_back(member);
    }
    Value given(std::move(own));
    given.mark = node.mark;
    std::vector<Problem> found;
    const Params params = Params::check(section.params, given, found);
    if (found.empty()) return params;
    for (const Problem& problem : found) {
      problems_.add(problem.mark, dotted(section.key, problem.where), problem.what);
    }
    return Params::make("stand-ins", section.params, stand_ins(section, given, found));
  }

  static Value stand_ins(const Section& section, Value given, const std::vector<Problem>& found) {
    for (const Problem& problem : found) {
      const std::string key = problem.where.substr(0, problem.where.find('.'));
      std::erase_if(std::get<Value::Object>(given.data()),
                    [&](const Value::Member& member) { return member.key == key; });
    }
    for (const ParamSpec& spec : section.params) {
      if (!spec.required || given.find(spec.name) != nullptr) continue;
      if (spec.type == ParamType::text) given.set(spec.name, spec.choices.front());
      if (spec.type == ParamType::integer) given.set(spec.name, 1);
      if (spec.type == ParamType::real) given.set(spec.name, 0.5);
    }
    return given;
  }

  void check_unknown(const Section& section, const Value& node,
                     std::initializer_list<std::string_view> more) {
    std::vector<std::string> known(more.begin(), more.end());
    for (const std::string_view name : section_names(section)) known.emplace_back(name);
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    std::string all;
    for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
    for (const Value::Member& member : std::get<Value::Object>(node.data())) {
      if (std::binary_search(known.begin(), known.end(), member.key)) continue;
      std::string hint = unknown_hint(member.key, section.key);
      if (hint.empty()) {
        const std::string nearest = nearest_name(member.key, known);
        hint = nearest.empty() ? "; there are " + all : "; did you mean '" + nearest + "'?";
      }
      problems_.add(member.key_mark, dotted(section.key, member.key), "is unknown" + hint);
    }
  }

  static std::string unknown_hint(std::string_view key, std::string_view section) {
    const std::string_view advice = advice_for(key);
    if (!advice.empty()) return "; " + std::string(advice);
    const std::string_view own = own_name_for(key, section);
    return own.empty() ? "" : "; here it is called " + std::string(own);
  }

  static std::vector<std::string_view> section_names(const Section& section) {
    std::vector<std::string_view> names;
    for (const ParamSpec& spec : section.params) names.push_back(spec.name);
    for (const Slot& slot : section.slots) names.push_back(slot.key);
    return names;
  }

  bool is_given(std::string_view section, std::string_view key) const {
    const Value* node = root_.find(section);
    return node != nullptr && node->find(key) != nullptr;
  }

  bool is_off() const {
    const Value* node = root_.find("privacy");
    const Value* noise = node == nullptr ? nullptr : node->find("noise");
    const auto* text = noise == nullptr ? nullptr : std::get_if<std::string>(&noise->data());
    return text != nullptr && *text == "off";
  }

  // ---- the resolved manifest

  static Value empty_object(Mark mark) {
    Value node{Value::Object{}};
    node.mark = mark;
    return node;
  }

  /// `value` with the place of `given`, if it was given.
  static Value marked(Value value, const Value* given) {
    if (given != nullptr) value.mark = given->mark;
    return value;
  }

  static void keep(Value& resolved, const Params& params,
                   std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      if (const Value* value = params.value().find(name)) resolved.set(name, *value);
    }
  }

  void add_positions(const Value& node, const std::string& path,
                     std::map<std::string, std::string, std::less<>>& positions) const {
    if (node.mark.line != 0 && !path.empty())
      positions.emplace(path, problems_.position(node.mark));
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

  const Value& root_;
  const fs::path& file_;
  std::vector<fs::path> folders_;
  const Catalog& catalog_;
  ManifestProblems& problems_;
};

Manifest changed_manifest(Value root, const fs::path& file,
                          const std::vector<std::string>& overrides, const Catalog& catalog,
                          const std::vector<ManifestChange>& changes, ManifestProblems& problems) {
  apply_overrides(overrides, root, problems);
  apply_changes(changes, root, problems);
  Manifest manifest = Loader(root, file, catalog, problems).load();
  problems.throw_if_any();
  return manifest;
}

Manifest make_manifest(std::string_view text, const fs::path& file,
                       const std::vector<std::string>& overrides, const Catalog& catalog,
                       const std::vector<ManifestChange>& changes) {
  ManifestProblems problems(one_line(file.string(), 4096));
  std::vector<Problem> found;
  std::optional<Value> root = parse_yaml(text, found);
  problems.add_yaml(found);
  if (!root) problems.throw_if_any();
  return changed_manifest(std::move(*root), file, overrides, catalog, changes, problems);
}

}  // namespace

std::string_view to_text(Aggregation aggregation) {
  return aggregation == Aggregation::fed_avg ? "fed_avg" : "dp_fed_avg";
}

std::string_view to_text(EstimateMode mode) {
  switch (mode) {
    case EstimateMode::private_sums:
      return "private";
    case EstimateMode::from_models:
      return "from_models";
    case EstimateMode::unaccounted:
      return "unaccounted";
  }
  return "?";
}

std::string Manifest::position_of(std::string_view dotted_key) const {
  const auto found = positions.find(dotted_key);
  if (found != positions.end()) return found->second;
  const auto whole = positions.find(std::string_view());
  return whole == positions.end() ? std::string() : whole->second;
}

std::string read_yaml_file(const fs::path& file) {
  std::error_code error;
  if (fs::is_directory(file, error)) throw IoError(file.string() + ": is a directory, not a file");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(file.string() + ": cannot be opened for reading");
  // One byte over the limit is enough to know that it is exceeded, however long the file is.
  std::string text(kMaxYamlBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw IoError(file.string() + ": cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

Manifest load_manifest(const fs::path& file, const std::vector<std::string>& overrides,
                       const Catalog& catalog, const std::vector<ManifestChange>& changes) {
  return make_manifest(read_yaml_file(file), file, overrides, catalog, changes);
}

Manifest parse_manifest(std::string_view text, const fs::path& file,
                        const std::vector<std::string>& overrides, const Catalog& catalog) {
  return make_manifest(text, file, overrides, catalog, {});
}

Manifest check_manifest(Value root, const fs::path& file, const std::vector<std::string>& overrides,
                        const Catalog& catalog, const std::vector<ManifestChange>& changes) {
  ManifestProblems problems(one_line(file.string(), 4096));
  return changed_manifest(std::move(root), file, overrides, catalog, changes, problems);
}

std::vector<const ComponentUse*> components_of(const Manifest& manifest) {
  std::vector<const ComponentUse*> uses{&manifest.data};
  for (const ComponentUse& use : manifest.transforms) uses.push_back(&use);
  for (const ComponentUse* use :
       {&manifest.model, &manifest.backend, &manifest.sampler, &manifest.clipping,
        &manifest.aggregator, &manifest.optimizer, &manifest.noise_multiplier, &manifest.noise_std,
        &manifest.clip_norm, &manifest.learning_rate, &manifest.batch_size, &manifest.accountant}) {
    uses.push_back(use);
  }
  for (const ComponentUse& use : manifest.also) uses.push_back(&use);
  if (manifest.federated) {
    const Federated& federated = *manifest.federated;
    for (const ComponentUse* use :
         {&federated.partition, &federated.participation, &federated.local_iterations,
          &federated.client_clipping, &federated.server_optimizer}) {
      uses.push_back(use);
    }
  }
  // A manifest without noise need not say who would have accounted for it.
  std::erase_if(uses, [](const ComponentUse* use) { return use->component == nullptr; });
  return uses;
}

}  // namespace privgrad::core
