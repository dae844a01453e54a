// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "ref/acceptance/draw.h"
#include "ref/base/require.h"
#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

struct Judging {
  const Proposal& proposal;
  TargetRows& rows;
  int sequence;
  int position;
  RandomSource& random;

  int size() const { return proposal.size(); }
  Token draft_token(int i) const { return proposal.tokens[i]; }
  const Distribution& q(int i) const { return proposal.drawn_from[i]; }
  Key key(int i, Purpose purpose) const { return {sequence, position + i, purpose}; }

  bool accepted(int i, const Distribution& p) const {
    const std::uint64_t wanted = p.weight(draft_token(i));
    const std::uint64_t offered = q(i).weight(draft_token(i));
    if (wanted >= offered) return true;
    return random.sample_index(key(i, Purpose::accept), std::array{wanted, offered - wanted}) == 0;
  }
  Token replacement(int i, const Distribution& p, Purpose purpose = Purpose::residual) const {
    return draw(Residual(p, q(i)), key(i, purpose), random);
  }
  Verdict all_accepted() const { return {size(), draw(rows.row(size()), key(size(), Purpose::target), random)}; }
};

Verdict accept_all(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  for (int i = 0; i < proposal.size(); ++i) rows.row(i);
  return Judging{proposal, rows, sequence, position, random}.all_accepted();
}

Verdict accept_possible(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (p.weight(j.draft_token(i)) == 0) return {i, j.replacement(i, p)};
  }
  return j.all_accepted();
}

Verdict skip_first(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  for (int i = 0;; ++i) {
    const Token own = draw(rows.row(i), {sequence, position + i, Purpose::target}, random);
    if (i == proposal.size()) return {i, own};
    if (i > 0 && own != proposal.tokens[i]) return {i, own};
  }
}

Verdict subtract_rejected_only(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                               RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (j.accepted(i, p)) continue;
    std::vector<std::uint64_t> left = p.weights();
    for (std::size_t k = 0; k < left.size(); ++k) {
      if (p.tokens()[k] == j.draft_token(i)) left[k] = 0;  // p_x < q_x: max(p_x - q_x, 0)
    }
    return {i, p.tokens()[random.sample_index(j.key(i, Purpose::residual), left)]};
  }
  return j.all_accepted();
}

Verdict coin_at_most(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    const std::uint64_t wanted = p.weight(j.draft_token(i));
    const std::uint64_t offered = j.q(i).weight(j.draft_token(i));
    if (wanted >= offered) continue;
    const std::array weights{wanted + 1, offered - wanted - 1};  // coin <= wanted instead of coin < wanted
    if (random.sample_index(j.key(i, Purpose::accept), weights) == 0) continue;
    return {i, j.replacement(i, p)};
  }
  return j.all_accepted();
}

Verdict next_row(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i + 1);
    if (!j.accepted(i, p)) return {i, j.replacement(i, p)};
  }
  return j.all_accepted();
}

Verdict replace_late(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    if (j.accepted(i, rows.row(i))) continue;
    return {i, draw(rows.row(i + 1), j.key(i, Purpose::residual), random)};
  }
  return j.all_accepted();
}

Verdict replace_from_p(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (!j.accepted(i, p)) return {i, draw(p, j.key(i, Purpose::residual), random)};
  }
  return j.all_accepted();
}

Verdict one_number_for_both(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                            RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (!j.accepted(i, p)) return {i, j.replacement(i, p, Purpose::accept)};
  }
  return j.all_accepted();
}

Verdict bonus_from_q(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (!j.accepted(i, p)) return {i, j.replacement(i, p)};
  }
  const Distribution& p = rows.row(j.size());
  const Distribution& source = j.size() > 0 ? j.q(j.size() - 1) : p;
  return {j.size(), draw(source, j.key(j.size(), Purpose::target), random)};
}

Verdict take_best(const Proposal& proposal, TargetRows& rows, int, int, RandomSource&) {
  for (int i = 0;; ++i) {
    const Distribution& p = rows.row(i);
    const std::vector<std::uint64_t> weights = p.weights();
    const auto best = std::max_element(weights.begin(), weights.end()) - weights.begin();
    const Token own = p.tokens()[best];
    if (i == proposal.size() || own != proposal.tokens[i]) return {i, own};
  }
}

Verdict remove_draft_token_first(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    std::vector<std::uint64_t> left = p.weights();
    for (std::size_t k = 0; k < left.size(); ++k) {
      if (p.tokens()[k] == j.draft_token(i)) left[k] = 0;  // in place, before the draft token is verified with it
    }
    if (left.size() == 1) continue;  // p is a point on the draft token
    return {i, p.tokens()[random.sample_index(j.key(i, Purpose::residual), left)]};
  }
  return j.all_accepted();
}

Verdict draw_again(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  for (int i = 0;; ++i) {
    const Distribution& p = rows.row(i);
    const Token own = draw(p, {sequence, position + i, Purpose::target}, random);
    if (i == proposal.size()) return {i, own};
    if (own != proposal.tokens[i]) {
      return {i, draw(p, {sequence, position + i, Purpose::residual}, random)};
    }
  }
}

Verdict one_percent_more(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    const std::uint64_t wanted = p.weight(j.draft_token(i)) / 100 * 101;
    const std::uint64_t offered = j.q(i).weight(j.draft_token(i));
    if (wanted >= offered) continue;
    if (random.sample_index(j.key(i, Purpose::accept), std::array{wanted, offered - wanted}) == 0) continue;
    const Residual rest(p, j.q(i));
    return {i, rest.blocks().empty() ? j.draft_token(i) : draw(rest, j.key(i, Purpose::residual), random)};
  }
  return j.all_accepted();
}

Verdict number_by_row(const Proposal& proposal, TargetRows& rows, int sequence, int, RandomSource& random) {
  return rejection.judge(proposal, rows, sequence, 0, random);
}

Verdict replace_in_advance(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                           RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    const bool accepted = j.accepted(i, p);
    const bool possible = !Residual(p, j.q(i)).blocks().empty();
    const Token replacement = possible ? j.replacement(i, p) : j.draft_token(i);
    if (!accepted) return {i, replacement};
  }
  return j.all_accepted();
}

/// Has a fallback for an empty residual, which never happens: p < q for the draft token leaves p > q for another token.
Verdict with_fallback(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (j.accepted(i, p)) continue;
    if (Residual(p, j.q(i)).blocks().empty()) return {i, j.draft_token(i)};
    return {i, j.replacement(i, p)};
  }
  return j.all_accepted();
}

enum class BlockFault {
  replacement_of_token,  // after a block, max(p - q, 0) as rejection has it
  coins_by_position,     // they do not name the round, and behind the accepted draft tokens they are tossed again
  share_not_cut,         // a share may be larger than 1 on the way
  rounded_down,          // a share loses what its coin would give back
  coins_from_front,      // the first coin that fails ends the block, though one of a longer prefix would succeed
};

/// Block verification (ref/acceptance/block.cpp) with a fault.
template <BlockFault fault>
Verdict judge_as_block(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  using Wide = unsigned __int128;
  constexpr std::uint64_t whole = 2048;
  const auto toss = [&](int i, int which, std::uint64_t yes, std::uint64_t no) {
    if (yes == 0 || no == 0) return no == 0;
    Key key = block_key(sequence, position, i, which);
    if (fault == BlockFault::coins_by_position) key.depth = 1 + which;
    return random.sample_index(key, std::array{yes, no}) == 0;
  };
  std::vector<Distribution> p;
  std::vector<std::uint64_t> shares;
  Wide share = whole;
  int accepted = 0;
  bool ended = false;
  for (int i = 0; i < j.size() && !ended; ++i) {
    p.push_back(rows.row(i));
    shares.push_back(static_cast<std::uint64_t>(std::min<Wide>(share, whole)));
    const std::uint64_t rest = Residual(p.back(), j.q(i), shares.back(), whole).sum();
    const bool succeeds = rest > 0 && toss(i, 0, rest, Distribution::total * (whole - shares.back()));
    if (succeeds) accepted = i;
    ended = fault == BlockFault::coins_from_front && rest > 0 && !succeeds;
    const std::uint64_t offered = j.q(i).weight(j.draft_token(i));
    const Wide max = Wide{fault == BlockFault::share_not_cut ? 8 * whole : whole} * offered;
    const Wide kept = std::min(share * p.back().weight(j.draft_token(i)), max);
    const auto lost = static_cast<std::uint64_t>(kept % offered);
    share = kept / offered + (fault != BlockFault::rounded_down && !toss(i, 1, offered - lost, lost) ? 1 : 0);
  }
  const auto last = static_cast<std::uint64_t>(std::min<Wide>(share, whole));
  if (!ended && toss(j.size(), 0, last, whole - last)) return j.all_accepted();
  const auto at = static_cast<std::size_t>(accepted);
  const bool of_token = fault == BlockFault::replacement_of_token;
  const Residual rest(p[at], j.q(accepted), of_token ? 1 : shares[at], of_token ? 1 : whole);
  const Key key = j.key(accepted, Purpose::residual);
  return {accepted, rest.blocks().empty() ? draw(p[at], key, random) : draw(rest, key, random)};
}

/// Verifies as `rejection` does, with other weights in place of the residual.
template <class Weights>
Verdict judge_with_residual(const Judging& j, TargetRows& rows, const Weights& weights_of) {
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (j.accepted(i, p)) continue;
    const std::vector<std::uint64_t> left = weights_of(p, j.q(i));
    return {i, p.tokens()[j.random.sample_index(j.key(i, Purpose::residual), left)]};
  }
  return j.all_accepted();
}

/// Inverts the cumulative sum of the residual with a number below the total of p: what lies beyond the sum is the last
/// token.
Verdict replace_by_unnormalized(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                RandomSource& random) {
  return judge_with_residual({proposal, rows, sequence, position, random}, rows,
                             [](const Distribution& p, const Distribution& q) {
                               std::vector<std::uint64_t> left;
                               std::uint64_t beyond = Distribution::total;
                               for (const Token token : p.tokens()) {
                                 left.push_back(p.weight(token) - std::min(p.weight(token), q.weight(token)));
                                 beyond -= left.back();
                               }
                               left.back() += beyond;
                               return left;
                             });
}

Verdict replace_by_distance(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                            RandomSource& random) {
  return judge_with_residual(
      {proposal, rows, sequence, position, random}, rows, [](const Distribution& p, const Distribution& q) {
        std::vector<std::uint64_t> left;
        for (const Token token : p.tokens()) {
          left.push_back(std::max(p.weight(token), q.weight(token)) - std::min(p.weight(token), q.weight(token)));
        }
        return left;
      });
}

Verdict replace_with_floor(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                           RandomSource& random) {
  return judge_with_residual(
      {proposal, rows, sequence, position, random}, rows, [](const Distribution& p, const Distribution& q) {
        std::vector<std::uint64_t> left;
        for (const Token token : p.tokens()) {
          left.push_back(
              std::max(p.weight(token) - std::min(p.weight(token), q.weight(token)), Distribution::total >> 20));
        }
        return left;
      });
}

/// Accepts with probability p, as if q were a point.
Verdict accept_by_point(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    const std::uint64_t wanted = p.weight(j.draft_token(i));
    const std::array weights{wanted, Distribution::total - wanted};
    if (random.sample_index(j.key(i, Purpose::accept), weights) == 0) continue;
    const Residual rest(p, j.q(i));
    return {i, rest.blocks().empty() ? draw(p, j.key(i, Purpose::residual), random)
                                     : draw(rest, j.key(i, Purpose::residual), random)};
  }
  return j.all_accepted();
}

/// Keeps the eight highest bits.
std::uint64_t in_eight_bits(std::uint64_t weight) {
  std::uint64_t unit = 1;
  while (weight / unit >= 256) unit *= 2;
  return weight / unit * unit;
}

Verdict accept_by_short_p(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                          RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    const std::uint64_t wanted = in_eight_bits(p.weight(j.draft_token(i)));
    const std::uint64_t offered = j.q(i).weight(j.draft_token(i));
    if (wanted >= offered) continue;
    if (random.sample_index(j.key(i, Purpose::accept), std::array{wanted, offered - wanted}) == 0) continue;
    const Residual rest(p, j.q(i));
    return {i, rest.blocks().empty() ? j.draft_token(i) : draw(rest, j.key(i, Purpose::residual), random)};
  }
  return j.all_accepted();
}

/// Tosses a coin of eight bits that is rounded to 1 once in 512 times, and then rejects whatever p and q are.
Verdict toss_rounded_coin(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                          RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    const std::uint64_t offered = j.q(i).weight(j.draft_token(i));
    const std::uint64_t wanted = std::min(p.weight(j.draft_token(i)), offered);
    const std::uint64_t lost = std::min(wanted, offered / 512);
    const std::array weights{wanted - lost, offered - wanted + lost};
    if (random.sample_index(j.key(i, Purpose::accept), weights) == 0) continue;
    const Residual rest(p, j.q(i));
    return {i, rest.blocks().empty() ? draw(p, j.key(i, Purpose::residual), random)
                                     : draw(rest, j.key(i, Purpose::residual), random)};
  }
  return j.all_accepted();
}

/// Accepts as many draft tokens as it is told to, whatever p is.
Verdict accept_at_rate(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (random.sample_index(j.key(i, Purpose::accept), std::array<std::uint64_t, 2>{3, 1}) == 0) continue;
    return {i, draw(p, j.key(i, Purpose::residual), random)};
  }
  return j.all_accepted();
}

/// Accepts every draft token to which p gives half of the probability, and the others as `rejection` does.
Verdict accept_above_threshold(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                               RandomSource& random) {
  const Judging j{proposal, rows, sequence, position, random};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (p.weight(j.draft_token(i)) >= Distribution::total / 2 || j.accepted(i, p)) continue;
    return {i, j.replacement(i, p)};
  }
  return j.all_accepted();
}

/// Verifies with the q of the sequence that was verified before, where it could have given the draft token.
Verdict judge_with_shared_q(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                            RandomSource& random) {
  auto& shared = dynamic_cast<SharedQ&>(random);
  Proposal confused = proposal;
  for (std::size_t i = 0; i < std::min(confused.tokens.size(), shared.q().size()); ++i) {
    if (shared.q()[i].weight(confused.tokens[i]) > 0) confused.drawn_from[i] = shared.q()[i];
  }
  shared.q() = proposal.drawn_from;
  return rejection.judge(confused, rows, sequence, position, random);
}

// Rules for trees.

/// Verifies each branch as if it were a text of its own, and takes the one with most accepted draft tokens.
Verdict judge_each_branch(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                          RandomSource& random) {
  std::vector<Distribution> p;
  for (int row = 0; row <= proposal.size(); ++row) p.push_back(rows.row(row));
  constexpr Purpose numbers[] = {Purpose::target, Purpose::accept, Purpose::residual};
  Verdict best{-1, 0};
  std::size_t branch = 0;
  for (int leaf = -1; leaf < proposal.size(); ++leaf) {
    if (proposal.first_child(leaf) != Proposal::no_node) continue;
    const Purpose number = numbers[branch++ % std::size(numbers)];
    Verdict own{0, 0, -1};
    for (const int node : proposal.path_to(leaf)) {
      own.next = draw(p[own.last + 1], {sequence, position + own.accepted, number}, random);
      if (own.next != proposal.tokens[node]) break;
      own = {own.accepted + 1, 0, node};
    }
    if (own.last == leaf) {
      own.next = draw(p[leaf + 1], {sequence, position + own.accepted, number}, random);
    }
    if (own.accepted > best.accepted) best = own;
  }
  return best;
}

/// Walks the tree as `rejection` does. `substitute` returns the sibling that is accepted in place of a rejected first
/// draft token, and `row_of` the draft token after which the row is that verifies what follows.
template <class Substitute, class RowOf>
Verdict judge_tree(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random,
                   const Substitute& substitute, const RowOf& row_of) {
  Verdict verdict;
  for (;;) {
    const Distribution& p = rows.row(row_of(verdict.last) + 1);
    const int at = position + verdict.accepted;
    const int first = proposal.first_child(verdict.last);
    if (first == Proposal::no_node) {
      verdict.next = draw(p, {sequence, at, Purpose::target}, random);
      return verdict;
    }
    const Judging j{proposal, rows, sequence, position + verdict.accepted - first, random};
    int node = first;
    if (!j.accepted(first, p)) {
      verdict.next = j.replacement(first, p);
      node = substitute(p, verdict, at);
      if (node == Proposal::no_node) return verdict;
    }
    verdict = {verdict.accepted + 1, 0, node};
  }
}

/// Accepts each sibling with p, as if the first had not been rejected.
Verdict judge_siblings_by_p(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                            RandomSource& random) {
  const auto substitute = [&](const Distribution& p, const Verdict& verdict, int at) {
    int node = proposal.next_sibling(proposal.first_child(verdict.last));
    for (; node != Proposal::no_node; node = proposal.next_sibling(node)) {
      const std::uint64_t wanted = p.weight(proposal.tokens[node]);
      const std::array weights{wanted, Distribution::total - wanted};
      if (random.sample_index({sequence, at, Purpose::target}, weights) == 0) break;
    }
    return node;
  };
  return judge_tree(proposal, rows, sequence, position, random, substitute, [](int last) { return last; });
}

/// Verifies what follows any sibling with the row after the first one.
Verdict judge_by_first_row(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                           RandomSource& random) {
  const auto substitute = [&](const Distribution&, const Verdict& verdict, int) {
    return proposal.child(verdict.last, verdict.next);
  };
  return judge_tree(proposal, rows, sequence, position, random, substitute,
                    [&](int last) { return last < 0 ? last : proposal.first_child(proposal.parent(last)); });
}

constexpr Rule claiming(const Rule& rule, Verdict (*judge)(const Proposal&, TargetRows&, int, int, RandomSource&)) {
  return {rule.name, rule.guarantee, rule.draft_noise, judge};
}

}  // namespace

const Rule accepts_all = claiming(rejection, accept_all);
const Rule accepts_what_is_possible = claiming(rejection, accept_possible);
const Rule first_draft_token_unchecked = claiming(matching, skip_first);
const Rule rejected_token_subtracted_only = claiming(rejection, subtract_rejected_only);
const Rule zero_coin_accepts = claiming(rejection, coin_at_most);
const Rule row_too_late = claiming(rejection, next_row);
const Rule replacement_from_next_row = claiming(rejection, replace_late);
const Rule replacement_from_whole_target = claiming(rejection, replace_from_p);
const Rule replacement_with_accept_key = claiming(rejection, one_number_for_both);
const Rule draft_noise_of_replacement = {rejection.name, rejection.guarantee, Purpose::residual, rejection.judge};
const Rule bonus_from_draft = claiming(rejection, bonus_from_q);
const Rule always_best = claiming(matching, take_best);
const Rule draft_token_removed_from_target = claiming(rejection, remove_draft_token_first);
const Rule drawn_again = claiming(matching, draw_again);
const Rule lenient = claiming(rejection, one_percent_more);
const Rule block_with_replacement_of_token = claiming(block, judge_as_block<BlockFault::replacement_of_token>);
const Rule block_with_coins_by_position = claiming(block, judge_as_block<BlockFault::coins_by_position>);
const Rule block_with_share_not_cut = claiming(block, judge_as_block<BlockFault::share_not_cut>);
const Rule block_rounded_down = claiming(block, judge_as_block<BlockFault::rounded_down>);
const Rule block_with_coins_from_front = claiming(block, judge_as_block<BlockFault::coins_from_front>);
const Rule numbered_by_row = claiming(rejection, number_by_row);
const Rule replacement_in_advance = claiming(rejection, replace_in_advance);
const Rule fallback_never_needed = claiming(rejection, with_fallback);
const Rule longest_of_the_branches = claiming(matching, judge_each_branch);
const Rule sibling_judged_by_whole_target = claiming(rejection, judge_siblings_by_p);
const Rule row_of_the_first_sibling = claiming(rejection, judge_by_first_row);
const Rule residual_not_normalized = claiming(rejection, replace_by_unnormalized);
const Rule residual_is_distance = claiming(rejection, replace_by_distance);
const Rule residual_with_floor = claiming(rejection, replace_with_floor);
const Rule ratio_of_point = claiming(rejection, accept_by_point);
const Rule p_in_eight_bits = claiming(rejection, accept_by_short_p);
const Rule coin_of_one = claiming(rejection, toss_rounded_coin);
const Rule accepts_at_a_rate = claiming(rejection, accept_at_rate);
const Rule accepts_above_a_threshold = claiming(rejection, accept_above_threshold);
const Rule q_of_another_sequence = claiming(rejection, judge_with_shared_q);
const Rule sample_match = {matching.name, matching.guarantee, Purpose::draft, matching.judge};

}  // namespace draftproof::zoo
