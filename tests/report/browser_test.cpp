#include <set>

#include "page.hpp"
#include "shared_files.hpp"

// Pages in the browser that Debian packages. Only a browser can show that nothing is refused or
// broken, and that all drawn parts are visible.

namespace fs = std::filesystem;

namespace {

constexpr const char* kChromium = "/usr/bin/chromium";

/// Examines the parts of every chart, and reports them in attributes of the document.
constexpr const char* kProbe = R"(<script>
addEventListener('load', () => {
  const seen = [...document.querySelectorAll('.chart svg')].map((svg) => {
    const frame = svg.getBoundingClientRect();
    const parts = [...svg.querySelectorAll('path, circle, text')];
    const colours = new Set(parts.flatMap((part) => {
      const style = getComputedStyle(part);
      return [style.fill, style.stroke];
    }).filter((colour) => {
      // The lines and points of the data are coloured; axes and grids are grey.
      const [r, g, b] = (colour.match(/\d+/g) || [0, 0, 0]).map(Number);
      return colour.startsWith('rgb(') && Math.max(r, g, b) - Math.min(r, g, b) > 60;
    }));
    const words = [...svg.querySelectorAll('text')].map((part) => part.getBoundingClientRect());
    return {parts: parts.length, colours: colours.size,
      outside: words.filter((word) => word.left < frame.left - 2 || word.right > frame.right + 2).length,
      letters: 13 * frame.width / svg.viewBox.baseVal.width,
      looks: [...svg.querySelectorAll('.entry')].map((entry) =>
        [...entry.querySelectorAll('path, circle')].map((part) => part.outerHTML).join(''))};
  });
  // Positions of tables, with their boxes scrolled to the end; folded details have none.
  const tables = [...document.querySelectorAll('.wide')].filter((box) => box.offsetParent).map((box) => {
    box.scrollLeft = box.scrollWidth;
    const [outer, words, row] = [box, box.querySelector('caption span'), box.querySelector('tbody th')].map(
        (part) => part.getBoundingClientRect());
    return {wider: box.scrollWidth > box.clientWidth, inside: outer.left >= 0 && outer.right <= innerWidth,
      caption: words.left > outer.left - 1 && words.right < outer.right + 1, name: Math.abs(row.left - outer.left) < 1,
      lines: row.height / parseFloat(getComputedStyle(box.querySelector('tbody th')).lineHeight)};
  });
  const links = [...document.querySelectorAll('a.csv')].map((a) => decodeURIComponent(a.href));
  const result = {seen, links, tables, title: document.title, errors: window.errors,
    ink: getComputedStyle(document.body).color, paper: getComputedStyle(document.body).backgroundColor,
    wide: document.documentElement.scrollWidth > innerWidth};
  document.documentElement.dataset.probe = btoa(unescape(encodeURIComponent(JSON.stringify(result))));
  if (parent !== window) parent.postMessage(document.documentElement.dataset.probe, '*');
});
</script></body>)";

constexpr const char* kListen =
    "<body><script>window.errors = []; addEventListener('error', (e) => errors.push(e.message));"
    "</script>";

std::string from_base64(const std::string& text) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) continue;
    bits = (bits << 6) | static_cast<unsigned>(digit);
    count += 6;
    if (count >= 8) out += static_cast<char>((bits >> (count -= 8)) & 0xff);
  }
  return out;
}

class Browser {
 public:
  Outcome open(const fs::path& file, Words flags) const {
    Words words{kChromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--disable-background-networking",
                "--enable-logging=stderr",
                "--virtual-time-budget=3000",
                "--user-data-dir=" + (dir_.path() / "user").string()};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("file://" + file.string());
    return call({.words = words,
                 .environment = {{"HOME", dir_.path().string()}},
                 .directory = dir_.path()});
  }

  /// Returns the findings of the probe.
  /// \param flags  e.g. the window's size.
  Json probe(const std::string& page, const Words& flags) const {
    return seen_in(probed(page), flags);
  }

  /// Like probe(), in a frame of this width in pixels: headless Chromium opens no window below 500.
  Json probe_in_frame(const std::string& page, int width) const {
    probed(page);
    const fs::path frame = dir_.path() / "frame.html";
    write_file(frame,
               "<!doctype html><html><body><script>addEventListener('message', (e) => "
               "{ document.documentElement.dataset.probe = e.data; });</script>"
               "<iframe src='probed.html' style='border:0;width:" +
                   std::to_string(width) + "px;height:3000px'></iframe></body></html>");
    return seen_in(frame, {"--window-size=1200,3000"});
  }

  const fs::path& dir() const { return dir_.path(); }

 private:
  fs::path probed(std::string page) const {
    // The page forbids every script, but the probe is a script.
    const std::size_t policy = page.find("<meta http-equiv=\"Content-Security-Policy\"");
    page.erase(policy, page.find('>', policy) + 1 - policy);
    page.replace(page.find("<body>"), 6, kListen);
    page.replace(page.rfind("</body>"), 7, kProbe);
    const fs::path file = dir_.path() / "probed.html";
    write_file(file, page);
    return file;
  }

  Json seen_in(const fs::path& file, const Words& flags) const {
    Words all = flags;
    all.push_back("--dump-dom");
    const Outcome outcome = open(file, all);
    INFO(outcome.err.substr(0, 2000));
    CHECK(outcome.err.find("CONSOLE") == std::string::npos);
    const std::string key = "data-probe=\"";
    const std::size_t at = outcome.out.find(key);
    REQUIRE(at != std::string::npos);
    const std::size_t begin = at + key.size();
    return Json::parse(
        from_base64(outcome.out.substr(begin, outcome.out.find('"', begin) - begin)));
  }

  TempDir dir_;
};

void check_all_drawn(const Json& probe, const std::string& page) {
  INFO(probe.dump(1).substr(0, 4000));
  CHECK(probe.at("errors").empty());
  const std::size_t charts = chart_data(page).size();
  CHECK(charts > 0);
  CHECK(probe.at("seen").size() == charts);
  for (const Json& svg : probe.at("seen")) {
    INFO(svg.dump());
    CHECK(svg.at("parts") > 8);
    CHECK(svg.at("colours") >= 1);
    CHECK(svg.at("outside") == 0);
    CHECK(svg.at("letters") >= 9.0);  // pixels: legible
  }
}

/// Returns how many sheets a page takes in print.
std::size_t sheets(const std::string& pdf) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = pdf.find("/Type /Page\n", at)) != pdf.npos; ++at) ++count;
  return count;
}

/// Makes a study in the directory `many`, with an arm for each learning rate and clip norm.
void study_of(const Cli& cli, const std::string& rates, const std::string& norms) {
  write_file(cli.out("study.yaml"),
             "study: 1\nname: many\nbase: " + cli.manifest().string() +
                 "\nset: {steps: 3, evaluate_every: 1}\naxes:\n  schedules.learning_rate: " +
                 rates + "\n  schedules.clip_norm: " + norms +
                 "\nseeds: 2\nmetrics: [test_loss, test_accuracy, train_loss]\n");
  const Outcome ran = cli({"ablate", "study.yaml", "--out", "many"});
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
}

Words size(int width, int height) {
  return {"--window-size=" + std::to_string(width) + "," + std::to_string(height)};
}

}  // namespace

#define NEEDS_CHROMIUM() \
  if (!fs::exists(kChromium)) PRIVGRAD_SKIP("no " << kChromium << ": apt-get install chromium")

TEST_CASE("in a browser every chart of a run is drawn, without an error, light and dark") {
  NEEDS_CHROMIUM();
  const Cli cli;
  const Browser browser;
  page_of_run(cli, {"--set", "schedules.learning_rate={kind: exponential, initial: 0.5, rate: 0.9}",
                    "--set", "clipping={kind: adaptive}", "--set", "evaluate_every=1"});
  Json summary = Json::parse(read_file(cli.out("run/summary.json")));
  summary["name"] = "<img src=x onerror=document.title=1>";
  write_file(cli.out("run/summary.json"), summary.dump());
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  const std::string page = page_of(cli, "run");
  const Json light = browser.probe(page, size(1200, 2000));
  check_all_drawn(light, page);
  CHECK(light.at("paper") == "rgb(255, 255, 255)");
  CHECK(light.at("title") == "<img src=x onerror=document.title=1> - PrivGrad run");

  Words dark_flags = size(1200, 2000);
  dark_flags.push_back("--blink-settings=preferredColorScheme=0");
  const Json dark = browser.probe(page, dark_flags);
  check_all_drawn(dark, page);
  CHECK(dark.at("paper") == "rgb(20, 23, 27)");
  CHECK(dark.at("ink") == "rgb(230, 233, 237)");

  // The link downloads the drawn chart.
  const Json accuracy = chart(page, "accuracy");
  const std::string csv = light.at("links").at(1);
  CHECK(csv.starts_with("data:text/csv;charset=utf-8,\"series\",\"step\","));
  CHECK(std::count(csv.begin(), csv.end(), '\n') ==
        1 + static_cast<std::ptrdiff_t>(2 * accuracy.at("series").at(0).at("points").size()));
}

TEST_CASE(
    "on a telephone no part of a page is wider than the screen, and tables scroll by themselves") {
  NEEDS_CHROMIUM();
  const Cli cli;
  const Browser browser;
  page_of_run(cli, {"--set", "privacy.also=[{kind: pld}, {kind: rdp}]"});
  study_of(cli, "[0.1, 0.2]", "[1, 2]");
  for (const char* name : {"run", "many"}) {
    CAPTURE(name);
    const std::string page = page_of(cli, name);
    for (const int width : {360, 1280}) {
      CAPTURE(width);
      const Json seen = browser.probe_in_frame(page, width);
      check_all_drawn(seen, page);
      CHECK(seen.at("wide") == false);
      bool one_scrolls = false;
      for (const Json& table : seen.at("tables")) {
        INFO(table.dump());
        one_scrolls |= table.at("wider").get<bool>();
        CHECK(table.at("inside") == true);
        CHECK(table.at("caption") == true);  // visible, however the table was scrolled
        CHECK(table.at("name") == true);     // and so is the name of each row
      }
      if (width == 360) CHECK(one_scrolls);
    }
  }
}

TEST_CASE("tables in print fit on a sheet, and break no name into letters") {
  NEEDS_CHROMIUM();
  const Cli cli;
  const Browser browser;
  study_of(cli, "[0.1, 0.2, 0.3, 0.4, 0.5]", "[1, 2, 3]");
  std::string page = page_of(cli, "many");
  const std::string rules = "@media print";
  for (std::size_t at = 0; (at = page.find(rules, at)) != page.npos; at += 1)
    page.replace(at, rules.size(), "@media all");
  // A sheet of A4 without its margins: 182 mm, at 96 pixels per inch.
  const Json seen = browser.probe_in_frame(page, 688);
  CHECK(seen.at("wide") == false);
  CHECK(seen.at("tables").size() > 2);
  for (const Json& table : seen.at("tables")) {
    INFO(table.dump());
    CHECK(table.at("wider") == false);
    CHECK(table.at("lines") < 4);
  }
  // The whole page is printed: an arm takes a row of each table, and the sentences need few sheets.
  const fs::path pdf = browser.dir() / "many.pdf";
  browser.open(cli.out("many/report.html"), {"--print-to-pdf=" + pdf.string()});
  CHECK(sheets(read_file(pdf)) <= 7);
}

TEST_CASE("a page in print has its text and its charts") {
  NEEDS_CHROMIUM();
  const Cli cli;
  const Browser browser;
  page_of_run(cli);
  const fs::path pdf = browser.dir() / "page.pdf";
  const Outcome outcome =
      browser.open(cli.out("run/report.html"), {"--print-to-pdf=" + pdf.string()});
  INFO(outcome.err.substr(0, 2000));
  CHECK(outcome.err.find("CONSOLE") == std::string::npos);
  const std::string printed = read_file(pdf);
  CHECK(printed.starts_with("%PDF-"));
  CHECK_THAT(printed, ContainsSubstring("/FontFile2"));

  // Without its charts the page prints the same, except for the drawings.
  std::string page = page_of(cli, "run");
  const std::size_t charts = chart_data(page).size();
  for (std::size_t at = 0; (at = page.find("<svg", at)) != page.npos;)
    page.erase(at, page.find("</svg>", at) + 6 - at);
  write_file(browser.dir() / "still.html", page);
  const fs::path still = browser.dir() / "still.pdf";
  browser.open(browser.dir() / "still.html", {"--print-to-pdf=" + still.string()});
  REQUIRE(fs::exists(still));
  CHECK(fs::file_size(pdf) > fs::file_size(still) + 500 * charts);
}

TEST_CASE("charts of fifteen arms show eight of them, no two of which look alike") {
  NEEDS_CHROMIUM();
  const Cli cli;
  const Browser browser;
  study_of(cli, "[0.1, 0.2, 0.3, 0.4, 0.5]", "[1, 2, 3]");
  const std::string page = page_of(cli, "many");
  CHECK_THAT(visible(page),
             ContainsSubstring("Drawn are the baseline and the best of the 15 arms."));
  const Json probe = browser.probe(page, size(1200, 4000));
  std::size_t whole = 0;
  for (const Json& svg : probe.at("seen")) {
    std::set<std::string> looks;
    for (const Json& look : svg.at("looks")) looks.insert(look.get<std::string>());
    CHECK(looks.size() == svg.at("looks").size());
    CHECK(looks.size() <= 8);
    whole += looks.size() == 8;
  }
  CHECK(whole >= 2);  // the learning curves

  // A chart of intervals is readable on a telephone, however long the arms' names are.
  write_file(cli.out("long.yaml"),
             "study: 1\nname: long\nbase: " + cli.manifest().string() +
                 "\nset: {steps: 3}\narms:\n"
                 "  a-rather-long-name-for-the-first-arm-of-all: {schedules.learning_rate: 0.1}\n"
                 "  a-rather-long-name-for-the-second-arm-of-all: {schedules.learning_rate: 0.5}\n"
                 "seeds: 2\nmetrics: [test_loss]\n");
  REQUIRE(cli({"ablate", "long.yaml", "--out", "long"}).exit_code == 0);
  const std::string narrow = page_of(cli, "long");
  check_all_drawn(browser.probe_in_frame(narrow, 360), narrow);
}

TEST_CASE("print names the files of the record instead of filling sheets with them") {
  NEEDS_CHROMIUM();
  const Cli cli;
  const Browser browser;
  page_of_run(cli);
  std::string page = page_of(cli, "run");
  // A lock file that would fill many printed pages.
  const std::string mark =
      "<details class=\"record\"><summary>privgrad.lock</summary>\n<pre tabindex=\"0\">";
  const std::size_t at = page.find(mark);
  REQUIRE(at != page.npos);
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += "line " + std::to_string(i) + "\n";
  page.insert(at + mark.size(), lines);
  const auto printed = [&](const std::string& name, const std::string& html) {
    const fs::path file = browser.dir() / (name + ".html"), pdf = browser.dir() / (name + ".pdf");
    write_file(file, html);
    browser.open(file, {"--print-to-pdf=" + pdf.string()});
    return sheets(read_file(pdf));
  };
  const std::size_t with_lock = printed("long", page);
  CHECK(with_lock > 0);
  CHECK(with_lock == printed("short", page_of(cli, "run")));
  // An element that is not a file of the record is printed expanded.
  const std::string open =
      page.replace(at, std::string("<details class=\"record\">").size(), "<details>");
  CHECK(printed("open", open) > with_lock + 5);
}
