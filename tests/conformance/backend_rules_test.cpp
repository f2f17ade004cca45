// Backends and their programs with one defect each, and the rule of the conformance suite that
// notices it.
#include <atomic>
#include <cmath>

#include "broken.hpp"
#include "linear_program.hpp"
#include "privgrad/error.hpp"

namespace backend_rules_test {

using namespace privgrad;

namespace {

template <class Impl>
Findings findings() {
  return findings_on<Backend, OneLayerBackend<Impl>>();
}

struct RefusesAll final : Backend {
  explicit RefusesAll(const Params&) {}
  std::unique_ptr<Program> compile(const Network&, Executor&) override { throw ConfigError("no"); }
};
struct RefusesOddly final : Backend {
  explicit RefusesOddly(const Params&) {}
  std::unique_ptr<Program> compile(const Network&, Executor&) override { throw PluginError("no"); }
};
struct GivesNothing final : Backend {
  explicit GivesNothing(const Params&) {}
  std::unique_ptr<Program> compile(const Network&, Executor&) override { return nullptr; }
};

struct MiscountsItself final : LinearProgram {
  using LinearProgram::LinearProgram;
  std::size_t parameter_count() const override { return parameters_.size() + 1; }
};
struct CountsRealTargets final : LinearProgram {
  using LinearProgram::LinearProgram;
  bool correct(const std::vector<double>& output, float target) const override {
    return network_.input.classes == 0 || LinearProgram::correct(output, target);
  }
};
/// Consistent in itself, so only the comparison with the definition shows the error.
struct SquareWithoutHalf final : LinearProgram {
  using LinearProgram::LinearProgram;
  double loss(const std::vector<double>& output, float target) const override {
    return (network_.loss == Loss::squared ? 2.0 : 1.0) * LinearProgram::loss(output, target);
  }
  std::vector<double> slopes(std::vector<double> output, float target) const override {
    auto slope = LinearProgram::slopes(std::move(output), target);
    for (double& value : slope) value *= network_.loss == Loss::squared ? 2.0 : 1.0;
    return slope;
  }
};
/// Adds floats in the order in which chunks happen to end.
struct SumsInAnyOrder final : LinearProgram {
  SumsInAnyOrder(Network network, Executor& executor)
      : LinearProgram(std::move(network)), executor_(executor) {}
  Evaluation evaluate(const Batch& batch) const override {
    std::atomic<float> sum{0.0f};
    std::atomic<std::size_t> correct{0};
    executor_.for_each_chunk(batch.rows(), [&](std::size_t row) {
      const Evaluation one = LinearProgram::evaluate(
          {.features = example(batch, row), .targets = batch.targets.subspan(row, 1)});
      for (float old = sum; !sum.compare_exchange_weak(old, old + static_cast<float>(one.loss));) {
      }
      correct += one.correct;
    });
    return {.loss = static_cast<double>(sum), .correct = correct};
  }
  Executor& executor_;
};
struct SharedParameters final : LinearProgram {
  using LinearProgram::LinearProgram;
  void load_parameters(std::span<const float> parameters) override {
    LinearProgram::load_parameters(parameters);
    last_ = parameters[0];
  }
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation sum = LinearProgram::evaluate(batch);
    sum.loss += static_cast<double>(last_) * static_cast<double>(batch.rows());
    return sum;
  }
  inline static float last_ = 0.0f;
};

/// Returns probabilities instead of the inputs of the loss.
struct GivesProbabilities final : LinearProgram {
  using LinearProgram::LinearProgram;
  using LinearProgram::outputs;
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> out) const override {
    LinearProgram::outputs(features, rows, out);
    for (float& value : out) value = 1.0f / (1.0f + std::exp(-value));
  }
};
/// Normalises over the batch.
struct CentresOutputs final : LinearProgram {
  using LinearProgram::LinearProgram;
  using LinearProgram::outputs;
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> out) const override {
    LinearProgram::outputs(features, rows, out);
    if (rows > 100) out[0] += 1e-4f;
  }
};
struct SpreadsWhatIsNoNumber final : LinearProgram {
  using LinearProgram::LinearProgram;
  using LinearProgram::outputs;
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> out) const override {
    LinearProgram::outputs(features, rows, out);
    for (const float value : features) {
      if (std::isnan(value)) out[0] = 0.0f;
    }
  }
};
struct WritesOutputsBeside final : LinearProgram {
  using LinearProgram::LinearProgram;
  using LinearProgram::outputs;
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> out) const override {
    LinearProgram::outputs(features, rows, out);
    out.data()[out.size()] = 0.0f;
  }
};

/// Rounds factors to fewer bits.
struct CoarseLoss final : LinearProgram {
  using LinearProgram::LinearProgram;
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation given = LinearProgram::evaluate(batch);
    given.loss *= 1.0 + 0x1p-9;
    return given;
  }
};
/// Subtracts the mean loss of the batch, as batch normalisation would.
struct CentresEvaluations final : LinearProgram {
  using LinearProgram::LinearProgram;
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override {
    LinearProgram::evaluate_rows(batch, each);
    if (batch.rows() > 1) each.back().loss += 1e-9 * each.front().loss;
  }
};
struct EvaluatesAnotherRow final : LinearProgram {
  using LinearProgram::LinearProgram;
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override {
    LinearProgram::evaluate_rows(batch, each);
    if (each.size() > 7) std::swap(each[5], each[6]);
  }
};
struct SpreadsANaN final : LinearProgram {
  using LinearProgram::LinearProgram;
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override {
    LinearProgram::evaluate_rows(batch, each);
    for (const float value : batch.features) {
      if (std::isnan(value)) each.back().loss = 0.0;
    }
  }
};
struct WritesEvaluationsBeside final : LinearProgram {
  using LinearProgram::LinearProgram;
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override {
    LinearProgram::evaluate_rows(batch, each);
    each.data()[each.size()] = {};
  }
};

}  // namespace

TEST_CASE("each rule of backends and programs can fail") {
  check_rules_can_fail(
      findings<LinearProgram>(),
      {{"compiles_a_network", "refuses every network", findings_on<Backend, RefusesAll>()},
       {"compiles_a_network", "threw PluginError", findings_on<Backend, RefusesOddly>()},
       {"program_has_the_networks_parameters", "no program", findings_on<Backend, GivesNothing>()},
       {"program_has_the_networks_parameters", "has 5 parameters", findings<MiscountsItself>()},
       {"gradient_rows_are_written_whole", "not finite", findings_on("program/forgets_the_biases")},
       {"gradients_match_finite_differences", "but the loss changes by",
        findings_on("program/a_hundredth_more")},
       {"rows_depend_on_their_example_alone", "alone differs",
        findings_on("program/large_batches_only")},
       {"rows_depend_on_their_example_alone", "extreme",
        findings_on("program/an_extreme_row_spoils_all")},
       {"evaluation_sums_over_examples", "the loss of a batch",
        findings_on("program/loss_is_a_mean")},
       {"evaluation_sums_over_examples", "real targets", findings<CountsRealTargets>()},
       {"an_empty_batch_gives_nothing", "is not 0", findings_on("program/loss_of_nothing")},
       {"extreme_numbers_do_not_fail", "overflow", findings_on("program/an_extreme_row_throws")},
       {"losses_are_as_defined", "by definition it is", findings<SquareWithoutHalf>()},
       {"losses_are_as_defined", "count as correct", findings_on("program/counts_the_wrong")},
       {"losses_are_as_defined", "by definition it is", findings<CoarseLoss>()},
       {"outputs_are_what_the_loss_is_of", "evaluate() says", findings<GivesProbabilities>()},
       {"outputs_are_what_the_loss_is_of", "wrote outside", findings<WritesOutputsBeside>()},
       {"outputs_depend_on_their_example_alone", "alone differ", findings<CentresOutputs>()},
       {"outputs_depend_on_their_example_alone", "not a number", findings<SpreadsWhatIsNoNumber>()},
       {"rows_are_evaluated_as_if_alone", "example 299 is", findings<CentresEvaluations>()},
       {"rows_are_evaluated_as_if_alone", "example 5 is", findings<EvaluatesAnotherRow>()},
       {"rows_are_evaluated_as_if_alone", "example 299 is", findings<SpreadsANaN>()},
       {"rows_are_evaluated_as_if_alone", "wrote outside", findings<WritesEvaluationsBeside>()},
       {"results_do_not_depend_on_threads", "depend on the threads", findings<SumsInAnyOrder>()},
       {"programs_run_concurrently", "differ", findings_on("program/thread_decides")},
       {"programs_own_their_parameters", "changed another", findings<SharedParameters>()},
       {"programs_own_their_parameters", "it had before", findings_on("program/adds_parameters")}},
      exact_and_resident_rules());
}

}  // namespace backend_rules_test
