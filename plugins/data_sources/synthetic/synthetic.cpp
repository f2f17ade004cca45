#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "public_generator.hpp"

namespace {

using namespace privgrad;

/// The purposes of streams of random numbers; part of the data's definition, so never renumber.
enum Purpose : std::uint64_t {
  kCentres = 1,
  kWeights,
  kTrainRows,
  kTestRows,
  kTrainNoise,
  kTestNoise
};

constexpr std::size_t kMostValues = std::size_t{1} << 30;  // 4 GiB of float32

/// A data source that makes its own data from a public seed.
///
/// Row i of a split depends only on (seed, split, i) and on the parameters of the distribution, so
/// a larger number of rows only appends rows. The cluster of row i is i modulo the number of
/// clusters. Privacy: the data is not about any person, so the rows are public.
class Synthetic final : public DataSource {
 public:
  explicit Synthetic(const Params& params)
      : seed_(static_cast<std::uint64_t>(params.integer("seed"))),
        train_rows_(static_cast<std::size_t>(params.integer("rows"))),
        test_rows_(static_cast<std::size_t>(params.integer("test_rows"))),
        dimensions_(static_cast<std::size_t>(params.integer("dimensions"))),
        hypercube_(params.text("shape") == "hypercube_clusters"),
        linear_(params.text("target") == "linear"),
        clusters_(static_cast<std::size_t>(params.integer("classes"))),
        spread_(hypercube_ ? params.real("distance") : params.real("separation")),
        label_noise_(params.real("label_noise")) {
    if (hypercube_ && clusters_ != 2) {
      throw ConfigError("synthetic: classes is " + std::to_string(clusters_) +
                        ", but the shape hypercube_clusters has 2 clusters; use shape gaussian");
    }
    if (!linear_ && label_noise_ > 1.0) {
      throw ConfigError("synthetic: label_noise is " + format_number(label_noise_) +
                        ", but for target class it is a probability, at most 1");
    }
    if ((train_rows_ + test_rows_) * dimensions_ > kMostValues) {
      throw ConfigError("synthetic: (rows + test_rows) x dimensions is more than " +
                        std::to_string(kMostValues) + " values");
    }
  }

  DataInfo info() override {
    return {.shape = {{dimensions_}, linear_ ? 0 : clusters_},
            .train_rows = train_rows_,
            .test_rows = test_rows_,
            .unaccounted = {},
            .has_test_split = test_rows_ > 0};
  }

  Dataset read(Split split) override {
    const bool train = split == Split::train;
    const std::size_t rows = train ? train_rows_ : test_rows_;
    const std::vector<double> centres = make_centres();
    const std::vector<double> weights = linear_ ? direction(kWeights, 0) : std::vector<double>{};

    std::vector<float> features(rows * dimensions_);
    std::vector<float> targets(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t cluster = row % clusters_;
      PublicGenerator random(seed_, train ? kTrainRows : kTestRows, row);
      double response = 0.0;
      for (std::size_t j = 0; j < dimensions_; ++j) {
        const double x = centres[cluster * dimensions_ + j] + random.normal();
        features[row * dimensions_ + j] = static_cast<float>(x);
        if (linear_) response += weights[j] * x;
      }
      PublicGenerator noise(seed_, train ? kTrainNoise : kTestNoise, row);
      targets[row] = static_cast<float>(linear_ ? response + label_noise_ * noise.normal()
                                                : noisy_label(cluster, noise));
    }
    return Dataset(info().shape, std::move(features), std::move(targets));
  }

 private:
  /// \returns [clusters_, dimensions_].
  std::vector<double> make_centres() const {
    std::vector<double> centres;
    if (hypercube_) {
      // Uses two opposite corners of a cube around 0 whose diagonal is the distance.
      PublicGenerator random(seed_, kCentres, 0);
      const double coordinate = spread_ / (2.0 * std::sqrt(static_cast<double>(dimensions_)));
      for (std::size_t j = 0; j < dimensions_; ++j) {
        centres.push_back(random.uniform() < 0.5 ? coordinate : -coordinate);
      }
      for (std::size_t j = 0; j < dimensions_; ++j) centres.push_back(-centres[j]);
      return centres;
    }
    // Independent directions are orthogonal on average, so with this radius the root mean square
    // distance between two means equals the separation.
    for (std::size_t cluster = 0; cluster < clusters_; ++cluster) {
      for (const double x : direction(kCentres, cluster)) {
        centres.push_back(x * spread_ / std::sqrt(2.0));
      }
    }
    return centres;
  }

  /// \returns a random unit vector of dimensions_ entries.
  std::vector<double> direction(Purpose purpose, std::size_t index) const {
    PublicGenerator random(seed_, purpose, index);
    std::vector<double> vector(dimensions_);
    double square = 0.0;
    for (double& x : vector) {
      x = random.normal();
      square += x * x;
    }
    for (double& x : vector) x /= std::sqrt(square);
    return vector;
  }

  double noisy_label(std::size_t cluster, PublicGenerator& noise) const {
    if (noise.uniform() >= label_noise_) return static_cast<double>(cluster);
    const std::uint64_t shift = 1 + noise.below(clusters_ - 1);  // any class except the true one
    return static_cast<double>((cluster + shift) % clusters_);
  }

  std::uint64_t seed_;
  std::size_t train_rows_;
  std::size_t test_rows_;
  std::size_t dimensions_;
  bool hypercube_;
  bool linear_;
  std::size_t clusters_;
  double spread_;
  double label_noise_;
};

void register_components(Registrar& registrar) {
  registrar.add<DataSource, Synthetic>({
      .name = "synthetic",
      .summary = "Data made from a public seed: no private rows, the same on every machine.",
      .reference =
          "hypercube_clusters: Hong et al., Appendix D, data set (1); gaussian: a definition",
      .params =
          {
              param::text("shape",
                          "How the features are distributed: unit Gaussians around two opposite "
                          "corners of a hypercube, or around one random mean per class.")
                  .one_of({"hypercube_clusters", "gaussian"})
                  .defaults_to("hypercube_clusters"),
              param::text("target",
                          "What is to be predicted: the class (the cluster), or a real: the inner "
                          "product of the features with a random unit vector.")
                  .one_of({"class", "linear"})
                  .defaults_to("class"),
              param::integer("seed", "Public seed that the data follows from.")
                  .at_least(0)
                  .defaults_to(1),
              param::integer("rows", "Training examples.")
                  .at_least(1)
                  .at_most(1e8)
                  .defaults_to(1000),
              param::integer("test_rows", "Test examples; 0: no test split.")
                  .at_least(0)
                  .at_most(1e8)
                  .defaults_to(1000),
              param::integer("dimensions", "Features of one example.")
                  .at_least(1)
                  .at_most(1e6)
                  .defaults_to(100),
              param::integer("classes", "Clusters; hypercube_clusters has 2.")
                  .at_least(2)
                  .at_most(1000)
                  .defaults_to(2),
              param::real("distance", "hypercube_clusters: Euclidean distance of the two corners.")
                  .at_least(0)
                  .at_most(1e6)
                  .defaults_to(10.0),
              param::real("separation",
                          "gaussian: distance between the means of two classes (root mean square).")
                  .at_least(0)
                  .at_most(1e6)
                  .defaults_to(4.0),
              param::real("label_noise",
                          "Target class: probability that a label is replaced by another class. "
                          "Target linear: standard deviation of what is added to the target.")
                  .at_least(0)
                  .at_most(1e6)
                  .defaults_to(0.0),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.synthetic", "0.1.0", "data_source/synthetic", register_components)
