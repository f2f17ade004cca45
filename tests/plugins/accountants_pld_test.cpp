#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "accountants_pld.hpp"
#include "trials.hpp"

namespace pld_tests {

TEST_CASE("pld: each grid's curves enclose the divergence", "[accountant][pld]") {
  Random random(1);
  for (const auto& pair : some_pairs()) {
    for (int trial = 0; trial < 10; ++trial) {
      pld::Grid grid;
      // The scale of the loss: the value at which delta has fallen to a given number.
      double scale = 1e-7;
      while (pair->divergence(scale).value > 1e-5 * pair->divergence(0.0).value) scale *= 1.5;
      grid.step = std::ldexp(std::floor(random.uniform(1.0, 1024.0)),
                             std::ilogb(scale * random.log_uniform(1e-4, 0.3)) - 10);
      grid.offset =
          trial % 2 == 0 ? pair->anchor(grid.step) : random.uniform(-0.5, 0.5) * grid.step;
      grid.tilt = random.log_uniform(0.1, 10.0) / scale;
      grid.top_cut = random.log_uniform(1e-30, 1e-6) * pair->divergence(0.0).value;
      grid.bottom_cut = random.log_uniform(1e-20, 1e-3);
      const pld::Bracket bracket = pld::discretise(*pair, *pair, grid);
      for (int k = -40; k <= 60; ++k) {
        const double epsilon = k < 0 ? -k * 0.5 * grid.step : k * scale / 30.0;
        INFO("step " << grid.step << ", offset " << grid.offset << ", epsilon " << epsilon);
        const pld::Divergence exact = pair->divergence(epsilon);
        const long double upper = curve_of(bracket.upper, grid, epsilon);
        const long double lower = curve_of(bracket.lower, grid, epsilon);
        CHECK(upper >= exact.value - exact.error);
        CHECK(lower <= exact.value + exact.error);
      }
    }
  }
}

// Layouts affect the tightness of the bounds but not their validity. Gaussians and discrete
// Gaussians have compositions in closed form. Windows that are too short, tilts that are too small
// and unsuitable orders test the terms of the bounds for wrapping, for the rounding errors of the
// transform (with deltas down to 1e-100) and for the mass outside.
TEST_CASE("pld: the bounds hold for any layout", "[accountant][pld][long][slow]") {
  Random random(2);
  int useful_upper = 0;
  int useful_lower = 0;
  const int layouts = trials(3000, "random layouts");
  for (int trial = 0; trial < layouts; ++trial) {
    const double mu = random.log_uniform(0.3, 5.0);
    const auto count = static_cast<std::uint64_t>(random.log_uniform(1.0, 1e5));
    const double sigma = std::sqrt(static_cast<double>(count)) / mu;
    const auto pair = pld::gaussian(sigma);
    const std::vector<pld::Step> steps{{pair, pair, count}};
    pld::Layout layout;
    layout.tilt = random.log_uniform(1e-3, 30.0) / mu;
    layout.size = pld::fast_size(random.log_uniform(1000.0, 8000.0));
    const double center = mu * mu * (0.5 + layout.tilt);
    const double width = mu * random.uniform(2.0, 30.0);
    layout.low = center - width * random.uniform(0.2, 0.8);
    const double step = width / static_cast<double>(layout.size);
    layout.step =
        std::ldexp(std::floor(std::ldexp(step, 20 - std::ilogb(step))), std::ilogb(step) - 20);
    layout.high_order = layout.tilt + random.log_uniform(0.1, 10.0) / mu;
    layout.far_order = layout.tilt + random.log_uniform(0.1, 10.0) / mu;
    layout.low_order = layout.tilt - random.log_uniform(0.1, 10.0) / mu;
    layout.cut = random.log_uniform(1e-120, 1e-6);
    if (trial % 2 == 0) layout.work_for_point = 0.0;  // with fast transforms, whatever they cost
    INFO("mu " << mu << ", count " << count << ", tilt " << layout.tilt << ", low " << layout.low
               << ", width " << width << ", points " << layout.size);
    const pld::Curve curve = *pld::compose(steps, pld::Scout(steps, std::log(layout.cut)), layout);
    for (int k = 0; k < 60; ++k) {
      const double epsilon = std::fabs(layout.low + width * random.uniform(-0.1, 1.1));
      const double exact = gaussian_delta(mu, epsilon);
      if (!(exact > 1e-290)) continue;
      const double upper = curve.upper_delta(epsilon);
      const double lower = curve.lower_delta(epsilon);
      INFO("epsilon " << epsilon << ", " << lower << " .. " << upper << ", exact " << exact);
      const double slack = 1e-11;  // for the closed form, which is a difference
      CHECK(upper >= exact * (1.0 - slack));
      CHECK(lower <= exact * (1.0 + slack));
      useful_upper += upper < 1.05 * exact;
      useful_lower += lower > 0.95 * exact;
      const double given = std::min(0.9, exact);
      CHECK(curve.upper_epsilon(given) >= (exact < 0.9 ? epsilon * (1.0 - slack) : 0.0));
      if (exact < 0.9) CHECK(curve.lower_epsilon(given) <= epsilon * (1.0 + slack));
    }
  }
  CHECK(useful_upper > 300);
  CHECK(useful_lower > 300);
}

// The lattice of a discrete Gaussian is the grid: the bounds differ only by rounding, and a
// composition's sum over the integers, with positive terms in long double, is accurate to 1e-17.
TEST_CASE("pld: discrete Gaussians meet a direct sum", "[accountant][pld]") {
  const double sigma = 1.5;
  const int n = 6;
  const int reach = 40;
  std::vector<long double> one;
  long double total = 0.0L;
  for (int x = -reach; x <= reach; ++x) {
    one.push_back(std::exp(-0.5L * x * x / (sigma * sigma)));
    total += one.back();
  }
  std::vector<long double> all{1.0L};
  for (int i = 0; i < n; ++i) {
    std::vector<long double> next(all.size() + one.size() - 1, 0.0L);
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = 0; b < one.size(); ++b) next[a + b] += all[a] * one[b] / total;
    }
    all = std::move(next);
  }
  const auto accountant = pld_of(Event::discrete_gaussian(sigma, 1), n, {.relative_width = 1e-6});
  for (const double epsilon : {0.1, 1.0, 3.0, 10.0, 20.0, 30.0}) {
    long double exact = 0.0L;
    for (std::size_t j = 0; j < all.size(); ++j) {
      const long double x = static_cast<long double>(j) - n * reach;
      const long double loss = (n - 2.0L * x) / (2.0L * sigma * sigma);
      if (loss > epsilon) exact -= all[j] * std::expm1(epsilon - loss);
    }
    INFO("epsilon " << epsilon << ", delta " << static_cast<double>(exact));
    const PrivacyAnswer answer = accountant->delta(epsilon);
    CHECK(*answer.lower <= exact);
    CHECK(answer.value >= exact);
    check_width(answer, 1e-5);
  }
}

// Expected values: 50-digit contour integrals and closed forms from the golden file.
TEST_CASE("pld: known values", "[accountant][pld]") {
  struct Case {
    Event event;
    std::uint64_t count;
    double delta, epsilon;
    Adjacency adjacency = Adjacency::add_or_remove_one;
  };
  for (const Case& c :
       {Case{sampled(256.0 / 60000.0, 1.1), 14063, 1e-5, 2.381689726141648742},
        Case{sampled(256.0 / 60000.0, 1.1), 14063, 1e-5, 4.221469903122744323,
             Adjacency::replace_one},
        Case{sampled(256.0 / 60000.0, 1.1), 14063, 1e-5, 2.381689726141648742, Adjacency::zero_out},
        Case{sampled(0.02, 1.3), 2000, 1e-10, 5.530550557435436443},
        Case{sampled(0.1, 0.8), 1000, 1e-5, 39.88008690034312951},
        Case{sampled(0.001, 2.0), 1000000, 1e-6, 2.420858347729797303},
        Case{sampled(0.01, 1.0), 1, 1e-5, 0.1994504477959147238},
        Case{Event::composed({Event::self_composed(1000, sampled(0.01, 1.5)),
                              Event::self_composed(1000, sampled(0.01, 1.2)),
                              Event::self_composed(500, sampled(0.01, 0.9))}),
             1, 1e-5, 2.331690261873964502},
        Case{Event::gaussian(20.0), 100, 1e-5, 1.993091404415119610}}) {
    INFO(c.event.name() << " " << c.count);
    const auto answer = pld_of(c.event, c.count, {.adjacency = c.adjacency})->epsilon(c.delta);
    check_holds(answer, c.epsilon);
    check_width(answer, 0.0002);
    CHECK(answer.note.find("wider") == std::string::npos);
  }
  // Losses between -4/2 and 4/2, and a part of delta in closed form.
  const auto laplace = pld_of(Event::laplace(2.0), 4, {.most_points = 65536});
  check_holds(laplace->delta(1.0), 0.08862450350471488172);
  check_width(laplace->delta(1.0), 0.01);
  for (const double delta : {1e-300, 1e-12, 1e-6}) {  // four atoms of mass 1/2 at the top
    CHECK(laplace->epsilon(delta).value <= 2.0 * (1.0 + 1e-14));
    CHECK(*laplace->epsilon(delta).lower >= (2.0 + std::log1p(-16.0 * delta)) * (1.0 - 1e-14));
  }
  CHECK(laplace->delta(2.0 + 1e-9).value == 0.0);
  CHECK(pld_of(Event::laplace(0.5))->epsilon(1e-300).value <= 2.0 * (1.0 + 1e-14));
}

TEST_CASE("pld: compositions of Gaussians are exact", "[accountant][pld][long]") {
  Random random(3);
  const int compositions = trials(2000, "random compositions");
  for (int trial = 0; trial < compositions; ++trial) {
    const double sigma = random.log_uniform(0.2, 1e4);
    const auto count = static_cast<std::uint64_t>(random.log_uniform(1.0, 1e7));
    const double mu = std::sqrt(static_cast<double>(count)) / sigma;
    const double epsilon = mu * random.uniform(0.0, 8.0) + 0.5 * mu * mu * random.uniform(0.0, 2.0);
    if (mu > 20.0 || epsilon > 600.0) continue;
    INFO("sigma " << sigma << ", count " << count << ", epsilon " << epsilon);
    const double exact = gaussian_delta(mu, epsilon);
    const double slack = 1e-12 * normal_above(epsilon / mu - 0.5 * mu);
    const auto accountant = pld_of(Event::gaussian(sigma), count);
    const PrivacyAnswer delta = accountant->delta(epsilon);
    CHECK(delta.value >= exact - slack);
    CHECK(*delta.lower <= exact + slack);
    CHECK(delta.value - *delta.lower <= 100.0 * slack + 1e-300);
    if (delta.value > 1e-290 && delta.value < 0.9) {
      const PrivacyAnswer back = accountant->epsilon(delta.value);
      CHECK(*back.lower <= epsilon * (1.0 + 1e-9));
      CHECK(back.value >= *back.lower);
    }
  }
}

// On the grid: a Gaussian with a Laplace release that hides almost nothing.
TEST_CASE("pld: Gaussians on the grid contain the closed form", "[accountant][pld]") {
  Random random(4);
  for (int trial = 0; trial < 40; ++trial) {
    const double mu = random.log_uniform(0.1, 6.0);
    const double delta = random.log_uniform(1e-12, 1e-2);
    const auto pair = pld::gaussian(std::sqrt(50.0) / mu);
    const double width = random.log_uniform(1e-5, 0.1);
    const std::vector<pld::Step> steps{{pair, pair, 50}};
    const auto interval =
        pld::answer({steps}, {.wants_epsilon = true, .given = delta}, width, 0x1p22);
    INFO("mu " << mu << ", delta " << delta << ", width " << width << ", " << interval.lower
               << " .. " << interval.upper);
    CHECK(gaussian_delta(mu, interval.upper) <= delta * (1.0 + 1e-9));
    if (interval.lower > 0.0) CHECK(gaussian_delta(mu, interval.lower) >= delta * (1.0 - 1e-9));
    if (interval.note.empty())
      CHECK(interval.upper - interval.lower <= width * interval.upper + 0.001 * mu);
  }
}

TEST_CASE("pld: one release of a sampled Gaussian in closed form", "[accountant][pld][long]") {
  Random random(5);
  const int count = trials(3000, "random settings");
  for (int trial = 0; trial < count; ++trial) {
    const double q = random.log_uniform(1e-6, 1.0);
    const double sigma = random.log_uniform(0.2, 1e4);
    const double epsilon = random.log_uniform(1e-3, 3.0) * q / sigma;
    INFO("q " << q << ", sigma " << sigma << ", epsilon " << epsilon);
    // Removing: the mixture is compared with N(0), and the best event is z > t.
    const double a = std::log1p(std::expm1(epsilon) / q);
    const double up = sigma * a + 0.5 / sigma;
    const double removed = q * (normal_above(up - 1.0 / sigma) - normal_above(up)) -
                           std::expm1(epsilon) * normal_above(up);
    const PrivacyAnswer answer = pld_of(sampled(q, sigma))->delta(epsilon);
    const double slack = 1e-14 * (q + epsilon);
    CHECK(answer.value >= removed - slack);
    CHECK(*answer.lower <= std::max(0.0, removed) + slack);
    CHECK(answer.value - *answer.lower <= 1e-10 * (q + epsilon));
  }
  // Losses too large for exp.
  const auto huge = pld_of(sampled(0.5, 0.01))->epsilon(1e-5);
  CHECK(huge.value - *huge.lower <= 1e-2 * huge.value);
  CHECK_THAT(huge.value, WithinRel(5000.0 - std::log(2.0) + 100.0 * 4.1074797, 1e-3));
  CHECK(pld_of(sampled(0.5, 0.01), 1, {.adjacency = Adjacency::replace_one})->epsilon(1e-5).value >
        huge.value);
}

// `answer` itself: the larger of the two directions counts, in either order.
TEST_CASE("pld: both directions count", "[accountant][pld]") {
  const auto pair = sampled_gaussian(0.01, 0.8);
  const auto other = pld::reversed(pair);
  const std::vector<pld::Step> remove{{pair, pair, 500}};
  const std::vector<pld::Step> add{{other, other, 500}};
  const pld::Question question{.wants_epsilon = true, .given = 1e-5};
  const auto of = [&](std::vector<std::vector<pld::Step>> directions) {
    return pld::answer(directions, question, 0.001, 0x1p22);
  };
  CHECK(of({add}).upper < 0.8 * of({remove}).lower);
  CHECK(of({remove, add}).upper == of({remove}).upper);
  CHECK(of({add, remove}).upper == of({remove}).upper);
  CHECK(of({add, remove}).lower == of({remove}).lower);
}

TEST_CASE("pld: never above rdp, and never a lower bound above it", "[accountant][pld]") {
  Random random(6);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<Event> events;
    for (int i = 0; i <= trial % 3; ++i) {
      const auto count = static_cast<std::int64_t>(random.log_uniform(2.0, 3000.0));
      events.push_back(Event::self_composed(
          count, sampled(random.log_uniform(1e-4, 0.3), random.log_uniform(0.7, 30.0))));
    }
    if (trial % 5 == 0) events.push_back(Event::laplace(random.log_uniform(3.0, 30.0)));
    const double delta = random.log_uniform(1e-40, 1e-2);
    const auto pld = accountant({.relative_width = 0.01, .most_points = 131072});
    const auto rdp = accountant({}, "rdp");
    pld->compose(Event::composed(events), 1);
    rdp->compose(Event::composed(events), 1);
    const PrivacyAnswer answer = pld->epsilon(delta);
    const double bound = rdp->epsilon(delta).value;
    INFO("trial " << trial << ", delta " << delta << ": " << *answer.lower << " .. " << answer.value
                  << ", rdp " << bound << ", " << answer.note);
    CHECK(*answer.lower <= answer.value);
    CHECK(*answer.lower <= bound * (1.0 + 1e-12));
    // The true value is at most that of rdp, and the interval contains it.
    CHECK(answer.value <= bound + (answer.value - *answer.lower) + 1e-12 * bound);
    if (answer.note.empty()) CHECK(answer.value <= bound * 1.011 + 1e-9);
  }
}

TEST_CASE("pld: more privacy never has the higher interval", "[accountant][pld]") {
  Random random(7);
  for (int trial = 0; trial < 25; ++trial) {
    const double q = random.log_uniform(1e-4, 0.5);
    const double sigma = random.log_uniform(0.6, 20.0);
    const auto steps = static_cast<std::uint64_t>(random.log_uniform(2.0, 3000.0));
    const double delta = random.log_uniform(1e-15, 1e-2);
    const Options options{.relative_width = 0.01};
    const PrivacyAnswer here = pld_of(sampled(q, sigma), steps, options)->epsilon(delta);
    INFO("q " << q << ", sigma " << sigma << ", steps " << steps << ", delta " << delta);
    for (const double factor : {1.001, 1.1}) {
      const auto more = static_cast<std::uint64_t>(std::ceil(static_cast<double>(steps) * factor));
      for (const PrivacyAnswer& worse :
           {pld_of(sampled(q * factor, sigma), steps, options)->epsilon(delta),
            pld_of(sampled(q, sigma / factor), steps, options)->epsilon(delta),
            pld_of(sampled(q, sigma), more, options)->epsilon(delta),
            pld_of(sampled(q, sigma), steps, options)->epsilon(delta / factor)}) {
        CHECK(*here.lower <= worse.value);
        if (here.note.empty() && worse.note.empty() && worse.value > 1e-3) {
          CHECK(here.value <= worse.value * 1.011);
        }
      }
    }
  }
}

TEST_CASE("pld: narrower intervals lie within wider ones' reach", "[accountant][pld]") {
  for (const auto& [q, sigma, steps, delta] :
       std::vector<std::tuple<double, double, std::uint64_t, double>>{
           {0.01, 1.0, 500, 1e-5}, {0.001, 0.6, 3000, 1e-7}, {0.2, 5.0, 100, 1e-12}}) {
    double lower = 0.0;
    double upper = kInfinity;
    for (const double width : {0.1, 0.01, 0.001, 1e-4, 1e-5}) {
      const auto answer =
          pld_of(sampled(q, sigma), steps, {.relative_width = width})->epsilon(delta);
      INFO("q " << q << ", width " << width << ": " << *answer.lower << " .. " << answer.value);
      CHECK(answer.note.empty());
      CHECK(answer.value - *answer.lower <= width * answer.value);
      CHECK(*answer.lower <= upper);  // all contain the same number
      CHECK(answer.value >= lower);
      lower = std::max(lower, *answer.lower);
      upper = std::min(upper, answer.value);
    }
  }
}

TEST_CASE("pld: delta and epsilon agree", "[accountant][pld]") {
  Random random(8);
  for (int trial = 0; trial < 30; ++trial) {
    const double delta = random.log_uniform(1e-40, 1e-2);
    const auto accountant =
        pld_of(sampled(random.log_uniform(1e-3, 0.3), random.log_uniform(0.7, 5.0)),
               static_cast<std::uint64_t>(random.log_uniform(2.0, 2000.0)),
               {.relative_width = 0.01, .most_points = 65536});
    const PrivacyAnswer epsilon = accountant->epsilon(delta);
    INFO("delta " << delta << ": " << *epsilon.lower << " .. " << epsilon.value << " "
                  << epsilon.note);
    // The true delta is at most `delta` at the upper end, and at least `delta` at the lower end.
    CHECK(*accountant->delta(epsilon.value).lower <= delta);
    if (*epsilon.lower > 0.0) CHECK(accountant->delta(*epsilon.lower).value >= delta);
  }
}

TEST_CASE("pld: neither the order of steps nor earlier queries change a bit", "[accountant][pld]") {
  const Options coarse{.relative_width = 0.01, .most_points = 65536};
  const auto forward = accountant(coarse);
  const auto backward = accountant(coarse);
  const auto at_once = accountant(coarse);
  std::vector<Event> all;
  for (int i = 0; i < 30; ++i) {
    const auto event = [](int k) { return sampled(0.01 + 0.001 * (k % 3), 0.8 + 0.05 * (k % 10)); };
    forward->compose(event(i), 1);
    backward->compose(event(29 - i), 1);
    if (i % 7 == 0) backward->epsilon(1e-5);
    all.push_back(event(i));
  }
  at_once->compose(Event::composed(all), 1);
  const PrivacyAnswer answer = forward->epsilon(1e-5);
  for (const auto* other : {&backward, &at_once}) {
    CHECK((*other)->epsilon(1e-5).value == answer.value);
    CHECK((*other)->epsilon(1e-5).lower == answer.lower);
  }
  forward->delta(1.0);
  CHECK(forward->epsilon(1e-5).value == answer.value);
}

TEST_CASE("pld: queries on several threads agree", "[accountant][pld]") {
  const auto accountant = pld_of(sampled(0.01, 1.0), 100);
  std::vector<double> answers(4);
  {
    std::vector<std::jthread> threads;
    for (double& answer : answers) {
      threads.emplace_back([&] { answer = accountant->epsilon(1e-5).value; });
    }
  }
  for (const double answer : answers) CHECK(answer == answers.front());
}

TEST_CASE("pld: a number, and an interval, over the whole range", "[accountant][pld][slow]") {
  Random random(9);
  for (int trial = 0; trial < 80; ++trial) {
    const double q = random.log_uniform(1e-6, 1.0);
    const double sigma = random.log_uniform(0.2, 1e4);
    const auto steps = static_cast<std::uint64_t>(random.log_uniform(1.0, 1e7));
    const double delta = random.log_uniform(1e-300, 0.9);
    const auto adjacency = static_cast<Adjacency>(1 + trial % 3);
    INFO("q " << q << ", sigma " << sigma << ", steps " << steps << ", delta " << delta << ", "
              << to_text(adjacency));
    const auto accountant =
        pld_of(sampled(q, sigma), steps,
               {.adjacency = adjacency, .relative_width = 0.01, .most_points = 65536});
    const PrivacyAnswer epsilon = accountant->epsilon(delta);
    CHECK(*epsilon.lower >= 0.0);
    CHECK(*epsilon.lower <= epsilon.value);
    const double sensitivity = privgrad::sensitivity_of_unit_bound(adjacency);
    const double unsampled =
        pld_of(Event::gaussian(sigma / sensitivity), steps)->epsilon(delta).value;
    CHECK(*epsilon.lower <= unsampled * (1.0 + 1e-9));
    const PrivacyAnswer back = accountant->delta(random.log_uniform(1e-3, 50.0));
    CHECK(*back.lower >= 0.0);
    CHECK(*back.lower <= back.value);
    CHECK(back.value <= 1.0);
  }
}

TEST_CASE("pld: what it costs nothing, and what has no bound", "[accountant][pld]") {
  CHECK(pld_of(sampled(0.0, 1.0), 100)->epsilon(1e-6).value == 0.0);
  CHECK(pld_of(Event::nothing(), 100)->delta(0.0).value == 0.0);
  CHECK(pld_of(Event::gaussian(1.0), 0)->delta(0.0).value == 0.0);
  CHECK(pld_of(Event::discrete_gaussian(3.0, 0))->epsilon(1e-6).value == 0.0);
  CHECK(pld_of(Event::non_private())->epsilon(1e-6).value == kInfinity);
  CHECK(pld_of(Event::non_private())->delta(3.0).value == 1.0);
  CHECK(pld_of(sampled(1.0, 2.0), 3)->epsilon(1e-6).value ==
        pld_of(Event::gaussian(2.0), 3)->epsilon(1e-6).value);
  const Options replace{.adjacency = Adjacency::replace_one};
  CHECK_THAT(pld_of(Event::gaussian(2.0), 3, replace)->epsilon(1e-6).value,
             WithinRel(pld_of(Event::gaussian(1.0), 3)->epsilon(1e-6).value, 1e-12));
  CHECK_THAT(pld_of(Event::laplace(8.0), 3, replace)->delta(0.1).value,
             WithinRel(pld_of(Event::laplace(4.0), 3)->delta(0.1).value, 1e-12));
}

TEST_CASE("pld: what has no proof is refused, and nothing is added", "[accountant][pld]") {
  for (const Adjacency adjacency :
       {Adjacency::add_or_remove_one, Adjacency::zero_out, Adjacency::replace_one}) {
    const auto accountant = pld_of(Event::gaussian(3.0), 2, {.adjacency = adjacency});
    const double before = accountant->epsilon(1e-5).value;
    const Event zcdp = Event::poisson_sampled(0.1, Event::zcdp(1.0));
    for (const Event& event :
         {zcdp, Event::composed({Event::gaussian(1.0), zcdp}), Event::self_composed(2, zcdp),
          Event::unsupported("a mystery"), Event::zcdp(0.1),
          Event::sampled_without_replacement(9, 3, Event::gaussian(0.1)),
          Event::discrete_gaussian(1e6, 1), Event::poisson_sampled(0.1, Event::non_private()),
          Event::random_allocation(3, Event::laplace(1.0)),
          Event::random_allocation(3, Event::gaussian(0.01)),
          Event::random_allocation(std::int64_t{1} << 40, Event::gaussian(1.0)),
          Event::poisson_sampled(0.1, Event::random_allocation(3, Event::gaussian(1.0))),
          Event::poisson_sampled(1.0, Event::zcdp(0.1)),
          Event::poisson_sampled(0.1,
                                 Event::composed({Event::gaussian(1.0), Event::laplace(1.0)}))}) {
      INFO(event.name());
      REQUIRE(accountant->refuses(event));
      CHECK_THROWS_AS(accountant->compose(event, 1), privgrad::PrivacyError);
      CHECK(accountant->epsilon(1e-5).value == before);
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto accountant = pld_of(sampled(0.1, 1.0));
  for (const double delta : {0.0, 1.0, -1e-5, 2.0, nan}) {
    CHECK_THROWS_AS(accountant->epsilon(delta), privgrad::ConfigError);
  }
  for (const double epsilon : {-1e-9, kInfinity, nan}) {
    CHECK_THROWS_AS(accountant->delta(epsilon), privgrad::ConfigError);
  }
}

}  // namespace pld_tests
