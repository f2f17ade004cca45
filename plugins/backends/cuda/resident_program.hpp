// A program whose whole step stays on the device: the sum, the noise and the optimizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/executor.hpp"
#include "privgrad/resident_steps.hpp"
#include "program.hpp"

namespace privgrad::cuda {

class StepMemory;

/// A CudaProgram whose steps stay on the device: sum, noise (noise.hpp) and optimizer.
class ResidentProgram final : public CudaProgram, public ResidentSteps {
 public:
  /// \param executor  copies rows that do not fit on the device; outlives the program.
  /// \param most_bytes_of_rows  how much device memory the rows may occupy; nothing: a quarter of
  ///   the free memory.
  ResidentProgram(Network network, std::shared_ptr<Device> device, Executor& executor,
                  std::optional<std::size_t> most_bytes_of_rows = std::nullopt)
      : CudaProgram(std::move(network), std::move(device)),
        executor_(executor),
        most_bytes_of_rows_(most_bytes_of_rows) {}

  /// \throws IoError that states the required memory, if there is too little.
  std::unique_ptr<Memory> make_memory(std::size_t state_vectors,
                                      const Dataset& data) const override;
  void clear_sum(Memory& memory) const override;
  void clip_rows(ExactClipping::Pass& pass, std::span<const std::uint32_t> rows,
                 const CellScaling& scaling, Memory& memory, const Clipped& found) const override;
  void add_to_sum(ExactClipping::Pass& pass, std::span<const std::uint8_t> taken,
                  Memory& memory) const override;
  void factors_at(ExactClipping::Pass& pass, std::span<const std::uint64_t> places, Memory& memory,
                  std::span<CellFactors> factors) const override;
  std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const override;
  void put_released(Memory& memory, std::uint64_t chunk,
                    std::span<const std::int64_t> cells) const override;
  Moved update(Memory& memory, const StepRule& rule, double width) override;
  void cells_at(const Memory& memory, Cells what, std::span<const std::uint64_t> places,
                std::span<std::int64_t> out) const override;
  void numbers_at(const Memory& memory, Numbers what, std::span<const std::uint64_t> places,
                  std::span<float> out) const override;
  void numbers(const Memory& memory, Numbers what, std::span<float> out) const override;
  void put_numbers(Memory& memory, Numbers what, std::span<const float> values) override;
  void settle(Memory& memory) const override;

 private:
  void bring_rows(std::span<const std::uint32_t> rows, StepMemory& memory, CudaPass& pass) const;
  float* vector_of(const StepMemory& memory, Numbers what) const;
  void check_places(std::span<const std::uint64_t> places) const;

  Executor& executor_;
  std::optional<std::size_t> most_bytes_of_rows_;
};

}  // namespace privgrad::cuda
