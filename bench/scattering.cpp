// Compares the time of the transform `scattering` for an image with the minimum for its arithmetic.
// See README.md.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clock.hpp"
#include "places.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/instruction_set.hpp"
#include "privgrad/transform.hpp"
#include "privgrad/wide_registers.hpp"
#include "processor.hpp"

namespace {

using Json = nlohmann::ordered_json;
using namespace privgrad;
using namespace privgrad::bench;

/// Returns the products and sums per second of one thread, in registers and as separate operations,
/// which give the same bits on every processor.
double peak_rate() {
  typedef float Lanes __attribute__((vector_size(32)));
  constexpr std::size_t kChains = 10, kLoops = 200000;
  float result = 0.0f;
  const double seconds = best_seconds(20, [&] {
    in_wide_registers([&] {
      Lanes sums[kChains] = {};
      Lanes factor = Lanes{} + 0.999f, term = Lanes{} + 0.5f;
      for (std::size_t i = 0; i < kLoops; ++i) {
        asm volatile("" : "+m"(factor), "+m"(term));
        const Lanes f = factor, t = term;
        for (Lanes& sum : sums) sum = sum + f * t;
      }
      for (const Lanes& sum : sums) result += sum[0];
    });
  });
  asm volatile("" : : "m"(result));
  return 2.0 * 8.0 * kChains * kLoops / seconds;
}

struct Case {
  std::string name;
  Shape image;
  std::size_t scales, angles;
};

/// Returns the plugin's number of additions and multiplications for an image: transforms as plain
/// sums, folded twice (n^2 / 2 for n real numbers, n^2 for complex numbers), filters, moduli, and
/// averages of which only every 2^J-th place is computed.
double operations(const Case& one) {
  const auto angles = static_cast<double>(one.angles);
  const auto size = [&](std::size_t extent, std::size_t j) {
    return static_cast<double>((((one.image[extent] >> one.scales) + 2) << one.scales) >> j);
  };
  const auto outputs = [&](std::size_t extent) {
    return static_cast<double>(one.image[extent] >> one.scales);
  };
  const auto spectrum = [&](std::size_t j) {
    const double h = size(0, j), w = size(1, j);
    return h * h / 2.0 * w + (h / 2.0 + 1.0) * w * w;
  };
  const auto filter = [&](std::size_t j, std::size_t scale) {
    const double h = size(0, scale), w = size(1, scale);
    return 4.0 * size(0, j) * size(1, j) + h * w * w + w * h * h + 4.0 * h * w;
  };
  const auto average = [&](std::size_t j) {
    const double h = size(0, j), w = size(1, j);
    return 2.0 * outputs(0) * h * w + 2.0 * outputs(0) * outputs(1) * w;
  };
  double sum = average(0) + spectrum(0);
  for (std::size_t scale = 0; scale < one.scales; ++scale) {
    sum += angles * (filter(0, scale) + average(scale));
    if (scale + 1 < one.scales) sum += angles * spectrum(scale);
    for (std::size_t next = scale + 1; next < one.scales; ++next)
      sum += angles * angles * (filter(scale, next) + average(next));
  }
  return sum * static_cast<double>(one.image.size() == 3 ? one.image[2] : 1);
}

Json measured(const Catalog& catalog, const Case& one, double peak) {
  constexpr std::size_t kImages = 20;
  const auto transform = catalog.create<Transform>(
      "scattering", Value(Value::Object{{"scales", static_cast<std::int64_t>(one.scales), {}},
                                        {"angles", static_cast<std::int64_t>(one.angles), {}}}));
  const std::size_t before = element_count(one.image);
  std::vector<float> images(kImages * before);
  for (std::size_t i = 0; i < images.size(); ++i)
    images[i] = static_cast<float>(i * 7919 % 256) / 255.0f;
  std::vector<float> out(element_count(transform->output_shape({one.image, 0}).features));
  const double seconds = best_seconds(30, [&] {
    for (std::size_t i = 0; i < kImages; ++i)
      transform->apply_row(one.image, std::span(images).subspan(i * before, before), out);
  });
  const double each = seconds / kImages, floor = operations(one) / peak;
  return {{"name", one.name},
          {"image", to_text(one.image)},
          {"scales", one.scales},
          {"angles", one.angles},
          {"microseconds_per_image", each * 1e6},
          {"million_operations", operations(one) * 1e-6},
          {"floor_microseconds", floor * 1e6},
          {"ratio_to_floor", each / floor}};
}

}  // namespace

int main() try {
  const std::filesystem::path plugins = privgrad::places::plugins();
  host::PluginHost host({.directories = {plugins}, .pins = {}});
  host.load(plugins / "transforms" / "scattering.privgrad.so");
  const double peak = peak_rate();
  Json result{{"bench", "scattering"},         {"build", PRIVGRAD_BENCH_BUILD},
              {"processor", processor()},      {"instructions", name_of(instruction_set())},
              {"peak_gigaflops", peak * 1e-9}, {"images", Json::array()}};
  for (const Case& one : {Case{"mnist", {28, 28}, 2, 8}, Case{"cifar10", {32, 32, 3}, 2, 8},
                          Case{"three_scales", {32, 32}, 3, 8}})
    result["images"].push_back(measured(host.catalog(), one, peak));
  std::cout << result.dump(2) << '\n';
  return 0;
} catch (const std::exception& problem) {
  std::cerr << "scattering: " << problem.what() << '\n';
  return 1;
}
