#include "completion.hpp"

#include "component_kinds.hpp"
#include "known_datasets.hpp"

namespace privgrad::tool {
namespace {

// Both scripts contain the same function, built on three primitives that each shell defines:
// _privgrad_words WORD..., _privgrad_files, _privgrad_folders. The function receives the words
// after the program's name, including the unfinished last word, and calls the program as $program.

constexpr const char* kComponents = R"sh(
# KIND/NAME of every component that there is; with a kind, the names of that kind.
_privgrad_components() {
  "$program" plugins list 2>/dev/null | while read -r kind name rest; do
    [ -z "$kind" ] && break
    [ "$kind" = KIND ] && continue
    if [ -z "$1" ]; then
      echo "$kind/$name"
    elif [ "$kind" = "$1" ]; then
      echo "$name"
    fi
  done
}
)sh";

constexpr const char* kBashHead =
    R"sh(# Completion of the privgrad command for bash; made by: privgrad completion bash

_privgrad_words() { mapfile -t COMPREPLY < <(compgen -W "$*" -- "$current"); }

_privgrad_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}

_privgrad_folders() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$current")
}
)sh";

// bash splits --option=value into three words.
constexpr const char* kBashTail = R"sh(
_privgrad() {
  local program=$1 current=${COMP_WORDS[COMP_CWORD]} i
  local -a given=()
  COMPREPLY=()
  [ "$current" = = ] && current=
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [ "${COMP_WORDS[i]}" = = ] || given+=("${COMP_WORDS[i]}")
  done
  _privgrad_complete "${given[@]}" "$current"
}

complete -F _privgrad privgrad
)sh";

constexpr const char* kZshHead = R"sh(#compdef privgrad
# Completion of the privgrad command for zsh; made by: privgrad completion zsh

_privgrad_words() { compadd -- "$@" }

_privgrad_files() { _files }

_privgrad_folders() { _files -/ }
)sh";

constexpr const char* kZshTail = R"sh(
_privgrad() {
  local program=$words[1]
  _privgrad_complete "${(@)words[2,CURRENT]}"
}

# Autoloaded from a folder of $fpath, this file is the function itself; sourced, it announces it.
if [ "$funcstack[1]" = _privgrad ]; then
  _privgrad "$@"
else
  compdef _privgrad privgrad
fi
)sh";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string offer_words(const std::vector<std::string>& words) {
  return "_privgrad_words " + joined(words);
}

std::string datasets() {
  std::vector<std::string> names;
  for (const KnownDataset& dataset : known_datasets()) names.push_back(dataset.name);
  return offer_words(names);
}

/// Returns the completion for a value that help calls `meta`; "" if nothing can be suggested.
std::string offer(const std::string& meta) {
  if (meta == "KIND/NAME") return "_privgrad_words $(_privgrad_components '')";
  if (meta.find("KIND") != meta.npos)
    return offer_words({kComponentKinds.begin(), kComponentKinds.end()});
  if (meta == "DATASET") return datasets();
  if (meta == "SHELL") return offer_words({"bash", "zsh"});
  if (meta == "A") return offer_words({"add_or_remove_one", "replace_one", "zero_out"});
  if (meta == "DIR") return "_privgrad_folders";
  const bool is_file = meta == "FILE" || meta == "MANIFEST" || meta.find("PATH") != meta.npos ||
                       meta.find("STUDY") != meta.npos || meta.find("RUN") != meta.npos;
  return is_file ? "_privgrad_files" : "";
}

std::string offer(const Option& option) {
  if (option.name == "accountant") return "_privgrad_words $(_privgrad_components accountant)";
  return offer(option.value);
}

/// Whether the option takes its value from the next word.
bool takes_word(const Option& option) { return !option.value.empty() && !option.implied; }

/// Returns the commands' first words, in the order of help, each with the possible second words.
std::vector<std::pair<std::string, std::vector<std::string>>> groups(
    const std::vector<Command>& commands) {
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  for (const Command& command : commands) {
    const std::string& name = command.usage.name;
    const std::string first = name.substr(0, name.find(' '));
    if (out.empty() || out.back().first != first) out.push_back({first, {}});
    if (first != name) out.back().second.push_back(name.substr(first.size() + 1));
  }
  return out;
}

std::string value_cases(const Usage& usage) {
  std::string text;
  for (const Option& option : usage.options) {
    if (!takes_word(option)) continue;
    std::string pattern = "'" + usage.name + " --" + option.name + "'";
    if (option.letter != 0) pattern += " | '" + usage.name + " -" + option.letter + "'";
    const std::string action = offer(option);
    text += "      " + pattern + ")\n        [ $# -gt 1 ] || { " +
            (action.empty() ? "" : action + "; ") + "return; }\n        shift\n        ;;\n";
  }
  return text;
}

std::string option_case(const Usage& usage) {
  std::vector<std::string> words;
  for (const Option& option : usage.options) {
    words.push_back("--" + option.name);
    if (option.letter != 0) words.push_back(std::string{'-', option.letter});
  }
  words.push_back("--help");
  return "    '" + usage.name + " -'*) " + offer_words(words) + " ;;\n";
}

std::string operand_cases(const Usage& usage) {
  std::string text;
  for (std::size_t i = 0; i < usage.operands.size(); ++i) {
    const std::string action = offer(usage.operands[i]);
    if (action.empty()) continue;
    const bool repeats = usage.repeats_operand && i + 1 == usage.operands.size();
    text +=
        "    '" + usage.name + " '" + (repeats ? "*" : std::to_string(i)) + ") " + action + " ;;\n";
  }
  return text;
}

std::string body(const std::vector<Command>& commands) {
  std::vector<std::string> first{};
  std::string subcommands;
  for (const auto& [name, seconds] : groups(commands)) {
    first.push_back(name);
    if (seconds.empty()) continue;
    subcommands += "    " + name + ")\n      shift\n      [ $# -gt 1 ] || { " +
                   offer_words(seconds) + "; return; }\n      command=\"$command $1\"\n      ;;\n";
  }
  first.insert(first.end(), {"--help", "--version", "--prefix"});
  std::string values, options, operands;
  for (const Command& command : commands) {
    values += value_cases(command.usage);
    options += option_case(command.usage);
    operands += operand_cases(command.usage);
  }
  return "\n_privgrad_complete() {\n"
         "  local command=$1 operand=0 previous\n"
         "  [ $# -gt 1 ] || { " +
         offer_words(first) +
         "; return; }\n"
         "  case \"$command\" in\n" +
         subcommands +
         "  esac\n"
         "  shift\n"
         "  while [ $# -gt 1 ]; do\n"
         "    previous=$1\n"
         "    shift\n"
         "    case \"$command $previous\" in\n" +
         values +
         "      *' -'*) ;;\n"
         "      *) operand=$((operand + 1)) ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$command $1\" in\n" +
         options +
         "    *)\n"
         "      case \"$command $operand\" in\n" +
         operands +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "}\n";
}

}  // namespace

std::string bash_completion(const std::vector<Command>& commands) {
  return kBashHead + std::string(kComponents) + body(commands) + kBashTail;
}

std::string zsh_completion(const std::vector<Command>& commands) {
  return kZshHead + std::string(kComponents) + body(commands) + kZshTail;
}

}  // namespace privgrad::tool
