// Calls of the accountant `pld` for its tests, and the required accuracy of its answers.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "answer.hpp"
#include "convolution.hpp"
#include "house_plugins.hpp"
#include "lattice.hpp"
#include "privgrad/accountant.hpp"

/// Common code of the tests of the accountant pld.
namespace pld_tests {

using privgrad::Accountant;
using privgrad::Adjacency;
using privgrad::BoundKind;
using privgrad::Event;
using privgrad::PrivacyAnswer;
using privgrad::Value;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Options {
  Adjacency adjacency = Adjacency::add_or_remove_one;
  double relative_width = 0.0002;  ///< Coarser than the default, for many cases in little time.
  std::int64_t most_points = 4194304;
};

inline auto accountant(const Options& options = {}, const char* name = "pld") {
  Value::Object params;
  if (name == std::string("pld")) {
    params = {{"relative_width", options.relative_width, {}},
              {"most_points", options.most_points, {}}};
  }
  auto made = house().create<Accountant>(name, Value(std::move(params)));
  made->start(options.adjacency);
  return made;
}

inline auto pld_of(const Event& event, std::uint64_t count = 1, const Options& options = {}) {
  auto made = accountant(options);
  made->compose(event, count);
  return made;
}

inline Event sampled(double q, double sigma) {
  return Event::poisson_sampled(q, Event::gaussian(sigma));
}

/// Checks the interval. `expected` has about 16 digits, so only its last digit may be wrong.
inline void check_holds(const PrivacyAnswer& got, double expected) {
  INFO("got " << *got.lower << " .. " << got.value << ", expected " << expected << ", "
              << got.note);
  CHECK(got.bound == BoundKind::upper);
  CHECK(*got.lower <= expected * (1.0 + 2e-16));
  CHECK(got.value >= expected * (1.0 - 2e-16));
}

inline void check_width(const PrivacyAnswer& got, double relative) {
  INFO("got " << *got.lower << " .. " << got.value << ", " << got.note);
  CHECK(got.value - *got.lower <= relative * got.value);
}

/// Returns the upper tail of a standard normal.
inline double normal_above(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

/// Returns delta by Balle and Wang 2018, Theorem 8.
inline double gaussian_delta(double mu, double epsilon) {
  return normal_above(epsilon / mu - 0.5 * mu) -
         std::exp(epsilon) * normal_above(epsilon / mu + 0.5 * mu);
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  double uniform(double low, double high) { return low + (high - low) * unit_(engine_); }
  double log_uniform(double low, double high) {
    return std::exp(uniform(std::log(low), std::log(high)));
  }

 private:
  std::mt19937_64 engine_;
  std::uniform_real_distribution<double> unit_;
};

/// sum of mass (1 - x e^(-loss))_+ over the nodes, with x = e^epsilon and negligible rounding.
inline long double curve_of(const pld::Lattice& lattice, const pld::Grid& grid, double epsilon) {
  long double sum = lattice.at_infinity;
  for (std::size_t j = 0; j < lattice.index.size(); ++j) {
    const long double loss = static_cast<long double>(lattice.index[j]) * grid.step + grid.offset;
    if (loss > epsilon) sum -= lattice.mass[j] * std::expm1(epsilon - loss);
  }
  return sum;
}

inline pld::LossPairPtr sampled_gaussian(double q, double sigma) {
  return pld::sampled(q, pld::gaussian(sigma));
}

inline std::vector<pld::LossPairPtr> some_pairs() {
  return {pld::gaussian(0.7),
          sampled_gaussian(0.01, 0.8),
          pld::reversed(sampled_gaussian(0.01, 0.8)),
          sampled_gaussian(1e-6, 0.2),
          sampled_gaussian(0.3, 1e4),
          pld::reversed(sampled_gaussian(0.9999, 1.0)),
          pld::sampled_gaussian_replaced(0.05, 1.3),
          pld::sampled_gaussian_replaced(0.999, 0.5),
          pld::laplace(0.3),
          pld::laplace(20.0),
          pld::sampled(0.02, pld::laplace(0.3)),
          pld::reversed(pld::sampled(0.02, pld::laplace(0.3))),
          pld::sampled(0.7, pld::laplace(20.0)),
          pld::reversed(pld::sampled(0.999, pld::laplace(0.05))),
          pld::discrete_gaussian(0.6, 1.0),
          pld::discrete_gaussian(7.3, 2.0),
          pld::sampled(0.1, pld::discrete_gaussian(0.6, 1.0)),
          pld::reversed(pld::sampled(0.1, pld::discrete_gaussian(0.6, 1.0))),
          pld::sampled(0.8, pld::discrete_gaussian(7.3, 2.0)),
          pld::reversed(pld::sampled(0.003, pld::discrete_gaussian(7.3, 2.0)))};
}

}  // namespace pld_tests
