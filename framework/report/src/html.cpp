#include "html.hpp"

#include "privgrad/manifest/utf8.hpp"

namespace privgrad::report {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = core::decode_utf8(text).length;
    if (length == 0 || is_control(text.front())) {
      out += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    const std::string_view as_entity = length == 1 ? entity(text.front()) : "";
    out += as_entity.empty() ? text.substr(0, length) : as_entity;
    text.remove_prefix(length);
  }
  return out;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF", kPlain = "-._~/";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || kPlain.find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string section(std::string_view id, std::string_view title, std::string_view content) {
  std::string out = "<section id=\"";
  out.append(id).append("\">\n<h2>").append(escaped(title)).append("</h2>\n");
  return out.append(content).append("</section>\n");
}

std::string paragraph(std::string_view text) { return "<p>" + escaped(text) + "</p>\n"; }

std::string folded(std::string_view title, std::string_view content) {
  std::string out = "<details><summary>" + escaped(title) + "</summary>\n";
  return out.append(content).append("</details>\n");
}

std::string folded_file(std::string_view name, std::string_view text) {
  return "<details class=\"record\"><summary>" + escaped(name) +
         "</summary>\n<pre tabindex=\"0\">" + escaped(text) +
         "</pre></details>\n<p class=\"only-printed\">" + escaped(name) +
         " is a file beside this page and is not printed.</p>\n";
}

void HtmlTable::add(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool number = i < is_number_.size() && is_number_[i];
    const char* tag = i == 0 ? "th scope=\"row\"" : "td";
    rows_ += std::string("<") + tag + (number ? " class=\"number\"" : "") + ">" +
             escaped(cells[i]) + (i == 0 ? "</th>" : "</td>");
  }
  rows_ += "</tr>\n";
}

void HtmlTable::add_links(const std::string& heading, const std::vector<Link>& links) {
  rows_ += "<tr><th scope=\"row\">" + escaped(heading) + "</th>";
  for (const Link& link : links) {
    rows_ += "<td class=\"number\">";
    rows_ += link.path.empty() ? escaped(link.text)
                               : "<a href=\"./" + percent_encoded(link.path) + "\">" +
                                     escaped(link.text) + "</a>";
    rows_ += "</td>";
  }
  rows_ += "</tr>\n";
}

std::string HtmlTable::html() const {
  std::string out = "<div class=\"wide\" tabindex=\"0\"><table>\n<caption><span>" +
                    escaped(caption_) + "</span></caption>\n<thead><tr>";
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    const bool number = i < is_number_.size() && is_number_[i];
    out += std::string("<th scope=\"col\"") + (number ? " class=\"number\"" : "") + ">" +
           escaped(headings_[i]) + "</th>";
  }
  return out + "</tr></thead>\n<tbody>\n" + rows_ + "</tbody>\n</table></div>\n";
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [what, value] : rows) {
    out += "<dt>" + escaped(what) + "</dt><dd>" + escaped(value) + "</dd>\n";
  }
  return out + "</dl>\n";
}

std::string unverified_banner(const std::vector<std::string>& problems) {
  if (problems.empty()) return "";
  std::string text = "This record does not verify. " + problems.front() + ".";
  if (problems.size() > 1)
    text += " There are " + std::to_string(problems.size() - 1) + " more problems.";
  return "<p class=\"warning\" role=\"alert\"><strong>" + escaped(text) +
         "</strong> Do not rely on what this page says of privacy: see privgrad verify.</p>\n";
}

}  // namespace privgrad::report
