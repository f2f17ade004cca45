#include <cmath>
#include <string>
#include <vector>

#include "influence_file.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"

namespace {

using namespace privgrad;

/// The parameters that a kind of influence has. In a manifest, other parameters are errors.
struct Kind {
  const char* name;
  std::vector<const char*> required;
  std::vector<const char*> optional;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"exponential", {}, {"gamma", "kappa"}},
      {"momentum", {"beta"}, {"gamma", "kappa", "eta0"}},
      {"two_exponential", {"gamma", "share"}, {"falling_gamma"}},
      {"file", {"file"}, {}},
      {"estimated", {"file"}, {}},
  };
  return all;
}

const Kind& kind_of(const Params& influence) {
  for (const Kind& kind : kinds()) {
    if (influence.text("kind") == kind.name) return kind;
  }
  throw PluginError("dynamic: its declaration allows an influence it does not know");
}

bool contains(const std::vector<const char*>& names, const std::string& name) {
  for (const char* one : names) {
    if (name == one) return true;
  }
  return false;
}

void check_parameters(const Params& influence) {
  const Kind& kind = kind_of(influence);
  for (const char* name : {"gamma", "kappa", "beta", "eta0", "falling_gamma", "share", "file"}) {
    const bool required = contains(kind.required, name);
    if (required && !influence.has(name)) {
      throw ConfigError("dynamic: influence " + std::string(kind.name) + " needs " + name);
    }
    if (!required && !contains(kind.optional, name) && influence.has(name)) {
      throw ConfigError("dynamic: influence " + std::string(kind.name) + " has no " + name);
    }
  }
  if (!contains(kind.optional, "kappa")) return;
  if (influence.has("gamma") == influence.has("kappa")) {
    throw ConfigError("dynamic: influence " + std::string(kind.name) +
                      " needs gamma or kappa, one of the two");
  }
  if (influence.has("gamma") && influence.has("eta0")) {
    throw ConfigError("dynamic: eta0 only says what kappa means; gamma is given");
  }
}

/// Returns the given gamma, the factor by which a step reduces the loss; by default 1 - 1/kappa
/// without momentum, and 1 - eta0/(2 kappa) with momentum.
double gamma_of(const Params& influence) {
  if (influence.has("gamma")) return influence.real("gamma");
  const bool has_momentum = influence.text("kind") == "momentum";
  const double eta0 = influence.has("eta0") ? influence.real("eta0") : 1.0;
  const double gamma = 1.0 - (has_momentum ? eta0 / 2.0 : 1.0) / influence.real("kappa");
  if (gamma > 0.0) return gamma;
  throw ConfigError(std::string("dynamic: gamma = 1 - ") +
                    (has_momentum ? "eta0/(2 kappa)" : "1/kappa") + " is " + format_number(gamma) +
                    ", allowed is above 0");
}

/// The optimal noise for an influence; the core finds its scale.
class Dynamic final : public Schedule {
 public:
  explicit Dynamic(const Params& params)
      : params_(params.object("influence")), form_(params.text("form")) {
    check_parameters(params_);
    const std::string& kind = params_.text("kind");
    if (params_.has("file")) {
      InfluenceFile file = read_influence_file(params_.path("file"));
      estimates_ = std::move(file.rows);
      is_unaccounted_ = file.is_unaccounted;
    }
    is_exponential_ = kind == "exponential" || kind == "estimated";
    if (kind == "estimated") gamma_ = fit_exponential_influence(estimates_);
    if (params_.has("gamma") || params_.has("kappa")) gamma_ = gamma_of(params_);
  }

  void start(const Horizon& horizon) override {
    if (horizon.steps == 0) throw ConfigError("dynamic: there are no steps");
    const std::uint64_t steps = horizon.steps;
    influence_ = influence_of(steps);
    // A budget of 1, because the core finds the scale.
    noise_ = is_exponential_ ? exponentially_allocated_noise(steps, gamma_, 1.0)
                             : allocated_noise(influence_, 1.0);
    if (form_ != "exponential_decay") return;
    const ExponentialDecay decay = fit_exponential_decay(noise_);
    for (std::uint64_t t = 0; t < steps; ++t) {
      noise_[t] = decay.initial * std::exp(-decay.rate * static_cast<double>(t));
    }
  }

  double value(std::uint64_t step) const override { return noise_.at(step); }
  bool is_shape() const override { return true; }
  std::optional<NoiseInfluence> influence() const override {
    return NoiseInfluence{influence_, is_unaccounted_, form_ == "exact"};
  }

  static std::vector<ParamSpec> params() {
    std::vector<std::string> names;
    for (const Kind& kind : kinds()) names.push_back(kind.name);
    return {
        param::object(
            "influence",
            "How much each step's noise matters at the end, q_t. exponential: gamma^(T-t), of "
            "gradient descent. momentum: its exact weights under bias-corrected momentum. "
            "two_exponential: share falling_gamma^(t-1) + (1 - share) gamma^(T-t). file: a table "
            "with every step. estimated: the exponential that best fits the table that privgrad "
            "influence wrote.",
            {param::text("kind", "Where the influence comes from.").one_of(names),
             param::real("gamma",
                         "By what factor a step shrinks the loss, or its noise is forgotten.")
                 .above(0)
                 .at_most(1)
                 .optional()
                 .example(0.97),
             param::real("kappa",
                         "Instead of gamma: smoothness over the Polyak-Lojasiewicz constant; gamma "
                         "= 1 - 1/kappa, and with momentum 1 - eta0/(2 kappa).")
                 .at_least(1)
                 .optional(),
             param::real("beta", "momentum: that of the optimizer.")
                 .at_least(0)
                 .below(1)
                 .optional(),
             param::real(
                 "eta0",
                 "momentum, with kappa: learning rate times twice the smoothness; 1 if not given.")
                 .above(0)
                 .optional(),
             param::real("falling_gamma",
                         "two_exponential: gamma of the falling part; gamma if not given.")
                 .above(0)
                 .at_most(1)
                 .optional(),
             param::real("share", "two_exponential: share of the falling part.")
                 .at_least(0)
                 .at_most(1)
                 .optional(),
             param::path("file",
                         "file, estimated: a table with the columns step (from 0), influence "
                         "and, if known, standard_error.")
                 .optional()})
            .example(Value::Object{{"kind", "exponential", {}}, {"gamma", 0.97, {}}}),
        param::text("form",
                    "exact: the noise that minimises the sum of influence times squared noise "
                    "where a step costs 1/sigma^2 (each example takes part in each step); "
                    "elsewhere noise divided by the accountant's own costs, at most the sum of "
                    "uniform noise. inverse_square: the former everywhere, as the paper has it. "
                    "exponential_decay: the curve sigma_0 exp(-k t) nearest to inverse_square by "
                    "least squares.")
            .one_of({"exact", "inverse_square", "exponential_decay"})
            .defaults_to("exact"),
    };
  }

 private:
  std::vector<double> influence_of(std::uint64_t steps) const {
    const std::string& kind = params_.text("kind");
    if (is_exponential_) return exponential_influence(steps, gamma_);
    if (kind == "momentum") {
      return momentum_influence(steps, gamma_, params_.real("beta"));
    }
    if (kind == "two_exponential") {
      const double falling = params_.has("falling_gamma") ? params_.real("falling_gamma") : gamma_;
      return two_exponential_influence(steps, gamma_, falling, params_.real("share"));
    }
    return table(steps);
  }

  /// Returns the influences from a file, which must list every step of the run.
  std::vector<double> table(std::uint64_t steps) const {
    if (estimates_.size() != steps || estimates_.back().step != steps - 1) {
      throw ConfigError("dynamic: " + params_.path("file").string() + " has " +
                        std::to_string(estimates_.size()) + " step(s), the last one " +
                        std::to_string(estimates_.back().step) + ", expected each of 0 ... " +
                        std::to_string(steps - 1) +
                        "; influence estimated fits a curve through fewer");
    }
    std::vector<double> influence;
    for (const InfluenceEstimate& row : estimates_) {
      if (row.influence <= 0.0) {
        throw ConfigError(
            "dynamic: " + params_.path("file").string() + ": the influence of step " +
            std::to_string(row.step) + " is " + format_number(row.influence) +
            ", expected above 0; influence estimated fits a curve through noisy rows");
      }
      influence.push_back(row.influence);
    }
    return influence;
  }

  Params params_;  // parameters of the influence
  std::string form_;
  bool is_exponential_ = false;
  bool is_unaccounted_ = false;
  double gamma_ = 1.0;
  std::vector<InfluenceEstimate> estimates_;
  std::vector<double> influence_, noise_;
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Dynamic>({
      .name = "dynamic",
      .summary =
          "The noise that suits how much each step matters at the end, scaled to the budget.",
      .reference = "Hong, Wang and Zhou 2022, Lemma 4.3, Theorems 4.4 and 4.5; see "
                   "docs/algorithms/dynamic-budget.md",
      .params = Dynamic::params(),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.dynamic", "0.1.0", "schedule/dynamic", register_components)
