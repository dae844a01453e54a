// SPDX-License-Identifier: MIT
// Rows of p, from a target and from a trace, without any replay.
#include "oracle/spectrace/row_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>

#include "tests/spectrace/support.h"

namespace draftproof::spectrace::row_source_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SequenceEvent some_sequence(const std::string& numerics = "hash") {
  SequenceEvent declared;
  declared.prompt = {1, 2, 3};
  declared.sampling.temperature = 1;
  declared.numerics = numerics;
  return declared;
}

Header some_header() {
  Header header;
  header.vocabulary = 6;
  header.total = Distribution::total;
  return header;
}

/// A source of rows with one open sequence.
struct Rows {
  explicit Rows(const TraceTarget& of, const SequenceEvent& declared = some_sequence())
      : target(of), sequence(declared, Findings(report, {})) {
    source.open(sequence);
  }
  KnownRow after(const RoundEvent& round = {}) { return source.after(sequence, round, 0, Findings(report, {})); }

  Header header = some_header();
  TraceTarget target;
  TraceReport report;
  OpenSequence sequence;
  RowSource source{header, target, report};
};

RoundEvent stating(const Distribution& row) {
  RoundEvent round;
  round.p_rows = {row};
  return round;
}

/// The target of `recorded` as one that computes in other numerics than the sequence.
TraceTarget other_target(Recorded& recorded, double slack) {
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&recorded] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  target.slack = slack;
  return target;
}

TEST(RowSource, GivesTheTargetsRowAfterTheText) {
  Recorded recorded;
  Rows rows(recorded.target());
  const KnownRow known = rows.after();
  EXPECT_TRUE(known.own);
  EXPECT_EQ(known.p, plain_row(recorded.model(), {.temperature = 1}, rows.sequence.text).distribution);
  EXPECT_EQ(rows.report.examined.rows, 1);
}

TEST(RowSource, WithoutATargetOnlyAStatedRowIsKnown) {
  Rows rows(TraceTarget{});
  EXPECT_EQ(rows.after().distribution(), nullptr);
  const KnownRow known = rows.after(stating(Distribution::point(4)));
  EXPECT_EQ(known.p, Distribution::point(4));
  EXPECT_FALSE(known.own);
  EXPECT_TRUE(rows.report.findings.empty());
}

TEST(RowSource, AStatedRowThatIsNotTheTargetsIsAFindingAndTheTargetsIsKnown) {
  Recorded recorded;
  Rows rows(recorded.target());
  const KnownRow known = rows.after(stating(Distribution::point(4)));
  ASSERT_EQ(rows.report.findings.size(), 1U);
  EXPECT_STREQ(rows.report.findings[0].check, "p_row");
  EXPECT_EQ(rows.report.findings[0].expected, "row 0 of the target has other weights");
  EXPECT_NE(known.p, Distribution::point(4));
}

TEST(RowSource, AStatedRowOfOtherNumericsMustLieWithinTheSlack) {
  Recorded recorded;
  Rows rows(other_target(recorded, 1e-3), some_sequence("another"));
  EXPECT_TRUE(rows.source.is_foreign(0));
  const KnownRow known = rows.after(stating(rows.after().near->p));
  EXPECT_FALSE(known.own);
  EXPECT_TRUE(rows.report.findings.empty());
  rows.after(stating(Distribution::point(4)));
  ASSERT_EQ(rows.report.findings.size(), 1U);
  EXPECT_THAT(rows.report.findings[0].expected, HasSubstr("the stated row is at most 0.001 away"));
}

TEST(RowSource, ATargetOfOtherNumericsIsNotUsedWithoutSlackAndTheReportNamesTheFlag) {
  Recorded recorded;
  Rows rows(other_target(recorded, 0), some_sequence("another"));
  EXPECT_FALSE(rows.source.has_target(0));
  EXPECT_THAT(rows.report.advice, HasSubstr("--slack TV"));
  EXPECT_THAT(rows.report.unproved, ElementsAre(HasSubstr("numerics 'another', which are not available here")));
}

TEST(RowSource, ASequenceThatItsTargetCannotFollowHasStatedRowsOnly) {
  Recorded recorded;
  Rows rows(recorded.target());
  rows.source.leave(0);
  EXPECT_FALSE(rows.source.has_target(0));
  EXPECT_EQ(rows.after().distribution(), nullptr);
  EXPECT_FALSE(rows.source.logits(rows.sequence));
}

TEST(RowSource, RowsDoNotDependOnWhichSequenceWasReadBefore) {
  Recorded recorded;
  Rows rows(recorded.target());
  std::list<OpenSequence> sequences;
  for (int id = 1; id < 4; ++id) {
    SequenceEvent declared = some_sequence();
    declared.sequence = id;
    declared.prompt.assign(static_cast<std::size_t>(100 * id), id);
    rows.source.open(sequences.emplace_back(declared, Findings(rows.report, {})));
  }
  for (int turn = 0; turn < 12; ++turn) {
    for (OpenSequence& sequence : sequences) {
      const KnownRow known = rows.source.after(sequence, {}, 0, Findings(rows.report, {}));
      EXPECT_EQ(known.p, plain_row(recorded.model(), {.temperature = 1}, sequence.text).distribution);
      sequence.text.push_back(turn % 6);
    }
  }
}

}  // namespace
}  // namespace draftproof::spectrace::row_source_test
