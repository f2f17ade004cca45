// The three functions of the guide, inside the class to which they belong.
#include "privgrad/schedule.hpp"

class SlowFall final : public privgrad::Schedule {
 public:
  FRAGMENT
};
