// For transforms that divide the training examples among the clients of a federated run.
#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"
#include "privgrad/random.hpp"

namespace privgrad {

/// Optional ability of a transform: it assigns each training example to a client of a federated
/// run. Such a transform does not change the examples; it belongs in `federated.partition` of a
/// manifest.
///
/// Privacy: a simulation takes the shards as given, just as real clients have their own data: the
/// guarantee is about one example of one shard. The guarantee does not cover how the shards are
/// made: if examples affect the shards, outputs list this as unaccounted. Threads: const functions
/// may run concurrently.
class PRIVGRAD_API Partition {
 public:
  virtual ~Partition();

  /// \param clients  > 0.
  /// \param random  the random streams of this run's partition.
  /// \returns [train.rows()]: the client of each example, below `clients`.
  /// \throws ConfigError if the examples cannot be divided in this way.
  virtual std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                                const RandomSource& random) const = 0;

  /// Returns the number of examples of each client, if it depends only on the total number (and on
  /// `random`); empty if it depends on the content of the examples. For the actual number of rows,
  /// the sizes agree with clients_of().
  virtual std::vector<std::uint64_t> sizes(std::uint64_t rows, std::uint64_t clients,
                                           const RandomSource& random) const = 0;

  /// Whether the content of examples affects which clients these or other examples belong to.
  virtual bool looks_at_examples() const = 0;

  /// Whether an example's client is drawn, or depends on which other examples exist. If not, the
  /// client follows from the example's own values, as with real clients, and removing an example
  /// moves no other example to another client. Only then can a manifest say `federated.shards:
  /// given`.
  virtual bool is_drawn() const { return true; }
};

}  // namespace privgrad
