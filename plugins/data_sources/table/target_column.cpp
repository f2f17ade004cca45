#include "target_column.hpp"

#include <algorithm>
#include <utility>

#include "columns.hpp"
#include "dates.hpp"
#include "privgrad/error.hpp"
#include "privgrad/names.hpp"

using namespace privgrad;

std::vector<ParamSpec> TargetColumn::params() {
  std::vector<ParamSpec> specs = {
      param::text("target",
                  "The column to predict: its name or, without a header, its number counted from 0 "
                  "(as a text: \"0\").")
          .example("label"),
      param::list("labels",
                  "Classification: the texts that the target may be, one for each class, in this "
                  "order; they become the names of the classes. Without it targets are class "
                  "indices.",
                  param::text("label", "One label."))
          .at_least_items(2)
          .optional(),
      param::text("other_label",
                  "Label for unknown or missing targets. Without it, such a row is an error, "
                  "which is listed as unaccounted.")
          .optional(),
      param::real("target_fill",
                  "The same for targets that are numbers: the class index, or the real, for a "
                  "missing or invalid one.")
          .optional(),
  };
  for (auto& spec : TargetTask::params()) specs.push_back(std::move(spec));
  return specs;
}

TargetColumn::TargetColumn(const Params& params, bool decimal_comma)
    : name_(params.has("target") ? params.text("target") : ""),
      task_("data", params),
      decimal_comma_(decimal_comma) {
  if (!params.has("target")) task_.have_none();
  if (params.has("labels")) {
    labels_ = params.texts("labels");
    std::vector<std::pair<std::string, std::size_t>> declared;
    for (const std::string& label : labels_) {
      if (label.size() > kLongestName)
        throw ConfigError("data.labels: " + in_quotes(label) + " is longer than " +
                          std::to_string(kLongestName) + " bytes");
      if (std::ranges::count(labels_, label) > 1)
        throw ConfigError("data.labels: " + in_quotes(label) + " is there twice");
      declared.emplace_back(label, declared.size());
    }
    places_ = Choices(declared);
    if (const std::string wrong = task_.state_classes(labels_.size()); !wrong.empty())
      throw ConfigError("data.labels: there are " + std::to_string(labels_.size()) + ", but " +
                        wrong);
  }
  if (params.has("other_label")) {
    const std::string& other = params.text("other_label");
    const auto found = std::ranges::find(labels_, other);
    if (found == labels_.end())
      throw ConfigError("data.other_label is " + in_quotes(other) + ", which labels lacks" +
                        did_you_mean(other, labels_));
    fill_ = static_cast<float>(found - labels_.begin());
  }
  if (!params.has("target_fill")) return;
  if (!labels_.empty())
    throw ConfigError("data.target_fill is given, but with labels the key is other_label");
  const double fill = params.real("target_fill");
  if (const std::string wrong = task_.problem(fill); !wrong.empty())
    throw ConfigError("data.target_fill " + wrong);
  fill_ = static_cast<float>(fill);
}

std::optional<float> TargetColumn::value_of(std::string_view text) const {
  if (!labels_.empty()) {
    const auto place = places_.find(text);
    return place ? std::optional(static_cast<float>(*place)) : std::nullopt;
  }
  const std::optional<double> value = number_in(text, decimal_comma_);
  const auto rounded = static_cast<float>(value.value_or(0.0));  // the target's value in an array
  if (!value || !task_.accepts(static_cast<double>(rounded))) return std::nullopt;
  return rounded;
}

std::optional<float> TargetColumn::read(std::string_view text, bool& filled) const {
  const std::optional<float> value = value_of(text);
  filled = !value && fill_.has_value();
  return value ? value : fill_;
}

std::string TargetColumn::expected() const {
  return labels_.empty() ? task_.expected()
                         : "one of the " + std::to_string(labels_.size()) + " labels";
}

bool TargetColumn::takes_days() const {
  return std::ranges::any_of(
      labels_, [](const std::string& label) { return date_in(label, kIsoDate).has_value(); });
}

std::vector<std::string> TargetColumn::unaccounted() const {
  if (name_.empty()) return {};
  std::vector<std::string> facts = task_.unaccounted();
  if (!is_total())
    facts.push_back(std::string("that every target fits (") +
                    (labels_.empty() ? "target_fill)" : "other_label)"));
  return facts;
}
