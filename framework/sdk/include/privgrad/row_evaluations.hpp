// For programs that evaluate many examples at once and return a result for each.
#pragma once

#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Optional ability of a program: it evaluates many examples at once, and gives for each
/// the result that evaluate() gives for that example alone. Releases of losses and
/// accuracies are computed from these results, so an example's result must not depend on
/// any other example. If a program lacks the ability, the core evaluates one example at a
/// time. The conformance suite tests it, and the core compares some examples in every
/// run.
///
/// Privacy: like Program. Threads: calls may run concurrently.
class PRIVGRAD_API RowEvaluations {
 public:
  virtual ~RowEvaluations();
  RowEvaluations(const RowEvaluations&) = delete;
  RowEvaluations& operator=(const RowEvaluations&) = delete;

  /// \param each  out: [batch.rows()]: for each example the result of evaluate() for a batch with
  ///   only this example, bit for bit, at any place among any other examples.
  virtual void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const = 0;

 protected:
  RowEvaluations() = default;
};

}  // namespace privgrad
