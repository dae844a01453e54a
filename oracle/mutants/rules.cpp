// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "oracle/mutants/parts.h"
#include "ref/acceptance/draw.h"

namespace draftproof::mutants {
namespace {

struct Judgement {
  const Proposal& proposal;
  TargetRows& rows;
  int sequence;
  int position;
  Chance& chance;

  int size() const { return proposal.size(); }
  Token guess(int i) const { return proposal.tokens[static_cast<std::size_t>(i)]; }
  const Distribution& q(int i) const { return proposal.drawn_from[static_cast<std::size_t>(i)]; }
  Key key(int i, Purpose purpose) const { return {sequence, position + i, purpose}; }

  bool stands(int i, const Distribution& p) const {
    const std::uint64_t wanted = p.weight(guess(i));
    const std::uint64_t offered = q(i).weight(guess(i));
    if (wanted >= offered) return true;
    return chance.pick(key(i, Purpose::accept), std::array{wanted, offered - wanted}) == 0;
  }
  Token replacement(int i, const Distribution& p, Purpose purpose = Purpose::residual) const {
    return draw(Residual(p, q(i)), key(i, purpose), chance);
  }
  Verdict all_stand() const { return {size(), draw(rows.row(size()), key(size(), Purpose::target), chance)}; }
};

Verdict accept_all(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  for (int i = 0; i < proposal.size(); ++i) rows.row(i);
  return Judgement{proposal, rows, sequence, position, chance}.all_stand();
}

Verdict accept_possible(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (p.weight(j.guess(i)) == 0) return {i, j.replacement(i, p)};
  }
  return j.all_stand();
}

Verdict skip_first(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  for (int i = 0;; ++i) {
    const Token own = draw(rows.row(i), {sequence, position + i, Purpose::target}, chance);
    if (i == proposal.size()) return {i, own};
    if (i > 0 && own != proposal.tokens[static_cast<std::size_t>(i)]) return {i, own};
  }
}

Verdict subtract_refused_only(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (j.stands(i, p)) continue;
    std::vector<std::uint64_t> left = p.weights();
    for (std::size_t k = 0; k < left.size(); ++k) {
      if (p.tokens()[k] == j.guess(i)) left[k] = 0;  // p_x < q_x: max(p_x - q_x, 0)
    }
    return {i, p.tokens()[chance.pick(j.key(i, Purpose::residual), left)]};
  }
  return j.all_stand();
}

Verdict coin_at_most(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    const std::uint64_t wanted = p.weight(j.guess(i));
    const std::uint64_t offered = j.q(i).weight(j.guess(i));
    if (wanted >= offered) continue;
    const std::array weights{wanted + 1, offered - wanted - 1};  // coin <= wanted instead of coin < wanted
    if (chance.pick(j.key(i, Purpose::accept), weights) == 0) continue;
    return {i, j.replacement(i, p)};
  }
  return j.all_stand();
}

Verdict next_row(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i + 1);
    if (!j.stands(i, p)) return {i, j.replacement(i, p)};
  }
  return j.all_stand();
}

Verdict replace_late(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    if (j.stands(i, rows.row(i))) continue;
    return {i, draw(rows.row(i + 1), j.key(i, Purpose::residual), chance)};
  }
  return j.all_stand();
}

Verdict replace_from_p(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (!j.stands(i, p)) return {i, draw(p, j.key(i, Purpose::residual), chance)};
  }
  return j.all_stand();
}

Verdict one_number_for_both(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (!j.stands(i, p)) return {i, j.replacement(i, p, Purpose::accept)};
  }
  return j.all_stand();
}

Verdict bonus_from_q(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const Judgement j{proposal, rows, sequence, position, chance};
  for (int i = 0; i < j.size(); ++i) {
    const Distribution& p = rows.row(i);
    if (!j.stands(i, p)) return {i, j.replacement(i, p)};
  }
  const Distribution& p = rows.row(j.size());
  const Distribution& source = j.size() > 0 ? j.q(j.size() - 1) : p;
  return {j.size(), draw(source, j.key(j.size(), Purpose::target), chance)};
}

Verdict take_best(const Proposal& proposal, TargetRows& rows, int, int, Chance&) {
  for (int i = 0;; ++i) {
    const Distribution& p = rows.row(i);
    const std::vector<std::uint64_t> weights = p.weights();
    const auto best = std::max_element(weights.begin(), weights.end()) - weights.begin();
    const Token own = p.tokens()[static_cast<std::size_t>(best)];
    if (i == proposal.size() || own != proposal.tokens[static_cast<std::size_t>(i)]) return {i, own};
  }
}

constexpr Rule claiming(const Rule& rule, Verdict (*judge)(const Proposal&, TargetRows&, int, int, Chance&)) {
  return {rule.name, rule.guarantee, rule.draft_noise, judge};
}

}  // namespace

const Rule accepts_all = claiming(rejection, accept_all);
const Rule accepts_what_is_possible = claiming(rejection, accept_possible);
const Rule first_guess_unchecked = claiming(matching, skip_first);
const Rule refused_token_subtracted_only = claiming(rejection, subtract_refused_only);
const Rule zero_coin_accepts = claiming(rejection, coin_at_most);
const Rule row_too_late = claiming(rejection, next_row);
const Rule replacement_from_next_row = claiming(rejection, replace_late);
const Rule replacement_from_whole_target = claiming(rejection, replace_from_p);
const Rule replacement_with_accept_key = claiming(rejection, one_number_for_both);
const Rule draft_noise_of_replacement = {rejection.name, rejection.guarantee, Purpose::residual, rejection.judge};
const Rule bonus_from_draft = claiming(rejection, bonus_from_q);
const Rule always_best = claiming(matching, take_best);
const Rule sample_match = {matching.name, matching.guarantee, Purpose::draft, matching.judge};

}  // namespace draftproof::mutants
