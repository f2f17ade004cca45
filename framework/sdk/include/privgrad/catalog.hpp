// The catalog of components: finds a component by kind and name, and creates it from parameters.
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

/// The plugin that contains a component, as the lock file and the run record describe it.
struct PluginIdentity {
  std::string name;
  std::string version;
  std::string sha256;  ///< SHA-256 of the loaded file, 64 lower-case hex digits.
  std::string abi_tag;
  std::string file;  ///< Absolute path.
  /// The record that this exact file passed `privgrad plugins test`; "" if it has no record.
  std::string record = {};
  /// Why an existing record is not valid; "" if no record was found.
  std::string record_problem = {};

  bool is_tested() const noexcept { return !record.empty(); }
};

/// One available component: its declaration and the plugin that contains it.
struct PRIVGRAD_API Component {
  Factory factory;
  std::shared_ptr<const PluginIdentity> plugin;
  std::shared_ptr<const void> library;  ///< Keeps the plugin's code mapped.
  std::string full_name() const { return plugin->name + ":" + factory.info.name; }
};

/// Destroys a component with its own plugin's code, and then releases the library.
template <class Interface>
struct ComponentDeleter {
  void (*destroy)(void*) noexcept = nullptr;
  std::shared_ptr<const void> library;
  void operator()(Interface* object) const noexcept { destroy(object); }
};

/// A component that the caller owns. It may outlive the catalog and the host.
template <class Interface>
using ComponentPtr = std::unique_ptr<Interface, ComponentDeleter<Interface>>;

/// A component listed in a plugin's file, whose code may not be loaded yet.
struct PRIVGRAD_API OfferedComponent {
  std::string kind;
  std::string name;
  bool operator==(const OfferedComponent&) const = default;
};

/// All components, by name: the host fills the catalog, and the core uses it to build pipelines. A
/// plugin is loaded when one of its components is needed, so a run never depends on plugins that it
/// does not name. Copies share their content. Threads: may be used by several threads; calls that
/// load a plugin wait for each other.
class PRIVGRAD_API Catalog {
 public:
  Catalog();

  void add(const std::shared_ptr<const PluginIdentity>& plugin,
           const std::shared_ptr<const void>& library, const std::vector<Factory>& factories);

  /// The program's own plugins take precedence: if a component from elsewhere has the same kind and
  /// name as one of theirs, it is found only by its full name.
  enum class Origin { program = 1, elsewhere };
  /// Offers the components of a plugin that is not loaded yet.
  /// \param file  the plugin's file, for messages.
  /// \param load  adds exactly these components; called at most once; may throw PluginError.
  void offer(std::string plugin, std::string file, Origin origin,
             std::vector<OfferedComponent> components, std::function<void(Catalog&)> load);

  /// Makes a bare name refer to this plugin's component, unless the program's own plugins have it.
  void claim(OfferedComponent component, std::string plugin);

  /// Remembers a refused file that looked like a plugin, for messages about missing components.
  void add_refused(std::string file, std::string why);

  /// \param id  "name", or "plugin:name" if two plugins offer the same name.
  /// \returns a component that lives as long as the catalog.
  /// \throws ConfigError if it is unknown (with the nearest name) or ambiguous (with all names).
  /// \throws PluginError if the plugin was built for another version of the interface, or cannot
  ///   be loaded.
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

  /// Finds and creates a component in one call, for code and tests.
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
  /// All components. Loads every plugin; plugins that cannot be loaded count as refused.
  const std::deque<Component>& components() const;
  /// Returns the components of a kind and name, in the order of their plugins. Loads the plugins
  /// that list one.
  /// \param kind  "": every kind.
  /// \param name  "": every name.
  std::vector<const Component*> components_of(std::string_view kind,
                                              std::string_view name = {}) const;
  /// The components whose plugins have been loaded so far.
  std::vector<const Component*> loaded() const;
  /// Returns the ids of all listed components, "kind/name" and "kind/plugin:name". Loads no plugin.
  std::vector<std::string> ids() const;
  /// Returns the names of the components of a kind, sorted, without duplicates. Loads no plugin.
  std::vector<std::string> names_of(std::string_view kind) const;
  /// The plugin that the bare name of a component refers to; "" if there is none, or several.
  std::string owner_of(std::string_view kind, std::string_view name) const;
  std::vector<Refusal> refused() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace privgrad
