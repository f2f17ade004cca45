// A draft of the declarations in a manifest, read off rows that the author may look at.
#pragma once

#include <string>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/value.hpp"

namespace privgrad::api {

struct Draft {
  Value section;
  /// Remarks on parts of the draft that the author must check, one line each.
  std::vector<std::string> notes;
};

/// \param section  the section `data` of a manifest.
/// \param kind  the source's kind, for messages.
/// \returns the section with the declarations that the source suggests, and with the key
///   `read_off_rows`. Because of this key every output states that declarations were read off the
///   rows, and release mode refuses the section.
/// \throws ConfigError if the source suggests nothing; otherwise like DataSource::suggest().
Draft with_suggestions(Value section, const std::string& kind, DataSource& source);

}  // namespace privgrad::api
