// Measures how long accountants take, and how wide their certified intervals are. See README.md.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "places.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/event_json.hpp"
#include "processor.hpp"

namespace {

using Json = nlohmann::ordered_json;
using privgrad::Accountant;
using privgrad::Event;

constexpr double kDelta = 1e-5;

/// Returns a step of DP-SGD: Poisson sampling with rate q, and Gaussian noise.
Event step(double q, double sigma) { return Event::poisson_sampled(q, Event::gaussian(sigma)); }

/// Returns `count` steps whose noise falls evenly from 2.0 to 0.8, at q = 0.01.
std::vector<Event> falling_noise(int count) {
  std::vector<Event> events;
  events.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    events.push_back(step(0.01, count == 1 ? 2.0 : 2.0 - 1.2 * i / (count - 1)));
  }
  return events;
}

/// Finds the noise for this many full batches (Balle and Wang 2018, Theorem 8), by bisection.
double exact_sigma(double epsilon, double steps) {
  const auto above = [](double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); };
  double low = 1e-3;
  double high = 1e3;  // bounds on mu
  for (int i = 0; i < 200; ++i) {
    const double mu = std::sqrt(low * high);
    const double delta =
        above(epsilon / mu - 0.5 * mu) - std::exp(epsilon) * above(epsilon / mu + 0.5 * mu);
    (delta > kDelta ? high : low) = mu;
  }
  return std::sqrt(steps) / low;
}

class Bench {
 public:
  Bench(const privgrad::Catalog& catalog, std::string name)
      : catalog_(catalog), name_(std::move(name)) {}

  Json run() const {
    Json result;
    result["one_setting_14063_steps"] = measured({{step(256.0 / 60000.0, 1.1), 14063}});
    if (result["one_setting_14063_steps"].contains("refused"))
      return result;  // without sampling there are no further answers
    result["distinct_sigma"] = Json::object();
    for (const int count : {1, 10, 100, 1000}) {
      Events events;
      for (const Event& event : falling_noise(count)) events.push_back({event, 1});
      result["distinct_sigma"][std::to_string(count)] = measured(events);
    }
    result["steps"] = Json::object();
    for (const std::uint64_t count : {100u, 10'000u, 1'000'000u, 10'000'000u}) {
      result["steps"][std::to_string(count)] = measured({{step(1e-3, 2.0), count}});
    }
    result["calibrate_sigma_to_2"] = calibrated();
    return result;
  }

 private:
  using Events = std::vector<std::pair<Event, std::uint64_t>>;

  privgrad::PrivacyAnswer epsilon(const Events& events) const { return epsilon(events, name_); }

  privgrad::PrivacyAnswer epsilon(const Events& events, const std::string& name) const {
    const auto accountant = catalog_.create<Accountant>(name, privgrad::Value::Object{});
    accountant->start(privgrad::Adjacency::add_or_remove_one);
    for (const auto& [event, count] : events) accountant->compose(event, count);
    return accountant->epsilon(kDelta);
  }

  /// Returns the processor time of the only working thread, so other work on the machine does not
  /// count.
  static double processor_ms() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  }

  static double median_ms(const std::function<void()>& work) {
    std::vector<double> times;
    double spent = 0.0;
    for (int i = 0; i < 7 && (i < 3 || spent < 3000.0); ++i) {
      const double begin = processor_ms();
      work();
      times.push_back(processor_ms() - begin);
      spent += times.back();
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
  }

  Json measured(const Events& events) const try {
    privgrad::PrivacyAnswer answer;
    Json result;
    result["milliseconds"] = median_ms([&] { answer = epsilon(events); });
    result["epsilon"] = privgrad::core::json_number(answer.value);
    result["lower"] =
        answer.lower ? privgrad::core::json_number(*answer.lower) : nlohmann::json(nullptr);
    return result;
  } catch (const std::exception& problem) {
    return {{"refused", problem.what()}};
  }

  /// Returns the name of the estimator for which this accountant gives the proof, or its own.
  std::string estimator() const {
    for (const privgrad::Component& component : catalog_.components()) {
      if (component.factory.info.certified_by == name_) return component.factory.info.name;
    }
    return name_;
  }

  /// Calibrates like `privgrad calibrate`.
  Json calibrated() const try {
    double sigma = 0.0;
    Json result;
    const std::string by = estimator();
    const auto at = [&](const std::string& name, double q, double noise) {
      const Event event = q < 1.0 ? step(q, noise) : Event::gaussian(noise);
      return epsilon({{event, 14063}}, name).value;
    };
    const auto calibrate = [&](double q) {
      return privgrad::core::proved_scale([&](double noise) { return at(by, q, noise); },
                                          [&](double noise) { return at(name_, q, noise); }, 2.0);
    };
    result["milliseconds"] = median_ms([&] { sigma = calibrate(256.0 / 60000.0); });
    result["sigma"] = sigma;
    result["above_exact_sigma_without_sampling"] = calibrate(1.0) / exact_sigma(2.0, 14063.0) - 1.0;
    return result;
  } catch (const std::exception& problem) {
    return {{"refused", problem.what()}};
  }

  const privgrad::Catalog& catalog_;
  std::string name_;
};

}  // namespace

int main() try {
  const std::filesystem::path folder = privgrad::places::plugins() / "accountants";
  privgrad::host::PluginHost host({.directories = {privgrad::places::plugins()}, .pins = {}});
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    // Records of tests are in the same folder.
    if (entry.path().string().ends_with(".privgrad.so")) host.load(entry.path());
  }
  Json result;
  result["processor"] = processor();
  result["build"] = PRIVGRAD_BENCH_BUILD;
  result["delta"] = kDelta;
  for (const privgrad::Component& component : host.catalog().components()) {
    const std::string& name = component.factory.info.name;
    result["accountants"][name] = Bench(host.catalog(), name).run();
  }
  std::cout << result.dump(2) << '\n';
  return 0;
} catch (const std::exception& problem) {
  std::cerr << "accounting: " << problem.what() << '\n';
  return 1;
}
