// A first draft of what a manifest could declare of rows that one may look at.
#pragma once

#include <string>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/value.hpp"

namespace privgrad::api {

struct Draft {
  Value section;
  std::vector<std::string> notes;  ///< What to look at in it, a line each.
};

/// \param section  of a manifest: `data`.
/// \param kind  the source's, in messages.
/// \returns the section with what the source suggests to declare, and with the key `read_off_rows`,
///   by which every output lists that rows were looked at, and which release mode refuses.
/// \throws ConfigError  the source suggests nothing; as DataSource::suggest().
Draft with_suggestions(Value section, const std::string& kind, DataSource& source);

}  // namespace privgrad::api
