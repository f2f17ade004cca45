#include "study_arms.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "privgrad/names.hpp"
#include "study_labels.hpp"
#include "study_values.hpp"

namespace privgrad::core {
namespace {

/// The place of an arm on the grid: an index for each axis.
using Place = std::vector<std::size_t>;

/// Selected values on some axes; an arm meets the condition if it has a selected value on each.
struct Condition {
  std::map<std::size_t, std::vector<bool>> meant;

  bool holds(const Place& place) const {
    return std::ranges::all_of(meant,
                               [&](const auto& entry) { return entry.second[place[entry.first]]; });
  }
};

/// Reads {KEY: VALUE or [VALUE, ...], ...} according to the axes.
class ConditionReader {
 public:
  ConditionReader(const StudyAxes& axes, ManifestProblems& problems)
      : axes_(axes), problems_(problems) {}

  /// \returns nothing if the condition is wrong, after reporting the problem.
  std::optional<Condition> read(const Value& node, const std::string& where) {
    Condition condition;
    bool is_right = true;
    for (const Value::Member& member : *members_of(node)) {
      is_right = read_member(member, where + "." + member.key, condition) && is_right;
    }
    return is_right ? std::optional(condition) : std::nullopt;
  }

 private:
  bool read_member(const Value::Member& member, const std::string& where, Condition& condition) {
    std::vector<std::string> keys;
    for (std::size_t a = 0; a < axes_.axes.size(); ++a) {
      const Axis& axis = axes_.axes[a];
      for (std::size_t k = 0; k < axis.keys.size(); ++k) {
        keys.push_back(axis.keys[k]);
        if (axis.keys[k] != member.key) continue;
        auto& meant = condition.meant[a];
        if (meant.empty()) meant.assign(axis.values.size(), true);
        return read_values_of(axis, k, member.value, where, meant);
      }
    }
    problems_.add(member.key_mark, where,
                  "is not varied by this study" + nearest_or_all(member.key, keys));
    return false;
  }

  bool read_values_of(const Axis& axis, std::size_t key, const Value& given,
                      const std::string& where, std::vector<bool>& meant) {
    // A list is one value on an axis of lists; otherwise it lists alternatives.
    std::vector<Value> alternatives{given};
    if (const auto* items = items_of(given); items != nullptr && !matches(axis, key, given)) {
      alternatives = *items;
    }
    std::vector<bool> any(axis.values.size(), false);
    bool is_right = !alternatives.empty();
    if (!is_right) problems_.add(given.mark, where, "is empty, expected at least one value");
    for (const Value& value : alternatives) {
      const auto found = matches(axis, key, value);
      if (!found) {
        problems_.add(value.mark, where, unknown_value(axis, value));
        is_right = false;
        continue;
      }
      for (std::size_t i = 0; i < any.size(); ++i) any[i] = any[i] || (*found)[i];
    }
    for (std::size_t i = 0; i < any.size(); ++i) meant[i] = meant[i] && any[i];
    return is_right;
  }

  static std::optional<std::vector<bool>> matches(const Axis& axis, std::size_t key,
                                                  const Value& value) {
    const std::string label = labels_of({value}).front();
    std::vector<bool> found(axis.values.size(), false);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i] = axis.values[i].label == label || same_value(axis.values[i].values[key], value);
    }
    // The kind of a component selects all values with that kind.
    if (std::ranges::find(found, true) == found.end()) {
      const auto* kind = std::get_if<std::string>(&value.data());
      for (std::size_t i = 0; kind != nullptr && i < found.size(); ++i) {
        const Value* other = axis.values[i].values[key].find("kind");
        found[i] = other != nullptr && same_value(*other, value);
      }
    }
    if (std::ranges::find(found, true) == found.end()) return std::nullopt;
    return found;
  }

  static std::string unknown_value(const Axis& axis, const Value& value) {
    std::vector<std::string> labels;
    for (const AxisValue& one : axis.values) labels.push_back(one.label);
    const std::string label = labels_of({value}).front();
    return (label.empty() ? "is " + std::string(value.type_name()) : "is " + in_quotes(label)) +
           ", which is not on this axis" + nearest_or_all(label, labels);
  }

  const StudyAxes& axes_;
  ManifestProblems& problems_;
};

std::vector<Condition> read_conditions(const Value& root, const std::string& key,
                                       const StudyAxes& axes, ManifestProblems& problems) {
  std::vector<Condition> conditions;
  const Value* node = root.find(key);
  if (node == nullptr) return conditions;
  ConditionReader reader(axes, problems);
  const Value::List& items = *items_of(*node);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::optional<Condition> one = reader.read(items[i], key + "." + std::to_string(i));
    if (one) conditions.push_back(*one);
  }
  return conditions;
}

bool any_holds(const std::vector<Condition>& conditions, const Place& place) {
  return std::ranges::any_of(conditions,
                             [&](const Condition& condition) { return condition.holds(place); });
}

std::size_t grid_size(const StudyAxes& axes) {
  std::size_t size = axes.axes.empty() ? 0 : 1;
  for (const Axis& axis : axes.axes) {
    size = std::min(size * axis.values.size(), std::size_t{1'000'000});
  }
  return size;
}

/// The `index`-th place of the grid; the last axis varies fastest.
Place place_at(const StudyAxes& axes, std::size_t index) {
  Place place(axes.axes.size());
  for (std::size_t a = place.size(); a-- > 0;) {
    const std::size_t count = axes.axes[a].values.size();
    place[a] = index % count;
    index /= count;
  }
  return place;
}

void move_to(Arm& arm, const Axis& axis, const AxisValue& value, const std::string& file) {
  arm.name += (arm.name.empty() ? "" : "+") + value.label;
  for (std::size_t k = 0; k < axis.keys.size(); ++k) {
    arm.labels[axis.keys[k]] = value.labels[k];
    arm.changes.push_back({axis.keys[k], value.values[k], file});
  }
}

std::size_t levels_of(const StudyAxes& axes) {
  return axes.has_levels ? axes.axes.front().values.size() : 1;
}

/// An arm at this level, without a variant yet.
Arm arm_of_level(const StudyAxes& axes, std::size_t level, const std::string& file) {
  Arm arm;
  arm.level = level;
  if (axes.has_levels) move_to(arm, axes.axes.front(), axes.axes.front().values[level], file);
  return arm;
}

void name_arm(Arm& arm, const std::string& variant) {
  arm.variant = variant;
  arm.name += (arm.name.empty() ? "" : "+") + variant;
}

Arm arm_at(const StudyAxes& axes, const Place& place, const std::string& file) {
  Arm variant;
  const std::size_t first = axes.has_levels ? 1 : 0;
  for (std::size_t a = first; a < place.size(); ++a)
    move_to(variant, axes.axes[a], axes.axes[a].values[place[a]], file);
  Arm arm = arm_of_level(axes, axes.has_levels ? place.front() : 0, file);
  name_arm(arm, variant.name.empty() ? "base" : variant.name);
  arm.labels.merge(variant.labels);
  std::move(variant.changes.begin(), variant.changes.end(), std::back_inserter(arm.changes));
  return arm;
}

void add_named_arms(const Value& root, const std::string& file, const StudyAxes& axes,
                    std::vector<Arm>& arms, ManifestProblems& problems) {
  const Value* node = root.find("arms");
  if (node == nullptr) return;
  for (const Value::Member& member : *members_of(*node)) {
    if (!is_label(member.key) || member.key.front() == '-') {
      problems.add(member.key_mark, "arms." + member.key,
                   "is not a name for an arm; allowed are letters, digits, '.', '_', '-', '+' "
                   "and '=', at most 80, beginning with a letter or a digit");
    }
    const std::vector<ManifestChange> changes = changes_in(member.value, file);
    for (std::size_t level = 0; level < levels_of(axes); ++level) {
      Arm arm = arm_of_level(axes, level, file);
      name_arm(arm, member.key);
      arm.changes.insert(arm.changes.end(), changes.begin(), changes.end());
      arms.push_back(std::move(arm));
    }
  }
}

}  // namespace

std::vector<Arm> make_arms(const Value& root, const std::string& file, const StudyAxes& axes,
                           ManifestProblems& problems) {
  const std::vector<Condition> skip = read_conditions(root, "skip", axes, problems);
  const std::vector<Condition> only = read_conditions(root, "only", axes, problems);
  std::vector<Arm> arms;
  // If levels are the only axis, named arms take the place of the grid.
  const bool only_named = axes.has_levels && axes.axes.size() == 1 && root.find("arms") != nullptr;
  const std::size_t size = only_named ? 0 : grid_size(axes);
  if (size > 100 * kMaxArms) {
    problems.add(root.mark, "axes", "span more than " + std::to_string(100 * kMaxArms) + " arms");
    return arms;
  }
  for (std::size_t i = 0; i < size; ++i) {
    const Place place = place_at(axes, i);
    if (any_holds(skip, place) || (!only.empty() && !any_holds(only, place))) continue;
    arms.push_back(arm_at(axes, place, file));
  }
  if (size > 0 && arms.empty()) {
    problems.add(root.mark, "", "skip and only leave no arm of the grid");
  }
  add_named_arms(root, file, axes, arms, problems);
  // If nothing varies, the study measures the effect of the seeds.
  if (size == 0 && root.find("arms") == nullptr) {
    arms.emplace_back();
    name_arm(arms.back(), "base");
  }
  if (arms.size() > kMaxArms) {
    problems.add(root.mark, "",
                 "the study has " + std::to_string(arms.size()) + " arms, allowed are at most " +
                     std::to_string(kMaxArms));
  }
  if (!problems.empty()) return arms;  // later problems may be consequences of these
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (arms[i].name.size() > 200) {
      problems.add(root.mark, "",
                   "the arm " + in_quotes(arms[i].name) +
                       " has a name of more than 200 characters; name the values of its axes, as "
                       "in {NAME: VALUE, ...}");
      break;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (arms[i].name != arms[j].name) continue;
      problems.add(root.mark, "", "two arms are called " + in_quotes(arms[i].name));
    }
  }
  return arms;
}

namespace {

/// The variant that `baseline` names.
/// \returns nothing if there is no such variant, after reporting the problem.
std::optional<std::string> named_variant(const Value& node, const std::string& name,
                                         const std::vector<Arm>& arms, ManifestProblems& problems) {
  std::vector<std::string> variants;
  for (const Arm& arm : arms) {
    if (arm.variant == name) return name;
    variants.push_back(arm.variant);
  }
  const std::string nearest = did_you_mean(name, variants);
  problems.add(
      node.mark, "baseline",
      "is " + in_quotes(name) + ", which is not an arm" +
          (nearest.empty() ? "; the first one is called '" + variants.front() + "'" : nearest));
  return std::nullopt;
}

std::optional<std::string> described_variant(const Value& node, const StudyAxes& axes,
                                             const std::vector<Arm>& arms,
                                             ManifestProblems& problems) {
  const auto condition = ConditionReader(axes, problems).read(node, "baseline");
  if (!condition) return std::nullopt;
  if (axes.has_levels && condition->meant.contains(0)) {
    problems.add(node.mark, "baseline",
                 "names a level, but there is a baseline at each: say where it is on the axes");
    return std::nullopt;
  }
  std::vector<std::string> found;
  for (std::size_t i = 0; i < grid_size(axes) && i < 100 * kMaxArms; ++i) {
    const Place place = place_at(axes, i);
    if (!condition->holds(place)) continue;
    const Arm described = arm_at(axes, place, "");
    const bool is_there = std::ranges::any_of(arms, [&](const Arm& arm) {
      return arm.name == described.name && arm.labels == described.labels;
    });
    const bool is_new = std::ranges::find(found, described.variant) == found.end();
    if (is_there && is_new) found.push_back(described.variant);
  }
  if (found.size() == 1) return found.front();
  problems.add(node.mark, "baseline",
               found.empty() ? "describes no arm of this study"
                             : "describes " + std::to_string(found.size()) + " arms, '" + found[0] +
                                   "' and '" + found[1] + "' among them; say more of it");
  return std::nullopt;
}

}  // namespace

std::vector<std::size_t> find_baselines(const Value& root, const StudyAxes& axes,
                                        const std::vector<Arm>& arms, ManifestProblems& problems) {
  std::vector<std::size_t> found(levels_of(axes), 0);
  if (arms.empty()) return found;
  const Value* node = root.find("baseline");
  std::optional<std::string> variant = arms.front().variant;
  if (node != nullptr) {
    const auto* name = std::get_if<std::string>(&node->data());
    variant = name != nullptr ? named_variant(*node, *name, arms, problems)
                              : described_variant(*node, axes, arms, problems);
  }
  for (std::size_t level = 0; variant && level < found.size(); ++level) {
    const auto is_it = [&](const Arm& arm) {
      return arm.level == level && arm.variant == *variant;
    };
    const auto arm = std::ranges::find_if(arms, is_it);
    if (arm != arms.end()) {
      found[level] = static_cast<std::size_t>(arm - arms.begin());
      continue;
    }
    const Mark mark = node != nullptr ? node->mark : root.mark;
    problems.add(mark, "baseline",
                 "is " + in_quotes(*variant) + ", which is not an arm at the level " +
                     in_quotes(axes.axes.front().values[level].label));
  }
  return found;
}

}  // namespace privgrad::core
