#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "inputs.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

/// Examples for a network, which outlive the batches made of them.
struct Examples {
  std::size_t row_size = 0;
  std::vector<float> features;
  std::vector<float> targets;

  std::size_t rows() const { return targets.size(); }
  Batch all() const { return {.features = features, .targets = targets}; }
  Batch one(std::size_t row) const {
    return {.features = std::span(features).subspan(row * row_size, row_size),
            .targets = std::span(targets).subspan(row, 1)};
  }
};

Examples examples_for(const Network& network, std::size_t rows) {
  Examples examples;
  examples.row_size = element_count(network.input.features);
  examples.features = normal_values(31, rows * examples.row_size);
  examples.targets = normal_values(32, rows);
  if (const std::size_t classes = network.input.classes; classes > 0) {
    for (std::size_t row = 0; row < rows; ++row) {
      examples.targets[row] = static_cast<float>(row % classes);
    }
  }
  return examples;
}

std::vector<float> parameters_for(const Network& network, std::uint64_t seed = 33) {
  return normal_values(seed, parameter_count(network), 0.5);
}

std::string text_of(const Network& network) {
  std::string text = "the network " + to_text(network.input.features);
  for (const Layer& layer : network.layers) {
    text += " > ";
    if (const auto* dense = std::get_if<Dense>(&layer)) {
      text += "dense " + std::to_string(dense->units);
    } else if (const auto* activation = std::get_if<Activation>(&layer)) {
      text += to_text(activation->kind);
    } else {
      text += "its own";
    }
  }
  return text + " > " + std::string(to_text(network.loss));
}

std::vector<float> gradients(const Program& program, const Batch& batch) {
  std::vector<float> rows(batch.rows() * program.parameter_count(),
                          std::numeric_limits<float>::quiet_NaN());
  program.gradient_rows(batch, rows);
  return rows;
}

std::vector<float> row_of(const std::vector<float>& rows, std::size_t row, std::size_t size) {
  const auto first = rows.begin() + static_cast<std::ptrdiff_t>(row * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

// ---------------------------------------------------------------------------------------------
// The definitions in network.hpp, in double and as plainly as they are written there.

double activated(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::relu:
      return std::max(0.0, x);
    case ActivationKind::tanh:
      return std::tanh(x);
    case ActivationKind::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
  }
  return 0.0;
}

bool is_described(const Network& network) {
  return std::none_of(network.layers.begin(), network.layers.end(),
                      [](const Layer& layer) { return std::holds_alternative<Opaque>(layer); });
}

std::vector<double> outputs(const Network& network, std::span<const float> parameters,
                            std::span<const float> features) {
  std::vector<double> values(features.begin(), features.end());
  std::size_t offset = 0;
  for (const Layer& layer : network.layers) {
    if (const auto* activation = std::get_if<Activation>(&layer)) {
      for (double& value : values) value = activated(activation->kind, value);
      continue;
    }
    const std::size_t units = std::get<Dense>(layer).units;
    const std::size_t inputs = values.size();
    std::vector<double> next(units);
    for (std::size_t unit = 0; unit < units; ++unit) {
      next[unit] = static_cast<double>(parameters[offset + units * inputs + unit]);
      for (std::size_t i = 0; i < inputs; ++i) {
        next[unit] += static_cast<double>(parameters[offset + unit * inputs + i]) * values[i];
      }
    }
    offset += units * inputs + units;
    values = std::move(next);
  }
  return values;
}

double loss_of(const Network& network, const std::vector<double>& output, double target) {
  const auto label = static_cast<std::size_t>(std::max(0.0, target));
  switch (network.loss) {
    case Loss::cross_entropy: {
      const double top = *std::max_element(output.begin(), output.end());
      double sum = 0.0;
      for (const double value : output) sum += std::exp(value - top);
      return std::log(sum) + top - output[label];
    }
    case Loss::squared: {
      double sum = 0.0;
      for (std::size_t i = 0; i < output.size(); ++i) {
        const bool real = network.input.classes == 0;
        const double wanted = real ? target : (i == label ? 1.0 : 0.0);
        sum += (output[i] - wanted) * (output[i] - wanted);
      }
      return 0.5 * sum;
    }
    case Loss::logistic:
      return std::log1p(std::exp(label == 1 ? -output[0] : output[0]));
  }
  return 0.0;
}

bool is_correct(const Network& network, const std::vector<double>& output, double target) {
  if (network.input.classes == 0) return false;
  const auto label = static_cast<std::size_t>(target);
  if (output.size() == 1) return (output[0] > 0.0) == (label == 1);
  return static_cast<std::size_t>(std::max_element(output.begin(), output.end()) -
                                  output.begin()) == label;
}

Evaluation defined(const Network& network, std::span<const float> parameters,
                   const Examples& examples) {
  Evaluation sum;
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    const auto output = outputs(network, parameters, examples.one(row).features);
    const auto target = static_cast<double>(examples.targets[row]);
    sum.loss += loss_of(network, output, target);
    sum.correct += is_correct(network, output, target) ? 1 : 0;
  }
  return sum;
}

// ---------------------------------------------------------------------------------------------

/// d loss / d parameter by a central difference of this width; parameters are floats, so the width
/// that counts is the one that they really moved.
double difference(Program& program, const std::vector<float>& parameters, std::size_t place,
                  float width, const Batch& example) {
  std::vector<float> moved = parameters;
  moved[place] = parameters[place] + width;
  program.load_parameters(moved);
  const double above = program.evaluate(example).loss;
  const double step_up = static_cast<double>(moved[place]);
  moved[place] = parameters[place] - width;
  program.load_parameters(moved);
  return (above - program.evaluate(example).loss) / (step_up - static_cast<double>(moved[place]));
}

/// Truncation (width^2) and float rounding of the loss (1e-7 / width) stay below this where the
/// loss is smooth; where two widths disagree there is a kink between them, and nothing to compare.
bool near(double a, double b) {
  return std::abs(a - b) <= 4e-3 * std::max({1.0, std::abs(a), std::abs(b)});
}

void require_true_gradient(Program& program, const Network& network) {
  const Examples examples = examples_for(network, 3);
  const std::vector<float> parameters = parameters_for(network);
  program.load_parameters(parameters);
  const std::vector<float> rows = gradients(program, examples.all());
  std::size_t compared = 0;
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    for (std::size_t place = 0; place < parameters.size(); ++place) {
      const double wide = difference(program, parameters, place, 0.02f, examples.one(row));
      const double narrow = difference(program, parameters, place, 0.005f, examples.one(row));
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
  // Another example that overflows everything must not touch its neighbours.
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
  const Evaluation wanted = defined(network, parameters, examples);
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

/// Writes where it should and nowhere else.
void require_filled(Program& program, const Network& network) {
  const Examples examples = examples_for(network, 5);
  program.load_parameters(parameters_for(network));
  const std::size_t count = examples.rows() * program.parameter_count();
  std::vector<float> rows(count + 2, std::numeric_limits<float>::quiet_NaN());
  rows.front() = rows.back() = 42.0f;
  program.gradient_rows(examples.all(), std::span(rows).subspan(1, count));
  require(rows.front() == 42.0f && rows.back() == 42.0f,
          "in " + text_of(network) + ", gradient_rows() wrote beside its output");
  require(std::all_of(rows.begin(), rows.end(), [](float value) { return std::isfinite(value); }),
          "in " + text_of(network) + ", gradient_rows() left a value that is not finite");
}

void use_extremes(Program& program, const Network& network) {
  Examples examples = examples_for(network, 4);
  const float extremes[] = {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min(), -0.0f};
  for (std::size_t i = 0; i < examples.features.size(); ++i) {
    examples.features[i] = extremes[i % std::size(extremes)];
  }
  // A run whose training diverged has such parameters; its steps must not fail all the same.
  for (const float size : {1.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    std::vector<float> parameters = parameters_for(network);
    for (float& parameter : parameters) parameter *= size;
    program.load_parameters(parameters);
    gradients(program, examples.all());
    program.evaluate(examples.all());
  }
}

/// Everything a program says about some examples, in one list.
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
  if (std::all_of(networks.begin(), networks.end(), is_described)) {
    each("losses_are_as_defined", require_defined_loss);
  } else {
    checker.skip("losses_are_as_defined", "its layers are its own");
  }
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
}

}  // namespace privgrad::testing
