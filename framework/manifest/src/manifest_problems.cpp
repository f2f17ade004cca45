#include "privgrad/manifest/manifest_problems.hpp"

#include <algorithm>
#include <tuple>

#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/yaml.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kMaxLines = 100;

/// Returns the sorting key of a place: defaults, which have no place, come first, then places in
/// the file, then places elsewhere.
auto place_of(Mark mark) {
  return std::tuple(mark.line < 0, mark.line < 0 ? -mark.line : mark.line, mark.column);
}

bool same_place(Mark a, Mark b) { return a.line == b.line && a.column == b.column; }

void append_escaped(std::string& out, char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

/// Returns the last position, at most `at`, at which a cut splits no multibyte character.
std::size_t boundary_before(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

std::string one_line(std::string_view text, std::size_t limit) {
  if (text.size() > limit) {
    const std::size_t head = boundary_before(text, limit * 2 / 3);
    const std::size_t tail = boundary_before(text, text.size() - limit / 3);
    return one_line(text.substr(0, head), limit) + " ... " + one_line(text.substr(tail), limit);
  }
  const bool all_bytes = find_bad_character(text).has_value();
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (all_bytes && byte >= 0x80)) {
      append_escaped(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

Mark ManifestProblems::new_origin(std::string_view place) {
  origins_.push_back(one_line(place, 4200));
  return {-static_cast<int>(origins_.size()), 1};
}

void ManifestProblems::add(Mark mark, std::string_view where, std::string_view what, Fault fault) {
  const bool is_consequence = mark.line != 0 && std::ranges::any_of(yaml_marks_, [&](Mark other) {
                                return same_place(mark, other);
                              });
  if (is_consequence) return;
  std::string text = one_line(where, 200);
  if (!text.empty()) text += ": ";
  entries_.push_back({mark, text + one_line(what, 3000), fault});
}

void ManifestProblems::add_yaml(const std::vector<Problem>& problems) {
  std::vector<Mark> marks;
  for (const Problem& problem : problems) {
    add(problem.mark, problem.where, problem.what);
    // Only kMaxLines lines are printed, so further marks have no visible effect.
    if (marks.size() < kMaxLines) marks.push_back(problem.mark);
  }
  yaml_marks_.insert(yaml_marks_.end(), marks.begin(), marks.end());
}

std::string ManifestProblems::position(Mark mark) const {
  if (mark.line < 0) return origins_[static_cast<std::size_t>(-1 - mark.line)];
  if (mark.line == 0) return file_;
  return file_ + ":" + std::to_string(mark.line) + ":" + std::to_string(mark.column);
}

void ManifestProblems::throw_if_any() const {
  if (entries_.empty()) return;
  std::vector<Entry> sorted = entries_;
  std::ranges::stable_sort(
      sorted, [](const Entry& a, const Entry& b) { return place_of(a.mark) < place_of(b.mark); });
  std::vector<std::string> lines;
  Fault fault = Fault::missing_file;
  for (const Entry& entry : sorted) {
    fault = std::max(fault, entry.fault);
    // A problem with a default concerns the file as a whole.
    const std::string place = position(entry.mark.line == 0 ? Mark{1, 1} : entry.mark);
    if (lines.size() == kMaxLines) {
      lines.push_back(place + ": error: and " + std::to_string(sorted.size() - kMaxLines) +
                      " more problem(s) from here on");
    } else if (lines.size() < kMaxLines) {
      lines.push_back(place + ": error: " + entry.text);
    }
  }
  if (fault == Fault::manifest) throw ManifestError(lines);
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  if (fault == Fault::privacy) throw PrivacyError(text);
  throw IoError(text);
}

}  // namespace privgrad::core
