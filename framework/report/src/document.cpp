#include "document.hpp"

#include <utility>

#include "assets.hpp"
#include "html.hpp"

namespace privgrad::report {
namespace {

// The library's licence requires that this text accompanies the library.
constexpr const char* kChartLicence = R"(/*
Chart.js: Copyright (c) 2014-2022 Chart.js Contributors. It holds @kurkle/color: Copyright (c) 2018-2021 Jukka Kurkela.
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions: The above copyright notice
and this permission notice shall be included in all copies or substantial portions of the Software.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
*/
)";

// Nothing may be fetched from anywhere, even if a text of the record escaped its quoting.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

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
  page +=
      "<noscript><p>The charts are drawn by a script, which is switched off here; all texts "
      "and tables are complete.</p></noscript>\n</main>\n";
  page += "<script type=\"application/json\" id=\"chart-data\">" + script_json(charts.data()) +
          "</script>\n<script>\n";
  page.append(kChartLicence).append(kChartJs).append("</script>\n<script>\n");
  page.append(kPageJs).append("</script>\n</body>\n</html>\n");
  return {std::move(page), std::move(charts)};
}

}  // namespace privgrad::report
