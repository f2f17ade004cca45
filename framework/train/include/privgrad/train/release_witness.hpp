#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// Where something was released, and from what. Private: the batch is.
struct ReleaseSeen {
  enum class What {
    gradient = 1,  ///< Of a step; several sums where the aggregator takes differences of gradients.
    measurement,   ///< That noise follows.
    estimate,      ///< Of a client's losses.
    statistic,     ///< That a transform learns from, before the first step.
    report,        ///< Of the final model's accuracy.
    rows,          ///< How many there are, before any statistic.
    classes,       ///< How many each class has.
  };
  What what = What::gradient;
  std::optional<std::size_t> client;  ///< Of fed_avg; nothing: of the run's owner, or its server.
  std::uint64_t step = 0;             ///< As its receipt counts; of a statistic, the transform.
  /// Rows of the data set as they were drawn; clients' numbers at a server; of a measurement, and of a
  /// statistic or a report, none: they are of all rows.
  std::span<const std::uint32_t> batch;
  std::span<const float> model;    ///< That it was computed at.
  std::span<const float> reached;  ///< Of an estimate: the model that the local steps came to.
  double clip_norm = 0.0;          ///< Of a gradient: the one in use. Of a statistic: its bound.
};

/// Stands between what a run releases and all that follows from it. All that a run does with private
/// rows it shows here; what comes behind may follow from what is given back, and from nothing else.
/// So a run on other rows that is given the releases of the first must do as the first did: adaptive
/// composition, acted out (falsify.hpp).
///
/// What is given back is a Released, which a mechanism alone can make: paid for, if by another run.
///
/// Threads: called by whoever releases: of federated runs by many at once.
class ReleaseWitness {
 public:
  ReleaseWitness() = default;
  ReleaseWitness(const ReleaseWitness&) = delete;
  ReleaseWitness& operator=(const ReleaseWitness&) = delete;
  virtual ~ReleaseWitness() = default;

  /// \param own  what was released.
  /// \returns what the run goes on with, as many and of the same sizes; valid while the run is.
  virtual std::span<const Released> released(const ReleaseSeen& seen,
                                             std::vector<Released> own) = 0;
};

/// \param witness  null: nobody stands between.
/// \param own  what was released; given away to a witness. Outlives what is returned.
/// \returns what the run goes on with.
inline std::span<const Released> led_by(ReleaseWitness* witness, const ReleaseSeen& seen,
                                        std::vector<Released>& own) {
  return witness == nullptr ? std::span<const Released>(own)
                            : witness->released(seen, std::move(own));
}

}  // namespace privgrad::core
