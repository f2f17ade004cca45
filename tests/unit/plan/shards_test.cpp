#include "privgrad/plan/shards.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/partition.hpp"

using namespace privgrad;
using core::Manifest;
using core::Setting;
using core::Shards;

namespace {

/// The partition for the next test.
struct NextPartition {
  std::vector<std::uint32_t> owners{0, 1, 1, 1};
  std::vector<std::uint64_t> sizes;  ///< If empty, sizes are counted.
  bool is_drawn = true;
};

NextPartition next;

class Sharing final : public Transform, public Partition {
 public:
  explicit Sharing(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply(Dataset&) const override {}
  Statistic statistic() const override { return Statistic::none; }
  std::vector<std::uint32_t> clients_of(const Dataset&, std::uint64_t,
                                        const RandomSource&) const override {
    return next.owners;
  }
  std::vector<std::uint64_t> sizes(std::uint64_t, std::uint64_t,
                                   const RandomSource&) const override {
    return next.sizes;
  }
  bool looks_at_examples() const override { return true; }
  bool is_drawn() const override { return next.is_drawn; }
};

/// Four rows of two classes.
class FourRows final : public DataSource {
 public:
  DataInfo info() override { return {.shape = {{1}, 2}, .train_rows = 4, .unaccounted = {}}; }
  Dataset read(Split) override {
    return {{{1}, 2}, {0.0f, 1.0f, 2.0f, 3.0f}, {0.0f, 1.0f, 0.0f, 1.0f}};
  }
};

/// A federated run of two clients.
struct Shared {
  Manifest manifest = counted({"data.transforms=[]"});  // adjacency: zero_out
  Setting setting;

  Shared() {
    next = {};
    core::Federated wish;
    wish.clients = 2;
    wish.partition = in_manifest<Transform, Sharing>("sharing", "federated.partition");
    manifest.federated = wish;
    setting.dataset_size = 4;
    setting.info.shape = {{1}, 2};
    setting.plan_key = core::RandomKey::from_seed(1);
    setting.data = ComponentPtr<DataSource>(
        new FourRows,
        {[](void* object) noexcept { delete static_cast<DataSource*>(object); }, nullptr});
  }
  Shards share() const { return core::share_out(manifest, setting); }
};

}  // namespace

TEST_CASE("each client has its own rows, and its weight is its share of them", "[shards]") {
  Shared run;
  const Shards shards = run.share();
  REQUIRE(shards.clients.size() == 2);
  CHECK(shards.clients[0].rows == std::vector<std::uint32_t>{0});
  CHECK(shards.clients[1].rows == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(shards.clients[1].labels == std::vector<std::uint64_t>{1, 2});
  CHECK(shards.sizes == std::vector<std::uint64_t>{1, 3});
  CHECK(shards.weights == std::vector<double>{0.25, 0.75});
  CHECK(shards.looks_at_examples);
  run.manifest.federated->equal_weights = true;
  CHECK(run.share().weights == std::vector<double>{0.5, 0.5});
}

TEST_CASE("sizes that are counted are not public, and those that are declared are",
          "[shards][privacy]") {
  Shared run;
  CHECK_FALSE(run.share().sizes_are_public);
  run.manifest.federated->sizes = {1, 3};
  CHECK(run.share().sizes_are_public);
  CHECK(core::foreseen_shards(run.manifest).sizes_are_public);
  run.manifest.federated->sizes.clear();
  next.sizes = {1, 3};
  CHECK(run.share().sizes_are_public);
  // With dp_fed_avg the sizes are shares of a counted number, which changes if a client is
  // missing.
  run.manifest.federated->aggregation = core::Aggregation::dp_fed_avg;
  run.manifest.adjacency = Adjacency::add_or_remove_one;
  CHECK_FALSE(run.share().sizes_are_public);
}

TEST_CASE("a public size must be the real one, by the key that declares it", "[shards][privacy]") {
  Shared run;
  run.manifest.federated->sizes = {2, 2};
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("federated.sizes: gives client 0 2 examples"));
  run.manifest.federated->sizes.clear();
  next.sizes = {2, 2};
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("data.size: gives client 0 2 examples"));
  // If examples may be added or removed, the real size is private, and is not compared.
  run.manifest.adjacency = Adjacency::add_or_remove_one;
  CHECK(run.share().sizes == std::vector<std::uint64_t>{2, 2});
  run.manifest.federated->sizes = {2, 2};
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("federated.sizes: is given, but the sizes"));
}

TEST_CASE("given shards are not drawn, because one example would move others",
          "[shards][privacy]") {
  Shared run;
  run.manifest.federated->shards_are_given = true;
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("federated.shards"));
  next.is_drawn = false;
  CHECK_NOTHROW(run.share());
}

TEST_CASE("a partition that breaks its contract, or leaves a client without rows, is refused",
          "[shards]") {
  Shared run;
  next.owners = {0, 1, 2, 1};
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("gave an example to client 2 of 2"));
  next.owners = {0, 1, 1};
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("the clients of 3 of 4 examples"));
  next.owners = {1, 1, 1, 1};
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("leaves client 0 without examples"));
}

TEST_CASE("a recorded run has the shards that it counted, and reads no row", "[shards][resume]") {
  Shared run;
  run.setting.data = nullptr;
  core::PublicFacts facts;
  facts.shape = {{1}, 2};
  facts.shard_sizes = {1, 3};
  run.setting.recorded = facts;
  const Shards shards = run.share();
  CHECK(shards.sizes == std::vector<std::uint64_t>{1, 3});
  CHECK(shards.clients[1].rows.empty());
  CHECK_FALSE(shards.sizes_are_public);
  run.setting.recorded->shard_sizes = {1, 2, 1};
  CHECK_THROWS_WITH(run.share(), ContainsSubstring("the run recorded 3"));
}
