// SPDX-License-Identifier: MIT
#include "ref/grammar/grammar_constraint.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ref/grammar/grammar_states.h"
#include "ref/grammar/rule_masks.h"

namespace draftproof {
namespace {

/// What a reader remembers is dropped when it has more than this: each state takes up to 1 KiB, each set 1 bit for
/// every token.
constexpr std::size_t states_kept = std::size_t{1} << 14;
constexpr std::size_t sets_kept = 512;
/// A stack whose next byte may be one of so many or more is looked for in masks; others have few tokens to read.
constexpr std::size_t breadth_min = 16;

class GrammarReader final : public ConstraintReader {
 public:
  GrammarReader(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> tokens,
                std::vector<Token> stops)
      : grammar_(std::move(grammar)),
        tokens_(std::move(tokens)),
        stops_(std::move(stops)),
        nothing_(tokens_->vocabulary()) {
    forget();
  }

  bool possible(std::span<const Token> output) override { return read(output) != GrammarStates::dead; }
  bool complete(std::span<const Token> output) override {
    const int state = read(output);
    return state != stopped && states_->complete(state);
  }
  const TokenSet& allowed(std::span<const Token> output) override {
    if (states_->size() > states_kept || sets_.size() > sets_kept || masks_.size() > sets_kept) forget();
    const int state = read(output);
    if (state == GrammarStates::dead || state == stopped || states_->complete(state)) return nothing_;
    const auto known = sets_.find(state);
    return known != sets_.end() ? known->second : sets_.emplace(state, tokens_after(state)).first->second;
  }

 private:
  static constexpr int stopped = -2;  // the state after a stop token

  void forget() {
    sets_.clear();
    masks_.clear();
    states_.emplace(*grammar_);
    output_.clear();
    after_ = {states_->start()};
  }

  /// Returns the state after an output. What it has in common with the last one is not read again.
  int read(std::span<const Token> output) {
    const auto same = std::ranges::mismatch(output, output_).in1 - output.begin();
    output_.resize(static_cast<std::size_t>(same));
    after_.resize(output_.size() + 1);
    for (const Token token : output.subspan(output_.size())) {
      after_.push_back(after(after_.back(), token));
      output_.push_back(token);
    }
    return after_.back();
  }

  int after(int state, Token token) {
    if (state == GrammarStates::dead || state == stopped) return GrammarStates::dead;
    if (std::ranges::find(stops_, token) != stops_.end()) {
      return states_->accepts(state) ? stopped : GrammarStates::dead;
    }
    const int named = states_->next_token(state, token);
    const std::string_view bytes = tokens_->bytes(token);
    if (bytes.empty()) return named;
    for (const char byte : bytes) state = states_->next(state, static_cast<unsigned char>(byte));
    return states_->either(state, named);
  }

  TokenSet tokens_after(int state) {
    TokenSet set(tokens_->vocabulary());
    std::vector<int> stacks = states_->stacks(state);
    const auto is_broad = [&](int stack) { return states_->breadth(stack) >= breadth_min; };
    for (auto broad = std::ranges::find_if(stacks, is_broad); broad != stacks.end();) {
      std::iter_swap(stacks.begin(), broad);
      broad = add_part(stacks, set) ? std::ranges::find_if(stacks, is_broad) : stacks.end();
    }
    const int rest = states_->state_of(std::move(stacks));
    if (rest != GrammarStates::dead) add_tokens(tokens_->tree(), *states_, rest, set);
    states_->add_named_tokens(state, tokens_->vocabulary(), set);
    // A stop token ends an output and is no text, whatever its bytes are.
    for (const Token stop : stops_) {
      if (stop < 0 || stop >= tokens_->vocabulary()) continue;
      states_->accepts(state) ? set.add(stop) : set.remove(stop);
    }
    return set;
  }

  /// Adds what the smallest part with the first of these stacks allows that has a mask, and leaves the other stacks.
  bool add_part(std::vector<int>& stacks, TokenSet& set) {
    for (int depth = 1; depth <= GrammarStates::part_depth_max; ++depth) {
      GrammarStates::Part part = states_->part(stacks, depth);
      const auto [known, fresh] = masks_.try_emplace(part.within);
      if (fresh) known->second = tokens_->rule_masks().find(*states_, part.within, *tokens_);
      if (!known->second) continue;
      set.add(known->second->inside);
      if (part.behind != GrammarStates::dead) add_tokens(known->second->outside, *states_, part.behind, set);
      stacks = std::move(part.others);
      return true;
    }
    return false;
  }

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> tokens_;
  std::vector<Token> stops_;
  TokenSet nothing_;
  std::optional<GrammarStates> states_;
  std::map<int, TokenSet> sets_;                          // by state
  std::map<int, std::shared_ptr<const RuleMask>> masks_;  // by the state of the part
  std::vector<Token> output_;                             // read last
  std::vector<int> after_;                                // the states after none of its tokens, after one, ...
};

}  // namespace

GrammarConstraint::GrammarConstraint(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> tokens,
                                     std::vector<Token> stops)
    : grammar_(std::move(grammar)), tokens_(std::move(tokens)), stops_(std::move(stops)) {}

std::unique_ptr<ConstraintReader> GrammarConstraint::reader() const {
  return std::make_unique<GrammarReader>(grammar_, tokens_, stops_);
}

}  // namespace draftproof
