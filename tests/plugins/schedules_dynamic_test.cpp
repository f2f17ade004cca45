#include <cmath>
#include <fstream>

#include "house_plugins.hpp"
#include "privgrad/error.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/schedule.hpp"

namespace schedules_dynamic_test {

using namespace privgrad;

namespace {

using Doubles = std::vector<double>;

Value object(std::initializer_list<std::pair<const char*, Value>> members) {
  Value::Object all;
  for (const auto& [key, value] : members) all.push_back({key, value, {}});
  return all;
}

auto started(const Value& influence, std::uint64_t steps, const char* form = "exact") {
  auto schedule =
      house().create<Schedule>("dynamic", object({{"influence", influence}, {"form", form}}));
  schedule->start({.steps = steps, .slot = "noise_multiplier"});
  return schedule;
}

Doubles values(const Schedule& schedule, std::uint64_t steps) {
  Doubles all;
  for (std::uint64_t step = 0; step < steps; ++step) all.push_back(schedule.value(step));
  return all;
}

void check_alike(const Doubles& got, const Doubles& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t t = 0; t < got.size(); ++t)
    CHECK_THAT(got[t], WithinRel(expected[t], tolerance));
}

/// A table of influences in its own folder.
class Table {
 public:
  explicit Table(const std::string& text) { write_file(file(), text); }
  std::filesystem::path file() const { return dir_.path() / "influence.csv"; }
  Value as(const char* kind) const { return object({{"kind", kind}, {"file", file().string()}}); }

 private:
  TempDir dir_;
};

}  // namespace

TEST_CASE("dynamic: every influence gives the noise of Lemma 4.3, as a shape", "[schedule]") {
  const struct {
    Value influence;
    Doubles q;
  } cases[] = {
      {object({{"kind", "exponential"}, {"gamma", 0.97}}), exponential_influence(100, 0.97)},
      {object({{"kind", "exponential"}, {"kappa", 10.0}}), exponential_influence(100, 0.9)},
      {object({{"kind", "momentum"}, {"gamma", 0.95}, {"beta", 0.9}}),
       momentum_influence(100, 0.95, 0.9)},
      {object({{"kind", "momentum"}, {"kappa", 10.0}, {"eta0", 0.5}, {"beta", 0.9}}),
       momentum_influence(100, 0.975, 0.9)},
      {object({{"kind", "two_exponential"}, {"gamma", 0.97}, {"share", 0.25}}),
       two_exponential_influence(100, 0.97, 0.97, 0.25)},
      {object(
           {{"kind", "two_exponential"}, {"gamma", 0.97}, {"falling_gamma", 0.9}, {"share", 0.5}}),
       two_exponential_influence(100, 0.97, 0.9, 0.5)}};
  for (const auto& c : cases) {
    const auto schedule = started(c.influence, 100);
    CHECK(schedule->is_shape());
    check_alike(values(*schedule, 100), allocated_noise(c.q, 1.0), 1e-12);
    check_alike(schedule->influence().value().values, c.q, 1e-14);
  }
}

TEST_CASE("dynamic: the fitted exponential decay of an exponential influence is itself",
          "[schedule]") {
  const Value influence = object({{"kind", "exponential"}, {"gamma", 0.97}});
  const auto decay = started(influence, 100, "exponential_decay");
  check_alike(values(*decay, 100), values(*started(influence, 100), 100), 1e-6);
  // sigma_t^2 is proportional to gamma^(t/2): the rate of examples/manifests/mnist35-dynamic.yaml.
  CHECK_THAT(std::log(decay->value(0) / decay->value(1)), WithinAbs(0.0076148, 1e-7));
  // With a different influence the noise is still exponential.
  const auto other = started(object({{"kind", "momentum"}, {"gamma", 0.9}, {"beta", 0.9}}), 40,
                             "exponential_decay");
  CHECK_THAT(other->value(1) / other->value(0),
             WithinRel(other->value(39) / other->value(38), 1e-12));
}

TEST_CASE("dynamic: a file holds every step's influence", "[schedule]") {
  const Table table("# measured\nstep,influence,standard_error\n0,4,0.1\n1,1,0.1\n2,16,0.1\n");
  check_alike(values(*started(table.as("file"), 3), 3), allocated_noise(Doubles{4, 1, 16}, 1.0),
              1e-15);
  CHECK_THROWS_WITH(started(table.as("file"), 4), ContainsSubstring("expected each of 0 ... 3"));
  CHECK_THROWS_WITH(started(table.as("file"), 2), ContainsSubstring("has 3 step(s)"));
  CHECK_THROWS_WITH(started(Table("0,1\n1,-2\n").as("file"), 2),
                    ContainsSubstring("the influence of step 1 is -2"));
}

TEST_CASE("dynamic: a table that was measured on private rows says so", "[schedule]") {
  const auto unaccounted = [](const Table& table) {
    const auto schedule = started(table.as("file"), 2);
    return schedule->influence().value().is_unaccounted;
  };
  CHECK(unaccounted(Table("# unaccounted: private rows\n0,1\n1,2\n")));
  CHECK_FALSE(unaccounted(Table("# auxiliary data\n0,1\n1,2\n")));
}

TEST_CASE("dynamic: estimated fits an exponential, whatever the number of steps", "[schedule]") {
  std::string text;
  for (const int step : {0, 30, 60, 99}) {
    text += std::to_string(step) + "," + format_number(2e-4 * std::pow(0.95, 99 - step)) + "\n";
  }
  const Table table(text);
  for (const std::uint64_t steps : {40, 100}) {
    check_alike(values(*started(table.as("estimated"), steps), steps),
                exponentially_allocated_noise(steps, 0.95, 1.0), 1e-5);
  }
  CHECK_THROWS_AS(started(Table("0,1\n").as("estimated"), 10), ConfigError);
}

TEST_CASE("dynamic: a file that is wrong is named with its line", "[schedule]") {
  const auto refused = [](const std::string& text) -> std::string {
    try {
      started(Table(text).as("estimated"), 10);
    } catch (const IoError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(refused("0,1\n1,x\n"), ContainsSubstring("influence.csv:2: expected STEP,INFLUENCE"));
  CHECK_THAT(refused("0,1\n0,2\n"), ContainsSubstring(":2: step 0 comes after step 0"));
  for (const char* bad :
       {"0\n", "0,1,2,3\n", "-1,1\n", "0,nan\n", "0,1,-1\n", "0.5,1\n", "0,inf\n"}) {
    CHECK_THAT(refused(bad), ContainsSubstring(":1: expected"));
  }
  CHECK_THAT(refused("# nothing\n"), ContainsSubstring("holds no step"));
}

TEST_CASE("dynamic: parameters that do not belong to the influence are refused", "[schedule]") {
  const auto refused = [](const Value& influence, const char* why) {
    CHECK_THROWS_WITH(started(influence, 10), ContainsSubstring(why));
  };
  refused(object({{"kind", "exponential"}}), "needs gamma or kappa");
  refused(object({{"kind", "exponential"}, {"gamma", 0.9}, {"kappa", 10.0}}), "one of the two");
  refused(object({{"kind", "exponential"}, {"gamma", 0.9}, {"beta", 0.5}}), "has no beta");
  refused(object({{"kind", "exponential"}, {"kappa", 1.0}}), "gamma = 1 - 1/kappa is 0");
  refused(object({{"kind", "momentum"}, {"gamma", 0.9}}), "needs beta");
  refused(object({{"kind", "momentum"}, {"gamma", 0.9}, {"beta", 0.5}, {"eta0", 1.0}}),
          "eta0 only");
  refused(object({{"kind", "two_exponential"}, {"gamma", 0.9}}), "needs share");
  refused(object({{"kind", "file"}}), "needs file");
  refused(object({{"kind", "exponential"}, {"gamma", 1.5}}), "gamma");
}

// Expected values: the definitions.
TEST_CASE("time: 1 / (1 + k t); snowball: sqrt(T / (T - t))", "[schedule]") {
  auto time = house().create<Schedule>("time", object({{"rate", 0.5}}));
  time->start({.steps = 3, .slot = "noise_multiplier"});
  CHECK(time->is_shape());
  check_alike(values(*time, 3), {1.0, 1.0 / 1.5, 0.5}, 1e-15);
  auto snowball = house().create<Schedule>("snowball", object({{"initial", 10.0}}));
  snowball->start({.steps = 4, .slot = "batch_size"});
  CHECK_FALSE(snowball->is_shape());
  check_alike(values(*snowball, 4),
              {10.0, 10.0 * std::sqrt(4.0 / 3.0), 10.0 * std::sqrt(2.0), 20.0}, 1e-15);
}

}  // namespace schedules_dynamic_test
