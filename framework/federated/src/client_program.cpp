#include "privgrad/federated/client_program.hpp"

namespace privgrad::core {

Mishaps draw_mishaps(const Federated& wish, const RandomKey& key, std::uint64_t round) {
  const auto lost = make_random_source(key.derive("drop-outs"))->stream(round);
  const auto slow = make_random_source(key.derive("stragglers"))->stream(round);
  Mishaps mishaps;
  mishaps.slow.resize(wish.clients);
  for (std::size_t i = 0; i < wish.clients; ++i) {
    mishaps.dropped.push_back(lost->uniform() < wish.client_drop_rate);
    const double luck = slow->uniform(), pace = slow->uniform();
    if (luck < wish.straggler_rate) mishaps.slow[i] = pace;
  }
  return mishaps;
}

void ClientProgram::begin_round(std::uint64_t first_step, std::uint64_t local_iterations,
                                const Mishaps& mishaps) {
  first_step_ = first_step;
  local_iterations_ = local_iterations;
  mishaps_ = mishaps;
  known_.reset();
  asked_ = 0;
  lost_ = 0;
  slow_ = 0;
}

void ClientProgram::load_parameters(std::span<const float> parameters) {
  model_.assign(parameters.begin(), parameters.end());
}

void ClientProgram::gradient_rows(const Batch& batch, std::span<float> rows) const {
  executor_.for_each_chunk(batch.rows(), [&](std::size_t i) {
    const auto number = static_cast<std::size_t>(batch.features[i]);
    const std::span<float> row = rows.subspan(i * parameters_, parameters_);
    std::ranges::fill(row, 0.0f);
    ++asked_;
    Client& client = *clients_[number];
    std::optional<ClientRound> made;
    const ClientRound* sent = nullptr;
    if (known_) {
      const auto found = known_->find(number);
      if (found != known_->end()) sent = &found->second;
    } else if (const std::uint64_t steps = steps_of(number); steps > 0) {
      client.begin_at(first_step_);
      pool_.with([&](Workbench& bench) { made = client.train(model_, steps, bench); });
      if (made) sent = &*made;
    }
    if (mishaps_.slow[number]) ++slow_;
    if (mishaps_.dropped[number]) ++lost_;
    if (sent == nullptr || mishaps_.dropped[number]) return;
    for (std::size_t j = 0; j < parameters_; ++j) row[j] = model_[j] - sent->model[j];
  });
}

}  // namespace privgrad::core
