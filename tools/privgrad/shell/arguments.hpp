// Command lines: the options and operands of a subcommand, their parsing, and the text of --help.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::tool {

/// An error in the call itself, not in the files that it names.
class UsageError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// An option of a subcommand.
struct Option {
  std::string name;   ///< The name without dashes: "out".
  std::string value;  ///< The value's name in help, such as "DIR"; "" if it takes none.
  std::string doc;
  bool repeatable = false;
  /// The value if the option is given without one; an explicit value then needs '='.
  std::optional<std::string> implied = {};
  char letter = '\0';  ///< Its short form: 'q' for -q.
};

/// Returns --quiet and -q, for every subcommand that shows its progress.
Option quiet_option();

/// The syntax of a subcommand. The parser uses it and --help prints it.
struct Usage {
  std::string name;                   ///< "plugins list".
  std::string summary;                ///< One line.
  std::vector<std::string> operands;  ///< Their names in help: "MANIFEST".
  std::size_t optional_operands = 0;  ///< How many of the last operands may be left out.
  bool repeats_operand = false;       ///< Whether the last operand may be repeated.
  std::vector<Option> options;
  std::string details = {};  ///< Paragraphs after the options; ends without a line break.
  std::vector<std::string> examples;
  std::string instead = {};  ///< An option that replaces the operands: "resume".
};

/// The parsed arguments of one call. Reading an option that the Usage does not declare is a bug.
class Arguments {
 public:
  bool has(const std::string& option) const { return options_.contains(option); }
  /// Returns the last value given.
  /// \pre has(option)
  const std::string& text(const std::string& option) const { return options_.at(option).back(); }
  /// Returns all values of the option, in the order given; none if it was not given.
  std::vector<std::string> texts(const std::string& option) const;
  const std::string& operand(std::size_t i) const { return operands_.at(i); }
  std::size_t operand_count() const { return operands_.size(); }

 private:
  friend Arguments parse(const Usage& usage, const std::vector<std::string>& given);
  std::map<std::string, std::vector<std::string>> options_;
  std::vector<std::string> operands_;
};

/// \throws UsageError that names the mistake and the nearest valid name.
Arguments parse(const Usage& usage, const std::vector<std::string>& given);

/// Returns text like "privgrad run MANIFEST [OPTION]..."
std::string call_line(const Usage& usage);

/// Returns text like "-q, --quiet", "--out DIR".
std::string option_head(const Option& option);

/// Returns the description of an option in help.
std::string option_doc(const Option& option);

/// Returns the options of the usage, plus --help.
std::vector<Option> all_options(const Usage& usage);

/// Returns the page that --help prints.
std::string help_text(const Usage& usage);

/// Breaks `text` into lines of at most `width` characters; all lines but the first are indented by
/// `indent`.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

/// \returns `text` as a whole number in [low, high].
/// \throws UsageError that names the option.
int whole_number(const std::string& option, const std::string& text, int low, int high);

}  // namespace privgrad::tool
