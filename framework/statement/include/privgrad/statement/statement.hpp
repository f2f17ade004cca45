// The privacy statement of a run: everything that a reader needs to judge its guarantee.
#pragma once

#include "privgrad/plan/plan.hpp"
#include "privgrad/record/statement_facts.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

/// The privacy statement of a run, as in statement.json. It contains everything that
/// Ponomareva et al. 2023 ("How to DP-fy ML", section 5.3.3) require of a report: setting, unit,
/// adjacency, which accesses to the data are covered, releases, sampling, mechanism, accountant,
/// (epsilon, delta) with its kind of bound, the assumptions, randomness, arithmetic and versions.
///
/// "prose" states the same in sentences, one text per paragraph. The first paragraph is "stain", a
/// warning, if the guarantee is weakened. The three paragraphs of "lead" follow: the protected
/// unit, the guarantee, and the meaning of the numbers. "short" is one line for the model file.
///
/// Privacy: depends only on the plan and the releases.
Statement privacy_statement(const Plan& plan, const Outcome& outcome);

/// Fills stain, lead, short and prose, which follow from the other members.
Statement with_words(Statement facts);

}  // namespace privgrad::core
