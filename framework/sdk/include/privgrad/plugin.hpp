// Every plugin includes this: it registers the components and exports the entry point.
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
class AdaptiveSchedule;
class BoundedStatistic;
class CoordinateScaling;
class UsesGradientDifferences;

/// The description that a component registers itself with.
struct PRIVGRAD_API ComponentInfo {
  std::string name;       ///< lower_snake_case; unique per kind inside the plugin.
  std::string summary;    ///< One line for `privgrad plugins list`.
  std::string reference;  ///< Paper, theorem or section that the behaviour follows.
  std::vector<ParamSpec> params;
  /// Accountants only, "" for most: the accountant whose proven interval every answer of this one
  /// must share a point with. For methods whose own error is an estimate: the core composes both,
  /// shows what they have in common, and the proven interval where they have nothing in common.
  std::string certified_by = {};
  /// What steps with the component do that not every engine can: the names of privgrad/traits.hpp
  /// for every trait that it has with some of its parameters. Those that are abilities, and that of
  /// a parameter of statistics_param(), are added by add() below.
  std::vector<std::string> traits = {};
};

/// Whether the parameters have that of statistics_param().
PRIVGRAD_API bool has_statistics_param(const std::vector<ParamSpec>& params);

/// A component that the plugin offers. Plain function pointers: no type-erased deleter or closure
/// of the plugin's ends up inside framework containers.
struct PRIVGRAD_API Factory {
  std::string kind;
  int interface_version = 0;
  std::string sees;
  ComponentInfo info;
  void* (*create)(const Params&) = nullptr;  ///< Returns Interface*, as void*.
  void (*destroy)(void*) noexcept = nullptr;
};

/// Adds the traits that follow from the abilities of `Impl`, and from its parameters, where they are
/// not there yet.
template <class Impl>
void add_known_traits(ComponentInfo& info) {
  const auto add = [&](bool has, std::string_view name) {
    if (has && std::find(info.traits.begin(), info.traits.end(), name) == info.traits.end())
      info.traits.emplace_back(name);
  };
  add(std::is_base_of_v<UsesGradientDifferences, Impl>, trait::gradient_differences);
  add(std::is_base_of_v<AdaptiveClipNorm, Impl>, trait::adaptive_clip_norm);
  add(std::is_base_of_v<CoordinateScaling, Impl>, trait::coordinate_scaling);
  add(std::is_base_of_v<AdaptiveSchedule, Impl>, trait::adaptive_noise);
  add(std::is_base_of_v<AdaptiveLocalIterations, Impl>, trait::adaptive_iterations);
  add(std::is_base_of_v<BoundedStatistic, Impl>, trait::released_statistics);
  add(has_statistics_param(info.params), trait::unreleased_statistics);
}

template <class T, class Interface>
concept ComponentOf = std::derived_from<T, Interface> && std::constructible_from<T, const Params&>;

/// Collects what a plugin offers while its register function runs. For example, with the schedule
/// of schedule.hpp:
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
  /// Offers `Impl` as an `Interface`. Impl needs a constructor taking `const Params&`.
  /// If the compiler points here, Impl is not derived from Interface or lacks that constructor.
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

/// Put once in one .cpp of a plugin:
///
///     PRIVGRAD_PLUGIN("acme.decay", "1.2.0", "schedule/decay schedule/rise", register_components)
///
/// The third text lists the components that the plugin registers, as KIND/NAME between blanks. It is
/// read from the file, so that a plugin is loaded only when one of its components is asked for; a
/// plugin that registers anything else is refused then.
/// Nothing registers itself from a static constructor; loading a library changes no global state.
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
