// Backends that execute sequences, each with one defect, and the rule that notices it.
#include <algorithm>

#include "broken.hpp"
#include "house_plugins.hpp"
#include "privgrad/error.hpp"

namespace sequence_rules_test {

using namespace privgrad;

namespace {

/// Executes networks with attention or a mask on the processor, after one change.
template <auto kChange>
struct Changes final : Backend {
  explicit Changes(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
    const auto is_of_sequences = [](const Node& node) {
      return std::holds_alternative<Attention>(node.layer) ||
             std::holds_alternative<TokenMask>(node.layer);
    };
    if (std::ranges::none_of(network.nodes, is_of_sequences))
      throw ConfigError("changes: executes sequences alone");
    Network changed = network;
    kChange(changed);
    return cpu_->compile(changed, executor);
  }

 private:
  ComponentPtr<Backend> cpu_ = house().create<Backend>("cpu", Value::Object{});
};

template <class Kind, class Use>
void for_each(Network& network, const Use& use) {
  for (Node& node : network.nodes) {
    if (auto* layer = std::get_if<Kind>(&node.layer)) use(node, *layer);
  }
}

constexpr auto kNothing = [](Network&) {};
constexpr auto kMeanOfAllPlaces = [](Network& network) {
  // Attention uses the mask, too.
  if (network.nodes.size() < 10) return;
  for_each<MeanOfPlaces>(network, [](Node& node, MeanOfPlaces&) { node.from.resize(1); });
};
constexpr auto kLooksAtEmptyPlaces = [](Network& network) {
  for_each<Attention>(network, [](Node& node, Attention&) { node.from.resize(3); });
};
/// Imitates longer sums that are added up in another order.
constexpr auto kOtherwiseIfLong = [](Network& network) {
  if (element_count(network.input.features) > 17)
    network.nodes.insert(network.nodes.end() - 1, Scale{1.0 + 0x1p-22});
};
constexpr auto kLooksAhead = [](Network& network) {
  for_each<Attention>(network, [](Node&, Attention& layer) { layer.causal = false; });
};
constexpr auto kTurnsNothing = [](Network& network) {
  for_each<Attention>(network, [](Node&, Attention& layer) { layer.rotary = 0.0; });
};
template <auto kChange>
Findings findings() {
  return findings_on<Backend, Changes<kChange>>();
}

}  // namespace

TEST_CASE("each rule of sequences can fail") {
  CHECK_FALSE(first_failure(findings<kNothing>()).has_value());
  const auto is_noticed = [](const Findings& findings, const std::string& rule,
                             const std::string& text) {
    INFO(findings_text(findings, privgrad::testing::Verdict::failed));
    CHECK(not_caught(findings, rule, text) == "");
  };
  const std::string defined = "losses_are_as_defined", padding = "padding_changes_nothing";
  is_noticed(findings<kTurnsNothing>(), defined, "by definition it is");
  const Findings mean = findings<kMeanOfAllPlaces>(), empty = findings<kLooksAtEmptyPlaces>();
  is_noticed(mean, defined, "by definition it is");
  is_noticed(mean, padding, "change a loss");
  is_noticed(empty, defined, "by definition it is");
  is_noticed(empty, padding, "change a loss");
  is_noticed(findings<kOtherwiseIfLong>(), padding, "change a loss");
  const Findings ahead = findings<kLooksAhead>();
  is_noticed(ahead, defined, "by definition it is");
  is_noticed(ahead, "the_future_changes_nothing", "other tokens behind place 0");
}

namespace {

/// Executes networks with shared parameters on the processor, and no others.
struct Sharing final : Backend {
  explicit Sharing(const Params&) {}
  std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
    const auto shares = [](const Node& node) { return node.shares.has_value(); };
    if (std::none_of(network.nodes.begin(), network.nodes.end(), shares))
      throw ConfigError("sharing: executes networks with shared parameters alone");
    return cpu_->compile(network, executor);
  }

 private:
  ComponentPtr<Backend> cpu_ = house().create<Backend>("cpu", Value::Object{});
};

}  // namespace

TEST_CASE("the rules of programs hold for shared parameters") {
  const Findings findings = findings_on<Backend, Sharing>();
  INFO(findings_text(findings, privgrad::testing::Verdict::failed));
  CHECK_FALSE(first_failure(findings).has_value());
}

}  // namespace sequence_rules_test
