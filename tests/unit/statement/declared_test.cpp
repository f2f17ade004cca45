#include "privgrad/statement/declared.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "counted_manifest.hpp"

using namespace privgrad;

namespace {

std::vector<std::string> facts_of(const core::Manifest& manifest) {
  std::vector<std::string> lines;
  for (const core::Declared& one : core::declared_facts(manifest))
    lines.push_back(one.key + " = " + one.value);
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("every number that a manifest says about its data is declared, but no default",
          "[declared][privacy]") {
  CHECK(facts_of(counted()) == Lines{"data.rows = 20", "data.transforms.1.to = 10"});
  CHECK(facts_of(counted({"data.rows=10"})) == Lines{"data.transforms.1.to = 10"});
  CHECK(facts_of(counted({"data.rows=10", "data.transforms=[{kind: scale, to: 1.0}]"})).empty());
}

TEST_CASE("the number of rows is declared, or what it is about where it is released",
          "[declared][privacy]") {
  core::Manifest manifest = counted({"data.rows=10", "data.transforms=[flatten]"});
  manifest.dataset_size = 60000;
  CHECK(facts_of(manifest) == Lines{"data.size = 60000"});
  manifest.size_noise = StatisticNoise{.multiplier = 2.0};
  CHECK(facts_of(manifest) == Lines{"data.size.about = 60000"});
}

TEST_CASE("files are not declared, lists of values are", "[declared]") {
  const core::Manifest manifest = core::parse_manifest(
      kGood, "/nowhere/m.yaml",
      {"data={kind: files, train: {images: a, labels: b}, more: [c], keep_labels: [3, 7]}",
       "data.transforms=[]"},
      fakes(), core::DataFiles::may_be_missing);
  CHECK(facts_of(manifest) == Lines{"data.keep_labels = [3, 7]"});
}

TEST_CASE("what a statistic costs is no fact about the data, and its bound is one",
          "[declared][privacy]") {
  Catalog catalog = make_catalog();
  catalog.add(
      std::make_shared<PluginIdentity>(PluginIdentity{"more", "1", "", "", "", "this program"}),
      nullptr,
      {declare<Transform>("centre",
                          private_statistic_params(
                              {param::real("bound", "Bound.").above(0).optional().example(1.0)}))});
  const auto facts = [&](const char* use) {
    return facts_of(core::parse_manifest(
        kGood, "/nowhere/m.yaml", {"data.rows=10", std::string("data.transforms=[") + use + "]"},
        catalog));
  };
  CHECK(facts("{kind: centre, statistic: private, share: 0.125, bound: 2}") ==
        Lines{"data.transforms.0.bound = 2"});
}

TEST_CASE("the clients of a federated run, and their sizes, are declared", "[declared]") {
  core::Manifest manifest = counted({"data.rows=10", "data.transforms=[]"});
  core::Federated federated;
  federated.clients = 2;
  federated.partition = counted({"data.transforms=[{kind: scale, to: 3}]"}).transforms.front();
  federated.partition.where = "federated.partition";
  manifest.federated = federated;
  CHECK(facts_of(manifest) == Lines{"federated.clients = 2", "federated.partition.to = 3"});
  manifest.federated->sizes = {30, 40};
  CHECK(facts_of(manifest)[1] == "federated.sizes = [30, 40]");
}

TEST_CASE("a statement says what is declared, and nothing if nothing is", "[declared]") {
  const auto prose = [](const core::Manifest& manifest) {
    return core::declared_prose(core::declared_facts(manifest));
  };
  CHECK_THAT(prose(counted()),
             ContainsSubstring(": data.rows = 20; data.transforms.1.to = 10. Nothing here"));
  CHECK(prose(counted({"data.rows=10", "data.transforms=[]"})).empty());
}
