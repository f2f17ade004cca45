// Entries of the public registry of deployments. The leaves and their order come from its records
// of September 2026 (opendp/deployments-registry-data).
#include <cmath>

#include "page.hpp"

namespace {

const std::string kDeployment =
    "deployment={name: 'Ward 7: \"triage\"', curators: [A hospital], intended_use: Triage, region: "
    "Wales, actors: Nurses.}";

std::string entry_of(const Cli& cli) {
  const Outcome outcome = cli({"report", "run", "--statement", "--as", "registry"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return outcome.out;
}

/// Returns the names of keys in their order, either of actual keys or of keys in comments.
Words keys(const std::string& entry, bool in_comments) {
  Words names;
  std::istringstream lines(entry);
  for (std::string line; std::getline(lines, line);) {
    std::size_t begin = line.find_first_not_of(" -");
    const bool is_comment = line[begin] == '#';
    if (is_comment) begin += 2;
    const std::size_t end = line.find(':');
    if (is_comment == in_comments && line.find(' ', begin) > end)
      names.push_back(line.substr(begin, end - begin));
  }
  return names;
}

/// Returns the text of a leaf.
std::string leaf(const std::string& entry, const std::string& key) {
  const std::size_t begin = entry.find(key + ": ") + key.size() + 2;
  return Json::parse(entry.substr(begin, entry.find('\n', begin) - begin)).get<std::string>();
}

}  // namespace

TEST_CASE("an entry of the registry has all leaves, or says which only a person can fill in") {
  const Cli cli;
  page_of_run(cli, {"--set", "mode=release", "--set", kDeployment});
  const std::string entry = entry_of(cli);
  CHECK(keys(entry, false) == Words{"url_slug",
                                    "status",
                                    "tier",
                                    "deployment",
                                    "basic",
                                    "name",
                                    "data_curators",
                                    "data_curator_name",
                                    "intended_use",
                                    "data_product_type",
                                    "data_product_region",
                                    "dp_variant",
                                    "variant_name",
                                    "unprotected_quantities",
                                    "privacy_loss",
                                    "privacy_unit",
                                    "privacy_unit_details",
                                    "privacy_parameters",
                                    "epsilon",
                                    "delta",
                                    "rho",
                                    "privacy_parameters_details",
                                    "deployment_model",
                                    "model_name",
                                    "model_name_details",
                                    "actors",
                                    "release_type",
                                    "release_type_details",
                                    "data_source_type",
                                    "access_type",
                                    "access_type_details",
                                    "accounting",
                                    "post_processing",
                                    "composition",
                                    "implementation",
                                    "preprocessing_and_hyperparameter_tuning",
                                    "mechanisms",
                                    "administrative",
                                    "notes"});
  CHECK(keys(entry, true) == Words{"data_curator_type", "description", "publication_date",
                                   "data_product_sector", "data_domain", "justification", "sources",
                                   "registry_authors"});
  CHECK_THAT(entry, ContainsSubstring("\n      delta: 1.0e-05\n"));
  CHECK(leaf(entry, "url_slug") == "ward-7-triage");
  CHECK(leaf(entry, "    name") == "Ward 7: \"triage\"");
  CHECK(leaf(entry, "data_curator_name") == "A hospital");
  CHECK(leaf(entry, "actors") == "Nurses.");
  CHECK(leaf(entry, "unprotected_quantities") == "None that the run knows of.");
  CHECK_THAT(leaf(entry, "mechanisms"), ContainsSubstring("privgrad.gaussian:gaussian"));
  CHECK(cli({"verify", "run"}).exit_code == 0);
}

// A full-batch step of noise multiplier s is 1/s-GDP, and 12 of them are sqrt(12)/s-GDP, which
// implies mu^2/2-zCDP. If an example is exchanged for another, the sum changes by up to twice the
// clip norm, and mu is twice as large. A sampled step is not Gaussian, so the statement has no mu.
TEST_CASE("a statement has the mu of Gaussian privacy where there is one", "[privacy]") {
  const Cli cli;
  page_of_run(cli, {"--set", "mode=release", "--set", "privacy.target_epsilon=null", "--set",
                    "schedules.noise_multiplier=4"});
  const double mu = std::sqrt(12.0) / 4.0;
  CHECK_THAT(statement_of(cli).at("gaussian_mu").get<double>(), WithinRel(mu, 1e-8));
  CHECK(statement_of(cli).at("gaussian_mu").get<double>() > mu);
  CHECK_THAT(statement_of(cli).at("prose").dump(), ContainsSubstring("mu-GDP with mu = 0.86603"));
  const std::string entry = entry_of(cli);
  const std::size_t rho = entry.find("rho: ") + 5;
  CHECK_THAT(std::stod(entry.substr(rho)), WithinRel(0.375, 1e-7));

  page_of_run(cli,
              {"--set", "privacy.adjacency=replace_one", "--set", "privacy.target_epsilon=null",
               "--set", "schedules.noise_multiplier=4"},
              "exchanged");
  CHECK_THAT(statement_of(cli, "exchanged").at("gaussian_mu").get<double>(),
             WithinRel(2.0 * mu, 1e-8));

  page_of_run(cli,
              {"--set", "sampler={kind: poisson, batch_size: 20}", "--set",
               "privacy.adjacency=add_or_remove_one", "--set", "privacy.accountant=pld", "--set",
               "data.size=60"},
              "sampled");
  CHECK_FALSE(statement_of(cli, "sampled").contains("gaussian_mu"));
}

// A private statistic of noise multiplier 2 is 1/2-GDP: with the 12 steps of noise multiplier 4, mu
// is sqrt(12/16 + 1/4) = 1. With sampled steps, its mu is not the run's mu.
TEST_CASE("what is released beside the steps is part of the mu of Gaussian privacy", "[privacy]") {
  const Cli cli;
  const std::string statistic =
      "data.transforms=[{kind: standardize, statistic: private, range: [-3, 3], noise_multiplier: "
      "2}]";
  page_of_run(cli, {"--set", statistic, "--set", "privacy.target_epsilon=null", "--set",
                    "schedules.noise_multiplier=4"});
  CHECK_THAT(statement_of(cli).at("gaussian_mu").get<double>(), WithinRel(1.0, 1e-8));
}

TEST_CASE("what is not covered, and what an audit found, is in an entry and in the JSON") {
  const Cli cli;
  page_of_run(cli);  // research mode, with exact metrics
  CHECK_THAT(leaf(entry_of(cli), "unprotected_quantities"),
             ContainsSubstring("training metrics (in the files of the run, not in the model)"));
  const auto json = [&] {
    return Json::parse(cli({"report", "run", "--statement", "--as", "json"}).out);
  };
  CHECK(json() == statement_of(cli));
  REQUIRE(cli({"audit", "run"}).exit_code == 0);
  CHECK(json().at("audit").at("epsilon_upper") == statement_of(cli).at("epsilon"));
  CHECK_THAT(leaf(entry_of(cli), "privacy_parameters_details"), ContainsSubstring("Audit. By an"));
}

// Without these parts, an entry would claim more than the statement.
TEST_CASE("what weakens a guarantee in its statement is in its entry too", "[privacy]") {
  const Cli cli;
  page_of_run(cli, {}, "first");
  page_of_run(cli, {"--set", "model.weights={file: first/model.safetensors, public: true}", "--set",
                    "privacy.target_epsilon=null", "--set", "schedules.noise_multiplier=0.1",
                    "--set", "privacy.accountant=saddle_point"});
  const std::string entry = entry_of(cli);
  CHECK_THAT(leaf(entry, "privacy_parameters_details"), ContainsSubstring("Note that epsilon is"));
  CHECK_THAT(leaf(entry, "preprocessing_and_hyperparameter_tuning"),
             ContainsSubstring("Beginning. The model begins from trained weights"));
  // An estimate guards no budget by itself: another accountant proves the bound.
  CHECK_THAT(leaf(entry, "composition"), ContainsSubstring("composed by the accountant pld to"));
}

TEST_CASE("a record that does not verify, or has no noise, makes no entry") {
  const Cli cli;
  page_of_run(cli, {"--set", "privacy.noise=off"});
  const Words call{"report", "run", "--statement", "--as", "registry"};
  check_one_error_line(cli(call), 2);
  check_one_error_line(cli({"report", "run", "--statement", "--as", "yaml"}), 2);
  check_one_error_line(cli({"report", "run", "--as", "json"}), 2);
  page_of_run(cli, {}, "forged");
  Json forged = statement_of(cli, "forged");
  forged["epsilon"] = 0.1;
  write_file(cli.out("forged/statement.json"), forged.dump());
  check_one_error_line(cli({"report", "forged", "--statement", "--as", "registry"}), 4);
}
