#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "gaussian.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"
#include "privgrad/joint_gaussian.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/upward.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

using Reason = std::optional<std::string>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Gaussian differential privacy (Dong, Roth and Su 2022): a Gaussian release with sensitivity s is
/// (s / noise_multiplier)-GDP, squares of mu add (Corollary 3.3, adaptive composition), and the
/// privacy curve of mu-GDP has a closed form, so answers for Gaussians are exact. s is 1 for
/// add_or_remove_one and zero_out, 2 for replace_one.
///
/// With `clt`, Poisson-sampled Gaussians are replaced by their limit for many steps: mu^2 = count
/// q^2 (exp(1/sigma^2) - 1) (Bu, Dong, Long and Su 2020, Section 2.4). This is a limit and not a
/// bound, and tends to be too small, so the answers are marked `estimate`.
class Gdp final : public Accountant {
 public:
  explicit Gdp(const Params& params) : clt_(params.boolean("clt")) {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    spent_ = {};
    estimated_ = false;
  }

  Reason refuses(const Event& event) const override {
    return first_refusal(
        event,
        Overloaded{
            Accepts<GaussianEvent, NonPrivateEvent>{},
            [this](const PoissonSampledEvent& e) { return refuses_poisson(e); },
            [this](const SampledWithoutReplacementEvent& e) -> Reason {
              if (e.sample_size == 0) return {};
              if (e.sample_size == e.source_dataset_size) return refuses(*e.of);
              return "sampled_without_replacement: gdp is exact for Gaussians without sampling "
                     "only";
            }},
        "gdp is exact for Gaussians only");
  }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw PrivacyError(*reason);
    if (count == 0) return;
    for (const auto& [part, repeats] : flatten(event)) {
      spent_.add(multiply_up(count, multiply_up(repeats, squared_mu(part))));
    }
  }

  PrivacyAnswer epsilon(double delta) const override {
    if (!(delta > 0.0 && delta < 1.0)) {
      throw ConfigError("gdp: delta is " + format_number(delta) + ", allowed is (0, 1)");
    }
    const double mu = this->mu();
    if (mu == 0.0) return answer(0.0, mu);
    if (std::isinf(mu)) return answer(kInfinity, mu);
    return answer(gdp::epsilon(mu, delta), mu);
  }

  PrivacyAnswer delta(double epsilon) const override {
    if (!(std::isfinite(epsilon) && epsilon >= 0.0)) {
      throw ConfigError("gdp: epsilon is " + format_number(epsilon) + ", allowed is [0, inf)");
    }
    const double mu = this->mu();
    if (mu == 0.0) return answer(0.0, mu);
    if (std::isinf(mu)) return answer(1.0, mu);
    const double value = round_up(std::exp(gdp::log_delta(mu, epsilon)), 4.0);
    return answer(std::min(1.0, value), mu);
  }

 private:
  Reason refuses_poisson(const PoissonSampledEvent& e) const {
    if (e.sampling_probability == 0.0) return {};
    if (e.sampling_probability == 1.0) return refuses(*e.of);
    if (!clt_) {
      return "poisson_sampled: a sampled Gaussian is not GDP with a smaller mu; `clt: true` gives "
             "the "
             "central-limit estimate, which is not a bound";
    }
    if (!joint_gaussian(*e.of)) {
      return "poisson_sampled: the central-limit estimate is for sampled Gaussians only, got " +
             std::string(e.of->name()) + " inside";
    }
    if (adjacency_ == Adjacency::replace_one) {
      return "poisson_sampled: the central-limit estimate is for add_or_remove_one and zero_out, "
             "the adjacency is replace_one";
    }
    return {};
  }

  /// \param event  an element of flatten() that is not refused.
  double squared_mu(const Event& event) {
    const double sensitivity = sensitivity_of_unit_bound(adjacency_);
    return std::visit(Overloaded{
                          [&](const GaussianEvent& e) {
                            const double mu = sensitivity / e.noise_multiplier;
                            return round_up(mu * mu, 3.0);
                          },
                          [&](const PoissonSampledEvent& e) {
                            const double q = e.sampling_probability;
                            if (q == 0.0) return 0.0;
                            if (q == 1.0) return inner(*e.of);
                            const double sigma = joint_gaussian(*e.of)->low;
                            estimated_ = true;
                            return q * q * std::expm1(1.0 / sigma / sigma);
                          },
                          [&](const SampledWithoutReplacementEvent& e) {
                            return e.sample_size == 0 ? 0.0 : inner(*e.of);
                          },
                          [](const auto&) { return kInfinity; },
                      },
                      event.kind());
  }

  /// Returns the squared mu of an event inside a sampling event that takes all of the data.
  double inner(const Event& of) {
    UpwardSum sum;
    for (const auto& [part, count] : flatten(of)) {
      sum.add(multiply_up(count, squared_mu(part)));
    }
    return sum.total();
  }

  /// Returns the total mu, rounded up. Its terms are rounded up, too, except for the estimates.
  double mu() const {
    const double square = spent_.total();
    return square == 0.0 ? 0.0 : round_up(std::sqrt(square), 2.0);
  }

  PrivacyAnswer answer(double value, double mu) const {
    if (std::isnan(value)) throw NumericError("gdp: the computation gave no number");
    std::string note = "mu = " + format_number(mu);
    if (estimated_) note += ", a central-limit estimate: no bound, and often too small";
    return {.value = value,
            .bound = estimated_ ? BoundKind::estimate : BoundKind::exact,
            .lower = {},
            .note = std::move(note)};
  }

  bool clt_;
  bool estimated_ = false;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  UpwardSum spent_;
};

void register_components(Registrar& registrar) {
  registrar.add<Accountant, Gdp>({
      .name = "gdp",
      .summary = "Gaussian differential privacy: exact for Gaussians without sampling.",
      .reference = "Dong, Roth and Su 2022; Balle and Wang 2018, Theorem 8; estimate: Bu, Dong, "
                   "Long and Su 2020",
      .params = {param::boolean(
                     "clt",
                     "Accept Poisson-sampled Gaussians too, by their central limit. The answers "
                     "are then estimates, which cannot guard a budget.")
                     .defaults_to(false)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.gdp", "0.1.0", "accountant/gdp", register_components)
