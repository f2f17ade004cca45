#include "privgrad/pipeline/plan.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

#include "planner.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/pipeline/federated_plan.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/joint_release.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/normals.hpp"
#include "privgrad/trust/short_numbers.hpp"

namespace privgrad::core {
namespace {

using Values = ScheduleValues;

}  // namespace

Values schedule_values(const ComponentUse& use, const std::string& slot, std::uint64_t steps,
                       bool above_zero) {
  const auto schedule = use.make<Schedule>();
  return use.with_position([&] {
    if (slot != "noise_multiplier" &&
        dynamic_cast<const AdaptiveSchedule*>(schedule.get()) != nullptr) {
      throw ConfigError("is " + use.component->factory.info.name +
                        ", which adapts the noise; its place is schedules.noise_multiplier");
    }
    schedule->start({.steps = steps, .slot = slot});
    Values values;
    values.is_shape = schedule->is_shape();
    if (const auto* made = dynamic_cast<const FromInfluence*>(schedule.get())) {
      values.influence.assign(made->influence().begin(), made->influence().end());
      values.is_unaccounted = made->is_unaccounted();
    }
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

namespace {

bool is_nothing(const Event& event) {
  const auto* composed = std::get_if<ComposedEvent>(&event.kind());
  return composed != nullptr && composed->of.empty();
}

/// The accountant after the given charges, one by one: the very additions that the ledger will
/// make, so that the run cannot differ from its plan by a rounding.
/// \param beside  composed first.
ComponentPtr<Accountant> accountant_after(const ComponentUse& use, Adjacency adjacency,
                                          const std::vector<Charge>& beside,
                                          const std::vector<Charge>& charges, std::uint64_t count) {
  auto accountant = make_accountant(use);
  const auto compose = [&](const Charge& charge) {
    if (is_nothing(charge.cost)) return;
    if (const auto why = accountant->refuses(charge.cost)) throw PrivacyError(*why);
    accountant->compose(charge.cost, 1);
  };
  use.with_position([&] {
    accountant->start(adjacency);
    for (const Charge& charge : beside) compose(charge);
    for (std::uint64_t i = 0; i < count; ++i) compose(charges[i]);
  });
  return accountant;
}

class Planner {
 public:
  /// The order of a correlated plan is another one than the run's own would be, if its key comes
  /// from the operating system; the run follows the plan's.
  Planner(const Manifest& manifest, const RandomKey& key)
      : manifest_(manifest), correlated_(make_random_source(key.derive("sampler"))) {
    plan_.manifest = &manifest;
  }
  explicit Planner(const Manifest& manifest) : Planner(manifest, run_key(manifest)) {}

  Plan make() {
    plan_setting();
    plan_steps({.dataset_size = plan_.dataset_size, .steps = manifest_.steps});
    return std::move(plan_);
  }

  Plan make_setting() {
    plan_setting();
    return std::move(plan_);
  }

  Plan make_for(const Plan& setting, const OwnerSetting& owner) {
    plan_.info = setting.info;
    plan_.network = setting.network;
    plan_.parameters = setting.parameters;
    plan_.is_accounted_in_full = owner.is_accounted_in_full;
    plan_steps(owner);
    return std::move(plan_);
  }

  /// \param like  what make_for() gave.
  Plan make_twin(const Plan& like) {
    plan_.planned_steps = like.planned_steps;
    plan_.unit = like.unit;
    plan_.facts = like.facts;
    plan_.auto_values = like.auto_values;
    plan_.dataset_size = like.dataset_size;
    plan_.info = like.info;
    plan_.network = like.network;
    plan_.parameters = like.parameters;
    plan_.is_accounted_in_full = like.is_accounted_in_full;
    plan_.noise_is_rescaled = like.noise_is_rescaled;
    plan_.influence = like.influence;
    plan_.influence_is_unaccounted = like.influence_is_unaccounted;
    plan_.noise_factor = like.noise_factor;
    plan_.count_noise = like.count_noise;
    plan_.count_share = like.count_share;
    plan_.grid_levels = like.grid_levels;
    plan_.charges = like.charges;
    plan_.beside = like.beside;
    plan_.affordable_steps = like.affordable_steps;
    plan_.accountants = like.accountants;
    plan_.event = like.event;
    plan_.noise_multiplier = like.noise_multiplier;
    plan_.clip_norm = like.clip_norm;
    plan_.learning_rate = like.learning_rate;
    plan_.batch_size = like.batch_size;
    make_components();
    start_clipping();
    if (manifest_.batch_size.component != nullptr) batch_size_.at = like.batch_size;
    start_sampler(batch_size_.at);
    // Without noise a recipe is never run; every multiplier is above 0 for a plugin to start.
    std::vector<double> multipliers = like.noise_multiplier;
    if (manifest_.noise_off) multipliers.assign(multipliers.size(), 1.0);
    manifest_.aggregator.with_position([&] {
      plan_.aggregator->start({.steps = plan_.steps(),
                               .noise_multipliers = multipliers,
                               .clip_norms = plan_.clip_norm,
                               .learning_rates = plan_.learning_rate,
                               .facts = plan_.facts});
    });
    return std::move(plan_);
  }

 private:
  void plan_setting() {
    plan_data();
    plan_model();
  }

  void make_components() {
    plan_.sampler = manifest_.sampler.make<Sampler>();
    plan_.aggregator = manifest_.aggregator.make<Aggregator>();
    plan_.differences = dynamic_cast<UsesGradientDifferences*>(plan_.aggregator.get());
    plan_.optimizer = manifest_.optimizer.make<Optimizer>();
    plan_.clipping = manifest_.clipping.make<Clipping>();
  }

  void plan_steps(const OwnerSetting& owner) {
    plan_.dataset_size = owner.dataset_size;
    plan_.beside = owner.beside;
    owner_ = owner;
    make_components();
    plan_facts(owner.steps);
    plan_.noise_adapts = plan_adaptive_noise(manifest_, plan_);
    if (plan_.noise_adapts) plan_.beside = plan_.noise_adapts->check_charges(plan_.steps());
    // The ledger adds up in the order in which releases come to be made: it may differ by
    // roundings.
    target_ = manifest_.target_epsilon;
    if (target_ && !plan_.beside.empty()) *target_ *= 1.0 - 1e-9;
    plan_schedules();
    plan_clipping();
    if (manifest_.noise_off) {
      plan_without_noise();
    } else {
      plan_noise();
      plan_grid();
      if (plan_.noise_adapts) check_adaptive_noise(manifest_, plan_);
      plan_budget();
    }
    check_clip_norms();
    list_auto_values();
    plan_count();
  }

  void check_clip_norms() const {
    const auto check = [&] {
      for (const double clip_norm : plan_.clip_norm) check_clip_norm(clip_norm);
    };
    if (!owner_.clip_norm) return manifest_.clip_norm.with_position(check);
    check();
  }

  void plan_data() {
    plan_.data = manifest_.data.make<DataSource>();
    plan_.info = manifest_.data.with_position([&] { return plan_.data->info(); });
    if (plan_.info.train_rows == 0)
      throw IoError(manifest_.data.position + ": error: data: there are no training examples");
    shape_ = plan_.info.shape;
    for (const ComponentUse& use : manifest_.transforms) {
      plan_.transforms.push_back(use.make<Transform>());
      shape_ = use.with_position([&] {
        if (dynamic_cast<const Partition*>(plan_.transforms.back().get()) != nullptr) {
          throw ConfigError(use.component->factory.info.name +
                            " shares examples out among clients and changes none; its place is "
                            "federated.partition");
        }
        return plan_.transforms.back()->output_shape(shape_);
      });
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
  }

  /// What is public, and the number of steps, which may follow from it.
  /// \param steps  0: to be chosen.
  void plan_facts(std::uint64_t steps) {
    RunFacts& facts = plan_.facts;
    facts = {.steps = steps,
             .dataset_size = plan_.dataset_size,
             .parameters = plan_.parameters,
             .target_epsilon = manifest_.target_epsilon,
             .target_delta = manifest_.target_delta};
    plan_.planned_steps = steps;
    const bool asked = steps == 0 || manifest_.auto_learning_rate;
    if (manifest_.batch_size.component == nullptr) {
      // The sampler's own; of any number of steps.
      plan_.planned_steps = std::max<std::uint64_t>(1, steps);
      facts.batch_size = start_sampler({}).front();
    } else if (asked) {
      throw ManifestError({manifest_.batch_size.position +
                           ": error: schedules.batch_size: changes the batches, for which no "
                           "theorem says an auto value; give the sampler's batch_size instead"});
    }
    plan_.planned_steps = steps;
    if (steps == 0) choose_steps();
  }

  void choose_steps() {
    const std::string position = manifest_.position_of("steps");
    const auto* chooser = dynamic_cast<const AutoSteps*>(plan_.aggregator.get());
    const std::string& name = manifest_.aggregator.component->factory.info.name;
    try {
      if (chooser == nullptr) {
        throw ConfigError("is auto, but no theorem says how many steps aggregator " + name +
                          " is best used for; give a number, or utility: {kappa, alpha} (privgrad "
                          "bound --help)");
      }
      const AutoValue chosen = chooser->auto_steps(plan_.facts);
      constexpr double kMost = 1e8;
      if (!(chosen.value >= 1.0 && chosen.value <= kMost)) {
        throw ConfigError("is auto, which is " + format_number(chosen.value) + " (" +
                          chosen.reason + "), allowed is [1, 1e+08]; give a number");
      }
      plan_.planned_steps = plan_.facts.steps = static_cast<std::uint64_t>(chosen.value);
      plan_.auto_values.push_back({"steps", chosen.value, chosen.reason});
    } catch (const ConfigError& problem) {
      throw ManifestError({position + ": error: steps: " + problem.what()});
    }
  }

  std::vector<double> chosen_learning_rate() {
    return manifest_.learning_rate.with_position([&] {
      const auto* chooser = dynamic_cast<const AutoLearningRate*>(plan_.optimizer.get());
      if (chooser == nullptr) {
        throw ConfigError("is auto, but no theorem says the learning rate of optimizer " +
                          manifest_.optimizer.component->factory.info.name + "; give a number");
      }
      const AutoValue chosen = chooser->auto_learning_rate(plan_.facts);
      plan_.auto_values.push_back({"schedules.learning_rate", chosen.value, chosen.reason});
      return std::vector<double>(plan_.steps(), chosen.value);
    });
  }

  void list_auto_values() {
    const auto add = [&](const ComponentUse& use, const auto& component) {
      const auto* chooser = dynamic_cast<const AutoValues*>(component.get());
      if (chooser == nullptr) return;
      for (AutoValue& chosen : chooser->auto_values()) {
        plan_.auto_values.push_back(
            {use.where + "." + chosen.name, chosen.value, std::move(chosen.reason)});
      }
    };
    add(manifest_.aggregator, plan_.aggregator);
    add(manifest_.optimizer, plan_.optimizer);
  }

  void plan_schedules() {
    const auto values = [&](const ComponentUse& use, const char* slot, bool above_zero) {
      if (use.component == nullptr) return Values{};
      return schedule_values(use, slot, plan_.steps(), above_zero);
    };
    noise_ = has_noise_std() ? values(manifest_.noise_std, "noise_std", true)
                             : values(manifest_.noise_multiplier, "noise_multiplier", true);
    if (!has_noise_std()) plan_.influence = noise_.influence;
    plan_.influence_is_unaccounted = noise_.is_unaccounted;
    clip_norm_ = values(manifest_.clip_norm, "clip_norm", true);
    if (owner_.clip_norm) clip_norm_ = {std::vector(plan_.steps(), *owner_.clip_norm), false};
    batch_size_ = values(manifest_.batch_size, "batch_size", true);
    // Another schedule's open scale meets the target already.
    plan_.noise_is_rescaled = manifest_.scale_all_noise && !manifest_.noise_off &&
                              !plan_.noise_adapts && !noise_.is_shape && !clip_norm_.is_shape &&
                              !batch_size_.is_shape;
    if (plan_.noise_is_rescaled) noise_.is_shape = true;
    if (owner_.learning_rate) {
      plan_.learning_rate.assign(plan_.steps(), *owner_.learning_rate);
    } else if (manifest_.auto_learning_rate) {
      plan_.learning_rate = chosen_learning_rate();
    } else {
      Values rate = values(manifest_.learning_rate, "learning_rate", false);
      if (rate.is_shape) refuse_shape(manifest_.learning_rate, "");
      plan_.learning_rate = std::move(rate.at);
    }
    refuse_shapes_without_meaning();
  }

  void start_clipping() {
    plan_.groups = parameter_groups(plan_.network);
    manifest_.clipping.with_position([&] { plan_.clipping->start(plan_.groups); });
    plan_.adaptive = dynamic_cast<const AdaptiveClipNorm*>(plan_.clipping.get());
  }

  void plan_clipping() {
    start_clipping();
    if (plan_.adaptive == nullptr) return;
    const std::string& name = manifest_.clipping.component->factory.info.name;
    manifest_.clip_norm.with_position([&] {
      const auto& values = clip_norm_.at;
      if (!clip_norm_.is_shape && std::count(values.begin(), values.end(), values.front()) ==
                                      static_cast<std::ptrdiff_t>(values.size())) {
        return;
      }
      throw ConfigError("changes over the steps, but " + name +
                        " decides about the clip norm after the first step; give one number");
    });
    if (!has_noise_std()) return;
    manifest_.noise_std.with_position([&] {
      throw ConfigError("fixes the noise itself, but under " + name +
                        " clipping the noise follows the clip norm; use noise_multiplier");
    });
  }

  /// The noise of the counts, once that of the steps is known.
  void plan_count() {
    if (plan_.adaptive == nullptr) return;
    manifest_.clipping.with_position([&] {
      for (std::uint64_t step = 0; step < plan_.steps(); ++step) {
        const double multiplier = plan_.noise_multiplier[step];
        // Without noise the count is exact, and any share of the vector will do.
        plan_.count_noise.push_back(
            multiplier > 0.0 ? plan_.adaptive->count_noise(plan_.batch_size[step], multiplier)
                             : 0.0);
        plan_.count_share.push_back(
            multiplier > 0.0 ? count_share(multiplier, plan_.count_noise.back()) : 0.5);
      }
    });
  }

  bool has_noise_std() const { return manifest_.noise_std.component != nullptr; }
  const ComponentUse& noise_use() const {
    return has_noise_std() ? manifest_.noise_std : manifest_.noise_multiplier;
  }

  [[noreturn]] static void refuse_shape(const ComponentUse& use, const std::string& why) {
    use.with_position([&] {
      throw ConfigError(
          "gives a shape without a scale" +
          (why.empty() ? ", which only what costs privacy can be calibrated for" : why) +
          "; give it its initial value");
    });
    throw ConfigError("unreachable");
  }

  /// One number is found by one target: at most one schedule may leave its scale open.
  void refuse_shapes_without_meaning() const {
    if (clip_norm_.is_shape && !has_noise_std()) {
      refuse_shape(manifest_.clip_norm,
                   ", but noise_multiplier is relative to it, so that no scale costs more than "
                   "another; fix the noise itself by schedules.noise_std");
    }
    if (clip_norm_.is_shape && batch_size_.is_shape) {
      refuse_shape(manifest_.batch_size, ", and so does schedules.clip_norm");
    }
    if (noise_.is_shape && clip_norm_.is_shape) {
      refuse_shape(manifest_.clip_norm, ", and so does schedules.noise_std");
    }
    if (noise_.is_shape && batch_size_.is_shape) {
      refuse_shape(manifest_.batch_size, ", and so does " + noise_use().where);
    }
    if (manifest_.noise_off && clip_norm_.is_shape) {
      refuse_shape(manifest_.clip_norm, ", and without noise there is no target for it");
    }
    if (manifest_.noise_off && batch_size_.is_shape) {
      refuse_shape(manifest_.batch_size, ", and without noise there is no target for it");
    }
  }

  /// The schedules with the open scale, if there is one, filled in. A larger scale costs less.
  struct Setting {
    std::vector<double> noise_multiplier, clip_norm, batch_size;
  };
  Setting setting_at(double scale) const {
    Setting setting;
    setting.noise_multiplier = scaled(noise_, scale);
    setting.clip_norm = scaled(clip_norm_, 1.0 / scale);
    if (has_noise_std()) {
      for (std::size_t t = 0; t < setting.clip_norm.size(); ++t) {
        setting.noise_multiplier[t] /= setting.clip_norm[t];
      }
    }
    setting.batch_size = batch_size_.at;
    if (batch_size_.is_shape) {
      // A scale of 1 is the whole data set at the largest step, and no batch is larger than that.
      const double size = static_cast<double>(plan_.dataset_size);
      const double most = *std::max_element(batch_size_.at.begin(), batch_size_.at.end());
      for (double& value : setting.batch_size) {
        value = std::min(size, value / most * size / scale);
      }
    }
    return setting;
  }

  static std::vector<double> scaled(const Values& values, double scale) {
    std::vector<double> result = values.at;
    if (values.is_shape) {
      for (double& value : result) value *= scale;
    }
    return result;
  }

  /// Starts the sampler and asks it what each step's batch has.
  std::vector<double> start_sampler(const std::vector<double>& batch_sizes) const {
    const ComponentUse& use = manifest_.sampler;
    if (!batch_sizes.empty()) {
      const double size = static_cast<double>(plan_.dataset_size);
      const auto most = std::max_element(batch_sizes.begin(), batch_sizes.end());
      manifest_.batch_size.with_position([&] {
        if (*most <= size) return;
        throw ConfigError("is " + format_number(*most) + " at step " +
                          std::to_string(most - batch_sizes.begin()) +
                          ", allowed are at most the " + std::to_string(plan_.dataset_size) +
                          " training examples");
      });
    }
    return use.with_position([&] {
      plan_.sampler->start({.dataset_size = plan_.dataset_size,
                            .steps = plan_.steps(),
                            .adjacency = manifest_.adjacency,
                            .batch_sizes = batch_sizes});
      std::vector<double> expected;
      for (std::uint64_t step = 0; step < plan_.steps(); ++step) {
        expected.push_back(plan_.sampler->expected_batch_size(step));
        if (batch_sizes.empty()) continue;
        // Whole numbers only: the next one below.
        if (expected[step] <= batch_sizes[step] && expected[step] > batch_sizes[step] - 1.0)
          continue;
        throw ConfigError(use.component->factory.info.name +
                          " decides about its batch sizes itself and does not follow "
                          "schedules.batch_size; use poisson or fixed_size");
      }
      return expected;
    });
  }

  void plan_without_noise() {
    plan_.noise_multiplier.assign(plan_.steps(), 0.0);
    plan_.clip_norm = clip_norm_.at;
    plan_.batch_size = start_sampler(batch_size_.at);
    // The rule of the sums of data; the noise in the recipes is not made.
    plan_correlated({.noise_multiplier = std::vector<double>(plan_.steps(), 1.0),
                     .clip_norm = clip_norm_.at,
                     .batch_size = plan_.batch_size});
    plan_.affordable_steps = plan_.steps();
    plan_.event = Event::non_private();
    plan_.accountants.push_back({manifest_.accountant.component->factory.info.name,
                                 {.value = std::numeric_limits<double>::infinity(),
                                  .bound = BoundKind::exact,
                                  .lower = {},
                                  .note = "no noise"}});
  }

  /// Starts the aggregator.
  /// \returns whether its releases share data or noise between steps, in which case they are
  ///   accounted for the sampler's order; the sampler has been started.
  bool plan_correlated(const Setting& setting) {
    plan_.correlated.reset();
    auto parts = manifest_.aggregator.with_position([&] {
      plan_.aggregator->start({.steps = plan_.steps(),
                               .noise_multipliers = setting.noise_multiplier,
                               .clip_norms = setting.clip_norm,
                               .learning_rates = plan_.learning_rate,
                               .facts = plan_.facts});
      if (plan_.differences != nullptr)
        return parts_of(*plan_.aggregator, *plan_.differences, plan_.steps());
      std::vector<CorrelatedPart> one;
      if (auto recipes = CorrelatedRecipes::of(*plan_.aggregator, plan_.steps()))
        one.push_back({std::move(*recipes)});
      return one;
    });
    refuse_other_than_sums(parts);
    if (parts.empty()) return false;
    const std::string aggregator = manifest_.aggregator.component->factory.info.name;
    refuse_changing_sums(setting, aggregator);
    manifest_.sampler.with_position([&] {
      auto* order = dynamic_cast<PublicOrder*>(plan_.sampler.get());
      const std::string& name = manifest_.sampler.component->factory.info.name;
      if (order == nullptr) {
        throw PrivacyError(name +
                           " draws its batches to have them amplified, and no amplification is "
                           "proved for the correlated releases of aggregator " +
                           aggregator +
                           ", which are accounted by who takes part in which step; use sampler "
                           "shuffle, sequential or full_batch");
      }
      plan_.correlated = correlated_.plan(std::move(parts), *order, setting.batch_size);
      if (plan_.differences != nullptr) refuse_changing_order(name, aggregator);
    });
    return true;
  }

  /// Gradients of one epoch are put together with differences to the next one's at the same place,
  /// which are of the same examples only if they come back in the same order.
  void refuse_changing_order(const std::string& sampler, const std::string& aggregator) const {
    const Participation& order = *plan_.correlated->participation;
    const std::uint64_t epoch = plan_.differences->epoch_steps();
    for (std::uint64_t step = epoch; step < plan_.steps(); ++step) {
      const auto now = order.at(step);
      const auto before = order.at(step - epoch);
      if (std::equal(now.begin(), now.end(), before.begin(), before.end())) continue;
      throw ConfigError(sampler + " draws other batches in each epoch, but aggregator " +
                        aggregator +
                        " adds differences between epochs to gradients of the same "
                        "examples; use {kind: shuffle, fresh: false}, sequential or full_batch");
    }
  }

  /// An optimizer of prefix sums would train nothing on anything else.
  void refuse_other_than_sums(std::span<const CorrelatedPart> parts) const {
    if (dynamic_cast<const OfPrefixSums*>(plan_.optimizer.get()) == nullptr) return;
    bool sums = parts.size() == 1;
    for (std::uint64_t step = 0; sums && step < plan_.steps(); ++step) {
      const CorrelatedRecipes& recipes = parts.front().recipes;
      sums = recipes.scale(step) == 1.0 && (step == 0 || recipes.keep(step) == 1.0);
    }
    if (sums) return;
    manifest_.optimizer.with_position([&] {
      throw ConfigError(manifest_.optimizer.component->factory.info.name +
                        " expects the sum of all gradients so far, which aggregator " +
                        manifest_.aggregator.component->factory.info.name +
                        " does not release as it is set; use aggregator tree without momentum");
    });
  }

  /// Noise of earlier steps fits sums of the same bound only, and their sum divided by one number.
  void refuse_changing_sums(const Setting& setting, const std::string& aggregator) const {
    const auto changes = [](const std::vector<double>& values) {
      return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) !=
             values.end();
    };
    const std::string why = ", but aggregator " + aggregator + " releases sums over many steps";
    if (changes(setting.clip_norm)) {
      manifest_.clip_norm.with_position(
          [&] { throw ConfigError("changes over the steps" + why + "; give one number"); });
    }
    if (changes(setting.batch_size)) {
      manifest_.batch_size.with_position(
          [&] { throw ConfigError("changes over the steps" + why + "; give one number"); });
    }
    if (plan_.adaptive == nullptr) return;
    manifest_.clipping.with_position([&] {
      throw ConfigError("changes the clip norm" + why +
                        " of one bound; use a clipping that keeps it");
    });
  }

  /// What each step costs in this setting.
  std::vector<Charge> charges_for(const Setting& setting) {
    start_sampler(setting.batch_size);
    if (plan_correlated(setting)) return plan_.correlated->charges();
    const std::vector<Event> releases = manifest_.aggregator.with_position(
        [&] { return release_events(*plan_.aggregator, plan_.steps(), manifest_.adjacency); });
    return sampled_charges(manifest_, *plan_.sampler, releases);
  }

  void plan_noise() {
    const ComponentUse* open = noise_.is_shape        ? &noise_use()
                               : clip_norm_.is_shape  ? &manifest_.clip_norm
                               : batch_size_.is_shape ? &manifest_.batch_size
                                                      : nullptr;
    double scale = 1.0;
    if (open != nullptr) {
      scale = open->with_position([&] {
        if (!target_ && plan_.noise_is_rescaled) {
          throw ConfigError(
              "is to be scaled (privacy.calibrate: all), but there is no privacy.target_epsilon");
        }
        if (!target_) {
          throw ConfigError(
              "gives a shape without a scale: set privacy.target_epsilon, or give it its initial "
              "value");
        }
        return smallest_scale(
            [&](double candidate) {
              const auto charges = charges_for(setting_at(candidate));
              return guard_epsilon(charges, charges.size()).value;
            },
            *target_);
      });
    }
    if (plan_.noise_is_rescaled) plan_.noise_factor = scale;
    use_setting(setting_at(scale));
  }

  void use_setting(Setting setting) {
    plan_.charges = charges_for(setting);
    plan_.batch_size = start_sampler(setting.batch_size);
    plan_.noise_multiplier = std::move(setting.noise_multiplier);
    plan_.clip_norm = std::move(setting.clip_norm);
  }

  /// The grid of the recipes, which are started by now.
  void plan_grid() {
    const std::string& name = manifest_.aggregator.component->factory.info.name;
    manifest_.aggregator.with_position([&] {
      plan_.grid_levels = plan_.aggregator->recipe(0).grid_levels;
      for (std::uint64_t step = 1; step < plan_.steps(); ++step) {
        if (plan_.aggregator->recipe(step).grid_levels == plan_.grid_levels) continue;
        throw PluginError(name + " changes its grid at step " + std::to_string(step));
      }
    });
    if (plan_.grid_levels == 0 || plan_.adaptive == nullptr) return;
    manifest_.clipping.with_position([&] {
      throw ConfigError("releases a count beside the gradients, which aggregator " + name +
                        " has no place for; use another clipping, or aggregator gaussian");
    });
  }

  void plan_budget() {
    plan_.affordable_steps = affordable_steps();
    const auto report = [&](const ComponentUse& use) {
      const auto accountant = accountant_after(use, manifest_.adjacency, plan_.beside,
                                               plan_.charges, plan_.affordable_steps);
      const std::string& name = use.component->factory.info.name;
      plan_.accountants.push_back(
          {name, checked(accountant->epsilon(manifest_.target_delta), name)});
    };
    plan_.accountants.push_back({manifest_.accountant.component->factory.info.name,
                                 guard_epsilon(plan_.charges, plan_.affordable_steps)});
    if (manifest_.mode == Mode::release) refuse_infinite_epsilon();
    for (const ComponentUse& use : manifest_.also) report(use);
    refuse_contradictions();
    if (plan_.noise_adapts) return plan_filter();
    if (charges_are_bounds(plan_)) {
      for (AccountantReport& one : plan_.accountants)
        one.epsilon = of_charges_that_are_bounds(std::move(one.epsilon));
    }

    std::vector<Event> costs;
    for (const Charge& charge : plan_.beside) costs.push_back(charge.cost);
    for (std::uint64_t i = 0; i < plan_.affordable_steps; ++i)
      costs.push_back(plan_.charges[i].cost);
    plan_.event = compose_runs(costs);
  }

  /// Of noise that adapts, the budget is what is known beforehand: what is spent in the end depends
  /// on what is released.
  void plan_filter() {
    AdaptiveNoisePlan& adapts = *plan_.noise_adapts;
    plan_.beside = adapts.check_charges(plan_.affordable_steps);
    adapts.of_checks = guard_answer(manifest_, plan_.beside);
    PrivacyAnswer& epsilon = plan_.accountants.front().epsilon;
    adapts.unchanged = std::exchange(
        epsilon, {.value = *manifest_.target_epsilon,
                  .bound = BoundKind::upper,
                  .lower = {},
                  .note = "the budget, which the noise is chosen within; if it never changed, " +
                          std::to_string(plan_.affordable_steps) + " steps would spend " +
                          short_bound(epsilon.value)});
    plan_.event = event_of_budget();
  }

  /// The zcdp event that costs as much as the budget. A run that the filter lets through is
  /// rho-zCDP with this rho: no sum of rhos that is larger meets the target.
  Event event_of_budget() const {
    const auto fits = [&](double rho) {
      const Event event = Event::zcdp(rho);
      return guard_answer(manifest_, {{0, event, event}}).value <= *manifest_.target_epsilon;
    };
    double above = 1.0;
    while (fits(above)) above *= 2.0;
    double rho = 0.0;
    for (double middle = 0.5 * above; rho < middle && middle < above;
         middle = rho + 0.5 * (above - rho)) {
      (fits(middle) ? rho : above) = middle;
    }
    return Event::zcdp(rho);
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
    if (!target_ || fits(all)) return all;
    const std::uint64_t fitting = largest_count(
        [&](std::uint64_t count) {
          return guard_epsilon(plan_.charges, std::min(count, all)).value;
        },
        *target_);
    if (fitting == 0) {
      refuse_what_is_beside();
      throw PrivacyError(manifest_.position_of("privacy.target_epsilon") +
                         ": error: privacy.target_epsilon: a budget of " +
                         format_number(*manifest_.target_epsilon) +
                         " does not pay for a single step, which costs " +
                         format_number(guard_epsilon(plan_.charges, 1).value));
    }
    return fitting;
  }

  /// Where the budget is gone before the first step.
  void refuse_what_is_beside() const {
    const double cost = guard_epsilon(plan_.charges, 0).value;
    if (cost <= *target_) return;
    throw PrivacyError(manifest_.position_of("privacy.target_epsilon") +
                       ": error: privacy.target_epsilon: a budget of " +
                       format_number(*manifest_.target_epsilon) + " does not pay for the " +
                       std::to_string(plan_.beside.size()) + " releases beside the steps (" +
                       plan_.beside.front().what + "), which cost " + format_number(cost));
  }

  bool fits(std::uint64_t count) { return guard_epsilon(plan_.charges, count).value <= *target_; }

  /// What the guarding accountant proves of the first `count` charges.
  PrivacyAnswer guard_epsilon(const std::vector<Charge>& charges, std::uint64_t count) const {
    const ComponentUse& use = manifest_.accountant;
    std::vector<Charge> checks;
    if (plan_.noise_adapts) checks = plan_.noise_adapts->check_charges(count);
    const std::vector<Charge>& beside = plan_.noise_adapts ? checks : plan_.beside;
    const auto accountant = accountant_after(use, manifest_.adjacency, beside, charges, count);
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

  const Manifest& manifest_;
  ExampleShape shape_;
  Values noise_, clip_norm_, batch_size_;  // as their schedules give them
  CorrelatedPlanner correlated_;
  OwnerSetting owner_;
  std::optional<double> target_;
  Plan plan_;
};

/// Lists what no accountant is charged for.
class Unlisted {
 public:
  explicit Unlisted(Plan& plan) : manifest_(*plan.manifest), plan_(plan) {}

  void list() {
    const auto add = [&](std::string what, std::string position, Reach reach = Reach::model) {
      plan_.unaccounted.push_back({std::move(what), std::move(position), reach});
    };
    if (manifest_.noise_off)
      add("everything: noise is off", manifest_.position_of("privacy.noise"));
    for (const std::string& fact : plan_.info.unaccounted) add(fact, manifest_.data.position);
    if (manifest_.adjacency == Adjacency::add_or_remove_one && !manifest_.dataset_size &&
        plan_.unit == PrivacyUnit::example) {
      add("number of training examples", manifest_.data.position);
    }
    if (plan_.influence_is_unaccounted) {
      const bool of_std = manifest_.noise_std.component != nullptr;
      add("influence of steps, behind the noise schedule",
          (of_std ? manifest_.noise_std : manifest_.noise_multiplier).position);
    }
    list_choice_of_rows(add);
    for (std::size_t i = 0; i < plan_.transforms.size(); ++i) {
      const std::string& name = manifest_.transforms[i].component->factory.info.name;
      const std::string& position = manifest_.transforms[i].position;
      const Statistic statistic = plan_.transforms[i]->statistic();
      if (statistic == Statistic::unaccounted) add(name, position);
      if (statistic == Statistic::declared_public) add(name + " (declared public)", position);
    }
    if (lost_tails() > 1e-3 * manifest_.target_delta) {
      add("tails of the noise, which ends at 11.6 standard deviations",
          manifest_.position_of("privacy.target_delta"));
    }
    // Release mode computes neither, so there they are not a reason to refuse.
    if (manifest_.mode == Mode::release) return;
    add("training metrics", manifest_.position_of("mode"), Reach::shown_values);
    if (plan_.info.test_rows > 0 && !manifest_.test_is_public)
      add("test metrics", manifest_.data.position, Reach::shown_values);
  }

  void refuse() const {
    std::string text;
    for (const Unaccounted& item : plan_.unaccounted) {
      text += (text.empty() ? "" : "\n") + item.position + ": error: release mode refuses '" +
              item.what + "', which was read off private rows and charged nowhere; " +
              remedy(item) + "use mode: research";
    }
    if (!text.empty()) throw PrivacyError(text);
  }

 private:
  /// What helps beside mode: research, which follows. A transform takes numbers instead of fitting
  /// in its optional parameters, if it has any.
  std::string remedy(const Unaccounted& item) const {
    for (const ComponentUse& use : manifest_.transforms) {
      const ComponentInfo& info = use.component->factory.info;
      const bool is_it = item.what == info.name || item.what == info.name + " (declared public)";
      if (!is_it || item.position != use.position) continue;
      std::string names;
      for (const ParamSpec& spec : info.params) {
        if (spec.required || spec.default_value) continue;
        names += (names.empty() ? "" : " and ") + spec.name;
      }
      return names.empty() ? "" : "give " + names + " in the manifest, or ";
    }
    return "state it in the manifest if there is a key for it, or ";
  }

  static double rho_of_budget(const Event& event) { return std::get<ZcdpEvent>(event.kind()).rho; }

  /// Of the owner of data whom it concerns most.
  double lost_tails() const {
    double lost = lost_tails(plan_);
    if (plan_.federated && !plan_.federated->at_server()) {
      for (const ClientPlan& client : plan_.federated->clients)
        lost = std::max(lost, lost_tails(client.plan));
    }
    return lost;
  }

  /// At most how much delta the proofs leave out because the noise has no draws beyond
  /// kLargestNormal: the probability that, in some step, a coordinate of the noise would be beyond,
  /// or that a contribution of full length moves one there. In a step with several releases, of
  /// each; and of each release beside the steps.
  static double lost_tails(const Plan& plan) {
    if (plan.grid_levels != 0) return 0.0;  // exact: discrete_gaussian.hpp
    const double sensitivity = sensitivity_of_unit_bound(plan.manifest->adjacency);
    const auto beyond = [](double x) { return std::erfc(x / std::numbers::sqrt2); };
    double lost = 0.0;
    // No release of the linear mechanism moves further, in units of its noise, than all together.
    const double root = plan.correlated ? std::sqrt(plan.correlated->cost.worst_after.back()) : 0;
    // Noise that adapts may become as small as the budget pays for in one step.
    const double least =
        plan.noise_adapts ? sensitivity / std::sqrt(2.0 * rho_of_budget(plan.event)) : 0.0;
    if (plan.noise_adapts) {
      lost += static_cast<double>(plan.noise_adapts->checks_before(plan.steps())) *
              (beyond(kLargestNormal) + beyond(kLargestNormal - sensitivity / least));
    }
    const auto releases =
        plan.correlated ? static_cast<double>(plan.correlated->parts.size()) : 1.0;
    for (double multiplier : plan.noise_multiplier) {
      if (multiplier == 0.0) continue;  // noise is off, and listed
      if (plan.noise_adapts) multiplier = least;
      if (plan.correlated) multiplier = 1.0 / root;
      lost += releases * (static_cast<double>(plan.parameters) * beyond(kLargestNormal) +
                          beyond(kLargestNormal - sensitivity / multiplier));
    }
    if (plan.noise_adapts) return lost;   // its checks are counted
    constexpr double kCoordinates = 2.0;  // of an estimate
    for (const Charge& charge : plan.beside) {
      const double multiplier = std::get<GaussianEvent>(charge.release.kind()).noise_multiplier;
      lost +=
          kCoordinates * beyond(kLargestNormal) + beyond(kLargestNormal - sensitivity / multiplier);
    }
    return lost;
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

  const Manifest& manifest_;
  Plan& plan_;
};

}  // namespace

std::vector<double> Plan::gradient_noise_multiplier() const {
  std::vector<double> values = noise_multiplier;
  for (std::size_t step = 0; step < count_share.size(); ++step) {
    values[step] /= gradient_share(count_share[step]);
  }
  return values;
}

std::uint64_t Plan::evaluate_every() const {
  return manifest->evaluate_every > 0 ? manifest->evaluate_every
                                      : std::max<std::uint64_t>(1, steps() / 20);
}

bool charges_are_bounds(const Plan& plan) {
  return plan.is_accounted_in_full || (plan.correlated && !plan.correlated->cost.is_attained);
}

PrivacyAnswer of_all_steps(const Plan& plan) {
  return charges_are_bounds(plan) ? plan.epsilon() : of_charges_that_are_bounds(plan.epsilon());
}

std::string Plan::sampling_words() const {
  // What a sampler says of itself is about charges that are not asked for here.
  if (correlated) {
    return "In an order that was drawn before the first step, without looking at data; accounted "
           "by who takes part in which step, without amplification.";
  }
  return manifest->sampler.component->factory.info.summary;
}

Plan plan_setting(const Manifest& manifest) { return Planner(manifest).make_setting(); }

Plan plan_owner(const Manifest& manifest, const Plan& setting, const OwnerSetting& owner) {
  return Planner(manifest, owner.key ? *owner.key : run_key(manifest)).make_for(setting, owner);
}

Plan twin_of(const Plan& plan) { return Planner(*plan.manifest).make_twin(plan); }

void list_unaccounted(Plan& plan, std::vector<Unaccounted> more) {
  Unlisted unlisted(plan);
  unlisted.list();
  for (Unaccounted& item : more) plan.unaccounted.push_back(std::move(item));
  if (plan.manifest->mode == Mode::release) unlisted.refuse();
}

std::vector<Charge> sampled_charges(const Manifest& manifest, const Sampler& sampler,
                                    std::span<const Event> releases, const std::string& what) {
  std::vector<Event> costs =
      manifest.sampler.with_position([&] { return sampler.charges(releases); });
  if (costs.size() != releases.size()) {
    throw PluginError(manifest.sampler.component->full_name() + ": gave " +
                      std::to_string(costs.size()) + " charges for " +
                      std::to_string(releases.size()) + " steps");
  }
  std::vector<Charge> charges;
  charges.reserve(costs.size());
  for (std::uint64_t i = 0; i < costs.size(); ++i)
    charges.push_back({i, releases[i], std::move(costs[i]), what});
  return charges;
}

PrivacyAnswer guard_answer(const Manifest& manifest, const std::vector<Charge>& charges) {
  const ComponentUse& use = manifest.accountant;
  const auto accountant = accountant_after(use, manifest.adjacency, {}, charges, charges.size());
  return use.with_position([&] {
    return checked_guard(accountant->epsilon(manifest.target_delta),
                         use.component->factory.info.name);
  });
}

RandomKey run_key(const Manifest& manifest) {
  return manifest.seed ? RandomKey::from_seed(*manifest.seed) : RandomKey::from_operating_system();
}

Plan make_plan(const Manifest& manifest) {
  if (manifest.federated) return make_federated_plan(manifest);
  Plan plan = Planner(manifest).make();
  list_unaccounted(plan);
  return plan;
}

}  // namespace privgrad::core
