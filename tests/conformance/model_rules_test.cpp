#include <atomic>
#include <cmath>
#include <thread>

#include "broken.hpp"
#include "linear_program.hpp"
#include "privgrad/error.hpp"
#include "privgrad/model.hpp"

namespace model_rules_test {

using namespace privgrad;

namespace {

class Right : public Model {
 public:
  explicit Right(const Params&) {}
  Network network(const ExampleShape& input) const override {
    Network network;
    network.input = input;
    network.layers.push_back(Dense{std::max<std::size_t>(1, input.classes)});
    network.loss = input.classes == 0 ? Loss::squared : Loss::cross_entropy;
    return network;
  }
  void initialise(const Network&, RandomStream& random,
                  std::span<float> parameters) const override {
    random.fill_normal(parameters);
  }
};

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
struct WrongLoss final : Right {
  using Right::Right;
  Network network(const ExampleShape& input) const override {
    Network network = Right::network(input);
    network.loss = Loss::cross_entropy;
    return network;
  }
};
struct ForOtherExamples final : Right {
  using Right::Right;
  Network network(const ExampleShape& input) const override {
    Network network = Right::network(input);
    network.input.features.push_back(1);
    return network;
  }
};
struct Growing final : Right {
  using Right::Right;
  Network network(const ExampleShape& input) const override {
    Network network = Right::network(input);
    network.layers.insert(network.layers.begin(), Dense{++calls_});
    return network;
  }
  mutable std::atomic<std::size_t> calls_{0};
};
struct ForgetsBiases final : Right {
  using Right::Right;
  void initialise(const Network& network, RandomStream& random,
                  std::span<float> parameters) const override {
    random.fill_normal(parameters.first(parameters.size() - output_count(network)));
  }
};
struct OwnRandomness final : Right {
  using Right::Right;
  void initialise(const Network&, RandomStream&, std::span<float> parameters) const override {
    for (float& value : parameters) value = static_cast<float>(++draws_);
  }
  inline static std::atomic<int> draws_{0};
};
struct ThreadBound final : Right {
  using Right::Right;
  void initialise(const Network& network, RandomStream& random,
                  std::span<float> parameters) const override {
    Right::initialise(network, random, parameters);
    if (std::this_thread::get_id() != home_) parameters[0] = 7.0f;
  }
  std::thread::id home_ = std::this_thread::get_id();
};
struct NobodysLayers final : Right {
  using Right::Right;
  Network network(const ExampleShape& input) const override {
    Network network = Right::network(input);
    Opaque own;
    own.tensors.push_back({"weight", {3}, 1});
    own.outputs = output_count(network);
    network.layers = {own};
    return network;
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
       {"gives_valid_networks", "loss cross_entropy needs", findings<WrongLoss>()},
       {"gives_valid_networks", "is for examples of", findings<ForOtherExamples>()},
       {"networks_are_repeatable", "another network", findings<Growing>()},
       {"initial_parameters_are_finite", "left layers.0.bias with nan", findings<ForgetsBiases>()},
       {"initial_parameters_follow_from_the_stream", "same random stream",
        findings<OwnRandomness>()},
       {"runs_concurrently", "differ", findings<ThreadBound>()},
       {"layers_of_its_own_come_with_a_program", "SelfExecuting", findings<NobodysLayers>()}});
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
