#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fused.hpp"

// What tasks of a pass share: the sizes of their pieces, and their memory.
namespace privgrad::cpu {

/// Examples that a task takes through the layers between dense ones.
constexpr std::size_t kBlock = 8;

/// Examples of a block whose patches are multiplied together: so many that a product has 256 rows
/// of patches, if the block does.
inline std::size_t examples_together(const ConvStep& step, std::size_t count) {
  constexpr std::size_t kPatchRows = 256;
  return std::min(count, (kPatchRows + step.places() - 1) / step.places());
}

inline float* at_least(std::vector<float>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

/// A task's memory, given back at the end.
class FusedPass::Lease {
 public:
  explicit Lease(FusedPass& pass) : pass_(pass) {
    const std::lock_guard lock(pass_.mutex_);
    if (pass_.scratch_.empty()) {
      scratch_ = std::make_unique<Scratch>();
    } else {
      scratch_ = std::move(pass_.scratch_.back());
      pass_.scratch_.pop_back();
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(pass_.mutex_);
    pass_.scratch_.push_back(std::move(scratch_));
  }
  Scratch& operator*() const { return *scratch_; }
  Scratch* operator->() const { return scratch_.get(); }

 private:
  FusedPass& pass_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace privgrad::cpu
