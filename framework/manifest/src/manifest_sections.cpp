#include "manifest_reader.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "manifest_paths.hpp"
#include "manifest_values.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/data_account.hpp"

namespace privgrad::core {
namespace {

bool is_word(const Value& value, std::string_view word) {
  const auto* text = std::get_if<std::string>(&value.data());
  return text != nullptr && *text == word;
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

void ManifestReader::read_schedules(Manifest& manifest) {
  const Section& section = schedules_section();
  const Value node = section_node(section);
  check_unknown(section, node, {});
  Value resolved = empty_object(node.mark);
  ComponentUse* uses[] = {&manifest.noise_multiplier, &manifest.clip_norm, &manifest.learning_rate,
                          &manifest.noise_std, &manifest.batch_size};
  const Value* std_given = node.find("noise_std");
  if (std_given != nullptr && node.find("noise_multiplier") != nullptr) {
    problems_.add(std_given->mark, "schedules.noise_std",
                  "is given together with noise_multiplier; give one of the two");
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
      manifest.auto_learning_rate = true;  // only this slot accepts `auto`
      resolved.set(slot.key, *given);
      continue;
    }
    resolved.set(slot.key, read_slot(slot, section.key, node, *uses[i]));
  }
  manifest.resolved.set(section.key, std::move(resolved));
}

Slot ManifestReader::with_default_noise(Slot slot) {
  if (is_given("privacy", "target_epsilon") || is_off()) {
    slot.default_name = "uniform";
  } else {
    slot.doc = "give it, or privacy.target_epsilon";
  }
  return slot;
}

void ManifestReader::read_privacy(Manifest& manifest) {
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
  keep(resolved, section.params, without(params.value(), "account"));
  resolved.set("accountant", read_slot(section.slots[0], section.key, node, manifest.accountant));
  resolved.set("also", read_list(section.slots[1], section.key, node, manifest.also));
  if (params.has("account")) resolved.set("account", read_account(manifest, section, node));
  manifest.resolved.set(section.key, std::move(resolved));
}

Value ManifestReader::read_account(Manifest& manifest, const Section& section, const Value& node) {
  constexpr const char* kWhere = "privacy.account";
  // the manifest is not run, so nothing is charged
  if (folders_.empty()) return *node.find("account");
  const auto spec = std::ranges::find_if(
      section.params, [](const ParamSpec& one) { return one.name == "account"; });
  Value object = Value(Value::Object{});
  object.set("account", *node.find("account"));
  ManifestProblems with_missing = problems_;  // discarded: the problem below has a better hint
  resolve_paths({*spec}, object, std::string(section.key), folders_, with_missing);
  Value file = *object.find("account");
  const auto& path = std::get<std::string>(file.data());
  if (with_missing.size() != problems_.size()) {
    problems_.add(file.mark, kWhere,
                  "is '" + path +
                      "', but there is no such file; an account is opened by `privgrad account "
                      "--open FILE --accountant zcdp --target-epsilon E --target-delta D`",
                  Fault::missing_file);
    return file;
  }
  try {
    // Follows links now, so that a policy and the run use the same file.
    const std::filesystem::path real = std::filesystem::weakly_canonical(path);
    const DataAccount account(real);
    AccountUse use{
        .file = real, .terms = account.terms(), .opened = account.first_hash(), .filter = {}};
    std::vector<Problem> found;
    Value filter = parse_yaml(use.terms.accountant, found).value_or(Value());
    filter.mark = file.mark;
    if (const Value* kind = filter.find("kind")) {
      Value marked_kind = *kind;
      marked_kind.mark = file.mark;
      filter.set("kind", std::move(marked_kind));
    }
    read_component(section.slots.front(), kWhere, filter, use.filter, {});
    manifest.account = std::move(use);
  } catch (const IoError& problem) {
    problems_.add(file.mark, kWhere, problem.what(), Fault::missing_file);
  }
  return file;
}

void ManifestReader::read_allow(Manifest& manifest) {
  const Section& section = allow_section();
  if (root_.find(section.key) == nullptr) return;
  const Value node = section_node(section);
  check_unknown(section, node, {});
  const Params params = own_params(section, node);
  manifest.allow_large_delta = params.boolean("large_delta");
  if (params.has("plugins")) manifest.allowed_plugins = params.texts("plugins");
  for (std::size_t i = 0; i < manifest.allowed_plugins.size(); ++i) {
    const std::string& given = manifest.allowed_plugins[i];
    if (is_sha256(given)) continue;
    const auto& items = std::get<Value::List>(node.find("plugins")->data());
    problems_.add(items[i].mark, "allow.plugins." + std::to_string(i),
                  "is '" + one_line(given, 80) +
                      "', expected the SHA-256 of a plugin's file: 64 lower-case hexadecimal "
                      "digits, which privgrad plugins list --json shows");
  }
  Value resolved = empty_object(node.mark);
  keep(resolved, section.params, params.value());
  manifest.resolved.set(section.key, std::move(resolved));
}

void ManifestReader::read_checkpoint(Manifest& manifest) {
  const Section& section = checkpoint_section();
  const Value* given = root_.find(section.key);
  if (given == nullptr) return;
  CheckpointWish& wish = manifest.checkpoint;
  wish.is_given = true;
  wish.is_off = is_word(*given, "off");
  if (wish.is_off) {
    manifest.resolved.set(section.key, *given);
    return;
  }
  const bool is_object = std::holds_alternative<Value::Object>(given->data());
  if (!is_object) {
    problems_.add(given->mark, section.key,
                  "is " + std::string(given->type_name()) +
                      ", expected {every_steps: N}, {every_seconds: S} or off");
    return;
  }
  check_unknown(section, *given, {});
  const Params params = own_params(section, *given);
  if (params.has("every_steps") && params.has("every_seconds")) {
    problems_.add(given->find("every_seconds")->mark, "checkpoint.every_seconds",
                  "is given together with every_steps; give one of the two");
  }
  if (params.has("every_steps"))
    wish.every_steps = static_cast<std::uint64_t>(params.integer("every_steps"));
  if (params.has("every_seconds")) wish.every_seconds = params.real("every_seconds");
  Value resolved = empty_object(given->mark);
  keep(resolved, section.params, params.value());
  manifest.resolved.set(section.key, std::move(resolved));
}

bool ManifestReader::is_given(std::string_view section, std::string_view key) const {
  const Value* node = root_.find(section);
  return node != nullptr && node->find(key) != nullptr;
}

bool ManifestReader::is_off() const {
  const Value* node = root_.find("privacy");
  const Value* noise = node == nullptr ? nullptr : node->find("noise");
  const auto* text = noise == nullptr ? nullptr : std::get_if<std::string>(&noise->data());
  return text != nullptr && *text == "off";
}

}  // namespace privgrad::core
