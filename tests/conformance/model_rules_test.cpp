// Models with one defect each, and the rule of the conformance suite that notices it.
#include "broken.hpp"
#include "privgrad/error.hpp"
#include "right_model.hpp"

namespace model_rules_test {

using namespace privgrad;

namespace {

using Right = RightModel;

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
       {"runs_concurrently", "differ", findings_on("model/begins_by_thread")}});
}

}  // namespace model_rules_test
