#include "study_axes.hpp"

#include <algorithm>
#include <utility>

#include "study_labels.hpp"

namespace privgrad::core {
namespace {

const Value::Object* members_of(const Value& node) {
  return std::get_if<Value::Object>(&node.data());
}
const Value::List* items_of(const Value& node) { return std::get_if<Value::List>(&node.data()); }

std::string in_quotes(std::string_view text) { return "'" + one_line(text, 80) + "'"; }

bool is_within(std::string_view key, std::string_view whole) {
  return key == whole || (key.starts_with(whole) && key[whole.size()] == '.');
}

/// A key that may be set by a study: seeds and calibration are the study's own.
void check_key(const Value::Member& member, const std::string& where, ManifestProblems& problems) {
  const auto refuse = [&](const std::string& why) { problems.add(member.key_mark, where, why); };
  if (member.key == "seed") refuse("is the study's own: list the seeds under seeds");
  if (member.key == "privgrad" || member.key == "name") refuse("cannot be changed by a study");
  if (member.key == "privacy.calibrate") {
    refuse("is the study's own: it follows from equal_privacy");
  }
  const bool is_dotted = !member.key.empty() && member.key.front() != '.' &&
                         member.key.back() != '.' && member.key.find("..") == member.key.npos;
  if (!is_dotted) refuse("is not of the form a.b.c");
}

struct Labelled {
  std::string label;  ///< "": none could be made.
  Value value;
  Mark mark;
};

/// [VALUE, ...] with names made from the values, or {NAME: VALUE, ...}.
std::vector<Labelled> read_values(const Value& node, const std::string& where,
                                  ManifestProblems& problems) {
  std::vector<Labelled> out;
  if (const auto* items = items_of(node)) {
    const std::vector<std::string> labels = labels_of(*items);
    for (std::size_t i = 0; i < items->size(); ++i) {
      out.push_back({labels[i], (*items)[i], (*items)[i].mark});
    }
  } else if (const auto* members = members_of(node)) {
    if (node.find("kind") != nullptr) {
      problems.add(node.mark, where,
                   "is one component, expected a list of values or {NAME: VALUE, ...}");
      return out;
    }
    for (const Value::Member& member : *members) {
      out.push_back({member.key, member.value, member.key_mark});
    }
  } else {
    problems.add(node.mark, where,
                 "is " + std::string(node.type_name()) +
                     ", expected a list of values or {NAME: VALUE, ...}");
    return out;
  }
  if (out.empty()) problems.add(node.mark, where, "is empty, expected at least one value");
  return out;
}

void check_labels(const std::vector<Labelled>& values, const std::string& where,
                  ManifestProblems& problems) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_label(values[i].label)) {
      problems.add(values[i].mark, where,
                   (values[i].label.empty() ? "has a value without a short name"
                                            : "has the name " + in_quotes(values[i].label)) +
                       "; name it, as in {NAME: VALUE, ...}, by letters, digits, '.', '_', '-', "
                       "'+' and '=', at most 80");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (values[i].label != values[j].label || values[i].label.empty()) continue;
      problems.add(values[i].mark, where,
                   "has two values called " + in_quotes(values[i].label) +
                       "; take one away, or name them, as in {NAME: VALUE, ...}");
      break;
    }
  }
}

class AxesReader {
 public:
  explicit AxesReader(ManifestProblems& problems) : problems_(problems) {}

  StudyAxes read(const Value& root) {
    if (const Value* axes = root.find("axes")) read_grid(*axes);
    if (const Value* zip = root.find("zip")) read_zip(*zip);
    check_order();
    return std::move(read_);
  }

 private:
  void read_grid(const Value& node) {
    const auto* members = members_of(node);
    if (members == nullptr) {
      problems_.add(node.mark, "axes",
                    "is " + std::string(node.type_name()) +
                        ", expected an object such as {optimizer: [sgd, adam]}");
      return;
    }
    for (const Value::Member& member : *members) {
      const std::string where = "axes." + member.key;
      check_key(member, where, problems_);
      const std::vector<Labelled> values = read_values(member.value, where, problems_);
      check_labels(values, where, problems_);
      Axis axis{.keys = {member.key}, .values = {}};
      for (const Labelled& value : values) {
        axis.values.push_back({value.label, {value.value}, {value.label}});
      }
      add(std::move(axis), member.key_mark);
    }
  }

  void read_zip(const Value& node) {
    const auto* groups = items_of(node);
    if (groups == nullptr) {
      problems_.add(node.mark, "zip",
                    "is " + std::string(node.type_name()) +
                        ", expected a list of groups such as {schedules.clip_norm: [1, 2], "
                        "schedules.learning_rate: [0.4, 0.2]}");
      return;
    }
    for (std::size_t i = 0; i < groups->size(); ++i) {
      read_group((*groups)[i], "zip." + std::to_string(i));
    }
  }

  /// The first key's names are the group's, as long as they differ; else those of all keys.
  void read_group(const Value& node, const std::string& where) {
    const auto* members = members_of(node);
    if (members == nullptr || members->empty()) {
      problems_.add(node.mark, where, "is no object of {KEY: [VALUE, ...]}");
      return;
    }
    Axis axis;
    std::vector<Labelled> rows;
    std::vector<std::string> joined;
    for (const Value::Member& member : *members) {
      const std::string here = where + "." + member.key;
      check_key(member, here, problems_);
      const std::vector<Labelled> values = read_values(member.value, here, problems_);
      if (values.empty()) return;
      if (axis.keys.empty()) {
        rows = values;
        joined.resize(values.size());
        axis.values.resize(values.size());
      }
      if (values.size() != rows.size()) {
        problems_.add(member.value.mark, here,
                      "has " + std::to_string(values.size()) + " value(s), " + axis.keys.front() +
                          " has " + std::to_string(rows.size()) +
                          "; a group varies its keys together");
        return;
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        joined[i] += (joined[i].empty() ? "" : "-") + values[i].label;
        axis.values[i].values.push_back(values[i].value);
        axis.values[i].labels.push_back(values[i].label);
      }
      axis.keys.push_back(member.key);
    }
    if (!all_differ(rows)) {
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].label = joined[i];
    }
    check_labels(rows, where, problems_);
    for (std::size_t i = 0; i < rows.size(); ++i) axis.values[i].label = rows[i].label;
    add(std::move(axis), node.mark);
  }

  static bool all_differ(const std::vector<Labelled>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (rows[i].label == rows[j].label) return false;
      }
    }
    return true;
  }

  void add(Axis axis, Mark mark) {
    read_.axes.push_back(std::move(axis));
    read_.marks.push_back(mark);
  }

  /// Later axes are applied later: one that sets the whole of what an earlier one set a part of
  /// would make that one vary nothing.
  void check_order() {
    for (std::size_t later = 0; later < read_.axes.size(); ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        for (const std::string& key : read_.axes[later].keys) {
          for (const std::string& first : read_.axes[earlier].keys) {
            if (!is_within(first, key)) continue;
            problems_.add(read_.marks[later], "",
                          first == key ? in_quotes(key) + " is varied twice"
                                       : in_quotes(key) + " replaces " + in_quotes(first) +
                                             ", which is varied before it; vary it first");
          }
        }
      }
    }
  }

  ManifestProblems& problems_;
  StudyAxes read_;
};

/// The place of an arm on the grid: an index for each axis.
using Place = std::vector<std::size_t>;

/// The values that are meant, for some axes; holds for arms that have one of them on each.
struct Condition {
  std::map<std::size_t, std::vector<bool>> meant;

  bool holds(const Place& place) const {
    return std::all_of(meant.begin(), meant.end(),
                       [&](const auto& entry) { return entry.second[place[entry.first]]; });
  }
};

/// Reads {KEY: VALUE or [VALUE, ...], ...} against the axes.
class ConditionReader {
 public:
  ConditionReader(const StudyAxes& axes, ManifestProblems& problems)
      : axes_(axes), problems_(problems) {}

  /// \returns nothing if it is wrong, which has been reported then.
  std::optional<Condition> read(const Value& node, const std::string& where) {
    const auto* members = members_of(node);
    if (members == nullptr || members->empty()) {
      problems_.add(node.mark, where, "is no object such as {optimizer: sgd}");
      return std::nullopt;
    }
    Condition condition;
    bool is_right = true;
    for (const Value::Member& member : *members) {
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
                  "is not varied by this study" + nearest(member.key, keys));
    return false;
  }

  bool read_values_of(const Axis& axis, std::size_t key, const Value& given,
                      const std::string& where, std::vector<bool>& meant) {
    // A list is one value of an axis of lists, else alternatives.
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
    // A component's kind means all values of that kind.
    if (std::find(found.begin(), found.end(), true) == found.end()) {
      const auto* kind = std::get_if<std::string>(&value.data());
      for (std::size_t i = 0; kind != nullptr && i < found.size(); ++i) {
        const Value* other = axis.values[i].values[key].find("kind");
        found[i] = other != nullptr && same_value(*other, value);
      }
    }
    if (std::find(found.begin(), found.end(), true) == found.end()) return std::nullopt;
    return found;
  }

  static std::string unknown_value(const Axis& axis, const Value& value) {
    std::vector<std::string> labels;
    for (const AxisValue& one : axis.values) labels.push_back(one.label);
    const std::string label = labels_of({value}).front();
    return (label.empty() ? "is " + std::string(value.type_name()) : "is " + in_quotes(label)) +
           ", which is not on this axis" + nearest(label, labels);
  }

  static std::string nearest(const std::string& name, const std::vector<std::string>& names) {
    const std::string found = nearest_name(name, names);
    if (!found.empty()) return "; did you mean '" + found + "'?";
    std::string all;
    for (const std::string& one : names) all += (all.empty() ? "; there are " : ", ") + one;
    return all;
  }

  const StudyAxes& axes_;
  ManifestProblems& problems_;
};

std::vector<Condition> read_conditions(const Value& root, const std::string& key,
                                       const StudyAxes& axes, ManifestProblems& problems) {
  std::vector<Condition> conditions;
  const Value* node = root.find(key);
  if (node == nullptr) return conditions;
  const auto* items = items_of(*node);
  if (items == nullptr) {
    problems.add(node->mark, key,
                 "is " + std::string(node->type_name()) +
                     ", expected a list of conditions such as {optimizer: sgd}");
    return conditions;
  }
  ConditionReader reader(axes, problems);
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::optional<Condition> one = reader.read((*items)[i], key + "." + std::to_string(i));
    if (one) conditions.push_back(*one);
  }
  return conditions;
}

bool any_holds(const std::vector<Condition>& conditions, const Place& place) {
  return std::any_of(conditions.begin(), conditions.end(),
                     [&](const Condition& condition) { return condition.holds(place); });
}

std::size_t grid_size(const StudyAxes& axes) {
  std::size_t size = axes.axes.empty() ? 0 : 1;
  for (const Axis& axis : axes.axes) {
    size = std::min(size * axis.values.size(), std::size_t{1'000'000});
  }
  return size;
}

/// The `index`-th place of the grid, the last axis fastest.
Place place_at(const StudyAxes& axes, std::size_t index) {
  Place place(axes.axes.size());
  for (std::size_t a = place.size(); a-- > 0;) {
    const std::size_t count = axes.axes[a].values.size();
    place[a] = index % count;
    index /= count;
  }
  return place;
}

Arm arm_at(const StudyAxes& axes, const Place& place, const std::string& file) {
  Arm arm;
  for (std::size_t a = 0; a < place.size(); ++a) {
    const Axis& axis = axes.axes[a];
    const AxisValue& value = axis.values[place[a]];
    arm.name += (arm.name.empty() ? "" : "+") + value.label;
    for (std::size_t k = 0; k < axis.keys.size(); ++k) {
      arm.labels[axis.keys[k]] = value.labels[k];
      arm.changes.push_back({axis.keys[k], value.values[k], file});
    }
  }
  return arm;
}

void add_named_arms(const Value& root, const std::string& file, std::vector<Arm>& arms,
                    ManifestProblems& problems) {
  const Value* node = root.find("arms");
  if (node == nullptr) return;
  const auto* members = members_of(*node);
  if (members == nullptr) {
    problems.add(node->mark, "arms",
                 "is " + std::string(node->type_name()) +
                     ", expected an object of {NAME: {KEY: VALUE, ...}}");
    return;
  }
  for (const Value::Member& member : *members) {
    const std::string where = "arms." + member.key;
    if (!is_label(member.key) || member.key.front() == '-') {
      problems.add(member.key_mark, where,
                   "is no name of an arm; allowed are letters, digits, '.', '_', '-', '+' and "
                   "'=', at most 80, beginning with a letter or a digit");
    }
    arms.push_back({.name = member.key,
                    .labels = {},
                    .changes = read_changes(member.value, where, file, problems)});
  }
}

}  // namespace

StudyAxes read_axes(const Value& root, ManifestProblems& problems) {
  return AxesReader(problems).read(root);
}

std::vector<ManifestChange> read_changes(const Value& node, const std::string& where,
                                         const std::string& file, ManifestProblems& problems) {
  std::vector<ManifestChange> changes;
  const auto* members = members_of(node);
  if (members == nullptr) {
    problems.add(node.mark, where,
                 "is " + std::string(node.type_name()) +
                     ", expected an object such as {optimizer: sgd, steps: 50}");
    return changes;
  }
  for (const Value::Member& member : *members) {
    check_key(member, where + "." + member.key, problems);
    changes.push_back({member.key, member.value, file});
  }
  return changes;
}

std::vector<Arm> make_arms(const Value& root, const std::string& file, const StudyAxes& axes,
                           ManifestProblems& problems) {
  const std::vector<Condition> skip = read_conditions(root, "skip", axes, problems);
  const std::vector<Condition> only = read_conditions(root, "only", axes, problems);
  std::vector<Arm> arms;
  const std::size_t size = grid_size(axes);
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
  add_named_arms(root, file, arms, problems);
  // Nothing varies: how much the seeds do is a question of its own.
  if (size == 0 && root.find("arms") == nullptr) arms.push_back({"base", {}, {}});
  if (arms.size() > kMaxArms) {
    problems.add(root.mark, "",
                 "the study has " + std::to_string(arms.size()) + " arms, allowed are at most " +
                     std::to_string(kMaxArms));
  }
  if (!problems.empty()) return arms;  // what follows may be a consequence
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

std::size_t find_baseline(const Value& root, const StudyAxes& axes, const std::vector<Arm>& arms,
                          ManifestProblems& problems) {
  const Value* node = root.find("baseline");
  if (node == nullptr || arms.empty()) return 0;
  if (const auto* name = std::get_if<std::string>(&node->data())) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < arms.size(); ++i) {
      if (arms[i].name == *name) return i;
      names.push_back(arms[i].name);
    }
    const std::string nearest = nearest_name(*name, names);
    problems.add(node->mark, "baseline",
                 "is " + in_quotes(*name) + ", which is no arm" +
                     (nearest.empty() ? "; the first one is called '" + names.front() + "'"
                                      : "; did you mean '" + nearest + "'?"));
    return 0;
  }
  const auto condition = ConditionReader(axes, problems).read(*node, "baseline");
  if (!condition) return 0;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < grid_size(axes) && i < 100 * kMaxArms; ++i) {
    const Place place = place_at(axes, i);
    if (!condition->holds(place)) continue;
    const std::string name = arm_at(axes, place, "").name;
    for (std::size_t a = 0; a < arms.size(); ++a) {
      if (arms[a].name == name && !arms[a].labels.empty()) found.push_back(a);
    }
  }
  if (found.size() == 1) return found.front();
  problems.add(node->mark, "baseline",
               found.empty() ? "describes no arm of this study"
                             : "describes " + std::to_string(found.size()) + " arms, '" +
                                   arms[found[0]].name + "' and '" + arms[found[1]].name +
                                   "' among them; say more of it");
  return 0;
}

}  // namespace privgrad::core
