#include "privgrad/record/event_dp_accounting.hpp"

#include "privgrad/error.hpp"

#include "support.hpp"

using namespace privgrad;

TEST_CASE("events are written as dp_accounting writes them", "[event_dp_accounting]") {
  CHECK(core::to_dp_accounting(
            Event::self_composed(1000, Event::poisson_sampled(0.01, Event::gaussian(1.5)))) ==
        "dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.5)), 1000)");
  CHECK(core::to_dp_accounting(Event::composed({Event::zcdp(0.25), Event::non_private()})) ==
        "dp.ComposedDpEvent([dp.ZCDpEvent(0.25), dp.NonPrivateDpEvent()])");
  CHECK(core::to_dp_accounting(Event::repeat_and_select(8.0, 0.5, {Event::gaussian(2.0)})) ==
        "dp.RepeatAndSelectDpEvent(dp.GaussianDpEvent(2), 8, 0.5)");
  CHECK(core::to_dp_accounting(Event::repeat_and_select(8.0, RepeatAndSelectEvent::kPoisson,
                                                        {Event::gaussian(2.0)})) ==
        "dp.RepeatAndSelectDpEvent(dp.GaussianDpEvent(2), 8, float('inf'))");
  CHECK_THROWS_WITH(core::to_dp_accounting(Event::repeat_and_select(
                        8.0, 1.0, {Event::gaussian(2.0), Event::gaussian(3.0)})),
                    ContainsSubstring("runs of one candidate"));
  // Release 0.6.0 of the package has events for everything else.
  CHECK_THROWS_WITH(
      core::to_dp_accounting(Event::self_composed(3, Event::discrete_gaussian(2.0, 2))),
      ContainsSubstring("no event for it as of release 0.6.0") &&
          ContainsSubstring("dp.ZCDpEvent(0.5)"));
  CHECK_THROWS_WITH(core::to_dp_accounting(Event::random_allocation(9, Event::gaussian(2.0))),
                    ContainsSubstring("no event for it"));
}
