// Operations on the features of an example, compared with numbers computed by hand.
#include "privgrad/row_operation.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using namespace privgrad::row_operation;

namespace {

using Numbers = std::vector<double>;

Numbers of(const std::vector<RowOperation>& operations, const std::vector<float>& x) {
  const Numbers y = evaluate(operations, x);
  CHECK(check_row_operations(operations, x.size()) == y.size());
  return y;
}

void check_refused(const RowOperation& operation, std::size_t features, const std::string& why) {
  const std::vector<RowOperation> operations{operation};
  CHECK_THROWS_AS(check_row_operations(operations, features), PluginError);
  CHECK_THROWS_WITH(check_row_operations(operations, features), ContainsSubstring(why));
  CHECK_THROWS_AS(evaluate(operations, std::vector<float>(features)), PluginError);
}

}  // namespace

TEST_CASE("an axis is projected in each block, and what lies behind it stays apart",
          "[row_operation]") {
  // [2, 3, 2]: x[b, j, a] = 100 b + 10 j + a. Sums along the middle axis, and its last entry minus
  // the first: 0 + 10 + 20 and 20 - 0, for each b and a.
  const std::vector<float> x{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121};
  const ProjectAxis middle{.length = 3, .after = 2, .outputs = 2, .matrix = {1, 1, 1, -1, 0, 1}};
  CHECK(of({middle}, x) == Numbers{30, 33, 20, 20, 330, 333, 20, 20});
  // Along the last axis, with one output.
  const ProjectAxis last{.length = 2, .after = 1, .outputs = 1, .matrix = {1, -2}};
  CHECK(of({last}, x) == Numbers{-2, -12, -22, -102, -112, -122});
  // With all features as its axis it equals Project.
  const Numbers matrix{1, 0, 2, 3, -1, 0.5};
  CHECK(of({ProjectAxis{3, 1, 2, matrix}}, {1, 2, 4}) == of({Project{2, matrix}}, {1, 2, 4}));
}

TEST_CASE("features are taken in any order, and as often as said", "[row_operation]") {
  CHECK(of({Take{{2, 0, 2}}}, {5, 6, 7}) == Numbers{7, 5, 7});
}

TEST_CASE("a modulus is of a real part in the first half and its imaginary one in the second",
          "[row_operation]") {
  CHECK(of({Modulus{}}, {3, -5, 4, 12}) == Numbers{5, 13});
}

TEST_CASE("branches see the same features, and follow each other", "[row_operation]") {
  const Concatenate inner{{{{Take{{0}}}}, {{Multiply{{3}}}}}};
  const Concatenate outer{{{}, {{Subtract{{1}}, inner}}, {{Modulus{}}}}};
  CHECK(of({outer}, {3, 4}) == Numbers{3, 4, 2, 6, 9, 5});
  CHECK(of({outer, Take{{5}}}, {3, 4}) == Numbers{5});
}

TEST_CASE("operations that cannot take what enters them are refused by name", "[row_operation]") {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  check_refused(ProjectAxis{3, 1, 1, {1, 1, 1}}, 4, "project_axis, has an axis of 3 with 1 behind");
  check_refused(ProjectAxis{0, 1, 1, {}}, 4, "has an axis of 0");
  check_refused(ProjectAxis{2, 0, 1, {1, 1}}, 4, "has an axis of 2 with 0");
  check_refused(ProjectAxis{SIZE_MAX, 2, 1, {1}}, 4, "not part of 4");
  check_refused(ProjectAxis{2, 1, SIZE_MAX, {1}}, 4, "can be counted");
  check_refused(ProjectAxis{2, 1, 0, {}}, 4, "expected 0 x 2");
  check_refused(ProjectAxis{2, 1, 2, {1, 1, 1}}, 4, "matrix of 3 numbers, expected 2 x 2");
  check_refused(ProjectAxis{2, 1, 1, {1, nan}}, 4, "not finite");
  check_refused(Take{}, 4, "take, takes no features");
  check_refused(Take{{0, 4}}, 4, "takes feature 4 of 4");
  check_refused(Modulus{}, 3, "modulus, has 3 features, expected pairs");
  check_refused(Modulus{}, 0, "expected pairs");
  check_refused(Concatenate{}, 4, "concatenate, has no branches");
  check_refused(Concatenate{{{}, {{Take{{7}}}}}}, 4, "takes feature 7 of 4");
}
