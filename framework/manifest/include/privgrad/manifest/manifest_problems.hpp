// Collects the problems of a manifest with their places, in order to report all of them at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// \returns `text` on one line: control characters and broken UTF-8 are escaped, as \xNN or \n, and
///   the middle is left out if the text is longer than `limit` bytes. Error messages quote text from
///   users, and this text must not break or flood the message.
std::string one_line(std::string_view text, std::size_t limit);

/// The kinds of problems, by the error that they cause. If a manifest has problems of several
/// kinds, the error of the last kind in this list is thrown.
enum class Fault {
  missing_file = 1,  ///< IoError, exit code 4.
  privacy,           ///< PrivacyError, 3.
  manifest,          ///< ManifestError, 2.
};

/// Marks of values that do not come from the file have the negative lines that new_origin()
/// returns; 0 means a default.
class ManifestProblems {
 public:
  explicit ManifestProblems(std::string file) : file_(std::move(file)) {}

  /// \returns the mark of a place outside the file: "--set KEY", "STUDY:LINE:COLUMN".
  Mark new_origin(std::string_view place);

  void add(Mark mark, std::string_view where, std::string_view what, Fault fault = Fault::manifest);

  /// Adds the YAML reader's problems. Later problems at the same place are consequences of these,
  /// and are dropped.
  void add_yaml(const std::vector<Problem>& problems);

  bool empty() const noexcept { return entries_.empty(); }
  std::size_t size() const noexcept { return entries_.size(); }

  /// Returns "FILE:LINE:COLUMN", the name of another origin, or the file's name for a default.
  std::string position(Mark mark) const;

  /// \throws ManifestError, PrivacyError or IoError with a line for each of the first 100 problems,
  ///   sorted by place.
  void throw_if_any() const;

 private:
  struct Entry {
    Mark mark;
    std::string text;
    Fault fault = Fault::manifest;
  };
  std::string file_;
  std::vector<std::string> origins_;
  std::vector<Entry> entries_;
  std::vector<Mark> yaml_marks_;
};

}  // namespace privgrad::core
