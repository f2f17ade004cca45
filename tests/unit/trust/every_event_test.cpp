// Requirements on every kind of event. The kinds come from Event::Kind, so an added kind is tested
// here without a change.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "house_plugins.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/event_dp_accounting.hpp"
#include "privgrad/record/event_words.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/least_cost.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

const Event kInside = Event::gaussian(1.0);

/// Gives members values inside every range; `changed` is the place of the only member that gets
/// another value.
class Filler {
 public:
  explicit Filler(int changed) : changed_(changed) {}
  void operator()(const char*, double& value) { value = is_changed() ? 1.0 : value + 0.5; }
  void operator()(const char*, std::int64_t& value) {
    const bool changed = is_changed();  // the subset's size follows the size of the whole
    value = changed ? (place_ == 1 ? 5 : 1) : 4 - place_;
  }
  void operator()(const char*, std::string& value) { value = is_changed() ? "another" : "one"; }
  void operator()(const char*, std::shared_ptr<const Event>& value) {
    value = std::make_shared<const Event>(is_changed() ? Event::gaussian(2.0) : kInside);
  }
  void operator()(const char*, std::vector<Event>& value) {
    value = {is_changed() ? Event::gaussian(2.0) : kInside};
  }
  int members() const { return place_; }

 private:
  bool is_changed() { return place_++ == changed_; }
  int changed_, place_ = 0;
};

struct Example {
  Event event;
  std::vector<Event> changed;  ///< Each in one member.
};

template <class Kind>
Example example_of() {
  int members = 0;
  const auto made = [&](int changed) {
    Kind kind;
    Filler filler(changed);
    Kind::members([&](const char* name, auto& value) { filler(name, value); }, kind);
    members = filler.members();
    return Event(std::move(kind));
  };
  Example example{made(-1), {}};
  for (int changed = 0; changed < members; ++changed) example.changed.push_back(made(changed));
  return example;
}

template <class... Kinds>
std::vector<Example> one_of_each(std::type_identity<std::variant<Kinds...>>) {
  return {example_of<Kinds>()...};
}

const std::vector<Example>& examples() {
  static const auto made = one_of_each(std::type_identity<Event::Kind>{});
  return made;
}

/// Returns the events that run another event on batches, found without sampling_of().
std::vector<Event> sampled_examples() {
  std::vector<Event> found;
  for (const auto& [event, changed] : examples()) {
    const nlohmann::json json = core::to_json(event);
    const bool runs_another = json.contains("of") && json.at("of").is_object();
    if (runs_another && event.name() != "self_composed") found.push_back(event);
  }
  return found;
}

double least_delta(const Event& event) {
  core::LeastCost least(Adjacency::add_or_remove_one);
  least.compose(event, 1);
  return least.delta(0.0);
}

}  // namespace

TEST_CASE("every event is read as it was written, and differs in each member", "[event]") {
  for (const auto& [event, changed] : examples()) {
    const nlohmann::json json = core::to_json(event);
    INFO(json.dump());
    CHECK(json.at("event") == event.name());
    CHECK(core::event_from_json(json.dump(), "e.json") == event);
    for (const Event& other : changed) {
      CHECK_FALSE(other == event);
      CHECK(core::to_json(other) != json);
      CHECK(core::event_from_json(core::to_json(other).dump(), "e.json") == other);
    }
  }
}

TEST_CASE("every event is said in words that name its numbers, and to dp_accounting or not",
          "[event]") {
  for (const auto& [event, changed] : examples()) {
    INFO(event.name());
    CHECK_FALSE(core::describe(event).empty());
    for (const Event& other : changed) CHECK(core::describe(other) != core::describe(event));
    std::string words;
    try {
      words = core::to_dp_accounting(event);
    } catch (const ConfigError& refusal) {
      words = refusal.what();
    }
    CHECK((words.starts_with("dp.") || words.starts_with(std::string(event.name()) + ": ")));
  }
}

TEST_CASE("every event that samples renews keys, has a law to be watched by, and costs something",
          "[event][sampling][privacy]") {
  REQUIRE(sampled_examples().size() >= 3);
  for (const Event& event : sampled_examples()) {
    INFO(event.name());
    const auto sampling = sampling_of(event);
    REQUIRE(sampling);
    CHECK(*sampling->of == kInside);
    CHECK(sampling->rate > 0.0);
    CHECK(sampling->rate < 1.0);
    const std::vector<core::Charge> charges{{0, kInside, event}};
    CHECK(core::rest_on_secret_draws(charges));
    CHECK(core::sampling_law(charges, 0).kind != core::SamplingLaw::Kind::any);
    // At epsilon 0, a release on a batch that contains the example with probability q costs q times
    // as much.
    CHECK_THAT(least_delta(event), WithinRel(sampling->rate * least_delta(kInside), 1e-6));
  }
  for (const auto& [event, changed] : examples()) {
    const auto sampled = sampled_examples();
    if (std::ranges::find(sampled, event) != sampled.end()) continue;
    INFO(event.name());
    CHECK_FALSE(sampling_of(event));
    const std::vector<core::Charge> charges{{0, kInside, event}};
    CHECK_FALSE(core::rest_on_secret_draws(charges));
  }
}

TEST_CASE("every accountant answers about an event, or refuses it by name", "[event][privacy]") {
  for (const char* name : {"gdp", "zcdp", "rdp", "rdp_filter", "pld", "saddle_point"}) {
    const auto accountant = house().create<Accountant>(name, Value::Object{});
    for (const auto& [event, changed] : examples()) {
      INFO(name << ", " << event.name());
      accountant->start(Adjacency::zero_out);
      if (const auto reason = accountant->refuses(event)) {
        CHECK_THAT(*reason, ContainsSubstring(std::string(event.name()) + ": ") ||
                                ContainsSubstring(std::string(event.name()) + " of "));
        CHECK_THROWS_AS(accountant->compose(event, 1), PrivacyError);
      } else {
        accountant->compose(event, 1);
        CHECK(accountant->epsilon(1e-5).value > 0.0);
      }
    }
  }
}
