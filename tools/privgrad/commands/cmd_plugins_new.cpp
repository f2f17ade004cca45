#include <stdlib.h>  // mkdtemp is not in <cstdlib>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>

#include "command.hpp"
#include "companion.hpp"
#include "component_kinds.hpp"
#include "output.hpp"
#include "privgrad/names.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommon = "common";

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Checks a name that becomes part of file names, C++ identifiers and CMake targets.
void check_name(const std::string& what, const std::string& name, std::string_view also_allowed) {
  constexpr std::size_t kLongest = 31;  // a plugin's note holds 63 characters for "VENDOR.NAME"
  const bool plain = std::ranges::all_of(name, [&](char c) {
    return is_letter(c) || is_digit(c) || also_allowed.find(c) != also_allowed.npos;
  });
  if (name.empty() || name.size() > kLongest || !is_letter(name.front()) || !plain) {
    throw UsageError(what + " is '" + name + "', allowed are a to z, 0 to 9 and " +
                     std::string(also_allowed) + ", a letter first, at most " +
                     std::to_string(kLongest) + " characters");
  }
}

bool is_kind(const std::string& word) {
  return std::ranges::find(kComponentKinds, word) != kComponentKinds.end();
}

void check_kind(const std::string& kind) {
  if (is_kind(kind)) return;
  const std::vector<std::string> kinds(kComponentKinds.begin(), kComponentKinds.end());
  throw UsageError("KIND is '" + kind + "', allowed are " + listed(kinds) +
                   did_you_mean(kind, kinds));
}

std::string pascal_case(const std::string& name) {
  std::string out;
  bool begins = true;
  for (const char c : name) {
    if (c == '_') {
      begins = true;
      continue;
    }
    out += begins && is_letter(c) ? static_cast<char>(c - 'a' + 'A') : c;
    begins = false;
  }
  return out;
}

fs::path template_folder() {
  fs::path folder = installation() / "share/privgrad/plugin_template";
  if (fs::is_directory(folder / kCommon)) return folder;
  throw IoError(folder.string() +
                ": the plugin template is missing; install PrivGrad again, of Debian's packages "
                "privgrad-dev");
}

using Tokens = std::map<std::string, std::string>;

std::string filled_in(std::string text, const Tokens& tokens) {
  for (const auto& [token, value] : tokens) {
    for (std::size_t at = text.find(token); at != text.npos; at = text.find(token, at)) {
      text.replace(at, token.size(), value);
      at += value.size();
    }
  }
  return text;
}

std::string content_of(const fs::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  return core::read_whole(file, kMostBytes);
}

/// \returns the new files, by path relative to the new folder.
std::map<fs::path, std::string> instantiate(const fs::path& from, const Tokens& tokens) {
  std::map<fs::path, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const std::string relative = fs::relative(entry.path(), from).string();
    files[filled_in(relative, tokens)] = filled_in(content_of(entry.path()), tokens);
  }
  return files;
}

/// Returns 0777, reduced by the umask.
fs::perms usual_permissions() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<fs::perms>(0777 & ~mask);
}

/// \returns the folder's path without a trailing slash.
/// \throws IoError if the path exists and is not an empty folder.
fs::path free_place(const std::string& folder) {
  fs::path place = fs::absolute(folder).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();
  std::error_code failure;
  if (fs::exists(place, failure) && !(fs::is_directory(place) && fs::is_empty(place))) {
    throw IoError(folder + ": exists and is not an empty folder; name another with --dir");
  }
  return place;
}

/// Writes all files or none: the files go into a temporary folder, which is then renamed.
void write_folder(const fs::path& folder, const std::map<fs::path, std::string>& files) {
  fs::create_directories(folder.parent_path());
  std::string unfinished = (folder.parent_path() / ".privgrad-new-XXXXXX").string();
  if (::mkdtemp(unfinished.data()) == nullptr) {
    throw IoError(folder.parent_path().string() +
                  ": cannot be written: " + std::generic_category().message(errno));
  }
  try {
    for (const auto& [file, content] : files) {
      fs::create_directories((unfinished / file).parent_path());
      core::write_atomically(unfinished / file, content);
    }
    fs::permissions(unfinished, usual_permissions());  // mkdtemp gave only the owner access
    fs::rename(unfinished, folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
}

struct NewComponent {
  std::string kind, name;
};

/// Reads KIND NAME as one component, and NAME KIND... or NAME KIND/NAME... as one for each kind.
/// \returns the plugin's name, and its components.
std::pair<std::string, std::vector<NewComponent>> wanted(const Arguments& arguments) {
  const std::string& first = arguments.operand(0);
  const auto kind_of = [](const std::string& word) { return word.substr(0, word.find('/')); };
  const bool is_pair = arguments.operand_count() == 2;
  if (is_pair && (is_kind(first) || !is_kind(kind_of(arguments.operand(1))))) {
    check_kind(first);
    check_name("NAME", arguments.operand(1), "_");
    return {arguments.operand(1), {{first, arguments.operand(1)}}};
  }
  if (is_kind(first))
    throw UsageError("'" + first + "' is a kind; the name of the plugin comes before its kinds");
  check_name("NAME", first, "_");
  std::vector<NewComponent> components;
  for (std::size_t i = 1; i < arguments.operand_count(); ++i) {
    const std::string& word = arguments.operand(i);
    NewComponent one{.kind = kind_of(word), .name = first + (is_pair ? "" : "_" + kind_of(word))};
    check_kind(one.kind);
    if (word != one.kind) {
      one.name = word.substr(one.kind.size() + 1);
      check_name("NAME of " + word, one.name, "_");
    }
    for (const NewComponent& other : components) {
      if (other.name == one.name)
        throw UsageError("two components are called '" + one.name + "'; write KIND/NAME for one");
    }
    components.push_back(std::move(one));
  }
  return {first, components};
}

int do_plugins_new(const Arguments& arguments) {
  const auto [plugin, components] = wanted(arguments);
  const std::string vendor = arguments.has("vendor") ? arguments.text("vendor") : "example";
  check_name("--vendor", vendor, "_-");
  std::string space = vendor + "_" + plugin;
  std::ranges::replace(space, '-', '_');
  Tokens tokens{{"@PLUGIN@", plugin},
                {"@ROOM@", components.size() == 1 ? components.front().kind + "s" : "suites"},
                {"@VENDOR@", vendor},
                {"@NAMESPACE@", space}};

  const fs::path source = template_folder();
  std::map<fs::path, std::string> files;
  std::string &includes = tokens["@INCLUDES@"], &lines = tokens["@REGISTRATIONS@"],
              &names = tokens["@COMPONENTS@"], &list = tokens["@LIST@"];
  for (const NewComponent& one : components) {
    const std::string type = pascal_case(one.name);
    Tokens of_one = tokens;
    of_one.insert({{"@NAME@", one.name}, {"@CLASS@", type}, {"@KIND@", one.kind}});
    files.merge(instantiate(source / one.kind, of_one));
    includes += "#include \"" + one.name + ".hpp\"\n";
    lines.append("  registrar.add<privgrad::")
        .append(pascal_case(one.kind) + ", ")
        .append(type + ">(")
        .append(type + "::declaration());\n");
    const std::string id = one.kind + "/" + one.name;
    names += (names.empty() ? "" : ", ") + id;
    list += (list.empty() ? "\"" : "\n                \" ") + id + "\"";
  }
  files.merge(instantiate(source / kCommon, tokens));

  const std::string folder = arguments.has("dir") ? arguments.text("dir") : plugin;
  write_folder(free_place(folder), files);
  print("a new plugin with " + names + " is in " + folder +
        "; its README.md says how to build it\n");
  return 0;
}

}  // namespace

Command plugins_new_command() {
  return {
      .usage =
          {.name = "plugins new",
           .summary = "Writes a small, working plugin with its build files and its test, "
                      "as a start for your own.",
           .operands = {"KIND|NAME", "NAME|KIND..."},
           .repeats_operand = true,
           .options = {{"dir", "DIR", "The folder to make, new or empty; default NAME."},
                       {"vendor", "NAME", "Its author, for its full name; default example."}},
           .details = "KIND NAME makes one component; NAME KIND KIND... makes several in "
                      "one plugin, named NAME_KIND each,\nor as KIND/NAME says. KIND is "
                      "accountant, aggregator, backend, clipping, data_source, model,\n"
                      "optimizer, sampler, schedule or transform.",
           .examples =
               {"privgrad plugins new schedule warm_up",
                "privgrad plugins new suite accountant schedule/warm_up aggregator --vendor acme"}},
      .run = do_plugins_new};
}

}  // namespace privgrad::tool
