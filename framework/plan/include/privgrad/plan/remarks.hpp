// Warnings about plans that keep their promises but are probably a mistake: a large delta, a large
// epsilon, a client that slows down all others, a noise schedule worse than uniform noise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The number of protected units, if the manifest declares it.
std::optional<std::uint64_t> declared_units(const Manifest& manifest);
/// The number of protected units of a plan: examples, or clients if the unit is a client.
std::uint64_t units(const Plan& plan);

/// Why the manifest's delta is too large to promise much: with delta of 1/N or more, even a
/// mechanism that publishes everything about one of the N units, drawn at random, is
/// (0, delta)-differentially private. (Dwork and Roth 2014, section 2.3; N counts examples, or
/// clients if the unit is a client.)
/// \returns nothing if delta is smaller, or if there is no noise.
std::optional<std::string> large_delta(const Manifest& manifest, std::uint64_t units);

/// Remarks about a guarantee that is proved but promises little: a large delta, or an epsilon above
/// 20; about one client whose budget makes all clients exchange models after every step; about
/// noise that is worse than uniform noise by its own influence; and about `steps: auto` if its
/// theorem does not apply to the plan's steps. One sentence each.
/// \param epsilon  the stated epsilon. Infinity gets no remark here, because every output mentions
///   it.
std::vector<std::string> remarks(const Plan& plan, double epsilon);

}  // namespace privgrad::core
