// The declarations of the manifest's own keys, section by section.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/params.hpp"

namespace privgrad::core {

/// A key of the manifest whose value is a component.
struct Slot {
  std::string_view key;
  std::string_view kind;  ///< The component's kind.
  int interface_version = 0;
  std::string_view default_name;  ///< "" if there is none.
  /// Whether a manifest must give the component if there is no default.
  bool required = true;
  bool is_list = false;
  bool takes_number = false;  ///< Whether a bare number x means {kind: constant, value: x}.
  bool takes_auto = false;    ///< Whether the word `auto` may replace the component.
  std::string_view doc;
};

/// One object of a manifest that the framework itself reads. Its keys are declared once, for both
/// checking and the JSON Schema.
struct Section {
  std::string_view key;  ///< "" for the manifest as a whole.
  std::string_view doc;
  std::vector<ParamSpec> params;
  std::vector<Slot> slots;
};

const Section& root_section();
const Section& data_section();        ///< The keys besides the parameters of the data source.
const Section& model_section();       ///< The keys besides the parameters of the model.
const Section& aggregator_section();  ///< The keys besides the parameters of the aggregator.
const Section& schedules_section();
const Section& privacy_section();
const Section& federated_section();  ///< May be missing.
/// Return the keys of the section federated that only one kind of aggregation has.
const std::vector<ParamSpec>& fed_avg_keys();
const std::vector<ParamSpec>& dp_fed_avg_keys();
const Section& allow_section();       ///< May be missing.
const Section& checkpoint_section();  ///< May be missing, or the word `off`.
/// The aggregator of the clients of dp_fed_avg, which add no noise; not a key of a manifest.
const Slot& client_aggregator_slot();

/// The object that may replace the number `size` of the section `data`, for a size that is
/// released. The object's members are checked against these fields.
const ParamSpec& private_size_spec();

/// A member of model.weights.map that describes how the file orders a tensor.
const ParamSpec& tensor_source_spec();

/// Returns the names of a section's parameters and slots.
std::vector<std::string_view> section_names(const Section& section);

/// Returns a hint to append to "is unknown", if other programs use this name for a key with another
/// name here: "; here it is called schedules.learning_rate" for "lr"; "" if there is no hint.
/// \param section  the section in which the key was found.
std::string unknown_hint(std::string_view key, std::string_view section);

}  // namespace privgrad::core
