// SPDX-License-Identifier: MIT
// Reads all lines but those of rounds (round_reader.h).
#pragma once

#include "oracle/spectrace/line_reader.h"

namespace draftproof::spectrace {

/// Reads the first line of a file. Throws Error when it is not a header of this version; a header of version 1 gets an
/// error of its own, since version 2 renamed its keys.
Header read_header(const Json& line);

/// Reads a line of type "sequence", or the same fields in a header that has a prompt.
SequenceEvent read_sequence(const Header& header, const Json& line);

/// Reads a line of type "context_shift".
ShiftEvent read_shift(const Json& line);

/// Reads a line of type "end".
EndEvent read_end(const Header& header, const Json& line);

}  // namespace draftproof::spectrace
