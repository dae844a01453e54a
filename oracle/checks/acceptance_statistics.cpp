// SPDX-License-Identifier: MIT
#include "oracle/checks/acceptance_statistics.h"

#include <algorithm>
#include <utility>

namespace draftproof {
namespace {

using Sum = unsigned __int128;  // of the weights of many draft tokens: no rounding before the end

struct Exact {
  long judged = 0;
  long accepted = 0;
  Sum weight = 0;
};

}  // namespace

std::uint64_t overlap(const Distribution& p, const Distribution& q) {
  std::uint64_t sum = 0;
  const std::vector<Token> tokens = p.tokens();
  const std::vector<std::uint64_t> weights = p.weights();
  for (std::size_t i = 0; i < tokens.size(); ++i) sum += std::min(weights[i], q.weight(tokens[i]));
  return sum;
}

std::uint64_t agreement(const Distribution& p, const Distribution& q) {
  const std::vector<Token> tokens[] = {p.tokens(), q.tokens()};
  const std::vector<std::uint64_t> weights[] = {p.weights(), q.weights()};
  std::size_t at[] = {0, 0};
  std::uint64_t end[] = {weights[0].empty() ? 0 : weights[0][0], weights[1].empty() ? 0 : weights[1][0]};
  std::uint64_t same = 0;
  std::uint64_t from = 0;  // numbers below it are counted
  while (at[0] < tokens[0].size() && at[1] < tokens[1].size()) {
    const std::uint64_t to = std::min(end[0], end[1]);
    if (tokens[0][at[0]] == tokens[1][at[1]]) same += to - from;
    from = to;
    for (const std::size_t row : {0, 1}) {
      if (end[row] == to && ++at[row] < tokens[row].size()) end[row] += weights[row][at[row]];
    }
  }
  return same;
}

std::vector<Judged> judged_by_depth(Trial& trial, const Run& run) {
  std::vector<Exact> depths;
  std::vector<Token> text = trial.request.prompt;
  for (const Round& round : run.trace.rounds) {
    const Proposal& proposal = round.proposal;
    const bool together = run.variation.rule->judge == block.judge && proposal.is_chain();
    const std::vector<int> path = proposal.path_to(std::clamp(round.verdict.last, -1, proposal.size() - 1));
    std::vector<Token> before = text;
    for (std::size_t i = 0; i <= path.size() && !together; ++i) {
      // In a tree the first child of a node is the one that is verified with its q.
      const int node = proposal.first_child(i == 0 ? -1 : path[i - 1]);
      if (node == Proposal::no_node || proposal.drawn_from.size() <= static_cast<std::size_t>(node)) break;
      const Distribution& q = proposal.drawn_from[node];
      const Distribution& p = trial.row_after(run.variation, before).distribution;
      const bool one_number = run.variation.promises_tokens();
      if (depths.size() <= i) depths.resize(i + 1);
      ++depths[i].judged;
      depths[i].accepted += i < path.size() && path[i] == node;
      depths[i].weight += one_number ? agreement(p, q) : overlap(p, q);
      if (i < path.size()) before.push_back(proposal.tokens[path[i]]);
    }
    text.insert(text.end(), round.emitted.begin(), round.emitted.end());
  }
  std::vector<Judged> list;
  for (const Exact& exact : depths) {
    list.push_back(
        {exact.judged, exact.accepted, static_cast<double>(exact.weight) / static_cast<double>(Distribution::total)});
  }
  return list;
}

std::vector<long> rounds_by_accepted(const Trace& trace) {
  std::vector<long> rounds;
  for (const Round& round : trace.rounds) {
    if (round.proposal.size() == 0) continue;
    const auto accepted = static_cast<std::size_t>(std::max(0, round.verdict.accepted));
    if (rounds.size() <= accepted) rounds.resize(accepted + 1);
    ++rounds[accepted];
  }
  return rounds;
}

}  // namespace draftproof
