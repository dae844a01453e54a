// SPDX-License-Identifier: MIT
// Files that are no traces: each is INVALID_TRACE, with line and field.
#include "oracle/spectrace/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "oracle/spectrace/show.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace::reader_test {
namespace {

using testing::HasSubstr;
using Lines = std::vector<std::string>;

/// Line 1 is the header, 2 opens the sequence, 3 and on are rounds, the last ends it.
const Lines& good_lines() {
  static const Lines lines = [] {
    Recorded recorded;
    return lines_of(recorded.text({"", &rejection, every_parameter(), "perturbed", Verification::batched, {}, 24}));
  }();
  return lines;
}

/// Returns the line of a round with a rejected draft token and at least one accepted one.
std::size_t refused_line() {
  for (std::size_t i = 2; i + 1 < good_lines().size(); ++i) {
    const Json line = Json::parse(good_lines()[i]);
    if (line["next_from"] == "residual" && line["accepted"] > 0) return i;
  }
  ADD_FAILURE() << "no such round";
  return 2;
}

/// Applies `change` to a line and updates the digest, so that only the change can be found.
std::string with(std::size_t line, const std::function<void(Json&)>& change) {
  Lines lines = good_lines();
  Json json = Json::parse(lines[line]);
  change(json);
  lines[line] = json.dump();
  return sealed(lines);
}

std::string with(std::size_t line, const char* field, Json value) {
  return with(line, [&](Json& json) { json[field] = std::move(value); });
}

std::string without(std::size_t line, const char* field) {
  return with(line, [&](Json& json) { json.erase(field); });
}

std::string edited(const std::function<void(Lines&)>& edit) {
  Lines lines = good_lines();
  edit(lines);
  return sealed(lines);
}

/// Returns a header for real weights that opens its sequence, and `line`.
std::string with_reals(const std::string& line) {
  return "{\"type\":\"header\",\"schema\":\"spectrace/2\",\"engine\":\"e\",\"vocabulary\":8,\"rule\":\"rejection\","
         "\"temperature\":\"0x1p+0\",\"prompt\":[1]}\n" +
         line + "\n";
}

/// Returns a round with a rejected draft token and this q.
std::string with_q(const std::string& q) {
  return with_reals(R"({"type":"round","round":0,"position":1,"width":2,"accepted":0,"next_from":"residual",)"
                    R"("draft_tokens":[1],"emitted":[2],"q_draft":[)" +
                    q + "]}");
}

/// Returns a round with an accepted draft token and these fields.
std::string with_real(const std::string& fields) {
  return with_reals(R"({"type":"round","round":0,"position":1,"width":2,"accepted":1,"next_from":"bonus",)"
                    R"("draft_tokens":[1],"emitted":[1,2],)" +
                    fields + "}");
}

/// Returns a round without draft tokens, with these fields.
std::string without_drafts(const std::string& fields) {
  return with_reals(R"({"type":"round","round":0,"position":1,"width":1,"accepted":0,"next_from":"bonus",)"
                    R"("draft_tokens":[],"emitted":[2],)" +
                    fields + "}");
}

/// Changes one of the lists of a tuner's costs; null removes it.
std::string with_costs(const char* list, const Json& value) {
  Json costs = {{"verify", {"0x1p+0", "0x1.2p+0", "0x1.4p+0"}},
                {"draft", Json::array({{"0x0p+0", "0x1p-3", "0x1p-2"}})},
                {"reading", Json::array({"0x1p-4"})}};
  if (value.is_null()) costs.erase(list);
  else costs[list] = value;
  return with(1, "draft_costs", costs);
}

/// States what a round took; null: not.
std::string with_times(const Json& verify, const Json& draft, bool asked = true) {
  return with(refused_line(), [&](Json& json) {
    if (asked) json["draft_asked"] = {4};
    if (!verify.is_null()) json["verify_seconds"] = verify;
    if (!draft.is_null()) json["draft_seconds"] = draft;
  });
}

struct Bad {
  const char* name;
  std::string text;
  std::string line;  // ":N: "
  std::string words;
};

/// The good trace, and where its parts are.
struct Places {
  std::size_t last;     // index of the end line
  std::size_t at;       // index of the line of a round with a rejected draft token
  std::string refused;  // ":N: " of that line
  std::string ending;   // ":N: " of the end line
  std::string whole;
  Json round;
};

const Places& places() {
  static const Places places = [] {
    const std::size_t last = good_lines().size() - 1;
    const std::size_t at = refused_line();
    return Places{last,
                  at,
                  ":" + std::to_string(at + 1) + ": ",
                  ":" + std::to_string(last + 1) + ": ",
                  joined(good_lines()),
                  Json::parse(good_lines()[at])};
  }();
  return places;
}

/// Changes the draw of the next token.
std::string with_next(const char* field, Json value) {
  return with(places().at, [&](Json& json) { json["next"][field] = std::move(value); });
}

std::vector<Bad> bad_as_a_whole() {
  const auto& [last, at, refused, ending, whole, round] = places();
  return {
      {"empty", "", ": ", "empty"},
      {"one newline", "\n", ":1: ", ""},
      {"a NUL", std::string("\0\n", 2), ":1: ", "NUL"},
      {"binary",
       "\x7f"
       "ELF\x02\x01\x01\xff\xfe\n",
       ":1: ", ""},
      {"not UTF-8", "{\"type\":\"\xff\xfe\"}\n", ":1: ", ""},
      {"not an object", "[1,2,3]\n", ":1: ", "object"},
      {"a number", "17\n", ":1: ", "object"},
      {"another format", "{\"type\":\"span\",\"name\":\"x\"}\n", ":1: ", "field type"},
      {"no header", edited([](Lines& lines) { lines.erase(lines.begin()); }), ":1: ", "begins with a header"},
      {"two headers", edited([](Lines& lines) { lines.insert(lines.begin() + 1, lines[0]); }), ":2: ", "second header"},
      {"two traces, one after the other", whole + whole, ":" + std::to_string(last + 2) + ": ", "second header"},
      {"cut within the header", whole.substr(0, 20), ":1: ", "ends within a line"},
      {"cut within a line", whole.substr(0, whole.size() - 40), ending, "ends within a line"},
      {"without its last newline", whole.substr(0, whole.size() - 1), ending, "ends within a line"},
      {"an empty line", edited([](Lines& lines) { lines.insert(lines.begin() + 3, ""); }), ":4: ", ""},
      {"a line too long", good_lines()[0] + "\n" + std::string(Reader::line_bytes_max + 1, ' ') + "\n",
       ":2: ", "longer than"},
      {"nested too deep", good_lines()[0] + "\n" + std::string(100000, '[') + "\n", ":2: ", "deeper"},
      {"a name twice", good_lines()[0] + "\n{\"type\":\"sequence\",\"type\":\"seq\"}\n", ":2: ", "twice"},
      {"two objects in a line", good_lines()[0] + good_lines()[1] + "\n", ":1: ", ""},
      {"carriage returns and junk", good_lines()[0] + "\n{\"type\":\r\"step\"\r,}\n", ":2: ", ""},
      {"an unknown line", edited([](Lines& lines) { lines.insert(lines.begin() + 2, "{\"type\":\"note\"}"); }),
       ":3: ", "field type"},
      {"a line without type", edited([](Lines& lines) { lines.insert(lines.begin() + 2, "{}"); }),
       ":3: ", "field type"},
      {"type is a number", edited([](Lines& lines) { lines[2] = "{\"type\":1}"; }), ":3: ", "field type"},
      {"NaN", edited([](Lines& lines) { lines[2] = "{\"type\":\"round\",\"round\":NaN}"; }), ":3: ", ""},
  };
}

std::vector<Bad> bad_orders() {
  const auto& [last, at, refused, ending, whole, round] = places();
  return {
      {"a round missing", edited([](Lines& lines) { lines.erase(lines.begin() + 3); }), ":4: ", "field round"},
      {"a round twice", edited([](Lines& lines) { lines.insert(lines.begin() + 3, lines[3]); }), ":5: ", "field round"},
      {"two rounds in turn", edited([](Lines& lines) { std::swap(lines[3], lines[4]); }), ":4: ", "field round"},
      {"a round before its sequence", edited([](Lines& lines) { std::swap(lines[1], lines[2]); }),
       ":2: ", "field sequence"},
      {"a round after the end", edited([&](Lines& lines) { lines.push_back(good_lines()[3]); }),
       ":" + std::to_string(last + 2) + ": ", "field sequence"},
      {"two ends", edited([](Lines& lines) { lines.push_back(lines.back()); }), ":" + std::to_string(last + 2) + ": ",
       "field sequence"},
      {"a sequence opened twice", edited([](Lines& lines) { lines.insert(lines.begin() + 2, lines[1]); }),
       ":3: ", "field sequence"},
      {"rounds of another run between", edited([](Lines& lines) { lines.insert(lines.begin() + 4, lines[2]); }),
       ":5: ", "field round"},
      {"changed and not sealed",
       [] {
         Lines lines = good_lines();
         lines[0].replace(lines[0].find("the loop"), 8, "the l00p");
         return joined(lines);
       }(),
       ending, "field sha256"},
  };
}

std::vector<Bad> bad_headers() {
  return {
      {"a later schema", with(0, "schema", "spectrace/3"), ":1: ", "field schema"},
      {"version 1", "{\"t\":\"hdr\",\"schema\":\"spectrace/1\",\"engine\":\"e\",\"vocab\":9,\"rule\":\"greedy\"}\n",
       ":1: ",
       "field schema: this program does not read spectrace/1: version 2 renamed the keys, and "
       "docs/spectrace.md has the table from version 1 keys to version 2 keys"},
      {"no schema", without(0, "schema"), ":1: ", "field schema"},
      {"no engine", without(0, "engine"), ":1: ", "field engine"},
      {"an unknown rule", with(0, "rule", "typical"), ":1: ", "field rule"},
      {"an empty vocabulary", with(0, "vocabulary", 0), ":1: ", "field vocabulary"},
      {"a huge vocabulary", with(0, "vocabulary", std::int64_t{1} << 40), ":1: ", "field vocabulary"},
      {"a negative total", with(0, "total_weight", -1), ":1: ", "field total_weight"},
      {"a total beyond 2^52", with(0, "total_weight", (std::int64_t{1} << 52) + 1), ":1: ", "field total_weight"},
      {"an unknown field", with(0, "wights", "x"), ":1: ", "wights"},
      {"a seed that is none", with(0, [](Json& json) { json["rng"]["seed"] = "0x3"; }), ":1: ", "field rng.seed"},
      {"a seed beyond 2^64", with(0, [](Json& json) { json["rng"]["seed"] = "18446744073709551616"; }),
       ":1: ", "field rng.seed"},
      {"an unknown type of reals", with(0, "dtype", "fp8"), ":1: ", "field dtype"},
      {"sampling in a header without prompt", with(0, "temperature", "0x1p+0"), ":1: ", "'temperature'"},
  };
}

std::vector<Bad> bad_openings() {
  return {
      {"an empty prompt", with(1, "prompt", Json::array()), ":2: ", "field prompt"},
      {"no prompt", without(1, "prompt"), ":2: ", "field prompt"},
      {"a prompt token beyond the vocabulary", with(1, "prompt", {1, 6}), ":2: ", "field prompt[1]"},
      {"costs without those of readings", with_costs("reading", nullptr), ":2: ", "field draft_costs"},
      {"costs of one stage and readings of two", with_costs("reading", {"0x0p+0", "0x0p+0"}), ":2: ", "field draft_c"},
      {"costs of no stage", with_costs("draft", Json::array()), ":2: ", "field draft_costs"},
      {"costs of a stage without drafts", with_costs("draft", Json::array({{"0x0p+0"}})), ":2: ", "field draft_costs"},
      {"proposals longer than a verification", with_costs("verify", {"0x1p+0", "0x1p+0"}), ":2: ", "field draft_costs"},
      {"one verification", with_costs("verify", {"0x1p+0"}), ":2: ", "field draft_costs"},
      {"too many lengths", with_costs("verify", std::vector<std::string>(1026, "0x1p+0")), ":2: ", "field draft"},
      {"a negative cost", with_costs("reading", {"-0x1p+0"}), ":2: ", "field draft_costs.reading[0]"},
      {"a cost that is no number", with_costs("reading", {"nan"}), ":2: ", "field draft_costs.reading[0]"},
      {"an infinite cost", with_costs("reading", {"inf"}), ":2: ", "field draft_costs.reading[0]"},
      {"work of nobody", with_costs("work", Json::array()), ":2: ", "field draft_costs"},
      {"work of an unknown kind", with_costs("work", {"walks"}), ":2: ", "must be none, one_pass, passes or as_asked"},
      {"costs of something else", with_costs("rollback", {"0x1p+0"}), ":2: ", "rollback"},
      {"a decimal temperature", with(1, "temperature", "0.8"), ":2: ", "field temperature"},
      {"an infinite temperature", with(1, "temperature", "0xinf"), ":2: ", "field temperature"},
      {"a temperature that is a number", with(1, "temperature", 0.8), ":2: ", "x.hex() in Python"},
      {"no temperature", without(1, "temperature"), ":2: ", "field temperature"},
      {"a temperature beyond a float", with(1, "temperature", "0x1p+1000"), ":2: ", "field temperature"},
      {"a negative budget", with(1, "max_new_tokens", -1), ":2: ", "field max_new_tokens"},
      {"an unknown way to verify", with(1, "verification", "tree"), ":2: ", "field verification"},
      {"a stop beyond the vocabulary", with(1, "stop_tokens", {-1}), ":2: ", "field stop_tokens[0]"},
      {"a key beyond 32 bits", with(1, "rng_key", std::int64_t{1} << 31), ":2: ", "field rng_key"},
  };
}

std::vector<Bad> bad_rounds() {
  const auto& [last, at, refused, ending, whole, round] = places();
  return {
      {"no position", without(at, "position"), refused, "field position"},
      {"a position of 0", with(at, "position", 0), refused, "field position"},
      {"a position that goes back", with(at, "position", 3), refused, "field position"},
      {"a position beyond 32 bits", with(at, "position", std::int64_t{1} << 32), refused, "field position"},
      {"half a position", with(at, "position", 7.5), refused, "field position"},
      {"nothing emitted", with(at, "emitted", Json::array()), refused, "field emitted"},
      {"more emitted than a round can", with(at, "emitted", {0, 1, 2, 3, 4, 5}), refused, "field emitted"},
      {"a draft token that is text", with(at, [](Json& json) { json["draft_tokens"][0] = "a"; }), refused,
       "field draft_tokens[0]"},
      {"more accepted than drafted", with(at, "accepted", 4), refused, "field accepted"},
      {"less than none accepted", with(at, "accepted", -1), refused, "field accepted"},
      {"a pass without rows", with(at, "width", 0), refused, "field width"},
      {"a pass of too many rows", with(at, "width", 1 + round["draft_tokens"].size() + 1), refused,
       "count no padding or leave the field out"},
      {"an unknown last token", with(at, "next_from", "lucky"), refused, "field next_from"},
      {"draft tokens missing", without(at, "draft_tokens"), refused, "field draft_tokens"},
      {"accepted missing", without(at, "accepted"), refused, "field accepted"},
      {"a q of a verified draft token missing",
       with(at,
            [](Json& json) {
              while (json["q_draft"].size() > json["accepted"]) json["q_draft"].erase(0);
            }),
       refused, "field q_draft"},
      {"a p too many",
       with(at,
            [](Json& json) {
              for (int i = 0; i < 5; ++i) json["p_draft"].push_back(1);
            }),
       refused, "field p_draft"},
      {"a weight beyond the total", with(at, [](Json& json) { json["q_draft"][0] = (std::int64_t{1} << 52) + 1; }),
       refused, "field q_draft[0]"},
      {"a negative weight", with(at, [](Json& json) { json["p_draft"][0] = -1; }), refused, "field p_draft[0]"},
      {"a coin missing", with(at, [](Json& json) { json["accept_u"].erase(0); }), refused, "field accept_u"},
      {"a coin not below its bound", with(at, [](Json& json) { json["accept_u"][0] = json["q_draft"][0]; }), refused,
       "field accept_u[0]"},
      {"a negative coin", with(at, [](Json& json) { json["accept_u"][0] = -1; }), refused, "field accept_u[0]"},
      {"a real among integers", with(at, [](Json& json) { json["p_draft"][0] = "0x1p-1"; }), refused,
       "field p_draft[0]"},
      {"a draft that holds less than nothing", with(at, "draft_held", {-1}), refused, "field draft_held[0]"},
      {"a number for what a draft holds", with(at, "draft_held", 3), refused, "field draft_held"},
      {"more unread than drafts", with(at, "draft_unread", {0, 1}), refused, "field draft_unread"},
      {"an anchor before the text", with(at, "draft_anchor", -1), refused, "field draft_anchor"},
      {"a draft asked for less than nothing", with(at, "draft_asked", {-1}), refused, "field draft_asked[0]"},
      {"no draft asked", with(at, "draft_asked", Json::array()), refused, "field draft_asked"},
      {"more drafts than anybody asks", with(at, "draft_asked", std::vector<int>(65, 1)), refused, "field draft_asked"},
      {"less than nothing cut", with(at, "draft_cut", -1), refused, "field draft_cut"},
      {"times of a draft without what it was asked for", with_times("0x1p+0", "0x1p+0", false), refused, "draft_asked"},
      {"a time of the pass only", with_times("0x1p+0", nullptr), refused, "draft_seconds"},
      {"a time of the proposal only", with_times(nullptr, "0x1p+0"), refused, "verify_seconds"},
      {"less than no time", with_times("-0x1p+0", "0x1p+0"), refused, "verify_seconds"},
      {"a time that is no number", with_times("0x1p+0", "nan"), refused, "draft_seconds"},
      {"a pass that costs nothing", with_costs("verify", {"0x0p+0", "0x1p+0", "0x1p+0"}), ":2: ", "verify"},
      {"weights before, under rejection", with(at, "p_before", {0}), refused, "field p_before"},
  };
}

std::vector<Bad> bad_draws_and_rows() {
  const auto& [last, at, refused, ending, whole, round] = places();
  return {
      {"a draft's coin too large", with(at, [](Json& json) { json["draft_u"][0] = std::int64_t{1} << 52; }), refused,
       "field draft_u[0]"},
      {"a draft's coin missing", with(at, [](Json& json) { json["draft_u"].erase(0); }), refused, "field draft_u"},
      {"a draw below 0", with_next("bound", 0), refused, "field next.bound"},
      {"a draw beyond its bound", with_next("before", round["next"]["bound"]), refused, "field next.before"},
      {"a draw's coin beyond its bound", with_next("u", round["next"]["bound"]), refused, "field next.u"},
      {"a draw of no token", with_next("token", 6), refused, "field next.token"},
      {"a draw with a stray field", with_next("zz", 1), refused, "zz"},
      {"an unknown purpose", with(at, [](Json& json) { json["rng_positions"]["luck"] = {1}; }), refused, "luck"},
      {"a fingerprint too short", with(at, [](Json& json) { json["logits_digests"][0] = "abc"; }), refused,
       "field logits_digests[0]"},
      {"a fingerprint of capitals", with(at, [](Json& json) { json["p_digests"][0] = std::string(32, 'A'); }), refused,
       "field p_digests[0]"},
      {"a fingerprint missing", with(at, [](Json& json) { json["logits_digests"].erase(0); }), refused,
       "field logits_digests"},
      {"a row whose weights are too few", with(at, [](Json& json) { json["p_rows"][0][1] = 1; }), refused,
       "field p_rows[0]"},
      {"a row whose weights are too many", with(at, [](Json& json) { json["p_rows"][0][1] = std::int64_t{1} << 52; }),
       refused, "field p_rows[0]"},
      {"a row in another order",
       with(at,
            [](Json& json) {
              json["q_rows"][0] = {3, std::int64_t{1} << 51, 2, std::int64_t{1} << 51};
            }),
       refused, "field q_rows[0][2]"},
      {"a row with half a pair", with(at, [](Json& json) { json["q_rows"][0].push_back(1); }), refused,
       "field q_rows[0]"},
      {"a row too few", with(at, [](Json& json) { json["p_rows"].erase(0); }), refused, "field p_rows"},
  };
}

std::vector<Bad> bad_ends() {
  const auto& [last, at, refused, ending, whole, round] = places();
  return {
      {"an unknown reason", with(last, "reason", "bored"), ending, "field reason"},
      {"no reason", without(last, "reason"), ending, "field reason"},
      {"a negative count", with(last, "emitted_count", -1), ending, "field emitted_count"},
      {"a count that is a list", with(last, [](Json& json) { json["statistics"]["drafted"] = {1}; }), ending,
       "field statistics.drafted"},
      {"a digest of other lines",
       [] {
         Lines lines = good_lines();
         Json json = Json::parse(lines.back());
         json["sha256"] = std::string(64, '0');
         lines.back() = json.dump();
         return joined(lines);
       }(),
       ending, "field sha256"},
  };
}

std::vector<Bad> bad_reals() {
  const auto& [last, at, refused, ending, whole, round] = places();
  return {
      {"a probability that is no number", with_q(R"("0xnan")"), ":2: ", "field q_draft[0]"},
      {"an integer among reals", with_q(R"(1)"), ":2: ", "field q_draft[0]"},
      {"rows without a total", without_drafts(R"("p_rows":[[1,2]])"), ":2: ", "field p_rows"},
      {"a row of reals that add up to less than 1", with_real(R"("p_rows":[[1,"0x1p-1",2,"0x1.fffp-2"],[2,"0x1p+0"]])"),
       ":2: ", "field p_rows[0]"},
      {"a row of reals that add up to more than 1", with_real(R"("q_rows":[[1,"0x1p-1",2,"0x1.01p-1"]])"),
       ":2: ", "field q_rows[0]"},
      {"a row of reals in another order", with_real(R"("p_rows":[[1,"0x1p+0"],[2,"0x1p-1",1,"0x1p-1"]])"),
       ":2: ", "field p_rows[1][2]"},
      {"a row of reals with half a pair", with_real(R"("q_rows":[[1,"0x1p+0",2]])"), ":2: ", "field q_rows[0]"},
      {"a row of reals with a weight of 0", with_real(R"("q_rows":[[1,"0x1p+0",2,"0x0p+0"]])"),
       ":2: ", "field q_rows[0][3]"},
      {"an empty row of reals", with_real(R"("q_rows":[[]])"), ":2: ", "field q_rows[0]"},
      {"a row of reals beyond the vocabulary", with_real(R"("q_rows":[[8,"0x1p+0"]])"), ":2: ", "field q_rows[0][0]"},
      {"a row of reals too few", with_real(R"("p_rows":[[1,"0x1p+0"]])"), ":2: ", "field p_rows"},
      {"a row of reals too many", with_real(R"("q_rows":[[1,"0x1p+0"],[1,"0x1p+0"]])"), ":2: ", "field q_rows"},
      {"a real coin that is a number", with_real(R"("next_u":0.5)"), ":2: ", "field next_u"},
      {"a list of real coins", with_real(R"("next_u":["0x1p-1"])"), ":2: ", "field next_u"},
      {"a draft's real coin too many", with_real(R"("draft_u":["0x1p-1","0x1p-1"])"), ":2: ", "field draft_u"},
      {"weights before, of reals", with_real(R"("q_before":["0x1p-1"])"), ":2: ", "field q_before"},
      {"a real coin among integers", with(at, "next_u", "0x1p-1"), refused, "field next_u"},
      {"a lossy rule without a name", with(0, "rule", "lossy:"), ":1: ", "field rule"},
      {"a lossy rule that is another", with(0, "rule", "lossy"), ":1: ", "field rule"},
      {"a draw without a total", without_drafts(R"("next":{"token":1})"), ":2: ", "field next"},
  };
}

std::vector<Bad> bad_files() {
  std::vector<Bad> all;
  for (const auto& list : {bad_as_a_whole(), bad_orders(), bad_headers(), bad_openings(), bad_rounds(),
                           bad_draws_and_rows(), bad_ends(), bad_reals()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

TEST(Reader, EveryFileThatIsNoTraceIsRefusedWithLineAndField) {
  ASSERT_EQ(replay(File(joined(good_lines())).path()).verdict(), ReportVerdict::pass_stat)
      << "the undamaged trace is good";
  const auto list = bad_files();
  EXPECT_GE(list.size(), 60U);
  for (const Bad& bad : list) {
    const File file(bad.text);
    const TraceReport report = replay(file.path());
    EXPECT_EQ(report.verdict(), ReportVerdict::invalid_trace) << bad.name << "\n" << report.invalid.substr(0, 2000);
    EXPECT_THAT(report.invalid, HasSubstr(file.path() + bad.line)) << bad.name;
    EXPECT_THAT(report.invalid, HasSubstr(bad.words)) << bad.name;
    EXPECT_LT(report.invalid.size(), 600U) << bad.name;
    EXPECT_THROW(show(file.path(), {}, [](const std::string&) {}), InvalidTrace) << bad.name;
    EXPECT_THROW(compare(file.path(), file.path()), InvalidTrace) << bad.name;
  }
}

TEST(Reader, MissingFilesAndFoldersAreRefused) {
  EXPECT_THAT(replay("/nowhere/at/all.jsonl").invalid, HasSubstr("no such file"));
  EXPECT_THAT(replay(std::filesystem::temp_directory_path().string()).invalid, HasSubstr("folder"));
}

std::string opened(std::int64_t s, const std::string& prompt) {
  return "{\"type\":\"sequence\",\"sequence\":" + std::to_string(s) + ",\"prompt\":[" + prompt +
         "],\"temperature\":\"0x1p+0\"}\n";
}

std::string ended(std::int64_t s) {
  return "{\"type\":\"end\",\"sequence\":" + std::to_string(s) + ",\"reason\":\"cancelled\"}\n";
}

TEST(Reader, OpenSequencesAreLimitedAndEndedOnesAreNot) {
  constexpr auto max = static_cast<std::int64_t>(Reader::open_sequences_max);
  std::string text = good_lines()[0] + "\n";
  for (std::int64_t s = 0; s < 2 * max; ++s) text += opened(s, "1") + ended(s);
  for (std::int64_t s = 2 * max; s < 3 * max; ++s) text += opened(s, "1");
  const File full(text);
  const TraceReport kept = replay(full.path());
  EXPECT_EQ(kept.invalid, "");
  EXPECT_EQ(kept.examined.sequences, 3 * max);
  EXPECT_THAT(report_text(make_report(kept)), HasSubstr("nor have " + std::to_string(max - 1) + " others"));
  const File one_more(text + opened(3 * max, "1"));
  EXPECT_THAT(replay(one_more.path()).invalid, HasSubstr(":" + std::to_string(1 + 5 * max + 1) +
                                                         ": field sequence: more than 16384 sequences are open"));
  const File in_its_place(text + ended(3 * max - 1) + opened(3 * max, "1"));
  EXPECT_EQ(replay(in_its_place.path()).invalid, "");
}

TEST(ReaderSlow, TokensOfOpenSequencesAreLimited) {
  constexpr std::size_t in_a_line = std::size_t{1} << 22;
  std::string tokens = "1";
  for (std::size_t i = 1; i < in_a_line; ++i) tokens += ",1";
  const auto round = [](std::int64_t n, std::size_t position) {
    return "{\"type\":\"round\",\"sequence\":0,\"round\":" + std::to_string(n) +
           ",\"position\":" + std::to_string(position) + ",\"emitted\":";
  };
  // All but one of the tokens that may be kept: in prompts, emitted tokens and stop tokens.
  std::string text = good_lines()[0] + "\n" + opened(0, tokens);
  for (std::int64_t n = 0; n < 3; ++n) {
    text += round(n, in_a_line * static_cast<std::size_t>(n + 1)) + "[" + tokens + "]}\n";
  }
  for (std::int64_t s = 1; s < 4; ++s) text += opened(s, tokens);
  std::string stops = opened(4, "1");
  stops.insert(stops.size() - 2, ",\"stop_tokens\":[" + tokens.substr(4) + "]");
  text += stops;
  const File last(text + opened(5, "1"));
  EXPECT_EQ(replay(last.path()).invalid, "");
  const File prompt(text + opened(5, "1,1"));
  EXPECT_THAT(replay(prompt.path()).invalid,
              HasSubstr(":10: field prompt: the open sequences have more than 33554432 tokens"));
  const File emitted(text + round(3, 4 * in_a_line) + "[1,1]}\n");
  EXPECT_THAT(replay(emitted.path()).invalid, HasSubstr(":10: field emitted: the open sequences have more than"));
  const File freed(text + ended(3) + opened(5, tokens));
  EXPECT_EQ(replay(freed.path()).invalid, "");
}

TEST(ReaderSlow, ATraceCutAtAnyByteDoesNotPass) {
  const std::string whole = joined(good_lines());
  const File file;
  for (std::size_t size = 0; size < whole.size(); size += size % 7 + 1) {
    file.put(whole.substr(0, size));
    const ReportVerdict verdict = replay(file.path()).verdict();
    const bool at_a_line = size > 0 && whole[size - 1] == '\n';
    if (at_a_line) {
      EXPECT_TRUE(verdict == ReportVerdict::undecided || verdict == ReportVerdict::vacuous) << size << name_of(verdict);
    } else {
      EXPECT_EQ(verdict, ReportVerdict::invalid_trace) << size;
    }
  }
}

}  // namespace
}  // namespace draftproof::spectrace::reader_test
