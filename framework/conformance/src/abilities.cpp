// The rules for optional abilities that consist of one or two functions.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include "inputs.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/run_facts.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

/// Returns the facts of small and large runs, with and without a budget.
std::vector<RunFacts> sample_facts() {
  std::vector<RunFacts> all;
  for (const std::uint64_t size : {1u, 100u, 1000000u}) {
    for (const double batch : {1.0, 50.0}) {
      if (batch > static_cast<double>(size)) continue;
      for (const std::optional<double>& epsilon :
           {std::optional<double>(), std::optional<double>(0.1), std::optional<double>(8.0)}) {
        all.push_back({.steps = 0,
                       .dataset_size = size,
                       .parameters = 1000,
                       .batch_size = batch,
                       .target_epsilon = epsilon,
                       .target_delta = 1e-6});
      }
    }
  }
  return all;
}

using Theorem = std::function<std::optional<AutoValue>(const RunFacts&)>;

/// Whether the component has a theorem. Asks about one run; a ConfigError means that the theorem
/// does not cover it.
bool has_theorem(const Theorem& choose) {
  RunFacts facts = sample_facts().back();
  facts.steps = 100;
  try {
    return choose(facts).has_value();
  } catch (const ConfigError&) {
    return true;
  }
}

/// For all facts that the theorem covers, requires that the choice is finite and at least `least`,
/// whole if `steps` is 0, has a reason, and is the same on a second call.
void require_chosen(const std::string& function, double least, std::uint64_t steps,
                    const Theorem& choose) {
  bool any = false;
  for (RunFacts facts : sample_facts()) {
    facts.steps = steps;
    AutoValue chosen;
    if (!accepted(function, {Thrown::config}, [&] { chosen = choose(facts).value(); })) continue;
    any = true;
    require(std::isfinite(chosen.value) && chosen.value >= least,
            function + " gave " + format_number(chosen.value));
    require(!chosen.reason.empty(), function + " gave no reason");
    require(same_bits(choose(facts).value().value, chosen.value),
            function + " differs when asked again");
    require(steps != 0 || chosen.value == std::floor(chosen.value),
            function + " gave " + format_number(chosen.value) + ", expected a whole number");
  }
  if (!any) throw NotChecked{"its theorem covers none of the runs that were tried"};
}

/// Returns states of a federated run between two rounds: without estimates, with ordinary
/// estimates, and with estimates distorted by noise.
std::vector<FederatedProgress> sample_progress() {
  std::vector<FederatedProgress> all;
  const double inf = std::numeric_limits<double>::infinity();
  for (const double size : {-1.0, 0.0, 1e-300, 0.5, 1e6, 1e300, inf}) {
    for (const std::uint64_t left : {std::uint64_t{1}, std::uint64_t{40}, ~std::uint64_t{0}}) {
      FederatedProgress progress{.round = left == 1 ? 19u : 3u,
                                 .rounds_left = left == 1 ? 1u : 17u,
                                 .steps_left = left,
                                 .last = 5,
                                 .parameters = 100,
                                 .learning_rate = 0.1,
                                 .clip_norm = 1.0,
                                 .gradient_noise = 0.05,
                                 .lipschitz = {},
                                 .smoothness = {},
                                 .divergence = {},
                                 .convexity = {},
                                 .heterogeneity = {}};
      if (size >= 0.0) {
        progress.lipschitz = progress.smoothness = progress.divergence = size;
        progress.heterogeneity = size;
        progress.convexity = left == 40 ? -size : size;
      }
      all.push_back(progress);
    }
  }
  return all;
}

std::vector<double> iterations(const std::function<ComponentPtr<Schedule>()>& make) {
  const auto schedule = make();
  auto& chooser = dynamic_cast<AdaptiveLocalIterations&>(*schedule);
  chooser.start_rounds(20, 400);
  std::vector<double> all;
  for (const FederatedProgress& progress : sample_progress()) {
    const std::uint64_t steps = chooser.next(progress);
    require(steps > 0, "next() gave 0 local steps, expected at least 1");
    all.push_back(static_cast<double>(steps));
  }
  return all;
}

}  // namespace

void check_abilities(Checker& checker, const Aggregator& aggregator) {
  const auto choose = [&](const RunFacts& facts) { return aggregator.auto_steps(facts); };
  if (!has_theorem(choose)) return;
  checker.rule("chosen_steps_are_whole_and_above_0",
               [&] { require_chosen("auto_steps()", 1.0, 0, choose); });
}

void check_abilities(Checker& checker, const Optimizer& optimizer) {
  const auto choose = [&](const RunFacts& facts) { return optimizer.auto_learning_rate(facts); };
  if (!has_theorem(choose)) return;
  checker.rule("chosen_learning_rates_are_finite_and_above_0", [&] {
    require_chosen("auto_learning_rate()", std::numeric_limits<double>::min(), 100, choose);
  });
}

void check_abilities(Checker& checker, const std::vector<Horizon>& horizons) {
  const auto made = checker.make<Schedule>();
  if (made->influence()) {
    checker.rule("influence_is_known_for_every_step", [&] {
      for (const Horizon& horizon : horizons) {
        const auto schedule = checker.make<Schedule>();
        schedule->start(horizon);
        const auto values = schedule->influence().value_or(NoiseInfluence{}).values;
        require(values.size() == horizon.steps, "influence() gave " +
                                                    std::to_string(values.size()) + " values for " +
                                                    std::to_string(horizon.steps) + " step(s)");
        for (const double value : values) {
          require(std::isfinite(value) && value > 0.0, "influence() gave " + format_number(value) +
                                                           ", expected a finite number above 0");
        }
      }
    });
  }
  if (dynamic_cast<const AdaptiveLocalIterations*>(made.get()) != nullptr) {
    const auto in_its_slot = [&] {
      auto schedule = checker.make<Schedule>();
      schedule->start({.steps = 20, .slot = "local_iterations"});
      return schedule;
    };
    checker.rule("local_iterations_are_above_0_and_repeatable", [&] {
      require(same_bits(iterations(in_its_slot), iterations(in_its_slot)),
              "another instance's next() gives other local steps for the same progress");
    });
  }
}

void check_abilities(Checker& checker, const Accountant& accountant) {
  if (!accountant.is_filter()) return;
  checker.rule("a_privacy_filter_takes_rho_and_grows_with_it", [&] {
    double last = 0.0;
    for (const double rho : {0.01, 0.1, 1.0}) {
      const auto filter = checker.make<Accountant>();
      filter->start(Adjacency::zero_out);
      require(!filter->refuses(Event::zcdp(rho)), "it is a privacy filter and refuses zcdp");
      filter->compose(Event::zcdp(rho), 1);
      const double epsilon = filter->epsilon(1e-6).value;
      require(epsilon > last, "epsilon of rho = " + format_number(rho) + " is " +
                                  format_number(epsilon) +
                                  ", not above the epsilon of a smaller rho");
      last = epsilon;
    }
  });
}

namespace {

/// Requires that kept columns have as many texts as there are rows, and do not change features.
void check_kept_columns(Checker& checker) {
  const auto plain = checker.make<DataSource>();
  const DataInfo told = plain->info();
  const auto source = checker.make<DataSource>();
  const std::vector<std::string> names = source->columns();
  source->keep(names);
  const DataInfo info = source->info();
  require(info.feature_names == told.feature_names, "columns that are kept change its features");
  for (const Split split : {Split::train, Split::test}) {
    Dataset rows = source->read(split), others = plain->read(split);
    const auto kept = source->kept(split);
    require(kept.size() == names.size(), "kept() gives " + std::to_string(kept.size()) +
                                             " columns of " + std::to_string(names.size()));
    for (const std::vector<std::string>& texts : kept) {
      require(texts.size() == rows.rows(), "kept() gives " + std::to_string(texts.size()) +
                                               " texts of " + std::to_string(rows.rows()) +
                                               " rows");
    }
    require(std::ranges::equal(rows.targets(), others.targets()),
            "columns that are kept change its targets");
    require(rows.rows() == 0 || std::ranges::equal(rows.features(), others.features()),
            "columns that are kept change the values of its features");
  }
}

/// Checks foreseen_info() of an instance that has not been called before.
void check_foreseen_info(Checker& checker, const DataInfo& told) {
  const auto source = checker.make<DataSource>();
  const DataInfo foreseen = source->foreseen_info().value();
  // Compares only the number of facts: before reading, the facts may name columns differently,
  // because the columns' names are in the first row.
  require(foreseen.unaccounted.size() == told.unaccounted.size(),
          "foreseen_info() lists " + std::to_string(foreseen.unaccounted.size()) +
              " unaccounted facts, and info() " + std::to_string(told.unaccounted.size()));
  require(foreseen.first_rows_only == told.first_rows_only &&
              foreseen.rows_chosen_by_value == told.rows_chosen_by_value &&
              foreseen.has_test_split == told.has_test_split,
          "foreseen_info() and info() differ in which rows are chosen");
  require(foreseen.has_targets == told.has_targets,
          "foreseen_info() and info() differ in whether the rows have targets");
  const auto same = [](const RowOrigin& a, const RowOrigin& b) {
    return a.file == b.file && a.part == b.part && a.first == b.first && a.end == b.end;
  };
  require(std::ranges::equal(foreseen.train_origins, told.train_origins, same) &&
              std::ranges::equal(foreseen.test_origins, told.test_origins, same),
          "foreseen_info() and info() differ in where the rows are from");
  require(foreseen.shape.features.empty() || (foreseen.shape.features == told.shape.features &&
                                              foreseen.shape.classes == told.shape.classes),
          "foreseen_info() and info() differ in the shape of the rows");
}

}  // namespace

void check_abilities(Checker& checker, DataSource& source) {
  if (source.foreseen_info())
    checker.rule("foresees_what_it_tells", [&] { check_foreseen_info(checker, source.info()); });
  const auto suggests = [&] {
    try {
      return source.suggest().has_value();
    } catch (const Error&) {
      return true;
    }
  };
  if (suggests()) {
    checker.rule("suggests_parameters_that_it_takes", [&] {
      Value params = checker.params().value();
      const Value suggested = source.suggest().value();
      for (const Value::Member& member : std::get<Value::Object>(suggested.data()))
        params.set(member.key, member.value);
      const auto with = checker.make<DataSource>(
          Params::make(checker.component().factory.info.name, checker.specs(), params));
      require(with->info().train_rows == source.info().train_rows,
              "with its suggested parameters it has other rows");
    });
  }
  if (!source.columns().empty())
    checker.rule("keeps_columns_beside_the_rows", [&] { check_kept_columns(checker); });
  if (auto* streams = dynamic_cast<StreamedRows*>(&source))
    check_streamed_rows(checker, source, *streams);
  if (source.files().empty()) return;
  checker.rule("names_files_that_exist", [&] {
    const std::vector<std::filesystem::path> files = source.files();
    for (const std::filesystem::path& file : files) {
      std::error_code failure;
      require(std::filesystem::is_regular_file(file, failure),
              "files() names " + file.string() + ", which is not a file");
    }
    require(files == source.files(), "files() differs at the second call");
  });
}

}  // namespace privgrad::testing
