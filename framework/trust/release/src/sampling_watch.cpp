#include "privgrad/trust/sampling_watch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "gradient_rows.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kBets = CountLaw::kBets;

/// Returns 2^-8, -2^-8, ..., 2^2, -2^2 for the bets 0, 1, ...
double lambda(std::size_t bet) {
  const double size = std::ldexp(1.0, static_cast<int>(bet / 2) - 8);
  return bet % 2 == 0 ? size : -size;
}

/// ln(1 + rate (exp(lambda) - 1)): the price of a bet on one trial.
double price(std::size_t bet, double rate) { return std::log1p(rate * std::expm1(lambda(bet))); }

/// Larger than the sum of all rounding errors in a logarithm of wealth. After 10^12 expected draws
/// that sum is below 0.1, because the error of each step is at most a few times 2^-53, relative to
/// the numbers that the step adds.
constexpr double kSlack = 1.0;

constexpr double kLooks = 5.0;

/// The step of a row that has been in no batch of the epoch.
constexpr std::uint32_t kNotYet = std::numeric_limits<std::uint32_t>::max();

/// ln(1 / alpha) for each test of whole batches.
double evidence_of_a_look() { return std::log(kLooks / SamplingWatch::kFalseAlarm); }

/// Returns the information, in bits, of the most likely outcome of `coins` coins.
double bits_of_coins(double coins, double rate) {
  return -coins * std::log2(std::max(rate, 1.0 - rate));
}

/// Returns the information, in bits, of a random set of `size` out of `rows` rows.
double bits_of_subset(double rows, double size) {
  const double ways =
      std::lgamma(rows + 1.0) - std::lgamma(size + 1.0) - std::lgamma(rows - size + 1.0);
  return ways * std::numbers::log2e;
}

}  // namespace

bool rest_on_secret_draws(std::span<const Charge> charges) {
  return std::ranges::any_of(
      charges, [](const Charge& charge) { return sampling_of(charge.cost).has_value(); });
}

bool draw_epochs(std::span<const Charge> charges) {
  return std::ranges::any_of(charges, [](const Charge& charge) {
    const auto sampling = sampling_of(charge.cost);
    return sampling && sampling->draw == Sampling::Draw::epoch;
  });
}

SamplingLaw sampling_law(std::span<const Charge> charges, std::uint64_t step) {
  SamplingLaw law{.first = step, .last = step};
  while (law.first > 0 && charges[law.first].cost.is_nothing()) --law.first;
  while (law.last + 1 < charges.size() && charges[law.last + 1].cost.is_nothing()) ++law.last;
  const Event& paid = charges[law.first].cost;
  if (const auto sampling = sampling_of(paid)) {
    law.rate = sampling->rate;
    switch (sampling->draw) {
      case Sampling::Draw::coins:
        law.kind = SamplingLaw::Kind::poisson;
        law.steps = 1;  // counted in the first cycle: the last may be shorter
        while (law.steps < charges.size() && charges[law.steps].cost.is_nothing()) ++law.steps;
        return law;
      case Sampling::Draw::subset:
        if (law.first != step) return law;
        return {.kind = SamplingLaw::Kind::without_replacement,
                .rate = sampling->rate,
                .rows = sampling->rows,
                .size = sampling->size};
      case Sampling::Draw::epoch:
        law.kind = SamplingLaw::Kind::allocated;
        law.steps = sampling->steps;
        return law;
    }
  }
  if (law.first == law.last) return law;
  for (std::uint64_t other = law.first; other <= law.last; ++other)
    if (charges[other].release == paid) law.kind = SamplingLaw::Kind::once;
  return law;
}

void CountLaw::add(double trials, double rate, double count) {
  for (std::size_t bet = 0; bet < kBets; ++bet)
    log_wealth_[bet] += lambda(bet) * count - trials * price(bet, rate);
}

bool CountLaw::is_refuted(double evidence) const {
  const double most = *std::max_element(log_wealth_.begin(), log_wealth_.end());
  return most >= evidence + std::log(static_cast<double>(kBets)) + kSlack;
}

void CountLaw::set_log_wealth(std::span<const double, kBets> values) {
  std::copy(values.begin(), values.end(), log_wealth_.begin());
}

void SamplingWatch::save(StateWriter& out) const {
  out.begin("sampling watch");
  out.word(batches_);
  out.word(rows_);
  out.word(static_cast<std::uint64_t>(law_.kind));
  out.word(law_.first);
  out.word(law_.last);
  for (const CountLaw* law : {&sizes_, &odd_, &returns_})
    out.array(std::span<const double>(law->log_wealth()));
  std::vector<std::uint32_t> seen;
  if (law_.kind == SamplingLaw::Kind::once) {
    for (std::size_t row = 0; row < lately_.size(); ++row)
      if (lately_[row]) seen.push_back(static_cast<std::uint32_t>(row));
  }
  out.array(seen);
  // Empty except during an epoch. It reveals no more than the epoch's coins, which are saved
  // elsewhere anyway.
  out.array(step_of_);
}

void SamplingWatch::restore(StateReader& in) {
  in.begin("sampling watch");
  batches_ = in.word();
  rows_ = in.word();
  const std::uint64_t kind = in.word();
  const std::uint64_t first = in.word(), last = in.word();
  for (CountLaw* law : {&sizes_, &odd_, &returns_}) {
    const std::vector<double> values = in.array<double>(CountLaw::kBets);
    law->set_log_wealth(std::span<const double, CountLaw::kBets>(values.data(), values.size()));
  }
  const std::vector<std::uint32_t> seen = in.array<std::uint32_t>();
  constexpr std::uint64_t kMostRows = std::uint64_t{1} << 32;
  step_of_ = in.array<std::uint32_t>();
  if (rows_ > kMostRows || kind > static_cast<std::uint64_t>(SamplingLaw::Kind::allocated))
    in.fail("its sampling watch is of no run");
  if (!step_of_.empty()) restore_epoch(in, first, last);
  if (kind != static_cast<std::uint64_t>(SamplingLaw::Kind::once)) return;
  law_ = {.kind = SamplingLaw::Kind::once, .first = first, .last = last};
  lately_.assign(rows_, false);
  for (const std::uint32_t row : seen) {
    if (row >= rows_) in.fail("its sampling watch names a row that does not exist");
    lately_[row] = true;
  }
}

void SamplingWatch::restore_epoch(StateReader& in, std::uint64_t first, std::uint64_t last) {
  if (first < charges_.size()) law_ = sampling_law(charges_, first);
  const auto is_known = [&](std::uint32_t step) { return step == kNotYet || step < law_.steps; };
  if (law_.kind != SamplingLaw::Kind::allocated || law_.first != first || law_.last != last ||
      step_of_.size() != rows_ || !std::all_of(step_of_.begin(), step_of_.end(), is_known))
    in.fail("its sampling watch has an epoch of another run");
  not_yet_ = static_cast<std::size_t>(std::count(step_of_.begin(), step_of_.end(), kNotYet));
}

SamplingWatch::SamplingWatch(std::span<const Charge> charges, std::string sampler)
    : charges_(charges), sampler_(std::move(sampler)) {}

void SamplingWatch::check(std::uint64_t step, std::size_t rows,
                          std::span<const std::uint32_t> batch) {
  check_batch(batch, rows);
  const bool same_block = step > law_.first && step <= law_.last;
  if (!same_block) {
    const SamplingLaw::Kind before = law_.kind;
    law_ = sampling_law(charges_, step);
    const bool begins_block = law_.kind == SamplingLaw::Kind::once && law_.first == step;
    if (law_.kind != before || begins_block) {
      lately_.assign(rows, false);
      for (Group& group : groups_) group.in_window = 0;
    }
  }
  if (law_.kind == SamplingLaw::Kind::any) return;
  ++batches_;
  rows_ = rows;
  if (law_.kind == SamplingLaw::Kind::once) return check_once(law_, batch);
  if (law_.kind == SamplingLaw::Kind::allocated) return check_allocated(step, batch);
  check_draw(step, law_, batch);
}

void SamplingWatch::check_draw(std::uint64_t step, const SamplingLaw& law,
                               std::span<const std::uint32_t> batch) {
  drawn_.resize(rows_);
  std::size_t group = 0;
  if (law.kind == SamplingLaw::Kind::poisson) {
    groups_.resize(law.steps);
    group = step - law.first;
    if (std::any_of(batch.begin(), batch.end(),
                    [&](std::uint32_t row) { return row % law.steps != group; })) {
      throw PluginError(sampler_ + ": the batch of step " + std::to_string(step) +
                        " has a row that was charged for another step of the cycle");
    }
    const std::size_t coins = (rows_ + law.steps - 1 - group) / law.steps;
    check_sizes(step, coins, law.rate, batch.size());
    check_is_new(step, bits_of_coins(static_cast<double>(coins), law.rate), batch);
  } else if (rows_ != law.rows || batch.size() != law.size) {
    refuse(step, "have another size, or come of another number of rows, than");
  } else {
    const double bits =
        bits_of_subset(static_cast<double>(law.rows), static_cast<double>(law.size));
    check_is_new(step, bits, batch);
  }
  check_returns(step, group, law.rate, batch);
  check_rows(step, group, law.rate, batch);
}

void SamplingWatch::check_is_new(std::uint64_t step, double bits,
                                 std::span<const std::uint32_t> batch) {
  if (bits < kBitsOfABatch) return;
  std::vector<std::uint32_t> rows(batch.begin(), batch.end());
  std::sort(rows.begin(), rows.end());
  const auto bytes = std::as_bytes(std::span(rows));
  std::string hash = sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (batches_before_.contains(hash)) refuse(step, "are alike more often than");
  if (batches_before_.size() < kMostBatches) batches_before_.insert(std::move(hash));
}

void SamplingWatch::check_sizes(std::uint64_t step, std::size_t rows, double rate,
                                std::size_t size) {
  const auto coins = static_cast<double>(rows);
  sizes_.add(coins, rate, static_cast<double>(size));
  if (sizes_.is_refuted(evidence_of_a_look())) refuse(step, "are larger or smaller than");
  // E (-1)^size = (1 - 2 rate)^coins
  odd_.add(1.0, (1.0 - std::pow(1.0 - 2.0 * rate, coins)) / 2.0, size % 2 == 0 ? 0.0 : 1.0);
  if (odd_.is_refuted(evidence_of_a_look())) refuse(step, "vary less, or otherwise, than");
}

/// A group's window is cleared once it contains half of the group's rows, because with all rows in
/// the window every draw is a repeated row, which proves nothing.
void SamplingWatch::check_returns(std::uint64_t step, std::size_t group, double rate,
                                  std::span<const std::uint32_t> batch) {
  std::size_t& in_window = groups_[group].in_window;
  std::size_t again = 0, fresh = 0;
  for (const std::uint32_t row : batch) again += lately_[row] ? 1 : 0;
  returns_.add(static_cast<double>(in_window), rate, static_cast<double>(again));
  if (returns_.is_refuted(evidence_of_a_look()))
    refuse(step, "name the rows of earlier ones more often, or less, than");
  if (in_window > rows_ / groups_.size() / 2) {
    for (std::size_t row = group; row < rows_; row += groups_.size()) lately_[row] = false;
    in_window = 0;
  }
  for (const std::uint32_t row : batch) {
    fresh += lately_[row] ? 0 : 1;
    lately_[row] = true;
  }
  in_window += fresh;
}

/// In logarithms, a bet on a row gains lambda for each draw of the row, and pays a price that is
/// the same for all rows of the group. Evidence against the law thus comes from rows that were
/// drawn too often or too rarely, by limits that the group shares. Only rows drawn now can have
/// become too frequent, and a row can have become too rare only if the lower limit has reached
/// another integer.
void SamplingWatch::check_rows(std::uint64_t step, std::size_t group, double rate,
                               std::span<const std::uint32_t> batch) {
  Group& own = groups_[group];
  for (std::size_t bet = 0; bet < kBets; ++bet) own.price[bet] += price(bet, rate);
  const Limits limits = limits_of_a_row(own);
  bool too_often = false;
  for (const std::uint32_t row : batch) too_often |= ++drawn_[row] >= limits.most;
  if (too_often) refuse(step, "name a row more often than");
  if (limits.least <= own.checked_least) return;
  own.checked_least = limits.least;
  for (std::size_t row = group; row < rows_; row += groups_.size())
    if (drawn_[row] <= limits.least) refuse(step, "name a row less often than");
}

SamplingWatch::Limits SamplingWatch::limits_of_a_row(const Group& group) const {
  const double evidence = evidence_of_a_look() + std::log(static_cast<double>(kBets)) +
                          std::log(static_cast<double>(rows_)) + kSlack;
  Limits limits{-1.0, std::numeric_limits<double>::infinity()};
  for (std::size_t bet = 0; bet < kBets; ++bet) {
    const double times = (evidence + group.price[bet]) / lambda(bet);
    if (lambda(bet) > 0.0) limits.most = std::min(limits.most, times);
    if (lambda(bet) < 0.0) limits.least = std::max(limits.least, std::floor(times));
  }
  return limits;
}

void SamplingWatch::check_once(const SamplingLaw& law, std::span<const std::uint32_t> batch) {
  for (const std::uint32_t row : batch) {
    if (lately_[row]) {
      throw PluginError(sampler_ + ": a row is in two batches of the steps " +
                        std::to_string(law.first) + " to " + std::to_string(law.last) +
                        ", which are charged together as one release");
    }
    lately_[row] = true;
  }
}

void SamplingWatch::check_allocated(std::uint64_t step, std::span<const std::uint32_t> batch) {
  const std::uint64_t within = step - law_.first;
  if (within == 0) {
    step_of_.assign(rows_, kNotYet);
    not_yet_ = rows_;
  }
  if (step_of_.size() != rows_) refuse_epoch("the steps before are not known");
  if (within >= law_.steps) refuse_epoch("more steps are made than were charged");
  for (const std::uint32_t row : batch)
    if (step_of_[row] != kNotYet) refuse_epoch("a row is in two batches");
  // At the last step the draw is certain.
  const bool is_last = within + 1 == law_.steps;
  if (!is_last) check_coins(step, 1.0 / static_cast<double>(law_.steps - within), batch);
  for (const std::uint32_t row : batch) step_of_[row] = static_cast<std::uint32_t>(within);
  not_yet_ -= batch.size();
  if (is_last && not_yet_ > 0) refuse_epoch("a row is in no batch");
  if (is_last) end_epoch();
}

void SamplingWatch::check_coins(std::uint64_t step, double rate,
                                std::span<const std::uint32_t> batch) {
  check_sizes(step, not_yet_, rate, batch.size());
  check_is_new(step, bits_of_coins(static_cast<double>(not_yet_), rate), batch);
  check_together(step, rate, batch);
}

void SamplingWatch::check_together(std::uint64_t step, double rate,
                                   std::span<const std::uint32_t> batch) {
  if (step_before_.size() != rows_ || batch.empty()) return;
  const std::uint32_t first = *std::min_element(batch.begin(), batch.end());
  const std::uint32_t old = step_before_[first];
  double trials = 0.0, together = 0.0;
  for (std::size_t at = begins_before_[old]; at < begins_before_[old + 1]; ++at) {
    const std::uint32_t row = rows_before_[at];
    if (row > first && step_of_[row] == kNotYet) trials += 1.0;
  }
  for (const std::uint32_t row : batch)
    if (row != first && step_before_[row] == old) together += 1.0;
  returns_.add(trials, rate, together);
  if (returns_.is_refuted(evidence_of_a_look()))
    refuse(step, "name the rows of earlier ones more often, or less, than");
}

/// Sorts the rows by their steps.
void SamplingWatch::end_epoch() {
  begins_before_.assign(law_.steps + 1, 0);
  for (const std::uint32_t step : step_of_) ++begins_before_[step + 1];
  std::partial_sum(begins_before_.begin(), begins_before_.end(), begins_before_.begin());
  std::vector<std::size_t> next(begins_before_.begin(), begins_before_.end() - 1);
  rows_before_.resize(rows_);
  for (std::uint32_t row = 0; row < rows_; ++row) rows_before_[next[step_of_[row]]++] = row;
  step_before_ = std::exchange(step_of_, {});
}

void SamplingWatch::refuse_epoch(const std::string& what) const {
  throw PluginError(sampler_ + ": in the epoch of steps " + std::to_string(law_.first) + " to " +
                    std::to_string(law_.last) + ", " + what +
                    ", and each row was charged for one step of it");
}

void SamplingWatch::refuse(std::uint64_t step, const std::string& what) const {
  throw PluginError(sampler_ + ": the batches up to step " + std::to_string(step) + " " + what +
                    " what was charged for them allows; a sampler that draws as it is accounted " +
                    "does that with probability 2^-64 at most");
}

}  // namespace privgrad::core
