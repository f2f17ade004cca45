// The program, memory and parameters with which a model is trained.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/model.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// The program that evaluates public rows, and whose results are public. It has its own backend and
/// model, so that public results never come from an instance that has seen a private row.
class PublicProgram {
 public:
  /// The program with these parameters; it is made on first use.
  /// \param class_weights  as for make_program(); the same in every call.
  const Program& holding(std::span<const float> parameters, const Plan& plan, Executor& executor,
                         const std::vector<double>& class_weights);

 private:
  ComponentPtr<Backend> backend_;
  std::unique_ptr<Program> program_;
};

/// The program, memory and parameters with which a model is trained. A trainer leaves nothing in it
/// except the parameters, so trainers can take turns.
struct Workbench {
  ComponentPtr<Backend> backend;
  std::unique_ptr<Program> program;
  SumMemory memory;
  std::vector<float> parameters, previous;
  /// Set by weigh_classes(); empty: the model's own weights, or none.
  std::vector<double> class_weights;
  /// Nothing if results on public rows are not published, as in audits.
  std::optional<PublicProgram> for_public_rows;

  /// Sets the parameters, also in the program.
  void load(std::vector<float> values);

  /// Returns a program with these parameters, to evaluate public rows.
  const Program& program_for_public_rows(const Plan& plan, Executor& executor);

  /// Recompiles the program with these class weights, and keeps its parameters. Must be called
  /// before the first step, and before an engine of steps knows the program.
  /// \param weights  class_weights_of() the released counts; empty: does nothing.
  void weigh_classes(std::vector<double> weights, const Plan& plan, Executor& executor);

  /// Passes the parameters on to the program; if they are not finite, restores `previous` instead.
  /// \returns whether they were finite.
  bool keep_if_finite();
};

/// \param plan  a plan with a model and a network.
/// \param backend  made if it is null; outlives the program, as does the executor.
/// \param class_weights  as for compile_program().
/// \throws as make_workbench()
std::unique_ptr<Program> make_program(const Plan& plan, ComponentPtr<Backend>& backend,
                                      Executor& executor,
                                      const std::vector<double>& class_weights = {});

/// \param plan  a plan with a model and a network.
/// \param executor  outlives the workbench.
/// \throws ConfigError, PluginError if the backend cannot execute the network.
Workbench make_workbench(const Plan& plan, Executor& executor);

/// \returns the initial parameters of the trained layers: the model's own, or the values in
///   model.weights.
/// \param key  the run's key.
/// \throws ConfigError as put_initial_values()
std::vector<float> initial_parameters(const Plan& plan, const RandomKey& key);

/// \returns parameters for measuring times: as many as initial_parameters(), but without the values
///   in model.weights, on which the time of a step does not depend.
std::vector<float> parameters_to_measure(const Plan& plan);

}  // namespace privgrad::core
