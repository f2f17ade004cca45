#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "output.hpp"
#include "privgrad/report/report.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

int do_report(const Arguments& arguments) {
  const fs::path directory = arguments.operand(0);
  if (arguments.has("statement")) {
    for (const char* other : {"out", "figures"}) {
      if (arguments.has(other))
        throw UsageError("--statement prints; it cannot be used with --" + std::string(other));
    }
    print(report::statement(directory, arguments.has("as") ? arguments.text("as") : "text"));
    return 0;
  }
  if (arguments.has("as"))
    throw UsageError("--as chooses the form of --statement, which is missing");
  if (arguments.has("table")) {
    for (const char* other : {"out", "figures", "markdown"}) {
      if (arguments.has(other))
        throw UsageError("--table prints; it cannot be used with --" + std::string(other));
    }
    print(report::table(directory, arguments.text("table")));
    return 0;
  }
  if (arguments.has("figures")) {
    if (arguments.has("out") || arguments.has("markdown"))
      throw UsageError("--figures names its folder; it cannot be used with --out or --markdown");
    const report::Figures figures = report::write_figures(directory, arguments.text("figures"));
    for (const fs::path& file : figures.files) print(file.string() + "\n");
    if (!figures.has_pdf)
      complain("note", "no PDF was written: rsvg-convert is not installed (Debian: librsvg2-bin)");
    return 0;
  }
  if (arguments.has("markdown")) {
    if (arguments.has("out"))
      throw UsageError("--markdown names its own file; --out is for the page");
    report::write_markdown(directory, arguments.text("markdown"));
    print(arguments.text("markdown") + "\n");
    return 0;
  }
  const fs::path file =
      arguments.has("out") ? fs::path(arguments.text("out")) : directory / "report.html";
  core::write_atomically(file, report::page(directory));
  print(file.string() + "\n");
  return 0;
}

}  // namespace

Command report_command() {
  return {
      .usage = {.name = "report",
                .summary =
                    "Writes the page of a run or a study: one HTML file with its charts and its "
                    "privacy statement,\nwhich works offline and in print.",
                .operands = {"DIR"},
                .options = {{"out", "FILE",
                             "Where the page goes; default report.html in the directory."},
                            {"figures", "DIR",
                             "Write each chart of the page as SVG, PDF and CSV for papers, and "
                             "no page; rsvg-convert makes the PDFs."},
                            {"table", "FORM",
                             "Print the results of a finished study as a table for a paper: "
                             "latex (with booktabs), markdown or csv."},
                            {"markdown", "FILE",
                             "Write tables in Markdown and charts as SVG, of a finished study, an "
                             "estimate of influence, or a folder of such."},
                            {"statement", "",
                             "Print the privacy statement of a run as text, and write no page."},
                            {"as", "FORM",
                             "The form of --statement: text; json, with the result of an audit; "
                             "registry, an entry of the public registry of deployments."}},
                .details =
                    "`run` writes the page when it ends; this command also makes the page of an "
                    "interrupted run. The page\nis as private as the directory.\n\n"
                    "exit codes: 0 done, 2 the directory holds neither a run nor a study, 4 a file "
                    "is broken, or could\nnot be read or written",
                .examples = {"privgrad report runs/e2", "privgrad report runs/e2 --out e2.html",
                             "privgrad report runs/e2 --statement",
                             "privgrad report runs/e2 --figures figures"}},
      .run = do_report};
}

}  // namespace privgrad::tool
