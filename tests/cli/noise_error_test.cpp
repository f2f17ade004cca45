#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <set>
#include <span>

#include "cli.hpp"
#include "trials.hpp"

// The manifest uses shuffled epochs under replace_one.
namespace {

const std::string kManifest = R"(privgrad: 1
name: momentum
seed: 1
data: {kind: synthetic, rows: 100, dimensions: 4}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 5, fresh: false}
aggregator: {kind: tree, momentum: 0.95}
optimizer: {kind: sgd}
schedules: {clip_norm: 2.0, learning_rate: 0.1}
privacy: {target_epsilon: 2, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 60
)";

}  // namespace

TEST_CASE("noise-error predicts every mechanism's noise at one guarantee") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const Json json =
      Json::parse(cli({"noise-error", "m.yaml", "--restart-every", "20", "--smoothness", "1",
                       "--set", "schedules.learning_rate=0.01", "--json"})
                      .out);
  CHECK(json.at("momentum") == 0.95);
  CHECK(json.at("mechanisms").size() == 7);
  for (const Json& arm : json.at("mechanisms")) {
    CHECK(arm.at("refused").is_null());
    REQUIRE(arm.at("stddev").size() == 60);
    double squares = 0.0;
    for (const double value : arm.at("stddev")) squares += value * value;
    CHECK_THAT(arm.at("root_mean_square").get<double>(),
               WithinRel(std::sqrt(squares / 60.0), 1e-12));
    // it starts with the noise of two trees
    if (arm.at("name") == "tree, reduced") continue;
    // The first release is a tenth of one contribution's bound, 0.05 * 2 / 5, times its noise.
    CHECK_THAT(arm.at("stddev")[0].get<double>(),
               WithinRel(0.05 * 2.0 / 5.0 * arm.at("noise_multiplier").get<double>(), 1e-9));
  }
  // Independent noise under shuffling: an example is charged once in each of three epochs, so sigma
  // = 2 sqrt(3) / mu; its momentum has variance (1 - b)^2 (1 - b^2t) / (1 - b^2) sigma^2.
  const Json& independent = json.at("mechanisms")[0];
  const double sigma = independent.at("noise_multiplier");
  const double series = (1.0 - std::pow(0.95, 120.0)) / (1.0 - 0.95 * 0.95);
  CHECK_THAT(independent.at("stddev")[59].get<double>(),
             WithinRel(0.05 * 2.0 / 5.0 * sigma * std::sqrt(series), 1e-9));
}

// Expected values: each window's mean as a linear function of the underlying independent normals,
// derived from the definitions of momentum and of the tree. Simulated with a fixed seed; 4 % is
// more than four standard errors for 2048 copies of three windows, even if the windows were the
// same.
TEST_CASE("noise-error: noise in means over windows is what momentum and trees leave of it") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const Json json = Json::parse(cli({"noise-error", "m.yaml", "--smoothness", "1", "--set",
                                     "schedules.learning_rate=0.01", "--windows", "1,20", "--json"})
                                    .out);
  CHECK(json.at("windows") == Json({1, 20}));
  const auto of_windows = [](const Json& arm, const auto& ends_of_nodes) {
    const double beta = 0.95, unit = 2.0 / 5.0, sigma = arm.at("noise_multiplier");
    double squares = 0.0;
    for (int window = 0; window < 3; ++window) {
      // the weights of the normals, by the step that names them
      std::vector<double> weights(60, 0.0);
      for (int step = 20 * window; step < 20 * (window + 1); ++step) {
        for (const int end : ends_of_nodes(step))
          weights[static_cast<std::size_t>(end)] +=
              (1.0 - beta) * std::pow(beta, step - end) / 20.0;
      }
      for (const double weight : weights) squares += weight * weight / 3.0;
    }
    return unit * sigma * std::sqrt(squares);
  };
  const Json& independent = json.at("mechanisms")[0];
  CHECK_THAT(independent.at("averaged")[1].get<double>(),
             WithinRel(of_windows(independent,
                                  [](int step) {
                                    std::vector<int> all;
                                    for (int u = 0; u <= step; ++u) all.push_back(u);
                                    return all;
                                  }),
                       0.04));
  const Json& tree = json.at("mechanisms")[1];
  CHECK(tree.at("name") == "tree");
  // The binary digits of the number of steps give the ends of the dyadic blocks that cover
  // them.
  CHECK_THAT(tree.at("averaged")[1].get<double>(), WithinRel(of_windows(tree,
                                                                        [](int step) {
                                                                          std::vector<int> ends;
                                                                          for (int k = step + 1;
                                                                               k != 0; k &= k - 1)
                                                                            ends.push_back(k - 1);
                                                                          return ends;
                                                                        }),
                                                             0.04));
  // Means over one release agree with the mechanism's own formula for its noise.
  for (const Json& arm : json.at("mechanisms")) {
    CHECK_THAT(arm.at("averaged")[0].get<double>(),
               WithinRel(arm.at("root_mean_square").get<double>(), 0.04));
  }
}

TEST_CASE("noise-error averages over what momentum remembers, and ten times as long") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const auto windows = [&](const Words& more) {
    Words call{"noise-error", "m.yaml", "--json"};
    call.insert(call.end(), more.begin(), more.end());
    return Json::parse(cli(call).out).at("windows");
  };
  CHECK(windows({}) == Json({20}));  // 200 steps are more than the manifest has
  CHECK(windows({"--set", "steps=200"}) == Json({20, 200}));
  CHECK(windows({"--momentum", "1"}) == Json::array());
}

TEST_CASE("noise-error compares at the steps that a theorem asks one aggregator for") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const Json json = Json::parse(
      cli({"noise-error", "m.yaml", "--json", "--set", "steps=auto", "--set",
           "aggregator={kind: tree, momentum: auto}", "--set", "privacy.target_epsilon=8", "--set",
           "optimizer=normalized_sgd", "--set", "schedules.learning_rate=auto"})
          .out);
  CHECK(json.at("steps") > 0);
  CHECK(json.at("mechanisms")[0].at("stddev").size() == json.at("steps"));
}

TEST_CASE("noise-error: a mechanism without a proof is listed with the reason") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const Json json = Json::parse(
      cli({"noise-error", "m.yaml", "--json", "--set", "sampler={kind: poisson, sample_rate: 0.05}",
           "--set", "privacy.adjacency=zero_out", "--set", "privacy.accountant=rdp"})
          .out);
  CHECK(json.at("mechanisms")[0].at("refused").is_null());
  CHECK_THAT(json.at("mechanisms")[1].at("refused").get<std::string>(),
             ContainsSubstring("no amplification is proved"));
}

TEST_CASE("noise-error: the reduced tree needs a smoothness, and epochs in one order") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const auto reason = [&](const Words& more) {
    Words call{"noise-error", "m.yaml", "--json", "--set", "schedules.learning_rate=0.01"};
    call.insert(call.end(), more.begin(), more.end());
    const Json arm = Json::parse(cli(call).out).at("mechanisms").back();
    CHECK(arm.at("name") == "tree, reduced");
    return arm.at("refused").is_null() ? std::string() : arm.at("refused").get<std::string>();
  };
  CHECK_THAT(reason({}), ContainsSubstring("give --smoothness"));
  CHECK_THAT(reason({"--smoothness", "1", "--set", "sampler={kind: shuffle, batch_size: 5}"}),
             ContainsSubstring("draws other batches in each epoch"));
  CHECK(reason({"--smoothness", "1"}).empty());
  CHECK(
      reason({"--set", "aggregator={kind: tree_reduced, momentum: 0.95, smoothness: 1}"}).empty());
}

// Noise is in units of the clip norm, so twice the clip norm means twice the noise.
TEST_CASE("noise-error of two manifests: both predictions, their ratio, and which is lower") {
  const Cli cli;
  write_file(cli.dir() / "a.yaml", kManifest);
  const auto compared = [&](const std::string& clip_norm) {
    std::string other = kManifest;
    other.replace(other.find("clip_norm: 2.0"), 14, "clip_norm: " + clip_norm);
    write_file(cli.dir() / "b.yaml", other);
    return Json::parse(cli({"noise-error", "a.yaml", "b.yaml", "--windows", "1,20", "--json"}).out);
  };
  const Json twice = compared("4.0");
  REQUIRE(twice.at("comparison").size() == 3);  // all steps, and two windows
  for (const Json& measure : twice.at("comparison")) {
    CHECK_THAT(measure.at("ratio").get<double>(), WithinRel(2.0, 1e-5));
    CHECK(measure.at("ratio") ==
          measure.at("values")[1].get<double>() / measure.at("values")[0].get<double>());
    CHECK(measure.at("lower") == "a.yaml");
  }
  CHECK(twice.at("notes").empty());
  CHECK(compared("1.0").at("comparison")[0].at("lower") == "b.yaml");
  // If the two are within 10 %, neither counts as lower, in either order.
  CHECK(compared("2.19").at("comparison")[0].at("lower").is_null());
  CHECK(compared("2.21").at("comparison")[0].at("lower") == "a.yaml");
  CHECK(compared("1.82").at("comparison")[0].at("lower").is_null());
  CHECK(compared("1.81").at("comparison")[0].at("lower") == "b.yaml");

  const std::string page = cli({"noise-error", "a.yaml", "b.yaml"}).out;
  CHECK_THAT(page, ContainsSubstring("b.yaml is lower") && ContainsSubstring("all steps (rms)") &&
                       ContainsSubstring("mean of 20"));
  CHECK_THAT(cli({"noise-error", "a.yaml", "a.yaml"}).out, ContainsSubstring("cannot be told"));
}

TEST_CASE("noise-error of two manifests predicts of each what it predicts of it alone") {
  const Cli cli;
  write_file(cli.dir() / "a.yaml", kManifest);
  std::string other = kManifest;
  other.replace(other.find("{kind: tree, momentum: 0.95}"), 28, "gaussian");
  write_file(cli.dir() / "b.yaml", other);
  const Json both = Json::parse(cli({"noise-error", "a.yaml", "b.yaml", "--json"}).out);
  const Json alone = Json::parse(cli({"noise-error", "a.yaml", "--json"}).out).at("mechanisms");
  // Independent noise is compared with the momentum of the other manifest.
  CHECK(both.at("manifests")[1].at("momentum") == 0.95);
  CHECK(both.at("windows") == Json({20}));
  for (const auto& [side, mechanism] : {std::pair{0, 1}, std::pair{1, 0}}) {
    for (const char* key : {"noise_multiplier", "stddev", "root_mean_square", "averaged"})
      CHECK(both.at("manifests")[side].at(key) == alone[mechanism].at(key));
  }
}

TEST_CASE("noise-error of two manifests compares theorems' own steps, and says what it does not") {
  const Cli cli;
  std::string theorem = kManifest;
  theorem.replace(theorem.find("{kind: sgd}"), 11, "{kind: normalized_sgd}");
  theorem.replace(theorem.find("learning_rate: 0.1"), 18, "learning_rate: auto");
  theorem.replace(theorem.find("target_epsilon: 2"), 17, "target_epsilon: 8");
  theorem.replace(theorem.find("steps: 60"), 9, "steps: auto");
  theorem.replace(theorem.find("0.95"), 4, "auto");
  write_file(cli.dir() / "tree.yaml", theorem);
  theorem.replace(theorem.find("kind: tree"), 10, "kind: tree_reduced, smoothness: 1");
  write_file(cli.dir() / "reduced.yaml", theorem);
  const Outcome outcome = cli({"noise-error", "tree.yaml", "reduced.yaml", "--json"});
  INFO(outcome.err);
  const Json json = Json::parse(outcome.out);
  for (const Json& side : json.at("manifests")) {
    const Json plan =
        Json::parse(cli({"plan", side.at("manifest").get<std::string>(), "--json"}).out);
    CHECK(side.at("steps") == plan.at("steps"));
    CHECK(side.at("stddev").size() == plan.at("steps"));
    CHECK(side.at("momentum") < 1.0);
  }
  CHECK(json.at("manifests")[0].at("steps") != json.at("manifests")[1].at("steps"));
  REQUIRE(json.at("notes").size() == 2);
  CHECK_THAT(json.at("notes")[0].get<std::string>(),
             ContainsSubstring("does not mean a better result"));
  CHECK_THAT(json.at("notes")[1].get<std::string>(), ContainsSubstring("of older iterates"));
}

TEST_CASE("noise-error of two manifests refuses what cannot be compared") {
  const Cli cli;
  write_file(cli.dir() / "a.yaml", kManifest);
  const auto refused = [&](const std::string& from, const std::string& to, const Words& more) {
    std::string other = kManifest;
    if (!from.empty()) other.replace(other.find(from), from.size(), to);
    write_file(cli.dir() / "b.yaml", other);
    Words call{"noise-error", "a.yaml", "b.yaml"};
    call.insert(call.end(), more.begin(), more.end());
    const Outcome outcome = cli(call);
    check_one_error_line(outcome, 2);
    return outcome.err;
  };
  CHECK_THAT(refused("target_epsilon: 2", "target_epsilon: 3", {}),
             ContainsSubstring("a.yaml has epsilon 2, ") && ContainsSubstring("b.yaml epsilon 3"));
  CHECK_THAT(refused("replace_one", "zero_out", {}), ContainsSubstring("at the same guarantee"));
  CHECK_THAT(refused(", momentum: 0.95", "", {}), ContainsSubstring("b.yaml releases prefix sums"));
  CHECK_THAT(refused("", "", {"--momentum", "0.9"}),
             ContainsSubstring("--momentum applies to releases of gradients"));
  CHECK_THAT(refused("", "", {"--set", "aggregator=gaussian"}),
             ContainsSubstring("the momentum is missing"));
  CHECK_THAT(refused("", "", {"--restart-every", "5"}), ContainsSubstring("for one manifest"));
  CHECK_THAT(refused("", "", {"--smoothness", "1"}), ContainsSubstring("for one manifest"));
  CHECK_THAT(refused("", "", {"--report", "x.html"}), ContainsSubstring("for one manifest"));
  CHECK_THAT(refused("steps: 60", "steps: 40", {"--windows", "50"}),
             ContainsSubstring("in [1, 40]"));
  CHECK_THAT(refused("", "", {"a.yaml"}), ContainsSubstring("is one too many"));
}

TEST_CASE("noise-error refuses what it cannot compare") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const auto refused = [&](const Words& more) {
    Words call{"noise-error", "m.yaml"};
    call.insert(call.end(), more.begin(), more.end());
    const Outcome outcome = cli(call);
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK_THAT(refused({"--set", "aggregator=gaussian"}),
             ContainsSubstring("the momentum is missing"));
  CHECK_THAT(refused({"--set", "schedules.noise_multiplier=50"}),
             ContainsSubstring("at the same guarantee"));
  CHECK_THAT(refused({"--momentum", "1.5"}), ContainsSubstring("momentum"));
  CHECK_THAT(refused({"--restart-every", "0"}), ContainsSubstring("restart-every"));
  CHECK_THAT(refused({"--windows", "0"}), ContainsSubstring("windows"));
  CHECK_THAT(refused({"--windows", "10,61"}), ContainsSubstring("60"));
  CHECK_THAT(refused({"--windows", ""}), ContainsSubstring("windows is empty"));
}

namespace {

/// Returns the root-mean-square standard deviation of the iterates, for gradients with noise
/// N_{t,t-j} = sigma a_j; computed one normal at a time through momentum and sum.
double iterates_by_normals(int steps, double beta, double unit, double sigma,
                           const std::vector<double>& a) {
  double squares = 0.0;
  for (int node = 0; node < steps; ++node) {
    double velocity = 0.0, iterate = 0.0;
    for (int step = node; step < steps; ++step) {
      const auto age = static_cast<std::size_t>(step - node);
      velocity = beta * velocity + (age < a.size() ? unit * sigma * a[age] : 0.0);
      iterate += (1.0 - beta) * velocity;
      squares += iterate * iterate;
    }
  }
  return std::sqrt(squares / steps);
}

}  // namespace

// Expected values come from the noise multiplier of each manifest and the coefficients in its plan.
TEST_CASE(
    "noise-error --samplers: what it chooses is the best of what each leaves, in ten settings",
    "[noise-error][long]") {
  const Cli cli;
  std::string manifest = kManifest;
  manifest.replace(manifest.find("adjacency: replace_one, accountant: gdp"), 39,
                   "adjacency: zero_out, accountant: pld");
  manifest.replace(manifest.find("rows: 100"), 9, "rows: 500");
  write_file(cli.dir() / "m.yaml", manifest);
  struct Setting {
    const char *epsilon, *batch_size;
    double beta;
  };
  const Setting settings[] = {{"0.5", "5", 0.9},  {"2", "5", 0.9},   {"8", "5", 0.9},
                              {"8", "5", 0.5},    {"8", "20", 0.9},  {"2", "20", 0.5},
                              {"20", "10", 0.95}, {"4", "100", 0.9}, {"1", "10", 0.8},
                              {"12", "50", 0.7}};
  std::set<std::string> chosen;
  const auto count = static_cast<std::size_t>(trials(10, "settings"));
  for (const auto& [epsilon, batch_size, beta] : std::span(settings).first(count)) {
    INFO("epsilon " << epsilon << ", batches of " << batch_size << ", momentum " << beta);
    const std::vector<std::string> numbers{
        "--set", std::string("privacy.target_epsilon=") + epsilon,
        "--set", std::string("sampler.batch_size=") + batch_size,
        "--set", "steps=100"};
    std::vector<std::string> ask{"noise-error", "m.yaml",     "--samplers",
                                 "--json",      "--momentum", std::to_string(beta)};
    ask.insert(ask.end(), numbers.begin(), numbers.end());
    const Json json = Json::parse(cli(ask).out);
    const double unit = 2.0 / std::atof(batch_size);
    double best = 1e300, of_choice = 0.0;
    for (const Json& arm : json.at("mechanisms")) {
      const std::string name = arm.at("name");
      INFO(name);
      if (!arm.at("refused").is_null()) continue;
      double expected = arm.at("iterates");  // for trees, the windows above are compared
      if (name.find("tree") == std::string::npos) {
        std::vector<double> a{1.0};
        if (name.find("independent") == std::string::npos) {
          std::vector<std::string> plan{"plan", "m.yaml", "--json"};
          plan.insert(plan.end(), numbers.begin(), numbers.end());
          for (const char* key : {"sampler", "aggregator"}) {
            plan.emplace_back("--set");
            plan.push_back(key + ("=" + arm.at(key).get<std::string>()));
          }
          a = Json::parse(cli(plan).out).at("optimized").get<std::vector<double>>();
          // In the banded form c comes first: it begins with 1, and so does a.
          a.erase(a.begin(), std::find(a.begin() + 1, a.end(), 1.0) == a.end()
                                 ? a.begin()
                                 : std::find(a.begin() + 1, a.end(), 1.0));
        }
        expected = iterates_by_normals(100, beta, unit, arm.at("noise_multiplier"), a);
        CHECK_THAT(arm.at("iterates").get<double>(), WithinRel(expected, 0.05));
      }
      best = std::min(best, expected);
      if (name == json.at("least")) of_choice = expected;
    }
    CHECK(of_choice <= 1.03 * best);
    chosen.insert(json.at("least").get<std::string>());
  }
  // no single mechanism is best for all
  if (count == std::size(settings)) CHECK(chosen.size() >= 3);
}

TEST_CASE("noise-error --samplers says which keys give the least, and is for one manifest") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  const auto page = cli({"noise-error", "m.yaml", "--samplers"});
  CHECK_THAT(page.out, ContainsSubstring("least noise in the iterates: ") &&
                           ContainsSubstring("--set 'sampler={kind: shuffle") &&
                           ContainsSubstring("iterates"));
  CHECK(cli({"noise-error", "m.yaml", "m.yaml", "--samplers"}).exit_code == 2);
}
