// The rule that keeps a minimum distance between the rounds that a client chooses: its check and
// its cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// Limits the number of rounds in which a client takes part, and requires a least number of other
/// rounds between any two of them.
struct Separation {
  std::uint64_t max_participations = 0;  ///< > 0.
  std::uint64_t min_separation = 0;

  bool operator==(const Separation&) const = default;
  /// Returns the most rounds that one client can join in a run with this many rounds.
  std::uint64_t most_of(std::uint64_t rounds) const;
};

/// The largest squared sensitivity of C X, over all clients that keep to the rule, for a
/// lower-triangular Toeplitz matrix C with this first column, c_0 >= c_1 >= ... >= 0. The worst
/// participations are the steps 0, b, 2b, ..., with b = min_separation + 1.
/// \returns for each row the squared sensitivity of all rows up to it, that is, of a run that ends
///   there; the last element is for the whole matrix. The relative rounding error is below 2^-52
///   plus 2^-60 times the number of steps.
///
/// A client's steps pi change row r by at most the sum over t in pi of |C_rt|, for contributions of
/// norm at most 1 (triangle inequality). Proof that no participations are worse (Kalinin and
/// Lampert 2024, Theorem 2). For n rows and s <= t, the inner product of the columns s and t is
/// sum_{j < n - t} c_j c_(j+t-s). Its terms are not negative; a smaller t does not reduce their
/// number, and a smaller t - s does not decrease their size. Let p_1 < ... < p_m be allowed steps
/// and q_i = (i - 1) b. Then p_j >= q_j and p_j - p_i >= q_j - q_i for all i <= j, so each inner
/// product of two columns is largest at q, and so is their sum. More participations only add to it.
/// \throws ConfigError unless the column is finite, non-negative and non-increasing.
std::vector<double> worst_squared_sensitivities_of_decreasing(std::span<const double> first_column,
                                                              const Separation& rule);

/// The cost of releases with a window, for any participation in which each client keeps to the
/// rule. A client's steps may be chosen in any way that does not depend on its data.
///
/// Proof. Let C = N^-1 (CorrelatedRecipes), D be the diagonal of N, and m the least entry of D.
/// Then N = D (I - L) with L_{t,t-j} = -N_{t,t-j} / N_tt, so C = (I - L)^-1 D^-1. Let every
/// L_{t,t-j} be in l_j +- w_j. (I - L)^-1 is the sum, over paths, of products of entries of L.
/// Let c_0 = 1, c_d = sum_j l_j c_{d-j}, e_0 = 0, and
/// e_d = sum_j ((|l_j| + w_j) e_{d-j} + w_j |c_{d-j}|). Every entry of (I - L)^-1 at distance d is
/// in c_d +- e_d, by induction over d: it is sum_j L_{t,t-j} times the entry at distance d - j. So
/// |C_rs| <= (|c_{r-s}| + e_{r-s}) / m. With N = (I - L') D and
/// L'_{t,t-j} = -N_{t,t-j} / N_{t-j,t-j}, C = D^-1 (I - L')^-1, and the same follows from L'. The
/// smaller of the two costs is charged. For some numbers a_j and sigma_t, w is 0 for L if
/// N_{t,t-j} = sigma_t a_j, and for L' if N_{t,t-j} = a_j sigma_{t-j}.
///
/// Let u be the smallest non-increasing column nowhere below these bounds, and U its Toeplitz
/// matrix. A client that takes part in the steps pi changes row r of C X by at most the sum over t
/// in pi of |C_rt| <= (U 1_pi)_r, and no pi that keeps to the rule makes ||U 1_pi|| larger than
/// worst_squared_sensitivities_of_decreasing() says (Kalinin and Lampert 2024, Theorem 2). So no
/// client's rounds cost more than that. This also holds up to each step, because the first rows
/// form a shorter run.
///
/// \returns in of_groups one number, which every client is charged. It and worst_after include a
///   margin for rounding errors and for recipes that are proportional to `recipes` up to
///   kSameFactor. They are upper bounds: a client with other rounds costs no more.
/// \throws ConfigError for recipes without a window, for recipes without a finite bound, and if the
///   computation would take more than about a minute.
CorrelatedCost separated_cost(const CorrelatedRecipes& recipes, const Separation& rule);

/// Checks that a run's clients keep to the rule from which their charge was computed.
class SeparationWatch {
 public:
  /// \param clients  the number of clients; client numbers are below it.
  SeparationWatch(const Separation& rule, std::size_t clients);

  /// \param round  later than the round of the last take_part().
  /// \returns one line that says why the client may not take part in the round (the line counts
  ///   rounds from 1); "" if it may.
  /// \throws PrivacyError for a client number out of range.
  std::string why_not(std::uint32_t client, std::uint64_t round) const;

  /// Records the clients of a round. Must be called for every round, before anything is computed
  /// from its clients' data.
  /// \throws PrivacyError for a round that is not after the last one, and for a client that may not
  ///   take part or is listed twice. Nothing is recorded then.
  void take_part(std::uint64_t round, std::span<const std::uint32_t> clients);

  /// Saves each client's last round and number of rounds, which are as private as participation is.
  void save(StateWriter& out) const;
  /// \throws IoError for a state that was saved under another rule or with other clients.
  void restore(StateReader& in);

 private:
  Separation rule_;
  std::uint64_t next_round_ = 0;     // the earliest round that may come next
  std::vector<std::uint64_t> last_;  // [clients]: the last round plus 1; 0 if the client has not
                                     // taken part
  std::vector<std::uint64_t> count_;
};

}  // namespace privgrad::core
