// Tools for writing conformance rules: findings, comparisons, expected errors.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/error.hpp"
#include "privgrad/params.hpp"
#include "privgrad/testing/conformance.hpp"

namespace privgrad::testing {

using privgrad::to_text;  // argument-dependent lookup would not find it for a Shape

/// Thrown to end a rule's body: the promise was broken. Not a std::exception, so that no component
/// catches it.
struct Broken {
  std::string detail;
};

/// Thrown to end a rule's body: there was nothing to check.
struct NotChecked {
  std::string reason;
};

[[noreturn]] inline void broken(std::string detail) { throw Broken{std::move(detail)}; }

inline void require(bool kept, const std::string& detail) {
  if (!kept) broken(detail);
}

/// The arguments of check_next_rule(): the findings so far, and the functions to call.
struct NextRule {
  const std::vector<Finding>& done;
  const std::function<void(const std::string&)>& begins;
  const std::function<void(const Finding&)>& ends;
};

/// Thrown to leave the suite after the requested rule. Not a std::exception, like Broken.
struct RuleDone {};

/// Collects the findings on one component, and the parameters with which it is made.
class Checker {
 public:
  /// \param next  the only rule to check; null: all rules.
  Checker(const Component& component, const Setup& setup, const NextRule* next = nullptr)
      : component_(component), setup_(setup), next_(next) {}

  const Component& component() const { return component_; }
  const Setup& setup() const { return setup_; }
  const std::vector<ParamSpec>& specs() const { return component_.factory.info.params; }
  const Params& params() const { return params_; }
  void use(Params params) { params_ = std::move(params); }

  template <class Interface>
  ComponentPtr<Interface> make() const {
    return make<Interface>(params_);
  }
  template <class Interface>
  ComponentPtr<Interface> make(const Params& params) const {
    auto object = Catalog::create<Interface>(component_, params);
    if (object == nullptr) broken("create returned nothing");
    return object;
  }

  /// Runs the body and stores the finding. Later rules must not use results of the body.
  /// \returns whether the rule holds, that is, whether the body returns; true if not asked for.
  bool rule(std::string_view name, const std::function<void()>& body) {
    return check(name, body, false);
  }

  /// Like rule(), but later rules may use results of the body: if they are checked in another
  /// process, the body runs there again.
  bool prepare(std::string_view name, const std::function<void()>& body) {
    return check(name, body, true);
  }

  /// Runs the checks of all rules in `body`; errors outside the rules break the rule `name`.
  void all_rules(std::string_view name, const std::function<void()>& body);

  /// Records a rule that cannot be checked.
  void skip(std::string_view name, std::string reason);

  std::vector<Finding> take() { return std::move(findings_); }

 private:
  bool check(std::string_view name, const std::function<void()>& body, bool prepares);
  bool is_asked_for(std::string_view name) const;
  /// \returns the finding on this rule from an earlier process; null if there is none yet.
  const Finding* found_before(std::string_view name) const;
  bool keep(Finding finding);

  const Component& component_;
  const Setup& setup_;
  const NextRule* next_;
  Params params_;
  std::vector<Finding> findings_;
};

/// The error types of the SDK, for stating which of them are allowed.
enum class Thrown { nothing = 1, config, privacy, io, plugin, numeric, other };

std::string_view to_text(Thrown thrown);

/// Calls the function.
/// \returns which of the SDK's errors it threw; any other exception passes through.
Thrown outcome_of(const std::function<void()>& function, std::string* message = nullptr);

/// Breaks the rule unless the component declares the trait.
/// \param shown  the behaviour that requires the trait: "its recipe continues earlier noise".
void require_declared(const Checker& checker, std::string_view trait, const std::string& shown);

/// Breaks the rule unless the function throws exactly this error. `what` completes "... must
/// throw".
void require_throws(Thrown expected, const std::string& what,
                    const std::function<void()>& function);

/// \returns whether the call succeeded; breaks the rule if it threw an error that is not allowed.
bool accepted(const std::string& what, std::initializer_list<Thrown> allowed,
              const std::function<void()>& function);

/// Calls the function on two threads at once.
/// \returns both results; rethrows the first exception.
template <class Function>
auto on_two_threads(const Function& function) {
  using Result = decltype(function());
  std::array<Result, 2> results;
  std::array<std::exception_ptr, 2> problems;
  const auto work = [&](std::size_t i) {
    try {
      results[i] = function();
    } catch (...) {
      problems[i] = std::current_exception();
    }
  };
  {
    std::jthread other(work, 1);
    work(0);
  }
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
  return results;
}

/// Whether a and b are equal bit for bit: a NaN equals the same NaN, and 0 differs from -0.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);
bool same_bits(const std::vector<double>& a, const std::vector<double>& b);
bool same_bits(double a, double b);

/// Whether |a - b| <= relative * max(|a|, |b|) + absolute; an infinity equals itself.
bool close(double a, double b, double relative, double absolute = 0.0);

}  // namespace privgrad::testing
