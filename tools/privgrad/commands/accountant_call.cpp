#include "accountant_call.hpp"

#include <charconv>
#include <cmath>

#include "privgrad/accountant.hpp"
#include "privgrad/value.hpp"

namespace privgrad::tool {
Option accountant_option() {
  return {"accountant", "NAME",
          "The accountant: a name, or with parameters '{kind: zcdp, conversion: classic}'; "
          "default: the one that proves the least cost."};
}

Option adjacency_option() {
  return {"adjacency", "A", "add_or_remove_one (default), replace_one or zero_out."};
}

Adjacency adjacency_of(const Arguments& arguments) {
  return arguments.has("adjacency") ? adjacency_from_text(arguments.text("adjacency"))
                                    : Adjacency::add_or_remove_one;
}

AccountantCall accountant_call(const Arguments& arguments, const Catalog& catalog) {
  if (!arguments.has("accountant")) throw UsageError("--accountant NAME is missing");
  return {arguments.text("accountant"), adjacency_of(arguments), catalog, "--accountant"};
}

double number_in(const std::string& option, const std::string& text, const Interval& allowed) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || !std::isfinite(value) ||
      (allowed.with_high ? value > allowed.high : value >= allowed.high) ||
      (allowed.with_low ? value < allowed.low : value <= allowed.low)) {
    throw UsageError("--" + option + " is '" + text + "', allowed is " +
                     (allowed.with_low ? "[" : "(") + format_number(allowed.low) + ", " +
                     format_number(allowed.high) + (allowed.with_high ? "]" : ")"));
  }
  return value;
}

}  // namespace privgrad::tool
