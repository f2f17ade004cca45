// The two functions of the guide, inside the class to which they belong.
#include <vector>

#include "privgrad/transform.hpp"

class Shift final : public privgrad::Transform {
 public:
  privgrad::ExampleShape output_shape(const privgrad::ExampleShape& input) const override {
    return input;
  }
  void fit(privgrad::Dataset& train) override { least_.assign(train.row_size(), 0.0f); }
  privgrad::Statistic statistic() const override { return privgrad::Statistic::unaccounted; }

  FRAGMENT

 private:
  std::vector<float> least_;
};
