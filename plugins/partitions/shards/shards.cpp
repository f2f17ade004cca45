#include <algorithm>
#include <numeric>
#include <string>

#include "../shares_out.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Sorts the examples by target and cuts them into equal shards; every client gets a few of them.
class Shards final : public SharesOut {
 public:
  explicit Shards(const Params& params)
      : per_client_(static_cast<std::uint64_t>(params.integer("per_client"))) {}

  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                        const RandomSource& random) const override {
    const auto targets = train.targets();
    std::vector<std::uint32_t> sorted(train.rows());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::ranges::stable_sort(
        sorted, [&](std::uint32_t a, std::uint32_t b) { return targets[a] < targets[b]; });
    const auto shard_order = order_of(clients, random);
    std::vector<std::uint32_t> owners(train.rows());
    std::size_t next = 0;
    for (std::uint64_t shard = 0; shard < shard_order.size(); ++shard) {
      const auto owner = static_cast<std::uint32_t>(shard_order[shard] / per_client_);
      for (std::uint64_t i = part_size(train.rows(), shard_order.size(), shard); i > 0; --i)
        owners[sorted[next++]] = owner;
    }
    return owners;
  }

  std::vector<std::uint64_t> sizes(std::uint64_t rows, std::uint64_t clients,
                                   const RandomSource& random) const override {
    const auto shard_order = order_of(clients, random);
    std::vector<std::uint64_t> all(clients, 0);
    for (std::uint64_t shard = 0; shard < shard_order.size(); ++shard)
      all[shard_order[shard] / per_client_] += part_size(rows, shard_order.size(), shard);
    return all;
  }

  bool looks_at_examples() const override { return true; }

 private:
  /// Shard i goes to client result[i] / per_client.
  std::vector<std::uint32_t> order_of(std::uint64_t clients, const RandomSource& random) const {
    if (per_client_ > 4294967295u / clients) {
      throw ConfigError("shards: " + std::to_string(clients) + " clients with " +
                        std::to_string(per_client_) + " shards each are too many");
    }
    return shuffled(static_cast<std::size_t>(clients * per_client_), *random.stream(0));
  }

  std::uint64_t per_client_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Transform, Shards>({
      .name = "shards",
      .summary =
          "Partition of a federated run: the examples are sorted by label and cut into equal "
          "shards, of which every client gets a few at random, so that it has few labels.",
      .reference = "McMahan et al. 2017, section 3 (pathological non-IID): 2 shards per client",
      .params =
          {integer("per_client", "Shards of each client.").at_least(1).at_most(1e6).defaults_to(2)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.shards", "0.1.0", "transform/shards", register_components)
