// SPDX-License-Identifier: MIT
// Where p comes from: the target's row after the text of a trace, and the row that the trace states there, held to each
// other and to what the sequence declares. Without a target only the stated row is known.
//
//     RowSource rows(header, target, report);
//     rows.open(sequence);
//     const KnownRow known = rows.after(sequence, round, row, findings);  // sequence.text ends before the row
//     rows.close(sequence.declared.sequence);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracle/spectrace/exact_rows.h"
#include "oracle/spectrace/findings.h"
#include "oracle/spectrace/known_row.h"
#include "oracle/spectrace/open_sequence.h"
#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/trace_target.h"

namespace draftproof::spectrace {

class RowSource {
 public:
  /// All outlive it.
  RowSource(const Header& header, const TraceTarget& target, TraceReport& report)
      : header_(header), target_(target), report_(report), exact_(target, report) {}

  /// Gives the sequence a target in the numerics it was computed in, or any target when slack is granted. Names in the
  /// report why it has none, and what changes its logits and is not known here.
  void open(const OpenSequence& sequence);
  /// Takes the target away from a sequence that it cannot follow any further.
  void leave(std::int64_t sequence);
  void close(std::int64_t sequence);

  bool has_target(std::int64_t sequence) const { return rows_.at(sequence).reader != nullptr; }
  /// Returns whether the sequence was computed in other numerics: its rows need not be the target's own.
  bool is_foreign(std::int64_t sequence) const { return rows_.at(sequence).foreign; }

  /// Lets rows of the target be those of a shifted context; without a target that can do so, they are not known.
  void shift(const ShiftEvent& shift);

  /// Returns whether nothing may follow the text, with these tokens behind it, by a grammar that is known here.
  bool complete(const OpenSequence& sequence, std::span<const Token> more = {}) const;

  /// Checks the digest of the target's cache after a round, where that is stated: it has read the text but its last
  /// token.
  void expect_state(const OpenSequence& sequence, const RoundEvent& round, const Findings& findings);

  /// Returns the row after the text, which ends in the first `row` tokens of the round: computed where possible, else
  /// as the trace states it.
  KnownRow after(const OpenSequence& sequence, const RoundEvent& round, std::size_t row, const Findings& findings);

  /// Returns the target's logits of the row that was asked for last; nothing where there is no row, or where it may be
  /// any distance from the sequence's.
  std::optional<std::span<const double>> logits(const OpenSequence& sequence) const;

  /// Of the row that was asked for last, where it is one of a sequence of other numerics: how far the reference's
  /// logits lie from exact ones at most; the exact logits, nullptr where they are not known; whether an engine within
  /// the slack of these may emit the token.
  double reference_error(const OpenSequence& sequence);
  const std::vector<double>* exact_logits(const OpenSequence& sequence);
  bool allows_exactly(const OpenSequence& sequence, Token token);

 private:
  struct TargetRows {  // of one sequence
    std::shared_ptr<Model> target;
    std::unique_ptr<PlainReader> reader;                 // null: p is taken as the trace states it
    std::vector<std::unique_ptr<PlainReader>> suspects;  // empty where nothing is bet on; null: cannot follow
    bool foreign = false;
  };
  const std::vector<std::string>& order_of(const SequenceEvent& declared) const;
  void name_adjustments(const SequenceEvent& declared);
  std::unique_ptr<ConstraintReader> constraint_of(const SequenceEvent& declared) const;
  void hold_to_target(const OpenSequence& sequence, TargetRows& rows);
  void name_missing_target(const OpenSequence& sequence, bool compared, bool order_known);
  const std::string& foreign(const std::string& numerics);

  std::int64_t positions(const OpenSequence& sequence, const TargetRows& rows) const;
  const PlainRow& read(const OpenSequence& sequence, PlainReader& reader, const TokenSet* stated);
  std::vector<std::optional<Distribution>> suspected(const OpenSequence& sequence, const TargetRows& rows);
  void expect_allowed(const RoundEvent& round, std::size_t row, const PlainReader* reader, const Findings& findings);
  void expect_own(const RoundEvent& round, std::size_t row, const PlainRow& plain, KnownRow& known,
                  const Findings& findings) const;
  void expect_near(const OpenSequence& sequence, std::size_t row, const PlainReader& reader, KnownRow& known,
                   const Findings& findings);
  std::optional<NearbyDistribution> near_exact(const OpenSequence& sequence, const PlainReader& reader);
  void expect_declared(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                       const Findings& findings) const;
  void expect_ratio(const OpenSequence& sequence, std::size_t row, const TopTwo& best, double first, double second,
                    const Findings& findings) const;

  const Header& header_;
  const TraceTarget& target_;
  TraceReport& report_;
  ExactRows exact_;
  std::optional<std::string> foreign_;       // numerics
  std::map<std::int64_t, TargetRows> rows_;  // of open sequences
  std::vector<PlainReader*> readers_;        // those with a KV cache; the one read last is the last
};

}  // namespace draftproof::spectrace
