#include "privgrad/plan/shards.hpp"

#include <numeric>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/partition.hpp"

namespace privgrad::core {
namespace {

void fill_clients(Shards& shards, const std::vector<std::uint32_t>& owners, const Dataset& train,
                  std::uint64_t count) {
  shards.clients.resize(count);
  for (ClientPlan& client : shards.clients) {
    if (shards.has_histograms) client.labels.assign(train.shape().classes, 0);
  }
  for (std::uint32_t row = 0; row < owners.size(); ++row) {
    if (owners[row] >= count) {
      throw PluginError("gave an example to client " + std::to_string(owners[row]) + " of " +
                        std::to_string(count));
    }
    ClientPlan& client = shards.clients[owners[row]];
    client.rows.push_back(row);
    if (shards.has_histograms) ++client.labels[static_cast<std::size_t>(train.targets()[row])];
  }
}

/// If neighbours must differ in only one shard, refuses a partition that draws: with one row
/// removed, the draw assigns some of the other rows to different clients.
void refuse_drawn_shards(const Manifest& manifest, const Partition& partition) {
  const Federated& wish = *manifest.federated;
  if (!wish.shards_are_given || !partition.is_drawn()) return;
  throw error_at(manifest, "federated.shards",
                 "is given, but partition " + wish.partition.name() +
                     " draws which client an example lies with, so that one example can move "
                     "others; use simulated, or a partition that the data gives: by_column");
}

void assign_rows(Shards& shards, const Manifest& manifest, const Setting& setting,
                 const Partition& partition, const RandomSource& random) {
  const Federated& wish = *manifest.federated;
  const Dataset train =
      manifest.data.with_position([&] { return setting.data->read(Split::train); });
  const std::vector<std::uint32_t> owners = partition.clients_of(train, wish.clients, random);
  if (owners.size() != train.rows()) {
    throw PluginError("named the clients of " + std::to_string(owners.size()) + " of " +
                      std::to_string(train.rows()) + " examples");
  }
  shards.has_histograms =
      wish.label_histograms && train.shape().classes > 0 && manifest.mode == Mode::research;
  fill_clients(shards, owners, train, wish.clients);
}

/// Makes the clients that the run recorded, without any rows.
void recorded_clients(Shards& shards, const Federated& wish, Mode mode,
                      const PublicFacts& recorded) {
  if (recorded.shard_sizes.size() != wish.clients) {
    throw ConfigError("has " + std::to_string(wish.clients) + " clients, but the run recorded " +
                      std::to_string(recorded.shard_sizes.size()));
  }
  shards.clients.resize(wish.clients);
  shards.has_histograms =
      wish.label_histograms && recorded.shape.classes > 0 && mode == Mode::research;
}

/// Checks that public sizes are the actual sizes. A later check would find the difference only
/// after charges that used the wrong sizes.
void check_sizes(const Shards& shards, const Manifest& manifest) {
  if (!size_is_public(manifest)) return;
  for (std::size_t i = 0; i < shards.sizes.size(); ++i) {
    if (shards.clients[i].rows.size() == shards.sizes[i]) continue;
    throw error_at(manifest, manifest.federated->sizes.empty() ? "data.size" : "federated.sizes",
                   "gives client " + std::to_string(i) + " " + std::to_string(shards.sizes[i]) +
                       " examples, and the data another number; under " +
                       std::string(to_text(manifest.adjacency)) +
                       " the size is public and must be the real one");
  }
}

/// Whether the clients' sizes are public if they are not counted client by client.
bool are_public(const Manifest& manifest) {
  const Federated& wish = *manifest.federated;
  // Without a declared size, sizes are shares of the counted examples, and thus depend on whether a
  // client's examples are present.
  const bool share_a_count = wish.aggregation == Aggregation::dp_fed_avg &&
                             manifest.adjacency != Adjacency::zero_out && !manifest.dataset_size &&
                             wish.sizes.empty();
  return !share_a_count;
}

/// Sets the sizes that determine sampling rates, divisors and weights: the public sizes, or counted
/// sizes if there are none.
void declare_sizes(Shards& shards, const Manifest& manifest, const Setting& setting,
                   const Partition& partition, const RandomSource& random) {
  const Federated& wish = *manifest.federated;
  shards.sizes = partition.sizes(setting.dataset_size, wish.clients, random);
  if (!wish.sizes.empty()) {
    if (!shards.sizes.empty()) {
      throw error_at(manifest, "federated.sizes",
                     "is given, but the sizes follow from data.size; leave it out, or use another "
                     "partition");
    }
    shards.sizes = wish.sizes;
  }
  shards.looks_at_examples = partition.looks_at_examples();
  const bool are_counted = shards.sizes.empty();
  if (setting.recorded) {
    shards.sizes = setting.recorded->shard_sizes;
  } else if (are_counted) {
    shards.sizes.reserve(shards.clients.size());
    for (const ClientPlan& client : shards.clients) shards.sizes.push_back(client.rows.size());
  }
  shards.sizes_are_public = !are_counted && are_public(manifest);
  if (!setting.recorded && !are_counted) check_sizes(shards, manifest);
  for (std::size_t i = 0; i < shards.sizes.size(); ++i) {
    if (shards.sizes[i] > 0) continue;
    throw ConfigError("leaves client " + std::to_string(i) + " without examples, of the " +
                      std::to_string(setting.dataset_size) + " there are" +
                      (manifest.dataset_size ? " by data.size" : "") + "; use fewer clients");
  }
}

std::vector<double> weights_of(const std::vector<std::uint64_t>& sizes, bool equal) {
  const auto total =
      static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  std::vector<double> weights;
  weights.reserve(sizes.size());
  for (const std::uint64_t size : sizes) {
    weights.push_back(equal ? 1.0 / static_cast<double>(sizes.size())
                            : static_cast<double>(size) / total);
  }
  return weights;
}

const Partition& partition_in(const ComponentUse& use, const Transform& made) {
  if (const auto* partition = dynamic_cast<const Partition*>(&made)) return *partition;
  throw ConfigError(use.name() +
                    " changes examples and does not share them out; use iid, shards, dirichlet or "
                    "by_column");
}

}  // namespace

Shards foreseen_shards(const Manifest& manifest) {
  const Federated& wish = *manifest.federated;
  Shards shards;
  wish.partition.with_position([&] {
    const auto made = wish.partition.make<Transform>();
    const Partition& partition = partition_in(wish.partition, *made);
    shards.looks_at_examples = partition.looks_at_examples();
    // Any number is suitable here: only whether sizes follow from the number matters.
    const std::uint64_t some = declared_size(manifest).value_or(wish.clients);
    const auto random = make_random_source(RandomKey::from_seed(0));
    const bool are_counted =
        wish.sizes.empty() && partition.sizes(some, wish.clients, *random).empty();
    shards.sizes_are_public = !are_counted && are_public(manifest);
  });
  return shards;
}

Shards share_out(const Manifest& manifest, const Setting& setting) {
  const ComponentUse& use = manifest.federated->partition;
  Shards shards;
  const auto made = use.make<Transform>();
  use.with_position([&] {
    const Partition& partition = partition_in(use, *made);
    refuse_drawn_shards(manifest, partition);
    const auto random = make_random_source(setting.plan_key->derive("partition"));
    if (setting.recorded) {
      recorded_clients(shards, *manifest.federated, manifest.mode, *setting.recorded);
    } else {
      assign_rows(shards, manifest, setting, partition, *random);
    }
    declare_sizes(shards, manifest, setting, partition, *random);
  });
  shards.weights = weights_of(shards.sizes, manifest.federated->equal_weights);
  return shards;
}

}  // namespace privgrad::core
