// The number of trials of a long test, and the log of the trials that ran.
#pragma once

#include <string>

/// The number of trials for a long test: all of them if PRIVGRAD_TEST_LONG is set, as by `make
/// test-long`, and otherwise a tenth, at least one. Trials draw from fixed seeds, so the tenth
/// always consists of the same, first trials.
///
/// When the test case ends, a line with the kind of trials, their number and their failures is
/// added to the file that PRIVGRAD_TEST_LOG names, if it is set. Such tests carry the tag [long],
/// by which `make test-long` finds them.
///
/// \param what  the kind of trials, in the plural: "kills", "damaged manifests".
int trials(int all, const std::string& what);
