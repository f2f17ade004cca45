// The device memory of one pass over a microbatch, which the parts of a CudaProgram share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device.hpp"
#include "layers/step.hpp"
#include "privgrad/backend.hpp"

namespace privgrad::cuda {

void check_size(const char* what, std::size_t size, std::size_t expected);
std::string mebibytes(std::size_t bytes);

/// Memory on the device for the examples of a batch.
class CudaPass final : public ExactClipping::Pass {
 public:
  std::size_t most_rows = 0, rows = 0;
  std::unique_ptr<Queue> queue;
  std::vector<StepPass> steps;
  Array<float> features, targets;
  Array<std::uint32_t> numbers;     // for a ResidentProgram: row numbers in its memory's data
  std::vector<Array<float>> added;  // derivatives before addition, for the inputs of one step
  Array<double> losses;
  Array<std::uint8_t> correct;
  // For cells:
  Array<Share> shares;               // [rows, groups]
  Array<SquareParts> squares;        // [groups, most_rows]
  Array<float> largest[2];           // [rows]
  Array<double> sums_of_squares[2];  // [rows]
  Array<std::int32_t> place_sums;
  Array<double> norms, scales;  // [rows, groups]
  Array<Wide> lengths;
  Array<std::uint64_t> checksums;  // [rows], of a ResidentProgram
  Array<std::uint8_t> truncates, taken;
  Array<std::uint64_t> sum;  // [parameters]
  bool has_cells = false;
  Array<Factors> factors;  // the last requested factors; as large as the largest request
};

void check_rows(std::size_t rows, const CudaPass& pass);
void check_most_cells(std::uint64_t most_cells);

inline CudaPass& own_pass(ExactClipping::Pass& pass) { return dynamic_cast<CudaPass&>(pass); }

}  // namespace privgrad::cuda
