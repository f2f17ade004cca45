// Runs the conformance suite on the test's own components, and reads its findings.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fault.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/testing/conformance.hpp"
#include "privgrad/trust/testing.hpp"

using Findings = std::vector<privgrad::testing::Finding>;

inline privgrad::testing::Setup test_setup(privgrad::Value params = {}) {
  return {.params = std::move(params),
          .make_released = privgrad::core::released_for_testing,
          .make_noise_order = privgrad::core::noise_order_for_testing,
          .release = privgrad::core::release_for_testing};
}

/// Returns the findings with this verdict, one line "rule: detail" each.
inline std::string findings_text(const Findings& findings, privgrad::testing::Verdict verdict) {
  std::string text;
  for (const auto& finding : findings) {
    if (finding.verdict == verdict) text += finding.rule + ": " + finding.detail + "\n";
  }
  return text;
}

inline const privgrad::testing::Finding* find_rule(const Findings& findings,
                                                   const std::string& rule) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const auto& finding) { return finding.rule == rule; });
  return found == findings.end() ? nullptr : &*found;
}

inline privgrad::Catalog catalog_of(privgrad::Factory factory) {
  privgrad::Catalog catalog;
  catalog.add(std::make_shared<privgrad::PluginIdentity>(), nullptr, {std::move(factory)});
  return catalog;
}

/// Runs the suite on a component of this program instead of a plugin's component.
inline Findings findings_on(privgrad::Factory factory, privgrad::Value given = {}) {
  const privgrad::Catalog catalog = catalog_of(std::move(factory));
  return privgrad::testing::check_component(catalog.components().front(),
                                            test_setup(std::move(given)));
}

inline std::optional<privgrad::testing::Finding> first_failure(const Findings& findings) {
  for (const auto& finding : findings) {
    if (finding.verdict == privgrad::testing::Verdict::failed) return finding;
  }
  return std::nullopt;
}

/// Returns the first rule that fails; later rules are not checked.
inline std::optional<privgrad::testing::Finding> first_failure_on(privgrad::Factory factory) {
  const privgrad::Catalog catalog = catalog_of(std::move(factory));
  const auto setup = test_setup();
  Findings done;
  while (privgrad::testing::check_next_rule(
      catalog.components().front(), setup, done, [](const std::string&) {},
      [&](const privgrad::testing::Finding& finding) { done.push_back(finding); })) {
    if (done.back().verdict == privgrad::testing::Verdict::failed) return done.back();
  }
  return std::nullopt;
}

/// Runs the suite on a fault of tests/faults.
inline Findings findings_on(const std::string& fault) {
  return findings_on(fault_named(fault).factory);
}
template <class Interface, class Impl>
Findings findings_on(privgrad::ComponentInfo info, privgrad::Value given = {}) {
  privgrad::Registrar registrar;
  registrar.add<Interface, Impl>(std::move(info));
  return findings_on(registrar.factories().front(), std::move(given));
}
template <class Interface, class Impl>
Findings findings_on(std::vector<privgrad::ParamSpec> params = {}) {
  return findings_on<Interface, Impl>({.name = "fixture",
                                       .summary = "A component made for a test.",
                                       .reference = "none: a definition",
                                       .params = std::move(params)});
}

/// Returns "" if the rule failed with a detail that contains the text; otherwise what happened.
inline std::string not_caught(const Findings& findings, const std::string& rule,
                              const std::string& text) {
  const auto* finding = find_rule(findings, rule);
  if (finding == nullptr) return "there is no rule " + rule;
  if (finding->verdict != privgrad::testing::Verdict::failed) {
    return rule + " " + std::string(to_text(finding->verdict)) + " " + finding->detail;
  }
  return finding->detail.find(text) != std::string::npos ? "" : "it says: " + finding->detail;
}
