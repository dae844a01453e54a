// SPDX-License-Identifier: MIT
#include "ref/grammar/number_texts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/grammar/regular_expression.h"

namespace draftproof {
namespace {

constexpr std::size_t digits_max = 64;

RegularLanguage matching(const std::string& expression) { return texts_matching("^(?:" + expression + ")$"); }

/// Not negative, of any length.
const RegularLanguage& magnitudes() {
  static const RegularLanguage all = matching(R"((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)");
  return all;
}

/// What is behind the same first digits and another digit that is greater; nothing behind a 9.
void add_greater(std::string& alternatives, const std::string& same, char digit, const std::string& rest) {
  if (digit == '9') return;
  alternatives += "|" + same + "[" + static_cast<char>(digit + 1) + "-9]" + rest;
}

/// The numbers that are greater than a bound, without its sign, or also those that are equal.
RegularLanguage greater(const Decimal& bound, bool or_equal) {
  const std::string fraction = R"((?:\.[0-9]+)?)";
  const std::string& whole = bound.whole;
  std::string all = "[1-9][0-9]{" + std::to_string(whole.size()) + ",}" + fraction;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::string rest = "[0-9]{" + std::to_string(whole.size() - 1 - i) + "}";
    add_greater(all, whole.substr(0, i), whole[i], rest + fraction);
  }
  for (std::size_t i = 0; i < bound.fraction.size(); ++i) {
    add_greater(all, whole + "\\." + bound.fraction.substr(0, i), bound.fraction[i], "[0-9]*");
  }
  const std::string equal = whole + "\\." + bound.fraction;
  all += "|" + equal + "[0-9]*[1-9][0-9]*";
  if (or_equal) all += bound.fraction.empty() ? "|" + whole + R"((?:\.0+)?)" : "|" + equal + "0*";
  return matching(all);
}

RegularLanguage at_most_magnitude(const Decimal& bound, bool below) {
  return magnitudes().without(greater(bound, below));
}

}  // namespace

std::string decimal_text(const Decimal& number) {
  return (number.negative ? "-" : "") + number.whole + (number.fraction.empty() ? "" : "." + number.fraction);
}

Decimal decimal_of(const Json& number) {
  std::string text;
  if (number.is_float()) {
    std::array<char, 512> written;
    const auto end =
        std::to_chars(written.data(), written.data() + written.size(), number.number(), std::chars_format::fixed);
    text.assign(written.data(), end.ptr);
  } else if (number.is_number()) {
    text = number.text();
  } else {
    number.fail("must be a number");
  }
  Decimal decimal;
  decimal.negative = text.starts_with('-');
  if (decimal.negative) text.erase(0, 1);
  const std::size_t point = std::min(text.find('.'), text.size());
  decimal.whole = text.substr(0, point);
  if (point < text.size()) decimal.fraction = text.substr(point + 1);
  while (decimal.fraction.ends_with('0')) decimal.fraction.pop_back();
  if (decimal.whole.size() + decimal.fraction.size() > digits_max) {
    number.fail("has more than " + std::to_string(digits_max) + " digits");
  }
  if (decimal.is_zero()) decimal.negative = false;
  return decimal;
}

const RegularLanguage& number_texts(bool integers, bool any_length) {
  const auto made = [](const std::string& magnitude) {
    return matching("-?(?:" + magnitude + ")").without(matching(R"(-0(?:\.0+)?)"));
  };
  static const RegularLanguage all_integers = made("0|[1-9][0-9]*");
  static const RegularLanguage all_numbers = made(R"((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)");
  static const RegularLanguage written_integers = made("0|[1-9][0-9]{0,17}");
  // 15 digits are what a double keeps: a reader of doubles finds no bound crossed.
  static const RegularLanguage written_numbers =
      made(R"(0|[1-9][0-9]{0,14}|(?:0|[1-9][0-9]{0,8})\.[0-9]{1,6}|0\.[0-9]{1,15})");
  if (any_length) return integers ? all_integers : all_numbers;
  return integers ? written_integers : written_numbers;
}

RegularLanguage texts_of_at_least(const Decimal& bound, bool above) {
  if (!bound.negative) return greater(bound, !above);
  return magnitudes().either(at_most_magnitude(bound, above).behind('-'));
}

RegularLanguage texts_of_at_most(const Decimal& bound, bool below) {
  if (bound.negative || (bound.is_zero() && below)) return greater(bound, !below).behind('-');
  return magnitudes().behind('-').either(at_most_magnitude(bound, below));
}

RegularLanguage texts_of_multiples(const Decimal& divisor) {
  // The divisor is `step` parts of 10^-places.
  constexpr int step_max = 1000;
  const auto places = static_cast<int>(divisor.fraction.size());
  const std::string digits = divisor.whole + divisor.fraction;
  int step = 0;
  for (const char digit : digits) {
    step = step * 10 + (digit - '0');
    if (step > step_max) throw Error("has too many digits; give at most " + std::to_string(step_max));
  }
  if (step == 0 || divisor.negative) throw Error("is not above 0");
  // A state of the whole part for each remainder, then of the fraction, one for each remainder and number of digits.
  const auto state = [&](int digits_behind_point, int remainder) {
    return 1 + (digits_behind_point + 1) * step + remainder;
  };
  const auto count = static_cast<std::size_t>(state(places + 1, 0));
  if (count > RegularLanguage::states_max) refuse_large_language();
  std::vector<RegularLanguage::State> states(count);
  const auto at = [&](int place) -> RegularLanguage::State& { return states[static_cast<std::size_t>(place)]; };
  const auto add_digits = [&](int from, int remainder, int behind_point) {
    for (int digit = 0; digit < 10; ++digit) {
      const auto character = static_cast<char32_t>('0' + digit);
      at(from).edges.push_back({character, character, state(behind_point, (remainder * 10 + digit) % step)});
    }
  };
  at(0).edges.push_back({'-', '-', state(-1, 0)});
  add_digits(0, 0, -1);
  for (int remainder = 0; remainder < step; ++remainder) {
    int scaled = remainder;  // with all places
    for (int behind = places; behind >= 0; --behind) {
      const int here = state(behind, remainder);
      at(here).accepts = scaled % step == 0;
      if (behind == 0) {
        at(state(-1, remainder)).accepts = scaled % step == 0;
        at(state(-1, remainder)).edges.push_back({'.', '.', here});
      }
      scaled = scaled * 10 % step;
      if (behind < places) add_digits(here, remainder, behind + 1);
      else at(here).edges.push_back({'0', '0', here});
    }
    add_digits(state(-1, remainder), remainder, -1);
  }
  return RegularLanguage(std::move(states));
}

RegularLanguage texts_of_number(const Decimal& number) {
  const std::string zeros = number.fraction.empty() ? R"((?:\.0+)?)" : "\\." + number.fraction + "0*";
  return matching((number.negative ? "-" : number.is_zero() ? "-?" : "") + number.whole + zeros);
}

}  // namespace draftproof
