#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "best_run.hpp"
#include "conversion.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"
#include "privgrad/joint_gaussian.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/upward.hpp"
#include "privgrad/value.hpp"
#include "spent.hpp"

namespace {

using namespace privgrad;

using Reason = std::optional<std::string>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using rdp::CostKind;
using rdp::Selection;
using rdp::Spent;

/// Returns this event's release of Laplace or discrete Gaussian noise, if the event consists of
/// just one such release; otherwise nothing.
std::optional<Event> single_release(const Event& event) {
  const auto parts = flatten(event);
  if (parts.size() != 1 || parts.front().count != 1) return {};
  const Event& only = parts.front().event;
  if (!std::holds_alternative<LaplaceEvent>(only.kind()) &&
      !std::holds_alternative<DiscreteGaussianEvent>(only.kind()))
    return {};
  return only;
}

/// Returns the default orders: 1.1 to 10.9 by tenths, 11 to 63, and four large ones (the list of
/// dp_accounting, which contains the list of Opacus).
std::vector<double> default_orders() {
  std::vector<double> orders;
  for (int tenths = 11; tenths < 110; ++tenths) orders.push_back(tenths / 10.0);
  for (int order = 11; order <= 63; ++order) orders.push_back(order);
  orders.insert(orders.end(), {128.0, 256.0, 512.0, 1024.0});
  return orders;
}

/// Renyi differential privacy (Mironov 2017): at every order, the divergences of the releases add
/// up (Proposition 1), and every order proves an (epsilon, delta); the best is reported.
///
/// The cost of each event, where s is the sensitivity of a sum of contributions of norm at most 1
/// (1 for add_or_remove_one and zero_out, 2 for replace_one):
/// - gaussian: D_a = a (s / noise_multiplier)^2 / 2, exact;
/// - zcdp: D_a <= a rho; discrete_gaussian: the same with rho = sensitivity^2 / (2 sigma^2)
///   (Canonne, Kamath and Steinke 2020, Theorem 4), with the event's own sensitivity;
/// - laplace: exact, see laplace_log_moment();
/// - poisson_sampled Gaussians, or one Laplace or discrete Gaussian: exact, see SampledGaussian and
///   SampledLaplace. add_or_remove_one: both directions. zero_out: the example's contribution is
///   present with probability q and absent otherwise in one data set, always absent in the other,
///   and all other contributions have the same distribution in both, so the pair of distributions
///   is the same. replace_one: refused below q = 1, because no dominating pair is proved here;
/// - sampled_without_replacement Gaussians, replace_one only: see SubsetGaussian;
/// - repeat_and_select of any of these: see best_run.hpp; the orders that it needs for one run are
///   searched in the list that is used for the best order;
/// - composed, self_composed: sums; non_private: infinite.
/// Rounding: upwards in every step, so the answers stay upper bounds.
class Rdp : public Accountant {
 public:
  explicit Rdp(const Params& params)
      : conversion_(params.text("conversion") == "classic" ? rdp::Conversion::classic
                                                           : rdp::Conversion::improved),
        orders_{.list = default_orders(), .refine = params.boolean("refine")} {
    if (!params.has("orders")) return;
    orders_ = {.list = params.reals("orders"), .refine = false};
    std::ranges::sort(orders_.list);
    orders_.list.erase(std::unique(orders_.list.begin(), orders_.list.end()), orders_.list.end());
  }
  /// Uses only the order `order`.
  explicit Rdp(double order)
      : conversion_(rdp::Conversion::improved), orders_{.list = {order}, .refine = false} {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    spent_ = {};
  }

  Reason refuses(const Event& event) const override {
    return first_refusal(
        event,
        Overloaded{Accepts<GaussianEvent, LaplaceEvent, DiscreteGaussianEvent, ZcdpEvent,
                           NonPrivateEvent>{},
                   [this](const PoissonSampledEvent& e) { return refuses_poisson(e); },
                   [this](const SampledWithoutReplacementEvent& e) { return refuses_subset(e); },
                   [this](const RepeatAndSelectEvent& e) -> Reason {
                     for (const Event& candidate : e.candidates) {
                       if (const Reason why = refuses(candidate))
                         return "repeat_and_select of " + *why;
                     }
                     return std::nullopt;
                   }});
  }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw PrivacyError(*reason);
    add_all(event, count, spent_);
  }

  PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw ConfigError("rdp: delta is " + format_number(delta) + ", allowed is (0, 1)");
    }
    const std::scoped_lock lock(mutex_);
    if (spent_.nothing()) return answer(0.0, "");
    if (spent_.infinite()) return answer(kInfinity, "a release without noise");
    const rdp::Best best = rdp::least(orders_for(spent_.convex()), [&](double order) {
      return rdp::epsilon_at(conversion_, order, log_moment(spent_, order), delta);
    });
    const double pure = orders_.refine ? pure_epsilon(spent_) : kInfinity;
    if (pure < best.value) return answer(pure, "order = infinity");
    return answer(std::max(0.0, best.value), note(best));
  }

  PrivacyAnswer delta(double epsilon) const override {
    if (!(std::isfinite(epsilon) && epsilon >= 0.0)) {
      throw ConfigError("rdp: epsilon is " + format_number(epsilon) + ", allowed is [0, inf)");
    }
    const std::scoped_lock lock(mutex_);
    if (spent_.nothing()) return answer(0.0, "");
    if (spent_.infinite()) return answer(1.0, "a release without noise");
    if (orders_.refine && pure_epsilon(spent_) <= epsilon) return answer(0.0, "order = infinity");
    const rdp::Best best = rdp::least(orders_for(spent_.convex()), [&](double order) {
      return rdp::log_delta_at(conversion_, order, log_moment(spent_, order), epsilon);
    });
    return answer(delta_of(best.value), note(best));
  }

 private:
  Reason refuses_poisson(const PoissonSampledEvent& e) const {
    if (e.sampling_probability == 0.0) return {};
    if (e.sampling_probability == 1.0) return refuses(*e.of);
    if (!joint_gaussian(*e.of) && !single_release(*e.of)) {
      return "poisson_sampled: rdp has a proof for Gaussians on one batch, or one laplace or "
             "discrete_gaussian, got " +
             std::string(e.of->name()) +
             " inside; set `amplification: false` on the sampler, or do not sample";
    }
    if (adjacency_ == Adjacency::replace_one) {
      return "poisson_sampled: rdp has no proof under replace_one; use add_or_remove_one or "
             "zero_out";
    }
    return {};
  }

  Reason refuses_subset(const SampledWithoutReplacementEvent& e) const {
    if (e.sample_size == 0) return {};
    if (e.sample_size == e.source_dataset_size) return refuses(*e.of);
    if (!joint_gaussian(*e.of)) {
      return "sampled_without_replacement: rdp has a proof for sampled Gaussians only, got " +
             std::string(e.of->name()) + " inside";
    }
    if (adjacency_ != Adjacency::replace_one) {
      return "sampled_without_replacement: rdp has a proof under replace_one only (the size of the "
             "data is public there), the adjacency is " +
             std::string(to_text(adjacency_));
    }
    return {};
  }

  /// \param event  an event that is not refused.
  void add_all(const Event& event, std::uint64_t count, Spent& spent) const {
    for (const auto& [part, repeats] : flatten(event)) {
      std::uint64_t total = 0;
      if (__builtin_mul_overflow(repeats, count, &total)) {
        throw ConfigError("rdp: the number of releases does not fit in 64 bits");
      }
      if (total > 0) add(part, total, spent);
    }
  }

  /// \param event  an element of flatten() that is not refused.
  /// \param count  above 0.
  void add(const Event& event, std::uint64_t count, Spent& spent) const {
    const double sensitivity = sensitivity_of_unit_bound(adjacency_);
    const auto add_gaussian = [&](double ratio) {
      spent.add_concentrated(ratio == 0.0 ? 0.0 : round_up(0.5 * ratio * ratio, 4.0), count);
    };
    std::visit(Overloaded{
                   [&](const GaussianEvent& e) { add_gaussian(sensitivity / e.noise_multiplier); },
                   [&](const LaplaceEvent& e) {
                     // Halving the noise is exact.
                     spent.add({CostKind::laplace, e.noise_multiplier / sensitivity, 1.0}, count);
                   },
                   [&](const DiscreteGaussianEvent& e) {
                     add_gaussian(static_cast<double>(e.sensitivity) / e.sigma);
                   },
                   [&](const ZcdpEvent& e) { spent.add_concentrated(e.rho, count); },
                   [&](const PoissonSampledEvent& e) { add_poisson(e, count, spent); },
                   [&](const SampledWithoutReplacementEvent& e) {
                     const double fraction = static_cast<double>(e.sample_size) /
                                             static_cast<double>(e.source_dataset_size);
                     add_sampled(*e.of, CostKind::subset_gaussian, fraction, count, spent);
                   },
                   [&](const RepeatAndSelectEvent& e) { add_selection(e, count, spent); },
                   [&](const auto&) { spent.add_concentrated(kInfinity, count); },
               },
               event.kind());
  }

  void add_selection(const RepeatAndSelectEvent& event, std::uint64_t count, Spent& spent) const {
    std::vector<Spent> candidates(event.candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i)
      add_all(event.candidates[i], 1, candidates[i]);
    spent.add(event, std::move(candidates), count);
  }

  void add_poisson(const PoissonSampledEvent& event, std::uint64_t count, Spent& spent) const {
    const double q = event.sampling_probability;
    if (q == 0.0 || q == 1.0 || joint_gaussian(*event.of))
      return add_sampled(*event.of, CostKind::poisson_gaussian, q, count, spent);
    const Event release = *single_release(*event.of);
    if (const auto* laplace = std::get_if<LaplaceEvent>(&release.kind()))
      return spent.add({CostKind::poisson_laplace, laplace->noise_multiplier, q}, count);
    const auto& discrete = std::get<DiscreteGaussianEvent>(release.kind());
    if (discrete.sensitivity == 0) return;
    spent.add(
        {CostKind::poisson_discrete, discrete.sigma, q, static_cast<double>(discrete.sensitivity)},
        count);
  }

  void add_sampled(const Event& of, CostKind kind, double fraction, std::uint64_t count,
                   Spent& spent) const {
    if (fraction == 0.0) return;
    if (fraction == 1.0) {
      add_all(of, count, spent);
      return;
    }
    const double multiplier = joint_gaussian(of)->low;
    if (std::isinf(multiplier)) return;  // nothing is released
    if (multiplier == 0.0) {
      spent.add_concentrated(kInfinity, count);
      return;
    }
    spent.add({kind, multiplier / sensitivity_of_unit_bound(adjacency_), fraction}, count);
  }

  rdp::Orders orders_for(bool convex) const {
    rdp::Orders orders = orders_;
    orders.unimodal = convex;
    return orders;
  }

  static double delta_of(double log_delta) {
    if (!(log_delta < 0.0)) return 1.0;
    return std::min(1.0, round_up(std::exp(log_delta), 4.0));
  }

  /// Returns the log moment of all composed events.
  double log_moment(Spent& spent, double order) const {
    UpwardSum sum;
    sum.add(spent.log_moment(order));
    for (Selection& one : spent.selections()) {
      if (!one.nothing()) sum.add(multiply_up(one.count, log_moment(one, order)));
    }
    return sum.total();
  }

  double log_moment(Selection& selection, double order) const {
    const auto found = selection.moments.find(order);
    if (found != selection.moments.end()) return found->second;
    const double one = log_moment_of_run(selection, order);
    const double mean = selection.event.mean;
    const double moment =
        selection.event.is_poisson()
            ? rdp::best_of_poisson(order, one, mean,
                                   delta_of_run(selection, rdp::poisson_epsilon(order)))
            : rdp::best_of_negative_binomial(order, one, mean, selection.event.shape,
                                             log_ratio(selection));
    return selection.moments[order] = moment;
  }

  double log_moment_of_run(Selection& selection, double order) const {
    double most = 0.0;
    for (Spent& one : selection.candidates) most = std::max(most, log_moment(one, order));
    return most;
  }

  rdp::Orders orders_for_run(const Selection& selection) const {
    return orders_for(
        std::ranges::all_of(selection.candidates, [](const Spent& one) { return one.convex(); }));
  }

  double delta_of_run(Selection& selection, double epsilon) const {
    if (orders_.refine && pure_epsilon_of_run(selection) <= epsilon) return 0.0;
    return delta_of(rdp::least(orders_for_run(selection), [&](double order) {
                      return rdp::log_delta_at(conversion_, order,
                                               log_moment_of_run(selection, order), epsilon);
                    }).value);
  }

  double log_ratio(Selection& selection) const {
    if (selection.log_ratio) return *selection.log_ratio;
    const double most = selection.log_inverse_gamma;
    double least =
        rdp::least(orders_for_run(selection), [&](double order) {
          return rdp::largest_log_ratio(order, log_moment_of_run(selection, order), most);
        }).value;
    if (orders_.refine) least = std::min(least, pure_epsilon_of_run(selection));
    selection.log_ratio = std::min(least, most);
    return *selection.log_ratio;
  }

  double pure_epsilon_of_run(Selection& selection) const {
    double most = 0.0;
    for (Spent& one : selection.candidates) most = std::max(most, pure_epsilon(one));
    return most;
  }

  /// Returns the divergence of order infinity. For a selection it is one run's divergence e plus
  /// the logarithm of the largest factor of f' (best_run.hpp). This logarithm is at most (1 + eta)
  /// min(e, ln(1 / gamma)) for the negative binomial distribution; for a Poisson number, it is m
  /// times a run's total variation, which is at most tanh(e / 2).
  double pure_epsilon(Spent& spent) const {
    UpwardSum sum;
    sum.add(spent.pure_epsilon());
    for (Selection& one : spent.selections()) {
      const double run = pure_epsilon_of_run(one);
      if (run == 0.0) continue;
      const double factor = one.event.is_poisson()
                                ? one.event.mean * std::tanh(0.5 * run)
                                : (1.0 + one.event.shape) * std::min(run, one.log_inverse_gamma);
      sum.add(multiply_up(one.count, round_up(run + factor, 8.0)));
    }
    return sum.total();
  }

  std::string note(const rdp::Best& best) const {
    std::string text = "order = " + format_number(best.order);
    if (orders_.list.size() == 1 && !orders_.refine) return text;  // no other order was tried
    if (best.at_low_edge) text += ", the smallest allowed: a smaller one may prove less epsilon";
    if (best.at_high_edge) text += ", the largest allowed: a larger one may prove less epsilon";
    return text;
  }

  static PrivacyAnswer answer(double value, std::string note) {
    if (std::isnan(value)) throw NumericError("rdp: the computation gave no number");
    return {.value = value, .bound = BoundKind::upper, .lower = {}, .note = std::move(note)};
  }

  rdp::Conversion conversion_;
  rdp::Orders orders_;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  mutable std::mutex mutex_;  ///< Guards the values that queries store in spent_.
  mutable Spent spent_;
};

/// Renyi differential privacy at a single order that is fixed beforehand: a privacy filter.
///
/// epsilon(delta) is an increasing function of the sum of the divergences at that order, so "at
/// most the target" means "the sum is at most some B". A run within this limit has a divergence of
/// at most B at this order even if each release was chosen from earlier ones (Feldman and Zrnic
/// 2021, Theorem 4.3). This does not hold for the best of several orders, because the best order
/// would depend on the releases.
class RdpAtOneOrder final : public Rdp {
 public:
  explicit RdpAtOneOrder(const Params& params) : Rdp(params.real("order")) {}
  bool is_filter() const override { return true; }
};

void register_components(Registrar& registrar) {
  using param::boolean;
  using param::list;
  using param::real;
  using param::text;
  registrar.add<Accountant, Rdp>({
      .name = "rdp",
      .summary = "Renyi differential privacy, with amplification by sampling; an upper bound.",
      .reference =
          "Mironov 2017; Mironov, Talwar and Zhang 2019; Wang, Balle and Kasiviswanathan "
          "2019, Theorem 27; conversion: Canonne, Kamath and Steinke 2020, Proposition 12; the "
          "best of a random number of runs: Papernot and Steinke 2022, Theorems 2 and 6",
      .params =
          {text("conversion",
                "How divergences become (epsilon, delta): improved is the better proof, classic is "
                "rdp + ln(1/delta) / (order - 1), as papers print it.")
               .one_of({"improved", "classic"})
               .defaults_to("improved"),
           boolean("refine",
                   "Look for the best order between and beyond the default ones, over the real "
                   "numbers.")
               .defaults_to(true),
           list("orders",
                "Use exactly these orders, without refinement, as a published number may ask for.",
                real("", "").above(1.0).at_most(1e6))
               .at_least_items(1)
               .optional()},
  });
  registrar.add<Accountant, RdpAtOneOrder>({
      .name = "rdp_filter",
      .summary = "Renyi differential privacy at one fixed order: a privacy filter, which may guard "
                 "runs that are chosen from the results of earlier ones, sampled ones too.",
      .reference = "Feldman and Zrnic 2021; Mironov 2017; conversion: Canonne, Kamath and Steinke "
                   "2020, Proposition 12",
      .params = {real("order",
                      "The Renyi order. About 1 + 2 ln(1/delta) / epsilon is right for a budget "
                      "that is spent whole; it cannot be changed later.")
                     .above(1.0)
                     .at_most(1e6)
                     .defaults_to(16.0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.rdp", "0.1.0", "accountant/rdp accountant/rdp_filter",
                register_components)
