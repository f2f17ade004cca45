#include "document.hpp"

#include <utility>

#include "assets.hpp"
#include "html.hpp"

namespace privgrad::report {
namespace {

// With this policy, browsers load and run nothing, even if a text of the record becomes markup.
constexpr const char* kPolicy = "default-src 'none'; style-src 'unsafe-inline'";

}  // namespace

Page document(const std::string& title, const std::string& body, Charts charts) {
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page.append("<meta http-equiv=\"Content-Security-Policy\" content=\"").append(kPolicy);
  page +=
      "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n";
  page += "<title>" + escaped(title) + "</title>\n<style>\n";
  page.append(kPageCss).append("</style>\n</head>\n<body>\n<main>\n").append(body);
  page += "</main>\n</body>\n</html>\n";
  return {std::move(page), std::move(charts)};
}

}  // namespace privgrad::report
