#include "privgrad/trust/event_json.hpp"

#include <nlohmann/json.hpp>
#include <random>

#include "privgrad/error.hpp"
#include "support.hpp"
#include "trials.hpp"

using namespace privgrad;
using core::event_from_json;

namespace {

Event parse(const std::string& text) { return event_from_json(text, "e.json"); }

Event random_event(std::mt19937& random, int depth) {
  const auto real = [&] { return 0.1 + static_cast<double>(random() % 1000) / 7.0; };
  switch (random() % (depth > 0 ? 11 : 5)) {
    case 0:
      return Event::gaussian(real());
    case 1:
      return Event::laplace(real());
    case 2:
      return Event::discrete_gaussian(real(), static_cast<std::int64_t>(random() % 5));
    case 3:
      return Event::zcdp(real());
    case 4:
      return Event::non_private();
    case 5:
      return Event::poisson_sampled(static_cast<double>(random() % 1000) / 1000.0,
                                    random_event(random, depth - 1));
    case 6:
      return Event::sampled_without_replacement(100, static_cast<std::int64_t>(random() % 100),
                                                random_event(random, depth - 1));
    case 7:
      return Event::random_allocation(1 + static_cast<std::int64_t>(random() % 100),
                                      random_event(random, depth - 1));
    case 8: {
      const double shapes[] = {-0.5, 0.0, 1.0, 2.5, RepeatAndSelectEvent::kPoisson};
      std::vector<Event> runs;
      for (unsigned long i = 1 + random() % 3; i > 0; --i)
        runs.push_back(random_event(random, depth - 1));
      return Event::repeat_and_select(1.0 + real(), shapes[random() % 5], std::move(runs));
    }
    case 9:
      return Event::self_composed(static_cast<std::int64_t>(random()),
                                  random_event(random, depth - 1));
    default: {
      std::vector<Event> parts;
      for (unsigned i = random() % 4; i > 0; --i) parts.push_back(random_event(random, depth - 1));
      return Event::composed(std::move(parts));
    }
  }
}

}  // namespace

TEST_CASE("the contract's examples are read", "[event_json]") {
  CHECK(parse(R"({"event":"gaussian","noise_multiplier":1.1})") == Event::gaussian(1.1));
  CHECK(parse(R"({"event":"laplace","noise_multiplier":1})") == Event::laplace(1.0));
  CHECK(parse(R"({"event":"discrete_gaussian","sigma":3.0,"sensitivity":1})") ==
        Event::discrete_gaussian(3.0, 1));
  CHECK(parse(R"({"event":"zcdp","rho":0.1})") == Event::zcdp(0.1));
  CHECK(parse(R"({"event":"self_composed","count":1000,"of":{"event":"poisson_sampled",
                  "sampling_probability":0.01,"of":{"event":"gaussian","noise_multiplier":1}}})") ==
        Event::self_composed(1000, Event::poisson_sampled(0.01, Event::gaussian(1.0))));
  CHECK(
      parse(R"({"event":"sampled_without_replacement","source_dataset_size":60000,"sample_size":600,
                  "of":{"event":"composed","of":[{"event":"non_private"}]}})") ==
      Event::sampled_without_replacement(60000, 600, Event::composed({Event::non_private()})));
  CHECK(parse(R"({"event":"random_allocation","steps":100,
                  "of":{"event":"gaussian","noise_multiplier":1.1}})") ==
        Event::random_allocation(100, Event::gaussian(1.1)));
  const std::string runs = R"("candidates":[{"event":"gaussian","noise_multiplier":1.1}]})";
  CHECK(parse(R"({"event":"repeat_and_select","distribution":"geometric","mean":8,)" + runs) ==
        Event::repeat_and_select(8, 1, {Event::gaussian(1.1)}));
  CHECK(parse(R"({"event":"repeat_and_select","distribution":"poisson","mean":0.5,)" + runs) ==
        Event::repeat_and_select(0.5, RepeatAndSelectEvent::kPoisson, {Event::gaussian(1.1)}));
  CHECK(parse(R"({"event":"repeat_and_select","distribution":"truncated_negative_binomial",
                  "mean":8,"shape":-0.5,)" +
              runs) == Event::repeat_and_select(8, -0.5, {Event::gaussian(1.1)}));
}

TEST_CASE("what is written is read back as the same event", "[event_json][long]") {
  std::mt19937 random(1);
  const int count = trials(5000, "random events");
  for (int i = 0; i < count; ++i) {
    const Event event = random_event(random, 4);
    REQUIRE(parse(core::to_json(event).dump()) == event);
  }
}

TEST_CASE("errors name the place in the document, and the nearest right name", "[event_json]") {
  const auto fails = [](const std::string& text, const std::string& with) {
    CHECK_THROWS_AS(parse(text), ConfigError);
    CHECK_THROWS_WITH(parse(text), ContainsSubstring("e.json") && ContainsSubstring(with));
  };
  fails("", "is empty, expected an event");
  fails(" \n", "is empty, expected an event");
  fails("{\"event\": \"gaussian\", \"noise_multiplier\": 1e400}", "too large for a double");
  fails("{\n\"event\": gaussian}", "e.json:2: is not JSON");
  fails("[]", "expected an object");
  fails("{}", "event: is missing");
  fails(R"({"event":"gausian","noise_multiplier":1})", "did you mean 'gaussian'?");
  fails(R"({"event":"gaussian"})", "noise_multiplier: is missing");
  fails(R"({"event":"gaussian","noise_multiplier":"1"})",
        "noise_multiplier: is a string, expected a number");
  fails(R"({"event":"gaussian","noise_multiplier":0})", "above 0, got 0");
  fails(R"({"event":"gaussian","noise_multiplier":1e999})", "e.json");
  fails(R"({"event":"gaussian","noise_multiplier":1,"noise_multiplyer":2})",
        "noise_multiplyer: is unknown");
  fails(R"({"event":"composed","of":[{"event":"zcdp","rho":1},{"event":"zcdp"}]})",
        "of.1.rho: is missing");
  fails(R"({"event":"self_composed","count":1.5,"of":{"event":"zcdp","rho":1}})",
        "count: is a real, expected an integer");
  fails(R"({"event":"self_composed","count":18446744073709551615,"of":{"event":"zcdp","rho":1}})",
        "63 bits");
  fails(R"({"event":"poisson_sampled","sampling_probability":2,"of":{"event":"zcdp","rho":1}})",
        "[0, 1]");
  const std::string runs = R"("candidates":[{"event":"zcdp","rho":1}]})";
  fails(R"({"event":"repeat_and_select","distribution":"geometric","mean":0.5,)" + runs,
        "mean of at least 1");
  fails(R"({"event":"repeat_and_select","distribution":"geometrical","mean":2,)" + runs,
        "did you mean 'geometric'?");
  fails(R"({"event":"repeat_and_select","distribution":"geometric","mean":2,"shape":1,)" + runs,
        "shape: is unknown");
  fails(R"({"event":"repeat_and_select","distribution":"truncated_negative_binomial","mean":2,)" +
            runs,
        "shape: is missing");
  fails(R"({"event":"repeat_and_select","distribution":"poisson","mean":2,"candidates":[]})",
        "at least one candidate");
  fails(R"({"event":"repeat_and_select","distribution":"poisson","mean":2,"candidates":[{}]})",
        "candidates.0.event: is missing");
}

TEST_CASE("hostile documents are refused, not followed down the stack", "[event_json][long]") {
  CHECK_THROWS_AS(parse(std::string(1'000'000, '[')), ConfigError);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"event":"composed","of":[)";
  CHECK_THROWS_AS(parse(deep), ConfigError);
  // Nested lists in the place of a text: the parsed document would be copied and freed by
  // recursion.
  const std::string lists = std::string(300, '[') + std::string(300, ']');
  CHECK_THROWS_WITH(parse(R"({"event":"unsupported","reason":)" + lists + "}"),
                    ContainsSubstring("nested deeper than 192"));
  CHECK_THROWS_AS(parse("{\"event\":\"\xff\xfe\"}"), ConfigError);
  // Changing any single byte gives an event or a ConfigError, and nothing else.
  const std::string text =
      core::to_json(
          Event::self_composed(3, Event::composed({Event::poisson_sampled(0.5, Event::gaussian(2)),
                                                   Event::laplace(1)})))
          .dump();
  std::mt19937 random(2);
  const int count = trials(50'000, "changed bytes");
  for (int i = 0; i < count; ++i) {
    std::string changed = text;
    changed[random() % changed.size()] = static_cast<char>(random());
    try {
      parse(changed);
    } catch (const ConfigError&) {
    }
  }
}
