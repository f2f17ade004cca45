// Estimates that do not distinguish steps. With two repeats, Student's t has one degree of freedom
// (Cauchy): an interval of confidence c reaches tan(pi c / 2) standard errors, and for two
// estimates with 95 % together each has c = 0.975: 25.45.
#include <cmath>
#include <numbers>

#include "privgrad/studies/influence_study.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

std::string said(double first, double second, double standard_error, std::uint64_t repeats = 2) {
  const std::vector<InfluenceEstimate> estimates{{0, first, standard_error},
                                                 {9, second, standard_error}};
  return core::within_noise(estimates, repeats);
}

}  // namespace

TEST_CASE("estimates are within noise where one value lies in all of their intervals",
          "[influence]") {
  const double reach = std::tan(std::numbers::pi / 2.0 * 0.975);
  // 1 and 3 are 2 apart: the intervals meet if each reaches 1 in both directions.
  CHECK_THAT(said(1.0, 3.0, 1.01 / reach), ContainsSubstring("the same influence of every step"));
  CHECK(said(1.0, 3.0, 0.99 / reach) == "");
  // Both intervals also contain 0 if each reaches 3.
  CHECK_THAT(said(1.0, 3.0, 3.01 / reach), ContainsSubstring("no influence at all"));
  CHECK_THAT(said(1.0, 3.0, 2.99 / reach), ContainsSubstring("the same influence of every step"));
}

TEST_CASE("more repeats tell the same estimates apart", "[influence]") {
  CHECK(said(1.0, 3.0, 0.2, 2) != "");
  CHECK(said(1.0, 3.0, 0.2, 30) == "");
  CHECK_THAT(said(1.0, 3.0, 0.0, 1), ContainsSubstring("one run of each kind"));
}
