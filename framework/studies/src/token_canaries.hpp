// Audits of language models with canaries of random tokens.
#pragma once

#include "privgrad/plan/plan.hpp"
#include "privgrad/studies/audit.hpp"

namespace privgrad::core {

/// Trains once with canaries: random tokens, each canary in place of a training row. A coin decides
/// for each canary whether the run trains on it or on its neighbour under the plan's adjacency: no
/// row, a row of empty places (whose gradient is zero), or another random row. The adversary sees
/// the model after the last step, and compares the canaries' losses with the losses of references,
/// which are random rows that were never trained on.
///
/// Guesses: a canary was present if its loss is below the mean loss of all canaries (under
/// replace_one: below the other row's loss). A larger difference makes a clearer guess. Guesses are
/// functions of releases, so audit.hpp's bounds are valid.
///
/// Exposure: let m = log2(references + 1), and E in [0, m] a canary's exposure. If the canary was
/// not trained on, its rank among the references is uniform, because all are drawn alike, so
/// P[E >= b] <= 2^-b. By (epsilon, delta)-privacy, P[E >= b] <= min(1, e^epsilon 2^-b + delta) if
/// it was trained on, and the integral over b in [0, m] is at most (epsilon + 1) / ln 2 + delta m,
/// which bounds the expectation of the mean over any number of canaries.
/// \throws ConfigError for any loss except next_token, for frozen layers, for repeated runs, and
///   for more canaries than rows.
AuditResult audit_exposure(const Plan& plan, const AuditOptions& options);

}  // namespace privgrad::core
