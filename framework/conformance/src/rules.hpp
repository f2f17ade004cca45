// The conformance rules, one function per interface, each in a file with its name.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checker.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/component_state.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/network.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/streamed_rows.hpp"

// Every function may assume that the component can be made from checker.params().
namespace privgrad::testing {

inline constexpr Adjacency kAdjacencies[] = {Adjacency::add_or_remove_one, Adjacency::replace_one,
                                             Adjacency::zero_out};

void check_accountant(Checker& checker);
void check_aggregator(Checker& checker);
void check_backend(Checker& checker);
void check_clipping(Checker& checker);
void check_cluster(Checker& checker);
void check_data_source(Checker& checker);
void check_model(Checker& checker);
void check_optimizer(Checker& checker);
void check_sampler(Checker& checker);
/// Whether the sampler's start() accepts any of the plans that the suite tries.
bool starts_somewhere(const Checker& checker);
void check_schedule(Checker& checker);
void check_transform(Checker& checker);

/// \param layouts  groups that the clipping accepts; not empty.
void check_coordinate_scaling(Checker& checker,
                              const std::vector<std::vector<ParameterGroup>>& layouts);

/// \param shapes  shapes of examples that the transform accepts.
void check_bounded_statistic(Checker& checker, const std::vector<Shape>& shapes);

template <class Ability, class Component>
bool is_able(const Component& component) {
  return dynamic_cast<const Ability*>(&component) != nullptr;
}

using ProgramMaker = std::function<std::unique_ptr<Program>(const Network&, Executor&)>;

/// \param networks  accepted by `make`; not empty.
void check_program(Checker& checker, const std::vector<Network>& networks,
                   const ProgramMaker& make);

/// Returns all numbers of a component's state, in the order of its list.
std::vector<double> state_of(Stateful& component);
/// Copies one component's state to another component that was started in the same way.
void copy_state(Stateful& from, Stateful& to);
/// Breaks the rule unless a state's list names each member once, and is the same on every call.
void require_state_list(Stateful& component);

/// Check the rules for optional functions: auto_steps() of aggregators; auto_learning_rate() of
/// optimizers; influence() and AdaptiveLocalIterations of schedules; is_filter() of accountants;
/// foreseen_info(), files(), suggest(), columns() and StreamedRows of data sources.
void check_abilities(Checker& checker, const Aggregator& aggregator);
void check_abilities(Checker& checker, const Optimizer& optimizer);
void check_abilities(Checker& checker, const std::vector<Horizon>& horizons);
void check_abilities(Checker& checker, const Accountant& accountant);
void check_abilities(Checker& checker, DataSource& source);

/// \param streams  the same object as `source`.
void check_streamed_rows(Checker& checker, DataSource& source, StreamedRows& streams);

/// Checks the rules of ReproducibleRows and ExactClipping, for programs that have these
/// abilities.
void check_exact_program(Checker& checker, const std::vector<Network>& networks,
                         const ProgramMaker& make);

/// Checks the rules of ResidentSteps, for programs that have this ability.
void check_resident_steps(Checker& checker, const std::vector<Network>& networks,
                          const ProgramMaker& make);

}  // namespace privgrad::testing
