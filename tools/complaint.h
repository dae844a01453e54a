// SPDX-License-Identifier: MIT
// The one door through which the command says what is wrong.
#pragma once

#include <string_view>

namespace draftproof {

/// On standard error, one line: "draftproof: ", then the sentence, printable, and its middle left out when somebody
/// gave us a name of ten thousand characters.
void complain(std::string_view message);

}  // namespace draftproof
