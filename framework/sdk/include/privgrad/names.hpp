// Hints for messages about names that do not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "privgrad/export.hpp"
#include "privgrad/params.hpp"

namespace privgrad {

/// \returns "; did you mean 'NAME'?" with the nearest_name(), to append to a message; '?' stands
///   for each ASCII control character. "" if no candidate is near.
PRIVGRAD_API std::string did_you_mean(std::string_view name,
                                      const std::vector<std::string>& candidates);

/// \returns did_you_mean(); if no candidate is near, "; there are A, B, C".
PRIVGRAD_API std::string nearest_or_all(std::string_view name,
                                        const std::vector<std::string>& candidates);

/// \returns "A, B, C".
PRIVGRAD_API std::string listed(const std::vector<std::string>& words);

}  // namespace privgrad
