// Building blocks of HTML pages: escaping of untrusted text, sections, tables and banners.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::report {

/// Returns a text, escaped for an element or a quoted attribute. Bytes that are not UTF-8, and
/// ASCII control characters except line breaks and tabs, become U+FFFD.
std::string escaped(std::string_view text);

/// Returns a text for use in a URI reference (RFC 3986): all bytes except letters, digits and
/// "-._~/" are percent-encoded.
std::string percent_encoded(std::string_view text);

/// Returns a part of a page with a heading.
std::string section(std::string_view id, std::string_view title, std::string_view content);

std::string paragraph(std::string_view text);

/// Returns content that opens on a click, and is open in print.
std::string folded(std::string_view title, std::string_view content);

/// Returns a file of the record as preformatted text that opens on a click. In print, only the
/// file's name appears: the text is long, and the file is beside the page.
std::string folded_file(std::string_view name, std::string_view text);

/// A cell with a link to a page below the current page.
struct Link {
  std::string text;
  std::string path;  ///< "" for no link; relative, with '/' between names.
};

/// A table with one heading row; the first cell of each row is the row's heading.
class HtmlTable {
 public:
  /// \param number_columns  for each column, whether it contains numbers, which are aligned.
  HtmlTable(std::string caption, std::vector<std::string> headings,
            std::vector<bool> number_columns = {})
      : caption_(std::move(caption)),
        headings_(std::move(headings)),
        is_number_(std::move(number_columns)) {}
  void add(const std::vector<std::string>& cells);
  void add_links(const std::string& heading, const std::vector<Link>& links);
  bool empty() const { return rows_.empty(); }
  std::string html() const;

 private:
  std::string caption_;
  std::vector<std::string> headings_;
  std::vector<bool> is_number_;
  std::string rows_;
};

/// A table of two columns: the names of facts, and their values.
std::string facts(const std::vector<std::pair<std::string, std::string>>& rows);

/// The banner at the top of a page whose record does not match the hashes in its ledgers; "" if
/// there are no problems.
std::string unverified_banner(const std::vector<std::string>& problems);

}  // namespace privgrad::report
