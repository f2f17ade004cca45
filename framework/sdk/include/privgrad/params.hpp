// How a component declares its parameters, and the checked values from which it is created.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/export.hpp"
#include "privgrad/value.hpp"

namespace privgrad {

enum class ParamType { boolean, integer, real, text, path, list, object };

/// One parameter of a component, declared once. The checks of manifests, `plugins describe`, the
/// JSON Schema for editors and the component pages in docs/ all use this declaration.
///
///     param::real("beta", "Share of the last velocity that is kept.")
///         .at_least(0)
///         .below(1)
///         .defaults_to(0.9)
struct PRIVGRAD_API ParamSpec {
  std::string name;  ///< lower_snake_case, unique within the component.
  std::string doc;   ///< One sentence or more, for people.
  ParamType type = ParamType::real;
  std::string unit;  ///< "" if dimensionless.
  bool required = true;
  std::optional<Value> default_value;
  std::optional<Value> example_value;  ///< A valid value; the conformance suite and docs use it.
  std::optional<double> min, max;  ///< For numbers. The range of a list applies to its elements.
  bool min_exclusive = false, max_exclusive = false;
  bool takes_auto = false;  ///< For numbers: the text `auto` is allowed too.
  /// For paths: the file name may contain `*` and `?`, which match any text and any single
  /// character. The component then receives the absolute pattern, which matched at least one file.
  bool takes_pattern = false;
  bool is_folder = false;            ///< For paths: a folder, not a file.
  std::size_t min_items = 0;         ///< For lists.
  std::vector<std::string> choices;  ///< For texts: the allowed values; empty: any.
  std::vector<ParamSpec> fields;     ///< For objects.
  std::vector<ParamSpec> element;    ///< For lists: exactly one, which describes each element.

  // Defined in the library, so that plugins do not compile copies.
  ParamSpec();
  ParamSpec(const ParamSpec& other);
  ParamSpec(ParamSpec&& other) noexcept;
  ParamSpec& operator=(const ParamSpec& other);
  ParamSpec& operator=(ParamSpec&& other) noexcept;
  ~ParamSpec();

  ParamSpec&& at_least(double value) &&;
  ParamSpec&& above(double value) &&;
  ParamSpec&& at_most(double value) &&;
  ParamSpec&& below(double value) &&;
  /// The doc should say what number `auto` stands for. See Params::is_auto.
  ParamSpec&& or_auto() &&;
  ParamSpec&& or_pattern() &&;
  ParamSpec&& of_folder() &&;
  ParamSpec&& one_of(std::vector<std::string> values) &&;
  ParamSpec&& in_unit(std::string value) &&;
  ParamSpec&& at_least_items(std::size_t count) &&;
  ParamSpec&& defaults_to(Value value) &&;  ///< Implies that the parameter may be left out.
  ParamSpec&& optional() &&;            ///< It may be left out and has no default; see Params::has.
  ParamSpec&& example(Value value) &&;  ///< For required parameters: a valid value.
};

namespace param {
PRIVGRAD_API ParamSpec boolean(std::string name, std::string doc);
PRIVGRAD_API ParamSpec integer(std::string name, std::string doc);
PRIVGRAD_API ParamSpec real(std::string name, std::string doc);
PRIVGRAD_API ParamSpec text(std::string name, std::string doc);
/// Declares a file. Relative paths are looked up beside the manifest, then in PRIVGRAD_DATA_DIR;
/// the component receives the absolute path of a file that existed when the manifest was checked.
PRIVGRAD_API ParamSpec path(std::string name, std::string doc);
/// Declares a list with elements as declared by `element` (whose own name and doc are not used).
PRIVGRAD_API ParamSpec list(std::string name, std::string doc, ParamSpec element);
PRIVGRAD_API ParamSpec object(std::string name, std::string doc, std::vector<ParamSpec> fields);
}  // namespace param

/// A problem at one place of a manifest.
struct Problem {
  Mark mark;
  std::string where;  ///< Dotted path inside the component, e.g. "influence.gamma".
  std::string what;   ///< The problem, and what is allowed instead.
};

/// The parameters of one component (or of one nested object), checked against its declaration and
/// completed with defaults. Reading a name that is not declared, or as the wrong type, throws
/// PluginError, because it is a bug of the component.
class PRIVGRAD_API Params {
 public:
  Params() = default;

  /// Checks everything and appends every problem found; the result is usable only if no problem was
  /// added. Skips members named in `ignored`, which are keys that the framework reads itself, like
  /// `kind`.
  static Params check(const std::vector<ParamSpec>& specs, const Value& given,
                      std::vector<Problem>& problems,
                      const std::vector<std::string_view>& ignored = {});

  /// Like check(), but throws if there is a problem; for code and tests.
  /// \throws ConfigError that lists every problem under the heading `component`.
  static Params make(std::string_view component, const std::vector<ParamSpec>& specs,
                     const Value& given);

  bool has(
      std::string_view name) const;  ///< False only for an optional parameter that was left out.
  /// Whether `auto` was given for a number that allows it; reading the number is a bug then.
  bool is_auto(std::string_view name) const;
  double real(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  std::filesystem::path path(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  Params object(std::string_view name) const;
  std::vector<Params> objects(std::string_view name) const;

  /// The whole object with all defaults filled in, as it appears in the resolved manifest.
  const Value& value() const noexcept { return value_; }

 private:
  explicit Params(Value value) : value_(std::move(value)) {}
  const Value& at(std::string_view name) const;
  Value value_{Value::Object{}};
};

/// \returns the candidate nearest to `name` by edit distance if it is near enough to suggest a
///   typing error, otherwise "".
PRIVGRAD_API std::string nearest_name(std::string_view name,
                                      const std::vector<std::string>& candidates);

}  // namespace privgrad
