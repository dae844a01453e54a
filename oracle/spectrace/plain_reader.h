// SPDX-License-Identifier: MIT
// Reads rows of plain autoregressive decoding (plain_row, oracle/plain/plain.h) after a growing text, and starts again
// when the text does not continue the last one. Shifts the context where it was told to. With a float64 twin the logits
// are the twin's, and exact.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oracle/plain/plain.h"
#include "oracle/twin/twin.h"
#include "ref/acceptance/constraint.h"
#include "ref/acceptance/feedback.h"

namespace draftproof::spectrace {

class PlainReader {
 public:
  /// `target` outlives the reader. `prompt`: tokens of the prompt, after which feedback begins. `constraint`: of the
  /// tokens from `constrained_from` on; nullptr: none. Where it lets nothing follow, the `stops` may. `twin`: of the
  /// target; nullptr: none.
  PlainReader(Model& target, const Sampling& sampling, std::size_t prompt = 0,
              std::unique_ptr<ConstraintReader> constraint = nullptr, std::size_t constrained_from = 0,
              std::vector<Token> stops = {}, std::shared_ptr<const Twin> twin = nullptr)
      : target_(target),
        sampling_(sampling),
        prompt_(prompt),
        constraint_(std::move(constraint)),
        constrained_from_(constrained_from),
        stops_(std::move(stops)),
        twin_(std::move(twin)) {}

  /// Returns the row after `text`, which has at least one token and, without what was dropped, at most the target's
  /// context; valid until the next call; of a twin it is empty. A text that does not continue the last one is read from
  /// its start. `stated`: the tokens that may follow, in place of what the constraint says; nullptr: these.
  const PlainRow& after(std::span<const Token> text, const TokenSet* stated = nullptr);
  /// Returns the digest of the target's cache that has read `text`; nothing where it is not known: of the twin, of no
  /// text, of one that ends before the constraint begins.
  std::optional<Fingerprint> state_after(std::span<const Token> text);

  /// From now on positions [keep, keep + discard) of the cache are dropped once `tokens_read` tokens of a text are
  /// read, at least as many as at the last shift. The cache has these positions. Returns why the target's cache cannot
  /// drop them, a clause; empty when it can.
  std::string shift(int tokens_read, int keep, int discard);
  /// Returns how many positions were dropped in all.
  int dropped() const noexcept { return dropped_; }
  /// Returns the logits of the row read last, and what masks them; nullptr: nothing does.
  std::span<const double> logits() const noexcept { return logits_; }
  const TokenSet* allowed() const noexcept { return allowed_ ? &*allowed_ : nullptr; }
  /// Returns what the constraint alone lets follow; nullptr: anything.
  const TokenSet* allowed_by_constraint() const noexcept { return by_constraint_ ? &*by_constraint_ : nullptr; }
  /// Returns whether nothing may follow this text by the constraint.
  bool complete(std::span<const Token> text) {
    return constraint_ && constraint_->complete(text.subspan(constrained_from_));
  }

  /// Returns how many positions the KV cache has room for.
  std::size_t capacity() const noexcept { return capacity_; }
  /// Releases the KV cache; the next text is read from its start.
  void release() noexcept;

 private:
  /// A row, and the feedback that is applied to it.
  struct FedRow {
    Feedback feedback;
    Distribution distribution;
  };
  struct Drop {
    std::size_t tokens_read;
    int keep;
    int discard;
  };
  void read(std::span<const Token> text);
  void mask(std::span<const Token> text, const TokenSet* stated);
  void read_exactly(std::span<const Token> text);
  void read_before(std::span<const Token> text);
  void feed_back(std::span<const Token> text);

  Model& target_;
  Sampling sampling_;
  std::size_t prompt_;
  std::unique_ptr<ConstraintReader> constraint_;
  std::size_t constrained_from_;
  std::vector<Token> stops_;
  std::shared_ptr<const Twin> twin_;
  std::unique_ptr<TwinText> exact_;  // what the twin has read
  std::vector<Drop> drops_;
  int dropped_ = 0;
  std::size_t next_drop_ = 0;  // of the text that is being read
  std::optional<GrowingText> growing_;
  std::size_t capacity_ = 0;
  std::vector<Token> read_;
  std::vector<double> logits_;
  std::optional<TokenSet> by_constraint_;
  std::optional<TokenSet> allowed_;
  std::vector<float> row_logits_;  // the target's own
  PlainRow row_;                   // after read_
  std::vector<Token> fed_;         // the text whose rows are in fed_rows_
  std::vector<FedRow> fed_rows_;   // [i]: after prompt_ + i tokens of it
};

}  // namespace draftproof::spectrace
