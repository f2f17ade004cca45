#include "man_page.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "privgrad/abi.hpp"

namespace privgrad::tool {
namespace {

/// Returns a line of text that roff shows unchanged: without escapes or requests, and with dashes
/// that can be copied.
std::string shown(std::string_view line) {
  std::string text = line.starts_with('.') || line.starts_with('\'') ? "\\&" : "";
  for (const char c : line) {
    if (c == '\\') {
      text += "\\e";
    } else if (c == '-') {
      text += "\\-";
    } else {
      text += c;
    }
  }
  return text;
}

template <class Body>
void each_line(std::string_view text, const Body& body) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    body(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Formats text: an empty line begins a paragraph; indented lines keep their line breaks.
std::string paragraphs(std::string_view text) {
  std::string page;
  each_line(text, [&](std::string_view line) {
    if (line.empty()) {
      page += ".PP\n";
    } else if (line.starts_with(' ')) {
      page += ".nf\n" + shown(line) + "\n.fi\n";
    } else {
      page += shown(line) + "\n";
    }
  });
  return page;
}

std::string head(const std::string& name, std::string summary) {
  std::ranges::replace(summary, '\n', ' ');
  summary.resize(std::min(summary.find_first_of(".:"), summary.size()));
  std::string title = name;
  std::ranges::transform(title, title.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string version = PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
      PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH);
  return ".TH " + shown(title) + " 1 \"\" \"PrivGrad " + version + "\" PrivGrad\n.SH NAME\n" +
         shown(name) + " \\- " + shown(summary) + "\n";
}

}  // namespace

std::string man_name(const Usage& usage) {
  std::string name = "privgrad-" + usage.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const Usage& usage) {
  std::string page = head(man_name(usage), usage.summary) + ".SH SYNOPSIS\n" +
                     shown(call_line(usage)) + "\n.SH DESCRIPTION\n" + paragraphs(usage.summary) +
                     ".SH OPTIONS\n";
  for (const Option& option : all_options(usage))
    page += ".TP\n.B " + shown(option_head(option)) + "\n" + shown(option_doc(option)) + "\n";
  if (!usage.details.empty()) page += ".SH NOTES\n" + paragraphs(usage.details);
  page += ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : usage.examples) page += shown(example) + "\n";
  return page + ".fi\n.SH SEE ALSO\n.BR privgrad (1)\n";
}

std::string man_page(const std::vector<Command>& all) {
  std::string page =
      head("privgrad", "train models under differential privacy") +
      ".SH SYNOPSIS\nprivgrad COMMAND ...\n.SH DESCRIPTION\n"
      "Trains models under differential privacy, with plugins that a manifest combines.\n"
      ".SH COMMANDS\n";
  for (const Command& command : all) {
    page +=
        ".TP\n.BR " + shown(man_name(command.usage)) + " (1)\n" + paragraphs(command.usage.summary);
  }
  return page;
}

}  // namespace privgrad::tool
