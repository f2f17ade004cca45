// Receipts for the processes of a run that hold no ledger of their own.
#pragma once

#include <span>
#include <vector>

#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

/// Receipts in a process without a ledger, for a run that several processes make together.
///
/// A receipt is used once. The process that holds the ledger has informed the caller that the lines
/// of these charges are on its disk, and that it has given up its own receipts for them
/// (Trainer::hand_over). The noise that a receipt covers is not read from the message: it comes
/// from the plan's charges, which all processes have made from the same manifest and examples.
class PaidElsewhere {
 public:
  /// \param charges  the plan's charges that were paid for, in order.
  /// \returns a receipt for each.
  static std::vector<Receipt> receipts(std::span<const Charge> charges) {
    std::vector<Receipt> receipts;
    receipts.reserve(charges.size());
    for (const Charge& charge : charges) receipts.push_back(Receipt(charge.step, charge.release));
    return receipts;
  }
};

}  // namespace privgrad::core
