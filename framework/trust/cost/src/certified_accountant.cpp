#include "privgrad/trust/certified_accountant.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/least_cost.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

std::string interval_text(const PrivacyAnswer& answer) {
  return "[" + format_number(answer.lower.value_or(0.0)) + ", " + format_number(answer.value) + "]";
}

std::string joined(const std::string& note, const std::string& more) {
  return note.empty() ? more : note + "; " + more;
}

class CertifiedAccountant final : public Accountant {
 public:
  CertifiedAccountant(ComponentPtr<Accountant> accountant, std::string name,
                      ComponentPtr<Accountant> certifier, std::string certifier_name)
      : accountant_(std::move(accountant)),
        certifier_(std::move(certifier)),
        name_(std::move(name)),
        certifier_name_(std::move(certifier_name)) {}

  void start(Adjacency adjacency) override {
    accountant_->start(adjacency);
    certifier_->start(adjacency);
  }

  std::optional<std::string> refuses(const Event& event) const override {
    if (auto why = accountant_->refuses(event)) return why;
    if (auto why = certifier_->refuses(event)) {
      return name_ + " is certified by " + certifier_name_ + ", which refuses: " + *why;
    }
    return std::nullopt;
  }

  void compose(const Event& event, std::uint64_t count) override {
    // Both accountants are asked first, so that they always hold the same events.
    if (const auto why = refuses(event)) throw PrivacyError(*why);
    certifier_->compose(event, count);
    accountant_->compose(event, count);
  }

  PrivacyAnswer epsilon(double delta) const override {
    return certified([delta](const Accountant& one) { return one.epsilon(delta); });
  }
  PrivacyAnswer delta(double epsilon) const override {
    return certified([epsilon](const Accountant& one) { return one.delta(epsilon); });
  }

 private:
  template <class Ask>
  PrivacyAnswer certified(Ask ask) const {
    PrivacyAnswer claim = checked(ask(*accountant_), name_);
    if (claim.bound == BoundKind::estimate) return claim;
    PrivacyAnswer proof;
    try {
      proof = checked(ask(*certifier_), certifier_name_);
    } catch (const NumericError& problem) {
      claim.bound = BoundKind::estimate;
      claim.note = joined(claim.note, "no certificate: " + std::string(problem.what()));
      return claim;
    }
    if (proof.bound == BoundKind::estimate) {
      throw PluginError("the accountant " + certifier_name_ + " certifies " + name_ +
                        " and answered with an estimate");
    }
    return common_part(std::move(claim), std::move(proof));
  }

  PrivacyAnswer common_part(PrivacyAnswer claim, PrivacyAnswer proof) const {
    // An exact answer without an interval is exact up to rounding errors.
    const bool is_exact = claim.bound == BoundKind::exact;
    const double claimed_low = claim.lower.value_or(is_exact ? claim.value * (1.0 - 1e-9) : 0.0);
    const double proven_low = proof.lower.value_or(0.0);
    const double high = std::min(claim.value, proof.value);
    const double low = std::max(claimed_low, proven_low);
    if (!(low <= high) || std::isinf(proof.value)) {
      proof.note = joined(proof.note, name_ + " claims " + interval_text(claim) +
                                          ", which is not inside what " + certifier_name_ +
                                          " proves: the proof counts");
      return proof;
    }
    claim.note = joined(
        claim.note, "inside " + interval_text(proof) + ", which " + certifier_name_ + " proves");
    claim.value = is_exact ? high : proof.value;
    claim.lower = proof.lower;  // the accountant's own lower bound is an estimate
    return claim;
  }

  ComponentPtr<Accountant> accountant_, certifier_;
  std::string name_, certifier_name_;
};

/// The certifier's proofs, for events that the accountant also accepts.
class ProvedAccountant final : public Accountant {
 public:
  ProvedAccountant(ComponentPtr<Accountant> accountant, const std::string& name,
                   ComponentPtr<Accountant> certifier, const std::string& certifier_name)
      : accountant_(std::move(accountant)),
        certifier_(std::move(certifier)),
        note_("proved by " + certifier_name + ", which certifies " + name) {}

  void start(Adjacency adjacency) override {
    accountant_->start(adjacency);
    certifier_->start(adjacency);
  }
  std::optional<std::string> refuses(const Event& event) const override {
    if (auto why = accountant_->refuses(event)) return why;
    return certifier_->refuses(event);
  }
  void compose(const Event& event, std::uint64_t count) override {
    if (const auto why = refuses(event)) throw PrivacyError(*why);
    certifier_->compose(event, count);
  }
  PrivacyAnswer epsilon(double delta) const override { return noted(certifier_->epsilon(delta)); }
  PrivacyAnswer delta(double epsilon) const override { return noted(certifier_->delta(epsilon)); }

 private:
  PrivacyAnswer noted(PrivacyAnswer proof) const {
    proof.note = joined(proof.note, note_);
    return proof;
  }

  ComponentPtr<Accountant> accountant_, certifier_;
  std::string note_;
};

/// Refuses answers, except estimates, that are below the least cost of the composed events.

class CheckedAccountant final : public Accountant {
 public:
  CheckedAccountant(ComponentPtr<Accountant> accountant, std::string name)
      : accountant_(std::move(accountant)), name_(std::move(name)) {}

  void start(Adjacency adjacency) override {
    accountant_->start(adjacency);
    least_ = LeastCost(adjacency);
  }
  std::optional<std::string> refuses(const Event& event) const override {
    return accountant_->refuses(event);
  }
  void compose(const Event& event, std::uint64_t count) override {
    accountant_->compose(event, count);
    least_.compose(event, count);
  }
  PrivacyAnswer epsilon(double delta) const override {
    return checked_epsilon(checked(accountant_->epsilon(delta), name_), delta, least_, name_);
  }
  PrivacyAnswer delta(double epsilon) const override {
    return checked_delta(checked(accountant_->delta(epsilon), name_), epsilon, least_, name_);
  }
  bool is_filter() const override { return accountant_->is_filter(); }

 private:
  ComponentPtr<Accountant> accountant_;
  std::string name_;
  LeastCost least_{Adjacency::add_or_remove_one};
};

ComponentPtr<Accountant> owned(Accountant* made) {
  return {made, {[](void* object) noexcept { delete static_cast<Accountant*>(object); }, nullptr}};
}

/// \tparam Certified combines the two accountants' answers if there is a certifier.
template <class Certified>
ComponentPtr<Accountant> made_checked(const Component& accountant, const Params& params,
                                      const Component* certifier) {
  const std::string& name = accountant.factory.info.name;
  auto made = Catalog::create<Accountant>(accountant, params);
  if (certifier != nullptr) {
    const Params defaults =
        Params::make(certifier->full_name(), certifier->factory.info.params, Value::Object{});
    made = owned(new Certified(std::move(made), name,
                               Catalog::create<Accountant>(*certifier, defaults),
                               certifier->factory.info.name));
  }
  return owned(new CheckedAccountant(std::move(made), name));
}

}  // namespace

const Component* certifier_of(const Component& accountant, const Catalog& catalog) {
  const std::string& name = accountant.factory.info.certified_by;
  if (name.empty()) return nullptr;
  try {
    return &catalog.find<Accountant>(name);
  } catch (const ConfigError& problem) {
    throw ConfigError(accountant.full_name() + " is certified by '" + name +
                      "': " + problem.what());
  }
}

ComponentPtr<Accountant> make_accountant(const Component& accountant, const Params& params,
                                         const Component* certifier) {
  return made_checked<CertifiedAccountant>(accountant, params, certifier);
}

ComponentPtr<Accountant> make_guard(const Component& accountant, const Params& params,
                                    const Component* certifier) {
  return made_checked<ProvedAccountant>(accountant, params, certifier);
}

namespace {

/// Whether this accountant, with its default parameters, accepts the event; false if it cannot be
/// made.
bool takes(const Component& component, const Event& event, Adjacency adjacency,
           const Catalog& catalog) {
  try {
    const Component& found = catalog.find<Accountant>(component.full_name());
    const Params defaults =
        Params::make(found.full_name(), found.factory.info.params, Value::Object{});
    const auto accountant = make_accountant(found, defaults, certifier_of(found, catalog));
    accountant->start(adjacency);
    return !accountant->refuses(event);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::string with_alternatives(const std::string& reason, const Event& event, Adjacency adjacency,
                              const Catalog& catalog, const Component& refusing) {
  std::string names;
  for (const Component* component : catalog.components_of(Accountant::kKind)) {
    if (component == &refusing || !takes(*component, event, adjacency, catalog)) continue;
    names += (names.empty() ? "" : ", ") + component->factory.info.name;
  }
  return reason + (names.empty() ? "; no other accountant here takes it"
                                 : "; other accountants that take it: " + names);
}

}  // namespace privgrad::core
