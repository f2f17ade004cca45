// Audits with two crafted data sets: noise added in floating point would reveal which of the two is
// in use.
#pragma once

#include "privgrad/studies/audit.hpp"

namespace privgrad::core {

/// An audit by repeated runs with two data sets that are crafted to expose floating-point noise,
/// and have as many rows as the plan's data. They differ only in row 0, which has a gradient in one
/// data set, but none in the other (under add_or_remove_one, the row is missing there). They are
/// neighbours under every adjacency.
///
/// Only the first step is made: its release is part of the plan's releases, so its cost bounds the
/// plan's epsilon from below. The adversary knows both data sets and the code, and has run the code
/// on both beforehand: the distance between the two releases is measured, not derived.
/// \throws ConfigError unless runs are repeated, the model is one dense layer with the squared
///   loss, noise is independent, the clip norm does not adapt and is at most 1e4, and all rows (at
///   least 4) are in the first batch.
AuditResult audit_crafted(const Plan& plan, const AuditOptions& options);

}  // namespace privgrad::core
