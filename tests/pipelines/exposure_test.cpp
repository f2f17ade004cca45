// How well language models remember canaries of random tokens, compared with the limit that the
// proof allows.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npy_file.hpp"
#include "privgrad/studies/audit.hpp"
#include "train.hpp"

using namespace privgrad;

namespace exposure_test {
namespace {

constexpr const char* kSpeaker = R"(privgrad: 1
seed: 1
data: {kind: npy, train: {features: tokens.npy}}
model:
  {kind: transformer, preset: decoder, vocabulary: 40, loss: next_token, layers: 1, width: 16,
   heads: 2}
sampler: full_batch
optimizer: adam
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.02}
privacy: {target_epsilon: 1, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 120
)";

/// 60 sequences of 6 consecutive tokens.
struct Speaker : Experiment {
  explicit Speaker(const std::vector<std::string>& overrides = {})
      : Experiment(kSpeaker, overrides) {
    std::vector<std::int8_t> tokens;
    for (std::size_t i = 0; i < 60 * 6; ++i)
      tokens.push_back(static_cast<std::int8_t>((i / 6 + i % 6) % 40));
    write_file(dir() / "tokens.npy", array_file("|i1", "60, 6", tokens));
  }
};

core::AuditResult audited(const std::vector<std::string>& overrides) {
  Speaker experiment(overrides);
  return core::audit(experiment.plan(), {.exposure = true, .canaries = 40});
}

}  // namespace

TEST_CASE("a language model without noise remembers its canaries, one with noise does not",
          "[audit][transformer]") {
  const std::string adjacency = GENERATE("zero_out", "add_or_remove_one", "replace_one");
  CAPTURE(adjacency);
  const std::vector<std::string> by{"privacy.adjacency=" + adjacency};
  const core::AuditResult open =
      audited(with(by, {"privacy.noise=off", "schedules.noise_multiplier=null"}));
  const core::Exposure& known = open.exposure.value();
  CHECK(known.references == 1023);
  CHECK(known.most_bits() == 10.0);
  CHECK(known.trained > 8);
  CHECK(known.trained < 32);
  CHECK(known.mean_bits > 8.0);
  CHECK(known.most_expected_bits == 10.0);
  CHECK(open.bound().epsilon > 1.5);

  const core::AuditResult noisy = audited(by);
  const core::Exposure& hidden = noisy.exposure.value();
  // The ranks of canaries that are not remembered are uniform: 1.44 bits, with a standard deviation
  // of 1.44 / sqrt(20). The proof allows (1 + 1) / ln 2.
  CHECK(hidden.trained == known.trained);
  CHECK(std::fabs(hidden.most_expected_bits - 2.0 / std::log(2.0)) < 1e-3);
  CHECK(hidden.mean_bits < hidden.most_expected_bits);
  CHECK(hidden.mean_bits > 0.5);
  CHECK_FALSE(noisy.contradicts());
  CHECK(core::to_json(noisy).at("exposure").at("mean_bits") == hidden.mean_bits);
}

TEST_CASE("exposure is of whole models of tokens", "[audit][transformer]") {
  const auto refused = [](core::AuditOptions options, const std::string& why) {
    Speaker experiment;
    options.exposure = true;
    CHECK_THROWS_WITH(core::audit(experiment.plan(), options), ContainsSubstring(why));
  };
  refused({.kind = core::AuditKind::repeated}, "exposure: is measured in one run");
  refused({.canaries = 61}, "there are 60");
  Experiment other(
      "privgrad: 1\nseed: 1\ndata: {kind: synthetic, rows: 20, dimensions: 2}\n"
      "model: linear\nsampler: full_batch\noptimizer: sgd\n"
      "schedules: {noise_multiplier: 4, clip_norm: 1, learning_rate: 0.1}\n"
      "privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}\nsteps: 1\n");
  CHECK_THROWS_WITH(core::audit(other.plan(), {.exposure = true}),
                    ContainsSubstring("exposure: needs the loss next_token"));
}

TEST_CASE("the perplexity of private rows is not released, and says why", "[report][transformer]") {
  Speaker experiment({"report={train_accuracy: {share: 0.1}}"});
  CHECK_THROWS_WITH(
      experiment.plan(),
      ContainsSubstring(
          "report.train_accuracy: needs classes, which the loss next_token does not have") &&
          ContainsSubstring("data.test_is_public"));
}

}  // namespace exposure_test
