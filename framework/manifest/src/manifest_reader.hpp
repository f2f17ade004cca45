// The class that turns a YAML tree into a checked Manifest; where to add reading of a new key.
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

/// Checks a manifest against its own keys and the components' declarations, and fills in what it
/// leaves out. Reads on after a problem, so that all of them are reported at once.
///
/// The entry is load() in manifest_reader.cpp; each group of functions below has a file of its own.
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
  /// Reads the section `data` alone.
  Manifest load_data();

 private:
  // The manifest as a whole: manifest_reader.cpp.
  /// A manifest of another version has other keys: nothing else can be said about it.
  bool check_version();
  void read_root(Manifest& manifest);
  /// The manifest with a number for steps: auto where `utility` says enough, the one with the least
  /// utility bound: that of dynamic noise if the schedule divides the budget so, else of uniform
  /// noise. Known before any data is.
  Value with_steps(const Value& root, Manifest& manifest);
  /// Whether the noise schedule is made from an influence (Schedule::influence()).
  bool divides_noise_by_influence() const;
  /// The number that the progress line counts to.
  std::uint64_t steps_or_rounds(const Manifest& manifest) const;
  void read_data(Manifest& manifest);
  /// Reads a size that is released instead of declared. \returns it as resolved.
  Value read_private_size(Manifest& manifest, const Value& given);
  void check_private_size(const Manifest& manifest);
  void read_report(Manifest& manifest, const Params& params);
  void read_accuracy_report(Manifest& manifest, const Params& given);
  /// \param where  the key whose object has `share` or `noise_multiplier`. \param mark  for errors.
  /// \returns what they say; nothing, once that is reported, unless exactly one is given.
  std::optional<StatisticNoise> read_noise(const Params& given, Mark mark, std::string_view where);
  /// With the keys that the core reads for every model: manifest_model.cpp.
  Value read_model(Manifest& manifest, const Slot& slot);
  void read_tensor_names(const Value& given, WeightsUse& use);
  /// With the key that the core reads for every aggregator.
  Value read_aggregator(Manifest& manifest, const Slot& slot);
  /// Refuses what release mode does not allow, as far as the manifest alone shows it.
  void check_release(const Manifest& manifest);
  /// Samplers, accountants, backends and the rest vouch for what is private; which of them could do
  /// harm is not asked, so that there is one rule.
  void check_tested(const Manifest& manifest);
  void finish(Manifest& manifest);
  void add_positions(const Value& node, const std::string& path,
                     std::map<std::string, std::string, std::less<>>& positions) const;

  // schedules, privacy, allow and checkpoint: manifest_sections.cpp.
  void read_schedules(Manifest& manifest);
  /// Without a target there is nothing that a default could be scaled to.
  Slot with_default_noise(Slot slot);
  void read_privacy(Manifest& manifest);
  /// \returns the account's file, absolute; as given if there is none, which is reported.
  Value read_account(Manifest& manifest, const Section& section, const Value& node);
  void read_allow(Manifest& manifest);
  void read_checkpoint(Manifest& manifest);
  bool is_given(std::string_view section, std::string_view key) const;
  bool is_off() const;

  // federated: manifest_federated.cpp.
  void read_federated(Manifest& manifest);
  void read_separation(Federated& federated, const Params& params, const Value& node);
  void read_sizes(Federated& federated, const Params& params, const Value& node);
  /// Keys that only one kind of aggregation knows.
  void keep_federated_of_one_kind(Value& resolved, const Params& params, const Value& node,
                                  bool at_server);

  // Components, wherever they stand: manifest_components.cpp.
  Value read_slot(const Slot& slot, std::string_view section, const Value& parent,
                  ComponentUse& use, const std::vector<std::string_view>& reserved = {});
  Value read_list(const Slot& slot, std::string_view section, const Value& parent,
                  std::vector<ComponentUse>& uses);
  /// \returns the component's node with its full name and all parameters.
  Value read_component(const Slot& slot, const std::string& where, const Value& given,
                       ComponentUse& use, const std::vector<std::string_view>& reserved);
  /// Writes out what is short: NAME is {kind: NAME}; a number x is {kind: constant, value: x}.
  std::optional<Value> as_object(const Slot& slot, const std::string& where, const Value& given);
  const Component* find(const Slot& slot, const std::string& where, const Value& node);
  Params check_params(const Component& component, const std::string& where, const Value& node,
                      const std::vector<std::string_view>& reserved);
  std::string known_names(const Slot& slot) const;

  // A section's own keys: manifest_own_keys.cpp.
  /// The object of a section, or an empty one after reporting what stands there instead.
  Value section_node(const Section& section);
  /// Checks the parameters of a section, leaving components and unknown keys alone.
  /// \returns legal stand-ins where something is wrong, so that reading can go on to find more.
  Params own_params(const Section& section, const Value& node);
  void check_unknown(const Section& section, const Value& node,
                     std::initializer_list<std::string_view> more);

  const Value& root_;
  const std::filesystem::path& file_;
  std::vector<std::filesystem::path> folders_;  // none: paths stay as they are written
  const Catalog& catalog_;
  ManifestProblems& problems_;
};

}  // namespace privgrad::core
