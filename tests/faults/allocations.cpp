// Samplers that are charged as random allocation but draw differently, and vice versa.
#include <algorithm>
#include <random>

#include "faulty_sampler.hpp"

using namespace privgrad;

namespace allocations {
namespace {

using namespace samplers;

/// The batches of an epoch, each with at most a fifth of the rows; further rows wait for the next
/// step, except in the last one.
std::array<Rows, 5> capped(const Draw& draw) {
  std::array<Rows, 5> all;
  Rows waiting;
  for (std::uint64_t within = 0; within < 5; ++within) {
    Rows& batch = all[within];
    draw.self.allocation(draw.step / 5, within, draw.rows, draw.random, batch);
    batch.insert(batch.begin(), waiting.begin(), waiting.end());
    waiting.clear();
    if (within == 4 || batch.size() <= draw.fifth()) continue;
    waiting.assign(batch.begin() + static_cast<std::ptrdiff_t>(draw.fifth()), batch.end());
    batch.resize(draw.fifth());
  }
  return all;
}

const std::array kTable = std::to_array<Row>({
    {.told = {"right_allocation", "nothing: the control"}, .law = Law::allocation},
    {.told = {"epochs_as_allocation",
              "a permutation that is cut into batches, accounted as random allocation"},
     .law = Law::epochs,
     .charged_as = Law::allocation},
    {.told = {"poisson_as_allocation",
              "rows with a coin for each step, accounted as one use an epoch"},
     .law = Law::allocation,
     .draw = [](const Draw& draw) { draw.poisson(kRate); }},
    {.told = {"steps_of_the_first_epoch", "all epochs have the draws of the first"},
     .law = Law::allocation,
     .draw = [](const Draw& draw) { draw.allocation_of(0); }},
    {.told = {"batches_of_the_first_epoch", "the first epoch's batches again, in another order"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           draw.self.allocation(0, (draw.step + draw.step / 5) % 5, draw.rows, draw.random,
                                draw.batch);
         }},
    {.told = {"redrawn_in_each_step", "each step draws the whole epoch anew"},
     .law = Law::allocation,
     .draw = [](const Draw& draw) { draw.allocation_of(draw.step); }},
    {.told = {"redrawn_behind_a_resume", "a resumed run draws the rest of its epoch anew"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           // The step at which this instance began.
           if (draw.self.calls_++ == 0) draw.self.drawn_ = draw.step;
           draw.allocation_of(1000 * draw.self.drawn_ + draw.step / 5);
         }},
    {.told = {"moved_beyond_a_cap",
              "batches with a size limit; rows beyond it wait for the next step"},
     .law = Law::allocation,
     .draw = [](const Draw& draw) { draw.batch = capped(draw)[draw.step % 5]; }},
    {.told = {"dropped_beyond_a_cap", "batches with a size limit; rows beyond it are left out"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           draw.right();
           if (draw.batch.size() > draw.fifth()) draw.batch.resize(draw.fifth());
         }},
    {.told = {"a_row_without_a_step", "an example that never takes part"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           draw.right();
           std::erase(draw.batch, 0u);
         }},
    {.told = {"steps_by_the_rows_there",
              "the number of steps follows from how many rows there are"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           const std::uint64_t steps = std::max<std::uint64_t>(
               1, 5 * draw.rows / std::max<std::uint64_t>(1, draw.self.plan_.dataset_size));
           const auto stream = draw.random.stream(draw.step / 5);
           draw.batch.clear();
           for (std::uint32_t row = 0; row < draw.rows; ++row)
             if (stream->uniform_below(steps) == draw.step % 5) draw.batch.push_back(row);
         }},
    {.told = {"empty_steps_skipped", "empty batches are skipped, and the next one is made instead"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           std::uint64_t left = draw.step % 5;
           for (std::uint64_t within = 0; within < 5; ++within) {
             draw.self.allocation(draw.step / 5, within, draw.rows, draw.random, draw.batch);
             if (!draw.batch.empty() && left-- == 0) return;
           }
           draw.batch.clear();
         }},
    {.told = {"steps_of_pairs", "two rows draw their step together, accounted as drawn apart"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           Rows pairs;
           draw.self.allocation(draw.step / 5, draw.step % 5, (draw.rows + 1) / 2, draw.random,
                                pairs);
           draw.batch.clear();
           for (const std::uint32_t pair : pairs)
             for (const std::uint32_t row : {2 * pair, 2 * pair + 1})
               if (row < draw.rows) draw.batch.push_back(row);
         }},
    {.told = {"later_steps_more_often", "steps that are not equally likely"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           const auto stream = draw.random.stream(draw.step / 5);
           draw.batch.clear();
           for (std::uint32_t row = 0; row < draw.rows; ++row)
             if (std::min<std::uint64_t>(4, stream->uniform_below(6)) == draw.step % 5)
               draw.batch.push_back(row);
         }},
    {.told = {"steps_of_a_constant_seed", "a generator of its own, seeded with a constant"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           std::mt19937_64 engine(42 + draw.step / 5);
           draw.batch.clear();
           for (std::uint32_t row = 0; row < draw.rows; ++row)
             if (engine() % 5 == draw.step % 5) draw.batch.push_back(row);
         }},
    {.told = {"steps_of_eight_bits",
              "eight random bits seed a generator of its own for each epoch"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           std::mt19937_64 engine(draw.random.stream(draw.step / 5)->uniform_below(256));
           draw.batch.clear();
           for (std::uint32_t row = 0; row < draw.rows; ++row)
             if (engine() % 5 == draw.step % 5) draw.batch.push_back(row);
         }},
    {.told = {"steps_again_after_700_rows", "row i and row i + 700 have the same step"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           draw.self.allocation(draw.step / 5, draw.step % 5, std::min<std::size_t>(draw.rows, 700),
                                draw.random, draw.batch);
           const Rows first = draw.batch;
           for (std::size_t begin = 700; begin < draw.rows; begin += 700)
             for (const std::uint32_t row : first)
               if (begin + row < draw.rows)
                 draw.batch.push_back(static_cast<std::uint32_t>(begin + row));
         }},
    {.told = {"realised_size_of_a_step", "the divisor is the size that the step has drawn"},
     .law = Law::allocation,
     .draw =
         [](const Draw& draw) {
           draw.right();
           draw.self.drawn_ = draw.batch.size();
         },
     .size =
         [](const Base& self) {
           return self.drawn_ == 0 ? self.fifth() : static_cast<double>(self.drawn_);
         }},
    {.told = {"epochs_of_more_steps_charged", "more steps an epoch are accounted than are drawn"},
     .law = Law::allocation,
     .charges =
         [](const Base&, Releases releases) {
           Events all;
           for (std::size_t i = 0; i < releases.size(); ++i)
             all.push_back(i % 5 == 0 ? Event::random_allocation(6, releases[i])
                                      : Event::nothing());
           return all;
         }},
    {.told = {"two_epochs_for_one", "an epoch pays for two"},
     .law = Law::allocation,
     .pays = [](std::size_t step) { return step % 10 == 0; }},
    {.told = {"twice_the_noise_of_an_epoch", "charges more noise than is added"},
     .law = Law::allocation,
     .charges =
         [](const Base&, Releases releases) {
           Events all;
           for (std::size_t i = 0; i < releases.size(); ++i)
             all.push_back(i % 5 == 0 ? Event::random_allocation(5, quieter(releases[i], 2.0))
                                      : Event::nothing());
           return all;
         }},
});

template <std::size_t I>
using OfTable = Faulty<kTable, I>;

}  // namespace
}  // namespace allocations

std::vector<Fault> allocation_faults() {
  return faults_of<Sampler, allocations::OfTable>(allocations::kTable, "sampler",
                                                  samplers::place_of);
}
