// SPDX-License-Identifier: MIT
// Single draws: whether a stated random number is that of its key, and whether it selects the stated token.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "oracle/spectrace/replayer.h"

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

}  // namespace

std::uint64_t Replayer::below(const Key& key, std::uint64_t bound) {
  ++report_.examined.coins;
  return random_.below(key, bound);
}

void Replayer::bet_on_coin(OpenSequence& sequence, std::int64_t position, Stream stream, double coin, bool decides) {
  coins_stated_ = coins_stated_ || decides;
  if (!is_evidence(sequence, position)) return;
  if (!std::exchange(sequence.coins_begun, true) && !numbers_.first_coin(sequence.declared.rng_key, coin)) {
    sequence.fresh_from = UsedNumbers::none_is_fresh;
  }
  if (fresh(sequence, position)) evidence_.coin(stream, coin);
}

Stream Replayer::stream_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::draft: return Stream::draft;
    case Purpose::accept: return Stream::accept;
    default: return Stream::target;
  }
}

void Replayer::expect_coin(OpenSequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
                           std::uint64_t coin, int depth) {
  drawn_.add(purpose, position);
  if (bound == 0) return;
  if (!header_.draws_follow_from_seed()) {
    if (bound >= coin_bound_min) {
      bet_on_coin(sequence, position, stream_of(purpose), static_cast<double>(coin) / static_cast<double>(bound));
    }
    coins_stated_ = true;
    return;
  }
  const Key key{sequence.declared.rng_key, static_cast<std::int32_t>(position), purpose, depth};
  const std::uint64_t own = below(key, bound);
  expect(
      own == coin, "coin",
      [&] {
        return "key (" + number(key.sequence) + ", " + number(key.position) + ", " + name_of(purpose) +
               (depth == 0 ? "" : ", depth " + std::to_string(depth)) + ") gives " + number(own) + " below " +
               number(bound);
      },
      [&] { return "coin " + number(coin); });
}

void Replayer::expect_interval(const char* check, const Draw& draw) {
  ++report_.examined.draws;
  if (!draw.u) {
    expect(
        draw.weight == draw.bound, check,
        [&] { return "a coin is drawn, as token " + number(draw.token) + " does not have all the weight"; },
        [] { return std::string("no coin"); });
    return;
  }
  expect(
      *draw.u >= draw.before && *draw.u - draw.before < draw.weight, check,
      [&] { return "coin " + number(*draw.u) + " selects another token"; },
      [&] {
        return "token " + number(draw.token) + ", which has [" + number(draw.before) + ", " +
               number(draw.before + draw.weight) + ")";
      });
}

void Replayer::expect_draw(const char* check, OpenSequence& sequence, std::int64_t position, Purpose purpose,
                           const Draw& draw) {
  if (draw.u) expect_coin(sequence, position, purpose, draw.bound, *draw.u);
  expect_interval(check, draw);
}

void Replayer::expect_hit(const char* check, const Hit& hit, const Draw& draw) {
  expect_equal(check, "token " + number(hit.token) + " has the weight", hit.weight, draw.weight);
  expect_equal(check, "the weight before token " + number(hit.token) + " is", hit.before, draw.before);
}

void Replayer::expect_real_draw(const char* check, const RealWeights& row, const std::optional<double>& coin,
                                Token token, std::optional<Stream> stream) {
  ++report_.examined.draws;
  if (!coin || row.is_point()) {
    expect(
        row.is_point() && row.has(token), check,
        [&] { return row.is_point() ? "the only token of the row" : std::string("a coin is drawn"); },
        [&] { return (row.is_point() ? "" : "no coin for ") + ("token " + number(token)); });
    return;
  }
  const CoinPlace place = row.place_of(*coin, token);
  if (stream) evidence_.within_rounding(*stream, row.blurred(header_.unit), place == CoinPlace::within_rounding);
  expect(
      place != CoinPlace::elsewhere, check, [&] { return fmt::format("coin {} selects another token", *coin); },
      [&] { return "token " + number(token); });
}

void Replayer::expect_keys(const RngPositions& stated) {
  const bool one_by_one = rule_ == AcceptanceRule::matching || rule_ == AcceptanceRule::rejection;
  if (!header_.draws_follow_from_seed() || !one_by_one) return;
  const bool matching = rule_ == AcceptanceRule::matching;
  RngPositions held;  // what is compared: `stated`, less the keys that may differ
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    if (drawn_unknown_[static_cast<std::size_t>(purpose)] || (matching && purpose == Purpose::draft)) {
      held.of(purpose) = drawn_.of(purpose);
      continue;
    }
    held.of(purpose) = stated.of(purpose);
    const bool more_is_legal = purpose == Purpose::draft || (matching && purpose == Purpose::target);
    if (!more_is_legal) continue;
    const auto& drawn = drawn_.of(purpose);
    std::erase_if(held.of(purpose), [&](std::int64_t position) {
      return !std::binary_search(drawn.begin(), drawn.end(), position);
    });
  }
  expect(
      held == drawn_, "keys", [&] { return "the coins have the keys " + shown(drawn_); },
      [&] { return shown(stated); });
}

void Replayer::expect_stated(const char* check, Token token, double of_row, double stated) {
  expect(
      std::fabs(of_row - stated) <= 4 * header_.unit * std::max(of_row, stated), check,
      [&] { return fmt::format("token {} has in the row {}", token, of_row); },
      [&] { return fmt::format("{}", stated); });
}

std::optional<std::uint64_t> Replayer::integer(const std::optional<StatedNumber>& coin) {
  return coin ? std::optional(coin->integer) : std::nullopt;
}

}  // namespace draftproof::spectrace
