// SPDX-License-Identifier: MIT
// A uniform integer below a bound from uniform words, by multiplication with rejection (Lemire, "Fast random integer
// generation in an interval", 2019). The word type is a template parameter, so that tests can check this very code
// exhaustively on all words of 8 bits.
//
// Example: words of 8 bits, bound 3. 256 = 3 * 85 + 1, so one word, 0, is rejected, and 85 words give each of 0, 1, 2.
#pragma once

#include <limits>

namespace draftproof {

/// Returns a uniform integer in [0, bound), bound >= 1. `word(retry)` returns the uniform word of attempt 0, 1, 2, ...;
/// Wide holds a product of two words. Exactly floor(2^bits / bound) words map to each result; the remaining
/// 2^bits % bound words are rejected and the next word is tried.
template <class Word, class Wide, class Source>
Word uniform_below(Word bound, Source&& word) {
  constexpr int bits = std::numeric_limits<Word>::digits;
  for (unsigned retry = 0;; ++retry) {
    const Wide product = static_cast<Wide>(Wide{word(retry)} * bound);
    const Word low = static_cast<Word>(product);
    if (low >= bound) return static_cast<Word>(product >> bits);
    const Word surplus = static_cast<Word>(static_cast<Word>(Word{0} - bound) % bound);  // 2^bits mod bound
    if (low >= surplus) return static_cast<Word>(product >> bits);
  }
}

}  // namespace draftproof
