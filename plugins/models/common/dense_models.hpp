// The loss, the number of outputs and the initial weights, for models made of dense layers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/model.hpp"
#include "privgrad/params.hpp"

namespace privgrad::dense_models {

/// Returns the parameter `loss`.
/// \param of_places  whether the outputs may belong to the places of a sequence.
ParamSpec loss_parameter(bool of_places = false);

ParamSpec class_weights_parameter();

/// \returns a network without nodes that has its input, the class weights, and the requested loss,
///   by default a loss that suits the targets.
Network begun_network(const Params& params, const ExampleShape& input);

/// \returns the number of outputs that the loss needs for targets of this kind.
std::size_t outputs_for(Loss loss, const ExampleShape& input);

/// Returns the rules that `initialise` knows, without `zeros`.
std::vector<std::string> random_rules();

/// Returns the parameter `initialisation` of models that choose a rule by their layers.
ParamSpec rule_parameter();

/// \returns the requested rule, by default one that suits the network's activations.
std::string rule_for(const Params& params, const Network& network);

/// Fills the weights by `rule`; other parameters get their block's initial value: biases 0, the
/// weights of norms 1.
///
/// With fan_in inputs and fan_out units, the weights are independent, normal or uniform, with mean
/// 0 and variance 2 / fan_in (he), 1 / fan_in (lecun) or 2 / (fan_in + fan_out) (glorot); `zeros`
/// draws nothing.
/// \param rule  "zeros" or one of random_rules(). Source: He et al. 2015, section 2.2; LeCun et al.
///   1998, section 4.6; Glorot and Bengio 2010, Eq. 16.
void initialise(std::string_view rule, const Network& network, RandomStream& random,
                std::span<float> parameters);

/// A model with the parameters above; the requested rule gives the initial weights.
class DenseModel : public Model {
 public:
  void initialise(const Network& network, RandomStream& random,
                  std::span<float> parameters) const override {
    dense_models::initialise(rule_for(params_, network), network, random, parameters);
  }

 protected:
  explicit DenseModel(const Params& params) : params_(params) {}

  Params params_;
};

}  // namespace privgrad::dense_models
