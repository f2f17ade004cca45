// The loss next_token on the backend cpu, compared with formulas; empty places and other examples
// do not affect it.
#include "exact_programs.hpp"

using namespace privgrad;
namespace exact_programs {
namespace {

constexpr std::size_t kPlaces = 6, kTokens = 37;

/// Makes a network whose outputs at a place are W e_x + b, where row x of the table is e_x.
Network table_of_rows(std::size_t places = kPlaces) {
  return make_network(
      {places},
      {Embedding{.vocabulary = kTokens, .width = 3}, Dense{.units = kTokens, .per_place = true}},
      Loss::next_token, 0);
}

/// Sequences, each padded with empty places at its end.
Examples sequences(const std::vector<Floats>& rows, std::size_t places = kPlaces) {
  Examples examples;
  for (const Floats& row : rows) {
    examples.features.insert(examples.features.end(), row.begin(), row.end());
    examples.features.resize(examples.features.size() + places - row.size(), kEmptyPlace);
    examples.targets.push_back(0.0f);
  }
  return examples;
}

/// Returns the tokens' probabilities from the outputs at a place.
Doubles probabilities(const Floats& outputs, std::size_t place) {
  Doubles shares(kTokens);
  double sum = 0.0;
  for (std::size_t j = 0; j < kTokens; ++j)
    sum += shares[j] = std::exp(static_cast<double>(outputs[place * kTokens + j]));
  for (double& share : shares) share /= sum;
  return shares;
}

Floats outputs_of(const Compiled& one, const Batch& batch) {
  Floats outputs(batch.rows() * kPlaces * kTokens);
  dynamic_cast<const Outputs&>(*one.program).outputs(batch.features, batch.rows(), outputs);
  return outputs;
}

}  // namespace

TEST_CASE("cpu: the loss next_token is the mean over an example's own next tokens", "[backend]") {
  ThreadExecutor serial(1);
  const Compiled one(table_of_rows(), serial);
  const Floats longest{3, 36, 0, 0, 17, 5}, hole{4, kEmptyPlace, 6, 7};
  const Examples examples = sequences({longest, {8, 9}, {1, 1, 1}, hole});
  // For each example, the places that have a next token, determined by hand.
  const std::vector<std::vector<std::size_t>> places{{0, 1, 2, 3, 4}, {0}, {0, 1}, {1, 2}};
  const Floats rows = gradient_rows(one, examples.batch());
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    const Batch own = examples.batch(row, 1);
    const Floats outputs = outputs_of(one, own);
    double loss = 0.0;
    Doubles biases(kTokens, 0.0);
    for (const std::size_t t : places[row]) {
      const Doubles shares = probabilities(outputs, t);
      const auto next = static_cast<std::size_t>(own.features[t + 1]);
      const auto count = static_cast<double>(places[row].size());
      loss -= std::log(shares[next]) / count;
      for (std::size_t j = 0; j < kTokens; ++j)
        biases[j] += (shares[j] - (j == next ? 1.0 : 0.0)) / count;
    }
    const Evaluation evaluation = one.program->evaluate(own);
    CHECK_THAT(evaluation.loss, WithinRel(loss, 1e-6));
    CHECK(evaluation.correct == 0);
    for (std::size_t j = 0; j < kTokens; ++j) {
      INFO("example " << row << ", token " << j);
      CHECK(std::abs(static_cast<double>(rows[(row + 1) * one.size - kTokens + j]) - biases[j]) <
            1e-6);
    }
  }
}

TEST_CASE(
    "cpu: without a next token there is no loss, and what is no token spoils its example alone",
    "[backend][privacy]") {
  ThreadExecutor serial(1);
  const Compiled one(table_of_rows(), serial);
  for (const Floats& tokens : {Floats{}, Floats{12}, Floats{kEmptyPlace, kEmptyPlace}}) {
    const Examples examples = sequences({tokens});
    CHECK(one.program->evaluate(examples.batch()).loss == 0.0);
    for (const float x : gradient_rows(one, examples.batch())) REQUIRE(x == 0.0f);
  }
  // The table uses the token of the first place; the loss uses the other tokens.
  const Floats good{1, 2, 3};
  const Floats alone = gradient_rows(one, sequences({good}).batch());
  for (const float wrong : {37.0f, -2.0f, 0.5f, 1e30f, kInf, kNan}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{2}}) {
      Floats bad = good;
      bad[place] = wrong;
      const Examples examples = sequences({good, bad, good});
      CHECK(std::isnan(one.program->evaluate(examples.batch(1, 1)).loss));
      const Floats rows = gradient_rows(one, examples.batch());
      const auto row = [&](std::size_t i) {
        return std::span(rows).subspan(i * one.size, one.size);
      };
      CHECK(std::ranges::any_of(row(1), [](float x) { return std::isnan(x); }));
      CHECK(same_bits(row(0), std::span<const float>(alone)));
      CHECK(same_bits(row(2), std::span<const float>(alone)));
      Made made(one, examples.batch());
      for (std::size_t group = 0; group < one.groups; ++group)
        CHECK(std::isfinite(made.norms[group]));
      CHECK_FALSE(std::isfinite(made.norms[one.groups] + made.norms[2 * one.groups - 1]));
    }
  }
}

TEST_CASE(
    "cpu: a loss of next tokens is the same among longer examples, and with more empty places",
    "[backend][privacy]") {
  // A division by the size of the batch, or by the length, would show here.
  ThreadExecutor threads(2);
  const Compiled one(table_of_rows(), threads), longer(table_of_rows(kPlaces + 9), threads);
  const Floats shorter{30, 2, 30}, full{1, 2, 3, 4, 5, 6};
  const Floats alone = gradient_rows(one, sequences({shorter}).batch());
  const Floats among = gradient_rows(one, sequences({full, shorter, full}).batch());
  CHECK(same_bits(std::span(among).subspan(one.size, one.size), std::span<const float>(alone)));
  CHECK(gradient_rows(longer, sequences({shorter}, kPlaces + 9).batch()) == alone);
  Made made(one, sequences({full, shorter, full}).batch()),
      single(one, sequences({shorter}).batch());
  const auto norms = std::span<const double>(made.norms).subspan(one.groups, one.groups);
  CHECK(same_bits(norms, single.norms));
}

}  // namespace exact_programs
