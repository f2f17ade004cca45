#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "conversion.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"
#include "privgrad/joint_gaussian.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/upward.hpp"
#include "privgrad/value.hpp"
#include "renyi.hpp"

namespace {

using privgrad::Adjacency;
using privgrad::Event;
using Reason = std::optional<std::string>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();

// Moments and quadrature nodes are kept for up to so many distinct settings and values; beyond that
// they are computed again when needed.
constexpr std::size_t kKeptSettings = 16384;
constexpr std::size_t kKeptMoments = std::size_t{1} << 22U;

using privgrad::Overloaded;

/// The one release of Laplace or discrete Gaussian noise that this event consists of, or nothing.
std::optional<Event> single_release(const Event& event) {
  const auto parts = privgrad::flatten(event);
  if (parts.size() != 1 || parts.front().count != 1) return {};
  const Event& only = parts.front().event;
  if (!std::holds_alternative<privgrad::LaplaceEvent>(only.kind()) &&
      !std::holds_alternative<privgrad::DiscreteGaussianEvent>(only.kind()))
    return {};
  return only;
}

/// The field's default orders: 1.1 to 10.9 by tenths, 11 to 63, and four far ones (dp_accounting's
/// list, which contains Opacus').
std::vector<double> default_orders() {
  std::vector<double> orders;
  for (int tenths = 11; tenths < 110; ++tenths) orders.push_back(tenths / 10.0);
  for (int order = 11; order <= 63; ++order) orders.push_back(order);
  orders.insert(orders.end(), {128.0, 256.0, 512.0, 1024.0});
  return orders;
}

/// The kinds of release whose log moments are not a multiple of a (a - 1).
enum class CostKind {
  laplace,
  poisson_gaussian,
  poisson_laplace,
  poisson_discrete,
  subset_gaussian
};

struct Setting {
  CostKind kind = CostKind::laplace;
  double noise = 0.0;        ///< Over the sensitivity under the adjacency in use, or its own.
  double fraction = 1.0;     ///< Share of the data that is sampled.
  double sensitivity = 1.0;  ///< Of a discrete Gaussian, whose noise is in the grid's units.
  auto operator<=>(const Setting&) const = default;  // NOLINT(modernize-use-nullptr): clang 14 errs
};

/// The log moments of one setting.
class Moments {
 public:
  explicit Moments(const Setting& setting) : impl_(make(setting)) {}

  double at(double order) {
    return std::visit(
        Overloaded{[&](double scale) { return rdp::laplace_log_moment(scale, order); },
                   [&](auto& sampled) { return sampled.log_moment(order); }},
        impl_);
  }

 private:
  using Impl = std::variant<double, rdp::SampledGaussian, rdp::SampledLaplace, rdp::SubsetGaussian>;
  static Impl make(const Setting& setting) {
    switch (setting.kind) {
      case CostKind::laplace:
        return setting.noise;
      case CostKind::poisson_gaussian:
        return rdp::SampledGaussian(setting.fraction, setting.noise);
      case CostKind::poisson_laplace:
        return rdp::SampledLaplace(setting.fraction, setting.noise);
      case CostKind::poisson_discrete:
        return rdp::SampledGaussian::discrete(setting.fraction, setting.noise, setting.sensitivity);
      case CostKind::subset_gaussian:
        return rdp::SubsetGaussian(setting.fraction, setting.noise);
    }
    throw privgrad::PluginError("rdp: a setting of no kind");
  }
  Impl impl_;
};

/// Everything composed so far, and its log moment at any order.
class Spent {
 public:
  void add_concentrated(double rho, std::uint64_t count) {
    if (count == 0 || rho == 0.0) return;
    rho_.add(privgrad::multiply_up(count, rho));
    only_bounded_ = false;
  }
  void add(const Setting& setting, std::uint64_t count) {
    if (count == 0) return;
    const auto [place, is_new] = index_.try_emplace(setting, settings_.size());
    if (is_new) {
      settings_.push_back(setting);
      counts_.push_back(0);
      any_subset_ |= setting.kind == CostKind::subset_gaussian;
      only_bounded_ &=
          setting.kind == CostKind::laplace || setting.kind == CostKind::poisson_laplace;
    }
    std::uint64_t& total = counts_[place->second];
    if (__builtin_add_overflow(total, count, &total)) {
      throw privgrad::ConfigError("rdp: the number of releases does not fit in 64 bits");
    }
  }

  bool nothing() const { return settings_.empty() && rho_.total() == 0.0; }
  bool infinite() const { return std::isinf(rho_.total()); }

  /// Whether the moments are those of the mechanisms, which are convex, and not a bound on them.
  bool convex() const { return !any_subset_; }

  /// The sum of the pure epsilons: the divergence of order infinity.
  double pure_epsilon() const {
    if (!only_bounded_) return kInfinity;
    privgrad::UpwardSum sum;
    for (std::size_t i = 0; i < settings_.size(); ++i) {
      const Setting& one = settings_[i];
      sum.add(privgrad::multiply_up(
          counts_[i], one.kind == CostKind::laplace
                          ? privgrad::round_up(1.0 / one.noise, 2.0)
                          : rdp::SampledLaplace(one.fraction, one.noise).pure_epsilon()));
    }
    return sum.total();
  }

  /// K of the whole composition; keeps what it computes. Moments are added in the order in which
  /// settings first came, so that the result does not depend on earlier queries.
  double log_moment(double order) {
    privgrad::UpwardSum sum;
    const double concentrated = rdp::concentrated_log_moment(rho_.total(), order);
    sum.add(concentrated);
    const auto times = [&](std::size_t i, double moment) {
      sum.add(privgrad::multiply_up(counts_[i], moment));
    };
    if ((kept_.size() + 1) * settings_.size() > kKeptMoments) {
      kept_.clear();
      if (settings_.size() > kKeptMoments) {
        for (std::size_t i = 0; i < settings_.size(); ++i) times(i, moment(i, order));
        return sum.total();
      }
    }
    std::vector<double>& moments = kept_[order];
    while (moments.size() < settings_.size()) moments.push_back(moment(moments.size(), order));
    for (std::size_t i = 0; i < settings_.size(); ++i) times(i, moments[i]);
    return sum.total();
  }

 private:
  double moment(std::size_t i, double order) {
    if (i >= kKeptSettings) return Moments(settings_[i]).at(order);
    while (sources_.size() <= i) sources_.emplace_back(settings_[sources_.size()]);
    return sources_[i].at(order);
  }

  privgrad::UpwardSum rho_;
  std::map<Setting, std::size_t> index_;
  std::vector<Setting> settings_;
  std::vector<std::uint64_t> counts_;
  bool any_subset_ = false;
  bool only_bounded_ = true;
  std::vector<Moments> sources_;                ///< For the first settings.
  std::map<double, std::vector<double>> kept_;  ///< By order: for each of the first settings.
};

/// Renyi differential privacy (Mironov 2017): at every order the divergences of the releases add
/// (Proposition 1), and every order proves an (epsilon, delta); the best one is reported.
///
/// The cost of each event, with s the sensitivity of a sum of contributions of norm at most 1
/// (1 for add_or_remove_one and zero_out, 2 for replace_one):
/// - gaussian: D_a = a (s / noise_multiplier)^2 / 2, exact;
/// - zcdp: D_a <= a rho; discrete_gaussian: the same with rho = sensitivity^2 / (2 sigma^2)
///   (Canonne, Kamath and Steinke 2020, Theorem 4), its sensitivity being the event's own;
/// - laplace: exact, see laplace_log_moment();
/// - poisson_sampled Gaussians, or one Laplace or discrete Gaussian: exact, see SampledGaussian and
///   SampledLaplace. add_or_remove_one: both directions.
///   zero_out: the example's contribution is present with probability q and absent otherwise in one
///   data set, always absent in the other, and all other contributions are distributed alike: the
///   same pair of distributions. replace_one: refused below q = 1, no dominating pair is proved
///   here;
/// - sampled_without_replacement Gaussians, replace_one only: see SubsetGaussian;
/// - composed, self_composed: sums; non_private: infinite.
/// Rounding: upwards in every step, so the answers stay upper bounds.
class Rdp : public privgrad::Accountant {
 public:
  explicit Rdp(const privgrad::Params& params)
      : conversion_(params.text("conversion") == "classic" ? rdp::Conversion::classic
                                                           : rdp::Conversion::improved),
        orders_{.list = default_orders(), .refine = params.boolean("refine")} {
    if (!params.has("orders")) return;
    orders_ = {.list = params.reals("orders"), .refine = false};
    std::sort(orders_.list.begin(), orders_.list.end());
    orders_.list.erase(std::unique(orders_.list.begin(), orders_.list.end()), orders_.list.end());
  }
  /// Uses one order alone.
  explicit Rdp(double order)
      : conversion_(rdp::Conversion::improved), orders_{.list = {order}, .refine = false} {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    spent_ = {};
  }

  Reason refuses(const Event& event) const override {
    return privgrad::first_refusal(event, [this](const Event& release) -> Reason {
      const auto& kind = release.kind();
      if (const auto* e = std::get_if<privgrad::PoissonSampledEvent>(&kind)) {
        return refuses_poisson(*e);
      }
      if (const auto* e = std::get_if<privgrad::SampledWithoutReplacementEvent>(&kind)) {
        return refuses_subset(*e);
      }
      return std::nullopt;
    });
  }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw privgrad::PrivacyError(*reason);
    for (const auto& [part, repeats] : privgrad::flatten(event)) {
      std::uint64_t total = 0;
      if (__builtin_mul_overflow(repeats, count, &total)) {
        throw privgrad::ConfigError("rdp: the number of releases does not fit in 64 bits");
      }
      if (total > 0) add(part, total);
    }
  }

  privgrad::PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw privgrad::ConfigError("rdp: delta is " + privgrad::format_number(delta) +
                                  ", allowed is (0, 1)");
    }
    const std::scoped_lock lock(mutex_);
    if (spent_.nothing()) return answer(0.0, "");
    if (spent_.infinite()) return answer(kInfinity, "a release without noise");
    const rdp::Best best = least([&](double order) {
      return rdp::epsilon_at(conversion_, order, spent_.log_moment(order), delta);
    });
    const double pure = orders_.refine ? spent_.pure_epsilon() : kInfinity;
    if (pure < best.value) return answer(pure, "order = infinity");
    return answer(std::max(0.0, best.value), note(best));
  }

  privgrad::PrivacyAnswer delta(double epsilon) const override {
    if (!(std::isfinite(epsilon) && epsilon >= 0.0)) {
      throw privgrad::ConfigError("rdp: epsilon is " + privgrad::format_number(epsilon) +
                                  ", allowed is [0, inf)");
    }
    const std::scoped_lock lock(mutex_);
    if (spent_.nothing()) return answer(0.0, "");
    if (spent_.infinite()) return answer(1.0, "a release without noise");
    if (orders_.refine && spent_.pure_epsilon() <= epsilon) return answer(0.0, "order = infinity");
    const rdp::Best best = least([&](double order) {
      return rdp::log_delta_at(conversion_, order, spent_.log_moment(order), epsilon);
    });
    if (!(best.value < 0.0)) return answer(1.0, note(best));
    return answer(std::min(1.0, privgrad::round_up(std::exp(best.value), 4.0)), note(best));
  }

 private:
  Reason refuses_poisson(const privgrad::PoissonSampledEvent& e) const {
    if (e.sampling_probability == 0.0) return {};
    if (e.sampling_probability == 1.0) return refuses(*e.of);
    if (!privgrad::joint_gaussian(*e.of) && !single_release(*e.of)) {
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

  Reason refuses_subset(const privgrad::SampledWithoutReplacementEvent& e) const {
    if (e.sample_size == 0) return {};
    if (e.sample_size == e.source_dataset_size) return refuses(*e.of);
    if (!privgrad::joint_gaussian(*e.of)) {
      return "sampled_without_replacement: rdp has a proof for sampled Gaussians only, got " +
             std::string(e.of->name()) + " inside";
    }
    if (adjacency_ != Adjacency::replace_one) {
      return "sampled_without_replacement: rdp has a proof under replace_one only (the size of the "
             "data is public there), the adjacency is " +
             std::string(privgrad::to_text(adjacency_));
    }
    return {};
  }

  /// \param event  a part of flatten(), not refused.
  /// \param count  above 0.
  void add(const Event& event, std::uint64_t count) {
    const double sensitivity = privgrad::sensitivity_of_unit_bound(adjacency_);
    const auto add_gaussian = [&](double ratio) {
      spent_.add_concentrated(ratio == 0.0 ? 0.0 : privgrad::round_up(0.5 * ratio * ratio, 4.0),
                              count);
    };
    std::visit(Overloaded{
                   [&](const privgrad::GaussianEvent& e) {
                     add_gaussian(sensitivity / e.noise_multiplier);
                   },
                   [&](const privgrad::LaplaceEvent& e) {
                     // Halving is exact.
                     spent_.add({CostKind::laplace, e.noise_multiplier / sensitivity, 1.0}, count);
                   },
                   [&](const privgrad::DiscreteGaussianEvent& e) {
                     add_gaussian(static_cast<double>(e.sensitivity) / e.sigma);
                   },
                   [&](const privgrad::ZcdpEvent& e) { spent_.add_concentrated(e.rho, count); },
                   [&](const privgrad::PoissonSampledEvent& e) { add_poisson(e, count); },
                   [&](const privgrad::SampledWithoutReplacementEvent& e) {
                     const double fraction = static_cast<double>(e.sample_size) /
                                             static_cast<double>(e.source_dataset_size);
                     add_sampled(*e.of, CostKind::subset_gaussian, fraction, count);
                   },
                   [&](const auto&) { spent_.add_concentrated(kInfinity, count); },
               },
               event.kind());
  }

  void add_poisson(const privgrad::PoissonSampledEvent& event, std::uint64_t count) {
    const double q = event.sampling_probability;
    if (q == 0.0 || q == 1.0 || privgrad::joint_gaussian(*event.of))
      return add_sampled(*event.of, CostKind::poisson_gaussian, q, count);
    const Event release = *single_release(*event.of);
    if (const auto* laplace = std::get_if<privgrad::LaplaceEvent>(&release.kind()))
      return spent_.add({CostKind::poisson_laplace, laplace->noise_multiplier, q}, count);
    const auto& discrete = std::get<privgrad::DiscreteGaussianEvent>(release.kind());
    if (discrete.sensitivity == 0) return;
    spent_.add(
        {CostKind::poisson_discrete, discrete.sigma, q, static_cast<double>(discrete.sensitivity)},
        count);
  }

  void add_sampled(const Event& of, CostKind kind, double fraction, std::uint64_t count) {
    if (fraction == 0.0) return;
    if (fraction == 1.0) {
      compose(of, count);
      return;
    }
    const double multiplier = privgrad::joint_gaussian(of)->low;
    if (std::isinf(multiplier)) return;  // nothing is released
    if (multiplier == 0.0) {
      spent_.add_concentrated(kInfinity, count);
      return;
    }
    spent_.add({kind, multiplier / privgrad::sensitivity_of_unit_bound(adjacency_), fraction},
               count);
  }

  template <class Bound>
  rdp::Best least(const Bound& bound) const {
    rdp::Orders orders = orders_;
    orders.unimodal = spent_.convex();
    return rdp::least(orders, bound);
  }

  std::string note(const rdp::Best& best) const {
    std::string text = "order = " + privgrad::format_number(best.order);
    if (orders_.list.size() == 1 && !orders_.refine) return text;  // nobody looked for another
    if (best.at_low_edge) text += ", the smallest allowed: a smaller one may prove less epsilon";
    if (best.at_high_edge) text += ", the largest allowed: a larger one may prove less epsilon";
    return text;
  }

  static privgrad::PrivacyAnswer answer(double value, std::string note) {
    if (std::isnan(value)) throw privgrad::NumericError("rdp: the computation gave no number");
    return {
        .value = value, .bound = privgrad::BoundKind::upper, .lower = {}, .note = std::move(note)};
  }

  rdp::Conversion conversion_;
  rdp::Orders orders_;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  mutable std::mutex mutex_;  ///< Guards what queries keep in spent_.
  mutable Spent spent_;
};

/// Renyi differential privacy at one order that is fixed beforehand: a privacy filter.
///
/// epsilon(delta) is an increasing function of the sum of the divergences at that order, so that
/// "at most the target" means "the sum is at most some B". A run that keeps to that has a
/// divergence of at most B at this order also where each release was chosen from earlier ones
/// (Feldman and Zrnic 2021, Theorem 4.3). With several orders, and the best of them taken at the
/// end, that is not so: which order is best would depend on what was released.
class RdpAtOneOrder final : public Rdp, public privgrad::ComposesAdaptively {
 public:
  explicit RdpAtOneOrder(const privgrad::Params& params) : Rdp(params.real("order")) {}
};

void register_components(privgrad::Registrar& registrar) {
  using privgrad::param::boolean;
  using privgrad::param::list;
  using privgrad::param::real;
  using privgrad::param::text;
  registrar.add<privgrad::Accountant, Rdp>({
      .name = "rdp",
      .summary = "Renyi differential privacy, with amplification by sampling; an upper bound.",
      .reference = "Mironov 2017; Mironov, Talwar and Zhang 2019; Wang, Balle and Kasiviswanathan "
                   "2019, Theorem 27; conversion: Canonne, Kamath and Steinke 2020, Proposition 12",
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
  registrar.add<privgrad::Accountant, RdpAtOneOrder>({
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

PRIVGRAD_PLUGIN("privgrad.rdp", "0.1.0", register_components)
