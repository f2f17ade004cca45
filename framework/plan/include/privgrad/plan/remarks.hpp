// Warnings about plans that hold what they promise and yet are hardly meant: a large delta, a large
// epsilon, a client that slows down all others, a schedule worse than none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The number of those whom the guarantee protects, where the manifest declares it.
std::optional<std::uint64_t> declared_units(const Manifest& manifest);
/// The same of a plan: examples, or clients where those are the unit.
std::uint64_t units(const Plan& plan);

/// The reason why the manifest's delta is too large to promise much: at 1/N and above, a mechanism that
/// publishes everything about one of the N units, drawn at random, is (0, delta)-differentially
/// private. (Dwork and Roth 2014, section 2.3; N counts examples, or clients where those are the
/// unit.)
/// \returns nothing where delta is smaller, or where there is no noise.
std::optional<std::string> large_delta(const Manifest& manifest, std::uint64_t units);

/// Remarks about a guarantee that is proved and promises little all the same: a large delta, and an
/// epsilon above 20; about the budget of one client which makes all clients exchange models after
/// every step; about noise that is worse than uniform noise by the influence that it was made from; and
/// about `steps: auto` where its theorem is about other steps. One sentence each.
/// \param epsilon  the stated one; none about infinity, which every output mentions already.
std::vector<std::string> remarks(const Plan& plan, double epsilon);

}  // namespace privgrad::core
