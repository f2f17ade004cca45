// The gate of `make bench-check`: ratios of times within one run, against committed bounds.
// See README.md.

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <span>

#include "layers/make_step.hpp"
#include "layers/softmax.hpp"
#include "onednn.hpp"
#include "places.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/trust/run_keys.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "steps.hpp"
#include "yardstick.hpp"

namespace {

using namespace privgrad;
using namespace privgrad::bench;

/// The largest share of processor time of other programs for which strict figures are valid.
constexpr double kQuiet = 0.05;

/// The median of `time` / `reference` over alternating pairs, because a disturbance affects both of
/// a pair. Both return seconds; the first pair does not count.
double ratio(int repeats, const std::function<double()>& time,
             const std::function<double()>& reference) {
  std::vector<double> ratios;
  for (int i = 0; i <= repeats; ++i) {
    const double reference_seconds = reference();
    const double seconds = time();
    if (i > 0) ratios.push_back(seconds / reference_seconds);
  }
  return median(std::move(ratios));
}

/// The share of the machine's processor time that other programs have used since construction.
class OtherPrograms {
 public:
  double share() const {
    const Times now = times();
    return std::max(0.0, (now.busy - now.own - begin_.busy + begin_.own) / (now.all - begin_.all));
  }

 private:
  /// Seconds of all processors since the machine started; `own`: those of this process and its
  /// children.
  struct Times {
    double all = 0.0, busy = 0.0, own = 0.0;
  };
  static Times times() {
    std::ifstream in("/proc/stat");
    std::string cpu;
    in >> cpu;
    Times found;
    const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
    double ticks = 0.0;
    for (int field = 0; field < 8 && in >> ticks; ++field) {
      found.all += tick * ticks;
      if (field != 3 && field != 4) found.busy += tick * ticks;  // idle, and waiting for a disk
    }
    for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage usage{};
      ::getrusage(who, &usage);
      for (const timeval& part : {usage.ru_utime, usage.ru_stime})
        found.own += static_cast<double>(part.tv_sec) + 1e-6 * static_cast<double>(part.tv_usec);
    }
    return found;
  }

  Times begin_ = times();
};

double seconds_of_step(Bench& bench, core::ContributionCheck* check = nullptr) {
  const auto parts = bench.private_step(check);
  return parts[0] + parts[1] + parts[2];
}

double private_over_plain(const Catalog& catalog, const Case& one) {
  Bench bench(catalog, one, 1);
  return ratio(
      one.repeats, [&] { return seconds_of_step(bench); }, [&] { return bench.plain_step(); });
}

/// The time of a step whose noise subtracts that of the three previous steps, divided by that of a
/// step with independent noise.
double matrix_over_independent(const Catalog& catalog) {
  const Case independent{"784-1000-10", dense_network(), 1024, 25};
  Case matrix = independent;
  matrix.noise = {"matrix",
                  {{"strategy", std::string("bisr"), {}}, {"bands", std::int64_t{4}, {}}}};
  Bench with(catalog, matrix, 1), without(catalog, independent, 1);
  for (int step = 0; step < 3; ++step) seconds_of_step(with);  // until the window is full
  return ratio(
      independent.repeats, [&] { return seconds_of_step(with); },
      [&] { return seconds_of_step(without); });
}

/// The cost of contribution checks per step of a long run: the extra time of checked steps, one in
/// sixteen of which checks all of a pass, spread over all steps.
double contribution_checks_over_step(const Catalog& catalog, const Case& one) {
  const std::vector<std::uint64_t> others =
      core::ContributionChecks(core::RandomKey::from_seed(1), 1, "", "").draw(0, one.batch)->others;
  const auto looked_at = [&](bool all) {
    Bench bench(catalog, one, 1);
    core::ContributionCheck check{.place = one.batch / 2,
                                  .others = others,
                                  .is_of_all = all,
                                  .program = "the program",
                                  .clipping = "the clipping"};
    return ratio(
               one.repeats, [&] { return seconds_of_step(bench, &check); },
               [&] { return seconds_of_step(bench); }) -
           1.0;
  };
  constexpr auto kAll = static_cast<double>(core::ContributionChecks::kLooksToAll);
  return (looked_at(false) * (kAll - 1.0) + looked_at(true)) / kAll /
         static_cast<double>(core::ContributionChecks::kLongestPeriod);
}

/// Batches of about 256 of 60 000 rows, tested against their distribution.
double sampling_watch_over_step(const Catalog& catalog, const Case& one) {
  constexpr std::size_t kRows = 60'000;
  constexpr std::uint64_t kSteps = 100;
  const double rate = static_cast<double>(one.batch) / kRows;
  const Event release = Event::gaussian(1.0);
  std::vector<core::Charge> charges;
  std::vector<std::vector<std::uint32_t>> batches(kSteps);
  std::mt19937_64 random(3);
  std::bernoulli_distribution coin(rate);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    charges.push_back({step, release, Event::poisson_sampled(rate, release)});
    for (std::uint32_t row = 0; row < kRows; ++row)
      if (coin(random)) batches[step].push_back(row);
  }
  Bench bench(catalog, one, 1);
  core::SamplingWatch watch(charges, "the sampler");
  std::uint64_t step = 0;
  return ratio(
      one.repeats,
      [&] {
        return seconds_of([&] {
          watch.check(step, kRows, batches[step]);
          ++step;
        });
      },
      [&] { return seconds_of_step(bench); });
}

/// Draws epochs of 234 batches of 256 from 60 000 rows, and tests them against their distribution.
class Draws {
 public:
  static constexpr std::uint64_t kSteps = 234;

  Draws(const Catalog& catalog, const std::string& sampler, const Value::Object& params)
      : sampler_(catalog.create<Sampler>(sampler, params)) {
    sampler_->start({.dataset_size = kRows, .steps = kSteps * kEpochs});
    const std::vector<Event> releases(kSteps * kEpochs, Event::gaussian(1.0));
    const std::vector<Event> costs = sampler_->charges(releases);
    for (std::uint64_t step = 0; step < releases.size(); ++step)
      charges_.push_back({step, releases[step], costs[step]});
    watch_.emplace(charges_, "the sampler");
  }

  double seconds_of_epoch() {
    return seconds_of([&] {
      const auto coins = core::make_random_source(core::RandomKey::from_seed(step_));
      for (std::uint64_t left = kSteps; left > 0; --left, ++step_) {
        sampler_->sample(step_, kRows, *coins, batch_);
        watch_->check(step_, kRows, batch_);
      }
    });
  }

 private:
  static constexpr std::size_t kRows = 60'000, kEpochs = 32;
  ComponentPtr<Sampler> sampler_;
  std::vector<core::Charge> charges_;
  std::optional<core::SamplingWatch> watch_;
  std::uint64_t step_ = 0;
  std::vector<std::uint32_t> batch_;
};

/// The share of a step that a sampler's draws and their test take. Random allocation draws an epoch
/// at its first step, so whole epochs are measured.
double draws_over_step(const Catalog& catalog, const Case& one, const std::string& sampler,
                       const Value::Object& params) {
  Bench bench(catalog, one, 1);
  Draws draws(catalog, sampler, params);
  return ratio(
      21, [&] { return draws.seconds_of_epoch(); },
      [&] { return static_cast<double>(Draws::kSteps) * seconds_of_step(bench); });
}

/// The cost of the keys of a step of a run that can be resumed: one key in the chain, those of the
/// draws, and that of the noise, derived from the charge. This includes the preparation of the
/// noise from its key.
double keys_over_step(const Catalog& catalog, const Case& one) {
  Bench bench(catalog, one, 1);
  const std::vector<double> multipliers(100, 1.0);
  const auto aggregator = catalog.create<Aggregator>("gaussian", Value::Object{});
  aggregator->start({.steps = multipliers.size(), .noise_multipliers = multipliers});
  Payments payments(catalog, std::vector<Event>(multipliers.size(), Event::gaussian(1.0)));
  const auto executor = core::make_executor(1);
  core::Mechanism mechanism(*aggregator, core::RandomKey::from_seed(1), *executor);
  // As long as the seven hashes to which a run is bound.
  core::RunKeys keys =
      core::RunKeys::chain(core::RandomKey::from_seed(1), std::string(std::size_t{7} * 65, 'a'));
  return ratio(
      one.repeats,
      [&] {
        return seconds_of([&] {
          const core::RandomKey key = keys.of_step();
          const auto coins = core::make_random_source(key.derive("sampler"));
          mechanism.use_key(key.derive("noise"));
          const core::RandomKey augmentation = key.derive("augmentation");
          const core::PaidNoise noise =
              mechanism.pay_for_noise(1.0, payments.next(), static_cast<double>(one.batch));
          keys.next("");
          asm volatile("" : : "r"(&coins), "r"(&augmentation), "r"(&noise) : "memory");
        });
      },
      [&] { return seconds_of_step(bench); });
}

/// The reference for accountants: a million exponentials and square roots in sequence.
double reference_loop() {
  return seconds_of([] {
    double sum = 0.0;
    for (int i = 0; i < 1'000'000; ++i) sum += std::exp(-std::sqrt(1e-3 * i + 1e-9 * sum));
    asm volatile("" : : "r"(&sum) : "memory");
  });
}

/// The time for an accountant's epsilon of these releases, divided by that of the loop.
double accountant_over_loop(const Catalog& catalog, const std::string& name,
                            const Value::Object& params, std::span<const CountedEvent> releases) {
  return ratio(
      7,
      [&] {
        return seconds_of([&] {
          const auto accountant = catalog.create<Accountant>(name, params);
          accountant->start(Adjacency::add_or_remove_one);
          for (const auto& [event, count] : releases) accountant->compose(event, count);
          if (!(accountant->epsilon(1e-5).value > 0.0)) throw std::runtime_error("no epsilon");
        });
      },
      reference_loop);
}

/// A whole training run with falling noise: 100 noise levels, each used 100 times.
std::vector<CountedEvent> falling_noise() {
  std::vector<CountedEvent> releases;
  releases.reserve(100);
  for (int i = 0; i < 100; ++i)
    releases.push_back({Event::poisson_sampled(0.01, Event::gaussian(2.0 - 0.012 * i)), 100});
  return releases;
}

/// Processor seconds of a program whose output is discarded.
double seconds_of_program(std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  rusage usage{};
  if (failed != 0 || ::wait4(child, &status, 0, &usage) != child || status != 0) {
    throw std::runtime_error(words.front() + " could not be run or failed");
  }
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The time of releases of exact noise divided by that of the cipher's bytes that they need: 2^20
/// elements, in pieces that stay in the cache.
double rounded_over_cipher() {
  constexpr std::size_t kSize = std::size_t{1} << 14;
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 20;
  const core::RandomKey key = core::RandomKey::from_seed(1);
  const std::vector<std::int64_t> sums(kSize, 0x123456789);
  std::vector<std::int64_t> out(kSize);
  std::vector<std::uint8_t> bytes(4 * kSize);
  return ratio(
      51,
      [&] {
        return seconds_of([&] {
          core::RoundedGaussianStream stream(key, 0);
          constexpr double kSigma = 0x1p26;
          for (std::uint64_t first = 0; first < kEnd; first += kSize)
            stream.release(first, kSigma, core::release_shift(kSigma), sums, out);
        });
      },
      [&] {
        return seconds_of([&] {
          core::CounterCipher cipher(key);
          for (std::uint64_t block = 0; block < kEnd / 4; block += kSize / 4)
            cipher.read(0, block, bytes);
        });
      });
}

double start_up_over_true(const std::string& program) {
  return ratio(
      21,
      [&] {
        return seconds_of_program({program, "plugins", "list"});
      },
      [] { return seconds_of_program({"/bin/true"}); });
}

/// Memory for the values of a layer and their derivatives. It is one block: kernels are many times
/// as slow on some processors if two addresses differ by a few bytes modulo 4096, as those of
/// separate vectors may.
class Values {
 public:
  Values(std::size_t numbers, std::size_t row) : memory_(6 * numbers) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    std::generate(memory_.begin(), memory_.end(), [&] { return normal(random); });
    const auto array = [&](std::size_t i) { return memory_.data() + i * numbers; };
    values_ = {.numbers = numbers,
               .row = row,
               .in = {array(0), array(1)},
               .out = array(2),
               .delta = array(3),
               .below = {array(4), array(5)}};
  }

  const LayerValues& operator*() const { return values_; }
  const LayerValues* operator->() const { return &values_; }

 private:
  std::vector<float> memory_;
  LayerValues values_;
};

/// The time of calling `kernel` over that of calling `reference`.
double kernel_ratio(const std::function<void()>& kernel, const std::function<void()>& reference) {
  constexpr int kTimes = 30;
  const auto seconds_of_many = [](const std::function<void()>& once) {
    return seconds_of([&] {
      for (int i = 0; i < kTimes; ++i) once();
    });
  };
  return ratio(
      15, [&] { return seconds_of_many(kernel); }, [&] { return seconds_of_many(reference); });
}

/// The time of a layer on a block of examples over that of the reference, which is made of the same
/// values. The block is as large as the second cache allows, so that the reference's constant time
/// of a call does not count.
double layer_over_onednn(
    const Layer& layer, const Shape& shape, std::size_t row, Way way,
    const std::function<std::function<void()>(Way, const LayerValues&)>& reference) {
  constexpr std::size_t kExamples = 16;
  const std::size_t inputs = std::holds_alternative<ElementwiseProduct>(layer) ? 2 : 1;
  const auto step =
      cpu::make_step(layer, {.entering = std::vector<Shape>(inputs, shape), .out = shape});
  const std::vector<float> parameters(step->parameter_count(), 0.5f);
  step->load(parameters.data());
  step->prepare();
  const Values values(kExamples * element_count(shape), row);
  const std::vector<const float*> in(values->in, values->in + inputs);
  const std::vector<float*> below(values->below, values->below + inputs);
  cpu::Scratch scratch;
  const auto forward = [&] { step->forward(kExamples, in, values->out, scratch); };
  const auto backward = [&] {
    step->backward(kExamples, in, values->out, values->delta, below, scratch);
  };
  forward();
  const auto other = reference(way, *values);
  return way == Way::forwards ? kernel_ratio(forward, other) : kernel_ratio(backward, other);
}

/// The time of the softmax of attention among 64 places, for 192 queries, over that of oneDNN's.
/// Both of attention's ways work in place, so each row is copied first.
double softmax_over_onednn(Way way) {
  constexpr std::size_t kPlaces = 64, kQueries = 192;
  constexpr float kScale = 0.125f;
  const Values values(kQueries * kPlaces, kPlaces);
  const std::vector<float> open(kPlaces, 1.0f);
  const auto each_row = [&](const float* from, float* to, const auto& change) {
    for (std::size_t row = 0; row < values->numbers; row += kPlaces) {
      std::copy_n(from + row, kPlaces, to + row);
      change(row, to + row);
    }
  };
  const auto forward = [&] {
    each_row(values->in[0], values->out,
             [&](std::size_t, float* row) { cpu::softmax(open.data(), kPlaces, kScale, row); });
  };
  const auto backward = [&] {
    each_row(values->delta, values->below[0], [&](std::size_t at, float* row) {
      cpu::softmax_backward(values->out + at, kPlaces, kScale, row);
    });
  };
  forward();
  const auto other = onednn_softmax(*values);
  return way == Way::forwards ? kernel_ratio(forward, other) : kernel_ratio(backward, other);
}

/// A bound is a number, or, where the other library is much faster with newer instructions, one for
/// each level of instructions; machines without AVX2 have the first level's.
double bound_of(const nlohmann::json& bound) {
  if (bound.is_number()) return bound.get<double>();
  return bound.value(name_of(instruction_set()), bound.at("avx2").get<double>());
}

/// Measures a ratio, prints a line and says whether the ratio is within its bound in the file.
class Gate {
 public:
  Gate(const nlohmann::json& bounds, double slack) : bounds_(bounds), slack_(slack) {
    std::printf("%-34s %9s %9s\n", "ratio", "measured", "bound");
  }

  void check(const std::string& name, const std::function<double()>& measure) {
    const double bound = bound_of(bounds_.at(name)) * slack_;
    const double found = measure();
    ++checked_;
    std::printf("%-34s %9.4f %9.4f", name.c_str(), found, bound);
    if (!(found <= bound)) {
      ++beyond_;
      std::printf("  BEYOND by %.0f %%", 100.0 * (found / bound - 1.0));
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  /// \throws std::runtime_error if a bound was not checked, because a gate without checks guards
  ///   nothing
  bool passed() const {
    if (checked_ != bounds_.size()) throw std::runtime_error("a bound has no ratio of its name");
    return beyond_ == 0;
  }

 private:
  const nlohmann::json& bounds_;
  double slack_;
  std::size_t checked_ = 0;
  int beyond_ = 0;
};

void check_layers(Gate& gate) {
  for (const Way way : {Way::forwards, Way::backwards}) {
    const std::string of = way == Way::forwards ? "_over_onednn" : "_backward_over_onednn";
    for (const auto& [kind, name] : kActivations) {
      const auto reference = [kind = kind](Way which, const LayerValues& values) {
        return onednn_activation(kind, which, values);
      };
      gate.check(name + of, [&, kind = kind] {
        return layer_over_onednn(Activation{kind}, {1536}, 1536, way, reference);
      });
    }
    gate.check("multiply" + of, [&] {
      return layer_over_onednn(ElementwiseProduct{}, {1536}, 1536, way, onednn_product);
    });
    gate.check("softmax" + of, [&] { return softmax_over_onednn(way); });
    gate.check("layer_norm" + of, [&] {
      return layer_over_onednn(LayerNorm{}, {8, 384}, 384, way, onednn_norm);
    });
    gate.check("rms_norm" + of, [&] {
      return layer_over_onednn(RmsNorm{}, {8, 384}, 384, way, onednn_norm);
    });
    constexpr std::size_t kInGroup = std::size_t{8} * 8 * 4;  // pixels x channels of a group
    gate.check("group_norm" + of, [&] {
      return layer_over_onednn(GroupNorm{.groups = 16}, {8, 8, 64}, kInGroup, way, onednn_norm);
    });
  }
}

/// Prints one line about the rate of the machine's products.
void print(const nlohmann::json& machine) {
  std::printf("%s, %s; OpenBLAS's kernels %s: %.0f GFLOP/s of %.0f, oneDNN %s\n",
              machine.at("cpu").get<std::string>().c_str(),
              machine.at("instructions").get<std::string>().c_str(),
              machine.at("openblas_kernels").get<std::string>().c_str(),
              machine.at("openblas_gflops").get<double>(),
              machine.at("peak_gflops").is_null() ? NAN : machine.at("peak_gflops").get<double>(),
              machine.at("onednn_gflops").dump().c_str());
}

}  // namespace

/// ratios BOUNDS PROGRAM [strict]
int main(int argc, char** argv) try {
  const bool strict = argc == 4 && std::string(argv[3]) == "strict";
  if (argc != 3 && !strict) {
    std::cerr << "usage: ratios BOUNDS PROGRAM [strict]\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  const auto bounds = nlohmann::json::parse(file);
  const std::string program = argv[2];
  // Machines differ from the one for which the bounds were set, and other programs may be running.
  const double slack = strict ? 1.0 : 2.0;
  const OtherPrograms others;

  use_own_kernels(argv);
  print(yardstick());
  const std::filesystem::path plugins = privgrad::places::plugins();
  host::PluginHost host({.directories = {plugins}, .pins = {}});
  load_step_plugins(host, plugins);
  host.load(plugins / "accountants/pld.privgrad.so");
  host.load(plugins / "accountants/saddle_point.privgrad.so");
  host.load(plugins / "samplers/allocation.privgrad.so");
  host.load(plugins / "samplers/poisson.privgrad.so");
  const Catalog& catalog = host.catalog();

  Gate gate(bounds, slack);
  gate.check("dense_step_private_over_plain", [&] {
    return private_over_plain(catalog, {"784-1000-10", dense_network(), 256, 40});
  });
  gate.check("conv_step_private_over_plain", [&] {
    return private_over_plain(catalog, {"conv", conv_network(), 64, 15});
  });
  gate.check("matrix_step_over_independent", [&] { return matrix_over_independent(catalog); });
  gate.check("contribution_checks_over_step", [&] {
    return contribution_checks_over_step(catalog, {"784-1000-10", dense_network(), 256, 30});
  });
  gate.check("contribution_checks_over_conv_step", [&] {
    return contribution_checks_over_step(catalog, {"conv", conv_network(), 64, 15});
  });
  gate.check("contribution_checks_over_small_step", [&] {
    return contribution_checks_over_step(catalog, {"784-1000-10", dense_network(), 16, 40});
  });
  gate.check("sampling_watch_over_step", [&] {
    return sampling_watch_over_step(catalog, {"784-1000-10", dense_network(), 256, 40});
  });
  const Case dense{"784-1000-10", dense_network(), 256, 40};
  gate.check("allocation_draws_over_step", [&] {
    constexpr auto kSteps = static_cast<std::int64_t>(Draws::kSteps);
    return draws_over_step(catalog, dense, "allocation", {{"steps_per_epoch", kSteps, {}}});
  });
  gate.check("poisson_draws_over_step", [&] {
    return draws_over_step(catalog, dense, "poisson", {{"batch_size", std::int64_t{256}, {}}});
  });
  gate.check("keys_over_step", [&] {
    return keys_over_step(catalog, {"784-1000-10", dense_network(), 256, 40});
  });
  gate.check("keys_over_small_step", [&] {
    return keys_over_step(catalog, {"784-1000-10", dense_network(), 16, 40});
  });
  // Finer intervals of pld cost more; the bound holds for the width with which it was set.
  const Value::Object coarse{{"relative_width", 0.0003, {}}};
  check_layers(gate);
  gate.check("pld_over_loop",
             [&] { return accountant_over_loop(catalog, "pld", coarse, falling_noise()); });
  gate.check("saddle_point_over_loop",
             [&] { return accountant_over_loop(catalog, "saddle_point", {}, falling_noise()); });
  const std::vector<CountedEvent> epoch{
      {Event::random_allocation(10'000, Event::gaussian(1.0)), 1}};
  gate.check("allocation_over_loop",
             [&] { return accountant_over_loop(catalog, "pld", {}, epoch); });
  gate.check("rounded_over_cipher", rounded_over_cipher);
  gate.check("plugins_list_over_true", [&] { return start_up_over_true(program); });
  std::printf("other programs took %.1f %% of the processors\n", 100.0 * others.share());
  if (strict && others.share() > kQuiet) {
    std::printf("not quiet: strict figures want less than %.0f %%\n", 100.0 * kQuiet);
    return EXIT_FAILURE;
  }
  return gate.passed() ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::cerr << "ratios: " << error.what() << '\n';
  return EXIT_FAILURE;
}
