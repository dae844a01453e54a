// SPDX-License-Identifier: MIT
#include "zoo/constraint.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace draftproof::zoo {
namespace {

class SumConstraint final : public Constraint {
 public:
  SumConstraint(int vocabulary, int length, std::vector<Token> stops)
      : vocabulary_(vocabulary), length_(length), stops_(std::move(stops)) {}
  std::unique_ptr<ConstraintReader> reader() const override { return std::make_unique<Reader>(*this); }

 private:
  class Reader final : public ConstraintReader {
   public:
    explicit Reader(const SumConstraint& sums) : sums_(sums), set_(sums.vocabulary_) {}

    bool possible(std::span<const Token> output) override {
      if (static_cast<int>(output.size()) > sums_.length_) return false;
      for (std::size_t i = 0; i < output.size(); ++i) {
        if (!follows(output.first(i), output[i])) return false;
      }
      return true;
    }
    const TokenSet& allowed(std::span<const Token> output) override {
      set_.clear();
      if (!possible(output) || complete(output) || stopped(output)) return set_;
      for (Token token = 0; token < sums_.vocabulary_; ++token) {
        if (follows(output, token)) set_.add(token);
      }
      return set_;
    }
    bool complete(std::span<const Token> output) override {
      return static_cast<int>(output.size()) == sums_.length_ && possible(output) && !stopped(output);
    }

   private:
    bool stops(Token token) const { return std::ranges::find(sums_.stops_, token) != sums_.stops_.end(); }
    bool stopped(std::span<const Token> output) const { return !output.empty() && stops(output.back()); }
    bool follows(std::span<const Token> output, Token token) const {
      if (stopped(output)) return false;
      const int sum = std::accumulate(output.begin(), output.end(), 0);
      if (stops(token)) return sum % 2 != 0;
      if (!output.empty() && output.back() == 4) return token == 2;
      return (sum + token) % 3 != 0;
    }

    const SumConstraint& sums_;
    TokenSet set_;
  };

  int vocabulary_;
  int length_;
  std::vector<Token> stops_;
};

}  // namespace

std::shared_ptr<const Constraint> zoo_constraint(int vocabulary, int length, std::vector<Token> stops) {
  return std::make_shared<SumConstraint>(vocabulary, length, std::move(stops));
}

std::vector<ExactCase> constrained_cases(const Rule& rule) {
  std::vector<ExactCase> list;
  for (const Sampling& sampling :
       {Sampling{.temperature = 1}, Sampling{}, Sampling{.temperature = 0.7F, .top_k = 2, .logit_bias = {{0, 1.5F}}}}) {
    for (const Token stop : {0, 2}) {
      for (const char* const draft :
           {"perturbed", "scripted:+", "scripted:0", "scripted:+0", "scripted:2", "scripted:+2", "scripted:~~/+",
            "scripted:++0", "scripted:+<*", "scripted:0<*<1"}) {
        for (const Verification verification : {Verification::batched, Verification::serial}) {
          ExactCase exact_case;
          Request& request = exact_case.input.request;
          request.prompt = {1, 2, 1};
          request.sampling = sampling;
          request.stops = {stop};
          request.max_new_tokens = 4;
          request.constraint = zoo_constraint(exact_case.vocabulary, 3, request.stops);
          Variation& variation = exact_case.input.variation;
          variation.draft = draft;
          variation.draft_max = 3;
          variation.rule = &rule;
          variation.verification = verification;
          list.push_back(std::move(exact_case));
        }
      }
    }
  }
  return list;
}

}  // namespace draftproof::zoo
