#include "privgrad/manifest/component_docs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kColumns = 80;

/// Receives one parameter with its dotted name: "train.images", "layers[].width".
using Visitor = std::function<void(const std::string& name, const ParamSpec& spec)>;

void visit_params(const std::vector<ParamSpec>& specs, const std::string& prefix,
                  const Visitor& visit) {
  for (const ParamSpec& spec : specs) {
    const std::string name = prefix + spec.name;
    visit(name, spec);
    if (spec.type == ParamType::object) visit_params(spec.fields, name + ".", visit);
    if (spec.type == ParamType::list && spec.element.front().type == ParamType::object) {
      visit_params(spec.element.front().fields, name + "[].", visit);
    }
  }
}

std::string_view type_word(ParamType type, bool plural) {
  switch (type) {
    case ParamType::boolean:
      return plural ? "booleans" : "boolean";
    case ParamType::integer:
      return plural ? "integers" : "integer";
    case ParamType::real:
      return plural ? "reals" : "real";
    case ParamType::text:
      return plural ? "texts" : "text";
    case ParamType::path:
      return plural ? "paths" : "path";
    case ParamType::list:
      return plural ? "lists" : "list";
    case ParamType::object:
      return plural ? "objects" : "object";
  }
  return "?";
}

/// Escapes what a table cell cannot contain: column marks and line breaks.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string wrapped(std::string_view text, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string out;
  std::string line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    if (!line.empty() && indent + line.size() + 1 + word.size() > kColumns) {
      out += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return line.empty() ? out : out + margin + line + "\n";
}

std::string labelled(std::string_view label, std::string_view text) {
  constexpr std::size_t kIndent = 16;
  std::string lines = wrapped(text, kIndent);
  if (lines.empty()) return lines;
  return lines.replace(2, label.size(), label);
}

Value number_in_range(const ParamSpec& spec) {
  double number = 1.0;
  if (spec.min && spec.max) {
    number = (*spec.min + *spec.max) / 2;
  } else if (spec.min) {
    number = *spec.min + 1;
  } else if (spec.max) {
    number = *spec.max - 1;
  }
  if (spec.type == ParamType::integer) return static_cast<std::int64_t>(std::ceil(number));
  return number;
}

/// Returns a valid value: the example or the default, or a value made from an object's members.
Value sample_of(const ParamSpec& spec) {
  if (spec.example_value) return *spec.example_value;
  if (spec.default_value) return *spec.default_value;
  Value value;
  if (spec.type == ParamType::object) {
    value = Value(Value::Object{});
    for (const ParamSpec& field : spec.fields) {
      if (field.required) value.set(field.name, sample_of(field));
    }
  } else if (spec.type == ParamType::list) {
    const std::size_t count = std::max<std::size_t>(1, spec.min_items);
    value = Value(Value::List(count, sample_of(spec.element.front())));
  } else if (!spec.choices.empty()) {
    value = Value(spec.choices.front());
  } else if (spec.type == ParamType::integer || spec.type == ParamType::real) {
    value = number_in_range(spec);
  } else if (spec.type == ParamType::boolean) {
    value = Value(false);
  } else {
    value = Value("...");
  }
  return value;
}

std::string title_of(const Component& component) {
  return component.factory.kind + "/" + component.factory.info.name;
}

/// Returns the traits that engines must support, each between two `quote`.
std::string trait_words(const ComponentInfo& info, const std::string& quote) {
  std::string words;
  for (const std::string& name : info.traits) {
    if (!words.empty()) words += ", ";
    words.append(quote).append(name).append(quote);
  }
  return words;
}

}  // namespace

std::string type_text(const ParamSpec& spec) {
  if (!spec.choices.empty()) {
    std::string text = "one of:";
    for (const std::string& choice : spec.choices) {
      text += (&choice == &spec.choices.front() ? " " : ", ") + choice;
    }
    return text;
  }
  std::string text(type_word(spec.type, false));
  if (spec.takes_auto) text += " or auto";
  if (spec.type == ParamType::list) {
    text += " of " + std::string(type_word(spec.element.front().type, true));
    if (spec.min_items > 0) text += ", at least " + std::to_string(spec.min_items);
  }
  return text;
}

std::string range_text(const ParamSpec& spec) {
  if (spec.type == ParamType::list) return range_text(spec.element.front());
  if (spec.type != ParamType::integer && spec.type != ParamType::real) return "";
  std::string text = "any";
  if (spec.min && spec.max) {
    text = (spec.min_exclusive ? "(" : "[") + format_number(*spec.min) + ", " +
           format_number(*spec.max) + (spec.max_exclusive ? ")" : "]");
  } else if (spec.min) {
    text = (spec.min_exclusive ? "> " : ">= ") + format_number(*spec.min);
  } else if (spec.max) {
    text = (spec.max_exclusive ? "< " : "<= ") + format_number(*spec.max);
  }
  return spec.unit.empty() ? text : text + " " + spec.unit;
}

std::string default_text(const ParamSpec& spec) {
  if (spec.required) return "required";
  if (!spec.default_value) return "none";
  std::string text = to_yaml(*spec.default_value);
  if (text.ends_with("\n...\n")) text.resize(text.size() - 4);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string component_example(const Component& component) {
  Value node{Value::Object{}};
  node.set("kind", component.factory.info.name);
  // A sampler needs a batch size. If several parameters may set it, each is optional, and one of
  // them has an example.
  const bool needs_batches = component.factory.kind == "sampler";
  for (const ParamSpec& spec : component.factory.info.params) {
    if (spec.required || (needs_batches && spec.example_value))
      node.set(spec.name, sample_of(spec));
  }
  return to_yaml(node);
}

std::string component_page(const Component& component) {
  const ComponentInfo& info = component.factory.info;
  std::string page = "# " + title_of(component) + "\n\n" + info.summary + "\n\n";
  page += "- Plugin: `" + component.plugin->name + "`\n";
  page += "- Follows: " + info.reference + "\n";
  if (!info.certified_by.empty()) page += "- Certified by: `" + info.certified_by + "`\n";
  if (!info.traits.empty()) page += "- Traits: " + trait_words(info, "`") + "\n";
  page += "- Sees: " + component.factory.sees + "\n\n## Parameters\n\n";
  if (info.params.empty()) {
    page += "None.\n";
  } else {
    page += "| name | type | range | default | meaning |\n|---|---|---|---|---|\n";
    visit_params(info.params, "", [&](const std::string& name, const ParamSpec& spec) {
      page += "| `" + cell(name) + "` | " + cell(type_text(spec)) + " | " + cell(range_text(spec)) +
              " | " + cell(default_text(spec)) + " | " + cell(spec.doc) + " |\n";
    });
  }
  page += "\n## In a manifest\n\n```yaml\n" + component_example(component) + "```\n";
  return page;
}

std::string component_text(const Component& component) {
  const ComponentInfo& info = component.factory.info;
  const PluginIdentity& plugin = *component.plugin;
  std::string text = title_of(component) + "\n" + wrapped(info.summary, 2) + "\n";
  text += labelled("Follows", info.reference);
  if (!info.certified_by.empty()) text += labelled("Certified by", info.certified_by);
  if (!info.traits.empty()) text += labelled("Traits", trait_words(info, ""));
  text += labelled("Sees", component.factory.sees);
  text += labelled("Plugin", plugin.name + " " + plugin.version);
  text += labelled("File", plugin.file);
  text += "\nParameters\n";
  if (info.params.empty()) text += "  none\n";
  visit_params(info.params, "", [&](const std::string& name, const ParamSpec& spec) {
    const std::string range = range_text(spec);
    const std::string fallback = default_text(spec);
    text += "  " + name + "\n";
    text += wrapped(type_text(spec) + (range.empty() ? "" : "; range " + range) + "; " +
                        (spec.required ? fallback : "default " + fallback),
                    6);
    text += wrapped(spec.doc, 6);
  });
  text += "\nIn a manifest\n";
  const std::string example = component_example(component);
  for (std::size_t begin = 0; begin < example.size();) {
    const std::size_t end = example.find('\n', begin) + 1;
    text += "  " + example.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

}  // namespace privgrad::core
