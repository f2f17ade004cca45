#include "../shares_out.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Deals out the examples at random, so that the clients' numbers of examples differ by at most 1.
class Iid final : public SharesOut {
 public:
  explicit Iid(const Params&) {}

  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                        const RandomSource& random) const override {
    const auto order = shuffled(train.rows(), *random.stream(0));
    std::vector<std::uint32_t> owners(train.rows());
    std::size_t next = 0;
    for (std::uint32_t client = 0; client < clients; ++client) {
      for (std::uint64_t i = part_size(train.rows(), clients, client); i > 0; --i)
        owners[order[next++]] = client;
    }
    return owners;
  }

  std::vector<std::uint64_t> sizes(std::uint64_t rows, std::uint64_t clients,
                                   const RandomSource&) const override {
    std::vector<std::uint64_t> all;
    for (std::uint64_t i = 0; i < clients; ++i) all.push_back(part_size(rows, clients, i));
    return all;
  }

  bool looks_at_examples() const override { return false; }
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, Iid>({
      .name = "iid",
      .summary = "Partition of a federated run: equally many examples for every client, drawn at "
                 "random.",
      .reference = "McMahan et al. 2017, section 3 (IID)",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.iid", "0.1.0", "transform/iid", register_components)
