// The class that turns a YAML tree into a checked Manifest; new keys are read here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manifest_keys.hpp"
#include "manifest_paths.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// Checks a manifest against its own keys and the components' declarations, and adds defaults.
/// Continues after a problem, so that all problems are reported at once.
///
/// The entry point is load() in manifest_reader.cpp; each group of functions below has its own
/// file.
class ManifestReader {
 public:
  ManifestReader(const Value& root, const std::filesystem::path& file, const Catalog& catalog,
                 ManifestProblems& problems, DataFiles data_files)
      : root_(root),
        file_(file),
        folders_(data_files == DataFiles::are_there ? data_folders(file)
                                                    : std::vector<std::filesystem::path>{}),
        catalog_(catalog),
        problems_(problems) {}

  Manifest load();
  Manifest load_data();

 private:
  // The manifest as a whole: manifest_reader.cpp.
  /// A manifest of a different version has different keys, so no other check makes sense.
  bool check_version();
  void read_root(Manifest& manifest);
  /// With `utility`, replaces `auto` by the number of steps with the smallest utility bound;
  /// otherwise returns the manifest unchanged. The bound is for dynamic noise if the schedule
  /// divides the budget by an influence, otherwise for uniform noise. This needs no data.
  Value with_steps(const Value& root, Manifest& manifest);
  /// Whether the noise schedule is derived from an influence (Schedule::influence()).
  bool divides_noise_by_influence() const;
  /// Returns the number of steps or rounds at which the progress line ends.
  std::uint64_t steps_or_rounds(std::uint64_t steps) const;
  void read_data(Manifest& manifest);
  /// Reads a `size` that is released instead of declared.
  /// \returns the resolved value.
  Value read_private_size(Manifest& manifest, const Value& given);
  void read_sample(Manifest& manifest, const Params& params);
  void check_private_size(Adjacency adjacency);
  void read_report(Manifest& manifest, const Params& params);
  void read_accuracy_report(Manifest& manifest, const Params& given);
  /// \param where  the key whose object has `share` or `noise_multiplier`.
  /// \param mark  the mark for errors.
  /// \returns the noise; nothing, after reporting the problem, unless exactly one key is given.
  std::optional<StatisticNoise> read_noise(const Params& given, Mark mark, std::string_view where);
  /// Reads `model`, including the keys that the core reads for every model: manifest_model.cpp.
  Value read_model(Manifest& manifest, const Slot& slot);
  void read_tensor_names(const Value& given, WeightsUse& use);
  /// Checks that `balanced` and report.class_counts.largest_weight are given together, with
  /// released class counts.
  void check_class_weights(const Manifest& manifest, const Value* word);
  /// \param where  the key, for problems.
  TensorSource read_source(const Value& given, const std::string& where);
  /// Reads `aggregator`, including the key that the core reads for every aggregator.
  Value read_aggregator(Manifest& manifest, const Slot& slot);
  /// Makes the refusals of release mode that depend only on the manifest.
  void check_release(const Manifest& manifest);
  /// Refuses untested plugins in release mode, unless allow.plugins has their hashes. For
  /// simplicity, the rule also holds for components that do not vouch for privacy.
  void check_tested(const Manifest& manifest);
  void finish(Manifest& manifest);
  void add_positions(const Value& node, const std::string& path,
                     std::map<std::string, std::string, std::less<>>& positions) const;

  // schedules, privacy, allow and checkpoint: manifest_sections.cpp.
  void read_schedules(Manifest& manifest);
  /// Adds the default noise if there is a target by which to scale it, or if noise is off.
  Slot with_default_noise(Slot slot);
  void read_privacy(Manifest& manifest);
  /// \returns the account's file as an absolute path; if there is no such file, reports this, and
  ///   returns the path as given.
  Value read_account(Manifest& manifest, const Section& section, const Value& node);
  void read_allow(Manifest& manifest);
  void read_checkpoint(Manifest& manifest);
  bool is_given(std::string_view section, std::string_view key) const;
  bool is_off() const;

  // federated: manifest_federated.cpp.
  void read_federated(Manifest& manifest);
  void read_separation(Federated& federated, const Params& params, const Value& node);
  void read_sizes(Federated& federated, const Params& params, const Value& node);
  /// The section's own keys, without the keys of the other kind of aggregation; reports those other
  /// keys if they are given.
  Value of_one_aggregation(Value own, const Value& node, bool at_server);

  // Components at any place: manifest_components.cpp.
  Value read_slot(const Slot& slot, std::string_view section, const Value& parent,
                  ComponentUse& use, const std::vector<std::string_view>& reserved = {});
  Value read_list(const Slot& slot, std::string_view section, const Value& parent,
                  std::vector<ComponentUse>& uses);
  /// \returns the component's node with its full name and all parameters.
  Value read_component(const Slot& slot, const std::string& where, const Value& given,
                       ComponentUse& use, const std::vector<std::string_view>& reserved);
  /// Expands short forms: NAME becomes {kind: NAME}; a number x becomes {kind: constant, value: x}.
  std::optional<Value> as_object(const Slot& slot, const std::string& where, const Value& given);
  const Component* find(const Slot& slot, const std::string& where, const Value& node);
  Params check_params(const Component& component, const std::string& where, const Value& node,
                      const std::vector<std::string_view>& reserved);
  std::string known_names(const Slot& slot) const;

  // Sections' own keys: manifest_own_keys.cpp.
  /// Returns a section's object; reports any other value, and returns an empty object for it.
  Value section_node(const Section& section);
  /// Checks the parameters of a section, but not its components and unknown keys.
  /// \returns the parameters, with valid substitutes for wrong values so that reading can continue.
  Params own_params(const Section& section, const Value& node);
  void check_unknown(const Section& section, const Value& node,
                     std::initializer_list<std::string_view> more);

  const Value& root_;
  const std::filesystem::path& file_;
  std::vector<std::filesystem::path> folders_;  // empty: paths remain as written
  const Catalog& catalog_;
  ManifestProblems& problems_;
};

}  // namespace privgrad::core
