// The common part of layers whose gradients are kept as rows of floats, on a device.
#pragma once

#include <cstddef>
#include <memory>

#include "layers/step.hpp"

namespace privgrad::cuda {

class KeptRows : public Step {
 public:
  using Step::Step;

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    if (use >= PassUse::cells) pass.kept = {device, rows * parameter_count_};
  }
  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    gradient_rows(queue, rows, pass, pass.kept.data(), parameter_count_);
    find_statistics(queue, rows, parameter_count_, pass.kept.data(), group.largest_error,
                    group.error_squares);
    launch_each(queue, RowNorm{rows, group.groups, group.group, group.error_squares, group.shares});
  }
  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch(queue, RowSquares{rows, parameter_count_, 0, group.groups, group.group, group.shares,
                             pass.kept.data(), nullptr, group.squares});
  }
  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    launch(queue, SumOfCells<RowCells>{{parameter_count_, rows, group.groups, group.group,
                                        group.shares, pass.kept.data(), group.taken, sum}});
  }
  void find_factors(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                    const FactorPlaces& at) const override {
    launch_each(queue, RowFactors{rows * at.count, at.of(offset(), parameter_count_), group.groups,
                                  group.group, group.shares, pass.kept.data()});
  }
};

}  // namespace privgrad::cuda
