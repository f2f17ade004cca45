#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

#include "inputs.hpp"
#include "network_definition.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/row_evaluations.hpp"
#include "program_inputs.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

/// Computes d loss / d parameter by a central difference of about this width; parameters are
/// floats, so the exact width is the difference of the rounded parameters.
double difference(const std::function<double(const std::vector<float>&)>& loss,
                  const std::vector<float>& parameters, std::size_t place, float width) {
  std::vector<float> moved = parameters;
  moved[place] = parameters[place] + width;
  const double above = loss(moved);
  const double step_up = static_cast<double>(moved[place]);
  moved[place] = parameters[place] - width;
  return (above - loss(moved)) / (step_up - static_cast<double>(moved[place]));
}

/// A tolerance above the truncation (width^2) and float rounding errors (1e-7 / width) of a smooth
/// loss. If the results for two widths are further apart, the loss has a kink in between, and
/// nothing is compared.
constexpr double kNear = 4e-3;

bool near(double a, double b) {
  return std::abs(a - b) <= kNear * std::max({1.0, std::abs(a), std::abs(b)});
}

void require_true_gradient(Program& program, const Network& network) {
  const Examples examples = examples_for(network, 3);
  const std::vector<float> parameters = parameters_for(network);
  program.load_parameters(parameters);
  const std::vector<float> rows = gradients(program, examples.all());
  std::size_t compared = 0;
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    const Batch example = examples.one(row);
    const auto loss = [&](const std::vector<float>& moved) {
      program.load_parameters(moved);
      return program.evaluate(example).loss;
    };
    for (std::size_t place = 0; place < parameters.size(); ++place) {
      const double wide = difference(loss, parameters, place, 0.02f);
      const double narrow = difference(loss, parameters, place, 0.005f);
      if (!near(wide, narrow)) continue;
      ++compared;
      const auto given = static_cast<double>(rows[row * parameters.size() + place]);
      require(near(given, narrow), "in " + text_of(network) + ", the gradient of parameter " +
                                       std::to_string(place) + " for example " +
                                       std::to_string(row) + " is " + format_number(given) +
                                       ", but the loss changes by " + format_number(narrow));
    }
  }
  require(2 * compared >= rows.size(),
          "in " + text_of(network) + ", the loss is not smooth enough to compare gradients with");
}

void require_independent_rows(Program& program, const Network& network) {
  Examples examples = examples_for(network, 70);
  const std::size_t size = program.parameter_count();
  program.load_parameters(parameters_for(network));
  const std::vector<float> together = gradients(program, examples.all());
  for (const std::size_t row : {std::size_t{0}, std::size_t{5}, std::size_t{69}}) {
    require(
        same_bits(row_of(together, row, size), gradients(program, examples.one(row))),
        "in " + text_of(network) + ", the row of an example alone differs from its row among 70");
  }
  // Checks that equal examples count separately.
  Examples twice = examples_for(network, 12);
  for (std::size_t row = 1; row < twice.rows(); row += 2) {
    std::copy_n(twice.features.begin() + static_cast<std::ptrdiff_t>((row - 1) * twice.row_size),
                twice.row_size,
                twice.features.begin() + static_cast<std::ptrdiff_t>(row * twice.row_size));
    twice.targets[row] = twice.targets[row - 1];
  }
  const std::vector<float> pairs = gradients(program, twice.all());
  for (std::size_t row = 0; row < twice.rows(); ++row) {
    require(same_bits(row_of(pairs, row, size), gradients(program, twice.one(row))),
            "in " + text_of(network) + ", an example beside an equal one has another row");
  }
  // An example that makes everything overflow must not affect its neighbours.
  for (std::size_t i = 0; i < examples.row_size; ++i) {
    examples.features[examples.row_size + i] = std::numeric_limits<float>::max();
  }
  const std::vector<float> beside_extreme = gradients(program, examples.all());
  for (const std::size_t row : {std::size_t{0}, std::size_t{2}, std::size_t{69}}) {
    require(same_bits(row_of(together, row, size), row_of(beside_extreme, row, size)),
            "in " + text_of(network) + ", an extreme example changed the row of another");
  }
}

void require_sums(Program& program, const Network& network) {
  const Examples examples = examples_for(network, 70);
  program.load_parameters(parameters_for(network));
  Evaluation sum;
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    const Evaluation one = program.evaluate(examples.one(row));
    sum.loss += one.loss;
    sum.correct += one.correct;
  }
  const Evaluation all = program.evaluate(examples.all());
  require(close(all.loss, sum.loss, 1e-6),
          "in " + text_of(network) + ", the loss of a batch is " + format_number(all.loss) +
              ", the sum over its examples " + format_number(sum.loss));
  require(all.correct == sum.correct,
          "in " + text_of(network) + ", a batch has " + std::to_string(all.correct) +
              " correct examples, one by one there are " + std::to_string(sum.correct));
  require(network.input.classes > 0 || all.correct == 0,
          "in " + text_of(network) + ", real targets count as correct");
}

void require_defined_loss(Program& program, const Network& network) {
  const Examples examples = examples_for(network, 20);
  const std::vector<float> parameters = parameters_for(network);
  program.load_parameters(parameters);
  const Evaluation given = program.evaluate(examples.all());
  const Evaluation wanted =
      defined_evaluation(network, defined_outputs(network, parameters, examples), examples);
  require(close(given.loss, wanted.loss, 1e-4),
          "in " + text_of(network) + ", the loss is " + format_number(given.loss) +
              ", by definition it is " + format_number(wanted.loss));
  require(given.correct == wanted.correct,
          "in " + text_of(network) + ", " + std::to_string(given.correct) +
              " examples count as correct, by definition " + std::to_string(wanted.correct));
}

void require_nothing_from_nothing(Program& program, const Network& network) {
  program.load_parameters(parameters_for(network));
  std::vector<float> guard(1, 42.0f);
  program.gradient_rows({}, std::span(guard).first(0));
  require(guard[0] == 42.0f, "in " + text_of(network) + ", an empty batch wrote a gradient");
  const Evaluation none = program.evaluate({});
  require(none.loss == 0.0 && none.correct == 0,
          "in " + text_of(network) + ", the loss of an empty batch is not 0");
}

/// Requires that gradient_rows() writes only to the given memory.
void require_filled(Program& program, const Network& network) {
  const Examples examples = examples_for(network, 5);
  program.load_parameters(parameters_for(network));
  const std::size_t count = examples.rows() * program.parameter_count();
  std::vector<float> rows(count + 2, std::numeric_limits<float>::quiet_NaN());
  rows.front() = rows.back() = 42.0f;
  program.gradient_rows(examples.all(), std::span(rows).subspan(1, count));
  require(rows.front() == 42.0f && rows.back() == 42.0f,
          "in " + text_of(network) + ", gradient_rows() wrote outside its output");
  require(all_finite(rows),
          "in " + text_of(network) + ", gradient_rows() left a value that is not finite");
}

void use_extremes(Program& program, const Network& network) {
  Examples examples = examples_for(network, 4);
  const float extremes[] = {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min(), -0.0f};
  for (std::size_t i = 0; i < examples.features.size(); ++i) {
    examples.features[i] = extremes[i % std::size(extremes)];
  }
  // A diverged run may have such parameters, and its steps must not fail.
  for (const float size : {1.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    std::vector<float> parameters = parameters_for(network);
    for (float& parameter : parameters) parameter *= size;
    program.load_parameters(parameters);
    gradients(program, examples.all());
    program.evaluate(examples.all());
  }
}

/// Returns all results of a program for some examples, in one list.
std::vector<double> said(const Program& program, const Examples& examples) {
  const std::vector<float> rows = gradients(program, examples.all());
  std::vector<double> all(rows.begin(), rows.end());
  const Evaluation evaluation = program.evaluate(examples.all());
  all.push_back(evaluation.loss);
  all.push_back(static_cast<double>(evaluation.correct));
  return all;
}

void require_same_on_every_executor(const Network& network, const ProgramMaker& make) {
  const Examples examples = examples_for(network, 300);
  SerialExecutor forwards;
  SerialExecutor backwards(true);
  TwoThreadExecutor threads;
  std::vector<std::vector<double>> results;
  for (Executor* executor : std::initializer_list<Executor*>{&forwards, &backwards, &threads}) {
    const auto program = make(network, *executor);
    program->load_parameters(parameters_for(network));
    results.push_back(said(*program, examples));
  }
  require(same_bits(results[0], results[1]) && same_bits(results[0], results[2]),
          "in " + text_of(network) +
              ", the results depend on the threads; choose chunks from the problem alone");
}

void require_own_parameters(const Network& network, const ProgramMaker& make) {
  SerialExecutor executor;
  const Examples examples = examples_for(network, 5);
  const auto one = make(network, executor);
  const auto two = make(network, executor);
  one->load_parameters(parameters_for(network, 1));
  const std::vector<double> first = said(*one, examples);
  two->load_parameters(parameters_for(network, 2));
  require(same_bits(first, said(*one, examples)),
          "in " + text_of(network) + ", loading parameters into one program changed another");
  one->load_parameters(parameters_for(network, 2));
  require(same_bits(said(*two, examples), said(*one, examples)),
          "in " + text_of(network) + ", a program depends on the parameters it had before");
}

// ---- the ability to give outputs (Outputs)

const Outputs& outputs_ability(const Program& program) {
  const auto* found = dynamic_cast<const Outputs*>(&program);
  if (found == nullptr) throw NotChecked{"it does not give outputs (Outputs)"};
  return *found;
}

/// Returns the outputs of some examples, written between two numbers that must not change.
std::vector<float> outputs_of(const Program& program, const Network& network,
                              std::span<const float> features, std::size_t rows) {
  constexpr float kGuard = 12345.0f;
  const std::size_t size = rows * output_count(network);
  std::vector<float> memory(size + 2, kGuard);
  const auto inner = std::span(memory).subspan(1, size);
  std::ranges::fill(inner, std::numeric_limits<float>::quiet_NaN());
  outputs_ability(program).outputs(features, rows, inner);
  require(memory.front() == kGuard && memory.back() == kGuard,
          "in " + text_of(network) + ", outputs() wrote outside its memory");
  return {inner.begin(), inner.end()};
}

/// Requires that the loss follows from the outputs.
void require_outputs_of_the_loss(Program& program, const Network& network) {
  const Examples examples = examples_for(network, 70);
  program.load_parameters(parameters_for(network));
  const std::vector<float> given = outputs_of(program, network, examples.features, examples.rows());
  const Evaluation sum = defined_evaluation(network, {given.begin(), given.end()}, examples);
  const Evaluation evaluation = program.evaluate(examples.all());
  require(close(sum.loss, evaluation.loss, 1e-4) && sum.correct == evaluation.correct,
          "in " + text_of(network) + ", the loss of outputs() is " + format_number(sum.loss) +
              " with " + std::to_string(sum.correct) + " correct examples, evaluate() says " +
              format_number(evaluation.loss) + " and " + std::to_string(evaluation.correct));
}

void require_independent_outputs(Program& program, const Network& network) {
  Examples examples = examples_for(network, 300);
  program.load_parameters(parameters_for(network));
  const std::size_t width = output_count(network);
  const std::vector<float> all = outputs_of(program, network, examples.features, examples.rows());
  const auto alone = [&](std::size_t row) {
    return outputs_of(program, network, examples.one(row).features, 1);
  };
  for (const std::size_t row : {std::size_t{0}, std::size_t{5}, std::size_t{299}}) {
    require(same_bits(row_of(all, row, width), alone(row)),
            "in " + text_of(network) +
                ", the outputs of an example alone differ from those among " + "300");
  }
  for (std::size_t i = 0; i < examples.row_size; ++i)
    examples.features[examples.row_size + i] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> beside =
      outputs_of(program, network, examples.features, examples.rows());
  for (const std::size_t row : {std::size_t{0}, std::size_t{2}, std::size_t{299}}) {
    require(same_bits(row_of(all, row, width), row_of(beside, row, width)),
            "in " + text_of(network) +
                ", an example that is not a number changed the outputs of another");
  }
}

// ---- the ability to evaluate many examples, each separately (RowEvaluations)

void require_rows_as_alone(Program& program, const Network& network) {
  const auto* ability = dynamic_cast<const RowEvaluations*>(&program);
  if (ability == nullptr) throw NotChecked{"it evaluates no rows by themselves (RowEvaluations)"};
  Examples examples = examples_for(network, 300);
  program.load_parameters(parameters_for(network));
  const auto compare = [&](std::size_t spoilt) {
    // Memory with a number on each side that must not change.
    std::vector<Evaluation> memory(examples.rows() + 2, {.loss = 12345.0, .correct = 7});
    ability->evaluate_rows(examples.all(), std::span(memory).subspan(1, examples.rows()));
    for (const Evaluation& guard : {memory.front(), memory.back()}) {
      require(guard.loss == 12345.0 && guard.correct == 7,
              "in " + text_of(network) + ", evaluate_rows() wrote outside its memory");
    }
    for (std::size_t row = 0; row < examples.rows(); ++row) {
      if (row == spoilt) continue;
      const Evaluation alone = program.evaluate(examples.one(row));
      const Evaluation& among = memory[row + 1];
      require(same_bits({alone.loss}, {among.loss}) && alone.correct == among.correct,
              "in " + text_of(network) + ", example " + std::to_string(row) +
                  " is evaluated differently among 300 than alone");
    }
  };
  compare(examples.rows());
  for (std::size_t i = 0; i < examples.row_size; ++i)
    examples.features[examples.row_size + i] = std::numeric_limits<float>::quiet_NaN();
  compare(1);
}

}  // namespace

void check_program(Checker& checker, const std::vector<Network>& networks,
                   const ProgramMaker& make) {
  const auto each = [&](std::string_view name, void (*check)(Program&, const Network&)) {
    checker.rule(name, [&] {
      SerialExecutor executor;
      for (const Network& network : networks) check(*make(network, executor), network);
    });
  };
  if (!checker.rule("program_has_the_networks_parameters", [&] {
        SerialExecutor executor;
        for (const Network& network : networks) {
          const auto program = make(network, executor);
          require(program != nullptr, "there is no program for " + text_of(network));
          require(program->parameter_count() == parameter_count(network),
                  "the program of " + text_of(network) + " has " +
                      std::to_string(program->parameter_count()) + " parameters, the network " +
                      std::to_string(parameter_count(network)));
        }
      })) {
    return;
  }
  each("gradient_rows_are_written_whole", require_filled);
  each("gradients_match_finite_differences", require_true_gradient);
  each("rows_depend_on_their_example_alone", require_independent_rows);
  each("evaluation_sums_over_examples", require_sums);
  each("an_empty_batch_gives_nothing", require_nothing_from_nothing);
  each("extreme_numbers_do_not_fail", use_extremes);
  each("losses_are_as_defined", require_defined_loss);
  each("outputs_are_what_the_loss_is_of", require_outputs_of_the_loss);
  each("outputs_depend_on_their_example_alone", require_independent_outputs);
  each("rows_are_evaluated_as_if_alone", require_rows_as_alone);
  checker.rule("results_do_not_depend_on_threads", [&] {
    for (const Network& network : networks) require_same_on_every_executor(network, make);
  });
  checker.rule("programs_run_concurrently", [&] {
    for (const Network& network : networks) {
      SerialExecutor executor;
      const Examples examples = examples_for(network, 40);
      const auto program = make(network, executor);
      program->load_parameters(parameters_for(network));
      const std::vector<double> alone = said(*program, examples);
      for (const auto& result : on_two_threads([&] { return said(*program, examples); })) {
        require(same_bits(alone, result), "on two threads, the results differ");
      }
    }
  });
  checker.rule("programs_own_their_parameters", [&] {
    for (const Network& network : networks) require_own_parameters(network, make);
  });
  check_exact_program(checker, networks, make);
  check_resident_steps(checker, networks, make);
}

}  // namespace privgrad::testing
