// SPDX-License-Identifier: MIT
// Exact distributions of tiny decoders: rows of integer weights that depend on the tokens before them, a rule under
// test, and the distribution of its output, compared with the product of the target's rows.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "oracle/exact/enumerate.h"
#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"

namespace draftproof {

using Text = std::vector<Token>;
using OutcomeDistribution = std::map<Text, Rational>;

/// Returns the distribution with these weights of sum `sum`, scaled to Distribution's total; the remainder goes to the
/// first positive weight.
inline Distribution scaled(const std::vector<std::uint64_t>& weights, std::uint64_t sum) {
  std::vector<std::uint64_t> exact;
  std::uint64_t left = Distribution::total;
  for (const std::uint64_t weight : weights) {
    exact.push_back(weight * (Distribution::total / sum));
    left -= exact.back();
  }
  for (std::uint64_t& weight : exact) {
    if (weight == 0) continue;
    weight += left;
    break;
  }
  return Distribution::exact({}, exact);
}

/// Returns every distribution over `vocabulary` tokens with integer weights of sum `sum`.
inline std::vector<Distribution> all_distributions(int vocabulary, std::uint64_t sum) {
  std::vector<Distribution> result;
  std::vector<std::uint64_t> weights;
  const std::function<void(std::uint64_t)> extend = [&](std::uint64_t left) {
    if (static_cast<int>(weights.size()) + 1 == vocabulary) {
      weights.push_back(left);
      result.push_back(scaled(weights, sum));
      weights.pop_back();
      return;
    }
    for (std::uint64_t weight = 0; weight <= left; ++weight) {
      weights.push_back(weight);
      extend(left - weight);
      weights.pop_back();
    }
  };
  extend(sum);
  return result;
}

/// The distributions after every text, as a function of the text.
using Rows = std::function<Distribution(const Text&)>;

/// How a draft draws its tokens and which q it records. The correct one draws from the recorded q.
struct Drafting {
  using Draw = std::function<Token(const Distribution& q, const Key& key, RandomSource& random)>;
  Draw draft_token = [](const Distribution& q, const Key& key, RandomSource& random) { return draw(q, key, random); };
  std::function<Distribution(const Distribution& q)> stated = [](const Distribution& q) { return q; };
  Purpose purpose = Purpose::draft;
};

using Judge = std::function<Verdict(const Proposal&, TargetRows&, int sequence, int position, RandomSource&)>;

/// Rows of the target after `text` and the draft tokens. Counts violations of the order in which rules must read rows.
class TextRows final : public TargetRows {
 public:
  TextRows(const Rows& rows, Text text, const Proposal& proposal)
      : rows_(rows), text_(std::move(text)), proposal_(proposal) {}

  const Distribution& row(int row) override {
    const auto index = static_cast<std::size_t>(row);
    in_order = in_order && row >= last_;
    last_ = row;
    Text text = text_;
    text.insert(text.end(), proposal_.tokens.begin(), proposal_.tokens.begin() + row);
    return kept_.insert_or_assign(index, rows_(text)).first->second;
  }

  bool in_order = true;
  int last() const { return last_; }

 private:
  const Rows& rows_;
  Text text_;
  const Proposal& proposal_;
  std::map<std::size_t, Distribution> kept_;
  int last_ = -1;
};

/// A decoding loop on rows: rounds of at most `draft_tokens(text, last proposal)` draft tokens until there are `length`
/// tokens. Keys are those of the production loop.
struct TinyDecoder {
  Rows target;
  Rows draft;
  Judge judge;
  Drafting drafting = {};
  std::function<int(const Text&, const Proposal&)> draft_tokens;

  Text decode(int length, RandomSource& random) const {
    Text text;
    Proposal last;
    while (static_cast<int>(text.size()) < length) {
      const int position = static_cast<int>(text.size());
      const int count = std::min(draft_tokens(text, last), length - position - 1);
      Proposal proposal;
      Text drafted = text;
      for (int i = 0; i < count; ++i) {
        const Distribution q = draft(drafted);
        const Token token = drafting.draft_token(q, draft_key(0, position, i, drafting.purpose), random);
        proposal.tokens.push_back(token);
        proposal.drawn_from.push_back(drafting.stated(q));
        drafted.push_back(token);
      }
      TextRows rows(target, text, proposal);
      const Verdict verdict = judge(proposal, rows, 0, position, random);
      text.insert(text.end(), proposal.tokens.begin(), proposal.tokens.begin() + verdict.accepted);
      text.push_back(verdict.next);
      last = std::move(proposal);
    }
    return text;
  }
};

/// Returns a policy of `count` draft tokens per round, as far as there is room.
inline auto always(int count) {
  return [count](const Text&, const Proposal&) { return count; };
}

/// Plain decoding: one draw per position.
inline Text plain_text(const Rows& target, int length, RandomSource& random) {
  Text text;
  for (int position = 0; position < length; ++position)
    text.push_back(draw(target(text), {0, position, Purpose::target}, random));
  return text;
}

/// Returns the product of the target's rows.
inline OutcomeDistribution plain_distribution(const Rows& target, int length) {
  OutcomeDistribution distribution = {{Text{}, Rational(1)}};
  for (int position = 0; position < length; ++position) {
    OutcomeDistribution longer;
    for (const auto& [text, probability] : distribution) {
      const Distribution p = target(text);
      for (std::size_t i = 0; i < p.tokens().size(); ++i) {
        Text extended = text;
        extended.push_back(p.tokens()[i]);
        longer[extended] = probability * Rational(p.weights()[i], Distribution::total);
      }
    }
    distribution = std::move(longer);
  }
  return distribution;
}

inline OutcomeDistribution compute_distribution(const TinyDecoder& decoder, int length, long* paths = nullptr) {
  OutcomeDistribution distribution;
  EnumeratedSource random;
  do {
    random.begin_path();
    const Text text = decoder.decode(length, random);
    distribution[text] += random.probability();
    if (paths != nullptr) ++*paths;
  } while (random.next_path());
  return distribution;
}

/// Rows selected from a list by a fixed mixing function of the text: reproducible, and different for every prefix.
inline Rows mixed_rows(const std::vector<Distribution>& choices, std::uint64_t salt) {
  return [&choices, salt](const Text& text) {
    std::uint64_t state = salt * 0x9E3779B97F4A7C15u + text.size();
    for (const Token token : text) state = (state ^ static_cast<std::uint64_t>(token + 1)) * 0xD1342543DE82EF95u + 1;
    state ^= state >> 29;
    state *= 0xBF58476D1CE4E5B9u;
    return choices[(state >> 33) % choices.size()];
  };
}

}  // namespace draftproof
