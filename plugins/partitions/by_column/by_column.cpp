#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../shares_out.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Assigns examples to clients by the value of a feature, as in data that was collected in
/// different places. The mapping from values to clients is declared, so an example's client depends
/// only on its own value and public numbers: no example affects another. If the clients' sizes are
/// public, an example can only be exchanged for an example of the same client.
class ByColumn final : public SharesOut {
 public:
  explicit ByColumn(const Params& params)
      : column_(static_cast<std::size_t>(params.integer("column"))),
        other_(static_cast<std::uint32_t>(params.integer("other"))) {
    std::uint32_t next = 0;
    for (const double value : params.reals("values")) {
      if (!client_of_.emplace(static_cast<float>(value), next++).second) {
        throw ConfigError("by_column: values: " + format_number(value) +
                          " is there twice (as a feature, which is a float32)");
      }
    }
    if (other_ >= client_of_.size()) {
      throw ConfigError("by_column: other is client " + std::to_string(other_) +
                        ", but values names " + std::to_string(client_of_.size()) +
                        ", counted from 0");
    }
  }

  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                        const RandomSource&) const override {
    if (column_ >= train.row_size()) {
      throw ConfigError("by_column: column is " + std::to_string(column_) + ", but examples have " +
                        std::to_string(train.row_size()) + " features; the first is 0");
    }
    if (client_of_.size() != clients) {
      throw ConfigError("by_column: values has " + std::to_string(client_of_.size()) +
                        " entries, and clients is " + std::to_string(clients) +
                        "; expected one value for each client");
    }
    std::vector<std::uint32_t> owners;
    owners.reserve(train.rows());
    for (const float value : column(train)) {
      const auto found = client_of_.find(value);  // NaN equals no key, and has no order
      owners.push_back(value != value || found == client_of_.end() ? other_ : found->second);
    }
    return owners;
  }

  std::vector<std::uint64_t> sizes(std::uint64_t, std::uint64_t,
                                   const RandomSource&) const override {
    return {};
  }

  bool looks_at_examples() const override { return true; }

  bool is_drawn() const override { return false; }

 private:
  /// Reads one row at a time, so that rows stored as bytes are not all converted at once.
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
  std::uint32_t other_;
  std::map<float, std::uint32_t> client_of_;  ///< The client of each declared value.
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Transform, ByColumn>({
      .name = "by_column",
      .summary = "Partition of a federated run: each declared value of a feature is a client.",
      .reference = "none: a definition",
      .params = {integer("column",
                         "Number of the feature, from 0, as the data source gives it. It stays "
                         "among the features.")
                     .at_least(0)
                     .at_most(4294967295.0)
                     .example(0),
                 list("values",
                      "The feature's value of each client, in their order; public. A client whose "
                      "value no example has gets no examples.",
                      real("value", "One value."))
                     .at_least_items(1)
                     .example(Value(Value::List{0, 1, 2})),
                 integer("other",
                         "The client, counted from 0, that gets the examples of any other value.")
                     .at_least(0)
                     .at_most(99999)
                     .defaults_to(0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.by_column", "0.1.0", "transform/by_column", register_components)
