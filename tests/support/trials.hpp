#pragma once

#include <string>

/// How many trials a long test is to make: all of them where PRIVGRAD_TEST_LONG is set, as `make
/// test-long` does, and otherwise a tenth, at least one. Trials draw from seeds that are fixed, so
/// the tenth is always the same: the first ones.
///
/// When the test case ends, a line that says what ran, how often, and how much of it failed is
/// added to the file that PRIVGRAD_TEST_LOG names, if it names one. Such tests carry the tag
/// [long], by which `make test-long` finds them.
///
/// \param what  Of what these are so many, in the plural: "kills", "damaged manifests".
int trials(int all, const std::string& what);
