#include "privgrad/statement/declared.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <variant>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/utf8.hpp"

namespace privgrad::core {
namespace {

std::string text_of(const Value& value) {
  std::string text;
  if (const auto* flag = std::get_if<bool>(&value.data())) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value.data())) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value.data())) return format_number(*real);
  if (const auto* words = std::get_if<std::string>(&value.data()))
    return nlohmann::json(*words).dump();
  if (const auto* items = std::get_if<Value::List>(&value.data())) {
    for (const Value& item : *items) text += (text.empty() ? "" : ", ") + text_of(item);
    return '[' + text + ']';
  }
  if (const auto* members = std::get_if<Value::Object>(&value.data())) {
    for (const Value::Member& member : *members)
      text += (text.empty() ? "" : ", ") + member.key + ": " + text_of(member.value);
    return '{' + text + '}';
  }
  return "null";
}

bool names_files(const ParamSpec& spec) {
  return spec.type == ParamType::path || std::ranges::any_of(spec.fields, names_files) ||
         std::ranges::any_of(spec.element, names_files);
}

/// Whether a parameter concerns the release of a statistic, so that it belongs to the plan and is
/// not a fact about the data.
bool is_of_a_release(const ComponentUse& use, const ParamSpec& spec) {
  static const std::vector<ParamSpec> of_releases = private_statistic_params();
  const bool is_statistic = use.params.value().find(of_releases.front().name) != nullptr;
  return is_statistic && std::ranges::any_of(of_releases, [&](const ParamSpec& one) {
           return one.name == spec.name;
         });
}

class Lister {
 public:
  void add(const std::string& key, const Value& value) {
    const auto* items = std::get_if<Value::List>(&value.data());
    const bool is_of_objects = items != nullptr && !items->empty() &&
                               std::holds_alternative<Value::Object>(items->front().data());
    if (!is_of_objects) return all_.push_back({shown_line(key), shown_line(text_of(value))});
    for (std::size_t i = 0; i < items->size(); ++i) add(key + "." + std::to_string(i), (*items)[i]);
  }

  void add_params(const ComponentUse& use) {
    for (const ParamSpec& spec : use.component->factory.info.params) {
      const Value* given = use.params.value().find(spec.name);
      if (given == nullptr || given->is_null()) continue;
      if (names_files(spec) || is_of_a_release(use, spec)) continue;
      if (spec.default_value && text_of(*spec.default_value) == text_of(*given)) continue;
      add(use.where + "." + spec.name, *given);
    }
  }

  std::vector<Declared> take() { return std::move(all_); }

 private:
  std::vector<Declared> all_;
};

}  // namespace

std::vector<Declared> declared_facts(const Plan& plan) {
  std::vector<Declared> all = declared_facts(*plan.manifest);
  Lister files;
  const Setting& setting = *plan.setting;
  if (const auto* reading = std::get_if<Value::Object>(&setting.info.reading.data())) {
    const Value& given = plan.manifest->data.params.value();
    for (const Value::Member& member : *reading) {
      if (member.key.ends_with("_sha256") && given.find(member.key) == nullptr)
        files.add(plan.manifest->data.where + "." + member.key, member.value);
    }
  }
  for (const auto& [name, hash] : setting.model_files)
    files.add(plan.manifest->model.where + "." + name + " (sha256)", hash);
  std::ranges::move(files.take(), std::back_inserter(all));
  return all;
}

std::vector<Declared> declared_facts(const Manifest& manifest) {
  Lister lister;
  if (manifest.dataset_size) {
    lister.add(manifest.size_noise ? "data.size.about" : "data.size",
               static_cast<std::int64_t>(*manifest.dataset_size));
  }
  lister.add_params(manifest.data);
  for (const ComponentUse& use : manifest.transforms) lister.add_params(use);
  if (manifest.federated) {
    const Federated& federated = *manifest.federated;
    lister.add("federated.clients", static_cast<std::int64_t>(federated.clients));
    Value::List sizes;
    for (const std::uint64_t size : federated.sizes)
      sizes.emplace_back(static_cast<std::int64_t>(size));
    if (!sizes.empty()) lister.add("federated.sizes", std::move(sizes));
    lister.add_params(federated.partition);
  }
  return lister.take();
}

std::string declared_prose(const std::vector<Declared>& declared) {
  constexpr std::size_t kLongest = 240;
  std::string all;
  for (const auto& [key, value] : declared)
    all += (all.empty() ? "" : "; ") + key + " = " + one_line(value, kLongest);
  if (all.empty()) return "";
  return "Declared. The author of the manifest declares this, and it is taken as public: " + all +
         ". Nothing here can tell whether any of it was read off private rows; what was is not in "
         "the bound.";
}

}  // namespace privgrad::core
