// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace draftproof {

/// Returns the text as one word of a shell: in quotes where it needs them.
std::string shell_word(const std::string& text);

}  // namespace draftproof
