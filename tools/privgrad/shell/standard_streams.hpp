// Protects standard input, output and error in case the program was started with any of them
// closed.
#pragma once

namespace privgrad::tool {

/// Occupies each of the descriptors 0, 1 and 2 that the caller of the program has closed. Otherwise
/// the next opened file would get that number, and printed text would end up in the file, for
/// example a line of progress in the ledger. Reading from an occupied stream or writing to it
/// fails, so that lost output is noticed.
///
/// Call this before anything else. If it fails, it ends the program with exit code 4 and, if
/// possible, an error line.
void open_standard_streams();

}  // namespace privgrad::tool
