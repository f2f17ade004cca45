#include "privgrad/host/lock_file.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "open_file.hpp"
#include "privgrad/error.hpp"
#include "text.hpp"

namespace privgrad::host {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargest = 1 << 20;  // bytes, enough for some 3000 plugins
constexpr std::string_view kBlank = " \t";

struct Key {
  std::string_view name;
  std::string LockedPlugin::*field;
  bool (*accepts)(std::string_view) noexcept;
  std::string_view expected;
  bool is_optional = false;
};

bool is_file_name(std::string_view text) noexcept {
  return is_plain_text(text) && text.ends_with(".privgrad.so") && text.find('/') == text.npos;
}

bool is_sha256(std::string_view text) noexcept {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_trait_list(std::string_view text) noexcept {
  return is_plain_text(text) &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_. ") == text.npos;
}

constexpr std::array<Key, 6> kKeys{{
    {"name", &LockedPlugin::name, is_plugin_name, "letters, digits, '.', '_' and '-'"},
    {"version", &LockedPlugin::version, is_plain_text, "printable ASCII"},
    {"file", &LockedPlugin::file, is_file_name, "a file name *.privgrad.so without directory"},
    {"sha256", &LockedPlugin::sha256, is_sha256, "64 lower-case hex digits"},
    {"abi", &LockedPlugin::abi, is_plain_text, "printable ASCII"},
    {"traits", &LockedPlugin::traits, is_trait_list, "names with a blank between", true},
}};

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// Whether the rest of a line, after a value, is blank or only a comment.
bool only_comment(std::string_view rest) {
  rest = trim(rest);
  return rest.empty() || rest.front() == '#';
}

class Reader {
 public:
  explicit Reader(const fs::path& file) { lock_.path = file; }

  LockFile read(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = text.find('\n');
      if (end == text.npos) fail("the file ends in the middle of a line");
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      read_line(trim(line));
      text.remove_prefix(end + 1);
    }
    finish_section();
    if (!versioned_ || !count_) fail("no 'lock' and 'plugins' before the end; expected both");
    if (*count_ != std::to_string(lock_.plugins.size())) {
      fail("the file is cut short: 'plugins' says " + *count_ + ", it lists " +
           std::to_string(lock_.plugins.size()));
    }
    return std::move(lock_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw IoError(
        one_line(lock_.path.string() + ":" + std::to_string(std::max(line_, 1)) + ": " + why));
  }

  void read_line(std::string_view line) {
    if (only_comment(line)) return;
    constexpr std::string_view kSection = "[[plugin]]";
    if (line.starts_with(kSection) && only_comment(line.substr(kSection.size()))) {
      finish_section();
      if (!versioned_ || !count_) {
        fail("expected 'lock = 1' and 'plugins = NUMBER' before the first [[plugin]]");
      }
      lock_.plugins.emplace_back();
      given_.clear();
      return;
    }
    const std::size_t equals = line.find('=');
    const std::string_view key = trim(line.substr(0, std::min(equals, line.size())));
    if (equals == line.npos || key.empty()) {
      fail("expected [[plugin]], a comment, or KEY = \"VALUE\"");
    }
    const std::string_view value = trim(line.substr(equals + 1));
    if (lock_.plugins.empty()) {
      read_head(key, value);
    } else {
      read_field(key, value);
    }
  }

  void read_head(std::string_view key, std::string_view value) {
    const std::size_t end = std::min(value.find_first_not_of("0123456789"), value.size());
    const std::string number(value.substr(0, end));
    if (key != "lock" && key != "plugins") {
      fail("unknown key '" + printable(key) + "'; expected 'lock = 1' and 'plugins = NUMBER'");
    }
    if (number.empty() || !only_comment(value.substr(end))) {
      fail("'" + std::string(key) + "' needs a number, and nothing after it");
    }
    if (key == "lock" ? versioned_ : count_.has_value()) {
      fail("'" + std::string(key) + "' is given twice");
    }
    if (key == "plugins") {
      count_ = printable(number);
    } else if (number == "1") {
      versioned_ = true;
    } else {
      fail("version " + printable(number) + "; this framework reads lock files of version 1 only");
    }
  }

  void read_field(std::string_view name, std::string_view value) {
    const auto key =
        std::ranges::find_if(kKeys, [&](const Key& candidate) { return candidate.name == name; });
    if (key == kKeys.end()) {
      fail("unknown key '" + printable(name) +
           "'; there are name, version, file, sha256, abi and traits");
    }
    if (!given_.insert(key->name).second) fail("'" + std::string(name) + "' is given twice");
    const std::size_t end = value.starts_with('"') ? value.find('"', 1) : value.npos;
    if (end == value.npos || !only_comment(value.substr(end + 1))) {
      fail("'" + std::string(name) + "' needs a value in double quotes, and nothing after it");
    }
    const std::string_view text = value.substr(1, end - 1);
    if (!key->accepts(text)) {
      fail("'" + std::string(name) + "' is '" + printable(text) + "', expected " +
           std::string(key->expected));
    }
    lock_.plugins.back().*(key->field) = text;
  }

  void finish_section() {
    if (lock_.plugins.empty()) return;
    for (const Key& key : kKeys) {
      if (!key.is_optional && !given_.contains(key.name)) {
        fail("the [[plugin]] above has no '" + std::string(key.name) + "'");
      }
    }
    const std::string& name = lock_.plugins.back().name;
    if (!names_.insert(name).second) fail("plugin '" + name + "' is listed twice");
  }

  /// Shortens and cleans a hostile file's text for an error message.
  static std::string printable(std::string_view text) {
    constexpr std::size_t kMost = 80;
    std::string shown(text.substr(0, kMost));
    std::ranges::replace_if(
        shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text.size() > kMost ? shown + "..." : shown;
  }

  LockFile lock_;
  std::set<std::string_view> given_;  // the keys of the current section
  std::set<std::string> names_;
  int line_ = 0;
  bool versioned_ = false;
  // the count as written, which detects a file that is truncated between two sections
  std::optional<std::string> count_;
};

std::string words_of(const std::map<std::string, std::set<std::string>>& traits,
                     const std::string& plugin) {
  const auto found = traits.find(plugin);
  std::string words;
  if (found == traits.end()) return words;
  for (const std::string& one : found->second) words += (words.empty() ? "" : " ") + one;
  return words;
}

}  // namespace

std::multimap<std::string, std::string> LockFile::pins() const {
  std::multimap<std::string, std::string> pins;
  for (const LockedPlugin& plugin : plugins) pins.emplace(plugin.file, plugin.sha256);
  return pins;
}

std::string lock_file_text(std::span<const PluginIdentity> used,
                           const std::map<std::string, std::set<std::string>>& traits) {
  std::map<std::string, LockedPlugin> sorted;
  for (const PluginIdentity& plugin : used) {
    sorted.emplace(plugin.name,
                   LockedPlugin{plugin.name, plugin.version, fs::path(plugin.file).filename(),
                                plugin.sha256, plugin.abi_tag, words_of(traits, plugin.name)});
  }
  std::string text =
      "# The plugins that this run used. `privgrad run --locked` loads these files and no others.\n"
      "lock = 1\n"
      "plugins = " +
      std::to_string(sorted.size()) + "\n";
  for (const auto& [name, plugin] : sorted) {
    text += "\n[[plugin]]\n";
    for (const Key& key : kKeys) {
      const std::string& value = plugin.*(key.field);
      if (key.is_optional && value.empty()) continue;
      if (!key.accepts(value)) {
        throw IoError("plugin " + name + ": its " + std::string(key.name) +
                      " cannot be put in a lock file; expected " + std::string(key.expected));
      }
      text += std::string(key.name) + " = \"" + value + "\"\n";
    }
  }
  return text;
}

LockFile read_lock_file(const fs::path& file) try {
  std::error_code missing;
  const fs::path resolved = fs::canonical(file, missing);
  const OpenFile opened(missing ? file : resolved);
  if (opened.size() > kLargest) {
    throw IoError(one_line(file.string() + ": holds " + std::to_string(opened.size()) +
                           " bytes; a lock file has at most " + std::to_string(kLargest)));
  }
  std::string text(opened.size(), '\0');
  opened.read(0, text.data(), text.size());
  return Reader(file).read(text);
} catch (const PluginError& problem) {
  throw IoError(one_line(file.string() + ": " + problem.what()));
}

}  // namespace privgrad::host
