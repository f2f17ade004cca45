#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "manifest_paths.hpp"
#include "manifest_reader.hpp"
#include "manifest_values.hpp"

namespace privgrad::core {
namespace {

/// A key whose members have arbitrary names. Parameter declarations cannot describe these, so the
/// reader handles them itself.
constexpr std::string_view kNames = "map";

/// Returns the model's node without model.weights.map, which own_params() would refuse.
Value without_names(const Value& node) {
  Value changed = node;
  Value* weights = changed.find("weights");
  auto* members = weights == nullptr ? nullptr : std::get_if<Value::Object>(&weights->data());
  if (members != nullptr) *weights = without(*weights, kNames);
  return changed;
}

/// A model accepts class weights as numbers; the manifest also accepts the word `balanced`.
constexpr std::string_view kClassWeights = "class_weights";

}  // namespace

Value ManifestReader::read_model(Manifest& manifest, const Slot& slot) {
  const Section& section = model_section();
  const Value* given = root_.find(slot.key);
  const bool is_object = given != nullptr && std::holds_alternative<Value::Object>(given->data());
  const Value node = is_object ? *given : empty_object(root_.mark);
  const Value* weighs = node.find(kClassWeights);
  const bool weighs_in_words =
      weighs != nullptr && std::holds_alternative<std::string>(weighs->data());
  Value resolved =
      weighs_in_words ? read_component(slot, std::string(section.key), without(node, kClassWeights),
                                       manifest.model, section_names(section))
                      : read_slot(slot, "", root_, manifest.model, section_names(section));
  if (weighs_in_words) resolved.set(std::string(kClassWeights), *weighs);
  check_class_weights(manifest, weighs_in_words ? weighs : nullptr);
  const Params params = own_params(section, without_names(node));
  if (params.has("train")) manifest.train = params.texts("train");
  if (params.has("lora")) {
    const Params wish = params.object("lora");
    const auto rank = static_cast<std::size_t>(wish.integer("rank"));
    manifest.lora = {.rank = rank,
                     .alpha = wish.has("alpha") ? wish.real("alpha") : static_cast<double>(rank),
                     .targets = wish.texts("targets")};
    if (!params.has("weights")) {
      problems_.add(node.find("lora")->mark, "model.lora",
                    "adapts trained weights, which are missing; give them as model.weights");
    }
  }
  Value own = params.value();
  if (params.has("weights")) {
    resolve_paths(section.params, own, std::string(section.key), folders_, problems_);
    Value weights = *own.find("weights");
    if (weights.find("file") == nullptr) {
      const Value* folder = manifest.model.params.value().find("path");
      const auto* path = folder == nullptr ? nullptr : std::get_if<std::string>(&folder->data());
      if (path == nullptr) {
        problems_.add(node.find("weights")->mark, "model.weights.file", "is missing");
        return resolved;
      }
      weights.set("file", *path + "/model.safetensors");
    }
    const Value* file = weights.find("file");
    const Value* declared = weights.find("public");
    WeightsUse use{.file = std::get<std::string>(file->data()),
                   .is_public = std::get<bool>(declared->data()),
                   .names = {}};
    if (const Value* names = node.find("weights")->find(kNames)) {
      read_tensor_names(*names, use);
      weights.set(std::string(kNames), *names);
    }
    manifest.weights = std::move(use);
    own.set("weights", std::move(weights));
  }
  keep(resolved, section.params, own);
  return resolved;
}

/// \param word  the text of model.class_weights; null if it is not a text.
void ManifestReader::check_class_weights(const Manifest& manifest, const Value* word) {
  const std::string where = "model." + std::string(kClassWeights);
  if (word == nullptr) {
    if (!manifest.largest_class_weight) return;
    problems_.add(root_.find("report")->mark, "report.class_counts.largest_weight",
                  "limits the weights of " + where +
                      ": balanced, and the model does not ask for them; add " + where +
                      ": balanced, or leave largest_weight out");
    return;
  }
  const std::string& text = std::get<std::string>(word->data());
  if (text != "balanced") {
    problems_.add(word->mark, where,
                  "is '" + one_line(text, 80) +
                      "', expected a list with one number for each class, or balanced");
  } else if (!manifest.class_count_noise) {
    problems_.add(word->mark, where,
                  "is balanced, which divides by private counts; release them with noise that the "
                  "budget pays for: report: {class_counts: {share: 0.02, largest_weight: 10}}, or "
                  "give a list with one number for each class");
  } else if (!manifest.largest_class_weight) {
    problems_.add(word->mark, "report.class_counts.largest_weight",
                  "is missing; model.class_weights: balanced needs the largest weight that a class "
                  "with a small or negative noised count can get, such as 10");
  }
}

void ManifestReader::read_tensor_names(const Value& given, WeightsUse& use) {
  const std::string where = "model.weights." + std::string(kNames);
  const auto* members = std::get_if<Value::Object>(&given.data());
  if (members == nullptr) {
    problems_.add(given.mark, where,
                  "is " + std::string(given.type_name()) +
                      ", expected an object {NAME IN THE MODEL: NAME IN THE FILE}");
    return;
  }
  for (const Value::Member& member : *members) {
    const Value& value = member.value;
    if (const auto* name = std::get_if<std::string>(&value.data())) {
      use.names[member.key] = TensorSource{.name = *name};
    } else if (std::holds_alternative<std::monostate>(value.data())) {
      use.names[member.key] = std::nullopt;
    } else if (std::holds_alternative<Value::Object>(value.data())) {
      use.names[member.key] = read_source(value, dotted(where, member.key));
    } else {
      problems_.add(value.mark, dotted(where, member.key),
                    "is " + std::string(value.type_name()) +
                        ", expected a tensor's name in the file, {tensor: NAME, transposed: true}, "
                        "or null for a tensor that begins as the model says");
    }
  }
}

TensorSource ManifestReader::read_source(const Value& given, const std::string& where) {
  std::vector<Problem> problems;
  const Params params = Params::check(tensor_source_spec().fields, given, problems);
  for (const Problem& problem : problems)
    problems_.add(problem.mark, dotted(where, problem.where), problem.what);
  TensorSource source;
  if (!problems.empty()) return source;
  source.name = params.text("tensor");
  source.transposed = params.boolean("transposed");
  source.channels_first = params.boolean("channels_first");
  if (params.has("first_row"))
    source.first_row = static_cast<std::size_t>(params.integer("first_row"));
  if (params.has("plus_first_row_of")) source.plus_first_row_of = params.text("plus_first_row_of");
  return source;
}

}  // namespace privgrad::core
