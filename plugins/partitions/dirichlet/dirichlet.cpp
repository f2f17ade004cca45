#include <algorithm>
#include <cmath>
#include <string>

#include "../shares_out.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

double normal(RandomStream& random) {
  float value = 0.0f;
  random.fill_normal({&value, 1});
  return static_cast<double>(value);
}

/// Returns the logarithm of a draw from Gamma(shape, 1) (Marsaglia and Tsang 2000), which is
/// Gamma(shape + 1) U^(1/shape) for a shape below 1. Logarithms are used because draws for a small
/// shape would underflow a double.
double log_gamma_draw(double shape, RandomStream& random) {
  if (shape < 1.0) {
    const double uniform = 1.0 - random.uniform();  // in (0, 1]
    return log_gamma_draw(shape + 1.0, random) + std::log(uniform) / shape;
  }
  const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal(random);
    const double v = std::pow(1.0 + c * x, 3.0);
    if (v <= 0.0) continue;
    const double uniform = 1.0 - random.uniform();
    if (std::log(uniform) < 0.5 * x * x + d * (1.0 - v + std::log(v))) return std::log(d * v);
  }
}

/// Divides each label's examples in proportions drawn for that label.
class Dirichlet final : public SharesOut {
 public:
  explicit Dirichlet(const Params& params)
      : alpha_(params.real("alpha")),
        least_(static_cast<std::uint64_t>(params.integer("at_least"))) {}

  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                        const RandomSource& random) const override {
    if (train.shape().classes == 0) {
      throw ConfigError(
          "dirichlet: shares examples out by their classes, and these have none; use iid or "
          "by_column");
    }
    if (clients > train.rows() / least_) {
      throw ConfigError("dirichlet: there are fewer examples than " + std::to_string(clients) +
                        " clients with at least " + std::to_string(least_) +
                        " each need; use fewer clients or a smaller at_least");
    }
    constexpr std::uint64_t kTries = 1000;
    for (std::uint64_t attempt = 0; attempt < kTries; ++attempt) {
      auto owners = draw(train, clients, *random.stream(attempt));
      std::vector<std::uint64_t> sizes(clients, 0);
      for (const std::uint32_t owner : owners) ++sizes[owner];
      if (*std::ranges::min_element(sizes) >= least_) return owners;
    }
    throw ConfigError("dirichlet: in " + std::to_string(kTries) +
                      " draws some client always had fewer than " + std::to_string(least_) +
                      " examples; use a larger alpha, fewer clients or a smaller at_least");
  }

  /// Sizes are not known beforehand, because they depend on the number of examples in each class.
  std::vector<std::uint64_t> sizes(std::uint64_t, std::uint64_t,
                                   const RandomSource&) const override {
    return {};
  }

  bool looks_at_examples() const override { return true; }

 private:
  std::vector<std::uint32_t> draw(const Dataset& train, std::uint64_t clients,
                                  RandomStream& random) const {
    const auto targets = train.targets();
    std::vector<std::uint32_t> owners(train.rows());
    const auto order = shuffled(train.rows(), random);
    for (std::size_t label = 0; label < train.shape().classes; ++label) {
      std::vector<std::uint32_t> rows;
      for (const std::uint32_t row : order) {
        if (targets[row] == static_cast<float>(label)) rows.push_back(row);
      }
      const std::vector<double> cuts = cumulative_shares(clients, random);
      std::uint32_t client = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        while (client + 1 < clients &&
               static_cast<double>(i) >= cuts[client] * static_cast<double>(rows.size())) {
          ++client;
        }
        owners[rows[i]] = client;
      }
    }
    return owners;
  }

  std::vector<double> cumulative_shares(std::uint64_t clients, RandomStream& random) const {
    std::vector<double> shares;
    for (std::uint64_t i = 0; i < clients; ++i) shares.push_back(log_gamma_draw(alpha_, random));
    const double largest = *std::ranges::max_element(shares);
    double sum = 0.0;
    for (double& share : shares) sum += share = std::exp(share - largest);
    double before = 0.0;
    for (double& share : shares) share = before += share / sum;
    return shares;
  }

  double alpha_;
  std::uint64_t least_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Transform, Dirichlet>({
      .name = "dirichlet",
      .summary = "Partition of a federated run: the clients' shares of every label are drawn from "
                 "a Dirichlet distribution.",
      .reference = "Hsu, Qi, Brown 2019, with a draw per label as in Yurochkin et al. 2019",
      .params = {real("alpha",
                      "Concentration: small values give clients of few labels, large ones alike "
                      "clients.")
                     .above(0)
                     .at_most(1e6)
                     .example(0.5),
                 integer("at_least",
                         "The draw is repeated until every client has this many examples.")
                     .in_unit("examples")
                     .at_least(1)
                     .at_most(4294967295.0)
                     .defaults_to(1)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.dirichlet", "0.1.0", "transform/dirichlet", register_components)
