// For the sources of a plugin: registers its components and exports the entry point.
#pragma once

#include <algorithm>
#include <concepts>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "privgrad/abi.hpp"
#include "privgrad/error.hpp"
#include "privgrad/export.hpp"
#include "privgrad/params.hpp"
#include "privgrad/traits.hpp"

namespace privgrad {

class AdaptiveClipNorm;
class AdaptiveLocalIterations;
class BoundedStatistic;
class CoordinateScaling;
class UsesGradientDifferences;

/// The description with which a component registers itself.
struct PRIVGRAD_API ComponentInfo {
  std::string name;       ///< lower_snake_case; unique per kind within the plugin.
  std::string summary;    ///< One line for `privgrad plugins list`.
  std::string reference;  ///< The paper, theorem or section that the behaviour follows.
  std::vector<ParamSpec> params;
  /// For an accountant whose own error is only an estimate: the name of an accountant whose proven
  /// interval must overlap every answer of this one. The core composes both and shows the
  /// intersection or, if it is empty, the proven interval. "" for all other components.
  std::string certified_by = {};
  /// All traits that the component has for some values of its parameters, by their names in
  /// privgrad/traits.hpp: behaviour that some engines do not support. add() below adds traits that
  /// follow from abilities or from a parameter of statistics_param().
  std::vector<std::string> traits = {};
};

/// Whether `params` include the parameter of statistics_param().
PRIVGRAD_API bool has_statistics_param(const std::vector<ParamSpec>& params);

/// A component that the plugin offers. These are plain function pointers, so that framework
/// containers hold no type-erased deleter or closure of the plugin.
struct PRIVGRAD_API Factory {
  std::string kind;
  int interface_version = 0;
  std::string sees;
  ComponentInfo info;
  void* (*create)(const Params&) = nullptr;  ///< Returns an Interface*, as void*.
  void (*destroy)(void*) noexcept = nullptr;
};

/// Adds those traits that follow from the abilities of `Impl` and from its parameters and that are
/// not listed yet.
template <class Impl>
void add_known_traits(ComponentInfo& info) {
  const auto add = [&](bool has, std::string_view name) {
    if (has && std::find(info.traits.begin(), info.traits.end(), name) == info.traits.end())
      info.traits.emplace_back(name);
  };
  add(std::is_base_of_v<UsesGradientDifferences, Impl>, trait::gradient_differences);
  add(std::is_base_of_v<AdaptiveClipNorm, Impl>, trait::adaptive_clip_norm);
  add(std::is_base_of_v<CoordinateScaling, Impl>, trait::coordinate_scaling);
  add(std::is_base_of_v<AdaptiveLocalIterations, Impl>, trait::adaptive_iterations);
  add(std::is_base_of_v<BoundedStatistic, Impl>, trait::released_statistics);
  add(has_statistics_param(info.params), trait::unreleased_statistics);
}

template <class T, class Interface>
concept ComponentOf = std::derived_from<T, Interface> && std::constructible_from<T, const Params&>;

/// Collects the components of a plugin while its register function runs. For example, with the
/// schedule of schedule.hpp:
///
///     void register_components(privgrad::Registrar& registrar) {
///       using privgrad::param::real;
///       registrar.add<privgrad::Schedule, Line>({
///           .name = "line",
///           .summary = "A straight line.",
///           .reference = "none: a definition",
///           .params = {real("from", "Value at step 0.").at_least(0).example(0.2),
///                      real("to", "Value after the last step.").at_least(0).example(0.1)},
///       });
///     }
///
///     PRIVGRAD_PLUGIN("acme.line", "1.0.0", "schedule/line", register_components)
class PRIVGRAD_API Registrar {
 public:
  /// Offers `Impl` as an `Interface`. Impl needs a constructor that takes `const Params&`. If a
  /// compiler error points here, Impl is not derived from Interface or lacks that constructor.
  template <class Interface, ComponentOf<Interface> Impl>
  void add(ComponentInfo info) {
    Factory factory;
    factory.kind = std::string(Interface::kKind);
    factory.interface_version = Interface::kInterfaceVersion;
    factory.sees = std::string(Interface::kSees);
    factory.info = std::move(info);
    add_known_traits<Impl>(factory.info);
    factory.create = [](const Params& params) -> void* {
      return static_cast<Interface*>(new Impl(params));
    };
    factory.destroy = [](void* object) noexcept { delete static_cast<Interface*>(object); };
    add_factory(std::move(factory));
  }

  const std::vector<Factory>& factories() const noexcept { return factories_; }
  const std::string& failure() const noexcept { return failure_; }
  void fail(std::string_view why) { failure_ = why; }

 private:
  void add_factory(Factory factory);
  std::vector<Factory> factories_;
  std::string failure_;
};

using RegisterFunction = int(Registrar*);

}  // namespace privgrad

/// Use this exactly once, in one .cpp file of a plugin:
///
///     PRIVGRAD_PLUGIN("acme.decay", "1.2.0", "schedule/decay schedule/rise", register_components)
///
/// The third text lists the components that the plugin registers, as KIND/NAME separated by blanks.
/// The host reads it from the file and loads the plugin only when one of its components is needed;
/// a plugin that registers anything else is then refused. Nothing registers itself in a static
/// constructor; loading a library changes no global state.
#define PRIVGRAD_PLUGIN(name, version, components, register_function)                        \
  extern "C" {                                                                               \
  [[gnu::section(".privgrad.components"),                                                    \
    gnu::used]] constinit const char privgrad_plugin_components[] = components;              \
  PRIVGRAD_PLUGIN_EXPORT extern const ::privgrad::AbiNote privgrad_plugin_note;              \
  [[gnu::section(".privgrad.abi"),                                                           \
    gnu::used]] constinit const ::privgrad::AbiNote privgrad_plugin_note =                   \
      ::privgrad::make_note(PRIVGRAD_ABI_TAG, name, version);                                \
  PRIVGRAD_PLUGIN_EXPORT int privgrad_plugin_register_v2(::privgrad::Registrar* registrar) { \
    try {                                                                                    \
      register_function(*registrar);                                                         \
      return 0;                                                                              \
    } catch (const std::exception& problem) {                                                \
      registrar->fail(problem.what());                                                       \
    } catch (...) {                                                                          \
      registrar->fail("unknown exception");                                                  \
    }                                                                                        \
    return 1;                                                                                \
  }                                                                                          \
  }
