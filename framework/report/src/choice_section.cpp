#include "choice_section.hpp"

#include "digits.hpp"
#include "html.hpp"
#include "record.hpp"

namespace privgrad::report {

using Json = nlohmann::json;
using core::short_bound;

std::string choice_section(const Json& results, const std::string& source) {
  const Json& choice = members(results, "choice", source);
  std::string html;
  for (const std::string& sentence : texts(choice, "words", source)) {
    html += paragraph(sentence);
  }
  HtmlTable table("What choosing the best of a random number of runs costs.",
                  {"number of runs", "expected runs", "epsilon", "delta", "by"},
                  {false, true, true, true, false});
  for (const Json& row : objects(choice, "random_number", source)) {
    const auto epsilon = number(row, "epsilon", source);
    table.add({text(row, "distribution", source).value_or("-"),
               digits(number(row, "expected_runs", source), 4),
               epsilon ? short_bound(*epsilon, kBoundDigits) : "infinite",
               digits(number(row, "delta", source), 3),
               text(row, "theorem", source).value_or("-")});
  }
  if (!table.empty()) html += table.html();
  if (html.empty()) {
    html = paragraph(
        "Choosing an arm by results on private rows costs privacy, which the epsilons above do not "
        "include.");
  }
  return section("choice", "The cost of choosing", html);
}

}  // namespace privgrad::report
