#include <cmath>

#include "cli.hpp"

// The manifest is one of shuffled epochs under replace_one.
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
    if (arm.at("name") == "tree, reduced") continue;  // has noise of two trees from the start
    // The first release is a tenth of one contribution's bound, 0.05 * 2 / 5, times its noise.
    CHECK_THAT(arm.at("stddev")[0].get<double>(),
               WithinRel(0.05 * 2.0 / 5.0 * arm.at("noise_multiplier").get<double>(), 1e-9));
  }
  // Independent noise under shuffling: an example pays once in each of three epochs, so that
  // sigma = 2 sqrt(3) / mu; its momentum has variance (1 - b)^2 (1 - b^2t) / (1 - b^2) sigma^2.
  const Json& independent = json.at("mechanisms")[0];
  const double sigma = independent.at("noise_multiplier");
  const double series = (1.0 - std::pow(0.95, 120.0)) / (1.0 - 0.95 * 0.95);
  CHECK_THAT(independent.at("stddev")[59].get<double>(),
             WithinRel(0.05 * 2.0 / 5.0 * sigma * std::sqrt(series), 1e-9));
}

// Expected: each window's mean as a linear function of the independent normals behind it, written out
// from the definitions of momentum and of the tree. Simulated with a fixed seed; 4 % are more than four
// standard errors of 2048 copies and three windows, were the windows one and the same.
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
      std::vector<double> weights(60, 0.0);  // of the normal that is named by a step
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
  // The dyadic blocks that cover the steps so far end where the binary digits of their number say.
  CHECK_THAT(tree.at("averaged")[1].get<double>(), WithinRel(of_windows(tree,
                                                                        [](int step) {
                                                                          std::vector<int> ends;
                                                                          for (int k = step + 1;
                                                                               k != 0; k &= k - 1)
                                                                            ends.push_back(k - 1);
                                                                          return ends;
                                                                        }),
                                                             0.04));
  // Means of one release: what the mechanism itself says of its noise, by formulas of its own.
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
  CHECK(windows({}) == Json({20}));  // 200 steps are more than there are
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

TEST_CASE("noise-error writes a page with the table and a chart of every step") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kManifest);
  CHECK(cli({"noise-error", "m.yaml", "--report", "page.html"}).exit_code == 0);
  const std::string page = read_file(cli.dir() / "page.html");
  CHECK_THAT(page, ContainsSubstring("<table") && ContainsSubstring("variance reduction") &&
                       ContainsSubstring("give --smoothness"));
  // The chart's data: three curves of 60 steps, each the numbers that --json prints.
  const std::string mark = "id=\"chart-data\">";
  const std::size_t begin = page.find(mark) + mark.size();
  const Json charts = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  REQUIRE(charts.size() == 1);
  const Json& series = charts[0].at("series");
  CHECK(series.size() == 3);
  CHECK(series[0].at("points").size() == 60);
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
  CHECK_THAT(refused({"--set", "aggregator=gaussian"}), ContainsSubstring("which momentum?"));
  CHECK_THAT(refused({"--set", "schedules.noise_multiplier=50"}),
             ContainsSubstring("at the same guarantee"));
  CHECK_THAT(refused({"--momentum", "1.5"}), ContainsSubstring("momentum"));
  CHECK_THAT(refused({"--restart-every", "0"}), ContainsSubstring("restart-every"));
  CHECK_THAT(refused({"--windows", "0"}), ContainsSubstring("windows"));
  CHECK_THAT(refused({"--windows", "10,61"}), ContainsSubstring("60"));
  CHECK_THAT(refused({"--windows", ""}), ContainsSubstring("--windows is empty"));
}
