// Clients that take part whenever they may, with rounds between: the rule, its watch and its cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The rule for the rounds of a client: at most so many, and at least so many others between any
/// two of them.
struct Separation {
  std::uint64_t max_participations = 0;  ///< > 0.
  std::uint64_t min_separation = 0;

  bool operator==(const Separation&) const = default;
  /// The rounds of a client, at most, in a run of so many.
  std::uint64_t most_of(std::uint64_t rounds) const;
};

/// The cost of releases with a window, whoever takes part in which step, as long as each client
/// keeps to the rule. The number of a client's steps and the steps themselves may be anything that
/// does not depend on its data.
///
/// Proof. C = N^-1 (CorrelatedRecipes), D the diagonal of N, m the least entry of D. N = D (I - L) with
/// L_{t,t-j} = -N_{t,t-j} / N_tt, so C = (I - L)^-1 D^-1. Let every L_{t,t-j} be in l_j +- w_j, and
/// (I - L)^-1 = sum over paths of products of entries of L. With c_0 = 1, c_d = sum_j l_j c_{d-j} and
/// e_0 = 0, e_d = sum_j ((|l_j| + w_j) e_{d-j} + w_j |c_{d-j}|), every entry of (I - L)^-1 at distance d
/// is in c_d +- e_d, by induction over d: it is sum_j L_{t,t-j} times the entry at distance d - j. So
/// |C_rs| <= (|c_{r-s}| + e_{r-s}) / m. With N = (I - L') D, L'_{t,t-j} = -N_{t,t-j} / N_{t-j,t-j}, C =
/// D^-1 (I - L')^-1, and the same follows from L'. Whichever of the two costs less is charged: with
/// N_{t,t-j} = a_j sigma_{t-j} the second has w = 0, with sigma_t a_j the first.
///
/// Let u be the least column of numbers that does not increase and is nowhere below these bounds. A
/// client that takes part in the steps pi changes row r of C X by at most sum over t in pi of
/// |C_rt| <= (U 1_pi)_r, U the Toeplitz matrix of u; and no pi that keeps to the rule makes ||U 1_pi||
/// larger than worst_squared_sensitivities_of_decreasing() says (Kalinin and Lampert 2024, Theorem
/// 2). So the cost of any client's rounds is at most that, and up to each step, too: the first rows
/// are those of a shorter run.
///
/// \returns worst_after with room for roundings, and for recipes whose factors to these agree to
///   kSameFactor; of_groups: the one number that is charged for everybody. It is an upper bound: a
///   client whose rounds are others costs less.
/// \throws ConfigError for recipes without a window, for those of which nothing finite is proved, and
///   where it takes more than a minute or so.
CorrelatedCost separated_cost(const CorrelatedRecipes& recipes, const Separation& rule);

/// Holds the rounds of a run's clients against the rule that they are charged by.
class SeparationWatch {
 public:
  /// \param clients  their numbers are below this.
  SeparationWatch(const Separation& rule, std::size_t clients);

  /// \param round  not below that of the last take_part().
  /// \returns why the client may not take part in the round, in one line; "": it may. Rounds are
  ///   counted from 1 there.
  /// \throws PrivacyError for a client that is none.
  std::string why_not(std::uint32_t client, std::uint64_t round) const;

  /// To be called for every round, before anything is computed from the data of the clients in it.
  /// \throws PrivacyError for a round that is not after the last one, and for a client that may not
  ///   take part, or comes twice. Nothing is noted then.
  void take_part(std::uint64_t round, std::span<const std::uint32_t> clients);

  /// Who took part when: as private as participation is.
  void save(StateWriter& out) const;
  /// \throws IoError for a state of another rule.
  void restore(StateReader& in);

 private:
  Separation rule_;
  std::uint64_t next_round_ = 0;     // the first that may come
  std::vector<std::uint64_t> last_;  // [clients]: the last round, plus 1; 0: none
  std::vector<std::uint64_t> count_;
};

}  // namespace privgrad::core
