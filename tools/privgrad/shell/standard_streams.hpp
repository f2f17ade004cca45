// Protects standard input, output and error if the program was started with any of them closed.
#pragma once

namespace privgrad::tool {

/// Takes those of the descriptors 0, 1 and 2 that the caller of the program has closed. Otherwise
/// the next file to be opened would get one of these numbers, and printed text would land in it: a
/// line of progress in the ledger. Reading from a closed one fails, and so does writing, so that
/// lost output is noticed.
///
/// Call this before anything else. If it fails, it ends the program with exit code 4 and, as far as
/// it can, an error line.
void open_standard_streams();

}  // namespace privgrad::tool
