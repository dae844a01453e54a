// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/sampler.h"
#include "ref/drafts/chain.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/short_context.h"
#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

Token best_of(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Proposes as many draft tokens as the text's length modulo three, often none.
class VariableLength final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    read_ += static_cast<int>(committed.size());
    ModelDraft::observe(committed, features);
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    if (const int wanted = std::min(limit, read_ % 3); wanted > 0) ModelDraft::propose(anchor, wanted, builder);
  }
  void forget() override {
    read_ = 0;
    ModelDraft::forget();
  }
  Cache* context() override { return nullptr; }

 private:
  int read_ = 0;
};

class ProposesTheBest final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) override {
    const Token token = best_of(logits);
    builder.add_token(token);
    return token;
  }
};

/// Draws with its own temperature, twice the target's, and its own top-k, 2.
class HotterAndNarrower final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) override {
    const Token first = best_of(logits);
    std::vector<float> own(logits.begin(), logits.end());
    own[first] = -std::numeric_limits<float>::infinity();
    const Token second = best_of(own);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const bool kept = static_cast<Token>(i) == first || static_cast<Token>(i) == second;
      own[i] = kept ? logits[i] / 2 : -std::numeric_limits<float>::infinity();
    }
    return builder.draw(own);
  }
};

/// Proposes the largest of the most likely tokens, where the target would take the smallest.
class BreaksTiesDifferently final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) override {
    const auto best = std::max_element(logits.rbegin(), logits.rend());
    const auto token = static_cast<Token>(std::distance(best, logits.rend()) - 1);
    builder.add_token(token);
    return token;
  }
};

/// Has logits of eight bits, and draws from what they give.
class RoundsBeforeDrawing final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) override {
    std::vector<float> own;
    for (const float logit : logits) own.push_back(std::nearbyint(logit * 1.1F * 128) / 128);
    return builder.draw(own);
  }
};

class ConstantDraft final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token next_draft_token(std::span<const float>, ProposalBuilder& builder) override {
    builder.add_token(1);
    return 1;
  }
};

/// Proposes the token after the most likely one: a map between two vocabularies that is off by one.
class ProposesTheNeighbor final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) override {
    const Token token = (best_of(logits) + 1) % static_cast<Token>(logits.size());
    builder.add_token(token);
    return token;
  }
};

/// Keeps the text and reads all of it again for every draft token.
class FaultyTextDraft : public Draft {
 public:
  FaultyTextDraft(Model& model, int, int draft_max) : model_(model), draft_max_(draft_max) {}
  int draft_max() const override { return draft_max_; }
  void observe(std::span<const Token> committed, std::span<const float>) override {
    text_.insert(text_.end(), committed.begin(), committed.end());
    last_committed_ = static_cast<int>(committed.size());
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    draw_after(text_, anchor, limit, builder);
  }
  void forget() override { text_.clear(); }
  Fingerprint digest() const override {
    Digest digest;
    digest.add(std::span<const Token>(text_));
    return digest.value();
  }
  std::vector<DraftPositions> positions() const override {
    return {{.held = static_cast<int>(text_.size()), .anchor = anchor_}};
  }

 protected:
  void draw_after(std::vector<Token> text, Token anchor, int limit, ProposalBuilder& builder) {
    anchor_ = static_cast<int>(text.size());
    text.push_back(anchor);
    for (int i = 0; i < limit; ++i) text.push_back(builder.draw(row_after(text)));
  }
  std::span<const float> row_after(const std::vector<Token>& text) {
    const int length = static_cast<int>(text.size());
    const auto cache = model_.new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    forward_alone(model_, {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, outputs_);
    return outputs_.logits_row(0, model_.vocabulary());
  }
  Model& model_;
  int draft_max_;
  std::vector<Token> text_;
  int anchor_ = -1;         // place of the anchor in the text, in the last proposal
  int last_committed_ = 0;  // tokens committed in the last round

 private:
  Outputs outputs_;
};

/// Draws from its rows with a generator of its own and states that nothing was drawn: q is a point. The generator
/// begins anew for every draft token, from the text or only from the token's depth in its round.
template <bool of_text>
class DrawsByItsOwnGenerator final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    std::vector<Token> text = text_;
    anchor_ = static_cast<int>(text.size());
    text.push_back(anchor);
    for (int i = 0; i < limit; ++i) {
      std::uint64_t seed = 1;
      const std::vector<Token> seeds = of_text ? text : std::vector<Token>();
      for (const Token token : seeds) seed = seed * 31 + static_cast<std::uint64_t>(token);
      PhiloxSource own(seed);
      const Key key = {0, i, Purpose::draft};
      const Token token = draftproof::draw(compute_distribution(row_after(text), {.temperature = 1}, {}), key, own);
      builder.add_token(token);
      text.push_back(token);
    }
  }
};

/// Looks at a row before it draws from it, and stops where the two most likely tokens are equally likely.
class StopsWhenUnsure final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    std::vector<Token> text = text_;
    anchor_ = static_cast<int>(text.size());
    text.push_back(anchor);
    for (int i = 0; i < limit; ++i) {
      const auto row = row_after(text);
      if (std::count(row.begin(), row.end(), *std::max_element(row.begin(), row.end())) > 1) return;
      text.push_back(builder.draw(row));
    }
  }
};

/// After a round that committed more than the anchor, continues from the row before the last committed one.
class ContinuesTheWrongRow final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    draw_after(continued(), anchor, limit, builder);
  }
  Fingerprint digest() const override {
    Digest digest;
    digest.add(std::span<const Token>(continued()));
    return digest.value();
  }
  std::vector<DraftPositions> positions() const override {
    return {{.held = static_cast<int>(continued().size()), .anchor = anchor_}};
  }

 private:
  std::vector<Token> continued() const {
    std::vector<Token> text = text_;
    if (last_committed_ > 1) text.pop_back();
    return text;
  }
};

/// Gives a high logit to the token that it drew for the same position before, after a rejected draft token.
class RemembersDraftTokens final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    std::vector<float> row(static_cast<std::size_t>(model_.vocabulary()), 0.0F);
    if (second_ >= 0) row[second_] = 3;
    second_ = -1;
    std::vector<Token> text = text_;
    anchor_ = static_cast<int>(text.size());
    text.push_back(anchor);
    text.push_back(builder.draw(row));
    if (limit > 1) second_ = builder.draw(row_after(text));
  }

 private:
  Token second_ = -1;
};

/// Writes the anchor's row over the last one that it holds.
class AnchorOneEarly final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    std::vector<Token> text = text_;
    if (!text.empty()) text.pop_back();
    draw_after(text, anchor, limit, builder);
  }
};

/// Gets the rows of a round wrong in which some draft tokens were accepted and some were not.
template <int more>
class MiscountsPartialAcceptance final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    FaultyTextDraft::observe(committed, features);
    const bool partial = committed.size() > 1 && static_cast<int>(committed.size()) <= proposed_;
    proposed_ = 0;
    if (!partial) return;
    if (more > 0) text_.push_back(text_.back());
    else text_.pop_back();
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    FaultyTextDraft::propose(anchor, limit, builder);
    proposed_ = limit;
  }

 private:
  int proposed_ = 0;
};

/// A new text begins behind what it held of the one before.
class SurvivesForget final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void forget() override {}
};

/// Two stages, one of which always proposes the same token. When that one has proposed, the other pairs each token with
/// the place of its neighbor.
class MispairsWhatAnotherProposed final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    FaultyTextDraft::observe(committed, features);
    if (other_proposed_) std::rotate(text_.end() - std::ssize(committed), text_.end() - 1, text_.end());
    other_proposed_ = false;
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    other_proposed_ = text_.size() % 2 == 0;
    if (!other_proposed_) return FaultyTextDraft::propose(anchor, limit, builder);
    anchor_ = static_cast<int>(text_.size());
    builder.add_token(1);
  }

 private:
  bool other_proposed_ = false;
};

/// Keeps what all drafts of the process have observed in one table. It proposes from its own text only: with the table
/// no run could be repeated, and nothing enumerated.
class SharesOneTable final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    FaultyTextDraft::observe(committed, features);
    shared_.insert(shared_.end(), committed.begin(), committed.end());
  }
  Fingerprint digest() const override {
    Digest digest;
    digest.add(std::span<const Token>(shared_));
    return digest.value();
  }

 private:
  static inline std::vector<Token> shared_;
};

/// Learns which tokens are neighbors, but not of tokens that come in two calls.
class LosesPairsBetweenCalls final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    FaultyTextDraft::observe(committed, features);
    for (std::size_t i = 1; i < committed.size(); ++i) {
      pairs_.insert(pairs_.end(), {committed[i - 1], committed[i]});
    }
  }
  void propose(Token anchor, int, ProposalBuilder& builder) override {
    anchor_ = static_cast<int>(text_.size());
    for (std::size_t i = 0; i < pairs_.size(); i += 2) {
      if (pairs_[i] == anchor) return builder.add_token(pairs_[i + 1]);
    }
  }
  void forget() override {
    pairs_.clear();
    FaultyTextDraft::forget();
  }
  Fingerprint digest() const override {
    Digest digest;
    digest.add(std::span<const Token>(pairs_));
    return digest.value();
  }

 private:
  std::vector<Token> pairs_;
};

/// Keeps the rows of accepted draft tokens, which it made from its own features, in place of rows made from the
/// target's.
class KeepsRowsOfDraftTokens final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    FaultyTextDraft::observe(committed, features);
    for (std::size_t i = 0; i < committed.size(); ++i) own_rows_.push_back(proposed_ && i > 0);
    proposed_ = false;
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    FaultyTextDraft::propose(anchor, limit, builder);
    proposed_ = true;
  }
  void forget() override {
    own_rows_.clear();
    FaultyTextDraft::forget();
  }
  Fingerprint digest() const override {
    Digest digest;
    digest.add(std::span<const Token>(text_));
    digest.add(std::span<const Token>(own_rows_));
    return digest.value();
  }

 private:
  std::vector<Token> own_rows_;  // 1: from its own features
  bool proposed_ = false;
};

constexpr int positions_of_short_drafts = 4;

/// Says how far it reaches, and goes on behind that.
class DraftsBeyondItsReach final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  int reach() const override { return positions_of_short_drafts; }
};

/// Where its text is full it drops it, and goes on with what comes then.
class BeginsAnewAtItsReach final : public FaultyTextDraft {
 public:
  using FaultyTextDraft::FaultyTextDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    if (std::ssize(text_) + std::ssize(committed) > reach()) text_.clear();
    FaultyTextDraft::observe(committed, features);
  }
  int reach() const override { return positions_of_short_drafts; }
};

/// Drafts over the model as if it had been made for a few positions.
struct OwnDrafter {
  ModelDrafter own;
};
class EndsAtItsReach final : OwnDrafter, public ShortContextDraft {
 public:
  EndsAtItsReach(Model& model, int capacity, int draft_max)
      : OwnDrafter{ModelDrafter(model)}, ShortContextDraft(own, positions_of_short_drafts, capacity, draft_max) {}
};

struct OwnModel {
  std::unique_ptr<Model> own;
};
class DraftWithoutRollback final : OwnModel, public ModelDraft {
 public:
  DraftWithoutRollback(Model& model, int capacity, int draft_max)
      : OwnModel{no_rollback(model, 1)}, ModelDraft(*own, capacity, draft_max) {}
};

template <class Kind>
std::unique_ptr<Draft> made(Model& model, int capacity, int draft_max) {
  return std::make_unique<Kind>(model, capacity, draft_max);
}

}  // namespace

std::unique_ptr<Draft> variable_length(Model& m, int capacity, int draft_max) {
  return made<VariableLength>(m, capacity, draft_max);
}
/// With costs at which a rejection or two turn the decision.
std::unique_ptr<Draft> tuned_length(Model& m, int capacity, int draft_max) {
  DraftCosts costs{.verify = {1}, .draft = {{0}}, .reading = {0}};
  for (int n = 1; n <= std::max(1, draft_max); ++n) {
    costs.verify.push_back(1 + 0.1 * n);
    costs.draft[0].push_back(0.3 * n);
  }
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(std::make_unique<ModelDraft>(m, capacity, draft_max));
  return std::make_unique<ChainDraft>(std::move(stages), Tuner(std::move(costs)), ChainDraft::Costs::as_given);
}
std::unique_ptr<Draft> proposes_the_best(Model& m, int capacity, int draft_max) {
  return made<ProposesTheBest>(m, capacity, draft_max);
}
std::unique_ptr<Draft> hotter_and_narrower(Model& m, int capacity, int draft_max) {
  return made<HotterAndNarrower>(m, capacity, draft_max);
}
std::unique_ptr<Draft> stops_when_unsure(Model& m, int capacity, int draft_max) {
  return made<StopsWhenUnsure>(m, capacity, draft_max);
}
std::unique_ptr<Draft> breaks_ties_differently(Model& m, int capacity, int draft_max) {
  return made<BreaksTiesDifferently>(m, capacity, draft_max);
}
std::unique_ptr<Draft> rounds_before_drawing(Model& m, int capacity, int draft_max) {
  return made<RoundsBeforeDrawing>(m, capacity, draft_max);
}
std::unique_ptr<Draft> draws_by_its_own_generator(Model& m, int capacity, int draft_max) {
  return made<DrawsByItsOwnGenerator<true>>(m, capacity, draft_max);
}
std::unique_ptr<Draft> reseeds_its_own_generator(Model& m, int capacity, int draft_max) {
  return made<DrawsByItsOwnGenerator<false>>(m, capacity, draft_max);
}
std::unique_ptr<Draft> constant(Model& m, int capacity, int draft_max) {
  return made<ConstantDraft>(m, capacity, draft_max);
}
std::unique_ptr<Draft> proposes_the_neighbor(Model& m, int capacity, int draft_max) {
  return made<ProposesTheNeighbor>(m, capacity, draft_max);
}
std::unique_ptr<Draft> continues_the_wrong_row(Model& m, int capacity, int draft_max) {
  return made<ContinuesTheWrongRow>(m, capacity, draft_max);
}
std::unique_ptr<Draft> draft_without_rollback(Model& m, int capacity, int draft_max) {
  return made<DraftWithoutRollback>(m, capacity, draft_max);
}
std::unique_ptr<Draft> remembers_draft_tokens(Model& m, int capacity, int draft_max) {
  return made<RemembersDraftTokens>(m, capacity, draft_max);
}
std::unique_ptr<Draft> anchor_one_early(Model& m, int capacity, int draft_max) {
  return made<AnchorOneEarly>(m, capacity, draft_max);
}
std::unique_ptr<Draft> drops_a_row_of_partial_acceptance(Model& m, int capacity, int draft_max) {
  return made<MiscountsPartialAcceptance<-1>>(m, capacity, draft_max);
}
std::unique_ptr<Draft> repeats_a_row_of_partial_acceptance(Model& m, int capacity, int draft_max) {
  return made<MiscountsPartialAcceptance<1>>(m, capacity, draft_max);
}
std::unique_ptr<Draft> survives_forget(Model& m, int capacity, int draft_max) {
  return made<SurvivesForget>(m, capacity, draft_max);
}
std::unique_ptr<Draft> mispairs_what_another_proposed(Model& m, int capacity, int draft_max) {
  return made<MispairsWhatAnotherProposed>(m, capacity, draft_max);
}
std::unique_ptr<Draft> shares_one_table(Model& m, int capacity, int draft_max) {
  return made<SharesOneTable>(m, capacity, draft_max);
}
std::unique_ptr<Draft> loses_pairs_between_calls(Model& m, int capacity, int draft_max) {
  return made<LosesPairsBetweenCalls>(m, capacity, draft_max);
}
std::unique_ptr<Draft> drafts_beyond_its_reach(Model& m, int capacity, int draft_max) {
  return made<DraftsBeyondItsReach>(m, capacity, draft_max);
}
std::unique_ptr<Draft> begins_anew_at_its_reach(Model& m, int capacity, int draft_max) {
  return made<BeginsAnewAtItsReach>(m, capacity, draft_max);
}
std::unique_ptr<Draft> ends_at_its_reach(Model& m, int capacity, int draft_max) {
  return made<EndsAtItsReach>(m, capacity, draft_max);
}
std::unique_ptr<Draft> keeps_rows_of_draft_tokens(Model& m, int capacity, int draft_max) {
  return made<KeepsRowsOfDraftTokens>(m, capacity, draft_max);
}

}  // namespace draftproof::zoo
