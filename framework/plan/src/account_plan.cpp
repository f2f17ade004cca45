#include "privgrad/plan/account_plan.hpp"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr const char* kKey = "privacy.account";

/// The events that may have the largest cost: the plan's own or, with fed_avg, one for each client.
std::vector<Event> costs(const Plan& plan) {
  if (!plan.federated || plan.federated->at_server) return {plan.event};
  std::vector<Event> events;
  for (const auto& client : plan.federated->clients) events.push_back(client.plan->event);
  return events;
}

/// The event that costs most according to the filter. One event is enough, because an example
/// belongs to one client.
Event largest(const std::vector<Event>& events, Accountant& filter, const AccountTerms& terms) {
  return *std::ranges::max_element(events, {}, [&](const Event& event) {
    return cost_by_filter(filter, terms.adjacency, event);
  });
}

/// Refuses public noise and unpaid outputs, because an account's statement excludes them.
void refuse_what_is_not_secret(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  const std::string pays = "privacy.account pays only for runs ";
  if (manifest.seed) {
    throw privacy_error_at(manifest, "seed",
                           "makes noise that anyone with the seed can remove, and " + pays +
                               "whose noise is secret; leave seed out");
  }
  if (plan.unaccounted.empty()) return;
  const Unaccounted& first = plan.unaccounted.front();
  throw PrivacyError(first.position + ": error: " + pays +
                     "all of whose outputs are accounted for, and '" + first.what +
                     "' is not; use mode: release");
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json facts_of(const AccountUse& use, const std::string& id) {
  return {{"name", use.terms.name}, {"opened", use.opened}, {"reservation", id}};
}

}  // namespace

void check_account(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  if (!manifest.account) return;
  const AccountTerms& terms = manifest.account->terms;
  const auto refuse = [&](const std::string& what) {
    throw privacy_error_at(manifest, kKey, what);
  };
  if (manifest.noise_off) refuse("cannot pay for a run without noise");
  if (terms.adjacency != manifest.adjacency) {
    refuse("was opened for " + std::string(to_text(terms.adjacency)) + ", but the run is for " +
           std::string(to_text(manifest.adjacency)));
  }
  if (terms.unit != plan.unit) {
    refuse("was opened to protect each " + std::string(to_text(terms.unit)) +
           ", but the run protects each " + std::string(to_text(plan.unit)));
  }
  refuse_what_is_not_secret(plan);
  const auto filter = make_guard(manifest.account->filter);
  if (!filter->is_filter())
    refuse("was opened with " + manifest.account->filter.name() +
           ", which is not a privacy filter");
  filter->start(terms.adjacency);
  for (const Event& event : costs(plan)) {
    if (const auto why = filter->refuses(event)) refuse("cannot pay for this run: " + *why);
  }
}

void require_account(const Manifest& manifest) {
  const Value* const privacy = manifest.resolved.find("privacy");
  if (manifest.account || privacy == nullptr || privacy->find("account") == nullptr) return;
  throw IoError(std::string(kKey) + ": the account could not be read, and nothing else may pay");
}

std::optional<AccountFacts> account_facts(const std::optional<AccountUse>& use) {
  if (!use) return std::nullopt;
  return AccountFacts{.name = use->terms.name,
                      .opened = use->opened,
                      .accountant = use->filter.component->full_name(),
                      .target_epsilon = use->terms.target_epsilon,
                      .target_delta = use->terms.target_delta};
}

Reservation::Reservation(const Plan& plan, const std::filesystem::path& directory)
    : use_(*plan.manifest->account),
      account_(use_.file),
      filter_(make_guard(use_.filter)),
      cost_(largest(costs(plan), *filter_, use_.terms)) {
  if (account_.first_hash() != use_.opened)
    throw PrivacyError(use_.file.string() + ": the account was replaced since it was read");
  id_ = account_.reserve(*filter_, cost_,
                         {{"name", plan.manifest->name},
                          {"mode", plan.manifest->mode == Mode::release ? "release" : "research"},
                          {"directory", std::filesystem::absolute(directory).string()},
                          {"begun", utc_now()}});
}

Reservation::Reservation(const Plan& plan, std::string id)
    : use_(*plan.manifest->account),
      account_(use_.file),
      filter_(make_guard(use_.filter)),
      cost_(largest(costs(plan), *filter_, use_.terms)),
      id_(std::move(id)) {
  if (account_.first_hash() != use_.opened)
    throw PrivacyError(use_.file.string() + ": the account was replaced since it was read");
  const auto is_mine = [&](const AccountEntry& entry) {
    return entry.id == id_ && !entry.settled && entry.reserved == cost_;
  };
  const auto& entries = account_.entries();
  if (std::ranges::none_of(entries, is_mine)) {
    throw PrivacyError(use_.file.string() + ": holds no open reservation " + id_ +
                       " for this run's cost");
  }
}

Json Reservation::facts() const { return facts_of(use_, id_); }

void Reservation::give_back() { (void)account_.give_back(*filter_, id_); }

void Reservation::settle(const std::optional<Event>& cost, const std::string& status) {
  account_.settle(*filter_, id_, cost.value_or(cost_), status);
}

Json reservation_facts(const std::optional<AccountUse>& use, const std::string& id) {
  return use ? facts_of(*use, id) : Json(nullptr);
}

void settle_in_full(const Plan& plan, const std::string& id, const std::string& status) {
  const AccountUse& use = *plan.manifest->account;
  DataAccount account(use.file);
  const auto is_settled = [&](const AccountEntry& entry) {
    return entry.id == id && entry.settled;
  };
  if (std::ranges::any_of(account.entries(), is_settled)) return;
  const auto filter = make_guard(use.filter);
  account.settle(*filter, id, largest(costs(plan), *filter, use.terms), status);
}

}  // namespace privgrad::core
