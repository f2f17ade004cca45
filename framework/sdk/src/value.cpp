#include "privgrad/value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "privgrad/error.hpp"

namespace privgrad {

Value::Value() = default;
Value::Value(bool value) : data_(value) {}
Value::Value(int value) : data_(std::int64_t{value}) {}
Value::Value(std::int64_t value) : data_(value) {}
Value::Value(double value) : data_(value) {}
Value::Value(const char* value) : data_(std::string(value)) {}
Value::Value(std::string value) : data_(std::move(value)) {}
Value::Value(List value) : data_(std::move(value)) {}
Value::Value(Object value) : data_(std::move(value)) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

const Value* Value::find(std::string_view key) const noexcept {
  const auto* object = std::get_if<Object>(&data_);
  if (object == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(*object, [&](const Member& member) { return member.key == key; });
  return found == object->end() ? nullptr : &found->value;
}

Value* Value::find(std::string_view key) noexcept {
  return const_cast<Value*>(static_cast<const Value*>(this)->find(key));
}

Value& Value::set(std::string_view key, Value value) {
  if (is_null()) data_ = Object{};
  auto* object = std::get_if<Object>(&data_);
  if (object == nullptr) {
    throw ConfigError("cannot set '" + std::string(key) + "' inside " + std::string(type_name()));
  }
  if (Value* member = find(key)) {
    *member = std::move(value);
    return *member;
  }
  const Mark key_mark = value.mark;
  return object->emplace_back(Member{std::string(key), std::move(value), key_mark}).value;
}

std::string_view Value::type_name() const noexcept {
  constexpr std::string_view kNames[] = {"null",   "a boolean", "an integer", "a real",
                                         "a text", "a list",    "an object"};
  static_assert(std::size(kNames) == std::variant_size_v<Data>);
  return kNames[data_.index()];
}

std::string format_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::string(text.data(), end) : std::string("?");
}

}  // namespace privgrad
