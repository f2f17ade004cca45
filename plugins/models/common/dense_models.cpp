#include "dense_models.hpp"

#include <algorithm>
#include <cmath>

#include "privgrad/error.hpp"

namespace privgrad::dense_models {
namespace {

double variance(std::string_view rule, const ParameterBlock& block) {
  const auto fan_in = static_cast<double>(block.fan_in);
  const auto fan_out = static_cast<double>(block.fan_out);
  if (rule.starts_with("he_")) return 2 / fan_in;
  if (rule.starts_with("lecun_")) return 1 / fan_in;
  return 2 / (fan_in + fan_out);
}

}  // namespace

ParamSpec loss_parameter(bool of_places) {
  std::vector<std::string> losses{"cross_entropy", "squared", "logistic"};
  std::string doc =
      "What training makes small, per example. When not given: cross_entropy for classes, squared "
      "for real targets.";
  if (of_places) {
    losses.emplace_back("next_token");
    doc +=
        " next_token: the mean, over the places of a sequence, of the cross-entropy of what a "
        "place "
        "says about the token behind it; for data without classes, whose targets are not used.";
  }
  return param::text("loss", doc).one_of(losses).optional();
}

ParamSpec class_weights_parameter() {
  return param::list(
             "class_weights",
             "For each class, in their order, the number by which the losses of its examples "
             "are multiplied before they are clipped; 1 if not given. Public: not made of "
             "the private rows. Or `balanced`: made of the counts that report.class_counts "
             "releases and pays for.",
             param::real("weight", "").above(0))
      .optional();
}

Network begun_network(const Params& params, const ExampleShape& input) {
  Network network;
  network.input = input;
  network.loss = input.classes == 0 ? Loss::squared : Loss::cross_entropy;
  if (params.has("loss")) network.loss = loss_from_text(params.text("loss"));
  if (params.has("class_weights")) network.class_weights = params.reals("class_weights");
  return network;
}

std::size_t outputs_for(Loss loss, const ExampleShape& input) {
  if (loss == Loss::logistic || input.classes == 0) return 1;
  return input.classes;
}

std::vector<std::string> random_rules() {
  return {"he_normal",      "he_uniform",   "glorot_normal",
          "glorot_uniform", "lecun_normal", "lecun_uniform"};
}

ParamSpec rule_parameter() {
  return param::text("initialisation",
                     "How the weights begin; biases begin at 0, the weights of norms at 1. When "
                     "not given: he_normal if there is a relu, glorot_uniform if not.")
      .one_of(random_rules())
      .optional();
}

std::string rule_for(const Params& params, const Network& network) {
  if (params.has("initialisation")) return params.text("initialisation");
  const bool relu = std::ranges::any_of(network.nodes, [](const Node& node) {
    const auto* activation = std::get_if<Activation>(&node.layer);
    return activation != nullptr && activation->kind == ActivationKind::relu;
  });
  return relu ? "he_normal" : "glorot_uniform";
}

void initialise(std::string_view rule, const Network& network, RandomStream& random,
                std::span<float> parameters) {
  if (parameters.size() != parameter_count(network)) {
    throw ConfigError("the parameter vector has " + std::to_string(parameters.size()) +
                      " elements, the network has " + std::to_string(parameter_count(network)));
  }
  for (const ParameterBlock& block : parameter_blocks(network)) {
    const auto weights = parameters.subspan(block.offset, element_count(block.shape));
    std::ranges::fill(weights, block.initial);
    if (block.fan_in == 0 || rule == "zeros") continue;
    if (rule.ends_with("_normal")) {
      const double deviation = std::sqrt(variance(rule, block));
      random.fill_normal(weights);
      for (float& weight : weights) weight = static_cast<float>(weight * deviation);
    } else {
      // A uniform distribution on +-limit with this variance.
      const double limit = std::sqrt(3 * variance(rule, block));
      for (float& weight : weights) {
        weight = static_cast<float>(limit * (2 * random.uniform() - 1));
      }
    }
  }
}

}  // namespace privgrad::dense_models
