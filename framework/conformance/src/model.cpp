#include "privgrad/model.hpp"

#include <cmath>
#include <limits>

#include "inputs.hpp"
#include "parameters.hpp"
#include "program_inputs.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

std::vector<ExampleShape> sample_shapes() {
  return {{{1}, 2},    {{5}, 2},        {{5}, 3},       {{5}, 0},
          {{3, 4}, 3}, {{2, 3, 4}, 10}, {{8, 8, 1}, 2}, {{28, 28}, 10}};
}

std::string words_of(const Network& network) {
  std::string text = std::string(to_text(network.loss));
  for (const Node& node : network.nodes) text += ", " + to_text(node.layer);
  for (const ParameterBlock& block : parameter_blocks(network)) {
    text += " " + block.name + " " + to_text(block.shape);
  }
  return text;
}

bool has_meaning(const Model& model, const ExampleShape& shape, Network& network) {
  return accepted("network() for " + text_of(shape), {Thrown::config},
                  [&] { network = model.network(shape); });
}

void require_valid(const Network& network, const ExampleShape& shape) {
  check_network(network);
  require(network.input.features == shape.features && network.input.classes == shape.classes,
          "network() for " + text_of(shape) + " is for " + text_of(network.input));
}

std::vector<float> initial(const Model& model, const Network& network, std::uint64_t seed) {
  PublicStream random(seed);
  std::vector<float> parameters(parameter_count(network), std::numeric_limits<float>::quiet_NaN());
  model.initialise(network, random, parameters);
  return parameters;
}

void require_good_start(const Model& model, const Network& network) {
  PublicStream random(3);
  const std::size_t count = parameter_count(network);
  std::vector<float> parameters(count + 2, std::numeric_limits<float>::quiet_NaN());
  parameters.front() = parameters.back() = 42.0f;
  model.initialise(network, random, std::span(parameters).subspan(1, count));
  require(parameters.front() == 42.0f && parameters.back() == 42.0f,
          "initialise() wrote outside the parameters");
  for (const ParameterBlock& block : parameter_blocks(network)) {
    for (std::size_t i = 0; i < element_count(block.shape); ++i) {
      const float value = parameters[1 + block.offset + i];
      require(std::isfinite(value),
              "initialise() left " + block.name + " with " + format_number(value));
    }
  }
}

}  // namespace

void check_model(Checker& checker) {
  const auto model = checker.make<Model>();
  std::vector<Network> networks;
  if (!checker.prepare("gives_valid_networks", [&] {
        for (const ExampleShape& shape : sample_shapes()) {
          Network network;
          if (!has_meaning(*model, shape, network)) continue;
          require_valid(network, shape);
          networks.push_back(std::move(network));
        }
        require(!networks.empty(), "network() refuses every shape that was tried");
      })) {
    return;
  }
  checker.rule("networks_are_repeatable", [&] {
    for (const Network& network : networks) {
      const std::string text = words_of(network);
      require(text == words_of(model->network(network.input)) &&
                  text == words_of(checker.make<Model>()->network(network.input)),
              "network() gives another network for the same examples");
    }
  });
  checker.rule("initial_parameters_are_finite", [&] {
    for (const Network& network : networks) require_good_start(*model, network);
  });
  checker.rule("initial_parameters_follow_from_the_stream", [&] {
    for (const Network& network : networks) {
      require(same_bits(initial(*model, network, 5), initial(*checker.make<Model>(), network, 5)),
              "the same random stream gives other initial parameters");
    }
  });
  checker.rule("runs_concurrently", [&] {
    for (const Network& network : networks) {
      const std::vector<float> alone = initial(*model, network, 5);
      const std::string text = words_of(network);
      for (const auto& [parameters, described] : on_two_threads([&] {
             return std::pair(initial(*model, network, 5), words_of(model->network(network.input)));
           })) {
        require(same_bits(alone, parameters) && described == text,
                "on two threads, the results differ");
      }
    }
  });
  check_range_ends(checker, [&](const Params& params) {
    const auto other = checker.make<Model>(params);
    for (const ExampleShape& shape : sample_shapes()) {
      Network network;
      if (has_meaning(*other, shape, network)) require_valid(network, shape);
    }
  });
}

}  // namespace privgrad::testing
