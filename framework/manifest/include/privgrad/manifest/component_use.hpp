// A component that a manifest uses, and functions that create it; their errors name its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {

/// All problems of a manifest, one line "FILE:LINE:COLUMN: error: WHERE: WHAT" for each.
class ManifestError : public ConfigError {
 public:
  explicit ManifestError(std::vector<std::string> lines);
  const std::vector<std::string>& lines() const noexcept { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// A component that a manifest uses: found in the catalog, with checked and completed parameters.
struct ComponentUse {
  const Component* component = nullptr;
  Params params;
  const Component* certifier = nullptr;  ///< The certifier of an accountant that needs one.
  const Catalog* catalog = nullptr;      ///< The catalog that contains the component.
  std::string where;     ///< "optimizer", "schedules.clip_norm", "data.transforms.0".
  std::string position;  ///< "FILE:LINE:COLUMN" of the node, or "--set KEY".
  Mark mark;             ///< The component's line and column in the manifest.

  /// Whether the manifest gives the component; some components may be left out.
  bool is_given() const noexcept { return component != nullptr; }
  /// The component's own name: "momentum".
  const std::string& name() const { return component->factory.info.name; }

  /// Creates the component. Errors name its place, as in with_position().
  template <class Interface>
  ComponentPtr<Interface> make() const {
    return with_position([&] { return Catalog::create<Interface>(*component, params); });
  }

  /// Calls `action`. Turns a ConfigError into a ManifestError, and begins its text and the text of
  /// a PrivacyError with "POSITION: error: WHERE: ", unless the text names a place already.
  template <class Action>
  auto with_position(Action action) const {
    try {
      return action();
    } catch (const PrivacyError& problem) {
      throw PrivacyError(place(problem.what()));
    } catch (const ManifestError&) {
      throw;
    } catch (const ConfigError& problem) {
      throw ManifestError({place(problem.what())});
    }
  }

 private:
  std::string place(std::string_view what) const;
};

/// Makes an accountant that a manifest names, with its certifier; errors begin with its place.
ComponentPtr<Accountant> make_accountant(const ComponentUse& use);
/// The same for an accountant that guards a budget, or whose answer is stated as a proof.
ComponentPtr<Accountant> make_guard(const ComponentUse& use);

/// Returns the name of the accountant that proves the answers of make_guard().
const std::string& name_of_prover(const ComponentUse& use);

}  // namespace privgrad::core
