#include <algorithm>
#include <map>
#include <string>

#include "../shares_out.hpp"
#include "privgrad/plugin.hpp"

namespace {

using privgrad::Dataset;
using privgrad::RandomSource;

/// A feature names the client, as data that were collected in different places have one.
class ByColumn final : public SharesOut {
 public:
  explicit ByColumn(const privgrad::Params& params)
      : column_(static_cast<std::size_t>(params.integer("column"))) {}

  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                        const RandomSource&) const override {
    if (column_ >= train.row_size()) {
      throw privgrad::ConfigError("by_column: column is " + std::to_string(column_) +
                                  ", but examples have " + std::to_string(train.row_size()) +
                                  " features; the first is 0");
    }
    std::vector<float> values = column(train);
    std::map<float, std::uint32_t> client_of;
    for (const float value : values) client_of.emplace(value, 0u);
    if (client_of.size() != clients) {
      throw privgrad::ConfigError("by_column: feature " + std::to_string(column_) + " has " +
                                  std::to_string(client_of.size()) +
                                  " different values, and clients is " + std::to_string(clients) +
                                  "; expected one value for each client");
    }
    std::uint32_t next = 0;
    for (auto& [value, client] : client_of) client = next++;
    std::vector<std::uint32_t> owners;
    owners.reserve(values.size());
    for (const float value : values) owners.push_back(client_of.at(value));
    return owners;
  }

  std::vector<std::uint64_t> sizes(std::uint64_t, std::uint64_t,
                                   const RandomSource&) const override {
    return {};
  }

  bool looks_at_examples() const override { return true; }

  /// The client is the rank of an example's own value among the clients' values, which are public:
  /// a data set that lacks one of them is refused.
  bool is_drawn() const override { return false; }

 private:
  /// Taken a few rows at a time: images stay bytes.
  std::vector<float> column(const Dataset& train) const {
    std::vector<float> values, features(train.row_size()), target(1);
    values.reserve(train.rows());
    for (std::uint32_t row = 0; row < train.rows(); ++row) {
      train.gather({&row, 1}, features, target);
      values.push_back(features[column_]);
    }
    return values;
  }

  std::size_t column_;
};

void register_components(privgrad::Registrar& registrar) {
  using namespace privgrad::param;
  registrar.add<privgrad::Transform, ByColumn>({
      .name = "by_column",
      .summary = "Partition of a federated run: each value of a feature is a client, in ascending "
                 "order.",
      .reference = "none: a definition",
      .params = {integer("column",
                         "Number of the feature, from 0, as the data source gives it. It stays "
                         "among the features.")
                     .at_least(0)
                     .at_most(4294967295.0)
                     .example(0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.by_column", "0.1.0", register_components)
