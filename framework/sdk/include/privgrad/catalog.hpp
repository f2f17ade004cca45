// The catalog of components: find one by kind and name, and create it from parameters.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/export.hpp"
#include "privgrad/plugin.hpp"

namespace privgrad {

/// The plugin that a component comes from, as the lock file and the run record name it.
struct PluginIdentity {
  std::string name;
  std::string version;
  std::string sha256;  ///< SHA-256 of the loaded file, 64 lower-case hex digits.
  std::string abi_tag;
  std::string file;  ///< Absolute path.
  /// The record that this very file passed `privgrad plugins test`; "" if there is none.
  std::string record = {};
  std::string record_problem =
      {};  ///< Why an existing record does not count; "" if no record was found.

  bool is_tested() const noexcept { return !record.empty(); }
};

/// One component on offer: its declaration and the plugin that brings it.
struct PRIVGRAD_API Component {
  Factory factory;
  std::shared_ptr<const PluginIdentity> plugin;
  std::shared_ptr<const void> library;  ///< Keeps the code mapped.
  std::string full_name() const { return plugin->name + ":" + factory.info.name; }
};

/// Destroys a component with its own plugin's code, then lets go of the library, in that order.
template <class Interface>
struct ComponentDeleter {
  void (*destroy)(void*) noexcept = nullptr;
  std::shared_ptr<const void> library;
  void operator()(Interface* object) const noexcept { destroy(object); }
};

/// A component that the caller owns. Safe to keep longer than the catalog and the host.
template <class Interface>
using ComponentPtr = std::unique_ptr<Interface, ComponentDeleter<Interface>>;

/// A component that a plugin's file lists, whose code may not be loaded yet.
struct PRIVGRAD_API OfferedComponent {
  std::string kind;
  std::string name;
  bool operator==(const OfferedComponent&) const = default;
};

/// All components, by name: filled by the host, used by the core to compose pipelines. A plugin is
/// loaded when one of its components is asked for, so that nothing depends on plugins that nobody
/// names. Copies share what they hold.
/// Threads: may be asked by several threads; what loads a plugin waits for the others.
class PRIVGRAD_API Catalog {
 public:
  Catalog();

  void add(const std::shared_ptr<const PluginIdentity>& plugin,
           const std::shared_ptr<const void>& library, const std::vector<Factory>& factories);

  /// The plugin that comes with the program has the first claim to a name: a component of the same
  /// kind and name from elsewhere is found by its full name alone.
  enum class Origin { program = 1, elsewhere };
  /// Offers the components of a plugin that is not loaded yet.
  /// \param file  the plugin's, for messages.
  /// \param load  adds all of them, and nothing else; called once at most; throws PluginError.
  void offer(std::string plugin, std::string file, Origin origin,
             std::vector<OfferedComponent> components, std::function<void(Catalog&)> load);

  /// The bare name of a component means that of this plugin, unless the program has one.
  void claim(OfferedComponent component, std::string plugin);

  /// A file that looked like a plugin and was refused; mentioned when a component is not found.
  void add_refused(std::string file, std::string why);

  /// \param id  "name", or "plugin:name" when two plugins offer the same name.
  /// \returns a component that lives as long as the catalog.
  /// \throws ConfigError  unknown (with the nearest name) or ambiguous (with all full names).
  /// \throws PluginError  the plugin was built for another version of the interface, or cannot be
  ///   loaded.
  template <class Interface>
  const Component& find(std::string_view id) const {
    return find(Interface::kKind, Interface::kInterfaceVersion, id);
  }
  const Component& find(std::string_view kind, int interface_version, std::string_view id) const;

  /// Makes a component from parameters that Params::check accepted for its declaration.
  template <class Interface>
  static ComponentPtr<Interface> create(const Component& component, const Params& params) {
    auto* object = static_cast<Interface*>(component.factory.create(params));
    return {object, {component.factory.destroy, component.library}};
  }

  /// Both in one, for code and tests.
  /// \throws ConfigError for parameters that do not fit.
  template <class Interface>
  ComponentPtr<Interface> create(std::string_view id, const Value& params) const {
    const Component& component = find<Interface>(id);
    return create<Interface>(component, Params::make(id, component.factory.info.params, params));
  }

  struct Refusal {
    std::string file;
    std::string why;
  };
  /// All components. Loads every plugin; those that cannot be loaded are refused.
  const std::deque<Component>& components() const;
  /// The components of a kind and name, in the order of their plugins. Loads the plugins that have
  /// one.
  /// \param kind  "": of every kind.
  /// \param name  "": of every name.
  std::vector<const Component*> components_of(std::string_view kind,
                                              std::string_view name = {}) const;
  /// Those whose plugins are loaded so far.
  std::vector<const Component*> loaded() const;
  /// What the plugins list, loaded or not, as "kind/name" and "kind/plugin:name". Loads nothing.
  std::vector<std::string> ids() const;
  /// The names of the components of one kind, sorted, each once. Loads nothing.
  std::vector<std::string> names_of(std::string_view kind) const;
  /// The plugin that the bare name of a component means; "" if there is none, or several.
  std::string owner_of(std::string_view kind, std::string_view name) const;
  std::vector<Refusal> refused() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace privgrad
