// SPDX-License-Identifier: MIT
// Shared by the tests of the decoding loop: a plain reference loop, drafts that follow a script, and wrappers of models
// and drafts that record calls or fail on purpose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ref/acceptance/draw.h"
#include "ref/decoding/decoder.h"
#include "ref/drafts/control_drafts.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/models/hash.h"

namespace draftproof {

/// A request and how it is executed.
struct Asked : Request, Execution {};

inline Asked asked(std::vector<Token> prompt, int max_new_tokens, int draft_max = 0, Sampling sampling = {},
                   std::vector<Token> stops = {}) {
  Asked request;
  request.prompt = std::move(prompt);
  request.sampling = sampling;
  request.stops = std::move(stops);
  request.max_new_tokens = max_new_tokens;
  request.draft_max = draft_max;
  return request;
}

/// What a cache that keeps tokens holds of a text under a context shift.
inline std::vector<Token> kept_of(std::span<const Token> text, const std::optional<ContextShift>& shift) {
  std::vector<Token> kept;
  for (const Token token : text) {
    if (shift && std::ssize(kept) == shift->context) {
      kept.erase(kept.begin() + shift->keep, kept.begin() + shift->keep + shift->discard);
    }
    kept.push_back(token);
  }
  return kept;
}

/// Plain autoregressive decoding without the code under test: every row is computed from scratch.
inline std::vector<Token> plain_output(Model& target, const Request& request, std::uint64_t seed) {
  PhiloxSource random(seed);
  Outputs outputs;
  std::vector<Token> text = request.prompt;
  while (text.size() < request.prompt.size() + static_cast<std::size_t>(request.max_new_tokens)) {
    const std::vector<Token> kept = kept_of(text, request.context_shift);
    const int length = static_cast<int>(kept.size());
    const auto cache = target.new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    forward_alone(target, {.cache = cache.get(), .tokens = kept, .logits_from = length - 1}, outputs);
    const Distribution p = compute_distribution(outputs.logits, request.sampling, {text, {}});
    text.push_back(draw(p, {request.sequence, static_cast<int>(text.size()), Purpose::target}, random));
    if (std::find(request.stops.begin(), request.stops.end(), text.back()) != request.stops.end()) break;
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(request.prompt.size()), text.end()};
}

/// Returns the digest of a cache that saw only `text`, in one pass.
inline Fingerprint cache_after(Model& target, std::span<const Token> text) {
  const int length = static_cast<int>(text.size());
  const auto cache = target.new_cache(std::max(1, length), std::max(1, length));
  if (length > 0) {
    Outputs outputs;
    Transaction transaction = cache->begin(length);
    forward_alone(target, {.cache = cache.get(), .tokens = text, .logits_from = length}, outputs);
    transaction.commit(length);
  }
  return cache->digest();
}

/// One place of a scripted proposal.
enum class Slot { right, wrong, stop };
/// Returns the places of round `round`, at most `limit` of them.
using Script = std::function<std::vector<Slot>(int round, int limit)>;

struct NamedScript {
  std::string name;
  Script script;
};

inline Script reject_at(int slot) {
  return [slot](int, int limit) {
    std::vector<Slot> block(static_cast<std::size_t>(limit), Slot::right);
    if (slot < limit) block[slot] = Slot::wrong;
    return block;
  };
}

inline Script stop_at(int slot) {
  return [slot](int, int limit) {
    std::vector<Slot> block(static_cast<std::size_t>(limit), Slot::right);
    if (slot < limit) block[slot] = Slot::stop;
    return block;
  };
}

/// Alternates `first` and `second`.
inline Script in_turn(Script first, Script second) {
  return [first = std::move(first), second = std::move(second)](int round, int limit) {
    return round % 2 == 0 ? first(round, limit) : second(round, limit);
  };
}

inline std::vector<NamedScript> all_scripts() {
  const Script accept_all = reject_at(1 << 20);
  const Script reject_all = [](int, int limit) { return std::vector(static_cast<std::size_t>(limit), Slot::wrong); };
  const Script empty = [](int, int) { return std::vector<Slot>(); };
  const Script varying = [](int round, int limit) {
    return std::vector(static_cast<std::size_t>(round % (limit + 1)), Slot::right);
  };
  const Script any = [](int round, int limit) {
    std::vector<Slot> block;
    std::uint32_t state = static_cast<std::uint32_t>(round * 97 + limit);
    for (int i = 0; i < limit; ++i) {
      state = state * 1664525U + 1013904223U;
      if (state >> 29 == 0) break;
      block.push_back(state >> 28 == 3 ? Slot::stop : state >> 28 > 12 ? Slot::wrong : Slot::right);
    }
    return block;
  };
  const Script two_rejections = [=](int round, int limit) {
    return round % 4 < 2 ? reject_all(round, limit) : accept_all(round, limit);
  };
  std::vector<NamedScript> scripts = {
      {"accept all", accept_all},
      {"reject all", reject_all},
      {"two rejections in a row", two_rejections},
      {"nothing after accepts", in_turn(accept_all, empty)},
      {"nothing after rejections", in_turn(reject_all, empty)},
      {"no draft tokens", empty},
      {"varying lengths", varying},
      {"anything", any},
  };
  for (int slot = 0; slot < 8; ++slot) {
    scripts.push_back({"reject at " + std::to_string(slot), reject_at(slot)});
    scripts.push_back({"stop token at " + std::to_string(slot), stop_at(slot)});
  }
  return scripts;
}

/// Knows the plain text, and proposes right or wrong tokens as its script specifies.
class KnowingDraft final : public Draft {
 public:
  /// `truth`: prompt and plain output without stop tokens, longer than any run.
  KnowingDraft(Script script, std::vector<Token> truth, int vocabulary, Token stop, int draft_max)
      : script_(std::move(script)),
        truth_(std::move(truth)),
        vocabulary_(vocabulary),
        stop_(stop),
        draft_max_(draft_max) {}

  int draft_max() const override { return draft_max_; }
  void observe(std::span<const Token> run, std::span<const float>) override { observed_ += run.size(); }
  void forget() override { observed_ = 0; }
  void propose(Token, int limit, ProposalBuilder& builder) override {
    std::size_t position = observed_ + 1;
    for (const Slot slot : script_(round_++, limit)) {
      const Token right = position < truth_.size() ? truth_[position] : 0;
      builder.add_token(slot == Slot::right ? right : slot == Slot::stop ? stop_ : (right + 1) % vocabulary_);
      ++position;
    }
  }

 private:
  Script script_;
  std::vector<Token> truth_;
  int vocabulary_;
  Token stop_;
  int draft_max_;
  std::size_t observed_ = 0;
  int round_ = 0;
};

/// Knows the plain text and proposes a tree around it: in every place a wrong token with a child, then the right token,
/// and at the end a third one. `drawn`: the first branch is drawn from a model, with the right token as a sibling.
class TreeDraft final : public ModelDraft {
 public:
  TreeDraft(Model& model, int capacity, int draft_max, std::vector<Token> truth, bool drawn)
      : ModelDraft(model, capacity, draft_max),
        vocabulary_(model.vocabulary()),
        truth_(std::move(truth)),
        drawn_(drawn) {}

  void observe(std::span<const Token> run, std::span<const float> features) override {
    ModelDraft::observe(run, features);
    observed_ += run.size();
  }

  void forget() override {
    ModelDraft::forget();
    observed_ = 0;
  }
  Cache* context() override { return nullptr; }

  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    const auto truth = [&] { return truth_[std::min(observed_ + 1 + builder.branch().size(), truth_.size() - 1)]; };
    if (drawn_) {
      while (builder.size() < limit) {
        const Token right = truth();
        if (builder.draw(row_after(anchor, builder.branch())) != right && builder.size() < limit) {
          builder.add_sibling(right);
        }
      }
      return;
    }
    const auto name = [&](Token token) {
      if (builder.size() < limit && !builder.contains(builder.branch(), token)) builder.add_token(token);
    };
    for (int depth = 0; builder.size() < limit; ++depth) {
      const Token right = truth();
      name((right + 1) % vocabulary_);
      name(right);
      builder.rewind_to(depth);
      const int before = builder.size();
      name(right);
      if (builder.size() == before) break;  // it was added already
    }
    builder.rewind_to(0);
    name(0);
  }

 private:
  int vocabulary_;
  std::vector<Token> truth_;
  bool drawn_;
  std::size_t observed_ = 0;
};

/// Wraps a draft: records the calls of the loop, and calls `before` each time.
class WatchedDraft final : public Draft {
 public:
  enum class Call { propose, observe };

  explicit WatchedDraft(std::unique_ptr<Draft> inner) : inner_(std::move(inner)) { observed_.reserve(1024); }

  std::function<void(Call)> before;

  const std::vector<Token>& observed() const { return observed_; }
  const std::string& fault() const { return fault_; }

  int draft_max() const override { return inner_->draft_max(); }
  std::span<const int> taps() const override { return inner_->taps(); }
  void observe(std::span<const Token> run, std::span<const float> features) override {
    if (before) before(Call::observe);
    if (run.empty()) fault_ = "an empty run is observed";
    if (run.size() > static_cast<std::size_t>(std::max(max_chunk, 1 + draft_max()))) fault_ = "a run is too long";
    inner_->observe(run, features);
    observed_.insert(observed_.end(), run.begin(), run.end());
  }
  void forget() override {
    inner_->forget();
    observed_.clear();
  }
  void use_target_cache(Cache& cache) override {
    target_ = &cache;
    inner_->use_target_cache(cache);
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    if (before) before(Call::propose);
    if (limit < 1 || limit > inner_->draft_max()) fault_ = "a limit lies outside what the draft can do";
    if (target_ == nullptr || target_->end() != target_->length() || target_->length() != std::ssize(observed_)) {
      fault_ = "the target's cache does not hold what was observed";
    }
    if (builder.size() != 0) fault_ = "a round starts with draft tokens";
    inner_->propose(anchor, limit, builder);
  }
  Fingerprint digest() const override { return inner_->digest(); }

 private:
  std::unique_ptr<Draft> inner_;
  std::vector<Token> observed_;
  const Cache* target_ = nullptr;
  std::string fault_;
};

/// Wraps a model: calls `before` and `after` each pass; either may throw or set a flag. `change` may change outputs.
class WatchedModel final : public Model {
 public:
  explicit WatchedModel(Model& inner) : inner_(inner) {}

  std::function<void()> before;
  std::function<void()> after;
  std::function<void(std::span<const Segment>, Outputs&)> change;

  int vocabulary() const override { return inner_.vocabulary(); }
  int context() const override { return inner_.context(); }
  int layers() const override { return inner_.layers(); }
  int hidden() const override { return inner_.hidden(); }
  const Embeddings* embeddings() const override { return inner_.embeddings(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return inner_.new_cache(capacity, max_pending_rows);
  }
  void forward(std::span<const Segment> batch, Outputs& outputs) override {
    if (before) before();
    inner_.forward(batch, outputs);
    if (change) change(batch, outputs);
    if (after) after();
  }

 private:
  Model& inner_;
};

/// Compares all parts of two traces that depend neither on time nor on how proposals were verified. Returns an empty
/// string when they are equal.
inline std::string difference(const Trace& a, const Trace& b) {
  if (a.prompt_logprobs != b.prompt_logprobs) return "the logprobs of the prompts differ";
  if (a.output != b.output) return "the outputs differ";
  if (a.finish != b.finish) return std::string("one ends by ") + name_of(a.finish) + ", one by " + name_of(b.finish);
  if (a.final_length != b.final_length) return "the final lengths differ";
  if (!(a.final_draft == b.final_draft)) return "the drafts have observed different texts";
  if (a.rounds.size() != b.rounds.size()) return "the numbers of rounds differ";
  for (std::size_t i = 0; i < a.rounds.size(); ++i) {
    const Round& x = a.rounds[i];
    const Round& y = b.rounds[i];
    const auto differ = [&](const char* what) { return std::string(what) + " of round " + std::to_string(i); };
    if (x.position != y.position || x.anchor != y.anchor) return differ("position or anchor");
    if (x.proposal.tokens != y.proposal.tokens) return differ("draft_tokens");
    if (x.proposal.drawn_from != y.proposal.drawn_from) return differ("distributions of the draft tokens");
    if (!(x.verdict == y.verdict)) return differ("verdict");
    if (x.emitted != y.emitted || x.accepted != y.accepted) return differ("emitted tokens");
    if (x.logits != y.logits) return differ("logits");
    if (x.targets != y.targets) return differ("target distributions");
    if (!(x.cache == y.cache) || x.cache_length != y.cache_length) return differ("cache");
    if (!(x.draft == y.draft)) return differ("draft");
  }
  return "";
}

}  // namespace draftproof
