#include <yaml.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <variant>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/yaml.hpp"

namespace privgrad::core {
namespace {

bool is_scalar(const Value& value) {
  return !std::holds_alternative<Value::List>(value.data()) &&
         !std::holds_alternative<Value::Object>(value.data());
}

/// Returns a text of a real that is always read as a real: "4.0", not "4".
std::string real_text(double value) {
  const std::string text = format_number(value);
  if (text == "nan" || text == "inf") return "." + text;
  if (text == "-inf") return "-.inf";
  const bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? text + ".0" : text;
}

/// Quotes texts that would be read as a different type, by this reader or by a reader of YAML 1.1,
/// in which `yes`, `no`, `on` and `off` are booleans.
yaml_scalar_style_t text_style(const std::string& text) {
  const bool plain_ascii = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  if (!plain_ascii) return YAML_DOUBLE_QUOTED_SCALAR_STYLE;
  std::string problem;
  if (!std::holds_alternative<std::string>(plain_scalar(text, problem).data())) {
    return YAML_SINGLE_QUOTED_SCALAR_STYLE;
  }
  std::string lower;
  for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  constexpr std::string_view kYaml11[] = {"y", "n", "yes", "no", "on", "off", "<<", "="};
  const bool is_word =
      std::find(std::begin(kYaml11), std::end(kYaml11), lower) != std::end(kYaml11);
  return is_word ? YAML_SINGLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE;
}

class Writer {
 public:
  Writer() {
    if (yaml_emitter_initialize(&emitter_) == 0) throw std::bad_alloc();
    yaml_emitter_set_unicode(&emitter_, 1);
    yaml_emitter_set_width(&emitter_, -1);  // no folding, so a value stays on one line
    yaml_emitter_set_output(&emitter_, &Writer::append, &text_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { yaml_emitter_delete(&emitter_); }

  std::string document(const Value& value) {
    yaml_event_t event;
    emit(yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING), event);
    emit(yaml_document_start_event_initialize(&event, nullptr, nullptr, nullptr, 1), event);
    node(value);
    emit(yaml_document_end_event_initialize(&event, 1), event);
    emit(yaml_stream_end_event_initialize(&event), event);
    return std::move(text_);
  }

 private:
  static int append(void* text, unsigned char* bytes, std::size_t size) {
    static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), size);
    return 1;
  }

  void emit(int made, yaml_event_t& event) {
    // An event can only be made from UTF-8. The emitter always takes ownership of the event.
    if (made == 0) throw ConfigError("a text that is not UTF-8 cannot be written as YAML");
    if (yaml_emitter_emit(&emitter_, &event) == 0) {
      throw ConfigError(std::string("cannot be written as YAML: ") +
                        (emitter_.problem != nullptr ? emitter_.problem : "unknown problem"));
    }
  }

  void node(const Value& value) {
    std::visit([&](const auto& data) { write(data); }, value.data());
  }

  void write(std::monostate) { scalar("null", YAML_PLAIN_SCALAR_STYLE); }
  void write(bool value) { scalar(value ? "true" : "false", YAML_PLAIN_SCALAR_STYLE); }
  void write(std::int64_t value) { scalar(std::to_string(value), YAML_PLAIN_SCALAR_STYLE); }
  void write(double value) { scalar(real_text(value), YAML_PLAIN_SCALAR_STYLE); }
  void write(const std::string& value) { scalar(value, text_style(value)); }

  void write(const Value::List& items) {
    const bool on_one_line = std::ranges::all_of(items, is_scalar);
    yaml_event_t event;
    emit(yaml_sequence_start_event_initialize(
             &event, nullptr, nullptr, 1,
             on_one_line ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE),
         event);
    for (const Value& item : items) node(item);
    emit(yaml_sequence_end_event_initialize(&event), event);
  }

  void write(const Value::Object& members) {
    yaml_event_t event;
    emit(yaml_mapping_start_event_initialize(
             &event, nullptr, nullptr, 1,
             members.empty() ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE),
         event);
    for (const Value::Member& member : members) {
      write(member.key);
      node(member.value);
    }
    emit(yaml_mapping_end_event_initialize(&event), event);
  }

  void scalar(const std::string& text, yaml_scalar_style_t style) {
    yaml_event_t event;
    emit(yaml_scalar_event_initialize(&event, nullptr, nullptr,
                                      reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()), 1, 1, style),
         event);
  }

  yaml_emitter_t emitter_{};
  std::string text_;
};

}  // namespace

std::string to_yaml(const Value& value) { return Writer().document(value); }

}  // namespace privgrad::core
