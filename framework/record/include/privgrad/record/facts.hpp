// Writes structs of facts (members.hpp) as JSON objects, and reads them.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "privgrad/error.hpp"
#include "privgrad/record/members.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::core {

template <class T>
concept Facts = requires {
  typename T::IsFacts;
};

/// \returns the fact as JSON; null for a number that is not finite.
template <class T>
nlohmann::json fact_json(const T& fact) {
  if constexpr (Facts<T>) {
    nlohmann::json json = nlohmann::json::object();
    T::members(fact, [&json](std::string_view name, const auto& member) {
      if (is_written(member)) json[std::string(name)] = fact_json(member);
    });
    return json;
  } else if constexpr (std::floating_point<T>) {
    return json_number(static_cast<double>(fact));
  } else if constexpr (requires { fact.index(); }) {
    return std::visit([](const auto& one) { return fact_json(one); }, fact);
  } else if constexpr (requires { fact.has_value(); }) {
    return fact ? fact_json(*fact) : nlohmann::json(nullptr);
  } else if constexpr (std::integral<T> || requires { fact.substr(); } ||
                       std::same_as<T, nlohmann::json>) {
    return fact;
  } else if constexpr (requires { typename T::mapped_type; }) {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& [name, one] : fact) json[name] = fact_json(one);
    return json;
  } else {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& one : fact) list.push_back(fact_json(one));
    return list;
  }
}

template <Facts T>
nlohmann::json to_json(const T& facts) {
  return fact_json(facts);
}

/// The place of a fact, for errors.
struct FactPlace {
  const std::string& source;
  std::string_view name;
  bool is_in_list = false;

  /// \throws IoError unless `holds`.
  /// \param wanted  such as "a number".
  void expect(bool holds, const std::string& wanted) const {
    const char* const is = is_in_list ? "' holds something that is not " : "' is not ";
    if (!holds) throw IoError(source + ": '" + std::string(name) + is + wanted);
  }
};

/// Reads a fact, checking only types. Members that are null or missing keep their values.
/// \throws IoError for a value of the wrong type.
template <class T>
void read_fact(const nlohmann::json& json, const FactPlace& at, T& fact) {
  if constexpr (Facts<T>) {
    at.expect(json.is_object(), "an object");
    T::members(fact, [&](std::string_view name, auto& member) {
      const auto found = json.find(name);
      if (found == json.end()) return;
      if (!found->is_null()) return read_fact(*found, {at.source, name}, member);
      if constexpr (requires { member->has_value(); }) member.emplace();
    });
  } else if constexpr (requires { fact.index(); }) {
    // The second alternative is a text or a list; the first is neither.
    if (json.is_array() || json.is_string()) fact.template emplace<1>();
    std::visit([&](auto& one) { read_fact(json, at, one); }, fact);
  } else if constexpr (requires { fact.has_value(); }) {
    if (!json.is_null()) read_fact(json, at, fact.emplace());
  } else if constexpr (std::same_as<T, nlohmann::json>) {
    fact = json;
  } else if constexpr (std::same_as<T, bool>) {
    at.expect(json.is_boolean(), "true or false");
    fact = json.get<bool>();
  } else if constexpr (std::integral<T>) {
    at.expect(json.is_number(), "a number");
    const bool is_count = json.is_number_unsigned() || (json.is_number_integer() && json >= 0);
    at.expect(is_count, "a whole number of at least 0");
    fact = json.get<T>();
  } else if constexpr (std::floating_point<T>) {
    at.expect(json.is_number(), "a number");
    fact = json.get<T>();
  } else if constexpr (requires { fact.substr(); }) {
    at.expect(json.is_string(), "text");
    fact = json.get<std::string>();
  } else if constexpr (requires { typename T::mapped_type; }) {
    at.expect(json.is_object(), "an object");
    for (const auto& [name, one] : json.items()) read_fact(one, {at.source, name}, fact[name]);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    at.expect(json.is_array() && json.size() == fact.size(),
              "a list of " + std::to_string(fact.size()));
    for (std::size_t i = 0; i < fact.size(); ++i)
      read_fact(json[i], {at.source, at.name, true}, fact[i]);
  } else {
    at.expect(json.is_array(), "a list");
    for (const auto& one : json) read_fact(one, {at.source, at.name, true}, fact.emplace_back());
  }
}

/// \param source  the name of the file, for errors.
/// \throws IoError if `json` is not an object, or a value in it has the wrong type.
template <Facts T>
T facts_in(const nlohmann::json& json, const std::string& source) {
  if (!json.is_object()) throw IoError(source + ": holds no JSON object, as PrivGrad writes it");
  T facts;
  read_fact(json, {source, ""}, facts);
  return facts;
}

}  // namespace privgrad::core
