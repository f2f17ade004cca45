#include "arguments.hpp"

#include <algorithm>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <charconv>

#include "privgrad/names.hpp"
#include "privgrad/params.hpp"

namespace privgrad::tool {
namespace {

namespace po = boost::program_options;

[[noreturn]] void fail(const Usage& usage, const std::string& what) {
  throw UsageError(what + "; see privgrad " + usage.name + " --help");
}

po::options_description described(const Usage& usage) {
  po::options_description description;
  auto add = description.add_options();
  for (const Option& option : usage.options) {
    const std::string names =
        option.name + (option.letter != 0 ? "," + std::string(1, option.letter) : "");
    if (option.value.empty()) {
      add(names.c_str(), "");
      continue;
    }
    auto* value = po::value<std::string>();
    if (option.implied) value->implicit_value(*option.implied);
    add(names.c_str(), value, "");
  }
  return description;
}

[[noreturn]] void fail_unknown(const Usage& usage, const std::string& name) {
  std::vector<std::string> known{"--help"};
  for (const Option& option : usage.options) known.push_back("--" + option.name);
  fail(usage,
       "privgrad " + usage.name + " has no option '" + name + "'" + did_you_mean(name, known));
}

std::vector<po::option> tokens(const Usage& usage, const std::vector<std::string>& given) {
  namespace style = po::command_line_style;
  const po::options_description description = described(usage);
  try {
    // Abbreviations are not accepted, because a new option can make an abbreviation ambiguous.
    return po::command_line_parser(given)
        .options(description)
        .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next |
               style::allow_short | style::allow_dash_for_short | style::short_allow_next)
        .run()
        .options;
  } catch (const po::unknown_option& problem) {
    fail_unknown(usage, problem.get_option_name());
  } catch (const po::invalid_command_line_syntax& problem) {
    const std::string& option = problem.get_option_name();
    const bool missing = problem.kind() == po::invalid_syntax::missing_parameter;
    fail(usage, option + (missing ? " needs a value" : " takes no value"));
  } catch (const po::error& problem) {
    fail(usage, problem.what());
  }
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > 0 && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  return out;
}

std::string call_line(const Usage& usage) {
  std::string line = "privgrad " + usage.name;
  const std::size_t required = usage.operands.size() - usage.optional_operands;
  for (std::size_t i = 0; i < usage.operands.size(); ++i)
    line += i < required ? " " + usage.operands[i] : " [" + usage.operands[i] + "]";
  return line + (usage.options.empty() ? "" : " [OPTION]...");
}

std::string option_head(const Option& option) {
  std::string head = option.letter != 0 ? std::string{'-', option.letter, ',', ' '} : "";
  head += "--" + option.name;
  if (option.implied) return head + "[=" + option.value + "]";
  return option.value.empty() ? head : head + " " + option.value;
}

std::string option_doc(const Option& option) {
  return option.doc + (option.repeatable ? " May be given several times." : "");
}

std::vector<Option> all_options(const Usage& usage) {
  std::vector<Option> options = usage.options;
  options.push_back({"help", "", "Print this page."});
  return options;
}

Option quiet_option() {
  return {.name = "quiet", .value = "", .doc = "Show no progress.", .letter = 'q'};
}

std::vector<std::string> Arguments::texts(const std::string& option) const {
  const auto found = options_.find(option);
  return found == options_.end() ? std::vector<std::string>{} : found->second;
}

Arguments parse(const Usage& usage, const std::vector<std::string>& given) {
  Arguments arguments;
  for (const po::option& token : tokens(usage, given)) {
    if (token.string_key.empty()) {
      arguments.operands_.push_back(token.value.front());
      continue;
    }
    const auto option = std::ranges::find_if(
        usage.options, [&](const Option& o) { return o.name == token.string_key; });
    auto& values = arguments.options_[token.string_key];
    if (!option->repeatable && !values.empty())
      fail(usage, "--" + option->name + " is given twice");
    values.push_back(!token.value.empty() ? token.value.front() : option->implied.value_or(""));
  }
  const bool is_replaced = !usage.instead.empty() && arguments.has(usage.instead);
  const std::size_t most = is_replaced ? 0 : usage.operands.size();
  if (!is_replaced && arguments.operands_.size() < most - usage.optional_operands) {
    fail(usage, usage.operands[arguments.operands_.size()] + " is missing: " + call_line(usage));
  }
  if (arguments.operands_.size() > most && !usage.repeats_operand) {
    fail(usage, "'" + arguments.operands_[most] + "' is one too many: " + call_line(usage));
  }
  return arguments;
}

std::string help_text(const Usage& usage) {
  constexpr std::size_t kDocColumn = 24;
  constexpr std::size_t kWidth = 100;
  std::string text = "usage: " + call_line(usage) + "\n\n" + usage.summary + "\n";
  text += "\noptions:\n";
  for (const Option& option : all_options(usage)) {
    std::string head = "  " + option_head(option);
    head += head.size() + 2 > kDocColumn ? "\n" + std::string(kDocColumn, ' ')
                                         : std::string(kDocColumn - head.size(), ' ');
    text += head + wrapped(option_doc(option), kDocColumn, kWidth - kDocColumn) + "\n";
  }
  if (!usage.details.empty()) text += "\n" + usage.details + "\n";
  text += "\nexamples:\n";
  for (const std::string& example : usage.examples) text += "  " + example + "\n";
  return text;
}

int whole_number(const std::string& option, const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw UsageError("--" + option + " is '" + text + "', allowed is a whole number in [" +
                     std::to_string(low) + ", " + std::to_string(high) + "]");
  }
  return value;
}

}  // namespace privgrad::tool
