#include "privgrad/train/workbench.hpp"

#include <cstddef>
#include <span>
#include <utility>

#include "privgrad/finite.hpp"
#include "privgrad/plan/initial_values.hpp"

namespace privgrad::core {

void Workbench::load(std::vector<float> values) {
  parameters = std::move(values);
  program->load_parameters(parameters);
}

void Workbench::weigh_classes(std::vector<double> weights, const Plan& plan, Executor& executor) {
  if (weights.empty()) return;
  class_weights = std::move(weights);
  program = make_program(plan, backend, executor, class_weights);
  if (!parameters.empty()) program->load_parameters(parameters);
  if (for_public_rows) for_public_rows.emplace();
}

bool Workbench::keep_if_finite() {
  const bool finite = all_finite(parameters);
  if (!finite) parameters = previous;
  program->load_parameters(parameters);
  return finite;
}

const Program& Workbench::program_for_public_rows(const Plan& plan, Executor& executor) {
  return for_public_rows ? for_public_rows->holding(parameters, plan, executor, class_weights)
                         : *program;
}

const Program& PublicProgram::holding(std::span<const float> parameters, const Plan& plan,
                                      Executor& executor,
                                      const std::vector<double>& class_weights) {
  if (program_ == nullptr) {
    program_ = make_program(plan, backend_, executor, class_weights);
  }
  program_->load_parameters(parameters);
  return *program_;
}

std::unique_ptr<Program> make_program(const Plan& plan, ComponentPtr<Backend>& backend,
                                      Executor& executor,
                                      const std::vector<double>& class_weights) {
  return compile_program(*plan.manifest, *plan.setting, backend, executor, class_weights);
}

Workbench make_workbench(const Plan& plan, Executor& executor) {
  Workbench bench;
  bench.program = make_program(plan, bench.backend, executor);
  bench.for_public_rows.emplace();
  return bench;
}

namespace {

/// \param loads_weights  whether the values of model.weights are among the parameters.
std::vector<float> parameters_of(const Plan& plan, const RandomKey& key, bool loads_weights) {
  const Setting& setting = *plan.setting;
  std::vector<float> parameters(parameter_count(setting.whole));
  const auto source = make_random_source(key.derive("model"));
  const auto random = source->stream(0);
  plan.manifest->model.with_position(
      [&] { setting.model->initialise(setting.whole, *random, parameters); });
  if (loads_weights) put_initial_values(setting, parameters);
  if (setting.lora) {
    const auto adapters = make_random_source(key.derive("lora"))->stream(0);
    return setting.lora->beginning(std::span(parameters).subspan(setting.frozen_parameters),
                                   *adapters);
  }
  return {parameters.begin() + static_cast<std::ptrdiff_t>(setting.frozen_parameters),
          parameters.end()};
}

}  // namespace

std::vector<float> initial_parameters(const Plan& plan, const RandomKey& key) {
  return parameters_of(plan, key, true);
}

std::vector<float> parameters_to_measure(const Plan& plan) {
  return parameters_of(plan, RandomKey::from_seed(0), false);
}

}  // namespace privgrad::core
