// SPDX-License-Identifier: MIT
// Reads the lines that declare something: the header of a file, the opening of a sequence, the end of a sequence.
#pragma once

#include "oracle/spectrace/line_reader.h"

namespace draftproof::spectrace {

/// Reads the first line of a file. Throws Error when it is not a header of this version; a header of version 1 gets an
/// error of its own, since version 2 renamed its keys.
Header read_header(const Json& line);

/// Reads a line of type "sequence", or the same fields in a header that has a prompt.
Opening read_opening(const Header& header, const Json& line);

/// Reads a line of type "end".
Shift read_shift(const Json& line);
Ending read_ending(const Header& header, const Json& line);

}  // namespace draftproof::spectrace
