// The receipts for an owner's paid steps that are not yet made.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

/// A queue of receipts, one for each paid step that is not yet made, in the steps' order.
class Receipts {
 public:
  /// Requires a receipt for every step from now on, because noise is charged.
  void expect() noexcept { are_expected_ = true; }
  bool are_expected() const noexcept { return are_expected_; }

  std::size_t size() const noexcept { return left_.size(); }
  void add(Receipt receipt) { left_.push_back(std::move(receipt)); }

  /// \throws PrivacyError if there is no receipt.
  void need_one() const {
    if (left_.empty()) throw PrivacyError("a step that was not charged is about to be made");
  }
  /// \returns the receipt of the next step.
  /// \throws as need_one()
  Receipt take() {
    need_one();
    Receipt receipt = std::move(left_.front());
    left_.pop_front();
    return receipt;
  }

 private:
  std::deque<Receipt> left_;
  bool are_expected_ = false;
};

}  // namespace privgrad::core
