#include "backend_sequences.hpp"

#include <algorithm>
#include <string>

#include "inputs.hpp"
#include "privgrad/error.hpp"
#include "program_inputs.hpp"

namespace privgrad::testing {
namespace {

constexpr std::size_t kVocabulary = 6, kWidth = 4;

Dense at_each_place(std::size_t units, bool no_bias = false) {
  return {.units = units, .per_place = true, .no_bias = no_bias};
}

/// Returns sequences of 1, 2, ... places up to the full length, then again from 1.
Examples sequences_of(std::size_t length, std::size_t rows) {
  Examples examples{.row_size = length, .features = {}, .targets = {}};
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t t = 0; t < length; ++t) {
      examples.features.push_back(
          t <= row % length ? static_cast<float>((row * row + 3 * t + t * t) % kVocabulary)
                            : kEmptyPlace);
    }
    examples.targets.push_back(static_cast<float>(row % 3));
  }
  return examples;
}

/// Returns the same examples, each with `more` empty places appended.
Examples padded(const Examples& examples, std::size_t more) {
  Examples longer{
      .row_size = examples.row_size + more, .features = {}, .targets = examples.targets};
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    const auto own = examples.one(row).features;
    longer.features.insert(longer.features.end(), own.begin(), own.end());
    longer.features.insert(longer.features.end(), more, kEmptyPlace);
  }
  return longer;
}

/// A program's results for examples: losses, and gradients tensor by tensor.
struct Said {
  std::vector<double> losses;
  std::vector<std::vector<float>> tensors;  // of each example, in the order of the blocks
};

Said said_of(const Network& network, const std::vector<float>& parameters, const Examples& examples,
             const ProgramMaker& make) {
  SerialExecutor executor;
  const auto program = make(network, executor);
  program->load_parameters(parameters);
  Said said;
  const std::vector<float> rows = gradients(*program, examples.all());
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    said.losses.push_back(program->evaluate(examples.one(row)).loss);
    for (const ParameterBlock& block : parameter_blocks(network)) {
      const auto first =
          rows.begin() + static_cast<std::ptrdiff_t>(row * parameters.size() + block.offset);
      said.tensors.emplace_back(first,
                                first + static_cast<std::ptrdiff_t>(element_count(block.shape)));
    }
  }
  return said;
}

/// Returns the same parameters for a network of longer sequences, whose tensors may have additional
/// rows at the end.
std::vector<float> parameters_of_longer(const Network& network, const Network& longer,
                                        const std::vector<float>& parameters) {
  std::vector<float> of_longer = parameters_for(longer, 34);
  const auto from = parameter_blocks(network), to = parameter_blocks(longer);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::copy_n(parameters.begin() + static_cast<std::ptrdiff_t>(from[i].offset),
                element_count(from[i].shape),
                of_longer.begin() + static_cast<std::ptrdiff_t>(to[i].offset));
  }
  return of_longer;
}

void require_padding_to_change_nothing(Network (*make_network)(std::size_t),
                                       const ProgramMaker& make) {
  for (const std::size_t length : {std::size_t{1}, std::size_t{3}, std::size_t{17}}) {
    const Network network = make_network(length), longer = make_network(length + 16);
    if (length == 1 && network.loss == Loss::next_token) continue;  // the loss needs two places
    const std::vector<float> parameters = parameters_for(network);
    const Examples examples = sequences_of(length, 2 * length + 1);
    const Said plain = said_of(network, parameters, examples, make);
    const Said with_more = said_of(longer, parameters_of_longer(network, longer, parameters),
                                   padded(examples, 16), make);
    const std::string where = "in " + text_of(network) + ", 16 more empty places change ";
    require(same_bits(plain.losses, with_more.losses), where + "a loss");
    for (std::size_t i = 0; i < plain.tensors.size(); ++i) {
      const std::vector<float>&own = plain.tensors[i], &other = with_more.tensors[i];
      const auto end = other.begin() + static_cast<std::ptrdiff_t>(own.size());
      require(std::equal(own.begin(), own.end(), other.begin()), where + "a gradient");
      require(std::all_of(end, other.end(), [](float x) { return x == 0.0f; }),
              "in " + text_of(longer) + ", an empty place has a gradient");
    }
  }
}

/// Requires equal outputs at one place for two examples that differ only in later tokens.
void require_future_to_change_nothing(const ProgramMaker& make) {
  constexpr std::size_t kLength = 7;
  for (std::size_t place = 0; place + 1 < kLength; ++place) {
    Network network = decoder_of(kLength);
    for (Node& node : network.nodes) {
      if (std::holds_alternative<PickPlace>(node.layer)) {
        node.layer = PickPlace{.place = place};
        node.from.pop_back();
      }
    }
    Examples examples = sequences_of(kLength, 2);
    for (std::size_t t = 0; t < kLength; ++t) {
      const auto token = static_cast<float>((3 * t + 1) % kVocabulary);
      examples.features[t] = token;
      examples.features[kLength + t] =
          t <= place ? token : static_cast<float>((5 * t + 2) % kVocabulary);
    }
    examples.targets = {1.0f, 1.0f};
    const Said said = said_of(network, parameters_for(network), examples, make);
    require(same_bits(std::vector<double>{said.losses[0]}, std::vector<double>{said.losses[1]}),
            "in " + text_of(network) + ", other tokens behind place " + std::to_string(place) +
                " change what is made of it");
  }
}

/// Requires that changing the token at a place changes no output at earlier places.
void require_future_to_change_no_output(const ProgramMaker& make) {
  constexpr std::size_t kLength = 7;
  const Network network = speaker_of(kLength);
  SerialExecutor executor;
  const auto program = make(network, executor);
  const auto* outputs = dynamic_cast<const Outputs*>(program.get());
  if (outputs == nullptr) return;
  program->load_parameters(parameters_for(network));
  const auto spoken = [&](const std::vector<float>& tokens) {
    std::vector<float> given(output_count(network));
    outputs->outputs(tokens, 1, given);
    return given;
  };
  std::vector<float> tokens = sequences_of(kLength, kLength).features;
  tokens.erase(tokens.begin(), tokens.end() - kLength);  // the example without empty places
  const std::vector<float> before = spoken(tokens);
  for (std::size_t place = kLength; place-- > 1;) {
    tokens[place] = tokens[place] == 0.0f ? 5.0f : 0.0f;
    const std::vector<float> after = spoken(tokens);
    require(std::equal(before.begin(), before.begin() + std::ptrdiff_t(place * kVocabulary),
                       after.begin()),
            "in " + text_of(network) + ", another token at place " + std::to_string(place) +
                " changes what an earlier one predicts");
  }
}

}  // namespace

Network speaker_of(std::size_t length) {
  Network network = decoder_of(length);
  network.nodes.resize(network.nodes.size() - 2);
  network.nodes.emplace_back(at_each_place(kVocabulary, true));
  network.input.classes = 0;
  network.loss = Loss::next_token;
  return network;
}

Network encoder_of(std::size_t length) {
  return network_of({length}, 3,
                    {Embedding{.vocabulary = kVocabulary, .width = kWidth},  // 1
                     Positions{},                                            // 2
                     {TokenMask{}, {0}},                                     // 3
                     {at_each_place(kWidth), {2}},                           // 4
                     {at_each_place(kWidth), {2}},                           // 5
                     {at_each_place(kWidth), {2}},                           // 6
                     {Attention{.heads = 2, .key_heads = 2}, {4, 5, 6, 3}},  // 7
                     at_each_place(kWidth),                                  // 8
                     {Add{}, {2, 8}},                                        // 9
                     LayerNorm{.epsilon = 0.1},                              // 10
                     at_each_place(6),
                     Activation{ActivationKind::gelu},
                     at_each_place(kWidth),
                     {Add{}, {10, 13}},
                     LayerNorm{.epsilon = 0.1},
                     {MeanOfPlaces{}, {15, 3}},
                     Dense{3}},
                    Loss::cross_entropy);
}

Network decoder_of(std::size_t length) {
  return network_of(
      {length}, 3,
      {Embedding{.vocabulary = kVocabulary, .width = kWidth},  // 1
       {TokenMask{}, {0}},                                     // 2
       {RmsNorm{.epsilon = 0.1}, {1}},                         // 3
       {at_each_place(8, true), {3}},                          // 4
       {at_each_place(4, true), {3}},                          // 5
       {at_each_place(4, true), {3}},                          // 6
       {Attention{.heads = 4, .key_heads = 2, .causal = true, .rotary = 100.0}, {4, 5, 6, 2}},
       at_each_place(kWidth, true),       // 8
       {Add{}, {1, 8}},                   // 9
       RmsNorm{.epsilon = 0.1},           // 10
       {at_each_place(5, true), {10}},    // 11
       Activation{ActivationKind::silu},  // 12
       {at_each_place(5, true), {10}},    // 13
       {ElementwiseProduct{}, {12, 13}},  // 14
       at_each_place(kWidth, true),       // 15
       {Add{}, {9, 15}},                  // 16
       {PickPlace{.last = true}, {16, 2}},
       Dense{3}},
      Loss::cross_entropy);
}

void check_sequences(Checker& checker, const ProgramMaker& make) {
  const auto executes = [&](const Network& network) {
    SerialExecutor executor;
    try {
      return make(network, executor) != nullptr;
    } catch (const ConfigError&) {
      return false;
    }
  };
  if (!executes(encoder_of(3)) || !executes(decoder_of(3))) return;
  checker.rule("padding_changes_nothing", [&] {
    require_padding_to_change_nothing(encoder_of, make);
    require_padding_to_change_nothing(decoder_of, make);
    if (executes(speaker_of(3))) require_padding_to_change_nothing(speaker_of, make);
  });
  checker.rule("the_future_changes_nothing", [&] {
    require_future_to_change_nothing(make);
    if (executes(speaker_of(3))) require_future_to_change_no_output(make);
  });
}

}  // namespace privgrad::testing
