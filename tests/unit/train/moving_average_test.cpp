#include "privgrad/train/moving_average.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "held_model.hpp"
#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::MovingAverage;

namespace {

/// Makes a step that leads to these parameters.
void step_to(MovingAverage& average, std::vector<float> parameters) {
  HeldModel model(std::move(parameters));
  CHECK_FALSE(average.after_step(1, model));
}

/// The average, as a run that keeps it loads it.
std::vector<float> kept(MovingAverage& average, std::size_t parameters) {
  HeldModel model(std::vector<float>(parameters, 0.0f));
  average.choose_model(model);
  return model.held;
}

MovingAverage beginning_at(std::vector<float> first, double decay) {
  MovingAverage average(decay, true, first.size());
  HeldModel model(std::move(first));
  average.begin(model);
  return average;
}

}  // namespace

TEST_CASE("a moving average forgets its first parameters soon, and then by its decay",
          "[average]") {
  // d_1 = 2/11 and d_2 = 3/12, as long as they are below the decay.
  MovingAverage average = beginning_at({11.0f, 0.0f}, 0.9);
  step_to(average, {0.0f, 11.0f});
  CHECK_THAT(kept(average, 2)[0], WithinRel(2.0f, 1e-6f));
  CHECK_THAT(kept(average, 2)[1], WithinRel(9.0f, 1e-6f));
  step_to(average, {4.0f, 1.0f});  // 2/4 + 3, and 9/4 + 3/4
  CHECK_THAT(kept(average, 2)[0], WithinRel(3.5f, 1e-6f));
  CHECK_THAT(kept(average, 2)[1], WithinRel(3.0f, 1e-6f));

  MovingAverage slow = beginning_at({8.0f}, 0.125);
  step_to(slow, {0.0f});
  CHECK(kept(slow, 1) == std::vector<float>{1.0f});
}

TEST_CASE("a moving average replaces the model once the last parameters are reported",
          "[average]") {
  MovingAverage average = beginning_at({8.0f}, 0.125);
  HeldModel model({0.0f});
  average.after_step(1, model);
  core::MetricsLine line;
  average.add_to_metrics(line, 1, model);
  CHECK(line.ema->train_loss.value() == 1.0);
  CHECK(model.held == std::vector<float>{0.0f});
  average.choose_model(model);
  CHECK(model.reported == std::vector<std::vector<float>>{{0.0f}});
  CHECK(model.held == std::vector<float>{1.0f});
}

TEST_CASE("a moving average that is only measured leaves the model", "[average]") {
  MovingAverage average(0.125, false, 1);
  HeldModel model({8.0f});
  average.begin(model);
  average.choose_model(model);
  CHECK(model.held == std::vector<float>{8.0f});
  CHECK(model.reported.empty());
  core::Summary summary;
  average.add_to_summary(summary);
  CHECK(summary.output.empty());
}

TEST_CASE("a moving average that is taken up goes on as if it had not stopped",
          "[average][resume]") {
  MovingAverage whole = beginning_at({1.0f, 2.0f}, 0.9);
  step_to(whole, {0.1f, 0.2f});
  core::StateWriter out;
  whole.save(out);
  MovingAverage again(0.9, true, 2);
  core::StateReader in(out.text(), "state");
  again.restore(in);
  in.end();
  for (MovingAverage* one : {&whole, &again}) step_to(*one, {0.3f, 0.7f});
  CHECK(kept(whole, 2) == kept(again, 2));

  MovingAverage other(0.9, true, 1);
  core::StateReader same(out.text(), "state");
  CHECK_THROWS_AS(other.restore(same), IoError);
}
