// Broken components, and the check that each is noticed by its rule of the suite.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "findings.hpp"
#include "support.hpp"

/// A component with one defect, the rule that must notice it, and a part of the rule's message.
struct Broken {
  std::string rule;
  std::string text;
  Findings findings;
};

/// Checks that a correct component passes every rule, that each defect is noticed by its rule, and
/// that every rule of the interface notices at least one defect, because a rule that cannot fail
/// proves nothing. declaration_test.cpp does this for the rules of every interface.
inline void check_rules_can_fail(const Findings& right, const std::vector<Broken>& broken,
                                 const std::set<std::string>& skipped = {}) {
  std::set<std::string> shown{"implements_a_known_interface",
                              "declares_itself",
                              "declares_known_traits",
                              "declares_parameter_names",
                              "documents_parameters",
                              "declares_possible_ranges",
                              "declares_legal_defaults",
                              "declares_legal_examples",
                              "declares_examples",
                              "is_created",
                              "works_at_the_ends_of_its_ranges",
                              "survives_the_suite"};
  for (const Broken& defect : broken) {
    INFO(defect.rule << ", " << defect.text);
    CHECK(not_caught(defect.findings, defect.rule, defect.text) == "");
    shown.insert(defect.rule);
  }
  for (const auto& finding : right) {
    INFO(finding.rule << ": " << finding.detail);
    CHECK(finding.verdict == (skipped.count(finding.rule) != 0
                                  ? privgrad::testing::Verdict::skipped
                                  : privgrad::testing::Verdict::passed));
    CHECK(shown.count(finding.rule) + skipped.count(finding.rule) >= 1);
  }
}

/// Returns the rules of ReproducibleRows and ExactClipping. exact_rules_test.cpp tests them; they
/// are skipped for programs without these abilities.
inline const std::set<std::string>& exact_rules() {
  static const std::set<std::string> rules{"rows_have_the_same_bits_at_any_place",
                                           "exact_groups_are_the_layers",
                                           "exact_norms_are_those_of_the_rows",
                                           "cells_are_the_scaled_gradients",
                                           "a_thousand_passes_are_alike",
                                           "cells_depend_on_their_example_alone",
                                           "cells_are_added_as_they_are",
                                           "pieces_are_the_sum",
                                           "a_scale_of_zero_takes_a_group_out",
                                           "cells_do_not_depend_on_threads",
                                           "passes_run_concurrently"};
  return rules;
}

/// Returns the rules of ResidentSteps, which resident_rules_test.cpp tests.
inline const std::set<std::string>& resident_rules() {
  static const std::set<std::string> rules{
      "resident_rows_are_clipped_by_the_rule", "resident_sums_are_the_cells",
      "resident_factors_are_the_cells",        "resident_releases_have_the_ordered_noise",
      "resident_updates_follow_the_rule",      "resident_updates_refuse_what_is_not_finite",
      "resident_numbers_are_as_given"};
  return rules;
}

/// Returns the rules of abilities that a program may lack.
inline std::set<std::string> exact_and_resident_rules() {
  std::set<std::string> all = exact_rules();
  all.insert(resident_rules().begin(), resident_rules().end());
  return all;
}
