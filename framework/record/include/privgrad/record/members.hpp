// Macros for structs of facts, whose members are named as in JSON files (facts.hpp).
#pragma once

#include <boost/preprocessor/seq/for_each.hpp>
#include <boost/preprocessor/seq/for_each_i.hpp>
#include <boost/preprocessor/seq/seq.hpp>
#include <boost/preprocessor/stringize.hpp>
#include <boost/preprocessor/tuple/elem.hpp>
#include <boost/preprocessor/tuple/to_seq.hpp>
#include <boost/preprocessor/variadic/to_seq.hpp>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

/// Declares the members of a struct from groups (type, name, name, ...), and defines members(),
/// which calls use(name, member) for each. Members begin as zero, empty or false. A final
/// underscore, as in `short_`, is not part of the name in files.
#define PRIVGRAD_FACTS(...) PRIVGRAD_FACTS_AFTER(, BOOST_PP_VARIADIC_TO_SEQ(__VA_ARGS__))
/// PRIVGRAD_FACTS for a struct derived from Base, which also has members().
#define PRIVGRAD_FACTS_BESIDE(Base, ...) \
  PRIVGRAD_FACTS_AFTER(Base::members(self, use);, BOOST_PP_VARIADIC_TO_SEQ(__VA_ARGS__))

#define PRIVGRAD_FACTS_AFTER(first, groups)                   \
  BOOST_PP_SEQ_FOR_EACH(PRIVGRAD_DECLARE_GROUP, , groups)     \
  using IsFacts = void;                                       \
  static void members(auto& self, const auto& use) {          \
    first BOOST_PP_SEQ_FOR_EACH(PRIVGRAD_USE_GROUP, , groups) \
  }
#define PRIVGRAD_NAMES(group) BOOST_PP_SEQ_TAIL(BOOST_PP_TUPLE_TO_SEQ(group))
#define PRIVGRAD_DECLARE_GROUP(r, _, group)                                          \
  BOOST_PP_SEQ_FOR_EACH_I_R(r, PRIVGRAD_DECLARE_FACT, BOOST_PP_TUPLE_ELEM(0, group), \
                            PRIVGRAD_NAMES(group))
#define PRIVGRAD_USE_GROUP(r, _, group) \
  BOOST_PP_SEQ_FOR_EACH_I_R(r, PRIVGRAD_USE_FACT, , PRIVGRAD_NAMES(group))
#define PRIVGRAD_DECLARE_FACT(r, type, i, name) type name{};
#define PRIVGRAD_USE_FACT(r, _, i, name) \
  use(::privgrad::core::written_name(BOOST_PP_STRINGIZE(name)), self.name);

namespace privgrad::core {

constexpr std::string_view written_name(std::string_view name) {
  return name.substr(0, name.size() - (name.ends_with('_') ? 1 : 0));
}

/// A member that is written as null if it has no value. A std::optional without a value is not
/// written.
template <class T>
struct Nullable : std::optional<T> {
  using std::optional<T>::optional;
  Nullable(std::optional<T> value) : std::optional<T>(std::move(value)) {}
  bool operator==(const Nullable&) const = default;
  std::optional<T>& plain() { return *this; }
  const std::optional<T>& plain() const { return *this; }
};

/// \returns nothing for infinity or NaN.
inline Nullable<double> finite(double value) {
  return std::isfinite(value) ? Nullable<double>(value) : Nullable<double>();
}

/// A text, list or map that is not written if it is empty.
template <class T>
struct UnlessEmpty : T {
  using T::T;
  UnlessEmpty(T value) : T(std::move(value)) {}
};

bool is_written(const auto&) { return true; }
template <class T>
bool is_written(const std::optional<T>& fact) {
  return fact.has_value();
}
template <class T>
bool is_written(const UnlessEmpty<T>& fact) {
  return !fact.empty();
}

}  // namespace privgrad::core
