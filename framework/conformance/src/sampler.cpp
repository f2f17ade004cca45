#include "privgrad/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "inputs.hpp"
#include "parameters.hpp"
#include "rules.hpp"
#include "sampler_coins.hpp"
#include "sampler_epochs.hpp"
#include "sampler_plans.hpp"

namespace privgrad::testing {
namespace {

constexpr std::uint64_t kDatasetSizes[] = {1, 2, 100, 1000};

std::vector<SamplingPlan> accepted_plans(const Checker& checker) {
  std::vector<SamplingPlan> found;
  for (const Adjacency adjacency : kAdjacencies) {
    for (const std::uint64_t size : kDatasetSizes) {
      for (const std::uint64_t steps : {1u, 2u, 25u}) {
        const SamplingPlan plan{.dataset_size = size, .steps = steps, .adjacency = adjacency};
        if (starts(*checker.make<Sampler>(), plan)) found.push_back(plan);
      }
    }
  }
  return found;
}

/// Returns the batches of all steps; checks that all rows exist, so that later rules can count the
/// draws of each row.
std::vector<Batch> batches(Sampler& sampler, const SamplingPlan& plan, std::size_t rows,
                           std::uint64_t first = 0) {
  const PublicSource random(kSeed);
  std::vector<Batch> all;
  for (std::uint64_t step = first; step < plan.steps; ++step) {
    Batch batch{4000000000u, 7u, 7u};  // sample() must ignore this previous content
    sampler.sample(step, rows, random, batch);
    require_rows(batch, rows, " in " + text_of(plan));
    all.push_back(std::move(batch));
  }
  return all;
}

std::vector<Batch> batches(Sampler& sampler, const SamplingPlan& plan) {
  return batches(sampler, plan, plan.dataset_size);
}

/// Returns how many releases of gaussian(kSampledNoise), on batches that contain the example, an
/// event pays for: Gaussians add up as 1/sigma^2, and one Gaussian is rho-zCDP for
/// rho = (sensitivity / sigma)^2 / 2. Other mechanisms, such as Laplace noise, pay for no release,
/// because the release has Gaussian noise. A smaller rho pays for no release either, whatever the
/// sampling is: a charge that claims amplification must name the sampled event.
double releases_paid(const Event& event, Adjacency adjacency) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (const auto* zcdp = std::get_if<ZcdpEvent>(&event.kind())) {
    const double sensitivity = sensitivity_of_unit_bound(adjacency);
    return zcdp->rho * 2.0 * kSampledNoise * kSampledNoise / (sensitivity * sensitivity);
  }
  if (const auto* gaussian = std::get_if<GaussianEvent>(&event.kind())) {
    return kSampledNoise * kSampledNoise /
           (gaussian->noise_multiplier * gaussian->noise_multiplier);
  }
  if (const auto* composed = std::get_if<ComposedEvent>(&event.kind())) {
    double sum = 0.0;
    for (const Event& part : composed->of) sum += releases_paid(part, adjacency);
    return sum;
  }
  if (const auto* repeated = std::get_if<SelfComposedEvent>(&event.kind())) {
    return repeated->count == 0
               ? 0.0
               : static_cast<double>(repeated->count) * releases_paid(*repeated->of, adjacency);
  }
  if (const auto sampling = sampling_of(event)) return releases_paid(*sampling->of, adjacency);
  // No finite epsilon exists.
  if (std::holds_alternative<NonPrivateEvent>(event.kind()) ||
      std::holds_alternative<UnsupportedEvent>(event.kind())) {
    return infinity;
  }
  return 0.0;
}

/// Requires that at every step, each example has been in at most as many batches as were paid for.
void require_participation_paid(const std::vector<Batch>& chosen, const std::vector<Event>& paid,
                                const SamplingPlan& plan) {
  std::vector<double> taken(plan.dataset_size, 0.0);
  double allowed = 0.0;
  for (std::size_t step = 0; step < chosen.size(); ++step) {
    allowed += releases_paid(paid[step], plan.adjacency);
    for (const std::uint32_t row : chosen[step]) {
      taken[row] += 1.0;
      require(taken[row] <= allowed * (1.0 + 1e-9),
              "after step " + std::to_string(step) + " of " + text_of(plan) +
                  ", an example has been in " + format_number(taken[row]) +
                  " batches, but the charges so far cover " + format_number(allowed));
    }
  }
}

/// Compares the draws of sample() over many steps with the charge: how often each example is
/// chosen, how batch sizes vary, and how many examples consecutive batches share. The last two
/// checks distinguish shuffled batches, whose steps are not independent, from subsampled batches.
void require_drawn_as_charged(const std::vector<Batch>& chosen, const Sampling& how,
                              const SamplingPlan& plan) {
  const double q = how.rate;
  const auto n = static_cast<double>(plan.dataset_size);
  const auto steps = static_cast<double>(chosen.size());
  std::vector<double> counts(plan.dataset_size, 0.0);
  double sizes = 0.0;
  double squares = 0.0;
  double shared = 0.0;
  std::vector<char> previous(plan.dataset_size, 0);
  for (std::size_t step = 0; step < chosen.size(); ++step) {
    std::vector<char> present(plan.dataset_size, 0);
    for (const std::uint32_t row : chosen[step]) {
      counts[row] += 1.0;
      present[row] = 1;
      if (previous[row] != 0) shared += 1.0;
    }
    const double excess = static_cast<double>(chosen[step].size()) - q * n;
    sizes += excess;
    squares += excess * excess;
    previous = std::move(present);
  }
  for (const double count : counts) {
    require_near(
        count, q * steps, q * (1.0 - q) * steps,
        "the number of batches of " + std::to_string(chosen.size()) + " that hold one example");
  }
  const double size_variance = n * q * (1.0 - q);
  if (how.draw == Sampling::Draw::subset) {
    require(squares <= 1e-9 * steps, "the batch size varies, but the charge says that it is fixed");
    // The overlap of two independent subsets is hypergeometric.
    const double variance = n > 1.0 ? n * q * q * (1.0 - q) * (1.0 - q) * n / (n - 1.0) : 0.0;
    require_near(shared, (steps - 1.0) * n * q * q, steps * variance,
                 "the number of examples that consecutive batches share");
    return;
  }
  require_near(sizes, 0.0, steps * size_variance,
               "the excess of all batch sizes over the expected");
  // Uses the fourth central moment of the binomial: 3 v^2 + v (1 - 6 q (1 - q)).
  const double spread =
      2.0 * size_variance * size_variance + size_variance * (1.0 - 6.0 * q * (1.0 - q));
  require_near(squares, steps * size_variance, steps * std::max(0.0, spread),
               "the sum of squared deviations of the batch size (Poisson sampling varies it)");
  // A pair of consecutive batches is correlated with its neighbouring pairs, hence the factor 3.
  require_near(shared, (steps - 1.0) * n * q * q, 3.0 * steps * n * q * q,
               "the number of examples that consecutive batches share");
}

/// Compares like require_drawn_as_charged(), but each step of a cycle with its own rows only.
void require_cycles_as_charged(const std::vector<Batch>& chosen, std::uint64_t cycle,
                               const Sampling& how, const SamplingPlan& plan) {
  const auto of_groups = batches_of_groups(chosen, cycle);
  for (std::uint64_t group = 0; group < cycle; ++group) {
    SamplingPlan own = plan;
    own.dataset_size = (plan.dataset_size + cycle - 1 - group) / cycle;
    require_drawn_as_charged(of_groups[group], how, own);
  }
}

/// Checks epochs of random allocation with different numbers of rows: no row's step may depend on
/// the number of rows.
void require_epochs_as_charged(const Checker& checker, std::uint64_t epoch_steps,
                               const SamplingPlan& plan) {
  for (const std::size_t rows :
       {std::size_t(plan.dataset_size), std::size_t{2}, std::size_t{51}, std::size_t{150}}) {
    const auto sampler = started(checker, plan);
    std::vector<Batch> drawn;
    // If the number of rows is public, the sampler may require it.
    if (accepted("sample() of other rows", {Thrown::config},
                 [&] { drawn = batches(*sampler, plan, rows); }))
      require_epochs(drawn, epoch_steps, rows);
  }
}

/// Draws batches of Poisson sampling from different numbers of rows: the charge is based on each
/// row's probability, which must not depend on how many other rows there are.
void require_drawn_from_any_rows(Sampler& sampler, double q, const SamplingPlan& plan) {
  const PublicSource random(kSeed);
  for (const std::size_t rows : {std::size_t{2}, std::size_t{51}, std::size_t{150}}) {
    double drawn = 0.0;
    const auto draw_all = [&] {
      for (std::uint64_t step = 0; step < plan.steps; ++step) {
        Batch batch;
        sampler.sample(step, rows, random, batch);
        drawn += static_cast<double>(batch.size());
      }
    };
    // If the number of rows is public, the sampler may require it.
    if (!accepted("sample() of other rows", {Thrown::config}, draw_all)) continue;
    const double mean = q * static_cast<double>(rows * plan.steps);
    require_near(drawn, mean, (1.0 - q) * mean,
                 "with " + std::to_string(rows) + " rows there instead of " +
                     std::to_string(plan.dataset_size) + ", the size of all batches");
  }
}

/// In the checked steps, the random stream, which the core makes from a secret key, must decide
/// with the charged probability whether an example is drawn. A generator inside the sampler would
/// draw the same batches for every key: such batches are public, so they give no amplification.
void require_drawn_by_stream(const Checker& checker, double q, std::uint64_t cycle,
                             const SamplingPlan& plan) {
  constexpr std::uint64_t kKeys = 400;
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, plan.steps - 1}) {
    std::vector<double> counts(plan.dataset_size, 0.0);
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const PublicSource random(1000 + key);
      Batch batch;
      started(checker, plan)->sample(step, plan.dataset_size, random, batch);
      require_rows(batch, plan.dataset_size, " in " + text_of(plan));
      for (const std::uint32_t row : batch) counts[row] += 1.0;
    }
    for (std::size_t row = step % cycle; row < counts.size(); row += cycle) {
      require_near(counts[row], q * static_cast<double>(kKeys),
                   q * (1.0 - q) * static_cast<double>(kKeys),
                   "of " + std::to_string(kKeys) +
                       " random streams, the number of those that draw one example in step " +
                       std::to_string(step));
    }
  }
}

void require_stated_population(const Event& event, const SamplingPlan& plan, std::uint64_t cycle,
                               double expected) {
  if (const auto how = sampling_of(event)) {
    require(how->draw != Sampling::Draw::subset || how->rows == plan.dataset_size,
            "the charge names a data set of " + std::to_string(how->rows) + ", the plan one of " +
                std::to_string(plan.dataset_size));
    const double stated =
        how->rate * static_cast<double>(plan.dataset_size) / static_cast<double>(cycle);
    require(close(stated, expected, 1e-9),
            "the charge implies batches of " + format_number(stated) +
                " on average, expected_batch_size() is " + format_number(expected));
  }
}

std::vector<double> expected_sizes(const Sampler& sampler, const SamplingPlan& plan) {
  std::vector<double> sizes;
  for (std::uint64_t step = 0; step < plan.steps; ++step) {
    sizes.push_back(sampler.expected_batch_size(step));
  }
  return sizes;
}

/// Requires that a sampler with the expected batch sizes of a schedule charges for each size.
void check_batch_sizes(Checker& checker) {
  const std::vector<double> sizes{5.0, 80.0, 20.0, 40.0};
  bool follows = false;
  for (const Adjacency adjacency : kAdjacencies) {
    const SamplingPlan plan{
        .dataset_size = 100, .steps = sizes.size(), .adjacency = adjacency, .batch_sizes = sizes};
    // A sampler with size parameters may refuse a schedule; a sampler without them may need one.
    const Params only_required =
        Params::make(checker.component().factory.info.name, checker.specs(),
                     example_params(checker.specs(), checker.setup().params).params);
    for (const Params& params : {checker.params(), only_required}) {
      std::unique_ptr<Sampler, ComponentDeleter<Sampler>> sampler;
      if (!accepted("making it without optional parameters", {Thrown::config},
                    [&] { sampler = checker.make<Sampler>(params); })) {
        continue;
      }
      if (!starts(*sampler, plan) || expected_sizes(*sampler, plan) != sizes) continue;
      const auto paid = charges(*sampler, plan, plan.steps);
      if (!paid) continue;
      follows = true;
      require_participation_paid(batches(*sampler, plan), *paid, plan);
      for (std::size_t step = 0; step < sizes.size(); ++step) {
        require_stated_population((*paid)[step], plan, cycle_of(*paid), sizes[step]);
      }
    }
  }
  if (!follows) throw NotChecked{"it decides about its batch sizes itself"};
}

/// Requires that each group of rows in an order is in a batch as a whole or not at all.
void require_order_of_batches(Sampler& sampler, PublicOrder& order, const SamplingPlan& plan) {
  const std::uint64_t groups = order.groups();
  require(groups > 0 && groups <= std::numeric_limits<std::uint32_t>::max(),
          "groups() is " + std::to_string(groups) + " for " + text_of(plan));
  std::vector<std::vector<std::uint32_t>> rows_of(groups);
  for (std::uint32_t row = 0; row < plan.dataset_size; ++row) {
    const std::uint32_t group = order.group_of(row);
    require(group < groups, "row " + std::to_string(row) + " is in group " + std::to_string(group) +
                                " of " + std::to_string(groups));
    rows_of[group].push_back(row);
  }
  const PublicSource random(kSeed);
  const std::vector<Batch> chosen = batches(sampler, plan);
  for (std::uint64_t step = 0; step < plan.steps; ++step) {
    Batch members{4000000000u, 7u, 7u};
    order.groups_in(step, random, members);
    const std::string where = " in step " + std::to_string(step) + " of " + text_of(plan);
    require_rows(members, groups, where + " as a group");
    Batch named;
    for (const std::uint32_t group : members)
      named.insert(named.end(), rows_of[group].begin(), rows_of[group].end());
    Batch drawn = chosen[step];
    std::ranges::sort(named);
    std::ranges::sort(drawn);
    require(named == drawn, "the order names other rows than sample() chooses" + where);
  }
}

void check_order(Checker& checker, const std::vector<SamplingPlan>& plans) {
  checker.rule("the_order_is_that_of_the_batches", [&] {
    bool any = false;
    for (const SamplingPlan& plan : plans) {
      const auto sampler = started(checker, plan);
      auto* order = dynamic_cast<PublicOrder*>(sampler.get());
      if (order == nullptr) throw NotChecked{"its order is not public"};
      if (!accepted("groups() for " + text_of(plan), {Thrown::privacy},
                    [&] { (void)order->groups(); })) {
        continue;
      }
      any = true;
      require_order_of_batches(*sampler, *order, plan);
    }
    if (!any) throw NotChecked{"it proves nothing under any plan that was tried"};
  });
}

void check_charges(Checker& checker, const std::vector<SamplingPlan>& plans) {
  checker.rule("charges_each_release", [&] {
    for (const SamplingPlan& plan : plans) {
      const auto sampler = started(checker, plan);
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t(plan.steps)}) {
        charges(*sampler, plan, count);
      }
    }
  });
  checker.rule("charges_depend_on_the_plan_alone", [&] {
    for (const SamplingPlan& plan : plans) {
      const auto sampler = started(checker, plan);
      const auto before = charges(*sampler, plan, plan.steps);
      batches(*sampler, plan);
      require(before == charges(*sampler, plan, plan.steps),
              "the charges differ after batches were drawn in " + text_of(plan));
      require(before == charges(*started(checker, plan), plan, plan.steps),
              "another instance charges otherwise for " + text_of(plan));
    }
  });
  bool any = false;
  checker.rule("charges_cover_every_use_of_an_example", [&] {
    for (const SamplingPlan& plan : plans) {
      const auto sampler = started(checker, plan);
      const auto paid = charges(*sampler, plan, plan.steps);
      if (!paid) continue;
      any = true;
      require_participation_paid(batches(*sampler, plan), *paid, plan);
      for (std::size_t step = 0; step < paid->size(); ++step) {
        require_stated_population((*paid)[step], plan, cycle_of(*paid),
                                  sampler->expected_batch_size(step));
      }
    }
    if (!any) throw NotChecked{"it proves nothing under any plan that was tried"};
  });
  checker.rule("batches_are_drawn_as_charged", [&] {
    bool compared = false;
    for (const Adjacency adjacency : kAdjacencies) {
      const SamplingPlan plan{.dataset_size = 100, .steps = 2000, .adjacency = adjacency};
      const auto sampler = checker.make<Sampler>();
      if (!starts(*sampler, plan)) continue;
      const auto paid = charges(*sampler, plan, plan.steps);
      if (!paid) continue;
      require_participation_paid(batches(*started(checker, plan), plan), *paid, plan);
      const auto how = sampling_of(paid->front());
      if (!how) continue;
      if (how->draw == Sampling::Draw::epoch) {
        compared = true;
        require_epochs_as_charged(checker, how->steps, plan);
        continue;
      }
      if (!is_steady(*paid)) throw NotChecked{"its charges differ from step to step"};
      compared = true;
      if (const std::uint64_t cycle = cycle_of(*paid); cycle > 1) {
        require_cycles_as_charged(batches(*sampler, plan), cycle, *how, plan);
        continue;
      }
      require_drawn_as_charged(batches(*sampler, plan), *how, plan);
      if (how->draw == Sampling::Draw::coins)
        require_drawn_from_any_rows(*started(checker, plan), how->rate, plan);
    }
    if (!compared) throw NotChecked{"it claims no amplification by sampling"};
  });
  checker.rule("batches_are_drawn_by_the_stream", [&] {
    for_each_amplified(
        checker, {.dataset_size = 100, .steps = 25},
        [&](const SamplingPlan& plan, const Sampling& how, const std::vector<Event>& paid) {
          require_drawn_by_stream(checker, how.rate, cycle_of(paid), plan);
        });
  });
}

void check_batches(Checker& checker, const std::vector<SamplingPlan>& plans) {
  checker.rule("batches_hold_distinct_rows_that_exist", [&] {
    for (const SamplingPlan& plan : plans) batches(*started(checker, plan), plan);
  });
  checker.rule("batches_fit_the_rows_that_are_there", [&] {
    const PublicSource random(kSeed);
    for (const SamplingPlan& plan : plans) {
      const std::size_t size = plan.dataset_size;
      for (const std::size_t rows : {std::size_t{1}, size - 1, size + 1}) {
        if (rows == 0) continue;
        const auto sampler = started(checker, plan);
        for (std::uint64_t step = 0; step < plan.steps; ++step) {
          Batch batch;
          const std::string where =
              " with " + std::to_string(rows) + " rows there in " + text_of(plan);
          if (accepted("sample()" + where, {Thrown::config},
                       [&] { sampler->sample(step, rows, random, batch); })) {
            require_rows(batch, rows, where);
          }
        }
      }
    }
  });
  checker.rule("batches_are_repeatable", [&] {
    for (const SamplingPlan& plan : plans) {
      require(batches(*started(checker, plan), plan) == batches(*started(checker, plan), plan),
              "the same plan and the same random streams give other batches in " + text_of(plan));
    }
  });
  checker.rule("resumes_as_if_uninterrupted", [&] {
    for (const SamplingPlan& plan : plans) {
      const std::vector<Batch> all = batches(*started(checker, plan), plan);
      for (const std::uint64_t first : {plan.steps / 2, plan.steps - 1}) {
        const std::vector<Batch> rest(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
        require(rest == batches(*started(checker, plan), plan, plan.dataset_size, first),
                "resumed at step " + std::to_string(first) + ", the batches differ in " +
                    text_of(plan));
      }
    }
  });
  checker.rule("instances_are_independent", [&] {
    const SamplingPlan& plan = plans.back();
    const auto sampler = started(checker, plan);
    for (const SamplingPlan& other : plans) batches(*started(checker, other), other);
    require(batches(*sampler, plan) == batches(*started(checker, plan), plan),
            "using other instances changed the batches");
  });
}

}  // namespace

bool starts_somewhere(const Checker& checker) {
  for (const Adjacency adjacency : kAdjacencies) {
    for (const std::uint64_t size : kDatasetSizes) {
      const SamplingPlan plan{.dataset_size = size, .steps = 1, .adjacency = adjacency};
      const Thrown thrown = outcome_of([&] { checker.make<Sampler>()->start(plan); });
      // Other errors are forbidden, and the rules report them.
      if (thrown != Thrown::config && thrown != Thrown::privacy) return true;
    }
  }
  return false;
}

void check_sampler(Checker& checker) {
  std::vector<SamplingPlan> plans;
  if (!checker.prepare("accepts_a_plan", [&] {
        plans = accepted_plans(checker);
        require(!plans.empty(),
                "start() refuses 1, 2, 25 steps on 1, 2, 100, 1000 examples under "
                "every adjacency; let the examples of its parameters fit one");
      })) {
    return;
  }
  checker.rule("expected_batch_size_is_positive_and_planned", [&] {
    for (const SamplingPlan& plan : plans) {
      const auto sampler = started(checker, plan);
      const std::vector<double> before = expected_sizes(*sampler, plan);
      for (const double size : before) {
        require(std::isfinite(size) && size > 0.0,
                "expected_batch_size() is " + format_number(size) + " for " + text_of(plan));
      }
      batches(*sampler, plan);
      const std::vector<double> after = expected_sizes(*sampler, plan);
      require(before == after, "expected_batch_size() changed while batches were drawn");
    }
  });
  checker.rule("charges_the_batch_sizes_that_it_follows", [&] { check_batch_sizes(checker); });
  check_batches(checker, plans);
  check_charges(checker, plans);
  check_coins(checker);
  check_order(checker, plans);
  check_range_ends(checker, [&](const Params& params) {
    for (const SamplingPlan& plan : {plans.front(), plans.back()}) {
      const auto sampler = checker.make<Sampler>(params);
      if (!starts(*sampler, plan)) continue;
      for (const double expected : expected_sizes(*sampler, plan)) {
        require(std::isfinite(expected) && expected > 0.0,
                "expected_batch_size() is " + format_number(expected));
      }
      batches(*sampler, plan);
      charges(*sampler, plan, plan.steps);
    }
  });
}

}  // namespace privgrad::testing
