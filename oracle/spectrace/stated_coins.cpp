// SPDX-License-Identifier: MIT
#include "oracle/spectrace/stated_coins.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// Integer coins below a smaller bound have too little resolution to stand for a number in [0, 1).
constexpr std::uint64_t coin_bound_min = std::uint64_t{1} << 24;

std::string shown(const RngPositions& keys) {
  std::string text;
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    for (const std::int64_t position : keys.of(purpose)) {
      text += (text.empty() ? "" : ", ") + std::string(name_of(purpose)) + " " + number(position);
    }
  }
  return text.empty() ? "none" : text;
}

Stream stream_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::draft: return Stream::draft;
    case Purpose::accept: return Stream::accept;
    default: return Stream::target;
  }
}

}  // namespace

void StatedCoins::open(OpenSequence& sequence) {
  if (header_.seed) sequence.fresh_from = numbers_.begin(sequence.declared.rng_key);
}

void StatedCoins::close(const OpenSequence& sequence) {
  if (!header_.seed || header_.generator != our_generator) return;
  if (sequence.fresh_from == UsedNumbers::none_is_fresh) return;
  numbers_.end(sequence.declared.rng_key,
               std::max(static_cast<std::int64_t>(sequence.text.size()), sequence.fresh_from));
}

void StatedCoins::begin_round() {
  drawn_ = {};
  std::fill(std::begin(unknown_), std::end(unknown_), false);
}

std::uint64_t StatedCoins::below(const Key& key, std::uint64_t bound) {
  ++report_.examined.coins;
  return random_.below(key, bound);
}

void StatedCoins::name_stated() {
  if (std::exchange(named_, true)) return;
  report_.missing.insert(
      header_.generator.empty()
          ? "coins are taken as the trace states them: it names no generator (field rng) to compute them again with"
          : "coins of '" + printable(header_.generator) + "' cannot be computed again from the seed");
}

void StatedCoins::bet_on_coin(OpenSequence& sequence, std::int64_t position, Stream stream, double coin, bool decides) {
  if (decides) name_stated();
  if (!sequence.is_evidence(position)) return;
  if (!std::exchange(sequence.coins_begun, true) && !numbers_.first_coin(sequence.declared.rng_key, coin)) {
    sequence.fresh_from = UsedNumbers::none_is_fresh;
  }
  if (sequence.fresh(position)) games_.coin(stream, coin);
}

void StatedCoins::expect_coin(OpenSequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
                              std::uint64_t coin, const Findings& findings, int depth) {
  drawn_.add(purpose, position);
  if (bound == 0) return;
  if (!header_.draws_follow_from_seed()) {
    name_stated();
    if (bound >= coin_bound_min) {
      bet_on_coin(sequence, position, stream_of(purpose), static_cast<double>(coin) / static_cast<double>(bound));
    }
    return;
  }
  const Key key{sequence.declared.rng_key, static_cast<std::int32_t>(position), purpose, depth};
  const std::uint64_t own = below(key, bound);
  findings.expect(
      own == coin, "coin",
      [&] {
        return "key (" + number(key.sequence) + ", " + number(key.position) + ", " + name_of(purpose) +
               (depth == 0 ? "" : ", depth " + std::to_string(depth)) + ") gives " + number(own) + " below " +
               number(bound);
      },
      [&] { return "coin " + number(coin); });
}

void StatedCoins::expect_interval(const char* check, const Draw& draw, const Findings& findings) {
  ++report_.examined.draws;
  if (!draw.u) {
    findings.expect(
        draw.weight == draw.bound, check,
        [&] { return "a coin is drawn, as token " + number(draw.token) + " does not have all the weight"; },
        [] { return std::string("no coin"); });
    return;
  }
  findings.expect(
      *draw.u >= draw.before && *draw.u - draw.before < draw.weight, check,
      [&] { return "coin " + number(*draw.u) + " selects another token"; },
      [&] {
        return "token " + number(draw.token) + ", which has [" + number(draw.before) + ", " +
               number(draw.before + draw.weight) + ")";
      });
}

void StatedCoins::expect_draw(const char* check, OpenSequence& sequence, std::int64_t position, Purpose purpose,
                              const Draw& draw, const Findings& findings) {
  if (draw.u) expect_coin(sequence, position, purpose, draw.bound, *draw.u, findings);
  expect_interval(check, draw, findings);
}

void StatedCoins::expect_real_draw(const char* check, const RealWeights& row, const std::optional<double>& coin,
                                   Token token, std::optional<Stream> stream, const Findings& findings) {
  ++report_.examined.draws;
  if (!coin || row.is_point()) {
    findings.expect(
        row.is_point() && row.has(token), check,
        [&] { return row.is_point() ? "the only token of the row" : std::string("a coin is drawn"); },
        [&] { return (row.is_point() ? "" : "no coin for ") + ("token " + number(token)); });
    return;
  }
  const CoinPlace place = row.place_of(*coin, token);
  if (stream) games_.within_rounding(*stream, row.blurred(header_.unit), place == CoinPlace::within_rounding);
  findings.expect(
      place != CoinPlace::elsewhere, check, [&] { return fmt::format("coin {} selects another token", *coin); },
      [&] { return "token " + number(token); });
}

void StatedCoins::expect_keys(const RngPositions& stated, AcceptanceRule rule, const Findings& findings) const {
  const bool matching = rule == AcceptanceRule::matching;
  if (!header_.draws_follow_from_seed() || !(matching || rule == AcceptanceRule::rejection)) return;
  RngPositions held;  // what is compared: `stated`, less the keys that may differ
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    if (unknown_[static_cast<std::size_t>(purpose)] || (matching && purpose == Purpose::draft)) {
      held.of(purpose) = drawn_.of(purpose);
      continue;
    }
    held.of(purpose) = stated.of(purpose);
    const bool more_is_legal = purpose == Purpose::draft || (matching && purpose == Purpose::target);
    if (!more_is_legal) continue;
    const auto& drawn = drawn_.of(purpose);
    std::erase_if(held.of(purpose),
                  [&](std::int64_t position) { return !std::binary_search(drawn.begin(), drawn.end(), position); });
  }
  findings.expect(
      held == drawn_, "keys", [&] { return "the coins have the keys " + shown(drawn_); },
      [&] { return shown(stated); });
}

std::optional<Token> StatedCoins::token_of(const Distribution& p, const OpenSequence& sequence, std::int64_t position) {
  if (p.is_point()) return p.tokens().front();
  if (sequence.rule() != AcceptanceRule::matching || !header_.draws_follow_from_seed()) return std::nullopt;
  const Key key{sequence.declared.rng_key, static_cast<std::int32_t>(position), Purpose::target};
  return SparseWeights(p).at(below(key, Distribution::total)).token;
}

}  // namespace draftproof::spectrace
