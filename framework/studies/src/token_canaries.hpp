// Audits of language models with canaries of random tokens.
#pragma once

#include "privgrad/plan/plan.hpp"
#include "privgrad/studies/audit.hpp"

namespace privgrad::core {

/// Trains once with canaries: each replaces a row by random tokens, as many as a row has places. A
/// coin decides about each, between neighbours under the plan's adjacency: the row is present or
/// absent, all of its places are empty (its gradient is then zero), or it is another random row.
/// The adversary sees the model after the last step, and compares the losses of the canaries with
/// those of references, which are random rows that were never trained on.
///
/// Guesses: a canary was there if its loss is below the mean of all canaries' (under replace_one:
/// below the other row's); the further, the clearer. They are functions of releases, so audit.hpp's
/// bounds hold.
///
/// Exposure: let m = log2(references + 1), and E in [0, m] a canary's exposure. If the canary was
/// not trained on, its rank among the references is uniform, because all are drawn alike, so P[E >=
/// b] <= 2^-b. By (epsilon, delta)-privacy, P[E >= b] <= min(1, e^epsilon 2^-b + delta) if it was,
/// and the integral over b in [0, m] is at most (epsilon + 1) / ln 2 + delta m, which bounds the
/// expectation of the mean over any number of canaries.
/// \throws ConfigError for another loss than next_token, or rows that pass frozen layers first.
AuditResult audit_exposure(const Plan& plan, const AuditOptions& options);

}  // namespace privgrad::core
