// SPDX-License-Identifier: MIT
// Traces of the decoding loop pass; changed in any one place they do not. A changed file gets a correct digest again,
// so that the other checks have to find the change.
#include "oracle/spectrace/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/show.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace::replay_test {
namespace {

using testing::HasSubstr;

TEST(Replay, EveryTraceOfTheDecodingLoopPassesExactlyWithTheTargetOnly) {
  Recorded recorded;
  for (const Case& c : cases()) {
    const File file(recorded.text(c));
    const TraceReport held = replay(file.path(), recorded.target());
    EXPECT_EQ(held.verdict(), ReportVerdict::pass_exact) << c.name << "\n" << report_text(make_report(held));
    EXPECT_GT(held.examined.rows, 0);
    EXPECT_GT(held.examined.accepted, 0) << c.name;
    const bool wrong_branches = c.draft == tree_draft;  // none of them may be verified
    EXPECT_TRUE(wrong_branches || held.examined.draft_tokens > held.examined.accepted) << c.name;
    const TraceReport alone = replay(file.path());
    EXPECT_EQ(alone.verdict(), ReportVerdict::pass_stat) << c.name << "\n" << report_text(make_report(alone));
    EXPECT_EQ(alone.examined.rows, 0);
    EXPECT_THAT(make_report(alone).unproved,
                testing::Contains(HasSubstr("p is as the trace states it; give --target")));
    EXPECT_THAT(report_text(make_report(alone)), HasSubstr("p is the same wherever it is stated"));
    EXPECT_THAT(report_text(make_report(alone)), testing::Not(HasSubstr("the model and the sampling parameters")));
    EXPECT_THAT(report_text(make_report(held)), HasSubstr("the model and the sampling parameters"));
  }
}

TEST(Replay, PlainReaderEqualsPlainRowWhateverWasReadBefore) {
  Recorded recorded;
  const Sampling sampling = every_parameter();
  PlainReader reader(recorded.model(), sampling);
  std::vector<Token> text;
  for (int i = 0; i < 600; ++i) text.push_back(static_cast<Token>((i * i + i / 3) % 6));
  for (const std::size_t length : {1, 2, 3, 130, 131, 400, 600, 5, 6, 6, 300}) {
    const auto part = std::span(text).first(length);
    const PlainRow own = plain_row(recorded.model(), sampling, part);
    const PlainRow& read = reader.after(part);
    EXPECT_EQ(read.logits, own.logits) << length;
    EXPECT_EQ(read.distribution, own.distribution) << length;
  }
  text[3] = 5;
  EXPECT_EQ(reader.after(text).logits, plain_row(recorded.model(), sampling, text).logits);
}

/// Collects every leaf of a line: the path to it and the name of its field, without indices of lists.
void leaves_of(const Json& value, const std::string& way, const std::string& name,
               std::vector<std::pair<std::string, std::string>>& found) {
  if (value.is_object()) {
    for (const auto& [key, part] : value.items()) {
      leaves_of(part, way + "/" + key, name.empty() ? key : name + "." + key, found);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) leaves_of(value[i], way + "/" + std::to_string(i), name, found);
  } else {
    found.emplace_back(way, name);
  }
}

/// Returns other values for a leaf.
std::vector<Json> others_than(const Json& leaf) {
  if (leaf.is_number()) return {leaf.get<std::int64_t>() + 1, leaf.get<std::int64_t>() - 1};
  if (leaf.is_null()) return {0, 1};
  const std::string text = leaf;
  if (text.starts_with("0x") || text.starts_with("-0x")) return {text == "0x1p-1" ? "0x1p-2" : "0x1p-1"};
  static const std::map<std::string, std::vector<Json>> names = {
      {"batched", {"serial"}},           {"serial", {"batched"}},           {"matching", {"rejection"}},
      {"rejection", {"matching"}},       {"residual", {"target", "bonus"}}, {"target", {"residual", "bonus"}},
      {"bonus", {"target", "residual"}}, {"stop", {"length", "cancelled"}}, {"length", {"stop", "cancelled"}},
  };
  if (const auto found = names.find(text); found != names.end()) return found->second;
  if (text.empty()) return {"x"};
  std::string other = text;
  other.back() = other.back() == '7' ? '8' : '7';
  return {other};
}

/// The checks of a field: one of them makes the first finding when the field is changed. "" means INVALID_TRACE, "?"
/// means UNDECIDED: the change removes what the field would have been compared with.
using Owners = std::map<std::string, std::set<std::string>>;
const Owners& owners() {
  static const Owners table = {
      {"header.type", {""}},
      {"header.schema", {""}},
      {"header.weights", {""}},
      {"header.vocabulary", {""}},
      {"header.rule", {""}},
      {"header.total_weight", {""}},
      {"header.rng.algorithm", {"?"}},
      {"header.rng.seed", {"coin"}},
      {"sequence.type", {""}},
      {"sequence.sequence", {""}},
      {"sequence.rng_key", {"", "coin"}},
      {"sequence.numerics", {"?"}},
      {"sequence.max_draft_tokens", {"draft_length"}},
      {"sequence.verification", {"width"}},
      {"sequence.max_new_tokens", {"budget", "termination"}},
      {"sequence.temperature", {"p_row", "declared"}},
      {"sequence.top_k", {"p_row", "declared"}},
      {"sequence.top_p", {"p_row"}},
      {"sequence.min_p", {"p_row"}},
      {"sequence.repeat_penalty", {"p_row"}},
      {"sequence.presence_penalty", {"p_row"}},
      {"sequence.frequency_penalty", {"p_row"}},
      {"sequence.repeat_last_n", {"p_row"}},
      {"sequence.stop_tokens", {"", "conservation", "termination"}},
      {"sequence.prompt", {"p_row"}},
      {"round.type", {""}},
      {"round.sequence", {""}},
      {"round.round", {""}},
      {"round.position", {"", "position"}},
      {"round.width", {"", "width"}},
      {"round.accepted", {"", "kind"}},
      {"round.draft_parents", {"", "acceptance", "kind", "coin", "draft_draw", "keys", "p_row", "residual"}},
      {"round.accepted_path", {"", "conservation"}},
      {"round.sibling_draws", {"", "residual"}},
      {"round.sibling_draws.token", {"", "residual"}},
      {"round.sibling_draws.u", {"", "coin"}},
      {"round.sibling_draws.bound", {"", "residual", "coin"}},
      {"round.sibling_draws.before", {"", "residual"}},
      {"round.sibling_draws.weight", {"", "residual"}},
      {"round.sibling_draws.p", {"", "residual"}},
      {"round.sibling_draws.q", {"", "residual"}},
      {"round.next_from", {"kind"}},
      {"round.draft_tokens", {"", "acceptance", "conservation", "q_row", "token"}},
      {"round.emitted", {"", "bonus", "conservation", "distribution", "residual", "token"}},
      {"round.q_draft", {"", "q_row"}},
      {"round.draft_u", {"coin", "draft_draw"}},
      {"round.q_before", {"", "q_row"}},
      {"round.p_draft", {"", "p_row"}},
      {"round.accept_u", {"coin", ""}},
      {"round.p_before", {"", "p_row"}},
      {"round.next.token", {"", "conservation", "p_row"}},
      {"round.next.u", {"coin", ""}},
      {"round.next.bound", {"", "bonus", "own_draw", "residual", "coin"}},
      {"round.next.before", {"", "p_row", "residual"}},
      {"round.next.weight", {"", "p_row", "residual", "bonus", "own_draw"}},
      {"round.next.p", {"", "residual"}},
      {"round.next.q", {"", "residual"}},
      {"round.target_held", {"", "target_held"}},
      {"round.state_digest", {"state"}},
      {"round.draft_held", {"", "draft_held"}},
      {"round.draft_anchor", {"", "draft_anchor"}},
      {"round.rng_positions.target", {"keys"}},
      {"round.rng_positions.draft", {"keys"}},
      {"round.rng_positions.accept", {"keys"}},
      {"round.rng_positions.residual", {"keys"}},
      {"round.logits_digests", {"p_row"}},
      {"round.p_digests", {"p_row"}},
      {"round.q_digests", {"q_row"}},
      {"round.p_rows", {"", "p_row"}},
      {"round.q_rows", {"", "q_row", "residual"}},
      {"end.type", {""}},
      {"end.sequence", {""}},
      {"end.reason", {"termination"}},
      {"end.emitted_count", {"count"}},
      {"end.statistics.rounds", {"statistics"}},
      {"end.statistics.iterations", {"statistics"}},
      {"end.statistics.drafted", {"statistics"}},
      {"end.statistics.accepted", {"statistics"}},
      {"end.statistics.mismatches", {"", "statistics"}},
      {"end.statistics.all_accepted", {"", "statistics"}},
      {"end.statistics.batched", {"", "statistics"}},
      {"end.statistics.serial", {"", "statistics"}},
      {"end.sha256", {""}},
  };
  return table;
}

/// Returns whether no decision depends on the field, so that only the digest could show a change: names, a bound that
/// was not reached, a parameter that is off or had no effect in a short text, a seed that nothing was drawn with.
bool decides_nothing(const std::string& field, const Case& c) {
  static const std::set<std::string> names = {"header.engine", "sequence.draft", "sequence.kernels"};
  static const std::set<std::string> parameters = [] {
    std::set<std::string> list;
    for_each_sampling_field([&](const auto& parameter) { list.insert(std::string("sequence.") + parameter.name); });
    return list;
  }();
  const bool all_have_effect = c.sampling == every_parameter() && c.stops.empty();
  if (names.contains(field) || field == "sequence.max_draft_tokens") return true;
  if (parameters.contains(field)) return !all_have_effect;
  if (field == "sequence.max_new_tokens") return !c.stops.empty();
  if (field == "round.draft_parents") return true;  // another tree with the same path
  // By matching a draft may draw with any numbers; a run may be cancelled when it has all its tokens.
  if (c.rule == &matching && (field == "round.draft_u" || field == "round.rng_positions.target")) return true;
  if (field == "end.reason") return c.stops.empty();
  return c.sampling.greedy() &&
         (field == "sequence.rng_key" || field == "header.rng.seed" || field == "header.rng.algorithm");
}

/// What a report of a trace says: its verdict, and what of the trace is not proved.
auto said(const TraceReport& report) { return std::tuple(report.verdict(), report.missing, report.unproved); }

/// Changes every field of every line, one at a time. Returns the fields that occurred.
std::set<std::string> tamper_with_everything(Recorded& recorded, const Case& c) {
  std::set<std::string> seen;
  const std::vector<std::string> lines = lines_of(recorded.text(c));
  const File file(joined(lines));
  const auto unchanged = said(replay(file.path(), recorded.target()));
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const Json line = Json::parse(lines[at]);
    std::vector<std::pair<std::string, std::string>> leaves;
    leaves_of(line, "", line["type"], leaves);
    for (const auto& [way, field] : leaves) {
      for (const Json& other : others_than(line[Json::json_pointer(way)])) {
        Json changed = line;
        changed[Json::json_pointer(way)] = other;
        std::vector<std::string> tampered = lines;
        tampered[at] = changed.dump();
        file.put(field == "end.sha256" ? joined(tampered) : sealed(tampered));
        const TraceReport report = replay(file.path(), recorded.target());
        const ReportVerdict verdict = report.verdict();
        if (said(report) == unchanged && decides_nothing(field, c)) continue;
        seen.insert(field);
        const std::string speaks = verdict == ReportVerdict::invalid_trace     ? ""
                                   : verdict == ReportVerdict::bug_proven      ? report.findings.front().check
                                   : verdict == ReportVerdict::perf_regression ? report.slower.front().check
                                                                               : "?";
        const auto owner = owners().find(field);
        const bool owned = owner != owners().end() && owner->second.contains(speaks);
        EXPECT_TRUE(said(report) != unchanged && owned)
            << c.name << ": line " << at + 1 << way << " became " << other << "\n"
            << report_text(make_report(report));
        if (verdict == ReportVerdict::bug_proven) {
          EXPECT_GE(report.findings.front().place.line, static_cast<long>(line["type"] == "round" ? at + 1 : 1));
        }
        if (testing::Test::HasFailure()) return seen;
      }
    }
  }
  return seen;
}

std::set<std::string> owned_fields() {
  std::set<std::string> fields;
  for (const auto& [field, checks] : owners()) fields.insert(field);
  return fields;
}

TEST(ReplaySlow, NoTracePassesWithAnyFieldChanged) {
  Recorded recorded;
  std::set<std::string> seen;
  for (const Rule* rule : {&matching, &rejection}) {
    seen.merge(tamper_with_everything(
        recorded, {rule->name, rule, every_parameter(), "perturbed", Verification::batched, {}, 12}));
    const Case stops{rule->name, rule, {.temperature = 1}, "perturbed", Verification::serial, {0}, 24};
    seen.merge(tamper_with_everything(recorded, stops));
    seen.merge(tamper_with_everything(
        recorded, {rule->name, rule, {.temperature = 1}, tree_draft, Verification::batched, {}, 24}));
  }
  seen.merge(tamper_with_everything(recorded, {"block", &block, every_parameter(), "perturbed"}));
  EXPECT_EQ(seen, owned_fields()) << "every field occurred and was changed";
}

TEST(ReplaySweep, NoTracePassesWithAnyFieldChangedUnderAnyRuleAndSampling) {
  Recorded recorded;
  std::set<std::string> seen;
  for (const Case& c : cases()) seen.merge(tamper_with_everything(recorded, c));
  EXPECT_EQ(seen, owned_fields());
}

TEST(Replay, NoTracePassesWithALineRemovedDoubledOrMoved) {
  Recorded recorded;
  for (const Rule* rule : {&matching, &rejection}) {
    const auto lines = lines_of(recorded.text({rule->name, rule, every_parameter(), "perturbed"}));
    const File file;
    const auto passes = [&](const std::vector<std::string>& changed) {
      file.put(sealed(changed));
      return replay(file.path(), recorded.target()).verdict() == ReportVerdict::pass_exact;
    };
    EXPECT_TRUE(passes(lines));
    for (std::size_t at = 0; at < lines.size(); ++at) {
      auto changed = lines;
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(at));
      EXPECT_FALSE(passes(changed)) << "without line " << at + 1;
      changed = lines;
      changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(at), lines[at]);
      EXPECT_FALSE(passes(changed)) << "line " << at + 1 << " twice";
      for (std::size_t other = at + 1; other < lines.size(); ++other) {
        changed = lines;
        std::swap(changed[at], changed[other]);
        EXPECT_FALSE(passes(changed)) << "lines " << at + 1 << " and " << other + 1 << " in turn";
      }
    }
  }
}

TEST(Replay, AMissingFieldIsNamedOrDecidesNothing) {
  Recorded recorded;
  const auto lines = lines_of(recorded.text({"", &rejection, {.temperature = 1, .top_k = 4}, "perturbed"}));
  const File file;
  const auto without = [&](const char* field) {
    auto changed = lines;
    for (std::string& line : changed) {
      Json json = Json::parse(line);
      if (json["type"] == "round") json.erase(field);
      line = json.dump();
    }
    file.put(sealed(changed));
    return replay(file.path(), recorded.target());
  };
  for (const char* field : {"q_draft", "p_draft", "accept_u", "draft_u", "q_before", "next", "q_rows"}) {
    const TraceReport report = without(field);
    EXPECT_NE(report.verdict(), ReportVerdict::pass_exact) << field;
    EXPECT_TRUE(report.findings.size() + report.unproved.size() + report.invalid.size() > 0) << field;
  }
  // More evidence of what is proved without it.
  for (const char* field : {"rng_positions", "logits_digests", "p_digests", "q_digests", "p_rows", "target_held",
                            "state_digest", "draft_held", "draft_anchor"}) {
    EXPECT_EQ(without(field).verdict(), ReportVerdict::pass_exact) << field;
  }
}

TEST(Replay, FieldsOfVerifiedDraftTokensAloneAreEnough) {
  Recorded recorded;
  int shortened = 0;
  for (const Rule* const rule : {&matching, &rejection}) {
    auto lines = lines_of(recorded.text({"", rule, {.temperature = 1}, "perturbed", Verification::batched, {}, 100}));
    for (std::string& line : lines) {
      Json json = Json::parse(line);
      if (json["type"] != "round") continue;
      const std::size_t verified = std::min(json["accepted"].get<std::size_t>() + 1, json["draft_tokens"].size());
      for (const char* field : {"q_draft", "draft_u", "q_before", "q_digests", "q_rows"}) {
        for (; json.contains(field) && json[field].size() > verified; ++shortened) {
          json[field].erase(json[field].size() - 1);
        }
      }
      json.erase("width");
      line = json.dump();
    }
    const File file(sealed(lines));
    const TraceReport report = replay(file.path(), recorded.target());
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_exact) << report_text(make_report(report));
    show(file.path(), {}, [](const std::string&) {});
  }
  EXPECT_GT(shortened, 0);
}

TEST(Replay, EachCountOfTheStatisticsIsCheckedAlone) {
  Recorded recorded;
  const auto lines = lines_of(recorded.text({"", &rejection, {.temperature = 1}, "perturbed"}));
  const Json ending = Json::parse(lines.back());
  for (const auto& [name, value] : ending["statistics"].items()) {
    for (const int more : {0, 1}) {
      Json changed = ending;
      changed["statistics"] = {{name, value.get<int>() + more}};
      auto trace = lines;
      trace.back() = changed.dump();
      const File file(sealed(trace));
      const TraceReport report = replay(file.path(), recorded.target());
      EXPECT_EQ(report.verdict(), more == 0 ? ReportVerdict::pass_exact : ReportVerdict::bug_proven) << name;
    }
  }
}

/// After a rejection the engine draws from p without the draft token, and does not subtract the rest of q. The trace
/// states everything but the row of q.
TEST(Replay, AResidualDrawIsNotProvedWithoutItsRowOfQ) {
  const std::uint64_t quarter = Distribution::total / 4;
  Json step = {
      {"type", "round"},
      {"round", 0},
      {"position", 1},
      {"draft_tokens", {2}},
      {"width", 2},
      {"accepted", 0},
      {"next_from", "residual"},
      {"emitted", {0}},
      {"q_draft", {2 * quarter}},
      {"draft_u", {2 * quarter}},
      {"q_before", {2 * quarter}},
      {"p_draft", {quarter}},
      {"accept_u", {quarter}},
      {"p_rows", {{0, quarter, 1, 2 * quarter, 2, quarter}}},
      {"next",
       {{"token", 0}, {"u", 0}, {"bound", 3 * quarter}, {"before", 0}, {"weight", quarter}, {"p", quarter}, {"q", 0}}}};
  const auto verdict = [&] {
    const Json header = {{"type", "header"},        {"schema", "spectrace/2"},
                         {"engine", "e"},           {"vocabulary", 4},
                         {"rule", "rejection"},     {"total_weight", Distribution::total},
                         {"temperature", "0x1p+0"}, {"prompt", {1}}};
    const File file(header.dump() + "\n" + step.dump() + "\n{\"type\":\"end\",\"reason\":\"cancelled\"}\n");
    return replay(file.path()).verdict();
  };
  EXPECT_EQ(verdict(), ReportVerdict::undecided);
  step["q_rows"] = {{0, 2 * quarter, 2, 2 * quarter}};
  EXPECT_EQ(verdict(), ReportVerdict::bug_proven) << "q of token 0 is not 0";
  step.erase("q_rows");
  step["draft_tokens"] = {3};
  step["q_draft"] = {4 * quarter};  // the draft token has all of q, so q is known
  step["draft_u"] = {nullptr};
  step["q_before"] = {0};
  step["p_draft"] = {0};
  step["next"] = {{"token", 0},   {"u", 0}, {"bound", 4 * quarter}, {"before", 0}, {"weight", quarter},
                  {"p", quarter}, {"q", 0}};
  EXPECT_EQ(verdict(), ReportVerdict::undecided) << "coins are merely stated, and one token shows nothing";
  step["next"]["bound"] = 3 * quarter;
  EXPECT_EQ(verdict(), ReportVerdict::bug_proven) << "all of p is left";
}

TEST(Replay, SequencesOfOneFileAreReplayedSeparatelyHoweverTheirLinesAreInterleaved) {
  Recorded recorded;
  const Case c{"", &rejection, every_parameter(), "perturbed"};
  const auto lines = lines_of(recorded.text(rejection, [&](Writer& writer) {
    for (const int sequence : {4, 9}) recorded.write(writer, c, sequence);
  }));
  std::vector<std::string> mixed{lines[0]};
  std::vector<std::string> of[2];
  for (std::size_t i = 1; i < lines.size(); ++i) of[Json::parse(lines[i])["sequence"].get<int>()].push_back(lines[i]);
  for (std::size_t i = 0; i < std::max(of[0].size(), of[1].size()); ++i) {
    for (const auto& part : of) {
      if (i < part.size()) mixed.push_back(part[i]);
    }
  }
  const File file(sealed(mixed));
  const TraceReport report = replay(file.path(), recorded.target());
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_exact) << report_text(make_report(report));
  EXPECT_EQ(report.examined.sequences, 2);
  EXPECT_EQ(report.examined.tokens, 48);
}

TEST(Replay, TokensAloneAreCheckedWhereTheTargetAloneDecidesThem) {
  Recorded recorded;
  for (const bool changed : {false, true}) {
    auto lines = lines_of(recorded.text({"", &matching, {.temperature = 1}, "perturbed"}));
    for (std::size_t at = 2; at + 1 < lines.size(); ++at) {
      const Json step = Json::parse(lines[at]);
      Json tokens = {
          {"type", "round"}, {"round", step["round"]}, {"position", step["position"]}, {"emitted", step["emitted"]}};
      if (changed && at == 5) tokens["emitted"][0] = (tokens["emitted"][0].get<int>() + 1) % 6;
      lines[at] = tokens.dump();
    }
    const File file(sealed(lines));
    const TraceReport report = replay(file.path(), recorded.target());
    EXPECT_EQ(report.verdict(), changed ? ReportVerdict::bug_proven : ReportVerdict::pass_exact)
        << report_text(make_report(report));
    if (changed) {
      EXPECT_EQ(report.findings.front().check, std::string("own_draw"));
    }
    EXPECT_EQ(replay(file.path()).verdict(), ReportVerdict::undecided) << "without the target";
  }
}

std::string foreign(const std::string& rule, const std::string& more, const std::string& round) {
  return "{\"type\":\"header\",\"schema\":\"spectrace/2\",\"engine\":\"e\",\"vocabulary\":8,\"rule\":\"" + rule +
         "\",\"temperature\":\"0x1p+0\",\"prompt\":[1]" + more +
         "}\n"
         "{\"type\":\"round\",\"round\":0,\"position\":1," +
         round + "}\n";
}

TEST(Replay, RealDecisionsAreFindingsOnlyWhereRoundingCannotTurnThem) {
  struct Row {
    const char *p, *q, *u;
    bool accepted;
    const char* outcome;  // "", "band", "wrong"
  };
  const Row rows[] = {
      {"0x1p-1", "0x1p-2", "0x1.fp-1", true, ""},  // p > q
      {"0x1p-2", "0x1p-1", "0x1p-2", true, ""},    // 1/8 < 1/4
      {"0x1p-2", "0x1p-1", "0x1p-2", false, "wrong"},
      {"0x1p-2", "0x1p-1", "0x1.8p-1", false, ""},  // 3/8 >= 1/4
      {"0x1p-2", "0x1p-1", "0x1.8p-1", true, "wrong"},
      {"0x1p-2", "0x1p-1", "0x1p-1", true, "band"},  // 1/4 = 1/4
      {"0x1p-2", "0x1p-1", "0x1p-1", false, "band"},
      {"0x1p-2", "0x1p-1", "0x1.000002p-1", true, "band"},
      {"0x1p-2", "0x1p-1", "0x1.00001p-1", true, "wrong"},
      {"0x0p+0", "0x1p-1", "0x0p+0", true, "wrong"},  // a coin of 0 for a token without weight in p
      {"0x0p+0", "0x1p-1", "0x0p+0", false, ""},
      {"0x1p-2", "0x1p-1", nullptr, true, "wrong"},   // no coin where one is needed
      {"0x1p-2", "0x1p-1", nullptr, false, "wrong"},  // a rejection needs one, too
      {"0x1p-1", "0x1p-1", nullptr, true, ""},        // equal: none is drawn
      {"0x1p-1", "0x1p-1", nullptr, false, "wrong"},
      {"0x1.fffffep-2", "0x1p-1", nullptr, true, ""},  // rounding may have made them equal
  };
  for (const Row& row : rows) {
    const auto real = [](const char* digits) { return digits ? '"' + std::string(digits) + '"' : "null"; };
    const std::string outcome_fields = row.accepted ? R"("accepted":1,"next_from":"bonus","emitted":[2,3],)"
                                                    : R"("accepted":0,"next_from":"residual","emitted":[3],)";
    const std::string numbers =
        "\"p_draft\":[" + real(row.p) + "],\"q_draft\":[" + real(row.q) + "],\"accept_u\":[" + real(row.u) + "]";
    const File file(foreign("rejection", "", R"("draft_tokens":[2],"width":2,)" + outcome_fields + numbers));
    const TraceReport report = replay(file.path());
    const std::string outcome = !report.findings.empty() ? "wrong" : report.examined.in_band > 0 ? "band" : "";
    EXPECT_EQ(outcome, row.outcome) << row.p << " " << row.q << " " << (row.u ? row.u : "no coin") << "\n"
                                    << report_text(make_report(report));
    EXPECT_NE(report.verdict(), ReportVerdict::pass_exact) << "the token after is drawn without a coin";
  }
}

TEST(Replay, GreedyRoundsAreCheckedAgainstTheBestTokens) {
  const auto checks = [](const std::string& round) {
    const File file(foreign("greedy", ",\"max_new_tokens\":2", round) + "");
    const TraceReport report = replay(file.path());
    return report.findings.empty() ? std::string() : std::string(report.findings.front().check);
  };
  const std::string round = "\"draft_tokens\":[2,3],\"width\":3,\"next_from\":\"greedy\",";
  const std::string best = "\"top_logits\":[[2,\"0x1p+1\",5,\"0x1p+0\"],[4,\"0x1p+1\",3,\"0x1p+0\"]]";
  EXPECT_EQ(checks(round + "\"accepted\":1,\"emitted\":[2,4]," + best), "");
  EXPECT_EQ(checks(round + "\"accepted\":1,\"emitted\":[2,3]," + best), "own_draw");
  EXPECT_EQ(checks(round + "\"accepted\":0,\"emitted\":[2]," + best), "acceptance")
      << "a draft token that had to be accepted";
  const std::string other = R"("draft_tokens":[5],"width":2,"next_from":"greedy","accepted":1,"emitted":[5,4],)";
  EXPECT_EQ(checks(other + best), "acceptance");
  const std::string wrong_order = R"("top_logits":[[2,"0x1p+0",5,"0x1p+1"],[4,"0x1p+1",3,"0x1p+0"]])";
  EXPECT_EQ(checks(round + "\"accepted\":1,\"emitted\":[2,4]," + wrong_order), "best");
}

/// The target determines the best token whatever temperature and top_logits the trace states.
TEST(Replay, GreedyRoundsAreComparedWithTheTargetAtAnyTemperature) {
  Recorded recorded;
  for (const char* temperature : {"0x0p+0", "0x1p+0"}) {
    for (const bool right : {true, false}) {
      std::vector<Token> text{1, 2};
      std::string rounds;
      for (int n = 0; n < 40; ++n) {
        const Token best = plain_row(recorded.model(), {}, text).distribution.tokens().front();
        const Token said = right || n < 20 ? best : (best + 1) % recorded.model().vocabulary();
        const Json step = {{"type", "round"},
                           {"round", n},
                           {"position", 2 + n},
                           {"draft_tokens", {said}},
                           {"width", 2},
                           {"accepted", 1},
                           {"next_from", "greedy"},
                           {"emitted", {said}},
                           {"top_logits", {{said, "0x1p+1", 0, "0x1p+0"}, {0, "0x1p+1", 0, "0x1p+0"}}}};
        Json whole = step;  // the row after it
        text.push_back(said);
        const Token after = plain_row(recorded.model(), {}, text).distribution.tokens().front();
        whole["top_logits"][1][0] = after;
        whole["position"] = text.size() - 1;
        whole["emitted"].push_back(after);
        text.push_back(after);
        rounds += whole.dump() + "\n";
      }
      const Json header = {{"type", "header"},   {"schema", "spectrace/2"},
                           {"engine", "e"},      {"vocabulary", recorded.model().vocabulary()},
                           {"rule", "greedy"},   {"total_weight", Distribution::total},
                           {"numerics", "hash"}, {"temperature", temperature},
                           {"prompt", {1, 2}}};
      const File file(header.dump() + "\n" + rounds + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n");
      const TraceReport report = replay(file.path(), recorded.target());
      EXPECT_EQ(report.verdict(), right ? ReportVerdict::pass_exact : ReportVerdict::bug_proven)
          << temperature << "\n"
          << report_text(make_report(report));
    }
  }
}

TEST(Replay, ARoundMayBeCutOnlyWhereItsTextEnds) {
  const auto verdict = [](const std::string& more, const std::string& o) {
    const std::string accepted = R"("draft_tokens":[2,3],"width":3,"accepted":2,"next_from":"greedy","emitted":)";
    const File file(foreign("greedy", more, accepted + o));
    const TraceReport report = replay(file.path());
    return report.findings.empty() ? std::string() : std::string(report.findings.front().check);
  };
  EXPECT_EQ(verdict("", "[2,3,4]"), "");
  const std::string ended = "}\n{\"type\":\"end\",\"reason\":\"length\"";
  EXPECT_EQ(verdict("", "[2]"), "") << "a run that is broken off may be so within a round";
  EXPECT_EQ(verdict("", "[2]" + ended), "conservation") << "accepted draft tokens are emitted";
  EXPECT_EQ(verdict(",\"max_new_tokens\":1", "[2]"), "") << "but for the budget";
  EXPECT_EQ(verdict(",\"max_new_tokens\":1", "[2,3]"), "budget");
  EXPECT_EQ(verdict(",\"stop_tokens\":[2]", "[2]"), "") << "and a stop token";
  EXPECT_EQ(verdict(",\"stop_tokens\":[2]", "[2,3,4]"), "termination");
  EXPECT_EQ(verdict("", "[3,2]"), "conservation");
}

TEST(Replay, AnInterruptedRunDoesNotPass) {
  Recorded recorded;
  auto lines = lines_of(recorded.text({"", &rejection, {.temperature = 1}, "perturbed"}));
  lines.pop_back();
  const File file(joined(lines));
  const TraceReport report = replay(file.path(), recorded.target());
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided);
  EXPECT_THAT(report_text(make_report(report)), HasSubstr("no end line"));
}

TEST(Replay, EndsAfterAHundredFindings) {
  std::string text = foreign("greedy", "", "\"emitted\":[1]");
  for (int n = 1; n < 500; ++n) {
    text += "{\"type\":\"round\",\"round\":" + std::to_string(n) + ",\"position\":" + std::to_string(n + 5) +
            ",\"emitted\":[1]}\n";
  }
  const File file(text);
  EXPECT_EQ(replay(file.path()).findings.size(), TraceReport::findings_max);
}

}  // namespace
}  // namespace draftproof::spectrace::replay_test
