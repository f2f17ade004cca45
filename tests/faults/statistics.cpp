// Transforms that learn not only from a released statistic (BoundedStatistic) but also from the
// rows that they saw when contributions were requested.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>

#include "fault.hpp"
#include "right_statistic.hpp"

using namespace privgrad;

namespace statistics {

class Base : public RightStatistic {
 public:
  using RightStatistic::RightStatistic;
  /// Remembers this row; several threads may request contributions at once. \returns the previous
  /// row.
  std::vector<double> see(std::span<const float> features) const {
    const std::lock_guard lock(mutex_);
    std::vector<double> before = last_;
    ++seen_;
    sum_.resize(features.size());
    for (std::size_t i = 0; i < features.size(); ++i) sum_[i] += static_cast<double>(features[i]);
    last_.assign(features.begin(), features.end());
    return before;
  }

  mutable std::mutex mutex_;
  mutable double seen_ = 0.0;
  mutable std::vector<double> sum_, last_;
};

struct Row {
  Told told;
  /// Changes the correct request.
  void (*request)(const Base&, StatisticRequest&) = nullptr;
  /// Changes the correct contribution.
  void (*contribution)(const Base&, std::span<const float> features, std::span<float>) = nullptr;
  /// Changes what was correctly learnt.
  void (*learn)(Base&) = nullptr;
  /// Whether statistic() hides the release.
  bool is_secret = false;
};

const std::array kTable =
    std::to_array<Row>({
        {.told = {"statistic_of_means", "nothing: the control"}},
        // Faults in the request.
        {.told = {"statistic_half_the_noise", "asks for half of the noise that the manifest gives"},
         .request = [](const Base&, StatisticRequest& one) { one.noise.multiplier *= 0.5; }},
        {.told = {"statistic_half_the_bound", "says half of what a row adds"},
         .request = [](const Base&, StatisticRequest& one) { one.l2_bound *= 0.5; }},
        {.told = {"statistic_twice_the_bound", "says twice what a row adds", Let::harmless,
                  "twice the noise"},
         .request = [](const Base&, StatisticRequest& one) { one.l2_bound *= 2.0; }},
        {.told = {"statistic_of_an_infinite_bound", "says that there is no bound"},
         .request = [](const Base&, StatisticRequest& one) { one.l2_bound = HUGE_VAL; }},
        {.told = {"statistic_of_no_numbers", "asks for nothing at all"},
         .request = [](const Base&, StatisticRequest& one) { one.size = 0; }},
        {.told = {"statistic_of_another_bound_later", "asks for a larger bound when asked again",
                  Let::harmless, "it is asked once: sum, noise and charge use that answer"},
         .request =
             [](const Base& self, StatisticRequest& one) {
               self.see({});
               one.l2_bound *= self.seen_;
             }},
        {.told = {"statistic_called_public", "is of private rows, and called public"},
         .is_secret = true},
        // Faults in the contributions.
        {.told = {"contribution_without_bound", "rows as they are: the core shortens them"},
         .contribution =
             [](const Base&, std::span<const float> features, std::span<float> out) {
               std::copy(features.begin(), features.end(), out.begin());
             }},
        {.told = {"contribution_over_the_rows_so_far",
                  "divides by how many rows there were so far"},
         .contribution =
             [](const Base& self, std::span<const float> features, std::span<float> out) {
               self.see(features);
               for (float& x : out) x /= static_cast<float>(self.seen_);
             }},
        {.told = {"contribution_with_the_row_before",
                  "adds the row before, as a moving average does"},
         .contribution =
             [](const Base& self, std::span<const float> features, std::span<float> out) {
               const std::vector<double> before = self.last_;
               self.see(features);
               if (before.empty()) return;
               for (std::size_t i = 0; i < out.size(); ++i)
                 out[i] = 0.5f * out[i] + 0.1f * static_cast<float>(before[i]);
             }},
        {.told = {"contribution_nan", "a large row adds no number: it counts as zero"},
         .contribution =
             [](const Base&, std::span<const float> features, std::span<float> out) {
               if (std::abs(features[0]) > 1.0f) out[0] = NAN;
             }},
        {.told = {"contribution_throws", "a large row ends the run"},
         .contribution =
             [](const Base&, std::span<const float> features, std::span<float>) {
               if (std::abs(features[0]) > 1.0f) throw std::runtime_error("a large row");
             }},
        {.told = {"contribution_unwritten", "leaves a number as it was"},
         .contribution = [](const Base&, std::span<const float>,
                            std::span<float> out) { out.back() = NAN; }},
        // Faults in the use of the result.
        {.told = {"learns_the_exact_mean", "takes the mean of the rows it saw, without the noise"},
         .contribution = [](const Base& self, std::span<const float> features,
                            std::span<float>) { self.see(features); },
         .learn =
             [](Base& self) {
               for (std::size_t i = 0; i < self.mean_.size() && self.seen_ > 0.0; ++i)
                 self.mean_[i] = self.sum_[i] / self.seen_;
             }},
        {.told = {"learns_it_in_the_low_digits",
                  "hides that mean in the low digits of the released one"},
         .contribution = [](const Base& self, std::span<const float> features,
                            std::span<float>) { self.see(features); },
         .learn =
             [](Base& self) {
               for (std::size_t i = 0; i < self.mean_.size() && self.seen_ > 0.0; ++i)
                 self.mean_[i] += 1e-9 * self.sum_[i];
             }},
        {.told = {"learns_with_the_number_of_rows",
                  "divides again, by the number of rows that it saw"},
         .contribution = [](const Base& self, std::span<const float> features,
                            std::span<float>) { self.see(features); },
         .learn =
             [](Base& self) {
               for (double& x : self.mean_) x *= 100.0 / std::max(1.0, self.seen_);
             }},
        {.told = {"learns_a_row", "keeps a row that it saw"},
         .contribution = [](const Base& self, std::span<const float> features,
                            std::span<float>) { self.see(features); },
         .learn =
             [](Base& self) {
               if (!self.last_.empty()) self.mean_ = self.last_;
             }},
        {.told = {"learns_only_what_pleases",
                  "refuses means below 0: that it ran says that none is"},
         .learn =
             [](Base& self) {
               for (const double x : self.mean_)
                 if (x < 0.0) throw ConfigError("a mean is below 0");
             }},
        {.told = {"learns_nothing_of_it", "leaves the release unused", Let::harmless,
                  "paid for, and not used"},
         .learn = [](Base& self) { std::fill(self.mean_.begin(), self.mean_.end(), 0.0); }},
    });

template <std::size_t I>
class Faulty final : public Base {
 public:
  using Base::Base;
  Statistic statistic() const override {
    return kTable[I].is_secret && statistic_ == Statistic::released ? Statistic::is_public
                                                                    : statistic_;
  }
  std::optional<StatisticRequest> request(const ExampleShape& input) const override {
    auto one = Base::request(input);
    if (one && kTable[I].request != nullptr) kTable[I].request(*this, *one);
    return one;
  }
  void contribution(const Shape& shape, std::span<const float> features,
                    std::span<float> out) const override {
    Base::contribution(shape, features, out);
    if (kTable[I].contribution != nullptr) kTable[I].contribution(*this, features, out);
  }
  void learn(const ExampleShape& input, const Released& mean) override {
    Base::learn(input, mean);
    if (kTable[I].learn != nullptr) kTable[I].learn(*this);
  }
};

}  // namespace statistics

std::vector<Fault> statistic_faults() {
  using namespace statistics;
  return faults_of<Transform, Faulty>(
      kTable, "transform",
      [](const Row& row) {
        return std::vector<std::string>{std::string("data.transforms=[{kind: ") + row.told.id +
                                        ", statistic: private, noise_multiplier: 4}]"};
      },
      private_statistic_params());
}
