// Piece sizes and reusable memory for the tasks of an exact pass.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "exact.hpp"

namespace privgrad::cpu {

/// Examples that a task takes through the layers between dense ones.
constexpr std::size_t kExactBlock = 8;

/// Parameters whose kept gradients are added up by one task.
constexpr std::size_t kRowPiece = 4096;

/// Biases of a dense layer that one task adds up.
constexpr std::size_t kBiasPiece = 1024;

/// Memory lent to a task, given back at its end.
class ExactPass::Lease {
 public:
  explicit Lease(ExactPass& pass) : pass_(pass) {
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
  ExactPass& pass_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace privgrad::cpu
