// The tree of values into which a manifest is read, with the line and column of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

/// A position in a manifest: 1-based; 0 for a default; below 0 for other origins, such as `--set`.
struct Mark {
  int line = 0;
  int column = 0;
};

/// One node of a manifest: the types that YAML and JSON have in common, and the node's position.
class PRIVGRAD_API Value {
 public:
  struct Member;
  using List = std::vector<Value>;
  using Object = std::vector<Member>;  ///< In the order of the file; keys are unique.
  using Data = std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Object>;

  // Defined in the library, so that plugins do not compile the copying of the whole tree again.
  Value();
  Value(bool value);
  Value(int value);
  Value(std::int64_t value);
  Value(double value);
  Value(const char* value);
  Value(std::string value);
  Value(List value);
  Value(Object value);
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  const Data& data() const noexcept { return data_; }
  Data& data() noexcept { return data_; }
  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(data_); }

  /// \returns the member of an object, or nullptr if it is absent or this is not an object.
  const Value* find(std::string_view key) const noexcept;
  Value* find(std::string_view key) noexcept;

  /// Adds or replaces a member; turns a null into an object.
  /// \throws ConfigError for other types.
  Value& set(std::string_view key, Value value);

  /// \returns "null", "a boolean", "an integer", "a real", "a text", "a list" or "an object".
  std::string_view type_name() const noexcept;

  Mark mark;

 private:
  Data data_;
};

struct Value::Member {
  std::string key;
  Value value;
  Mark key_mark;
};

/// \returns the shortest text that reads back as the same double ("0.1", "1e-08", "inf").
PRIVGRAD_API std::string format_number(double value);

}  // namespace privgrad
