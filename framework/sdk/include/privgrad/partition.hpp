// For transforms that divide the training examples among the clients of a federated run.
#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"
#include "privgrad/random.hpp"

namespace privgrad {

/// Optional ability of a transform: it says which client of a federated run each training example
/// lies with. Such a transform leaves the examples as they are; its place in a manifest is
/// `federated.partition`.
///
/// Privacy: a simulation takes the shards as given, as they are where data really lie with clients:
/// what is proved is about one example of one shard. How the shards were made is not covered, and
/// is listed wherever examples decide about it.
/// Threads: const functions may run concurrently.
class PRIVGRAD_API Partition {
 public:
  virtual ~Partition();

  /// \param clients  > 0.
  /// \param random  the random streams of this run's partition.
  /// \returns [train.rows()]: the client of each example, below `clients`.
  /// \throws ConfigError if the examples cannot be shared out so.
  virtual std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                                const RandomSource& random) const = 0;

  /// The number of examples of each client, if it follows from how many there are in all (and from
  /// `random`); empty if it depends on what the examples hold. With the real number of rows, the
  /// sizes that clients_of() gives.
  virtual std::vector<std::uint64_t> sizes(std::uint64_t rows, std::uint64_t clients,
                                           const RandomSource& random) const = 0;

  /// Whether examples decide where they, or others, lie.
  virtual bool looks_at_examples() const = 0;

  /// Whether an example's client is drawn, or depends on which other examples there are. If not, it
  /// follows from the example's own values, as where data lie with clients already, and removing an
  /// example moves no other: only then can a manifest say `federated.shards: given`.
  virtual bool is_drawn() const { return true; }
};

}  // namespace privgrad
