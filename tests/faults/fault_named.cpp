// Finds a fault among the faults of all kinds.
#include <stdexcept>

#include "fault.hpp"

namespace {

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (const auto faults_of_kind :
       {sampler_faults, allocation_faults, aggregator_faults, accountant_faults, clipping_faults,
        program_faults, exact_program_faults, transform_faults, fitted_value_faults,
        statistic_faults, smuggler_faults, schedule_faults, optimizer_faults, model_faults,
        data_source_faults}) {
    for (Fault& fault : faults_of_kind()) all.push_back(std::move(fault));
  }
  return all;
}

}  // namespace

const Fault& fault_named(const std::string& id) {
  static const std::vector<Fault> all = all_faults();
  for (const Fault& fault : all) {
    if (fault.id == id) return fault;
  }
  throw std::out_of_range("there is no fault " + id);
}
