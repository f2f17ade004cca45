// Compares the time of private training steps with steps of the same engine without privacy, and
// with the best that the machine could do. See README.md.

#include <cblas.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "places.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "steps.hpp"
#include "yardstick.hpp"

namespace {

using Json = nlohmann::ordered_json;
using namespace privgrad;
using namespace privgrad::bench;

/// Returns the bytes per second at which one thread reads memory that is in no cache.
double read_rate() {
  const std::vector<double> memory(std::size_t{32} << 20, 1.0);
  const double seconds = best_seconds(5, [&] {
    double lanes[8] = {};
    for (std::size_t i = 0; i < memory.size(); i += 8) {
      for (std::size_t j = 0; j < 8; ++j) lanes[j] += memory[i + j];
    }
    asm volatile("" : : "r"(&lanes[0]) : "memory");
  });
  return static_cast<double>(memory.size() * sizeof(double)) / seconds;
}

/// Returns the floating-point operations of a step's three products, per example: forwards, the
/// gradient of the weights, and backwards to all layers but the first with parameters.
double flops_per_example(const Network& network) {
  const auto shapes = value_shapes(network);
  double flops = 0;
  bool first = true;
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    double products = 0;
    if (const auto* conv = std::get_if<Conv2d>(&network.nodes[i].layer)) {
      const std::size_t depth = shapes[i].size() == 3 ? shapes[i][2] : 1;
      products =
          static_cast<double>(element_count(shapes[i + 1]) * conv->kernel * conv->kernel * depth);
    } else if (std::holds_alternative<Dense>(network.nodes[i].layer)) {
      products = static_cast<double>(element_count(shapes[i]) * element_count(shapes[i + 1]));
    }
    if (products == 0) continue;
    flops += 2 * products * (first ? 2 : 3);
    first = false;
  }
  return flops;
}

/// Returns the peak resident memory in bytes of `work`, run in a separate process.
double peak_memory(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    try {
      work();
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 0;
  rusage usage{};
  if (::wait4(child, &status, 0, &usage) != child || status != 0) {
    throw std::runtime_error("the process that measures memory failed");
  }
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

struct Floors {
  double sgemm_rate = 0;
  double read_rate = 0;
};

struct Times {
  double plain = 1e300, clip = 1e300, release = 1e300, update = 1e300, step = 1e300;
};

/// Alternates private and plain steps, so that a disturbance affects both.
Times measure(const Catalog& catalog, const Case& one, int threads) {
  Bench bench(catalog, one, threads);
  Times best;
  for (int i = 0; i < one.repeats; ++i) {
    best.plain = std::min(best.plain, bench.plain_step());
    const auto parts = bench.private_step();
    best.clip = std::min(best.clip, parts[0]);
    best.release = std::min(best.release, parts[1]);
    best.update = std::min(best.update, parts[2]);
    best.step = std::min(best.step, parts[0] + parts[1] + parts[2]);
  }
  return best;
}

Json report_case(const Catalog& catalog, const Case& one, const Floors& floors) {
  const double flops = flops_per_example(one.network) * static_cast<double>(one.batch);
  const double parameters = static_cast<double>(parameter_count(one.network));
  const double products = flops / floors.sgemm_rate;
  Json report{{"network", one.name},
              {"batch", one.batch},
              {"parameters", parameter_count(one.network)},
              {"floor_products_ms", products * 1e3},
              {"floor_parameters_ms", 4 * parameters * sizeof(float) / floors.read_rate * 1e3}};
  std::array<Times, 2> times;
  for (const int threads : {1, 2}) {
    used_clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const Times& best = times[static_cast<std::size_t>(threads - 1)] =
        measure(catalog, one, threads);
    report["threads"].push_back(
        {{"threads", threads},
         {"clock", threads == 1 ? "processor" : "wall"},
         {"plain_step_ms", best.plain * 1e3},
         {"clip_ms", best.clip * 1e3},
         {"noise_ms", best.release * 1e3},
         {"optimizer_ms", best.update * 1e3},
         {"private_step_ms", best.step * 1e3},
         {"private_over_plain", best.step / best.plain},
         {"without_noise_over_plain", (best.clip + best.update) / best.plain},
         {"plain_over_floor_products", best.plain / (products / threads)}});
  }
  used_clock = CLOCK_PROCESS_CPUTIME_ID;
  report["one_thread_over_two_plain"] = times[0].plain / times[1].plain;
  report["one_thread_over_two_clip"] = times[0].clip / times[1].clip;
  report["one_thread_over_two_private"] = times[0].step / times[1].step;
  return report;
}

Json memory_of(const Catalog& catalog, const Case& one) {
  const double plain = peak_memory([&] {
    Bench bench(catalog, one, 1);
    for (int i = 0; i < 3; ++i) bench.plain_step();
  });
  const double priv = peak_memory([&] {
    Bench bench(catalog, one, 1);
    for (int i = 0; i < 3; ++i) bench.private_step();
  });
  return {{"network", one.name},
          {"batch", one.batch},
          {"plain_peak_megabytes", plain * 1e-6},
          {"private_peak_megabytes", priv * 1e-6},
          {"private_over_plain", priv / plain}};
}

/// Measures only the large products of the dense network's step: their rate divided by a plain
/// product's rate.
Json product_rate(double sgemm) {
  const auto rate = [&](CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k) {
    const Floats a(static_cast<std::size_t>(m) * static_cast<std::size_t>(k), 0.5f);
    const Floats b(static_cast<std::size_t>(n) * static_cast<std::size_t>(k), 0.25f);
    Floats c(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
    const double seconds = best_seconds(15, [&] {
      cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, a.data(), ta == CblasNoTrans ? k : m,
                  b.data(), tb == CblasNoTrans ? n : k, 1.0f, c.data(), n);
    });
    return 2.0 * m * n * k / seconds / sgemm;
  };
  return {{"forward_tile_128x256x784", rate(CblasNoTrans, CblasTrans, 128, 256, 784)},
          {"gradient_tile_128x784x128", rate(CblasTrans, CblasNoTrans, 128, 784, 128)}};
}

/// Times only plain steps on one thread, for comparing other programs that run alternately.
Json plain_report(const Catalog& catalog, const std::vector<Case>& cases) {
  Json report = Json::array();
  for (const Case& one : cases) {
    const Times best = measure(catalog, one, 1);
    report.push_back({{"network", one.name},
                      {"batch", one.batch},
                      {"plain_step_ms", best.plain * 1e3},
                      {"private_step_ms", best.step * 1e3}});
  }
  return report;
}

/// Returns one row of a table of growth: a private and a plain step on one thread, and the private
/// step's cost per example compared with the minimum for its products.
Json growth_row(const Catalog& catalog, const Case& one, const Floors& floors) {
  const Times best = measure(catalog, one, 1);
  const double floor =
      flops_per_example(one.network) * static_cast<double>(one.batch) / floors.sgemm_rate;
  return {{"network", one.name},
          {"batch", one.batch},
          {"parameters", parameter_count(one.network)},
          {"plain_step_ms", best.plain * 1e3},
          {"private_step_ms", best.step * 1e3},
          {"private_over_plain", best.step / best.plain},
          {"private_us_per_example", best.step * 1e6 / static_cast<double>(one.batch)},
          {"plain_over_floor_products", best.plain / floor}};
}

Json growth_report(const Catalog& catalog, const Floors& floors) {
  Json batches = Json::array(), widths = Json::array(), depths = Json::array();
  for (const std::size_t batch : {16, 64, 256, 1024, 4096}) {
    batches.push_back(growth_row(
        catalog, {"784-1000-10", dense_network(), batch, batch > 1024 ? 4 : 10}, floors));
  }
  for (const std::size_t width : {125, 250, 500, 1000, 2000, 4000}) {
    const Case one{"784-" + std::to_string(width) + "-10",
                   network_of({28, 28}, {Dense{width}, Activation{}, Dense{10}}), 256, 8};
    widths.push_back(growth_row(catalog, one, floors));
  }
  for (const std::size_t depth : {1, 2, 4, 8}) {
    std::vector<Node> layers;
    for (std::size_t i = 0; i < depth; ++i) {
      layers.push_back(Dense{500});
      layers.push_back(Activation{});
    }
    layers.push_back(Dense{10});
    const Case one{"784-" + std::to_string(depth) + "x500-10",
                   network_of({28, 28}, std::move(layers)), 256, 8};
    depths.push_back(growth_row(catalog, one, floors));
  }
  return {{"sgemm_gflops", floors.sgemm_rate * 1e-9},
          {"by_batch", batches},
          {"by_width", widths},
          {"by_depth", depths}};
}

/// Times the parts of steps on one thread for small batches, where work per parameter matters.
Json batches_report(const Catalog& catalog) {
  std::vector<Case> cases;
  for (const auto& [batch, repeats] : {std::pair<std::size_t, int>{16, 100}, {64, 60}, {256, 30}}) {
    cases.push_back({"784-1000-10", dense_network(), batch, repeats});
  }
  // Memory is measured first, because a process inherits its parent's memory.
  Json memory = Json::array(), steps = Json::array();
  for (const Case& one : cases) memory.push_back(memory_of(catalog, one));
  for (const Case& one : cases) {
    const Times best = measure(catalog, one, 1);
    steps.push_back({{"network", one.name},
                     {"batch", one.batch},
                     {"plain_step_ms", best.plain * 1e3},
                     {"clip_ms", best.clip * 1e3},
                     {"noise_ms", best.release * 1e3},
                     {"optimizer_ms", best.update * 1e3},
                     {"private_step_ms", best.step * 1e3},
                     {"private_over_plain", best.step / best.plain}});
  }
  return {{"steps", steps}, {"memory", memory}};
}

}  // namespace

/// Usage: training [all|plain|growth|batches]
int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "all";
    if (argc > 2 || (what != "all" && what != "plain" && what != "growth" && what != "batches")) {
      std::cerr << "usage: training [all|plain|growth|batches]\n";
      return 2;
    }
    use_own_kernels(argv);
    const std::filesystem::path plugins = privgrad::places::plugins();
    host::PluginHost host({.directories = {plugins}, .pins = {}});
    load_step_plugins(host, plugins);
    const Json machine = yardstick();
    const Case dense{"784-1000-10", dense_network(), 256, 80};
    const Case wide{"784-1000-10", dense_network(), 1024, 25};
    const Case conv{"conv 5x5x32, pool, conv 5x5x64, pool, 512, 10", conv_network(), 256, 8};
    if (what == "plain") {
      std::cout << plain_report(host.catalog(), {dense, conv}).dump(2) << '\n';
      return EXIT_SUCCESS;
    }
    if (what == "growth") {
      std::cout << growth_report(host.catalog(),
                                 {1e9 * machine.at("openblas_gflops").get<double>(), read_rate()})
                       .dump(2)
                << '\n';
      return EXIT_SUCCESS;
    }
    if (what == "batches") {
      std::cout << batches_report(host.catalog()).dump(2) << '\n';
      return EXIT_SUCCESS;
    }
    // Memory is measured before any thread starts, because that happens in separate processes.
    const Json memory{memory_of(host.catalog(), dense), memory_of(host.catalog(), wide)};
    const Floors floors{1e9 * machine.at("openblas_gflops").get<double>(), read_rate()};
    Json report{{"machine", machine},
                {"sgemm_gflops", floors.sgemm_rate * 1e-9},
                {"read_gigabytes_per_second", floors.read_rate * 1e-9},
                {"product_rate_over_sgemm", product_rate(floors.sgemm_rate)},
                {"steps", Json::array()},
                {"memory", memory}};
    for (const Case& one : {dense, wide, conv}) {
      report["steps"].push_back(report_case(host.catalog(), one, floors));
    }
    std::cout << report.dump(2) << '\n';
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "training: error: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
