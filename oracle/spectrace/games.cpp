// SPDX-License-Identifier: MIT
#include "oracle/spectrace/games.h"

#include <fmt/format.h>

#include <algorithm>

namespace draftproof::spectrace {

void EvidenceCurve::add(long tokens, double e_value) {
  last_ = {tokens, e_value};
  if (tokens % every_ != 0) return;
  if (points_.size() + 1 == points_max) {
    every_ *= 2;
    std::erase_if(points_, [&](const auto& point) { return point.first % every_ != 0; });
    if (tokens % every_ != 0) return;
  }
  points_.push_back(last_);
}

std::vector<std::pair<long, double>> EvidenceCurve::points() const {
  std::vector<std::pair<long, double>> points = points_;
  if (points.empty() || points.back() != last_) points.push_back(last_);
  return points;
}

Games::Games(int vocabulary, double slack, int u_bits, const std::vector<std::string>& suspects)
    : tokens_({vocabulary, alpha_of_one, slack, suspects}),
      draft_tokens_({vocabulary, alpha_of_one, 0}),
      coins_(alpha_of_one, u_bits),
      acceptance_(alpha_of_one) {}

void Games::token(const Distribution& p, double slack, const Distribution* q, bool q_unknown, Token token,
                  std::span<const Token> text, const std::optional<Token>& rejected, bool rejected_unknown,
                  std::span<const std::optional<Distribution>> suspected) {
  const std::span<const Token> dropped = rejected ? std::span(&*rejected, 1) : std::span<const Token>();
  tokens_.observe(p, q, token, {text, dropped, slack, q_unknown, rejected_unknown, suspected});
  curve_.add(tokens_.tokens(), tokens_.e_value());
}

void Games::unknown_token(double slack) { tokens_.forfeit(slack); }

void Games::token_of_a_point(double probability, bool other) { points_.observe(probability, other); }

void Games::draft_token(const Distribution& q, double slack, Token token) {
  if (q.is_point()) return;
  draft_tokens_.observe(q, nullptr, token, {{}, {}, slack});
}

void Games::unknown_draft_token(double slack) { draft_tokens_.forfeit(slack); }

void Games::coin(Stream stream, double coin) { coins_.observe(stream, coin); }

void Games::unknown_coin(Stream stream) { coins_.forfeit(stream); }

void Games::acceptance(double probability, bool accepted, double rounding) {
  acceptance_.observe(probability, accepted, rounding);
}

void Games::unknown_acceptance(std::optional<bool> accepted) { acceptance_.forfeit(accepted); }

void Games::within_rounding(Stream stream, double probability, bool is) {
  rounding_[static_cast<std::size_t>(stream)].observe(probability, is);
}

void Games::unknown_within_rounding(Stream stream, double probability) {
  rounding_[static_cast<std::size_t>(stream)].forfeit(probability);
}

bool Games::too_many_within_rounding() const noexcept {
  const double alpha_of_stream = alpha_of_one / static_cast<double>(rounding_.size());
  return std::ranges::any_of(rounding_,
                             [&](const RareEvents& of_stream) { return of_stream.e_value() * alpha_of_stream >= 1; });
}

std::vector<Game> Games::others() const {
  std::vector<Game> list;
  const auto add = [&](const char* name, long observed, double e_value, const std::string& message) {
    if (observed > 0) list.push_back({name, observed, e_value, e_value * alpha_of_one >= 1, message});
  };
  add("draft tokens", draft_tokens_.tokens(), draft_tokens_.e_value(), draft_tokens_.describe());
  add("coins", coins_.coins(), coins_.e_value(), coins_.describe());
  add("acceptance", acceptance_.judged(), acceptance_.e_value(), acceptance_.describe());
  add("tokens of one choice", points_.observed(), points_.e_value(),
      fmt::format("e-value {:.3g}; {} of {} tokens are not the target's one choice; {:.3g} are explained by what is "
                  "granted; {}",
                  points_.e_value(), points_.happened(), points_.observed(), points_.expected(),
                  points_seen() < 1 ? fmt::format("a share of {:.2g} of them would have been found", points_seen())
                                    : "so few show nothing"));
  return list;
}

}  // namespace draftproof::spectrace
