// SPDX-License-Identifier: MIT
// Traces of what changes the logits: biases and grammars, which the check applies again, and what is only named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "oracle/spectrace/reader.h"
#include "ref/grammar/grammar_constraint.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace::adjustments_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr Token stop = 5;  // a token without text
constexpr const char* endless = "root ::= ([ab] | \"c\" [abd])*";
constexpr const char* ending = "root ::= ([ab] | \"c\" [abd]){16} \".\"";

std::shared_ptr<const Constraint> constraint_of(const std::string& gbnf, const std::vector<Token>& stops) {
  static const auto tokens = std::make_shared<const TokenTrie>(std::vector<std::string>{"a", "b", "c", "d", ".", ""});
  return std::make_shared<GrammarConstraint>(std::make_shared<const Grammar>(Grammar::from_gbnf(gbnf, "test")), tokens,
                                             stops);
}

struct Adjustments : testing::Test {
  Recorded recorded;

  TraceTarget target() {
    TraceTarget target = recorded.target();
    target.constraint = constraint_of;
    return target;
  }
  static Case constrained(Case c, const std::string& gbnf) {
    c.constraint = constraint_of(gbnf, c.stops);
    c.grammar = gbnf;
    return c;
  }
  TraceReport check(const std::string& text) { return replay(File(text).path(), target()); }
  /// The same, with one field of the line that opens the sequence changed.
  TraceReport check_with(const std::string& text, const char* field, const Json& value) {
    std::vector<std::string> lines = lines_of(text);
    Json opening = Json::parse(lines[1]);
    opening[field] = value;
    lines[1] = opening.dump();
    return check(sealed(lines));
  }
};

Case case_of(const Rule& rule, float temperature, bool stops) {
  return {"",
          &rule,
          {.temperature = temperature},
          "perturbed",
          Verification::batched,
          stops ? std::vector<Token>{stop} : std::vector<Token>{},
          40};
}

TEST_F(Adjustments, EveryTraceWithAGrammarPassesExactlyWithTheTarget) {
  long accepted = 0;
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const float temperature : {0.0F, 1.0F}) {
      for (const bool stops : {false, true}) {
        for (const char* const gbnf : {endless, ending}) {
          const TraceReport report = check(recorded.text(constrained(case_of(*rule, temperature, stops), gbnf)));
          EXPECT_EQ(report.verdict(), ReportVerdict::pass_exact) << gbnf << report_text(make_report(report));
          accepted += report.examined.accepted;
        }
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

/// Engines that apply a grammar wrongly.
struct Wrong final : Constraint, ConstraintReader, std::enable_shared_from_this<Wrong> {
  enum class Fault { mask_one_row_late, no_mask, goes_on_behind_the_end } fault;
  std::unique_ptr<ConstraintReader> right;
  TokenSet tokens{6};

  Wrong(Fault fault, const Constraint& right) : fault(fault), right(right.reader()) {
    for (Token token = 0; token < 6; ++token) tokens.add(token);
  }
  std::unique_ptr<ConstraintReader> reader() const override {
    struct Forward final : ConstraintReader {
      std::shared_ptr<Wrong> to;
      bool possible(std::span<const Token> output) override { return to->possible(output); }
      const TokenSet& allowed(std::span<const Token> output) override { return to->allowed(output); }
      bool complete(std::span<const Token> output) override { return to->complete(output); }
    };
    auto forward = std::make_unique<Forward>();
    forward->to = std::const_pointer_cast<Wrong>(shared_from_this());
    return forward;
  }
  bool possible(std::span<const Token>) override { return true; }
  const TokenSet& allowed(std::span<const Token> output) override {
    if (fault == Fault::no_mask) return tokens;
    if (fault == Fault::mask_one_row_late && !output.empty()) output = output.first(output.size() - 1);
    if (!right->possible(output) || right->complete(output) || right->allowed(output).empty()) return tokens;
    return right->allowed(output);
  }
  bool complete(std::span<const Token> output) override {
    return fault != Fault::goes_on_behind_the_end && right->complete(output);
  }
};

TEST_F(Adjustments, AnEngineThatAppliesAGrammarWronglyIsFound) {
  using Fault = Wrong::Fault;
  for (const Fault fault : {Fault::mask_one_row_late, Fault::no_mask, Fault::goes_on_behind_the_end}) {
    for (const Rule* const rule : {&matching, &rejection}) {
      for (const float temperature : {0.0F, 1.0F}) {
        Case c = case_of(*rule, temperature, false);
        c.constraint = std::make_shared<Wrong>(fault, *constraint_of(ending, c.stops));
        c.grammar = ending;
        const TraceReport report = check(recorded.text(c));
        EXPECT_EQ(report.verdict(), ReportVerdict::bug_proven)
            << static_cast<int>(fault) << ", temperature " << temperature << report_text(make_report(report));
      }
    }
  }
}

TEST_F(Adjustments, ATokenThatTheGrammarForbidsIsFound) {
  const std::string text = recorded.text(constrained(case_of(matching, 1, false), endless));
  ASSERT_EQ(check(text).verdict(), ReportVerdict::pass_exact);
  EXPECT_EQ(check_with(text, "grammar", "root ::= \"b\"+").verdict(), ReportVerdict::bug_proven);
}

TEST_F(Adjustments, AGrammarNeedsATarget) {
  const std::string text = recorded.text(constrained(case_of(matching, 1, false), ending));
  EXPECT_EQ(Json::parse(lines_of(text).back())["reason"], "stop");
  const TraceReport alone = replay(File(text).path());
  EXPECT_TRUE(alone.findings.empty());
  EXPECT_THAT(alone.missing, Contains(HasSubstr("by a grammar, which only a target can read (--target)")));
  TraceTarget without = target();
  without.constraint = {};
  const TraceReport no_tokenizer = replay(File(text).path(), without);
  EXPECT_TRUE(no_tokenizer.findings.empty()) << report_text(make_report(no_tokenizer));
  EXPECT_THAT(no_tokenizer.missing, Contains(HasSubstr("the target has no tokenizer")));
  EXPECT_THAT(check_with(text, "grammar", "root ::= @").missing, Contains(HasSubstr("cannot be read here")));
}

TEST_F(Adjustments, BiasesAreAppliedAgain) {
  for (const Rule* const rule : {&matching, &rejection}) {
    Case c = case_of(*rule, 1, false);
    c.sampling.logit_bias = {{0, 1.5F}, {3, -100}};
    const std::string text = recorded.text(c);
    EXPECT_EQ(check(text).verdict(), ReportVerdict::pass_exact);
    EXPECT_EQ(check_with(text, "logit_bias", {{"0", "0x1.8p+0"}, {"3", -100}}).verdict(), ReportVerdict::pass_exact);
    EXPECT_EQ(check_with(text, "logit_bias", {{"0", 1}, {"3", -100}}).verdict(), ReportVerdict::bug_proven);
    EXPECT_EQ(check_with(text, "logit_bias", nullptr).verdict(), ReportVerdict::bug_proven);
  }
}

TEST_F(Adjustments, SamplersAreAppliedAgainInTheirOrder) {
  struct Change {
    const char* field;
    Json other;
  };
  const Change changes[] = {
      {"top_n_sigma", "0x1.8p-1"},     {"typical_p", "0x1p-3"},       {"dynatemp_range", "0x1p-2"},
      {"dynatemp_exponent", "0x1p+2"}, {"xtc_probability", "0x1p-3"}, {"xtc_threshold", "0x1p-2"},
      {"dry_multiplier", "0x1p-2"},    {"dry_base", "0x1p+2"},        {"dry_allowed_length", 3},
      {"dry_penalty_last_n", 4},       {"dry_breakers", {1, 2, 4}},   {"sampler_order", {"temperature", "xtc"}},
  };
  for (const Rule* const rule : {&matching, &rejection}) {
    Case c = case_of(*rule, 1.5F, false);
    c.max_new_tokens = 60;
    c.sampling.top_p = 0.98F;
    c.sampling.top_n_sigma = 2.5F;
    c.sampling.typical_p = 0.95F;
    c.sampling.dynatemp_range = 0.75F;
    c.sampling.dynatemp_exponent = 0.5F;
    c.sampling.xtc_probability = 0.5F;
    c.sampling.xtc_threshold = 0.15F;
    c.sampling.dry_multiplier = 0.5F;
    c.sampling.dry_base = 1.25F;
    c.sampling.dry_allowed_length = 1;
    c.sampling.dry_penalty_last_n = 20;
    c.sampling.dry_breakers = {5};
    c.sampling.order = llama_cpp_order;
    const std::string text = recorded.text(c);
    const TraceReport report = check(text);
    ASSERT_EQ(report.verdict(), ReportVerdict::pass_exact) << report_text(make_report(report));
    for (const auto& [field, other] : changes) {
      EXPECT_TRUE(Json::parse(lines_of(text)[1]).contains(field)) << field;
      EXPECT_EQ(check_with(text, field, other).verdict(), ReportVerdict::bug_proven) << field;
      EXPECT_EQ(check_with(text, field, nullptr).verdict(), ReportVerdict::bug_proven) << field << " left out";
    }
    EXPECT_THAT(check_with(text, "sampler_order", {"top_p", "of my own"}).unproved,
                Contains(HasSubstr("sampler_order names a sampler that is not known here")));
  }
}

TEST_F(Adjustments, WhatFeedsBackIsAppliedAgain) {
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const bool mirostat : {false, true}) {
      Case c = case_of(*rule, 1.5F, false);
      if (mirostat) c.sampling.mirostat = 2;
      else c.sampling.adaptive_target = 0.3F;
      c.sampling.mirostat_tau = 1.5F;
      c.sampling.adaptive_decay = 0.5F;
      const std::string text = recorded.text(c);
      const TraceReport report = check(text);
      ASSERT_EQ(report.verdict(), ReportVerdict::pass_exact) << report_text(make_report(report));
      const Json half = "0x1p-1";
      for (const char* const field : {"mirostat_tau", "mirostat_eta"}) {
        EXPECT_EQ(check_with(text, field, half).verdict() == ReportVerdict::bug_proven, mirostat) << field;
      }
      for (const auto& [field, value] :
           {std::pair("adaptive_target", half), std::pair("adaptive_decay", Json("0x1p-3"))}) {
        EXPECT_EQ(check_with(text, field, value).verdict() == ReportVerdict::bug_proven, !mirostat) << field;
      }
      EXPECT_EQ(check_with(text, "mirostat", 1).verdict(), ReportVerdict::invalid_trace);
    }
  }
}

/// A round whose p is masked beside the raw logits.
std::string masked_row(const std::string& field) {
  return R"({"type":"header","schema":"spectrace/2","engine":"x","vocabulary":4,"rule":"rejection","dtype":"f64",)"
         R"("prompt":[0],"temperature":"0x1p+0","max_new_tokens":1)" +
         field + "}\n" +
         R"({"type":"round","round":0,"position":1,"emitted":[2],"draft_tokens":[],"accepted":0,"width":1,)"
         R"("next_from":"bonus","q_draft":[],"p_draft":[],"accept_u":[],"next_u":"0x1.8p-1",)"
         R"("p_rows":[[1,"0x1p-1",2,"0x1p-1"]],"top_logits":[[3,"0x1.4p+3",0,"0x1p+3"]]})"
         "\n"
         R"({"type":"end","reason":"length"})"
         "\n";
}

TEST_F(Adjustments, AMaskThatIsDeclaredIsNoContradictionToRawLogits) {
  const TraceReport silent = replay(File(masked_row("")).path());
  ASSERT_EQ(silent.findings.size(), 1U) << "control: nothing declares the mask";
  EXPECT_STREQ(silent.findings[0].check, "declared");
  for (const char* const field : {R"(,"adjustments":["bans"])", R"(,"logit_bias":{"3":-100,"0":-100})",
                                  R"(,"grammar":"root ::= [bc]")", R"(,"json_schema":{"type":"number"})"}) {
    const TraceReport report = replay(File(masked_row(field)).path());
    EXPECT_TRUE(report.findings.empty()) << field << report_text(make_report(report));
    EXPECT_THAT(report.unread, Contains(HasSubstr("may change the order of tokens"))) << field;
  }
  EXPECT_THAT(replay(File(masked_row(R"(,"adjustments":["bans"])")).path()).missing, Contains(HasSubstr("'bans'")));
  EXPECT_THAT(replay(File(masked_row(R"(,"json_schema":{})")).path()).missing, Contains(HasSubstr("'json_schema'")));
  EXPECT_THAT(replay(File(masked_row(R"(,"json_schema":{},"grammar":"root ::= [bc]")")).path()).missing,
              Not(Contains(HasSubstr("'json_schema'"))));
}

TEST_F(Adjustments, RawLogitsDoNotNameTheBestTokenWherePenaltiesOrAMaskDo) {
  const auto greedy = [](const std::string& field) {
    return R"({"type":"header","schema":"spectrace/2","engine":"x","vocabulary":4,"rule":"greedy","dtype":"f64",)"
           R"("prompt":[3],"temperature":"0x0p+0","max_new_tokens":1)" +
           field + "}\n" +
           R"({"type":"round","round":0,"position":1,"emitted":[2],"draft_tokens":[],"accepted":0,"width":1,)"
           R"("next_from":"greedy","p_rows":[[2,"0x1p+0"]],"top_logits":[[3,"0x1.4p+3",2,"0x1p+3"]]})"
           "\n"
           R"({"type":"end","reason":"length"})"
           "\n";
  };
  EXPECT_FALSE(replay(File(greedy("")).path()).findings.empty());
  EXPECT_TRUE(replay(File(greedy(R"(,"presence_penalty":"0x1p+3")")).path()).findings.empty());
  EXPECT_TRUE(replay(File(greedy(R"(,"adjustments":["bans"])")).path()).findings.empty());
}

TEST_F(Adjustments, WhatIsNotReadableIsRefused) {
  const auto refused = [&](const char* field, const Json& value, const std::string& why) {
    const std::string text = recorded.text(case_of(matching, 1, false));
    EXPECT_THAT(check_with(text, field, value).invalid, HasSubstr(why));
  };
  refused("logit_bias", {{"6", 1}}, "is not the bias of a token of the vocabulary");
  refused("logit_bias", {{"x", 1}}, "is not the bias of a token of the vocabulary");
  refused("logit_bias", {{"1", "much"}}, "hexadecimal float");
  refused("grammar", "", "is empty");
  refused("constrained_prompt", 1, "needs the field grammar");
}

/// Returns the trace with what a constraint lets follow at every row stated: as sets in place of the grammar, or as
/// digests beside it. `late`: each row states that of the row before.
std::string with_allowed(const std::string& text, const Constraint& constraint, bool sets, bool late = false) {
  const auto reader = constraint.reader();
  std::vector<std::string> lines = lines_of(text);
  std::vector<Token> output;
  for (std::string& line : lines) {
    Json json = Json::parse(line);
    if (json["type"] == "sequence" && sets) {
      json.erase("grammar");
      json["masked"] = true;
    }
    if (json["type"] == "round") {
      Json allowed = Json::array(), digests = allowed;
      std::vector<Token> row = output;
      const std::vector<Token> draft_tokens = json["draft_tokens"];
      for (int i = 0; i <= json["accepted"].get<int>(); ++i) {
        const std::size_t behind = late && !row.empty() ? 1 : 0;
        const TokenSet set = reader->allowed(std::span(row).first(row.size() - behind));
        Json only = Json::array();
        for (Token token = 0; token < 6; ++token) {
          if (set.has(token)) only.push_back(token);
        }
        allowed.push_back({{"only", only}});
        digests.push_back(fingerprint_of(set, 6).hex());
        if (i < std::ssize(draft_tokens)) row.push_back(draft_tokens[i]);
      }
      if (sets) json["allowed_tokens"] = allowed;
      json["allowed_digests"] = digests;
      for (const Token token : json["emitted"].get<std::vector<Token>>()) output.push_back(token);
    }
    line = json.dump();
  }
  return sealed(lines);
}

TEST_F(Adjustments, TokensThatMayFollowAreAppliedAsTheTraceStatesThem) {
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const float temperature : {0.0F, 1.0F}) {
      const std::string text = recorded.text(constrained(case_of(*rule, temperature, false), endless));
      const TraceReport sets = check(with_allowed(text, *constraint_of(endless, {}), true));
      EXPECT_EQ(sets.verdict(), ReportVerdict::pass_stat) << report_text(make_report(sets));
      EXPECT_THAT(sets.missing, Contains(HasSubstr("as the trace states it (field allowed_tokens)")));
      EXPECT_EQ(check(with_allowed(text, *constraint_of(endless, {}), false)).verdict(), ReportVerdict::pass_exact);
    }
  }
}

TEST_F(Adjustments, AMaskOfTheRowBeforeIsFound) {
  for (const Rule* const rule : {&matching, &rejection}) {
    const std::string text = recorded.text(constrained(case_of(*rule, 1, false), endless));
    for (const bool sets : {true, false}) {
      const TraceReport report = check(with_allowed(text, *constraint_of(endless, {}), sets, true));
      EXPECT_EQ(report.verdict(), ReportVerdict::bug_proven) << report_text(make_report(report));
      EXPECT_THAT(report.findings, Contains(testing::Field(&TraceFinding::check, testing::StrEq("allowed"))));
    }
  }
}

TEST_F(Adjustments, AMaskThatTheGrammarDoesNotAllowIsFoundAndOneThatAllowsLessIsNot) {
  const std::string text = recorded.text(constrained(case_of(matching, 1, false), endless));
  const auto verdict = [&](const Json& row) {
    std::vector<std::string> lines = lines_of(text);
    Json opening = Json::parse(lines[1]);
    opening["masked"] = true;
    lines[1] = opening.dump();
    Json round = Json::parse(lines[2]);
    round["allowed_tokens"] = Json::array();
    for (int i = 0; i <= round["accepted"].get<int>(); ++i) round["allowed_tokens"].push_back(row);
    lines[2] = round.dump();
    return check(sealed(lines));
  };
  EXPECT_EQ(verdict(nullptr).verdict(), ReportVerdict::pass_stat);
  EXPECT_EQ(verdict({{"except", {5}}}).verdict(), ReportVerdict::bug_proven) << "token 3 may follow c only";
  EXPECT_EQ(verdict({{"except", {3, 4, 5}}}).verdict(), ReportVerdict::pass_stat) << "as the grammar at the start";
  EXPECT_THAT(verdict({{"only", Json::array()}}).invalid, HasSubstr("allows no token"));
  EXPECT_THAT(verdict({{"only", {2, 1}}}).invalid, HasSubstr("must be larger than the token before it"));
  EXPECT_THAT(verdict({{"all", {2, 1}}}).invalid, HasSubstr("all"));
  EXPECT_THAT(verdict(Json::object()).invalid, HasSubstr("one of the fields only and except"));
  EXPECT_THAT(check(text.substr(0, text.find('\n') + 1) +
                    [&] {
                      Json round = Json::parse(lines_of(text)[2]);
                      round["allowed_tokens"] = {nullptr};
                      return lines_of(text)[1] + "\n" + round.dump() + "\n";
                    }())
                  .invalid,
              HasSubstr("needs the field masked"));
}

/// What a constraint allows, but for one token that is banned beside it.
struct Banned final : Constraint {
  static constexpr Token banned = 0;
  std::shared_ptr<const Constraint> others;

  explicit Banned(std::shared_ptr<const Constraint> others) : others(std::move(others)) {}
  std::unique_ptr<ConstraintReader> reader() const override {
    struct Reader final : ConstraintReader {
      std::unique_ptr<ConstraintReader> of;
      TokenSet set{6};
      bool possible(std::span<const Token> output) override { return of->possible(output); }
      bool complete(std::span<const Token> output) override { return of->complete(output); }
      const TokenSet& allowed(std::span<const Token> output) override {
        set = of->allowed(output);
        set.remove(banned);
        return set;
      }
    };
    auto reader = std::make_unique<Reader>();
    reader->of = others->reader();
    return reader;
  }
};

TEST_F(Adjustments, AMaskThatForbidsMoreThanTheGrammarIsApplied) {
  for (const Rule* const rule : {&matching, &rejection}) {
    Case c = case_of(*rule, 1, false);
    c.constraint = std::make_shared<Banned>(constraint_of(endless, c.stops));
    c.grammar = endless;
    const std::string text = recorded.text(c);
    EXPECT_EQ(check(text).verdict(), ReportVerdict::bug_proven) << "control: the trace does not state the ban";
    std::vector<std::string> lines = lines_of(with_allowed(text, *c.constraint, true));
    Json opening = Json::parse(lines[1]);
    opening["grammar"] = endless;
    lines[1] = opening.dump();
    const TraceReport report = check(sealed(lines));
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(make_report(report));
  }
}

TEST_F(Adjustments, AnEmittedTokenThatTheTraceForbidsIsFoundWithoutRows) {
  const auto checks = [](const char* allowed) {
    const std::string text =
        R"({"type":"header","schema":"spectrace/2","engine":"x","vocabulary":4,"rule":"rejection","masked":true,)"
        R"("prompt":[0],"temperature":"0x1p+0","max_new_tokens":2})"
        "\n"
        R"({"type":"round","round":0,"position":1,"emitted":[2,3],"allowed_tokens":[null,)" +
        std::string(allowed) +
        "]}\n"
        R"({"type":"end","reason":"length"})"
        "\n";
    const TraceReport report = replay(File(text).path());
    EXPECT_EQ(report.invalid, "");
    return report.findings.size();
  };
  EXPECT_EQ(checks(R"({"only":[1,3]})"), 0U);
  EXPECT_EQ(checks(R"({"except":[2]})"), 0U);
  EXPECT_EQ(checks(R"({"only":[1,2]})"), 1U);
  EXPECT_EQ(checks(R"({"except":[3]})"), 1U);
}

TEST_F(Adjustments, AnotherSamplerLeavesPToTheRows) {
  const std::string text = recorded.text(case_of(rejection, 1, false));
  const TraceReport report = check_with(text, "other_sampler", "mirostat");
  EXPECT_TRUE(report.findings.empty()) << report_text(make_report(report));
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat);
  EXPECT_THAT(report.missing, Contains(HasSubstr("tokens are drawn by 'mirostat' (field other_sampler)")));
  EXPECT_EQ(report.examined.rows, 0) << "the target's rows are not those of this sampler";
  // Declared cuts are not held to rows of another sampler, and without its name they are.
  std::vector<std::string> lines = lines_of(text);
  Json opening = Json::parse(lines[1]);
  opening["top_k"] = 1;
  lines[1] = opening.dump();
  EXPECT_FALSE(replay(File(sealed(lines)).path()).findings.empty());
  opening["other_sampler"] = "mirostat";
  lines[1] = opening.dump();
  EXPECT_TRUE(replay(File(sealed(lines)).path()).findings.empty());
  EXPECT_THAT(check_with(text, "other_sampler", "").invalid, HasSubstr("is empty"));
  // A token that its own row does not have is found all the same.
  Json round = Json::parse(lines[2]);
  Json& row = round["p_rows"].back();
  const Token next = round["next"]["token"];
  for (std::size_t i = 0; i < row.size(); i += 2) {
    if (row[i] == next) {
      row[i == 0 ? 3 : 1] = row[i == 0 ? 3 : 1].get<std::uint64_t>() + row[i + 1].get<std::uint64_t>();
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(i), row.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      break;
    }
  }
  lines[2] = round.dump();
  EXPECT_EQ(replay(File(sealed(lines)).path()).verdict(), ReportVerdict::bug_proven);
}

/// A trace whose draft token has q in `q_draft` and `row` in `q_rows`.
TraceReport check_of_q(const std::string& q, const std::string& row, const std::string& other) {
  const std::string text =
      R"({"type":"header","schema":"spectrace/2","engine":"x","vocabulary":3,"rule":"rejection",)"
      R"("prompt":[0],"temperature":"0x1p+0","max_new_tokens":1})"
      "\n"
      R"({"type":"round","round":0,"position":1,"emitted":[1],"draft_tokens":[1],"accepted":1,"width":2,)"
      R"("next_from":"bonus","q_draft":[")" +
      q + R"("],"p_draft":["0x1p-1"],"accept_u":["0x1p-2"],"q_rows":[[1,")" + row + R"(",2,")" + other +
      R"("]]})"
      "\n"
      R"({"type":"end","reason":"length"})"
      "\n";
  return replay(File(text).path());
}

TEST(Findings, AProbabilityOfAFloat32SoftmaxMayMissThatOfAWiderOneByItsRoundingAndNoMore) {
  const auto small = [](const char* q) { return check_of_q(q, "0x1p-30", "0x1.fffffffcp-1"); };
  EXPECT_TRUE(small("0x1.00002p-30").findings.empty()) << "16 units of float32, where exp may lose 41";
  EXPECT_FALSE(small("0x1.0001p-30").findings.empty()) << "128 units";
  EXPECT_TRUE(check_of_q("0x1.000008p-1", "0x1p-1", "0x1p-1").findings.empty()) << "4 units of one half";
  EXPECT_FALSE(check_of_q("0x1.00002p-1", "0x1p-1", "0x1p-1").findings.empty()) << "16 units of one half";
}

TEST(Findings, ShowTwoNumbersThatDifferAsDifferent) {
  const std::string text =
      R"({"type":"header","schema":"spectrace/2","engine":"x","vocabulary":3,"rule":"rejection","dtype":"f64",)"
      R"("prompt":[0],"temperature":"0x1p+0","max_new_tokens":1})"
      "\n"
      R"({"type":"round","round":0,"position":1,"emitted":[1],"draft_tokens":[1],"accepted":1,"width":2,)"
      R"("next_from":"bonus","q_draft":["0x1.8p-40"],"p_draft":["0x1p-1"],"accept_u":[null],)"
      R"("q_rows":[[1,"0x1p-40",2,"0x1.fffffffffep-1"]]})"
      "\n"
      R"({"type":"end","reason":"length"})"
      "\n";
  const TraceReport report = replay(File(text).path());
  ASSERT_FALSE(report.findings.empty());
  EXPECT_STREQ(report.findings[0].check, "q_row");
  EXPECT_THAT(report.findings[0].expected, HasSubstr("9.094947017729282e-13"));
  EXPECT_EQ(report.findings[0].observed, "1.3642420526593924e-12");
}

}  // namespace
}  // namespace draftproof::spectrace::adjustments_test
