// SPDX-License-Identifier: MIT
#include "oracle/spectrace/events.h"

#include <algorithm>

namespace draftproof::spectrace {

const char* name_of(AcceptanceRule rule) noexcept {
  switch (rule) {
    case AcceptanceRule::matching: return "matching";
    case AcceptanceRule::rejection: return "rejection";
    case AcceptanceRule::greedy: return "greedy";
    case AcceptanceRule::block: return "block";
    case AcceptanceRule::lossy: return "lossy";
  }
  return "unknown";
}

const char* name_of(NextFrom from) noexcept {
  switch (from) {
    case NextFrom::residual: return "residual";
    case NextFrom::target: return "target";
    case NextFrom::bonus: return "bonus";
    case NextFrom::greedy: return "greedy";
  }
  return "unknown";
}

std::string DeclaredRule::name() const {
  return variant.empty() ? name_of(kind) : std::string(name_of(kind)) + ":" + variant;
}

double RealRow::weight(Token token) const {
  const auto place = std::lower_bound(tokens.begin(), tokens.end(), token);
  return place == tokens.end() || *place != token ? 0 : weights[place - tokens.begin()];
}

void RngPositions::add(Purpose purpose, std::int64_t position) {
  std::vector<std::int64_t>& drawn = of(purpose);
  const auto place = std::lower_bound(drawn.begin(), drawn.end(), position);
  if (place == drawn.end() || *place != position) drawn.insert(place, position);
}

void RoundEvent::accept_of_chain(int accepted_now) {
  accepted = accepted_now;
  const auto behind = draft_tokens.begin() + accepted;
  accepted_tokens.assign(draft_tokens.begin(), behind);
  const bool more = behind != draft_tokens.end();
  refused = more ? std::vector<Token>{*behind} : std::vector<Token>{};
  verified = accepted + (more ? 1 : 0);
}

std::optional<Token> RoundEvent::token_at(std::size_t row) const {
  if (row < accepted_tokens.size()) return accepted_tokens[row];
  if (next) return next->token;
  return row < emitted.size() ? std::optional(emitted[row]) : std::nullopt;
}

std::optional<Draw> RoundEvent::draw_at(std::size_t row) const {
  if (row == accepted_tokens.size()) return next;
  return sibling_draws ? (*sibling_draws)[row] : std::nullopt;
}

std::optional<std::optional<double>> RoundEvent::draw_u_at(std::size_t row) const {
  if (row == accepted_tokens.size()) return next_u;
  return sibling_u ? std::optional((*sibling_u)[row]) : std::nullopt;
}

bool AllowedTokens::has(Token token) const {
  return kind == Kind::all || std::ranges::binary_search(tokens, token) == (kind == Kind::only);
}

TokenSet AllowedTokens::set(int vocabulary) const {
  TokenSet set(vocabulary);
  for (Token token = 0; token < vocabulary; ++token) {
    if (has(token)) set.add(token);
  }
  return set;
}

Fingerprint fingerprint_of(const TokenSet& tokens, int vocabulary) {
  Digest digest;
  for (Token token = 0; token < vocabulary; ++token) {
    if (tokens.has(token)) digest.add(token);
  }
  return digest.value();
}

std::string listed(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : ",") + std::to_string(token);
  return "[" + text + "]";
}

}  // namespace draftproof::spectrace
