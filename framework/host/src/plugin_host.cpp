#include "privgrad/host/plugin_host.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cfenv>
#include <clocale>
#include <locale>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "elf_note.hpp"
#include "open_file.hpp"
#include "privgrad/digest/trusted_path.hpp"
#include "privgrad/host/loading.hpp"
#include "privgrad/host/sha256.hpp"
#include "privgrad/host/test_record.hpp"
#include "text.hpp"
#include "version_needs.hpp"

namespace privgrad::host {
namespace {

namespace fs = std::filesystem;

/// Restores the floating-point state after a plugin was loaded: a plugin linked with -ffast-math
/// runs crtfastmath.o on load, which makes the whole process flush subnormal numbers to zero, but
/// accountants compute with tails of that size.
class FloatingPointGuard {
 public:
  FloatingPointGuard() { std::fegetenv(&before_); }
  ~FloatingPointGuard() { std::fesetenv(&before_); }
  FloatingPointGuard(const FloatingPointGuard&) = delete;
  FloatingPointGuard& operator=(const FloatingPointGuard&) = delete;

 private:
  std::fenv_t before_;
};

// Static memory for loading_now(), because a report of a crash must be able to read the name.
char own_memory[kMostLoading] = "";
char* loading = own_memory;
void (*told_of_loading)(bool begins) = nullptr;

/// During this object's lifetime, loading_now() is this file.
class Loading {
 public:
  explicit Loading(const fs::path& file) {
    const std::string text = one_line(file.string()).substr(0, kMostLoading - 1);
    std::ranges::copy(text, loading);
    loading[text.size()] = '\0';
    if (told_of_loading != nullptr) told_of_loading(true);
  }
  ~Loading() {
    if (told_of_loading != nullptr) told_of_loading(false);
    loading[0] = '\0';
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
};

/// Restores the locales of C and C++ after a plugin was loaded. The framework's output does not
/// depend on the locale, but other plugins' output may.
class LocaleGuard {
 public:
  LocaleGuard() {
    if (const char* name = std::setlocale(LC_ALL, nullptr)) before_c_ = name;
  }
  ~LocaleGuard() {
    // The order matters, because a named global locale of C++ also sets the locale of C.
    std::locale::global(before_);
    std::setlocale(LC_ALL, before_c_.c_str());
  }
  LocaleGuard(const LocaleGuard&) = delete;
  LocaleGuard& operator=(const LocaleGuard&) = delete;

 private:
  std::locale before_;
  std::string before_c_ = "C";
};

/// The code of one plugin in this process.
class Library {
 public:
  explicit Library(const fs::path& file) {
    // rtld_now: a missing symbol is an error here, not an abort in the middle of training.
    // rtld_local: plugins do not see each other. No rtld_deepbind: it splits libstdc++ in two.
    using boost::dll::load_mode::type;
    std::error_code failure;
    handle_.load(file, type::rtld_now | type::rtld_local, failure);
    if (!failure) return;
    const char* said = ::dlerror();
    std::string why = said != nullptr ? said : failure.message();
    const std::string prefix = file.string() + ": ";
    if (why.starts_with(prefix)) why.erase(0, prefix.size());
    throw PluginError("cannot be loaded: " + why +
                      "; rebuild the plugin, or install the library that it needs");
  }

  void register_into(Registrar& registrar) const {
    constexpr const char* kEntry = "privgrad_plugin_register_v2";
    if (!handle_.has(kEntry)) {
      throw PluginError(std::string("has no function ") + kEntry +
                        "; build it with privgrad_add_plugin() and PRIVGRAD_PLUGIN");
    }
    if (handle_.get<RegisterFunction>(kEntry)(&registrar) != 0) {
      throw PluginError("registration failed: " + registrar.failure());
    }
  }

 private:
  boost::dll::shared_library handle_;
};

struct Pinned {
  dev_t device;
  ino_t inode;
  std::string sha256;
  std::shared_ptr<const Library> library;
};

/// Maps a checked file, once per process, and never unmaps it: workers of a thread pool,
/// thread_local destructors and exceptions in flight may still need its code.
std::shared_ptr<const Library> map_forever(const fs::path& path, const OpenFile& file,
                                           const std::string& sha256) {
  static auto* const all = new std::vector<Pinned>;  // never destroyed, not even at exit
  const auto same_file = [&](const Pinned& other) {
    return other.device == file.device() && other.inode == file.inode();
  };
  const auto known = std::ranges::find_if(*all, same_file);
  if (known != all->end()) {
    // The dynamic linker would return the old code, which does not match the new hash.
    if (known->sha256 != sha256) {
      throw PluginError("was written to after this process loaded it; start the process again");
    }
    return known->library;
  }
  all->push_back({file.device(), file.inode(), sha256, std::make_shared<const Library>(path)});
  return all->back().library;
}

/// \returns the directories that exist, with all links resolved.
std::vector<fs::path> resolved(const std::vector<fs::path>& directories) {
  std::vector<fs::path> all;
  for (const fs::path& directory : directories) {
    std::error_code missing;
    all.push_back(fs::canonical(directory, missing));
    if (missing) all.pop_back();
  }
  return all;
}

bool is_below(const fs::path& path, const std::vector<fs::path>& directories) {
  return std::ranges::any_of(directories, [&](const fs::path& directory) {
    return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first ==
           directory.end();
  });
}

bool same_notes(const PluginNote& a, const PluginNote& b) {
  const auto key = [](const PluginNote& note) {
    return std::tuple<std::string_view, std::string_view, std::string_view>(
        note.abi.abi_tag, note.abi.plugin_name, note.abi.plugin_version);
  };
  return key(a) == key(b) && a.components == b.components;
}

/// Checks that a plugin registers exactly what its file lists; otherwise it could take a name that
/// was given to another plugin.
void check_registered(const std::vector<Factory>& factories,
                      const std::vector<OfferedComponent>& listed) {
  const auto lists = [&](const Factory& factory) {
    return std::ranges::find(listed, OfferedComponent{factory.kind, factory.info.name}) !=
           listed.end();
  };
  for (const Factory& factory : factories) {
    if (lists(factory)) continue;
    throw PluginError("registers " + factory.kind + "/" + factory.info.name +
                      ", which PRIVGRAD_PLUGIN does not list; add it there");
  }
  if (factories.size() == listed.size()) return;
  throw PluginError("PRIVGRAD_PLUGIN lists " + std::to_string(listed.size()) +
                    " components, of which it registers " + std::to_string(factories.size()));
}

void check_pinned(const std::string& name, const std::string& sha256,
                  const std::multimap<std::string, std::string>& pins) {
  const auto [first, last] = pins.equal_range(name);
  if (first == last) throw PluginError("not in the lock file");
  if (std::any_of(first, last, [&](const auto& pin) { return pin.second == sha256; })) return;
  throw PluginError("sha256 is " + sha256 + ", the lock file says " + first->second +
                    "; restore the locked file, or run without --locked");
}

}  // namespace

const char* loading_now() noexcept { return loading; }
void keep_loading_in(char* memory) noexcept { loading = memory; }
void tell_of_loading(void (*told)(bool begins)) noexcept { told_of_loading = told; }

/// The state shared by all offers of a host.
class PluginHost::Loader {
 public:
  explicit Loader(TrustPolicy policy) : policy_(std::move(policy)) {
    policy_.directories = resolved(policy_.directories);
    policy_.program_directories = resolved(policy_.program_directories);
  }

  /// A checked file, and its description of itself.
  struct Checked {
    fs::path path;
    PluginNote note;
    Catalog::Origin origin = Catalog::Origin::elsewhere;
  };

  /// \throws PluginError if the file is refused.
  Checked check(const fs::path& file) {
    const std::string name = file.filename().string();
    if (!name.ends_with(kPluginSuffix) || !is_plain_text(name)) {
      throw PluginError("not named like a plugin; expected NAME.privgrad.so in printable ASCII");
    }
    const fs::path path = core::resolve_trusted(file);
    if (!is_below(path, policy_.directories)) {
      throw PluginError("leads to " + path.string() +
                        ", which is not in a trusted plugin directory; name its directory with "
                        "--plugin-dir or PRIVGRAD_PLUGIN_PATH");
    }
    const auto refused = policy_.refused.find(path);
    if (refused != policy_.refused.end()) throw PluginError(refused->second);
    const OpenFile opened(path);
    PluginNote note = read_plugin_note(opened);
    // If several plugins have the same name, only the locked plugin may claim that name.
    if (policy_.pins) check_pinned(name, sha256_of_file(opened), *policy_.pins);
    if (std::string_view(note.abi.abi_tag) != PRIVGRAD_ABI_TAG) {
      throw PluginError(std::string("built for ") + note.abi.abi_tag + "; this framework is " +
                        PRIVGRAD_ABI_TAG + "; rebuild the plugin against this framework");
    }
    const auto [known, is_new] = files_.emplace(note.abi.plugin_name, path.string());
    if (!is_new) {
      throw PluginError(std::string("plugin '") + note.abi.plugin_name + "' was found already, " +
                        known->second + "; remove or rename one of them");
    }
    return {.path = path,
            .note = std::move(note),
            .origin = is_below(path, policy_.program_directories) ? Catalog::Origin::program
                                                                  : Catalog::Origin::elsewhere};
  }

  /// Maps the file, and adds its components.
  /// \throws PluginError if the file was changed, or cannot be loaded.
  const PluginIdentity& load(const Checked& checked, Catalog& into) {
    // Only root and this user can replace the file, so the remaining risk is an accident: a build
    // that is writing the file at this moment. Hash and notes come from one open file, which is
    // compared with the path before and after mapping. Mapping /proc/self/fd/N instead would close
    // the gap completely, but then a plugin could not find libraries beside it, because $ORIGIN
    // would mean /proc/self/fd.
    const OpenFile opened(checked.path);
    const auto check_unchanged = [&] {
      if (!opened.is_still(checked.path)) {
        throw PluginError("was changed while it was loaded; try again when its build is done");
      }
    };
    if (!same_notes(read_plugin_note(opened), checked.note))
      throw PluginError("was exchanged after this process found it; start the process again");
    const std::string sha256 = sha256_of_file(opened);
    if (policy_.pins) check_pinned(checked.path.filename().string(), sha256, *policy_.pins);
    check_version_needs(opened);
    Registrar registrar;
    std::shared_ptr<const Library> library;
    {
      const FloatingPointGuard floating_point;
      const LocaleGuard locale;
      const Loading now(checked.path);
      check_unchanged();
      library = map_forever(checked.path, opened, sha256);
      check_unchanged();
      library->register_into(registrar);
    }
    check_registered(registrar.factories(), checked.note.components);
    PluginIdentity identity{checked.note.abi.plugin_name, checked.note.abi.plugin_version, sha256,
                            checked.note.abi.abi_tag, checked.path.string()};
    const TestRecord record = find_test_record(identity, registrar.factories());
    identity.record = record.file.string();
    identity.record_problem = record.problem;
    plugins_.push_back(std::make_shared<const PluginIdentity>(std::move(identity)));
    into.add(plugins_.back(), library, registrar.factories());
    if (policy_.on_loaded) policy_.on_loaded(*plugins_.back());
    return *plugins_.back();
  }

  /// Forgets the offer, so that another file may offer a plugin of this name.
  void forget(const Checked& checked) { files_.erase(checked.note.abi.plugin_name); }

  const std::vector<std::shared_ptr<const PluginIdentity>>& plugins() const noexcept {
    return plugins_;
  }

 private:
  TrustPolicy policy_;
  std::map<std::string, std::string> files_;  // the plugins' files, by plugin name
  std::vector<std::shared_ptr<const PluginIdentity>> plugins_;
};

PluginHost::PluginHost(TrustPolicy policy) : loader_(std::make_shared<Loader>(std::move(policy))) {}

const std::vector<std::shared_ptr<const PluginIdentity>>& PluginHost::plugins() const noexcept {
  return loader_->plugins();
}

const PluginIdentity& PluginHost::load(const fs::path& file) try {
  const Loader::Checked checked = loader_->check(file);
  try {
    return loader_->load(checked, catalog_);
  } catch (...) {
    loader_->forget(checked);
    throw;
  }
} catch (const PluginError& problem) {
  throw PluginError(one_line(file.string() + ": " + problem.what()));
} catch (const fs::filesystem_error& problem) {
  throw PluginError(one_line(file.string() + ": " + problem.code().message()));
}

bool PluginHost::offer(const fs::path& file) try {
  const Loader::Checked checked = loader_->check(file);
  catalog_.offer(checked.note.abi.plugin_name, one_line(file.string()), checked.origin,
                 checked.note.components, [loader = loader_, checked](Catalog& into) {
                   try {
                     loader->load(checked, into);
                   } catch (const PluginError& problem) {
                     throw PluginError(one_line(problem.what()));
                   } catch (const fs::filesystem_error& problem) {
                     throw PluginError(one_line(problem.code().message()));
                   }
                 });
  return true;
} catch (const PluginError& problem) {
  refuse(file, problem.what());
  return false;
} catch (const fs::filesystem_error& problem) {
  refuse(file, problem.code().message());
  return false;
}

void PluginHost::refuse(const fs::path& file, std::string why) {
  catalog_.add_refused(one_line(file.string()), one_line(std::move(why)));
}

}  // namespace privgrad::host
