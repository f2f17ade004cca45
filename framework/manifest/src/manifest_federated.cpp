#include "manifest_reader.hpp"

#include <iterator>
#include <utility>

#include "manifest_values.hpp"

namespace privgrad::core {

void ManifestReader::read_federated(Manifest& manifest) {
  const Section& section = federated_section();
  if (root_.find(section.key) == nullptr) return;
  const Value node = section_node(section);
  check_unknown(section, node, {});
  const Params params = own_params(section, node);
  if (manifest.steps == 0) {
    const Value* steps = root_.find("steps");
    problems_.add(steps == nullptr ? root_.mark : steps->mark, "steps",
                  "is auto, but there is no theorem for federated runs; give the largest number of "
                  "local steps of a client");
  }
  Federated& federated = manifest.federated.emplace();
  federated.clients = static_cast<std::uint64_t>(params.integer("clients"));
  federated.rounds = static_cast<std::uint64_t>(params.integer("rounds"));
  if (params.text("aggregation") == "dp_fed_avg") federated.aggregation = Aggregation::dp_fed_avg;
  federated.equal_weights = params.text("weights") == "equal";
  federated.client_drop_rate = params.real("client_drop_rate");
  federated.straggler_rate = params.real("straggler_rate");
  federated.shards_are_given = params.text("shards") == "given";
  federated.label_histograms = params.text("label_histograms") == "shown";
  read_sizes(federated, params, node);
  for (const EstimateMode mode : {EstimateMode::from_models, EstimateMode::unaccounted}) {
    if (params.text("estimates") == to_text(mode)) federated.estimates = mode;
  }
  federated.estimate_share = params.real("estimate_share");
  if (params.has("estimate_noise")) federated.estimate_noise = params.real("estimate_noise");
  federated.estimate_bound = params.real("estimate_bound");
  federated.paced_by_largest = params.text("paced_by") == "largest_budget";
  federated.server_learning_rate = params.real("server_learning_rate");
  if (params.has("client_clip_norm")) federated.client_clip_norm = params.real("client_clip_norm");
  read_separation(federated, params, node);
  const bool at_server = federated.aggregation == Aggregation::dp_fed_avg;
  Value resolved = empty_object(node.mark);
  keep(resolved, section.params, of_one_aggregation(params.value(), node, at_server));
  ComponentUse* uses[] = {&federated.partition, &federated.participation,
                          &federated.local_iterations, &federated.client_clipping,
                          &federated.server_optimizer};
  for (std::size_t i = 0; i < std::size(uses); ++i) {
    if (i >= 3 && !at_server) break;
    const Slot& slot = section.slots[i];
    resolved.set(slot.key, read_slot(slot, section.key, node, *uses[i]));
  }
  manifest.resolved.set(section.key, std::move(resolved));
  if (at_server) {
    // Clients add no noise, so `aggregator`, which determines the noise, does not apply to them.
    read_slot(client_aggregator_slot(), section.key, empty_object(node.mark),
              federated.client_aggregator);
  }
  if (!manifest.random_iterate) return;
  problems_.add(root_.find("output")->mark, "output",
                "is random_iterate, which federated runs do not have; use last, or ema");
}

void ManifestReader::read_separation(Federated& federated, const Params& params,
                                     const Value& node) {
  const auto number = [&](const char* key) -> std::optional<std::uint64_t> {
    if (!params.has(key)) return std::nullopt;
    return static_cast<std::uint64_t>(params.integer(key));
  };
  federated.min_separation = number("min_separation");
  federated.max_participations = number("max_participations");
  if (!federated.max_participations || federated.min_separation) return;
  problems_.add(node.find("max_participations")->mark, "federated.max_participations",
                "is given without min_separation; give both (with min_separation: 0 a client may "
                "take part in every round)");
}

void ManifestReader::read_sizes(Federated& federated, const Params& params, const Value& node) {
  if (!params.has("sizes")) return;
  for (const std::int64_t size : params.integers("sizes"))
    federated.sizes.push_back(static_cast<std::uint64_t>(size));
  if (federated.sizes.size() == federated.clients) return;
  problems_.add(node.find("sizes")->mark, "federated.sizes",
                "has " + std::to_string(federated.sizes.size()) + " numbers for " +
                    std::to_string(federated.clients) + " clients");
}

Value ManifestReader::of_one_aggregation(Value own, const Value& node, bool at_server) {
  const auto refuse = [&](std::string_view key) {
    own = without(std::move(own), key);
    const Value* given = node.find(key);
    if (given == nullptr) return;
    problems_.add(given->mark, dotted("federated", key),
                  "is given, but only aggregation " +
                      std::string(at_server ? "fed_avg" : "dp_fed_avg") + " uses it");
  };
  for (const ParamSpec& spec : at_server ? fed_avg_keys() : dp_fed_avg_keys()) refuse(spec.name);
  if (at_server) {
    if (own.find("client_clip_norm") == nullptr) {
      problems_.add(node.mark, "federated.client_clip_norm",
                    "is missing; aggregation dp_fed_avg clips each client's change to it");
    }
    return own;
  }
  for (const std::string_view slot : {"client_clipping", "server_optimizer"}) refuse(slot);
  if (own.find("estimate_noise") == nullptr) return own;
  if (const Value* share = node.find("estimate_share")) {
    problems_.add(share->mark, "federated.estimate_share",
                  "is given together with estimate_noise; give one of the two");
  }
  return without(std::move(own), "estimate_share");
}

}  // namespace privgrad::core
