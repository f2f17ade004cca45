#include "manifest_overrides.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "privgrad/manifest/yaml.hpp"

namespace privgrad::core {
namespace {

std::vector<std::string> split(std::string_view key) {
  std::vector<std::string> elements;
  for (std::size_t begin = 0;;) {
    const std::size_t dot = key.find('.', begin);
    elements.emplace_back(key.substr(begin, dot - begin));
    if (dot == key.npos) return elements;
    begin = dot + 1;
  }
}

std::optional<std::size_t> index_into(const Value::List& items, const std::string& element) {
  std::size_t index = 0;
  const char* end = element.data() + element.size();
  const auto result = std::from_chars(element.data(), end, index);
  if (result.ec != std::errc{} || result.ptr != end || index > items.size()) return std::nullopt;
  return index;
}

/// Applies one `--set`, from the top of the manifest downwards.
class Override {
 public:
  Override(Mark mark, ManifestProblems& problems) : mark_(mark), problems_(problems) {}

  void apply(Value& manifest, std::string_view key, Value value) {
    const std::vector<std::string> elements = split(key);
    if (std::ranges::find(elements, "") != elements.end()) {
      return report("the key is not of the form a.b.c");
    }
    if (elements.size() > static_cast<std::size_t>(kMaxYamlDepth)) {
      return report("the key is nested too deeply");
    }
    Value* node = &manifest;
    for (std::size_t i = 0; i + 1 < elements.size(); ++i) {
      node = descend(*node, elements, i);
      if (node == nullptr) return;
    }
    assign(*node, elements, std::move(value));
  }

  void report(std::string_view what) { problems_.add(mark_, "", what); }

  /// \returns the value of a `--set`; nothing, after reporting the problem, if it is not YAML.
  std::optional<Value> parse(std::string_view text) {
    if (text.empty()) {
      report("the value is empty; write null to remove the key, '' for an empty text");
      return std::nullopt;
    }
    std::vector<Problem> found;
    std::optional<Value> value = parse_yaml(text, found);
    for (const Problem& problem : found) {
      problems_.add(mark_, problem.where, "(in the value) " + problem.what);
    }
    if (!found.empty()) return std::nullopt;
    mark_all(*value, mark_);
    return value;
  }

 private:
  Value* descend(Value& node, const std::vector<std::string>& elements, std::size_t at) {
    if (!prepare(node, elements, at)) return nullptr;
    const std::string& element = elements[at];
    if (auto* items = std::get_if<Value::List>(&node.data())) {
      const auto index = index_into(*items, element);
      if (!index) return out_of_list(*items, elements, at);
      if (*index == items->size()) items->emplace_back().mark = mark_;
      return &(*items)[*index];
    }
    if (Value* member = node.find(element)) return member;
    Value created{Value::Object{}};
    created.mark = mark_;
    return &node.set(element, std::move(created));
  }

  void assign(Value& node, const std::vector<std::string>& elements, Value value) {
    const std::size_t at = elements.size() - 1;
    if (!prepare(node, elements, at)) return;
    if (auto* items = std::get_if<Value::List>(&node.data())) {
      const auto index = index_into(*items, elements[at]);
      if (!index) {
        out_of_list(*items, elements, at);
      } else if (value.is_null()) {
        if (*index < items->size())
          items->erase(items->begin() + static_cast<std::ptrdiff_t>(*index));
      } else if (*index == items->size()) {
        items->push_back(std::move(value));
      } else {
        (*items)[*index] = std::move(value);
      }
      return;
    }
    auto& members = std::get<Value::Object>(node.data());
    if (value.is_null()) {
      std::erase_if(members, [&](const Value::Member& m) { return m.key == elements[at]; });
      return;
    }
    node.set(elements[at], std::move(value));
    // From now on, errors about this key name the place of the override.
    for (Value::Member& member : members) {
      if (member.key == elements[at]) member.key_mark = mark_;
    }
  }

  /// Turns a component's name into {kind: NAME}, and null into an empty object.
  /// \returns whether the node is now an object or a list; reports the problem if not.
  bool prepare(Value& node, const std::vector<std::string>& elements, std::size_t at) {
    if (const auto* name = std::get_if<std::string>(&node.data()); name != nullptr && at > 0) {
      Value kind(*name);
      kind.mark = node.mark;
      node.data() = Value::Object{{"kind", kind, node.mark}};
    }
    if (node.is_null()) node.data() = Value::Object{};
    const bool has_members = std::holds_alternative<Value::Object>(node.data()) ||
                             std::holds_alternative<Value::List>(node.data());
    if (!has_members) {
      problems_.add(
          mark_, path(elements, at),
          "is " + std::string(node.type_name()) + " and has no members; set the whole of it");
    }
    return has_members;
  }

  Value* out_of_list(const Value::List& items, const std::vector<std::string>& elements,
                     std::size_t at) {
    report("'" + elements[at] + "' is not an index into " + path(elements, at) + ", which has " +
           std::to_string(items.size()) + " element(s)");
    return nullptr;
  }

  static std::string path(const std::vector<std::string>& elements, std::size_t count) {
    if (count == 0) return "the manifest";
    std::string text = elements[0];
    for (std::size_t i = 1; i < count; ++i) text += "." + elements[i];
    return text;
  }

  Mark mark_;
  ManifestProblems& problems_;
};

/// Marks every node of `value` with its place in `file`.
void mark_places(Value& value, const std::string& file, ManifestProblems& problems) {
  const auto origin = [&](Mark mark) {
    return problems.new_origin(file + ":" + std::to_string(mark.line) + ":" +
                               std::to_string(mark.column));
  };
  value.mark = origin(value.mark);
  if (auto* items = std::get_if<Value::List>(&value.data())) {
    for (Value& item : *items) mark_places(item, file, problems);
  } else if (auto* members = std::get_if<Value::Object>(&value.data())) {
    for (Value::Member& member : *members) {
      member.key_mark = origin(member.key_mark);
      mark_places(member.value, file, problems);
    }
  }
}

}  // namespace

void apply_overrides(const std::vector<std::string>& overrides, Value& manifest,
                     ManifestProblems& problems) {
  for (const std::string& given : overrides) {
    const std::string_view text = given;
    const std::size_t equals = text.find('=');
    const std::string_view key = text.substr(0, equals);
    Override one(problems.new_origin("--set " + one_line(key, 200)), problems);
    if (equals == text.npos) {
      one.report("is not of the form KEY=VALUE");
    } else if (const auto bad = find_bad_character(key)) {
      one.report("the key " + bad->what);
    } else if (std::optional<Value> value = one.parse(text.substr(equals + 1))) {
      one.apply(manifest, key, std::move(*value));
    }
  }
}

void apply_changes(const std::vector<ManifestChange>& changes, Value& manifest,
                   ManifestProblems& problems) {
  for (const ManifestChange& change : changes) {
    Value value = change.value;
    mark_places(value, change.file, problems);
    Override one(value.mark, problems);
    one.apply(manifest, change.key, std::move(value));
  }
}

}  // namespace privgrad::core
