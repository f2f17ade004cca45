// Models with one defect each, and the rule of the conformance suite that notices it.
#include "broken.hpp"
#include "linear_program.hpp"
#include "privgrad/error.hpp"
#include "right_model.hpp"

namespace model_rules_test {

using namespace privgrad;

namespace {

using Right = RightModel;

/// Right, with layers and a program of its own.
template <class Impl>
class OwnMathematics : public Right, public SelfExecuting {
 public:
  using Right::Right;
  Network network(const ExampleShape& input) const override {
    Network network = Right::network(input);
    const std::size_t outputs = output_count(network);
    Opaque own;
    own.tensors.push_back({"weight", {outputs, element_count(input.features)}, 1});
    own.tensors.push_back({"bias", {outputs}, 0});
    own.outputs = outputs;
    network.layers = {own};
    return network;
  }
  std::unique_ptr<Program> make_program(const Network& network, Executor&) const override {
    return std::make_unique<Impl>(network);
  }
};
struct WrongSlope final : LinearProgram {
  using LinearProgram::LinearProgram;
  std::vector<double> slopes(std::vector<double> output, float target) const override {
    auto slope = LinearProgram::slopes(std::move(output), target);
    for (double& value : slope) value *= 1.01;
    return slope;
  }
};

struct RefusesAll final : Right {
  using Right::Right;
  Network network(const ExampleShape&) const override { throw ConfigError("no"); }
};
struct RefusesOddly final : Right {
  using Right::Right;
  Network network(const ExampleShape&) const override { throw IoError("no"); }
};
struct ForgetsBiases final : Right {
  using Right::Right;
  void initialise(const Network& network, RandomStream& random,
                  std::span<float> parameters) const override {
    random.fill_normal(parameters.first(parameters.size() - output_count(network)));
  }
};

template <class Impl>
Findings findings() {
  return findings_on<Model, Impl>();
}

}  // namespace

TEST_CASE("each rule of models can fail") {
  check_rules_can_fail(
      findings<Right>(),
      {{"gives_valid_networks", "refuses every shape", findings<RefusesAll>()},
       {"gives_valid_networks", "threw IoError", findings<RefusesOddly>()},
       {"gives_valid_networks", "loss logistic needs", findings_on("model/wrong_loss")},
       {"gives_valid_networks", "is for examples of", findings_on("model/other_input")},
       {"networks_are_repeatable", "another network", findings_on("model/grows")},
       {"initial_parameters_are_finite", "left layers.0.bias with nan", findings<ForgetsBiases>()},
       {"initial_parameters_follow_from_the_stream", "same random stream",
        findings_on("model/begins_by_calls")},
       {"runs_concurrently", "differ", findings_on("model/begins_by_thread")},
       {"layers_of_its_own_come_with_a_program", "SelfExecuting", findings_on("model/opaque")}});
}

TEST_CASE("a model with mathematics of its own is held to what programs promise") {
  using privgrad::testing::Verdict;
  const Findings right = findings<OwnMathematics<LinearProgram>>();
  CHECK(findings_text(right, Verdict::failed) == "");
  std::string skipped = "losses_are_as_defined: its layers are its own\n";
  for (const auto& finding : right) {
    if (exact_and_resident_rules().count(finding.rule) != 0)
      skipped += finding.rule + ": programs do not offer it\n";
  }
  CHECK(findings_text(right, Verdict::skipped) == skipped);
  CHECK(not_caught(findings<OwnMathematics<WrongSlope>>(), "gradients_match_finite_differences",
                   "in the network 1 > opaque > cross_entropy") == "");
}

}  // namespace model_rules_test
