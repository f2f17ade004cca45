// How a component declares its parameters, and the checked values that it is created from.
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

/// One parameter of a component, declared once. Manifest checking, `plugins describe`, the JSON
/// Schema for editors and the component pages in docs/ all come from this declaration.
///
///     param::real("beta", "Share of the last velocity that is kept.")
///         .at_least(0)
///         .below(1)
///         .defaults_to(0.9)
struct PRIVGRAD_API ParamSpec {
  std::string name;  ///< lower_snake_case, unique in its component.
  std::string doc;   ///< One sentence or more, for people.
  ParamType type = ParamType::real;
  std::string unit;  ///< "" when dimensionless.
  bool required = true;
  std::optional<Value> default_value;
  std::optional<Value>
      example_value;               ///< A legal value; the conformance suite and the docs use it.
  std::optional<double> min, max;  ///< For numbers. A list gives its range to its elements.
  bool min_exclusive = false, max_exclusive = false;
  bool takes_auto = false;  ///< For numbers: the text `auto` may stand in their place.
  /// For paths: the file's name may have `*` and `?`, which stand for any characters and for one.
  /// The component then receives the absolute pattern, which fitted at least one file.
  bool takes_pattern = false;
  bool is_folder = false;            ///< For paths: a folder, not a file.
  std::size_t min_items = 0;         ///< For lists.
  std::vector<std::string> choices;  ///< For texts: the allowed values; empty: any.
  std::vector<ParamSpec> fields;     ///< For objects.
  std::vector<ParamSpec> element;    ///< For lists: exactly one, describing each element.

  // In the library, so that plugins compile no copies of them.
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
  /// The doc should say what number `auto` stands for. See Params::is_auto and Aggregator::auto_values().
  ParamSpec&& or_auto() &&;
  ParamSpec&& or_pattern() &&;
  ParamSpec&& of_folder() &&;
  ParamSpec&& one_of(std::vector<std::string> values) &&;
  ParamSpec&& in_unit(std::string value) &&;
  ParamSpec&& at_least_items(std::size_t count) &&;
  ParamSpec&& defaults_to(Value value) &&;  ///< Implies that it need not be given.
  ParamSpec&& optional() &&;            ///< Need not be given and has no default; see Params::has.
  ParamSpec&& example(Value value) &&;  ///< For required parameters: a legal value.
};

namespace param {
PRIVGRAD_API ParamSpec boolean(std::string name, std::string doc);
PRIVGRAD_API ParamSpec integer(std::string name, std::string doc);
PRIVGRAD_API ParamSpec real(std::string name, std::string doc);
PRIVGRAD_API ParamSpec text(std::string name, std::string doc);
/// A file. Relative paths are looked up beside the manifest, then in PRIVGRAD_DATA_DIR; the
/// component receives the absolute path of a file that existed when the manifest was checked.
PRIVGRAD_API ParamSpec path(std::string name, std::string doc);
/// A list whose elements look like `element` (whose own name and doc are not used).
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
/// completed with defaults. Asking for a name that the declaration lacks, or for the wrong type,
/// throws PluginError: that is a bug of the component.
class PRIVGRAD_API Params {
 public:
  Params() = default;

  /// Checks everything and appends every problem found; the result is usable only if none was
  /// added. Members named in `ignored` are skipped (for keys that the framework reads itself, like
  /// `kind`).
  static Params check(const std::vector<ParamSpec>& specs, const Value& given,
                      std::vector<Problem>& problems,
                      const std::vector<std::string_view>& ignored = {});

  /// For code and tests.
  /// \throws ConfigError listing every problem, headed by `component`.
  static Params make(std::string_view component, const std::vector<ParamSpec>& specs,
                     const Value& given);

  bool has(
      std::string_view name) const;  ///< False only for an optional parameter that was not given.
  /// Whether `auto` was given for a number that takes it; asking for the number is a bug then.
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

  /// The whole object with every default filled in, as it goes into the resolved manifest.
  const Value& value() const noexcept { return value_; }

 private:
  explicit Params(Value value) : value_(std::move(value)) {}
  const Value& at(std::string_view name) const;
  Value value_{Value::Object{}};
};

/// \returns the candidate nearest to `name` by edit distance if it is near enough to be a typing
///   error, else "".
PRIVGRAD_API std::string nearest_name(std::string_view name,
                                      const std::vector<std::string>& candidates);

}  // namespace privgrad
