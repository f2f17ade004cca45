#include "privgrad/api/check_components.hpp"

#include <sstream>
#include <utility>

#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::api {
namespace {

/// Constructs one component, whose constructor checks combinations of parameters, and collects the
/// problems.
template <class Interface>
void try_make(const core::ComponentUse& use, std::vector<std::string>& problems) {
  if (use.component == nullptr) return;
  try {
    use.make<Interface>();
  } catch (const core::ManifestError& error) {
    problems.insert(problems.end(), error.lines().begin(), error.lines().end());
  }
}

}  // namespace

void check_components(const core::Manifest& manifest) {
  std::vector<std::string> problems;
  try_make<DataSource>(manifest.data, problems);
  for (const core::ComponentUse& use : manifest.transforms) try_make<Transform>(use, problems);
  try_make<Model>(manifest.model, problems);
  try_make<Backend>(manifest.backend, problems);
  try_make<Sampler>(manifest.sampler, problems);
  try_make<Clipping>(manifest.clipping, problems);
  try_make<Aggregator>(manifest.aggregator, problems);
  try_make<Optimizer>(manifest.optimizer, problems);
  for (const core::ComponentUse* use :
       {&manifest.noise_multiplier, &manifest.noise_std, &manifest.clip_norm,
        &manifest.learning_rate, &manifest.batch_size}) {
    try_make<Schedule>(*use, problems);
  }
  try_make<Accountant>(manifest.accountant, problems);
  for (const core::ComponentUse& use : manifest.also) try_make<Accountant>(use, problems);
  if (!problems.empty()) throw core::ManifestError(std::move(problems));
}

std::vector<std::string> lines_of(const std::exception& problem) {
  std::vector<std::string> lines;
  std::istringstream text(problem.what());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace privgrad::api
