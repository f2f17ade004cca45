#include "privgrad/host/plugin_host.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cfenv>
#include <sstream>

#include "elf_note.hpp"
#include "privgrad/host/sha256.hpp"

namespace privgrad::host {

class Library {
 public:
  explicit Library(const std::filesystem::path& file) {
    // A plugin linked with -ffast-math runs crtfastmath.o on load and would switch the whole
    // process to flush-to-zero. Put the floating-point state back, whatever the plugin did.
    std::fenv_t before;
    std::fegetenv(&before);
    try {
      // rtld_now: a missing symbol is an error here, not an abort in the middle of training.
      // rtld_local: plugins do not see each other. No rtld_deepbind: it splits libstdc++ in two.
      handle_.load(file, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
    } catch (const std::exception& problem) {
      std::fesetenv(&before);
      throw PluginError(file.string() + ": " + problem.what());
    }
    std::fesetenv(&before);
  }

  void register_into(Registrar& registrar) const {
    constexpr const char* kEntry = "privgrad_plugin_register_v1";
    if (!handle_.has(kEntry))
      throw PluginError(handle_.location().string() + ": no symbol " + kEntry);
    if (handle_.get<RegisterFunction>(kEntry)(&registrar) != 0) {
      throw PluginError(handle_.location().string() +
                        ": registration failed: " + registrar.failure());
    }
  }

 private:
  boost::dll::shared_library handle_;
};

namespace {

void check_trusted(const std::filesystem::path& file, const TrustPolicy& policy) {
  const auto inside = [&](const std::filesystem::path& directory) {
    const auto relative = file.lexically_relative(std::filesystem::canonical(directory));
    return !relative.empty() && *relative.begin() != "..";
  };
  if (std::none_of(policy.directories.begin(), policy.directories.end(), inside)) {
    throw PluginError(file.string() + ": not in a trusted plugin directory (see --plugin-dir)");
  }
  // The file and every directory above it: whoever can write one of them chooses our code.
  for (std::filesystem::path part = file;; part = part.parent_path()) {
    struct stat info {};
    if (::stat(part.c_str(), &info) != 0)
      throw PluginError(part.string() + ": cannot be inspected");
    const bool foreign = info.st_uid != 0 && info.st_uid != ::geteuid();
    const bool sticky_dir = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX);
    if (foreign || ((info.st_mode & (S_IWGRP | S_IWOTH)) && !sticky_dir)) {
      throw PluginError(file.string() + ": refused, others may write " + part.string() +
                        " (chmod go-w, and own it)");
    }
    if (part == part.root_path()) return;
  }
}

}  // namespace

const PluginIdentity& PluginHost::load(const std::filesystem::path& file) {
  std::error_code failure;
  const auto path = std::filesystem::canonical(file, failure);
  if (failure) throw PluginError(file.string() + ": " + failure.message());

  check_trusted(path, policy_);
  const std::string hash = sha256_of_file(path);
  if (policy_.pins) {
    const auto pin = policy_.pins->find(path.filename().string());
    if (pin == policy_.pins->end()) throw PluginError(path.string() + ": not in the lock file");
    if (pin->second != hash) {
      throw PluginError(path.string() + ": sha256 is " + hash + ", the lock file says " +
                        pin->second);
    }
  }
  const AbiNote note = read_abi_note(path);
  if (std::string_view(note.abi_tag) != PRIVGRAD_ABI_TAG) {
    throw PluginError(path.string() + ": built for\n    " + note.abi_tag +
                      "\n  this framework is\n    " + PRIVGRAD_ABI_TAG +
                      "\n  rebuild the plugin against this framework");
  }

  for (const auto& other : plugins_) {
    if (other->name == note.plugin_name) {
      throw PluginError(path.string() + ": plugin '" + other->name + "' is already loaded from " +
                        other->file);
    }
  }

  auto library = std::make_shared<const Library>(path);
  // Never unmap: TBB workers, thread_local destructors and in-flight exceptions may still need it.
  static auto* const pinned = new std::vector<std::shared_ptr<const Library>>;
  pinned->push_back(library);

  Registrar registrar;
  library->register_into(registrar);
  plugins_.push_back(std::make_shared<const PluginIdentity>(
      PluginIdentity{note.plugin_name, note.plugin_version, hash, note.abi_tag, path.string()}));
  catalog_.add(plugins_.back(), library, registrar.factories());
  return *plugins_.back();
}

}  // namespace privgrad::host
