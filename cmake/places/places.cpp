#include "places.hpp"

namespace privgrad::places {

const char* const kBuild = PRIVGRAD_BUILD_PLACE;
const char* const kSource = PRIVGRAD_SOURCE_PLACE;
const char* const kTestPython = PRIVGRAD_TEST_PYTHON;

}  // namespace privgrad::places
