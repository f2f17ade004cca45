#include "clients_again.hpp"

#include <numeric>

namespace privgrad::core {

ClientsAgain::ClientsAgain(const Plan& plan, const Dataset& data, const RandomKey& key,
                           Executor& executor)
    : plan_(plan), key_(key), keys_(RunKeys::constant(key)), pool_(plan, executor) {
  const FederatedPlan& federated = *plan.federated;
  for (std::size_t i = 0; i < federated.clients.size(); ++i) {
    clients_.push_back(
        std::make_unique<Client>(i, federated, *plan.manifest->federated, data, keys_, executor));
  }
  made_ = std::make_unique<ClientProgram>(clients_, plan.parameters, pool_, executor);
  program_ = made_.get();
}

void ClientsAgain::begin_round(std::uint64_t round) {
  const std::vector<std::uint64_t>& steps = plan_.federated->local_iterations;
  const auto now = steps.begin() + static_cast<std::ptrdiff_t>(round);
  program_->begin_round(std::accumulate(steps.begin(), now, std::uint64_t{0}), *now,
                        draw_mishaps(*plan_.manifest->federated, key_, round));
}

}  // namespace privgrad::core
