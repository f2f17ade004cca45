#include <limits>
#include <vector>

#include "forged_release.hpp"
#include "house_plugins.hpp"
#include "privgrad/optimizer.hpp"

using privgrad::Optimizer;
using privgrad::TrustBase;
using privgrad::Value;

TEST_CASE("sgd: w <- w - learning_rate * g", "[optimizer]") {
  const auto sgd = house().create<Optimizer>("sgd", Value::Object{});
  sgd->start(3);
  std::vector<float> w{1.0f, -2.0f, 0.5f};
  sgd->step(w, TrustBase::release({2.0f, 4.0f, -8.0f}), {.step = 0, .learning_rate = 0.25});
  CHECK(w == std::vector<float>{0.5f, -3.0f, 2.5f});  // all exact in binary
  sgd->step(w, TrustBase::release({2.0f, 4.0f, -8.0f}), {.step = 1, .learning_rate = 0.0});
  CHECK(w == std::vector<float>{0.5f, -3.0f, 2.5f});
}

TEST_CASE("sgd: what it cannot use changes nothing", "[optimizer]") {
  const auto sgd = house().create<Optimizer>("sgd", Value::Object{});
  sgd->start(2);
  const std::vector<float> before{1.0f, 2.0f};
  std::vector<float> w = before;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    CHECK_THROWS_AS(sgd->step(w, TrustBase::release({1.0f, bad}), {.step = 0, .learning_rate = 1}),
                    privgrad::NumericError);
    CHECK(w == before);
  }
  CHECK_THROWS_AS(sgd->step(w, TrustBase::release({1.0f}), {.step = 0, .learning_rate = 1}),
                  privgrad::PluginError);
  CHECK_THROWS_AS(sgd->step(w, TrustBase::release({1.0f, 1.0f}),
                            {.step = 0, .learning_rate = std::numeric_limits<double>::infinity()}),
                  privgrad::NumericError);
  CHECK(w == before);
}
