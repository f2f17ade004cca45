#include <filesystem>
#include <map>

#include "command.hpp"
#include "loading_in_child.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/manifest/component_docs.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// kind -> name -> summary of every component that has a page.
using Index = std::map<std::string, std::map<std::string, std::string>>;

std::string page_name(const std::string& kind, const std::string& name) {
  return kind + "." + name + ".md";
}

std::string index_page(const Index& index) {
  std::string text =
      "# Components\n\nMade by `privgrad plugins docs` from what the plugins declare; edits here "
      "are lost.\n";
  for (const auto& [kind, components] : index) {
    text += "\n## " + kind + "\n\n";
    for (const auto& [name, summary] : components) {
      text.append("- [").append(name).append("](").append(page_name(kind, name));
      text.append("): ").append(summary).append("\n");
    }
  }
  return text;
}

int write_pages(const Arguments& arguments, const host::RefusedFiles& refused) {
  const host::PluginHost host = load_every_plugin(arguments, refused);
  const fs::path folder = arguments.operand(0);
  core::make_directories(folder);
  Index index;
  for (const Component& component : host.catalog().components()) {
    const std::string& kind = component.factory.kind;
    const ComponentInfo& info = component.factory.info;
    if (!index[kind].emplace(info.name, info.summary).second) {
      complain("warning", kind + "/" + component.full_name() +
                              ": has no page, as another plugin of that name has it");
      continue;
    }
    core::write_atomically(folder / page_name(kind, info.name), core::component_page(component));
  }
  core::write_atomically(folder / "README.md", index_page(index));
  return 0;
}

int do_plugins_docs(const Arguments& arguments) {
  return load_in_child(
      [&](const host::RefusedFiles& refused) { return write_pages(arguments, refused); });
}

}  // namespace

Command plugins_docs_command() {
  return {
      .usage = {.name = "plugins docs",
                .summary = "Writes a manual page in Markdown for every component, and an index.",
                .operands = {"DIR"},
                .options = {plugin_dir_option()},
                .examples = {"privgrad plugins docs docs/components"}},
      .run = do_plugins_docs};
}

}  // namespace privgrad::tool
