// The program, memory and parameters with which a model is trained.
#pragma once

#include <memory>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// The program, memory and parameters with which a model is trained. Of the trainer that used it
/// last, only the parameters are left in it, so trainers may take turns.
struct Workbench {
  ComponentPtr<Backend> backend;
  std::unique_ptr<Program> program;
  SumMemory memory;
  std::vector<float> parameters, previous;

  /// \param values  become the parameters, also those of the program.
  void load(std::vector<float> values);

  /// Passes the parameters on to the program; if they are not finite, those of `previous` come
  /// back instead.
  /// \returns whether they were finite.
  bool keep_if_finite();
};

/// \param plan  with a model and a network.
/// \param backend  made if it is null and the model does not execute itself; outlives the program,
///   as does the executor.
/// \throws as make_workbench()
std::unique_ptr<Program> make_program(const Plan& plan, ComponentPtr<Backend>& backend,
                                      Executor& executor);

/// \param plan  with a model and a network.
/// \param executor  outlives the workbench.
/// \throws ConfigError, PluginError if the backend cannot execute the network.
Workbench make_workbench(const Plan& plan, Executor& executor);

/// \returns the initial parameters of the layers that are trained: the model's, or those that
///   model.weights has for them.
/// \param key  the run's.
std::vector<float> initial_parameters(const Plan& plan, const RandomKey& key);

}  // namespace privgrad::core
