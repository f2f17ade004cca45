// A second instance of the clients of dp_fed_avg, which computes the change that one client makes,
// independently of the run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "privgrad/federated/client_program.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/trust/run_keys.hpp"

namespace privgrad::core {

class ClientsAgain {
 public:
  /// \param plan, data, executor  outlive this.
  ClientsAgain(const Plan& plan, const Dataset& data, const RandomKey& key, Executor& executor);

  /// May be called only once; the program must not outlive this.
  std::unique_ptr<Program> take_program() { return std::move(made_); }
  /// Must be called before anything in the round is computed.
  void begin_round(std::uint64_t round);

 private:
  const Plan& plan_;
  RandomKey key_;
  RunKeys keys_;
  std::vector<std::unique_ptr<Client>> clients_;
  WorkbenchPool pool_;
  std::unique_ptr<ClientProgram> made_;
  ClientProgram* program_;
};

}  // namespace privgrad::core
