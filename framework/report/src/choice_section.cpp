#include "choice_section.hpp"

#include "digits.hpp"
#include "html.hpp"

namespace privgrad::report {

using core::short_bound;

std::string choice_section(const core::BestArmFacts& choice) {
  std::string html;
  for (const std::string& sentence : choice.words) html += paragraph(sentence);
  HtmlTable table("What choosing the best of a random number of runs costs.",
                  {"number of runs", "expected runs", "epsilon", "delta", "by"},
                  {false, true, true, true, false});
  for (const core::RandomNumberCost& row : choice.random_number) {
    table.add({row.distribution, digits(row.expected_runs, 4),
               row.epsilon ? short_bound(*row.epsilon, kBoundDigits) : "infinite",
               digits(row.delta, 3), row.theorem});
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
