#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 64;

const std::vector<std::string> kDistributions{"geometric", "poisson",
                                              "truncated_negative_binomial"};

/// The reader's place in the document, for error messages; a linked list on the stack.
struct Place {
  const Place* outer = nullptr;
  std::string name;

  std::string text() const {
    if (outer == nullptr) return name;
    const std::string before = outer->text();
    return before.empty() ? name : before + "." + name;
  }
  int depth() const { return outer == nullptr ? 0 : outer->depth() + 1; }
};

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  Event event(const Json& json, const Place& place) const {
    if (place.depth() > 2 * kDeepest)
      fail(place, "is nested deeper than " + std::to_string(kDeepest) + " events");
    if (!json.is_object())
      fail(place, "is " + kind_of(json) + ", expected an object with a member \"event\"");
    const std::string name = text(json, "event", place);
    try {
      return of_name(std::type_identity<Event::Kind>{}, name, json, place);
    } catch (const PlacedError&) {
      throw;
    } catch (const ConfigError& problem) {  // e.g. a number out of the range that Event checks
      fail(place, problem.what());
    }
  }

 private:
  /// Marks an error that already names its place, so that outer readers do not add another place.
  class PlacedError : public ConfigError {
   public:
    using ConfigError::ConfigError;
  };

  template <class... Kinds>
  Event of_name(std::type_identity<std::variant<Kinds...>>, const std::string& name,
                const Json& json, const Place& place) const {
    std::optional<Event> read;
    if (((name == Kinds::kKind && (read = of_kind<Kinds>(json, place))) || ...)) return *read;
    const std::string nearest = did_you_mean(name, {std::string(Kinds::kKind)...});
    fail({&place, "event"}, "is '" + name + "', which is not an event" +
                                (nearest.empty() ? "; see docs/accounting.md" : nearest));
  }

  template <class Kind>
  Event of_kind(const Json& json, const Place& place) const {
    if constexpr (std::is_same_v<Kind, RepeatAndSelectEvent>) {
      return selection(json, place);
    } else {
      Kind read;
      std::vector<std::string> names;
      Kind::members([&](const char* name, const auto&) { names.emplace_back(name); }, read);
      only(json, names, place);
      Kind::members([&](const char* name, auto& value) { get(json, name, place, value); }, read);
      return Event(std::move(read));
    }
  }

  void get(const Json& json, const char* name, const Place& place, double& value) const {
    value = real(json, name, place);
  }
  void get(const Json& json, const char* name, const Place& place, std::int64_t& value) const {
    value = integer(json, name, place);
  }
  void get(const Json& json, const char* name, const Place& place, std::string& value) const {
    value = text(json, name, place);
  }
  void get(const Json& json, const char* name, const Place& place,
           std::shared_ptr<const Event>& value) const {
    value = std::make_shared<const Event>(event(member(json, name, place), {&place, name}));
  }
  void get(const Json& json, const char* name, const Place& place,
           std::vector<Event>& value) const {
    value = parts(json, name, place);
  }

  Event selection(const Json& json, const Place& place) const {
    const std::string distribution = text(json, "distribution", place);
    double shape = 1.0;
    if (distribution == "truncated_negative_binomial") {
      only(json, {"distribution", "mean", "shape", "candidates"}, place);
      shape = real(json, "shape", place);
    } else if (distribution == "geometric" || distribution == "poisson") {
      only(json, {"distribution", "mean", "candidates"}, place);
      if (distribution == "poisson") shape = RepeatAndSelectEvent::kPoisson;
    } else {
      fail({&place, "distribution"},
           "is '" + distribution + "', expected geometric, poisson or truncated_negative_binomial" +
               did_you_mean(distribution, kDistributions));
    }
    return Event::repeat_and_select(real(json, "mean", place), shape,
                                    parts(json, "candidates", place));
  }

  std::vector<Event> parts(const Json& json, const char* name, const Place& place) const {
    const Place list{&place, name};
    const Json& of = member(json, name, place);
    if (!of.is_array()) fail(list, "is " + kind_of(of) + ", expected a list of events");
    std::vector<Event> events;
    events.reserve(of.size());
    for (std::size_t i = 0; i < of.size(); ++i)
      events.push_back(event(of[i], {&list, std::to_string(i)}));
    return events;
  }

  const Json& member(const Json& json, const char* name, const Place& place) const {
    const auto found = json.find(name);
    if (found == json.end()) fail({&place, name}, "is missing");
    return *found;
  }

  double real(const Json& json, const char* name, const Place& place) const {
    const Json& value = member(json, name, place);
    if (!value.is_number()) fail({&place, name}, "is " + kind_of(value) + ", expected a number");
    return value.get<double>();
  }

  std::int64_t integer(const Json& json, const char* name, const Place& place) const {
    const Json& value = member(json, name, place);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
      fail({&place, name}, "does not fit in 63 bits");
    }
    if (!value.is_number_integer())
      fail({&place, name}, "is " + kind_of(value) + ", expected an integer");
    return value.get<std::int64_t>();
  }

  std::string text(const Json& json, const char* name, const Place& place) const {
    const Json& value = member(json, name, place);
    if (!value.is_string()) fail({&place, name}, "is " + kind_of(value) + ", expected a text");
    return value.get<std::string>();
  }

  void only(const Json& json, const std::vector<std::string>& known, const Place& place) const {
    for (const auto& [key, value] : json.items()) {
      if (key == "event" || std::ranges::find(known, key) != known.end()) continue;
      fail({&place, key}, "is unknown" + did_you_mean(key, known));
    }
  }

  static std::string kind_of(const Json& json) {
    if (json.is_null()) return "null";
    if (json.is_number_float()) return "a real";
    if (json.is_number()) return "an integer";
    const std::string type = json.type_name();
    return (json.is_array() || json.is_object() ? "an " : "a ") + type;
  }

  [[noreturn]] void fail(const Place& place, const std::string& what) const {
    const std::string where = place.text();
    throw PlacedError(std::string(source_) + ": " + (where.empty() ? "the event " : where + ": ") +
                      what);
  }

  std::string_view source_;
};

/// Builds the document, and stops if it is nested too deeply or too large: nlohmann's parser is
/// iterative, but its documents are traversed recursively.
Json parse(std::string_view text, std::string_view source) {
  if (text.size() > kMostEventBytes) {
    throw ConfigError(std::string(source) +
                      ": is longer than 64 MiB, the most that an event may have");
  }
  if (const std::string wrong = json_problem(3 * kDeepest, text); !wrong.empty())
    throw ConfigError(std::string(source) + ": " + wrong);
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    throw ConfigError(std::string(source) + ": is empty, expected an event");
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& problem) {
    const auto end =
        text.begin() + static_cast<std::ptrdiff_t>(std::min(problem.byte, text.size()));
    const auto line = 1 + std::count(text.begin(), end, '\n');
    throw ConfigError(std::string(source) + ":" + std::to_string(line) + ": is not JSON (byte " +
                      std::to_string(problem.byte) + ")");
  } catch (const Json::out_of_range&) {
    throw ConfigError(std::string(source) + ": has a number that is too large for a double");
  }
}

}  // namespace

Event event_from_json(std::string_view text, std::string_view source) {
  return Reader(source).event(parse(text, source), Place{});
}

}  // namespace privgrad::core
