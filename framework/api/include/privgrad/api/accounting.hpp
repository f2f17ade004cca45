// The computations behind `privgrad account` and `privgrad calibrate`, and their JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/value.hpp"

namespace privgrad::api {

/// The accountant that a call names; after() makes instances of it.
class AccountantCall {
 public:
  /// \param accountant  a name, or an object in YAML's flow style: "{kind: zcdp, conversion:
  ///   classic}".
  /// \param called  the argument's name in errors.
  /// \throws ConfigError for an unknown accountant, or parameters that do not fit it.
  AccountantCall(const std::string& accountant, Adjacency adjacency, const Catalog& catalog,
                 const std::string& called = "accountant");

  const std::string& name() const { return component_->factory.info.name; }
  Adjacency adjacency() const { return adjacency_; }
  /// Lets refusals no longer name other accountants that accept the event.
  void name_no_others() { names_others_ = false; }
  /// Whether no other accountant is needed to prove its answers.
  bool proves_itself() const { return certifier_ == nullptr; }
  /// Returns a faster accountant that only estimates the answers, so that a search begins near its
  /// target: the same accountant without its certifier, or else a loaded accountant that this
  /// accountant certifies; nothing if there is neither.
  std::optional<AccountantCall> estimator() const;
  /// Returns the full name and all parameters, in the form of a manifest.
  Value resolved() const;

  /// Returns a new accountant that has composed `event` `count` times.
  /// \throws PrivacyError with the accountant's reason if it has no proof for the event.
  ComponentPtr<Accountant> after(const Event& event, std::uint64_t count = 1) const;

 private:
  const Component* component_;
  const Component* certifier_;
  Params params_;
  Adjacency adjacency_;
  const Catalog* catalog_;
  bool names_others_ = true;
};

/// Returns every loaded accountant that needs no parameters and proves its own answers.
std::vector<AccountantCall> proving_accountants(Adjacency adjacency, const Catalog& catalog);

/// Epsilon and delta, one of them given and the other computed.
struct Account {
  PrivacyAnswer answer;
  double epsilon = 0.0;
  double delta = 0.0;
};

/// Returns the cost of an event.
/// \param delta  in (0, 1), or nothing.
/// \param epsilon  at least 0 and finite, or nothing.
/// \throws ConfigError if a number is out of range, or if not exactly one of `delta` and `epsilon`
///   is given; PrivacyError if the accountant has no proof for the event.
Account account(const AccountantCall& call, const Event& event, std::optional<double> delta,
                std::optional<double> epsilon);

/// Returns the smallest proved answer among all accountants that accept the event, each with its
/// default parameters, and the accountant that gave it. All answers hold at once and depend only on
/// the event, so choosing the smallest is valid and reveals nothing about the data. Estimates do
/// not count, even if another accountant certifies them, because the certifier itself is asked.
/// \throws ConfigError as account(); PrivacyError with all reasons if no accountant has a proof.
std::pair<AccountantCall, Account> tightest_account(Adjacency adjacency, const Catalog& catalog,
                                                    const Event& event, std::optional<double> delta,
                                                    std::optional<double> epsilon);

/// Returns the output of `privgrad account --json`.
nlohmann::json to_json(const AccountantCall& call, const Account& account);

/// A target guarantee and the sampling, and either the noise or the number of steps; calibrate()
/// computes the missing number.
struct CalibrationQuestion {
  double target_epsilon = 0.0;        ///< > 0, finite.
  double target_delta = 0.0;          ///< In (0, 1).
  std::optional<double> sample_rate;  ///< Poisson sampling: in (0, 1].
  /// Alternatively: random allocation with epochs of this many steps, > 0. Incomplete epochs count
  /// in full, and a computed number of steps is a multiple of this number.
  std::optional<std::uint64_t> allocation;
  std::optional<std::uint64_t> steps;
  std::optional<double> noise_multiplier;  ///< > 0, finite.
};

struct Calibration {
  CalibrationQuestion question;
  double noise_multiplier = 0.0;
  std::uint64_t steps = 0;  ///< 0 if the budget does not allow one step.
  PrivacyAnswer
      result;  ///< At most the target; if `steps` is 0, the note gives the cost of one step.
};

/// \throws ConfigError if a number is out of range, or if not exactly one of noise and steps, and
///   one of sample rate and allocation, is given; PrivacyError if the accountant proves nothing.
Calibration calibrate(const AccountantCall& call, const CalibrationQuestion& question);

/// The smallest noise, or the most steps, among the proofs of all accountants; otherwise like
/// tightest_account().
std::pair<AccountantCall, Calibration> tightest_calibration(Adjacency adjacency,
                                                            const Catalog& catalog,
                                                            const CalibrationQuestion& question);

/// Returns the output of `privgrad calibrate --json`.
nlohmann::json to_json(const AccountantCall& call, const Calibration& calibration);

}  // namespace privgrad::api
