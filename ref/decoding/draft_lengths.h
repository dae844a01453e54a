// SPDX-License-Identifier: MIT
// How many draft tokens each round pays for when texts share passes. A pass that is bound by memory reads the weights
// once for all of its rows, so the rows of draft tokens cost little. The more texts there are, the more rows a pass has
// without them, until it is bound by arithmetic and every row costs its share: then fewer draft tokens pay, or none.
//
// With a(d) the estimate of how often the draft token of a text at depth d is accepted when all before it were, its
// draft token at depth d is expected to give a(1) ... a(d) tokens. The rows of a pass go to the draft tokens that are
// expected to give most, of whatever text, and are as many as give most tokens per second, of all texts together. So
// texts whose draft tokens are accepted more often have more of them.
//
// A text without draft tokens shows nothing of them. One of these texts tries some from time to time, so rarely that
// all tries take a hundredth of the time, and never where they would not pay if nearly all were accepted. Its draft
// then observes first what was decoded without it (chain.h); that counts as time of the try.
//
// What passes and proposals take was measured with one text. What they take with several is learned as they are run.
//
// The choice depends on measured times, so it may only be used where draft lengths change no text: under `matching`.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "ref/drafts/costs.h"

namespace draftproof {

class DraftLengths {
 public:
  static constexpr int rows_measured = 32;  // of passes, for costs that say enough

  /// `costs.verify` has at least two entries, all above 0.
  explicit DraftLengths(DraftCosts costs);

  struct Depth {
    double tried = 0;
    double accepted = 0;
  };
  /// What one text has shown of its draft tokens.
  struct Text {
    std::vector<Depth> depths;
    long asked = 0;  // the choice that gave it draft tokens last
  };

  /// Returns the most draft tokens of the next round of each of these texts, which share a pass with so many other
  /// rows.
  const std::vector<int>& choose(std::span<Text* const> texts, int other_rows = 0);

  /// What a round is expected to give with draft tokens.
  struct Worth {
    int draft_tokens = 0;
    double tokens = 1;  // of its output
    double times = 1;   // as long as a round without draft tokens takes
    double speedup() const { return tokens / times; }
  };
  /// That of each of so many rounds that share a pass, of texts like those before, with as many draft tokens as give
  /// most per second; at least one, where the draft has any.
  Worth worth(int texts) const;

  /// Learns of a round of a text.
  void learn(Text& text, int drafted, int accepted);

  /// Proposals of several texts.
  struct Proposals {
    int longest = 0;       // the most draft tokens of one
    int draft_tokens = 0;  // of all
    void add(int limit);
  };
  /// Learns what the pass of the last choice took, of so many rows, and its proposals. `late_seconds`: what drafts took
  /// besides to observe first what was decoded without them, which a try costs and no proposal of the next round.
  void learn_pass(int rows, double pass_seconds, const Proposals& proposals, double proposal_seconds,
                  double late_seconds = 0);

  /// The estimate of how often the draft token of a text at a depth, the first has 0, is accepted when all before it
  /// were.
  double share(const Text& text, std::size_t depth) const;
  /// The seconds that proposals and the pass of their draft tokens and so many other rows are expected to take.
  double seconds(int other_rows, const Proposals& proposals) const;

 private:
  static constexpr int size_classes = 64;

  /// Seconds of passes by their rows: lines between those that were met, one of each class of sizes.
  class PassTimes {
   public:
    explicit PassTimes(const std::vector<double>& measured);
    double of(int rows) const;
    void learn(int rows, double seconds);

   private:
    struct Point {
      double rows = 0;  // 0: none of this class was met
      double seconds = 0;
    };
    std::array<Point, size_classes> points_;
    double level_ = 1;  // how many times as long as by the points everything takes now
  };
  /// How many times as long as expected proposals take, by their draft tokens.
  class ProposalFactors {
   public:
    double of(int draft_tokens) const;
    void learn(int draft_tokens, double factor);

   private:
    std::array<double, size_classes> factors_ = {};  // 0: none of this class was met
  };

  double expected(const Proposals& proposals) const;
  void choose_best(std::span<Text* const> texts, int rows);
  void choose_try(std::span<Text* const> texts, int rows);

  DraftCosts costs_;
  std::vector<Depth> depths_;  // of all texts
  PassTimes pass_times_;
  ProposalFactors proposal_factors_;
  std::vector<int> chosen_;
  Proposals chosen_proposals_;
  long choices_ = 0;
  double seconds_without_try_ = 0;  // of the last choice; 0: it has no try
  double allowance_ = 0;            // seconds that tries may take
};

}  // namespace draftproof
