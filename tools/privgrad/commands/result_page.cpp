#include "result_page.hpp"

#include <exception>
#include <string>

#include "output.hpp"
#include "privgrad/report/report.hpp"

namespace privgrad::tool {

void write_result_page(const std::filesystem::path& directory, std::string_view what) {
  try {
    report::write_report(directory);
  } catch (const std::exception& problem) {
    complain("warning",
             "the " + std::string(what) + " has no report.html: " + std::string(problem.what()));
  }
}

}  // namespace privgrad::tool
