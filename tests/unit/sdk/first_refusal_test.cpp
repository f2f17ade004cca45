#include <optional>
#include <string>
#include <vector>

#include "privgrad/accountant.hpp"
#include "support.hpp"

using privgrad::Event;
using privgrad::first_refusal;

namespace {

using Reason = std::optional<std::string>;

/// For a method that only knows Gaussians.
Reason gaussians_only(const Event& event) {
  if (std::holds_alternative<privgrad::GaussianEvent>(event.kind())) return {};
  return "no " + std::string(event.name());
}

}  // namespace

TEST_CASE("an event is refused for the first release in it that is", "[accountant]") {
  const Event gaussian = Event::gaussian(1.0);
  const Event laplace = Event::laplace(1.0);
  CHECK_FALSE(first_refusal(gaussian, gaussians_only));
  CHECK(first_refusal(laplace, gaussians_only) == "no laplace");
  CHECK(first_refusal(Event::composed({gaussian, laplace, Event::zcdp(1.0)}), gaussians_only) ==
        "no laplace");
  const Event deep = Event::self_composed(
      3, Event::composed({gaussian, Event::self_composed(2, Event::composed({laplace}))}));
  CHECK(first_refusal(deep, gaussians_only) == "no laplace");
}

TEST_CASE("what is not released is not refused", "[accountant]") {
  CHECK_FALSE(first_refusal(Event::nothing(), gaussians_only));
  CHECK_FALSE(first_refusal(Event::self_composed(0, Event::laplace(1.0)), gaussians_only));
}

TEST_CASE("what is inside a sampled event is for the method to judge", "[accountant]") {
  std::vector<std::string> asked;
  const auto ask = [&](const Event& event) -> Reason {
    asked.emplace_back(event.name());
    return {};
  };
  CHECK_FALSE(first_refusal(
      Event::composed({Event::poisson_sampled(0.5, Event::laplace(1.0)), Event::non_private()}),
      ask));
  CHECK(asked == std::vector<std::string>{"poisson_sampled", "non_private"});
}

TEST_CASE("an unsupported event is refused with its own reason", "[accountant]") {
  const auto refuses_nothing = [](const Event&) -> Reason { return {}; };
  CHECK(first_refusal(Event::unsupported("a shuffled epoch"), refuses_nothing) ==
        "unsupported: a shuffled epoch");
  CHECK(first_refusal(Event::composed({Event::unsupported("")}), refuses_nothing) ==
        "unsupported: nothing is proved about it");
}
