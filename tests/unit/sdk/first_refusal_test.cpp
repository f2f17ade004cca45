#include <optional>
#include <string>
#include <vector>

#include "privgrad/accountant.hpp"
#include "support.hpp"

using privgrad::Event;
using privgrad::first_refusal;

namespace {

using Reason = std::optional<std::string>;

/// The rule of a method that knows only Gaussians.
const privgrad::Accepts<privgrad::GaussianEvent> kGaussians{};
const std::string kNoLaplace = "laplace: no theorem here bounds it";

}  // namespace

TEST_CASE("an event is refused for the first release in it that is", "[accountant]") {
  const Event gaussian = Event::gaussian(1.0);
  const Event laplace = Event::laplace(1.0);
  CHECK_FALSE(first_refusal(gaussian, kGaussians));
  CHECK(first_refusal(laplace, kGaussians) == kNoLaplace);
  CHECK(first_refusal(Event::composed({gaussian, laplace, Event::zcdp(1.0)}), kGaussians) ==
        kNoLaplace);
  const Event deep = Event::self_composed(
      3, Event::composed({gaussian, Event::self_composed(2, Event::composed({laplace}))}));
  CHECK(first_refusal(deep, kGaussians) == kNoLaplace);
}

TEST_CASE("what is not released is not refused", "[accountant]") {
  CHECK_FALSE(first_refusal(Event::nothing(), kGaussians));
  CHECK_FALSE(first_refusal(Event::self_composed(0, Event::laplace(1.0)), kGaussians));
}

TEST_CASE("what is inside a sampled event is for the method to judge", "[accountant]") {
  std::vector<double> asked;
  const auto ask = [&](const privgrad::PoissonSampledEvent& event) -> Reason {
    asked.push_back(event.sampling_probability);
    return {};
  };
  const Event sampled = Event::poisson_sampled(0.5, Event::laplace(1.0));
  CHECK_FALSE(first_refusal(Event::composed({sampled, sampled}), ask));
  CHECK(asked == std::vector<double>{0.5, 0.5});
}

TEST_CASE("an event that the method does not name is refused", "[accountant][privacy]") {
  CHECK(first_refusal(Event::zcdp(1.0), kGaussians, "it counts Gaussians") ==
        "zcdp: it counts Gaussians");
  CHECK(first_refusal(Event::non_private(), kGaussians, "it counts Gaussians") ==
        "non_private: it counts Gaussians");
  // If the event states what would have to be proved, this is the reason.
  CHECK(first_refusal(Event::random_allocation(3, Event::gaussian(1.0)), kGaussians, "unused") ==
        "random_allocation: no theorem here bounds an epoch in which each example draws its step");
  CHECK_FALSE(first_refusal(Event::zcdp(1.0),
                            privgrad::Accepts<privgrad::GaussianEvent, privgrad::ZcdpEvent>{}));
}

TEST_CASE("an unsupported event is refused with its own reason", "[accountant]") {
  const auto refuses_nothing = [](const auto&) -> Reason { return {}; };
  CHECK(first_refusal(Event::unsupported("a shuffled epoch"), refuses_nothing) ==
        "unsupported: a shuffled epoch");
  CHECK(first_refusal(Event::composed({Event::unsupported("")}), refuses_nothing) ==
        "unsupported: nothing is proved about it");
}
