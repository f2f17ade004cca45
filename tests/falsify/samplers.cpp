// Samplers whose batches are not what is charged for them, and the other way round.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "fault.hpp"
#include "privgrad/error.hpp"
#include "privgrad/sampler.hpp"

using namespace privgrad;

namespace samplers {

using Rows = std::vector<std::uint32_t>;
constexpr double kRate = 0.2;

/// What it is that is broken.
enum class Law { poisson = 1, subset, epochs, all };

/// Right samplers of all four kinds, and what faults of them can use.
class Base : public Sampler {
 public:
  void begin(const SamplingPlan& plan, Law law) {
    plan_ = plan;
    law_ = law;
    if (law == Law::subset || law == Law::epochs) {
      if (plan.dataset_size % 5 != 0) throw ConfigError("no multiple of 5");
    }
  }
  double fifth() const { return kRate * static_cast<double>(plan_.dataset_size); }
  std::size_t whole_fifth() const { return static_cast<std::size_t>(plan_.dataset_size / 5); }

  static void poisson(std::uint64_t index, std::size_t rows, double rate,
                      const RandomSource& random, Rows& batch) {
    const auto stream = random.stream(index);
    batch.clear();
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (stream->uniform() < rate) batch.push_back(row);
    }
  }
  static Rows shuffled(std::uint64_t index, std::size_t rows, const RandomSource& random) {
    const auto stream = random.stream(index);
    Rows order(rows);
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t i = rows; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(stream->uniform_below(i))]);
    return order;
  }
  void right(std::uint64_t step, std::size_t rows, const RandomSource& random, Rows& batch) const {
    if (law_ == Law::poisson) return poisson(step, rows, kRate, random, batch);
    if (law_ == Law::all) {
      batch.resize(rows);
      return std::iota(batch.begin(), batch.end(), 0u);
    }
    if (rows != plan_.dataset_size) throw ConfigError("the size is fixed");
    const bool anew = law_ == Law::subset;
    const Rows order = shuffled(anew ? step : step / 5, rows, random);
    const std::size_t from = anew ? 0 : (step % 5) * whole_fifth();
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(from);
    batch.assign(begin, begin + static_cast<std::ptrdiff_t>(whole_fifth()));
  }
  Event right_cost(std::size_t step, const Event& release, Law law) const {
    if (law == Law::poisson) return Event::poisson_sampled(kRate, release);
    if (law == Law::subset)
      return Event::sampled_without_replacement(static_cast<std::int64_t>(plan_.dataset_size),
                                                static_cast<std::int64_t>(whole_fifth()), release);
    return law == Law::all || step % 5 == 0 ? release : Event::nothing();
  }
  std::vector<Event> right_charges(std::span<const Event> releases, Law law) const {
    std::vector<Event> all;
    for (std::size_t i = 0; i < releases.size(); ++i)
      all.push_back(right_cost(i, releases[i], law));
    return all;
  }
  std::vector<Event> right_charges(std::span<const Event> releases) const {
    return right_charges(releases, law_);
  }

  SamplingPlan plan_;
  Law law_ = Law::poisson;
  Rows last_;
  mutable std::uint64_t calls_ = 0;
  std::size_t drawn_ = 0;
};

using Draw = void (*)(Base&, std::uint64_t, std::size_t, const RandomSource&, Rows&);
using Charges = std::vector<Event> (*)(const Base&, std::span<const Event>);
using Size = double (*)(const Base&, std::uint64_t);

struct Row {
  Told told;
  Law law = Law::poisson;
  Draw draw = nullptr;
  Charges charges = nullptr;
  Size size = nullptr;
};

std::vector<Event> each(std::span<const Event> releases, Event (*cost)(const Event&)) {
  std::vector<Event> all;
  for (const Event& release : releases) all.push_back(cost(release));
  return all;
}
std::vector<Event> some(std::span<const Event> releases, bool (*pays)(std::size_t)) {
  std::vector<Event> all;
  for (std::size_t i = 0; i < releases.size(); ++i)
    all.push_back(pays(i) ? Event::poisson_sampled(kRate, releases[i]) : Event::nothing());
  return all;
}
Event quieter(const Event& release, double factor) {
  const auto* gaussian = std::get_if<GaussianEvent>(&release.kind());
  return gaussian == nullptr ? release : Event::gaussian(factor * gaussian->noise_multiplier);
}

#define DRAW                                                            \
  []([[maybe_unused]] Base & self, [[maybe_unused]] std::uint64_t step, \
     [[maybe_unused]] std::size_t rows, [[maybe_unused]] const RandomSource& random, Rows& batch)
#define CHARGES [](const Base& self, std::span<const Event> releases) -> std::vector<Event>
#define CHARGE_EACH [](const Base&, std::span<const Event> releases) -> std::vector<Event>
#define SIZE [](const Base& self, [[maybe_unused]] std::uint64_t step) -> double

const std::array kTable = std::to_array<Row>({
    {.told = {"right_poisson", "nothing: the control"}},
    {.told = {"right_subset", "nothing: the control", Let::harmless, "a control"}, .law = Law::subset},
    {.told = {"right_epochs", "nothing: the control", Let::harmless, "a control"}, .law = Law::epochs},
    {.told = {"right_all", "nothing: the control", Let::harmless, "a control"}, .law = Law::all},
    // What is drawn.
    {.told = {"rate_a_tenth_more", "the rate that runs is not the one that is accounted"},
     .draw = DRAW { self.poisson(step, rows, 1.1 * kRate, random, batch);
}  // namespace samplers
}
, {.told = {"rate_twice", "the rate that runs is not the one that is accounted"},
   .draw = DRAW{self.poisson(step, rows, 2.0 * kRate, random, batch);
}
}
, {.told = {"rate_half", "a smaller rate than is charged and divided by"},
   .draw = DRAW{self.poisson(step, rows, 0.5 * kRate, random, batch);
}
}
, {.told = {"rate_grows", "the rate grows from step to step"},
   .draw = DRAW{self.poisson(step, rows, std::min(1.0, kRate + 0.01 * static_cast<double>(step)),
                             random, batch);
}
}
, {.told = {"rate_doubles_late", "right for 64 steps, and then twice the rate"},
   .draw = DRAW{self.poisson(step, rows, step < 64 ? kRate : 2.0 * kRate, random, batch);
}
}
, {.told = {"all_in_every_second_step", "full batches among sampled ones"},
   .draw = DRAW{self.poisson(step, rows, step % 2 == 1 ? 1.0 : kRate, random, batch);
}
}
, {.told = {"rate_of_the_rows_there", "divides the batch size by how many rows are really there"},
   .draw = DRAW{self.poisson(step, rows, std::min(1.0, self.fifth() / static_cast<double>(rows)),
                             random, batch);
}
}
, {.told = {"all_if_the_number_is_odd", "the number of rows is private, and decides"},
   .draw = DRAW{self.poisson(step, rows, rows % 2 == 1 ? 1.0 : kRate, random, batch);
}
}
, {.told = {"first_row_always", "one example is in every batch"},
   .draw = DRAW{self.right(step, rows, random, batch);
if (rows > 0 && (batch.empty() || batch.front() != 0)) batch.insert(batch.begin(), 0);
}
}
, {.told = {"last_row_always", "one example is in every batch"},
   .draw = DRAW{self.right(step, rows, random, batch);
const auto last = static_cast<std::uint32_t>(rows - 1);
if (rows > 0 && (batch.empty() || batch.back() != last)) batch.push_back(last);
}
}
, {.told = {"first_row_never", "an example that never takes part"},
   .draw = DRAW{self.right(step, rows, random, batch);
std::erase(batch, 0u);
}
}
, {.told = {"even_rows_only", "half of the rows at twice the rate"},
   .draw = DRAW{self.poisson(step, rows, 2.0 * kRate, random, batch);
std::erase_if(batch, [](std::uint32_t row) { return row % 2 == 1; });
}
}
, {.told = {"rows_in_pairs", "examples that are drawn together, accounted as drawn apart"},
   .draw = DRAW{Rows pairs;
self.poisson(step, rows / 2, kRate, random, pairs);
batch.clear();
for (const std::uint32_t pair : pairs) {
  batch.push_back(2 * pair);
  batch.push_back(2 * pair + 1);
}
}
}
, {.told = {"consecutive_rows", "a batch is a run of rows from a random one on"},
   .draw =
       DRAW{const auto from = random.stream(step)->uniform_below(std::max<std::size_t>(1, rows));
batch.clear();
for (std::size_t i = 0; i < rows / 5; ++i)
  batch.push_back(static_cast<std::uint32_t>((from + i) % rows));
}
}
, {.told = {"fixed_size", "batches of a fixed size accounted as Poisson sampling"},
   .draw = DRAW{batch = self.shuffled(step, rows, random);
batch.resize(rows / 5);
}
}
, {.told = {"truncated_at_the_mean", "Poisson batches cut to a physical size (truncated sampling)"},
   .draw = DRAW{self.right(step, rows, random, batch);
if (batch.size() > rows / 5) batch.resize(rows / 5);
}
}
, {.told = {"padded_with_repeats", "short batches are filled up with rows that are in them"},
   .draw = DRAW{self.right(step, rows, random, batch);
while (!batch.empty() && batch.size() < rows / 5) batch.push_back(batch.front());
}
}
, {.told = {"padded_with_others", "short batches are filled up with the first rows"},
   .draw = DRAW{self.right(step, rows, random, batch);
for (std::uint32_t row = 0; row < rows && batch.size() < rows / 5; ++row) {
  if (std::find(batch.begin(), batch.end(), row) == batch.end()) batch.push_back(row);
}
}
}
, {.told = {"never_empty", "an empty batch is given an example, as loops that cannot take none do"},
   .draw = DRAW{self.right(step, rows, random, batch);
if (batch.empty() && rows > 0) batch.push_back(0);
}
}
, {.told = {"redrawn_until_large", "batches below the mean are thrown away"},
   .draw = DRAW{for (std::uint64_t i = 0; i < 50;
                     ++i){self.poisson(1000 * i + step, rows, kRate, random, batch);
if (batch.size() >= rows / 5) return;
}
}
}
, {.told = {"the_same_batch", "one batch for all steps (a generator seeded anew for each step)"},
   .draw = DRAW{self.poisson(0, rows, kRate, random, batch);
}
}
, {.told = {"every_batch_twice", "two steps share a batch"},
   .draw = DRAW{self.poisson(step / 2, rows, kRate, random, batch);
}
}
, {.told = {"sticky", "who was in the last batch is not in this one"},
   .draw = DRAW{self.right(step, rows, random, batch);
std::erase_if(batch, [&](std::uint32_t row) {
  return std::find(self.last_.begin(), self.last_.end(), row) != self.last_.end();
});
self.last_ = batch;
}
}
, {.told = {"constant_seed", "a generator of its own, seeded with a constant"},
   .draw = DRAW{std::mt19937_64 engine(42 + step);
batch.clear();
for (std::uint32_t row = 0; row < rows; ++row) {
  if (static_cast<double>(engine() >> 11) * 0x1p-53 < kRate) batch.push_back(row);
}
}
}
, {.told = {"counts_its_calls", "a stateful generator: a resumed run draws otherwise"},
   .draw = DRAW{self.poisson(self.calls_++, rows, kRate, random, batch);
}
}
, {.told = {"counts_all_calls", "a generator that all instances share"},
   .draw = DRAW{static thread_local std::uint64_t calls = 0;
self.poisson(calls++, rows, kRate, random, batch);
}
}
, {.told = {"appends", "leaves the batch before in place"}, .draw = DRAW{Rows chosen;
self.right(step, rows, random, chosen);
batch.insert(batch.end(), chosen.begin(), chosen.end());
}
}
, {.told = {"beyond_the_rows", "a row that does not exist"},
   .draw = DRAW{self.right(step, rows, random, batch);
batch.push_back(static_cast<std::uint32_t>(rows));
}
}
, {.told = {"plan_instead_of_rows", "draws from as many rows as were planned, not as are there"},
   .draw = DRAW{self.poisson(step, self.plan_.dataset_size, kRate, random, batch);
}
}
, {.told = {"twice_in_a_batch", "an example is in a batch twice, and counts twice"},
   .draw = DRAW{self.right(step, rows, random, batch);
if (!batch.empty()) batch.push_back(batch.front());
}
}
, {.told = {"with_replacement", "draws with replacement"},
   .draw = DRAW{const auto stream = random.stream(step);
batch.clear();
for (std::size_t i = 0; i < rows / 5; ++i)
  batch.push_back(static_cast<std::uint32_t>(stream->uniform_below(rows)));
}
}
, {.told = {"too_many", "every row five times"}, .draw = DRAW{batch.clear();
for (std::uint32_t i = 0; i < 5 * rows; ++i) batch.push_back(i % static_cast<std::uint32_t>(rows));
}
}
, {.told = {"never_anybody", "empty batches: noise alone"}, .draw = DRAW{batch.clear();
}
}
, {.told = {"fails_on_other_sizes", "whether it runs tells whether a row is missing"},
   .draw = DRAW{if (rows != self.plan_.dataset_size) throw PrivacyError("another number of rows");
self.right(step, rows, random, batch);
}
}
, {.told = {"thread_decides", "another law on another thread"},
   .draw = DRAW{static const std::thread::id home = std::this_thread::get_id();
self.poisson(step, rows, std::this_thread::get_id() == home ? 2.0 * kRate : kRate, random, batch);
}
}
,
    // What is charged.
    {.told = {"half_the_rate_charged", "the rate that is accounted is not the one that runs"},
     .charges = CHARGE_EACH{return each(
         releases, [](const Event& e) { return Event::poisson_sampled(kRate / 2.0, e); });
}
}
, {.told = {"rate_squared_charged", "the rate is applied twice"},
   .charges = CHARGE_EACH{return each(
       releases, [](const Event& e) { return Event::poisson_sampled(kRate * kRate, e); });
}
}
, {.told = {"nested_amplification", "amplification by sampling is claimed twice, nested"},
   .charges = CHARGE_EACH{return each(releases, [](const Event& e) {
     return Event::poisson_sampled(kRate, Event::poisson_sampled(kRate, e));
   });
}
}
, {.told = {"free", "nothing is charged"},
   .charges = CHARGE_EACH{return each(releases, [](const Event&) { return Event::nothing(); });
}
}
, {.told = {"free_as_zero_counts", "what is charged happens zero times"},
   .charges =
       CHARGE_EACH{return each(releases, [](const Event& e) { return Event::self_composed(0, e); });
}
}
, {.told = {"first_step_only", "only the first step is charged"},
   .charges = CHARGE_EACH{return some(releases, [](std::size_t i) { return i == 0; });
}
}
, {.told = {"every_second_step", "every second step is free"},
   .charges = CHARGE_EACH{return some(releases, [](std::size_t i) { return i % 2 == 0; });
}
}
, {.told = {"last_step_only", "pays in the end: a run that is cut off has paid nothing"},
   .charges = CHARGES{std::vector<Event> all(releases.size(), Event::nothing());
if (!all.empty()) all.back() = Event::composed(self.right_charges(releases));
return all;
}
}
, {.told = {"free_after_a_hundred", "later steps are not charged"},
   .charges = CHARGE_EACH{return some(releases, [](std::size_t i) { return i < 100; });
}
}
, {.told = {"twice_the_noise_charged", "charges more noise than is added"},
   .charges = CHARGE_EACH{return each(
       releases, [](const Event& e) { return Event::poisson_sampled(kRate, quieter(e, 2.0)); });
}
}
, {.told = {"noise_of_the_first_step", "a noise schedule is accounted by its first step"},
   .charges = CHARGE_EACH{
       return releases.empty()
                  ? std::vector<Event>{}
                  : std::vector<Event>(releases.size(),
                                       Event::poisson_sampled(kRate, quieter(releases[0], 1.01)));
}
}
, {.told = {"one_charge_too_few", "a loop that ends one early"},
   .charges = CHARGES{auto all = self.right_charges(releases);
if (!all.empty()) all.pop_back();
return all;
}
}
, {.told = {"one_charge_too_many", "a loop that ends one late"},
   .charges = CHARGES{auto all = self.right_charges(releases);
all.push_back(Event::nothing());
return all;
}
}
, {.told = {"one_for_all", "all steps in one charge"},
   .charges = CHARGES{return {Event::composed(self.right_charges(releases))};
}
}
, {.told = {"a_tiny_rho", "charges a constant instead of the release"},
   .charges = CHARGE_EACH{return each(releases, [](const Event&) { return Event::zcdp(1e-6); });
}
}
, {.told = {"a_tiny_laplace", "charges another mechanism"},
   .charges =
       CHARGE_EACH{return each(releases, [](const Event&) { return Event::laplace(1000.0); });
}
}
, {.told = {"a_tiny_discrete_gaussian", "charges another mechanism, of sensitivity 0"},
   .charges = CHARGE_EACH{
       return each(releases, [](const Event&) { return Event::discrete_gaussian(1.0, 0); });
}
}
, {.told = {"charges_what_was_drawn", "what is charged follows from private batches"},
   .draw = DRAW{self.right(step, rows, random, batch);
self.drawn_ += batch.size();
}
, .charges = CHARGES {
  return std::vector<Event>(releases.size(), Event::zcdp(0.1 * static_cast<double>(self.drawn_)));
}
}
, {.told = {"cheaper_the_second_time", "what is planned is not what is charged in the run"},
   .charges = CHARGES{const double rate = self.calls_++ == 0 ? kRate : kRate / 10.0;
std::vector<Event> all;
for (const Event& release : releases) all.push_back(Event::poisson_sampled(rate, release));
return all;
}
}
, {.told = {"subset_without_the_law", "Poisson batches accounted as subsets of a fixed size"},
   .charges = CHARGES{return self.right_charges(releases, Law::subset);
}
}
, {.told = {"zero_rate", "sampling with probability 0"},
   .charges = CHARGE_EACH{
       return each(releases, [](const Event& e) { return Event::poisson_sampled(0.0, e); });
}
}
,
    // What the sum is divided by.
    {.told = {"realised_size", "the divisor is the batch's own size"},
     .draw = DRAW{self.right(step, rows, random, batch);
self.drawn_ = batch.size();
}
, .size = SIZE { return self.drawn_ == 0 ? self.fifth() : static_cast<double>(self.drawn_); }
}
, {.told = {"size_0", "a divisor of 0"}, .size = SIZE{return 0.0 * self.fifth();
}
}
, {.told = {"size_negative", "a divisor below 0"}, .size = SIZE{return -self.fifth();
}
}
, {.told = {"size_nan", "a divisor that is no number"},
   .size = SIZE{return std::nan("") * self.fifth();
}
}
, {.told = {"size_infinite", "a divisor beyond all bounds"},
   .size = SIZE{return HUGE_VAL * self.fifth();
}
}
, {.told = {"size_twice", "a constant divisor that is not the expected size"},
   .size = SIZE{return 2.0 * self.fifth();
}
}
, {.told = {"size_by_call", "the divisor changes from call to call"},
   .size = SIZE{return self.fifth() + static_cast<double>(self.calls_++ % 3);
}
}
,
    // Subsets and epochs.
    {.told = {"subset_as_poisson",
              "fixed-size batches accounted as Poisson (a data loader's batches; "
              "Lebeda et al. 2024)"},
     .law = Law::subset,
     .charges = CHARGES{return self.right_charges(releases, Law::poisson);
}
}
, {.told = {"ten_times_the_population", "a population that is not there"},
   .law = Law::subset,
   .charges = CHARGES{std::vector<Event> all;
for (const Event& release : releases)
  all.push_back(
      Event::sampled_without_replacement(10 * static_cast<std::int64_t>(self.plan_.dataset_size),
                                         static_cast<std::int64_t>(self.whole_fifth()), release));
return all;
}
}
, {.told = {"larger_than_charged", "subsets are larger than those that are charged"},
   .law = Law::subset,
   .draw = DRAW{batch = self.shuffled(step, rows, random);
batch.resize(2 * (rows / 5));
}
}
, {.told = {"any_number_of_rows", "a proof for a fixed size, and batches from any"},
   .law = Law::subset,
   .draw = DRAW{batch = self.shuffled(step, rows, random);
batch.resize(self.whole_fifth());
}
}
, {.told = {"always_the_first_fifth", "a subset that is not random"},
   .law = Law::subset,
   .draw = DRAW{batch.resize(rows / 5);
std::iota(batch.begin(), batch.end(), 0u);
}
}
, {.told = {"epochs_as_poisson",
            "shuffled epochs accounted as Poisson sampling (Ponomareva et al. "
            "2023; Chua et al. 2024)"},
   .law = Law::epochs,
   .charges = CHARGES{return self.right_charges(releases, Law::poisson);
}
}
, {.told = {"epochs_as_subsets", "shuffled epochs accounted as subsets drawn anew"},
   .law = Law::epochs,
   .charges = CHARGES{return self.right_charges(releases, Law::subset);
}
}
, {.told = {"redrawn_within_an_epoch", "pays once an epoch, and draws each step anew"},
   .law = Law::epochs,
   .draw = DRAW{batch = self.shuffled(step, rows, random);
batch.resize(rows / 5);
}
}
, {.told = {"pays_at_the_end_of_epochs", "a prefix has paid less than it spent"},
   .law = Law::epochs,
   .charges = CHARGE_EACH{std::vector<Event> all;
for (std::size_t i = 0; i < releases.size(); ++i)
  all.push_back(i % 5 == 4 ? releases[i] : Event::nothing());
return all;
}
}
, {.told = {"pays_for_one_epoch", "parallel composition over all epochs"},
   .law = Law::epochs,
   .charges = CHARGE_EACH{std::vector<Event> all(releases.size(), Event::nothing());
if (!all.empty()) all[0] = releases[0];
return all;
}
}
, {.told = {"all_as_poisson",
            "full batches accounted as sampled ones (microbatches counted as "
            "sampling)"},
   .law = Law::all,
   .charges = CHARGES{return self.right_charges(releases, Law::poisson);
}
, .size = SIZE { return static_cast<double>(self.plan_.dataset_size); }
}
,
});

template <std::size_t I>
class Faulty final : public Base {
 public:
  explicit Faulty(const Params&) {}
  void start(const SamplingPlan& plan) override { begin(plan, kTable[I].law); }
  double expected_batch_size(std::uint64_t step) const override {
    if (kTable[I].size != nullptr) return kTable[I].size(*this, step);
    return law_ == Law::all ? static_cast<double>(plan_.dataset_size) : fifth();
  }
  std::vector<Event> charges(std::span<const Event> releases) const override {
    return kTable[I].charges != nullptr ? kTable[I].charges(*this, releases)
                                        : right_charges(releases);
  }
  void sample(std::uint64_t step, std::size_t rows, const RandomSource& random,
              Rows& batch) override {
    if (kTable[I].draw == nullptr) return right(step, rows, random, batch);
    kTable[I].draw(*this, step, rows, random, batch);
  }
};

}  // namespace samplers

std::vector<Fault> sampler_faults() {
  using namespace samplers;
  return faults_of<Sampler, Faulty>(kTable, "sampler", [](const Row& row) {
    const bool poisson = row.law == Law::poisson;
    return std::vector<std::string>{
        std::string("sampler=") + row.told.id, "privacy.accountant=rdp",
        std::string("privacy.adjacency=") + (poisson ? "add_or_remove_one" : "replace_one")};
  });
}

#undef DRAW
#undef CHARGES
#undef CHARGE_EACH
#undef SIZE
