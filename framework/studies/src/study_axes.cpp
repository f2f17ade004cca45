#include "study_axes.hpp"

#include <utility>

#include "study_labels.hpp"
#include "study_values.hpp"

namespace privgrad::core {
namespace {

struct Labelled {
  std::string label;  ///< "" if none could be made.
  Value value;
  Mark mark;
};

/// Reads [VALUE, ...], with names derived from the values, or {NAME: VALUE, ...}.
std::vector<Labelled> read_values(const Value& node) {
  std::vector<Labelled> out;
  if (const auto* items = items_of(node)) {
    const std::vector<std::string> labels = labels_of(*items);
    for (std::size_t i = 0; i < items->size(); ++i)
      out.push_back({labels[i], (*items)[i], (*items)[i].mark});
  } else {
    for (const Value::Member& member : *members_of(node))
      out.push_back({member.key, member.value, member.key_mark});
  }
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
    if (const Value* levels = root.find("levels")) {
      read_group(*levels, "levels");
      read_.has_levels = !read_.axes.empty();
    }
    if (const Value* axes = root.find("axes")) read_grid(*axes, "axes");
    const Value* zip = root.find("zip");
    for (std::size_t i = 0; zip != nullptr && i < items_of(*zip)->size(); ++i)
      read_group((*items_of(*zip))[i], "zip." + std::to_string(i));
    check_order();
    return std::move(read_);
  }

  StudyAxes read_search(const Value& node, const std::string& where,
                        const std::vector<Axis>& taken) {
    read_grid(node, where);
    for (std::size_t a = 0; a < read_.axes.size(); ++a) {
      const std::string& key = read_.axes[a].keys.front();
      for (const Axis& axis : taken) {
        for (const std::string& other : axis.keys) {
          if (!is_within(key, other) && !is_within(other, key)) continue;
          problems_.add(read_.marks[a], std::string(where).append(".").append(key),
                        "cannot be searched: " + in_quotes(other) + " varies already");
        }
      }
    }
    check_order();
    return std::move(read_);
  }

 private:
  void read_grid(const Value& node, const std::string& whose) {
    for (const Value::Member& member : *members_of(node)) {
      const std::vector<Labelled> values = read_values(member.value);
      check_labels(values, whose + "." + member.key, problems_);
      Axis axis{.keys = {member.key}, .values = {}};
      for (const Labelled& value : values) {
        axis.values.push_back({value.label, {value.value}, {value.label}});
      }
      add(std::move(axis), member.key_mark);
    }
  }

  /// Names the group's values by the first key if the resulting names differ, otherwise by the
  /// joined names from all keys.
  void read_group(const Value& node, const std::string& where) {
    Axis axis;
    std::vector<Labelled> rows;
    std::vector<std::string> joined;
    for (const Value::Member& member : *members_of(node)) {
      const std::string here = where + "." + member.key;
      const std::vector<Labelled> values = read_values(member.value);
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

  /// Refuses an axis that sets a whole value of which an earlier axis sets a part: axes are applied
  /// in order, so the later axis would undo the earlier axis.
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

}  // namespace

bool is_within(std::string_view key, std::string_view whole) {
  return key == whole || (key.starts_with(whole) && key[whole.size()] == '.');
}

StudyAxes read_axes(const Value& root, ManifestProblems& problems) {
  return AxesReader(problems).read(root);
}

std::vector<Axis> read_search_axes(const Value& node, const std::string& where,
                                   const std::vector<Axis>& taken, ManifestProblems& problems) {
  return AxesReader(problems).read_search(node, where, taken).axes;
}

std::vector<ManifestChange> changes_in(const Value& node, const std::string& file) {
  std::vector<ManifestChange> changes;
  for (const Value::Member& member : *members_of(node))
    changes.push_back({member.key, member.value, file});
  return changes;
}

}  // namespace privgrad::core
