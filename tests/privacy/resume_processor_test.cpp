// A run is resumed, and verified, on another processor, with the same bits as on the first.
//
// The other processor is simulated: the C library is told that it cannot multiply and add in one
// instruction (so that `exp`, `log`, `pow` and `cos` round differently), and kernels use no wide
// registers.

#include <spawn.h>

#include <cmath>
#include <cstdlib>

#include "resumed_run.hpp"

using namespace resumed;

namespace {

constexpr const char* kFolder = "PRIVGRAD_TEST_FOLDER";
constexpr const char* kElsewhere = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2";

Place place_of_the_other_process() {
  const char* folder = std::getenv(kFolder);
  REQUIRE(folder != nullptr);
  return Place{fs::path(folder)};
}

/// Calls a hidden test of this program, as if on another processor.
End elsewhere(const char* test, const Place& place) {
  std::vector<std::string> environment{kElsewhere, "PRIVGRAD_INSTRUCTIONS=plain",
                                       std::string(kFolder) + "=" + place.folder().string()};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("GLIBC_TUNABLES=") && !text.starts_with("PRIVGRAD_INSTRUCTIONS="))
      environment.emplace_back(text);
  }
  std::vector<std::string> words{"privacy_test", test};
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  pid_t child = 0;
  REQUIRE(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers(words).data(),
                        pointers(environment).data()) == 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return {.killed = WIFSIGNALED(status), .code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

/// Returns the C library's results for many numbers.
std::string roundings() {
  std::vector<double> values;
  for (int i = 1; i < 2000; ++i) {
    const double x = -1e-3 * i;
    for (const double y : {std::exp(x), std::pow(0.99, i), std::cos(x), std::log1p(-x)})
      values.push_back(y);
  }
  return core::sha256_hex(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)));
}

/// Returns the numbers of the model, without the statement in its header.
std::string parameters_of(const Place& place) {
  const std::string model = place.model();
  std::uint64_t head = 0;
  REQUIRE(model.size() > sizeof head);
  std::memcpy(&head, model.data(), sizeof head);
  return core::sha256_hex(model.substr(sizeof head + head));
}

/// Returns the lines of a record without accountants' answers, which each processor computes
/// itself, and without hashes that depend on them.
std::string without_proofs(const std::string& lines) {
  std::string all;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) {
      all += line + "\n";  // the name of a ledger
      continue;
    }
    for (const char* key : {"epsilon", "hash", "previous"}) json.erase(key);
    all += json.dump() + "\n";
  }
  return all;
}

std::string found_wrong(const Place& place) {
  std::string all;
  for (const std::string& problem : problems_of(place)) all += problem + "\n";
  return all;
}

/// Returns every kind of state, and schedules, calibrations and mechanisms that use `exp` or
/// similar functions.
std::vector<std::pair<std::string, Overrides>> all_kinds() {
  const auto noise = [](const std::string& schedule) {
    return "schedules.noise_multiplier={kind: " + schedule + "}";
  };
  const auto rate = [](const std::string& schedule) {
    return "schedules.learning_rate={kind: " + schedule + "}";
  };
  const Overrides tree{"sampler={kind: shuffle, batch_size: 7}", "privacy.adjacency=replace_one",
                       "privacy.accountant=gdp"};
  const auto with = [](Overrides all, const Overrides& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto sampled = [](const std::string& accountant, const std::string& epsilon) {
    return Overrides{"sampler={kind: poisson, sample_rate: 0.1}",
                     "privacy.adjacency=add_or_remove_one", "privacy.accountant=" + accountant,
                     "privacy.target_epsilon=" + epsilon};
  };
  std::vector<std::pair<std::string, Overrides>> all = kinds();
  const std::vector<std::pair<std::string, Overrides>> more{
      // On the other processor, exp gives another clip norm at about step 60.
      {"a clip norm that adapts, of a seed",
       {"clipping={kind: adaptive, quantile: 0.5}", "seed=17", "steps=400"}},
      {"cosine", {rate("cosine, initial: 0.5, final: 0.1, warmup: 3"), "seed=1"}},
      // exp(-0.6), at step 20, differs on the other processor.
      {"exponential", {noise("exponential, rate: 0.03"), "seed=2"}},
      {"polynomial", {noise("polynomial, final: 0.3, power: 0.7"), "seed=3"}},
      {"step", {noise("step, factor: 0.77, every: 5"), "seed=4"}},
      {"by influence", {noise("dynamic, influence: {kind: exponential, gamma: 0.91}"), "seed=5"}},
      {"by a fitted curve",
       {noise("dynamic, form: exponential_decay, influence: {kind: momentum, gamma: 0.93, beta: "
              "0.9}"),
        "seed=6"}},
      {"an estimate, and a proof", {"privacy.accountant=saddle_point", "seed=7"}},
      {"pld", {"privacy.accountant=pld", "seed=8"}},
      // On the other processor, the search ends on another grid; proofs differ by one in a million.
      {"pld, of sampled steps", sampled("pld", "3")},
      {"pld, of sampled steps with a small budget", sampled("pld", "1")},
      {"an estimate of sampled steps, and a proof", sampled("saddle_point", "2")},
      {"noise by the costs of sampled steps",
       with(sampled("pld", "3"), {noise("dynamic, influence: {kind: exponential, gamma: 0.91}")})},
      {"exponential, with keys of the operating system", {noise("exponential, rate: 0.03")}},
      {"weights of a reduced tree",
       with(tree,
            {"aggregator={kind: tree, momentum: 0.87, variance_reduction: true}", "seed=9"})}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("resumed elsewhere", "[.elsewhere]") {
  const Place place = place_of_the_other_process();
  place.end_with([&] { place.go_on({}); });
}

TEST_CASE("verified elsewhere", "[.elsewhere]") {
  const Place place = place_of_the_other_process();
  place.end_with([&] { throw Error(found_wrong(place)); });
}

TEST_CASE("rounded elsewhere", "[.elsewhere]") {
  const Place place = place_of_the_other_process();
  place.end_with([&] { throw Error(roundings()); });
}

TEST_CASE("a run goes on and is verified on a processor that rounds otherwise",
          "[resume][verify]") {
  const Place probe;
  REQUIRE(elsewhere("rounded elsewhere", probe).code == 2);
  if (probe.last_words() == roundings()) {
    WARN("SKIPPED: this processor rounds as a plainer one");
    return;
  }

  const auto [name, overrides] = GENERATE(from_range(all_kinds()));
  CAPTURE(name);
  const bool is_proved = name.find("without noise") == std::string::npos;
  const Place here;
  const End begun = here.begin(overrides);
  INFO(here.last_words());
  REQUIRE(begun.code == 0);
  const Place there(here, 0);
  const End ended = here.resume();
  INFO(here.last_words());
  REQUIRE(ended.code == 0);
  const End resumed = elsewhere("resumed elsewhere", there);
  INFO(there.last_words());
  REQUIRE(resumed.code == 0);
  CHECK(parameters_of(there) == parameters_of(here));
  CHECK(without_proofs(there.charges()) == without_proofs(here.charges()));
  CHECK(without_proofs(there.metrics()) == without_proofs(here.metrics()));

  const std::string problems = found_wrong(here);
  CHECK(problems ==
        (is_proved ? "" : "manifest.yaml: noise is off: there is no guarantee to verify\n"));
  REQUIRE(elsewhere("verified elsewhere", here).code == 2);
  CHECK(here.last_words() == problems);
}
