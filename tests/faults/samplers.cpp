// Samplers whose batches do not match their charges.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "faulty_sampler.hpp"

using namespace privgrad;

namespace samplers {
namespace {

const std::array kTable = std::to_array<Row>({
    {.told = {"right_poisson", "nothing: the control"}},
    {.told = {"right_subset", "nothing: the control", Let::harmless, "a control"},
     .law = Law::subset},
    {.told = {"right_epochs", "nothing: the control", Let::harmless, "a control"},
     .law = Law::epochs},
    {.told = {"right_all", "nothing: the control", Let::harmless, "a control"}, .law = Law::all},
    // Faults in the draws.
    {.told = {"rate_a_tenth_more", "the rate that runs is not the one that is accounted"},
     .draw = [](const Draw& draw) { draw.poisson(1.1 * kRate); }},
    {.told = {"rate_twice", "the rate that runs is not the one that is accounted"},
     .draw = [](const Draw& draw) { draw.poisson(2.0 * kRate); }},
    {.told = {"rate_half", "a smaller rate than is charged and divided by"},
     .draw = [](const Draw& draw) { draw.poisson(0.5 * kRate); }},
    {.told = {"rate_grows", "the rate grows from step to step"},
     .draw = [](const Draw& draw) { draw.poisson(kRate + 0.01 * static_cast<double>(draw.step)); }},
    {.told = {"rate_doubles_late", "right for 64 steps, and then twice the rate"},
     .draw = [](const Draw& draw) { draw.poisson(draw.step < 64 ? kRate : 2.0 * kRate); }},
    {.told = {"all_in_every_second_step", "full batches among sampled ones"},
     .draw = [](const Draw& draw) { draw.poisson(draw.step % 2 == 1 ? 1.0 : kRate); }},
    {.told = {"rate_of_the_rows_there", "divides the batch size by how many rows are really there"},
     .draw =
         [](const Draw& draw) {
           draw.poisson(std::min(1.0, draw.self.fifth() / static_cast<double>(draw.rows)));
         }},
    {.told = {"all_if_the_number_is_odd", "the number of rows is private, and decides"},
     .draw = [](const Draw& draw) { draw.poisson(draw.rows % 2 == 1 ? 1.0 : kRate); }},
    {.told = {"first_row_always", "one example is in every batch"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           if (draw.rows > 0 && (draw.batch.empty() || draw.batch.front() != 0))
             draw.batch.insert(draw.batch.begin(), 0);
         }},
    {.told = {"last_row_always", "one example is in every batch"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           const auto last = static_cast<std::uint32_t>(draw.rows - 1);
           if (draw.rows > 0 && (draw.batch.empty() || draw.batch.back() != last))
             draw.batch.push_back(last);
         }},
    {.told = {"first_row_never", "an example that never takes part"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           std::erase(draw.batch, 0u);
         }},
    {.told = {"even_rows_only", "half of the rows at twice the rate"},
     .draw =
         [](const Draw& draw) {
           draw.poisson(2.0 * kRate);
           std::erase_if(draw.batch, [](std::uint32_t row) { return row % 2 == 1; });
         }},
    {.told = {"rows_in_pairs", "examples that are drawn together, accounted as drawn apart"},
     .draw =
         [](const Draw& draw) {
           Rows pairs;
           draw.self.poisson(draw.step, draw.rows / 2, kRate, draw.random, pairs);
           draw.batch.clear();
           for (const std::uint32_t pair : pairs) {
             draw.batch.push_back(2 * pair);
             draw.batch.push_back(2 * pair + 1);
           }
         }},
    {.told = {"consecutive_rows", "a batch is a run of rows from a random one on"},
     .draw =
         [](const Draw& draw) {
           const auto from =
               draw.random.stream(draw.step)->uniform_below(std::max<std::size_t>(1, draw.rows));
           draw.batch.clear();
           for (std::size_t i = 0; i < draw.fifth(); ++i)
             draw.batch.push_back(static_cast<std::uint32_t>((from + i) % draw.rows));
         }},
    {.told = {"fixed_size", "batches of a fixed size accounted as Poisson sampling"},
     .draw = [](const Draw& draw) { draw.subset(draw.fifth()); }},
    {.told = {"truncated_at_the_mean",
              "Poisson batches cut to a physical size (truncated sampling)"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           if (draw.batch.size() > draw.fifth()) draw.batch.resize(draw.fifth());
         }},
    {.told = {"padded_with_repeats", "short batches are filled up with rows that are in them"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           while (!draw.batch.empty() && draw.batch.size() < draw.fifth())
             draw.batch.push_back(draw.batch.front());
         }},
    {.told = {"padded_with_others", "short batches are filled up with the first rows"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           for (std::uint32_t row = 0; row < draw.rows && draw.batch.size() < draw.fifth(); ++row) {
             if (!draw.holds(row)) draw.batch.push_back(row);
           }
         }},
    {.told = {"never_empty",
              "an empty batch is given an example, as loops that cannot take none do"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           if (draw.batch.empty() && draw.rows > 0) draw.batch.push_back(0);
         }},
    {.told = {"redrawn_until_large", "batches below the mean are thrown away"},
     .draw =
         [](const Draw& draw) {
           for (std::uint64_t i = 0; i < 50; ++i) {
             draw.poisson_at(1000 * i + draw.step);
             if (draw.batch.size() >= draw.fifth()) return;
           }
         }},
    {.told = {"the_same_batch", "one batch for all steps (a generator seeded anew for each step)"},
     .draw = [](const Draw& draw) { draw.poisson_at(0); }},
    {.told = {"every_batch_twice", "two steps share a batch"},
     .draw = [](const Draw& draw) { draw.poisson_at(draw.step / 2); }},
    {.told = {"sticky", "who was in the last batch is not in this one"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           const Rows& last = draw.self.last_;
           std::erase_if(draw.batch, [&](std::uint32_t row) {
             return std::find(last.begin(), last.end(), row) != last.end();
           });
           draw.self.last_ = draw.batch;
         }},
    {.told = {"constant_seed", "a generator of its own, seeded with a constant"},
     .draw =
         [](const Draw& draw) {
           std::mt19937_64 engine(42 + draw.step);
           draw.batch.clear();
           for (std::uint32_t row = 0; row < draw.rows; ++row) {
             if (static_cast<double>(engine() >> 11) * 0x1p-53 < kRate) draw.batch.push_back(row);
           }
         }},
    {.told = {"coins_of_eight_bits",
              "eight random bits seed a generator of its own for each batch"},
     .draw =
         [](const Draw& draw) {
           std::mt19937_64 engine(draw.random.stream(draw.step)->uniform_below(256));
           draw.batch.clear();
           for (std::uint32_t row = 0; row < draw.rows; ++row) {
             if (static_cast<double>(engine() >> 11) * 0x1p-53 < kRate) draw.batch.push_back(row);
           }
         }},
    {.told = {"coins_again_after_700_rows", "row i and row i + 700 have one coin"},
     .draw = [](const Draw& draw) { draw.poisson_again_after(700); }},
    {.told = {"coins_again_after_20000_rows", "row i and row i + 20 000 have one coin"},
     .draw = [](const Draw& draw) { draw.poisson_again_after(20000); }},
    {.told = {"counts_its_calls", "a stateful generator: a resumed run draws otherwise"},
     .draw = [](const Draw& draw) { draw.poisson_at(draw.self.calls_++); }},
    {.told = {"counts_all_calls", "a generator that all instances share"},
     .draw =
         [](const Draw& draw) {
           static thread_local std::uint64_t calls = 0;
           draw.poisson_at(calls++);
         }},
    {.told = {"appends", "leaves the batch before in place"},
     .draw =
         [](const Draw& draw) {
           const Rows before = draw.batch;
           draw.right();
           draw.batch.insert(draw.batch.begin(), before.begin(), before.end());
         }},
    {.told = {"beyond_the_rows", "a row that does not exist"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           draw.batch.push_back(static_cast<std::uint32_t>(draw.rows));
         }},
    {.told = {"plan_instead_of_rows", "draws from as many rows as were planned, not as are there"},
     .draw =
         [](const Draw& draw) {
           draw.self.poisson(draw.step, draw.self.plan_.dataset_size, kRate, draw.random,
                             draw.batch);
         }},
    {.told = {"twice_in_a_batch", "an example is in a batch twice, and counts twice"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           if (!draw.batch.empty()) draw.batch.push_back(draw.batch.front());
         }},
    {.told = {"with_replacement", "draws with replacement"},
     .draw =
         [](const Draw& draw) {
           const auto stream = draw.random.stream(draw.step);
           draw.batch.clear();
           for (std::size_t i = 0; i < draw.fifth(); ++i)
             draw.batch.push_back(static_cast<std::uint32_t>(stream->uniform_below(draw.rows)));
         }},
    {.told = {"too_many", "every row five times"},
     .draw =
         [](const Draw& draw) {
           draw.batch.clear();
           for (std::uint32_t i = 0; i < 5 * draw.rows; ++i)
             draw.batch.push_back(i % static_cast<std::uint32_t>(draw.rows));
         }},
    {.told = {"never_anybody", "empty batches: noise alone"},
     .draw = [](const Draw& draw) { draw.batch.clear(); }},
    {.told = {"fails_on_other_sizes", "whether it runs tells whether a row is missing"},
     .draw =
         [](const Draw& draw) {
           if (draw.rows != draw.self.plan_.dataset_size)
             throw PrivacyError("another number of rows");
           draw.right();
         }},
    {.told = {"thread_decides", "another law on another thread"},
     .draw =
         [](const Draw& draw) {
           draw.poisson(std::this_thread::get_id() == kHome ? 2.0 * kRate : kRate);
         }},
    // Faults in the charges.
    {.told = {"half_the_rate_charged", "the rate that is accounted is not the one that runs"},
     .cost = [](const Event& release) { return Event::poisson_sampled(kRate / 2.0, release); }},
    {.told = {"rate_squared_charged", "the rate is applied twice"},
     .cost = [](const Event& release) { return Event::poisson_sampled(kRate * kRate, release); }},
    {.told = {"nested_amplification", "amplification by sampling is claimed twice, nested"},
     .cost =
         [](const Event& release) {
           return Event::poisson_sampled(kRate, Event::poisson_sampled(kRate, release));
         }},
    {.told = {"free", "nothing is charged"}, .cost = [](const Event&) { return Event::nothing(); }},
    {.told = {"free_as_zero_counts", "what is charged happens zero times"},
     .cost = [](const Event& release) { return Event::self_composed(0, release); }},
    {.told = {"first_step_only", "only the first step is charged"},
     .pays = [](std::size_t step) { return step == 0; }},
    {.told = {"every_second_step", "every second step is free"},
     .pays = [](std::size_t step) { return step % 2 == 0; }},
    {.told = {"last_step_only", "pays in the end: a run that is cut off has paid nothing"},
     .charges =
         [](const Base& self, Releases releases) {
           Events all(releases.size(), Event::nothing());
           if (!all.empty()) all.back() = Event::composed(self.RightSampler::charges(releases));
           return all;
         }},
    {.told = {"free_after_a_hundred", "later steps are not charged"},
     .pays = [](std::size_t step) { return step < 100; }},
    {.told = {"twice_the_noise_charged", "charges more noise than is added"},
     .cost =
         [](const Event& release) { return Event::poisson_sampled(kRate, quieter(release, 2.0)); }},
    {.told = {"noise_of_the_first_step", "a noise schedule is accounted by its first step"},
     .charges =
         [](const Base&, Releases releases) {
           if (releases.empty()) return Events{};
           return Events(releases.size(),
                         Event::poisson_sampled(kRate, quieter(releases[0], 1.01)));
         }},
    {.told = {"one_charge_too_few", "a loop that ends one early"},
     .charges =
         [](const Base& self, Releases releases) {
           auto all = self.RightSampler::charges(releases);
           if (!all.empty()) all.pop_back();
           return all;
         }},
    {.told = {"one_charge_too_many", "a loop that ends one late"},
     .charges =
         [](const Base& self, Releases releases) {
           auto all = self.RightSampler::charges(releases);
           all.push_back(Event::nothing());
           return all;
         }},
    {.told = {"one_for_all", "all steps in one charge"},
     .charges =
         [](const Base& self, Releases releases) {
           return Events{Event::composed(self.RightSampler::charges(releases))};
         }},
    {.told = {"a_tiny_rho", "charges a constant instead of the release"},
     .cost = [](const Event&) { return Event::zcdp(1e-6); }},
    {.told = {"a_tiny_laplace", "charges another mechanism"},
     .cost = [](const Event&) { return Event::laplace(1000.0); }},
    {.told = {"a_tiny_discrete_gaussian", "charges another mechanism, of sensitivity 0"},
     .cost = [](const Event&) { return Event::discrete_gaussian(1.0, 0); }},
    {.told = {"charges_what_was_drawn", "what is charged follows from private batches"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           draw.self.drawn_ += draw.batch.size();
         },
     .charges =
         [](const Base& self, Releases releases) {
           return Events(releases.size(), Event::zcdp(0.1 * static_cast<double>(self.drawn_)));
         }},
    {.told = {"cheaper_the_second_time", "what is planned is not what is charged in the run"},
     .charges =
         [](const Base& self, Releases releases) {
           const double rate = self.calls_++ == 0 ? kRate : kRate / 10.0;
           Events all;
           for (const Event& release : releases)
             all.push_back(Event::poisson_sampled(rate, release));
           return all;
         }},
    {.told = {"subset_without_the_law", "Poisson batches accounted as subsets of a fixed size"},
     .charged_as = Law::subset},
    {.told = {"zero_rate", "sampling with probability 0"},
     .cost = [](const Event& release) { return Event::poisson_sampled(0.0, release); }},
    // Faults in the divisor.
    {.told = {"realised_size", "the divisor is the batch's own size"},
     .draw =
         [](const Draw& draw) {
           draw.right();
           draw.self.drawn_ = draw.batch.size();
         },
     .size =
         [](const Base& self) {
           return self.drawn_ == 0 ? self.fifth() : static_cast<double>(self.drawn_);
         }},
    {.told = {"size_0", "a divisor of 0"},
     .size = [](const Base& self) { return 0.0 * self.fifth(); }},
    {.told = {"size_negative", "a divisor below 0"},
     .size = [](const Base& self) { return -self.fifth(); }},
    {.told = {"size_nan", "a divisor of NaN"},
     .size = [](const Base& self) { return std::nan("") * self.fifth(); }},
    {.told = {"size_infinite", "a divisor beyond all bounds"},
     .size = [](const Base& self) { return HUGE_VAL * self.fifth(); }},
    {.told = {"size_twice", "a constant divisor that is not the expected size"},
     .size = [](const Base& self) { return 2.0 * self.fifth(); }},
    {.told = {"size_by_call", "the divisor changes from call to call"},
     .size =
         [](const Base& self) { return self.fifth() + static_cast<double>(self.calls_++ % 3); }},
    // Subsets and epochs.
    {.told =
         {"subset_as_poisson",
          "fixed-size batches accounted as Poisson (a data loader's batches; Lebeda et al. 2024)"},
     .law = Law::subset,
     .charged_as = Law::poisson},
    {.told = {"ten_times_the_population", "a population that is not there"},
     .law = Law::subset,
     .charges =
         [](const Base& self, Releases releases) {
           const auto population = 10 * static_cast<std::int64_t>(self.plan_.dataset_size);
           const auto size = static_cast<std::int64_t>(self.whole_fifth());
           Events all;
           for (const Event& release : releases)
             all.push_back(Event::sampled_without_replacement(population, size, release));
           return all;
         }},
    {.told = {"larger_than_charged", "subsets are larger than those that are charged"},
     .law = Law::subset,
     .draw = [](const Draw& draw) { draw.subset(2 * draw.fifth()); }},
    {.told = {"any_number_of_rows", "a proof for a fixed size, and batches from any"},
     .law = Law::subset,
     .draw = [](const Draw& draw) { draw.subset(draw.self.whole_fifth()); }},
    {.told = {"always_the_first_fifth", "a subset that is not random"},
     .law = Law::subset,
     .draw =
         [](const Draw& draw) {
           draw.batch.resize(draw.fifth());
           std::iota(draw.batch.begin(), draw.batch.end(), 0u);
         }},
    {.told = {"epochs_as_poisson",
              "shuffled epochs accounted as Poisson sampling (Ponomareva et al. 2023; Chua et al. "
              "2024)"},
     .law = Law::epochs,
     .charged_as = Law::poisson},
    {.told = {"epochs_as_subsets", "shuffled epochs accounted as subsets drawn anew"},
     .law = Law::epochs,
     .charged_as = Law::subset},
    {.told = {"redrawn_within_an_epoch", "pays once an epoch, and draws each step anew"},
     .law = Law::epochs,
     .draw = [](const Draw& draw) { draw.subset(draw.fifth()); }},
    {.told = {"pays_at_the_end_of_epochs", "a prefix has paid less than it spent"},
     .law = Law::epochs,
     .charges =
         [](const Base&, Releases releases) {
           Events all;
           for (std::size_t i = 0; i < releases.size(); ++i)
             all.push_back(i % 5 == 4 ? releases[i] : Event::nothing());
           return all;
         }},
    {.told = {"pays_for_one_epoch", "parallel composition over all epochs"},
     .law = Law::epochs,
     .pays = [](std::size_t step) { return step == 0; }},
    {.told = {"all_as_poisson",
              "full batches accounted as sampled ones (microbatches counted as sampling)"},
     .law = Law::all,
     .charged_as = Law::poisson,
     .size = [](const Base& self) { return static_cast<double>(self.plan_.dataset_size); }},
});

template <std::size_t I>
using OfTable = Faulty<kTable, I>;

}  // namespace
}  // namespace samplers

std::vector<Fault> sampler_faults() {
  using namespace samplers;
  return faults_of<Sampler, OfTable>(kTable, "sampler", place_of);
}
