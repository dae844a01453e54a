// SPDX-License-Identifier: MIT
// A uniform integer below a bound from uniform words: multiply and reject (Lemire, "Fast random integer generation in
// an interval", 2019). The word is a parameter so that the very same code can be proved on all words of 8 bits.
#pragma once

#include <limits>

namespace draftproof {

/// Uniform in [0, bound), bound >= 1. `word(retry)` gives the words to try, retry = 0, 1, 2, ...; Wide holds a product
/// of two words. Each result owns floor(2^bits / bound) words exactly; the 2^bits % bound words left are tried again.
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
