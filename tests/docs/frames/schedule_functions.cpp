// The three functions of the guide, in the class that they are a part of.
#include "privgrad/schedule.hpp"

class SlowFall final : public privgrad::Schedule {
 public:
  FRAGMENT
};
