// SPDX-License-Identifier: MIT
#include "oracle/fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ref/acceptance/sampling.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

using Digests = Array<std::uint64_t>;

void add(Digests& digests, const Fingerprint& digest) {
  digests.values.insert(digests.values.end(), {digest.high, digest.low});
}

Digests shaped(Digests digests) {
  digests.shape = {static_cast<std::int64_t>(digests.values.size() / 2), 2};
  return digests;
}

Array<std::int32_t> flat(std::vector<std::int32_t> values) {
  return {{static_cast<std::int64_t>(values.size())}, std::move(values)};
}

template <class Numbers>
std::string list_of(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

/// Values that are one thing: the two halves of a digest.
template <class T>
constexpr std::size_t width = std::is_same_v<T, std::uint64_t> ? 2 : 1;

template <class T>
std::string value_text(const T* value) {
  if constexpr (std::is_same_v<T, std::uint64_t>) return Fingerprint{value[0], value[1]}.hex();
  if constexpr (std::is_same_v<T, float>) {
    return fmt::format("{} ({:#x})", *value, std::bit_cast<std::uint32_t>(*value));
  }
  return fmt::format("{}", *value);
}

/// Of the value at `flat`, the halves of a digest left out.
template <class T>
std::string index_text(const Array<T>& array, std::size_t flat) {
  std::vector<std::size_t> index;
  for (std::size_t axis = array.shape.size(); axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(array.shape[axis]);
    index.insert(index.begin(), flat % extent);
    flat /= extent;
  }
  if (width<T> > 1) index.pop_back();
  return list_of(index);
}

template <class T>
bool same_rows(const Array<T>& a, const Array<T>& b) {
  return !a.shape.empty() && !b.shape.empty() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end());
}

/// Whether anything differs; what, goes into `result`. Bits are compared: -0 is not +0, and a NaN equals itself.
template <class T>
bool compare(const Array<T>& recorded, const Array<T>& found, ArrayDifference& result) {
  if (!same_rows(recorded, found)) {
    result.recorded = "shape " + list_of(recorded.shape);
    result.found = "shape " + list_of(found.shape);
    return recorded.shape != found.shape;
  }
  const std::size_t both = std::min(recorded.values.size(), found.values.size());
  for (std::size_t i = 0; i < both; i += width<T>) {
    const T* const a = recorded.values.data() + i;
    const T* const b = found.values.data() + i;
    ++result.compared;
    if (std::equal(a, a + width<T>, b, [](T x, T y) { return std::memcmp(&x, &y, sizeof x) == 0; })) continue;
    if (result.differing++ == 0) {
      result.index = index_text(recorded, i);
      result.recorded = value_text(a);
      result.found = value_text(b);
      if constexpr (std::is_same_v<T, float>) {
        if (!std::isnan(*a) && !std::isnan(*b)) result.ulps = ulps_between(*a, *b);
      }
    }
    if constexpr (std::is_same_v<T, float>) {
      if (!std::isnan(*a) && !std::isnan(*b)) result.ulps_max = std::max(result.ulps_max, ulps_between(*a, *b));
    }
  }
  if (recorded.values.size() == found.values.size()) return result.differing > 0;
  result.only_recorded = (recorded.values.size() - both) / width<T>;
  result.only_found = (found.values.size() - both) / width<T>;
  if (result.differing == 0) {
    const auto text = [&](const Array<T>& array) {
      return both < array.values.size() ? value_text(array.values.data() + both) : std::string("absent");
    };
    result.index = index_text(recorded.values.size() > both ? recorded : found, both);
    result.recorded = text(recorded);
    result.found = text(found);
  }
  return true;
}

struct FieldTexts {
  std::vector<std::pair<std::string, std::string>> list;
  template <class T, class... Limits>
  void operator()(const char* name, const T& field, const Limits&...) {
    if constexpr (std::is_same_v<T, std::vector<Token>>) {
      list.emplace_back(name, list_of(field));
    } else {
      list.emplace_back(name, fmt::format("{}", field));
    }
  }
};

std::vector<std::pair<std::string, std::string>> field_texts(const Fixture& fixture) {
  FieldTexts texts;
  visit_request(fixture, texts);
  texts.list.emplace_back("verification", name_of(fixture.request.verification));
  return std::move(texts.list);
}

/// The sum of |p - q|: the total variation in units of 2^-53.
std::uint64_t distance(const Distribution& p, const Distribution& q) {
  std::uint64_t sum = 0;
  for (const Token token : p.tokens()) {
    const std::uint64_t a = p.weight(token);
    const std::uint64_t b = q.weight(token);
    sum += a > b ? a - b : b - a;
  }
  for (const Token token : q.tokens()) {
    if (p.weight(token) == 0) sum += q.weight(token);
  }
  return sum;
}

}  // namespace

std::vector<FixtureArray> arrays_of(const Trace& trace, Array<float> rows) {
  Digests logits;
  Digests targets;
  Digests caches;
  Digests drafts;
  Array<std::int32_t> rounds{{static_cast<std::int64_t>(trace.rounds.size()), 6}, {}};
  std::vector<std::int32_t> guesses;
  for (const Round& round : trace.rounds) {
    for (const Fingerprint& digest : round.logits) add(logits, digest);
    for (const Fingerprint& digest : round.targets) add(targets, digest);
    add(caches, round.cache);
    add(drafts, round.draft);
    rounds.values.insert(rounds.values.end(),
                         {round.position, round.proposal.size(), static_cast<std::int32_t>(round.logits.size()),
                          round.verdict.accepted, round.verdict.next, static_cast<std::int32_t>(round.emitted.size())});
    REQUIRE(round.proposal.is_chain(), "fixtures hold chains");
    guesses.insert(guesses.end(), round.proposal.tokens.begin(), round.proposal.tokens.end());
  }
  std::vector<FixtureArray> arrays;
  if (!rows.values.empty()) arrays.push_back({"rows", std::move(rows)});
  arrays.push_back({"logits", shaped(std::move(logits))});
  arrays.push_back({"targets", shaped(std::move(targets))});
  arrays.push_back({"rounds", std::move(rounds)});
  arrays.push_back({"guesses", flat(std::move(guesses))});
  arrays.push_back({"tokens", flat(trace.output)});
  arrays.push_back({"finish", flat({static_cast<std::int32_t>(trace.finish)})});
  arrays.push_back({"cache", shaped(std::move(caches))});
  arrays.push_back({"draft", shaped(std::move(drafts))});
  return arrays;
}

std::uint64_t ulps_between(float a, float b) {
  const auto place = [](float value) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return bits >= 0 ? std::int64_t{bits} : -std::int64_t{bits & 0x7fffffff} - 1;
  };
  return static_cast<std::uint64_t>(std::abs(place(a) - place(b)));
}

std::string ArrayDifference::sentence() const {
  std::string text = fmt::format("{}{} was {}, is {}", name, index, recorded, found);
  if (ulps) text += fmt::format(", {} ulp{}", *ulps, *ulps == 1 ? "" : "s");
  if (compared > 0) text += fmt::format("; {} of {} differ", differing, compared);
  if (ulps_max > 0) text += fmt::format(", by {} ulp{} at most", ulps_max, ulps_max == 1 ? "" : "s");
  if (only_recorded > 0) text += fmt::format("; {} more recorded", only_recorded);
  if (only_found > 0) text += fmt::format("; {} more found", only_found);
  return text;
}

FixtureDifference difference(const Fixture& recorded, const Fixture& found) {
  FixtureDifference result;
  const auto before = field_texts(recorded);
  const auto after = field_texts(found);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    result.asked.emplace_back(before[i].first, after[i].second + ", not " + before[i].second);
  }

  for (const FixtureArray& array : recorded.arrays) {
    ArrayDifference difference;
    difference.name = array.name;
    const bool differs = std::visit(
        [&](const auto& content) {
          using T = typename std::decay_t<decltype(content.values)>::value_type;
          const Array<T>* const other = found.find<T>(array.name);
          if (other != nullptr) return compare(content, *other, difference);
          difference.recorded = "there";
          difference.found = "absent";
          return true;
        },
        array.content);
    if (differs) result.arrays.push_back(std::move(difference));
  }
  for (const FixtureArray& array : found.arrays) {
    const auto same = [&](const FixtureArray& other) { return other.name == array.name; };
    if (std::any_of(recorded.arrays.begin(), recorded.arrays.end(), same)) continue;
    result.arrays.push_back({.name = array.name, .index = "", .recorded = "absent", .found = "there", .ulps = {}});
  }

  const auto* const tokens = recorded.find<std::int32_t>("tokens");
  const auto* const others = found.find<std::int32_t>("tokens");
  if (tokens == nullptr || others == nullptr) return result;
  const std::size_t both = std::min(tokens->values.size(), others->values.size());
  std::size_t same = 0;
  while (same < both && tokens->values[same] == others->values[same]) ++same;
  if (same < std::max(tokens->values.size(), others->values.size())) result.first_token = same;

  const auto* const rows = recorded.find<float>("rows");
  const auto* const other_rows = found.find<float>("rows");
  if (rows == nullptr || other_rows == nullptr || !same_rows(*rows, *other_rows)) return result;
  if (recorded.request.prompt != found.request.prompt) return result;
  std::vector<Token> text = recorded.request.prompt;
  const auto vocabulary = static_cast<std::size_t>(rows->shape[1]);
  for (std::size_t i = 0; i < both && i <= same; ++i) {
    const auto read = [&](const Array<float>& array, const Sampling& sampling) {
      return distribution_of(std::span(array.values).subspan(i * vocabulary, vocabulary), sampling, {text, {}});
    };
    const std::uint64_t apart =
        distance(read(*rows, recorded.request.sampling), read(*other_rows, found.request.sampling));
    if (!result.variation || apart > result.variation->first) result.variation = std::pair(apart, i);
    text.push_back(tokens->values[i]);
  }
  return result;
}

std::string FixtureDifference::text() const {
  std::string text;
  for (const auto& [name, change] : asked) text += "  asked with another " + name + ": " + change + "\n";
  for (const ArrayDifference& array : arrays) text += "  " + array.sentence() + "\n";
  if (!empty()) {
    text += first_token ? fmt::format("  the text changes from token {} on\n", *first_token)
                        : std::string("  the text is the same\n");
  }
  if (variation && !arrays.empty()) {
    text += variation->first == 0
                ? std::string("  every row that follows the same text has the same distribution\n")
                : fmt::format("  largest total variation of rows that follow the same text: {:.3g}, of row {}\n",
                              static_cast<double>(variation->first) / static_cast<double>(2 * Distribution::total),
                              variation->second);
  }
  return text;
}

}  // namespace draftproof
