// SPDX-License-Identifier: MIT
// The numbers of JSON as texts, without exponents.
#pragma once

#include <string>

#include "ref/formats/json.h"
#include "ref/grammar/regular_language.h"

namespace draftproof {

/// A number as it is written without an exponent; no zeros before the whole part or behind the fraction.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction = {};

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

std::string decimal_text(const Decimal& number);
/// The number that a document has; of one with a point, the shortest that reads as the same double. Throws Error when
/// it has too many digits.
Decimal decimal_of(const Json& number);

/// All numbers, or all integers, of any length or of as many digits as are written here.
const RegularLanguage& number_texts(bool integers, bool any_length);
RegularLanguage texts_of_at_least(const Decimal& bound, bool above);
RegularLanguage texts_of_at_most(const Decimal& bound, bool below);
/// Throws Error, without saying where, when it has too many states.
RegularLanguage texts_of_multiples(const Decimal& divisor);
RegularLanguage texts_of_number(const Decimal& number);

}  // namespace draftproof
