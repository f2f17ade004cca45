#include "lead_prose.hpp"

#include <cmath>

#include "privgrad/record/short_numbers.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

bool protects_clients(const Statement& statement) { return statement.unit == "client"; }

std::string who(const Statement& statement) {
  return protects_clients(statement)
             ? "Who is protected. Each single client, with all its examples."
             : "Who is protected. Each single training example, one row of the training data after "
               "preprocessing; a person with several rows is not protected as a whole.";
}

/// A share in percent, rounded up.
int of_hundred(double share) { return static_cast<int>(std::ceil(100.0 * share)); }

std::string how_much(const Statement& statement) {
  const MembershipTest test = statement.membership_test.value_or(MembershipTest{});
  const std::string wrongly = std::to_string(std::lround(100.0 * test.wrongly_accused));
  const int found = of_hundred(test.found_at_most);
  if (found >= 100) {
    return "How much. Nothing that is proved keeps a test that wrongly accuses " + wrongly +
           " of 100 outsiders of having been in the training data from finding every member.";
  }
  return "How much. Whatever it makes of the models after every step, a test that wrongly "
         "accuses " +
         wrongly + " of 100 outsiders of having been in the training data finds at most " +
         std::to_string(found) + " of 100 members; a guess finds " + wrongly + ".";
}

/// Returns 1 / probability as an integer, rounded down, so that "1 in N" does not understate the
/// probability.
std::string one_in(double probability) {
  const double times = 1.0 / probability, nearest = std::round(times);
  const bool is_rounding = std::fabs(times - nearest) <= 1e-9 * nearest;
  return short_number(is_rounding ? nearest : std::floor(times), 15);
}

/// Explains epsilon and delta by the mechanism that dominates all (epsilon, delta)-private
/// mechanisms: anyone can compute their outputs from its output, without the data. With probability
/// delta the dominating mechanism reveals the data set; otherwise it is a randomised response with
/// odds of exp(epsilon) (Kairouz, Oh and Viswanath 2015).
std::string what_numbers_mean(const Statement& statement) {
  const double delta = statement.delta;
  const std::string chance = " with a probability of 1 in " + one_in(delta);
  const std::string at = " at delta = " + format_number(delta);
  const std::string unit = protects_clients(statement) ? "client" : "example";
  if (!statement.epsilon) return "Epsilon and delta. No finite epsilon is proved" + at + ".";
  return "Epsilon and delta. Epsilon is at most " + short_bound(*statement.epsilon, 5) + at +
         ": the run protects each " + unit +
         " at least as well as one that gives it away with a probability of 1 in " + one_in(delta) +
         ", and each of whose outcomes is otherwise at most " +
         short_bound(std::exp(*statement.epsilon), 3) +
         " times as likely, or as unlikely, with the " + unit +
         (statement.adjacency == "replace_one" ? " as with any other in its place."
                                               : " as without it.");
}

}  // namespace

std::vector<std::string> lead_prose(const Statement& statement) {
  if (!statement.noise) return {};
  return {who(statement), how_much(statement), what_numbers_mean(statement)};
}

}  // namespace privgrad::core
