#include "checker.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <typeinfo>

namespace privgrad::testing {
namespace {

/// The type of the Error that is being handled.
Thrown kind_of_error() {
  try {
    throw;
  } catch (const ConfigError&) {
    return Thrown::config;
  } catch (const PrivacyError&) {
    return Thrown::privacy;
  } catch (const IoError&) {
    return Thrown::io;
  } catch (const PluginError&) {
    return Thrown::plugin;
  } catch (const NumericError&) {
    return Thrown::numeric;
  } catch (const Error&) {
    return Thrown::other;
  }
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// The readable name, such as "std::length_error", of a type with a mangled name.
std::string readable_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 && name != nullptr ? name.get() : type.name();
}

std::string message_of(const std::exception& problem) {
  const std::string text = one_line(problem.what());
  return text.empty() ? "(its what() is empty)" : text;
}

Finding judge(std::string_view name, const std::function<void()>& body) {
  Finding finding{std::string(name), Verdict::failed, ""};
  try {
    body();
    finding.verdict = Verdict::passed;
  } catch (const RuleDone&) {
    throw;
  } catch (const Broken& promise) {
    finding.detail = one_line(promise.detail);
  } catch (const NotChecked& nothing) {
    finding.verdict = Verdict::skipped;
    finding.detail = one_line(nothing.reason);
  } catch (const Error& problem) {
    finding.detail = "an unexpected " + std::string(to_text(kind_of_error())) +
                     " was thrown: " + message_of(problem);
  } catch (const std::bad_alloc&) {
    finding.detail = "it ran out of memory (std::bad_alloc)";
  } catch (const std::exception& problem) {
    finding.detail = "an exception that is not a privgrad::Error was thrown (" +
                     readable_name(typeid(problem)) + "): " + message_of(problem);
  } catch (...) {
    finding.detail = "something that is not an exception was thrown";
  }
  return finding;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace

bool Checker::is_asked_for(std::string_view name) const {
  const std::vector<std::string>& rules = setup_.rules;
  return rules.empty() || std::ranges::find(rules, name) != rules.end();
}

bool Checker::check(std::string_view name, const std::function<void()>& body, bool prepares) {
  if (!prepares && !is_asked_for(name)) return true;
  if (const Finding* before = found_before(name)) {
    const bool kept = before->verdict == Verdict::passed;
    findings_.push_back(*before);
    if (!kept || !prepares) return kept;
    const Finding again = judge(name, body);
    if (again.verdict != Verdict::passed) {
      broken(std::string(name) + " held at first, but not when it was repeated: " + again.detail);
    }
    return true;
  }
  if (next_ != nullptr) next_->begins(std::string(name));
  return keep(judge(name, body));
}

void Checker::all_rules(std::string_view name, const std::function<void()>& body) {
  Finding finding = judge(name, body);
  const bool is_known = next_ != nullptr && findings_.size() < next_->done.size() &&
                        next_->done[findings_.size()].rule == name;
  if (!is_known) keep(std::move(finding));
}

void Checker::skip(std::string_view name, std::string reason) {
  if (!is_asked_for(name)) return;
  if (const Finding* before = found_before(name)) {
    findings_.push_back(*before);
  } else {
    keep({std::string(name), Verdict::skipped, std::move(reason)});
  }
}

const Finding* Checker::found_before(std::string_view name) const {
  if (next_ == nullptr || findings_.size() >= next_->done.size()) return nullptr;
  const Finding& before = next_->done[findings_.size()];
  if (before.rule == name) return &before;
  // The list of rules follows from the component's kind, abilities and declaration, so one of these
  // three has changed.
  broken("where " + before.rule + " was checked before, it leads to " + std::string(name) +
         " when it is made again");
}

bool Checker::keep(Finding finding) {
  const bool kept = finding.verdict == Verdict::passed;
  if (next_ != nullptr) {
    next_->ends(finding);
    throw RuleDone{};
  }
  findings_.push_back(std::move(finding));
  return kept;
}

std::string_view to_text(Thrown thrown) {
  switch (thrown) {
    case Thrown::nothing:
      return "nothing";
    case Thrown::config:
      return "ConfigError";
    case Thrown::privacy:
      return "PrivacyError";
    case Thrown::io:
      return "IoError";
    case Thrown::plugin:
      return "PluginError";
    case Thrown::numeric:
      return "NumericError";
    case Thrown::other:
      return "Error";
  }
  return "?";
}

Thrown outcome_of(const std::function<void()>& function, std::string* message) {
  try {
    function();
    return Thrown::nothing;
  } catch (const Error& problem) {
    if (message != nullptr) *message = problem.what();
    return kind_of_error();
  }
}

void require_declared(const Checker& checker, std::string_view trait, const std::string& shown) {
  const std::vector<std::string>& traits = checker.component().factory.info.traits;
  require(std::ranges::find(traits, trait) != traits.end(),
          shown + ", and it does not declare the trait '" + std::string(trait) +
              "' (ComponentInfo::traits): runs with it would be refused");
}

void require_throws(Thrown expected, const std::string& what,
                    const std::function<void()>& function) {
  std::string message;
  const Thrown thrown = outcome_of(function, &message);
  if (thrown == expected) return;
  broken(what + " must throw " + std::string(to_text(expected)) + ", not " +
         std::string(to_text(thrown)) + (message.empty() ? "" : " (" + message + ")"));
}

bool accepted(const std::string& what, std::initializer_list<Thrown> allowed,
              const std::function<void()>& function) {
  std::string message;
  const Thrown thrown = outcome_of(function, &message);
  if (thrown == Thrown::nothing) return true;
  if (std::ranges::find(allowed, thrown) != allowed.end()) return false;
  broken(what + " threw " + std::string(to_text(thrown)) +
         ", which its interface does not allow: " + message);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) { return same(a, b); }
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) { return same(a, b); }
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool close(double a, double b, double relative, double absolute) {
  if (a == b) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)) + absolute;
}

}  // namespace privgrad::testing
