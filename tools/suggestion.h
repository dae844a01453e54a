// SPDX-License-Identifier: MIT
// Spelling suggestions for names that nobody defined.
#pragma once

#include <string>
#include <vector>

namespace draftproof {

/// Returns the candidate with the fewest insertions, deletions, replacements and swaps of neighboring characters from
/// `word`, the first of equals; empty when even that one needs more than a third of its characters, or more than four.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace draftproof
