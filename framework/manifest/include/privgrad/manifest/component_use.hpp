// A component as a manifest asks for it, and how to create it with errors that name the place.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {

/// Every problem of a manifest, each a line "FILE:LINE:COLUMN: error: WHERE: WHAT".
class ManifestError : public ConfigError {
 public:
  explicit ManifestError(std::vector<std::string> lines);
  const std::vector<std::string>& lines() const noexcept { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// A component as the manifest asks for it: found in the catalog, its parameters checked and
/// completed.
struct ComponentUse {
  const Component* component = nullptr;
  Params params;
  const Component* certifier = nullptr;  ///< For an accountant that needs one.
  const Catalog* catalog = nullptr;      ///< The catalog that has the component.
  std::string where;     ///< "optimizer", "schedules.clip_norm", "data.transforms.0".
  std::string position;  ///< "FILE:LINE:COLUMN" of the node, or "--set KEY".
  Mark mark;             ///< The same place, for the reader of the manifest.

  /// Whether there is one: a manifest may leave some out.
  bool is_given() const noexcept { return component != nullptr; }
  /// The component's own name: "momentum".
  const std::string& name() const { return component->factory.info.name; }

  /// Makes it. An error that the constructor throws is rethrown with position and where in front.
  template <class Interface>
  ComponentPtr<Interface> make() const {
    return with_position([&] { return Catalog::create<Interface>(*component, params); });
  }

  /// Calls `action`, putting "POSITION: error: WHERE: " in front of a ConfigError's or
  /// PrivacyError's text.
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

/// Makes an accountant that a manifest asks for, with its certifier; its place is put in front of
/// errors. Every accountant of a plan or a run comes from here: one that guards a budget, or whose
/// answer is stated as a proof, from make_guard().
ComponentPtr<Accountant> make_accountant(const ComponentUse& use);
ComponentPtr<Accountant> make_guard(const ComponentUse& use);

/// The name of the accountant whose proofs make_guard() answers with.
const std::string& name_of_prover(const ComponentUse& use);

}  // namespace privgrad::core
