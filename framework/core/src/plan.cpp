#include "privgrad/core/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "privgrad/core/calibrate.hpp"
#include "privgrad/core/certified_accountant.hpp"
#include "privgrad/core/checked_answer.hpp"
#include "privgrad/core/mechanism.hpp"
#include "privgrad/schedule.hpp"

namespace privgrad::core {
namespace {

/// One hyper-parameter over time, as the manifest's schedule gives it.
struct Values {
  std::vector<double> at;
  bool is_shape = false;
};

Values schedule_values(const ComponentUse& use, const std::string& slot, std::uint64_t steps,
                       bool above_zero) {
  const auto schedule = use.make<Schedule>();
  return use.with_position([&] {
    schedule->start({.steps = steps, .slot = slot});
    Values values;
    values.is_shape = schedule->is_shape();
    values.at.reserve(steps);
    for (std::uint64_t step = 0; step < steps; ++step) {
      const double value = schedule->value(step);
      if (!std::isfinite(value) || value < 0.0 || (above_zero && value == 0.0)) {
        throw ConfigError("is " + format_number(value) + " at step " + std::to_string(step) +
                          ", allowed is " + (above_zero ? "(0, inf)" : "[0, inf)"));
      }
      values.at.push_back(value);
    }
    return values;
  });
}

std::vector<double> absolute_values(const ComponentUse& use, const std::string& slot,
                                    std::uint64_t steps, bool above_zero) {
  Values values = schedule_values(use, slot, steps, above_zero);
  if (values.is_shape) {
    use.with_position([&] {
      throw ConfigError(
          "gives a shape without a scale, which only schedules.noise_multiplier can use; give it "
          "its "
          "initial value");
    });
  }
  return std::move(values.at);
}

/// The accountant after the given charges, one by one: the very additions that the ledger will
/// make, so that the run cannot differ from its plan by a rounding.
ComponentPtr<Accountant> accountant_after(const ComponentUse& use, Adjacency adjacency,
                                          const std::vector<Charge>& charges, std::uint64_t count) {
  auto accountant = make_accountant(use);
  use.with_position([&] {
    accountant->start(adjacency);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (const auto why = accountant->refuses(charges[i].cost)) throw PrivacyError(*why);
      accountant->compose(charges[i].cost, 1);
    }
  });
  return accountant;
}

class Planner {
 public:
  explicit Planner(const Manifest& manifest) : manifest_(manifest) { plan_.manifest = &manifest; }

  Plan make() {
    plan_data();
    plan_model();
    plan_sampling();
    plan_schedules();
    if (manifest_.noise_off) {
      plan_without_noise();
    } else {
      plan_noise();
      plan_budget();
    }
    list_unaccounted();
    if (manifest_.mode == Mode::release) refuse_unaccounted();
    return std::move(plan_);
  }

 private:
  void plan_data() {
    plan_.data = manifest_.data.make<DataSource>();
    plan_.info = manifest_.data.with_position([&] { return plan_.data->info(); });
    if (plan_.info.train_rows == 0)
      throw IoError(manifest_.data.position + ": error: data: there are no training examples");
    shape_ = plan_.info.shape;
    for (const ComponentUse& use : manifest_.transforms) {
      plan_.transforms.push_back(use.make<Transform>());
      shape_ = use.with_position([&] { return plan_.transforms.back()->output_shape(shape_); });
    }
    const bool size_is_public = manifest_.adjacency != Adjacency::add_or_remove_one;
    plan_.dataset_size = manifest_.dataset_size.value_or(plan_.info.train_rows);
    if (size_is_public && plan_.dataset_size != plan_.info.train_rows) {
      throw ManifestError({manifest_.position_of("data.size") + ": error: data.size: is " +
                           std::to_string(plan_.dataset_size) + ", but there are " +
                           std::to_string(plan_.info.train_rows) + " training examples; under " +
                           std::string(to_text(manifest_.adjacency)) +
                           " the size is public and must be the real one"});
    }
  }

  void plan_model() {
    plan_.model = manifest_.model.make<Model>();
    manifest_.model.with_position([&] {
      plan_.network = plan_.model->network(shape_);
      check_network(plan_.network);
    });
    plan_.parameters = parameter_count(plan_.network);
    plan_.optimizer = manifest_.optimizer.make<Optimizer>();
  }

  void plan_sampling() {
    plan_.sampler = manifest_.sampler.make<Sampler>();
    manifest_.sampler.with_position([&] {
      plan_.sampler->start({.dataset_size = plan_.dataset_size,
                            .steps = manifest_.steps,
                            .adjacency = manifest_.adjacency});
    });
    plan_.divisor = plan_.sampler->expected_batch_size();
  }

  void plan_schedules() {
    plan_.clip_norm = absolute_values(manifest_.clip_norm, "clip_norm", manifest_.steps, true);
    plan_.learning_rate =
        absolute_values(manifest_.learning_rate, "learning_rate", manifest_.steps, false);
    plan_.aggregator = manifest_.aggregator.make<Aggregator>();
  }

  void plan_without_noise() {
    plan_.noise_multiplier.assign(manifest_.steps, 0.0);
    plan_.affordable_steps = manifest_.steps;
    plan_.event = Event::non_private();
    plan_.accountants.push_back({manifest_.accountant.component->factory.info.name,
                                 {.value = std::numeric_limits<double>::infinity(),
                                  .bound = BoundKind::exact,
                                  .lower = {},
                                  .note = "no noise"}});
  }

  /// What each step costs with these noise multipliers.
  std::vector<Charge> charges_for(const std::vector<double>& multipliers) {
    const std::vector<Event> releases = manifest_.aggregator.with_position([&] {
      plan_.aggregator->start({.steps = manifest_.steps, .noise_multipliers = multipliers});
      return release_events(*plan_.aggregator, manifest_.steps);
    });
    std::vector<Event> costs =
        manifest_.sampler.with_position([&] { return plan_.sampler->charges(releases); });
    if (costs.size() != releases.size()) {
      throw PluginError(manifest_.sampler.component->full_name() + ": gave " +
                        std::to_string(costs.size()) + " charges for " +
                        std::to_string(releases.size()) + " steps");
    }
    std::vector<Charge> charges;
    charges.reserve(costs.size());
    for (std::uint64_t step = 0; step < costs.size(); ++step) {
      charges.push_back({step, releases[step], std::move(costs[step])});
    }
    return charges;
  }

  void plan_noise() {
    const ComponentUse& use = manifest_.noise_multiplier;
    Values shape = schedule_values(use, "noise_multiplier", manifest_.steps, true);
    double scale = 1.0;
    if (shape.is_shape) {
      if (!manifest_.target_epsilon) {
        use.with_position([&] {
          throw ConfigError(
              "gives a shape without a scale: set privacy.target_epsilon, or give it its initial "
              "value");
        });
      }
      scale = use.with_position([&] {
        return smallest_scale(
            [&](double candidate) {
              const auto charges = charges_for(scaled(shape.at, candidate));
              return guard_epsilon(charges, charges.size()).value;
            },
            *manifest_.target_epsilon);
      });
    }
    plan_.noise_multiplier = scaled(shape.at, scale);
    plan_.charges = charges_for(plan_.noise_multiplier);
  }

  static std::vector<double> scaled(std::vector<double> values, double scale) {
    for (double& value : values) value *= scale;
    return values;
  }

  void plan_budget() {
    plan_.affordable_steps = affordable_steps();
    const auto report = [&](const ComponentUse& use) {
      const auto accountant =
          accountant_after(use, manifest_.adjacency, plan_.charges, plan_.affordable_steps);
      const std::string& name = use.component->factory.info.name;
      plan_.accountants.push_back(
          {name, checked(accountant->epsilon(manifest_.target_delta), name)});
    };
    plan_.accountants.push_back({manifest_.accountant.component->factory.info.name,
                                 guard_epsilon(plan_.charges, plan_.affordable_steps)});
    if (manifest_.mode == Mode::release) refuse_infinite_epsilon();
    for (const ComponentUse& use : manifest_.also) report(use);
    refuse_contradictions();

    std::vector<Event> costs;
    for (std::uint64_t i = 0; i < plan_.affordable_steps; ++i)
      costs.push_back(plan_.charges[i].cost);
    plan_.event = compose_runs(costs);
  }

  /// Two proofs about the same number cannot contradict each other: what one says is spent at least
  /// cannot be more than what another says is spent at most. If it is, one of them is wrong, and
  /// nobody knows which.
  void refuse_contradictions() const {
    constexpr double kRounding = 1e-9;
    for (const AccountantReport& one : plan_.accountants) {
      if (!one.epsilon.lower) continue;
      for (const AccountantReport& other : plan_.accountants) {
        if (other.epsilon.bound == BoundKind::estimate) continue;
        if (*one.epsilon.lower <= other.epsilon.value * (1.0 + kRounding)) continue;
        throw PrivacyError(manifest_.position_of("privacy.also") +
                           ": error: privacy.also: the accountants contradict " +
                           "each other: " + one.name + " proves that epsilon is at least " +
                           format_number(*one.epsilon.lower) + ", " + other.name +
                           " that it is at most " + format_number(other.epsilon.value) +
                           "; one of them is wrong, please report it");
      }
    }
  }

  /// How many of the charges, from the first on, the budget pays for.
  std::uint64_t affordable_steps() {
    const std::uint64_t all = plan_.charges.size();
    if (!manifest_.target_epsilon || fits(all)) return all;
    const std::uint64_t fitting = largest_count(
        [&](std::uint64_t count) {
          return guard_epsilon(plan_.charges, std::min(count, all)).value;
        },
        *manifest_.target_epsilon);
    if (fitting == 0) {
      throw PrivacyError(manifest_.position_of("privacy.target_epsilon") +
                         ": error: privacy.target_epsilon: a budget of " +
                         format_number(*manifest_.target_epsilon) +
                         " does not pay for a single step, which costs " +
                         format_number(guard_epsilon(plan_.charges, 1).value));
    }
    return fitting;
  }

  bool fits(std::uint64_t count) {
    return guard_epsilon(plan_.charges, count).value <= *manifest_.target_epsilon;
  }

  /// What the guarding accountant proves of the first `count` charges.
  PrivacyAnswer guard_epsilon(const std::vector<Charge>& charges, std::uint64_t count) const {
    const ComponentUse& use = manifest_.accountant;
    const auto accountant = accountant_after(use, manifest_.adjacency, charges, count);
    return use.with_position([&] {
      return checked_guard(accountant->epsilon(manifest_.target_delta),
                           use.component->factory.info.name);
    });
  }

  void refuse_infinite_epsilon() const {
    if (std::isfinite(plan_.epsilon().value)) return;
    throw PrivacyError(manifest_.position_of("schedules.noise_multiplier") +
                       ": error: release mode refuses a run of which no finite epsilon can be "
                       "proved; use more noise");
  }

  void list_unaccounted() {
    const auto add = [&](std::string what, std::string position) {
      plan_.unaccounted.push_back({std::move(what), std::move(position)});
    };
    if (manifest_.noise_off)
      add("everything: noise is off", manifest_.position_of("privacy.noise"));
    for (const std::string& fact : plan_.info.unaccounted) add(fact, manifest_.data.position);
    if (manifest_.adjacency == Adjacency::add_or_remove_one && !manifest_.dataset_size) {
      add("number of training examples", manifest_.data.position);
    }
    list_choice_of_rows(add);
    for (std::size_t i = 0; i < plan_.transforms.size(); ++i) {
      const std::string& name = manifest_.transforms[i].component->factory.info.name;
      const std::string& position = manifest_.transforms[i].position;
      const Statistic statistic = plan_.transforms[i]->statistic();
      if (statistic == Statistic::unaccounted) add(name, position);
      if (statistic == Statistic::declared_public) add(name + " (declared public)", position);
    }
    // Beyond 9.49 standard deviations, a two-sided mass of 2e-21, no noise is drawn
    // (random_key.hpp).
    constexpr double kSmallestDelta = 1e-18;
    if (manifest_.target_delta < kSmallestDelta) {
      add("tails of the noise that matter for so small a delta",
          manifest_.position_of("privacy.target_delta"));
    }
    // Release mode computes neither, so there they are not a reason to refuse.
    if (manifest_.mode == Mode::release) return;
    add("training metrics", manifest_.position_of("mode"));
    if (plan_.info.test_rows > 0 && !manifest_.test_is_public)
      add("test metrics", manifest_.data.position);
  }

  /// The proofs are about the rows that are left after choosing. Where one example decides about
  /// the place of another, or about a size that its neighbours share, choosing is a use of the data
  /// of its own.
  template <class Add>
  void list_choice_of_rows(Add add) const {
    const bool size_is_private = manifest_.adjacency == Adjacency::add_or_remove_one;
    if (plan_.info.first_rows_only && size_is_private) {
      // Without one example, the next one moves up into the chosen rows: the sum changes by two of
      // them.
      add("choice of the first examples", manifest_.data.position);
    }
    if (plan_.info.rows_chosen_by_value && manifest_.adjacency == Adjacency::replace_one) {
      // An example that is replaced by one of another class changes the size, which is taken for
      // public.
      add("number of examples of the kept classes", manifest_.data.position);
    }
  }

  void refuse_unaccounted() const {
    std::string text;
    for (const Unaccounted& item : plan_.unaccounted) {
      text += (text.empty() ? "" : "\n") + item.position + ": error: release mode refuses '" +
              item.what +
              "', which was read off private rows and charged nowhere; declare it public, or use "
              "mode: research";
    }
    if (!text.empty()) throw PrivacyError(text);
  }

  const Manifest& manifest_;
  ExampleShape shape_;
  Plan plan_;
};

}  // namespace

Plan make_plan(const Manifest& manifest) { return Planner(manifest).make(); }

}  // namespace privgrad::core
