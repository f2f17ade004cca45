#include "study_labels.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace privgrad::core {
namespace {

constexpr std::size_t kLongest = 80;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_label_character(char c) {
  return is_letter_or_digit(c) || std::string_view("._-+=").find(c) != std::string_view::npos;
}

std::string with_label_characters(std::string text) {
  for (char& c : text) {
    if (!is_label_character(c)) c = '-';
  }
  return text;
}

const std::string* kind_of(const Value& value) {
  const Value* kind = value.find("kind");
  return kind == nullptr ? nullptr : std::get_if<std::string>(&kind->data());
}

struct Namer {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return format_number(value); }
  std::string operator()(const std::string& value) const { return with_label_characters(value); }
  std::string operator()(const Value::List& items) const {
    std::string text;
    for (const Value& item : items) {
      const std::string one = std::visit(*this, item.data());
      if (one.empty()) return "";
      text += (text.empty() ? "" : "-") + one;
    }
    return text;
  }
  std::string operator()(const Value::Object& members) const {
    for (const Value::Member& member : members) {
      if (member.key != "kind") continue;
      const auto* kind = std::get_if<std::string>(&member.value.data());
      return kind == nullptr ? "" : with_label_characters(*kind);
    }
    return "";
  }
};

/// A component's name with its parameters: "exponential-rate=0.1".
std::string with_parameters(const Value& component) {
  std::string text = with_label_characters(*kind_of(component));
  for (const Value::Member& member : std::get<Value::Object>(component.data())) {
    if (member.key == "kind") continue;
    text +=
        "-" + with_label_characters(member.key) + "=" + std::visit(Namer{}, member.value.data());
  }
  return text;
}

bool is_number(const Value& value) {
  return std::holds_alternative<std::int64_t>(value.data()) ||
         std::holds_alternative<double>(value.data());
}

double number(const Value& value) {
  const auto* whole = std::get_if<std::int64_t>(&value.data());
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value.data());
}

}  // namespace

bool is_label(std::string_view text) {
  return !text.empty() && text.size() <= kLongest &&
         (is_letter_or_digit(text.front()) || text.front() == '-') &&
         std::ranges::all_of(text, is_label_character);
}

std::vector<std::string> labels_of(const std::vector<Value>& values) {
  std::vector<std::string> labels;
  labels.reserve(values.size());
  for (const Value& value : values) labels.push_back(std::visit(Namer{}, value.data()));
  const std::vector<std::string> kinds = labels;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (kind_of(values[i]) != nullptr && std::ranges::count(kinds, kinds[i]) > 1) {
      labels[i] = with_parameters(values[i]);
    }
  }
  return labels;
}

std::optional<double> number_of_label(std::string_view label) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  if (error != std::errc{} || end != label.data() + label.size()) return std::nullopt;
  return value;
}

bool same_value(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return number(a) == number(b);
  if (a.data().index() != b.data().index()) return false;
  if (const auto* items = std::get_if<Value::List>(&a.data())) {
    const auto& others = std::get<Value::List>(b.data());
    return std::equal(items->begin(), items->end(), others.begin(), others.end(), same_value);
  }
  if (const auto* members = std::get_if<Value::Object>(&a.data())) {
    return members->size() == std::get<Value::Object>(b.data()).size() &&
           std::ranges::all_of(*members, [&](const Value::Member& member) {
             const Value* other = b.find(member.key);
             return other != nullptr && same_value(member.value, *other);
           });
  }
  if (const auto* text = std::get_if<std::string>(&a.data())) {
    return *text == std::get<std::string>(b.data());
  }
  if (const auto* truth = std::get_if<bool>(&a.data())) return *truth == std::get<bool>(b.data());
  return true;  // both are null
}

}  // namespace privgrad::core
