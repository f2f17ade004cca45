#include "privgrad/train/moving_average.hpp"

#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::MovingAverage;

TEST_CASE("a moving average forgets its first parameters soon, and then by its decay",
          "[average]") {
  // d_1 = 2/11 and d_2 = 3/12, as long as they are below the decay.
  MovingAverage average(0.9, std::vector<float>{11.0f, 0.0f});
  average.add(std::vector<float>{0.0f, 11.0f});
  CHECK_THAT(average.parameters()[0], WithinRel(2.0f, 1e-6f));
  CHECK_THAT(average.parameters()[1], WithinRel(9.0f, 1e-6f));
  average.add(std::vector<float>{4.0f, 1.0f});  // 2/4 + 3, and 9/4 + 3/4
  CHECK_THAT(average.parameters()[0], WithinRel(3.5f, 1e-6f));
  CHECK_THAT(average.parameters()[1], WithinRel(3.0f, 1e-6f));

  MovingAverage slow(0.125, std::vector<float>{8.0f});
  slow.add(std::vector<float>{0.0f});
  CHECK(slow.parameters() == std::vector<float>{1.0f});
}

TEST_CASE("a moving average that is taken up goes on as if it had not stopped",
          "[average][resume]") {
  MovingAverage whole(0.9, std::vector<float>{1.0f, 2.0f});
  whole.add(std::vector<float>{0.1f, 0.2f});
  core::StateWriter out;
  whole.save(out);
  MovingAverage again(0.9, std::vector<float>{0.0f, 0.0f});
  core::StateReader in(out.text(), "state");
  again.restore(in);
  in.end();
  for (MovingAverage* one : {&whole, &again}) one->add(std::vector<float>{0.3f, 0.7f});
  CHECK(whole.parameters() == again.parameters());

  MovingAverage other(0.9, std::vector<float>{0.0f});
  core::StateReader same(out.text(), "state");
  CHECK_THROWS_AS(other.restore(same), IoError);
}
