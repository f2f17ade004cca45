#pragma once

namespace privgrad::tool {

/// Takes the descriptors 0, 1 and 2, where whoever started the program has closed them. Otherwise
/// the next file to be opened would get one of these numbers, and what is printed would land in it:
/// a line of progress in the ledger. Reading from one that was closed fails, and so does writing,
/// so that what did not get out is noticed.
///
/// To be called before anything else. Ends the program, with the exit code 4 and as well as it can
/// a line, if that cannot be done.
void open_standard_streams();

}  // namespace privgrad::tool
