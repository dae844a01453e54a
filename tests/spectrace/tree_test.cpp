// SPDX-License-Identifier: MIT
// Traces of trees of draft tokens: right ones pass, by our loop and by an engine of floats that shares no code with it;
// each wrong way through a tree is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "tests/fuzz/damage.h"
#include "tests/spectrace/support.h"
#include "zoo/zoo.h"

namespace draftproof::spectrace::tree_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

TraceReport report_of(const std::string& text, const TraceTarget& target = {}) {
  const File file(text);
  return replay(file.path(), target);
}

std::string shown(const TraceReport& report) { return report_text(make_report(report)); }

Case of_trees(const Rule& rule, int tokens) {
  return {rule.name, &rule, {.temperature = 1}, tree_draft, Verification::batched, {}, tokens};
}

TEST(Trees, OfTheLoopHaveSiblingsThatAreAcceptedAndRefusedAtEveryDepth) {
  for (const Rule* rule : {&matching, &rejection}) {
    Recorded recorded;
    const std::string text = recorded.text(of_trees(*rule, 400));
    std::map<std::string, int> seen;
    for (const std::string& line : lines_of(text)) {
      const Json round = Json::parse(line);
      if (round["type"] != "round" || !round.contains("draft_parents")) continue;
      const std::vector<int> path = round["accepted_path"];
      const std::vector<int> parents = round["draft_parents"];
      int above = -1;
      for (const int node : path) {
        const bool first = std::ranges::find(parents, above) - parents.begin() == node;
        ++seen[first ? "first" : above < 0 ? "sibling" : "sibling below"];
        above = node;
      }
      if (std::ranges::find(parents, above) != parents.end()) ++seen["refused"];
    }
    for (const char* what : {"first", "sibling", "sibling below", "refused"}) EXPECT_GT(seen[what], 0) << what;
    const TraceReport report = report_of(text, recorded.target());
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_exact) << shown(report);
  }
}

/// Lists the draft tokens level by level, as many engines do.
Json by_level(Json round) {
  const std::vector<int> parents = round["draft_parents"];
  std::vector<int> order, places(parents.size());
  std::vector<int> level = {-1};
  while (!level.empty()) {
    std::vector<int> next;
    for (const int above : level) {
      for (int node = 0; node < std::ssize(parents); ++node) {
        if (parents[node] == above) next.push_back(node);
      }
    }
    order.insert(order.end(), next.begin(), next.end());
    level = next;
  }
  for (int i = 0; i < std::ssize(order); ++i) places[order[i]] = i;
  for (const char* field : {"draft_tokens", "q_draft", "draft_u", "q_before", "q_digests", "q_rows"}) {
    const Json listed = round[field];
    for (int i = 0; i < std::ssize(order); ++i) round[field][i] = listed[order[i]];
  }
  for (int i = 0; i < std::ssize(order); ++i) {
    const int above = parents[order[i]];
    round["draft_parents"][i] = above < 0 ? -1 : places[above];
  }
  for (Json& node : round["accepted_path"]) node = places[node.get<int>()];
  return round;
}

TEST(Trees, MayBeListedInAnyOrderThatHasParentsFirst) {
  int moved = 0;
  for (const Rule* rule : {&matching, &rejection}) {
    Recorded recorded;
    std::vector<std::string> lines = lines_of(recorded.text(of_trees(*rule, 300)));
    for (std::string& line : lines) {
      const Json round = Json::parse(line);
      if (round["type"] != "round" || !round.contains("draft_parents")) continue;
      const std::string before = std::exchange(line, by_level(round).dump());
      moved += before != line ? 1 : 0;
    }
    const TraceReport report = report_of(sealed(lines), recorded.target());
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_exact) << shown(report);
  }
  EXPECT_GT(moved, 10);
}

TEST(Trees, EachMutantOfTheZooIsFoundInItsTrace) {
  int found = 0;
  for (const zoo::Mutant& mutant : zoo::all_mutants()) {
    if (!mutant.parts.trees || mutant.harm != zoo::Harm::lossy) continue;
    Recorded recorded({.vocabulary = 6, .levels = 4, .seed = 5}, mutant.parts);
    Recorded sound;
    if (mutant.id == std::string_view("A27"))
      continue;  // it reads rows of every branch; our loop records no such round
    // A rule is wrong under its own name; a target under any.
    const Rule& rule =
        mutant.parts.rule != nullptr && mutant.parts.rule->draft_noise == matching.draft_noise ? matching : rejection;
    const TraceReport report = report_of(recorded.text(of_trees(rule, 300)), sound.target());
    EXPECT_EQ(report.verdict(), ReportVerdict::bug_proven) << mutant.id << " " << mutant.name << "\n" << shown(report);
    ++found;
  }
  EXPECT_GE(found, 4);
}

/// An engine of floats that verifies trees by rejection sampling. Below the text stand a token that is drawn from q and
/// two that are not; below the first a drawn one, below the second one that is not.
class TreeEngine {
 public:
  enum class Fault {
    none,
    sibling_by_p,       // a sibling is accepted when a coin lies below its p, not below its residual
    sibling_not_taken,  // the draw after a rejection selects a sibling, and the round ends there
    residual_of_first,  // below a sibling the residual of the first branch is drawn from
    keeps_first,        // what was rejected is kept where a sibling was accepted
  };
  TreeEngine(Fault fault, std::uint64_t seed) : fault_(fault), numbers_(seed) {
    for (int last = 0; last < vocabulary; ++last) {
      p_.push_back(some_row());
      q_.push_back(some_row());
    }
  }

  /// `stated`: whether decisions are stated; else tokens and rows.
  std::string trace(int tokens, bool stated) {
    const Json header = {{"type", "header"}, {"schema", "spectrace/2"}, {"engine", "trees"},
                         {"vocabulary", 6},  {"rule", "rejection"},     {"dtype", "f64"},
                         {"prompt", {1}},    {"temperature", "0x1p+0"}};
    std::string text = header.dump() + "\n";
    for (int n = 0, position = 1; position < tokens; ++n) {
      const Json step = round(n, position, stated);
      position += static_cast<int>(step["emitted"].size());
      text += step.dump() + "\n";
    }
    return text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
  }

 private:
  static constexpr int vocabulary = 6;
  using Row = std::array<double, vocabulary>;

  static std::string hex(double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%a", value);
    return digits;
  }
  static Json pairs(const Row& row) {
    Json list = Json::array();
    for (int i = 0; i < vocabulary; ++i) {
      if (row[i] > 0) list.insert(list.end(), {i, hex(row[i])});
    }
    return list;
  }
  double coin() { return static_cast<double>(numbers_.next() >> 11) * 0x1p-53; }
  Row some_row() {
    Row row{};
    double sum = 0;
    for (double& weight : row) sum += weight = 1 + static_cast<double>(numbers_.below(8));
    for (double& weight : row) weight /= sum;
    return row;
  }
  static Row point(int token) {
    Row row{};
    row[token] = 1;
    return row;
  }
  static Row residual_of(Row p, const Row& q) {
    for (int i = 0; i < vocabulary; ++i) p[i] = std::max(p[i] - q[i], 0.0);
    return p;
  }
  static int draw(const Row& row, double coin) {
    double sum = 0, until = 0;
    for (const double weight : row) sum += weight;
    int last = 0;
    for (int i = 0; i < vocabulary; ++i) {
      if (row[i] == 0) continue;
      last = i;
      if (coin * sum < (until += row[i])) return last;
    }
    return last;
  }

  Json round(int n, int position, bool stated) {
    std::vector<int> tokens, parents;
    std::vector<Row> from;
    std::vector<Json> coins;
    const auto add = [&](int token, int parent, const Row& q, const Json& u) {
      tokens.push_back(token);
      parents.push_back(parent);
      from.push_back(q);
      coins.push_back(u);
    };
    const double u0 = coin(), u3 = coin();
    add(draw(q_[last_], u0), -1, q_[last_], hex(u0));
    for (const int more : {(last_ + 1) % vocabulary, (last_ + 3) % vocabulary}) {
      const int sibling = more == tokens[0] ? (last_ + 5) % vocabulary : more;
      add(sibling, -1, point(sibling), nullptr);
    }
    add(draw(q_[tokens[0]], u3), 0, q_[tokens[0]], hex(u3));
    add(tokens[0], 1, point(tokens[0]), nullptr);

    std::vector<int> path, emitted;
    Json p_draft = Json::array(), accept_u = p_draft, sibling_u = p_draft, p_rows = p_draft, next_u;
    const char* next_from = "bonus";
    for (int last = last_;;) {
      const Row p = p_[last];
      p_rows.push_back(pairs(p));
      const int above = path.empty() ? -1 : path.back();
      const auto first = std::ranges::find(parents, above) - parents.begin();
      const double u = coin();
      if (first == std::ssize(tokens)) {
        next_u = hex(u);
        emitted.push_back(draw(p, u));
        break;
      }
      const double p_x = p[tokens[first]], q_x = from[first][tokens[first]];
      p_draft.push_back(hex(p_x));
      const bool needs = p_x < q_x;
      accept_u.push_back(needs ? Json(hex(u)) : Json());
      if (!needs || u * q_x < p_x) {
        path.push_back(static_cast<int>(first));
        emitted.push_back(last = tokens[first]);
        sibling_u.push_back(nullptr);
        continue;
      }
      const double drawn_with = coin();
      int token = draw(residual_of(fault_ == Fault::residual_of_first && above == 1 ? p_[tokens[0]] : p, from[first]),
                       drawn_with);
      int sibling = -1;
      for (int j = static_cast<int>(first) + 1; j < std::ssize(tokens); ++j) {
        const bool found = fault_ == Fault::sibling_by_p ? coin() < p[tokens[j]] : tokens[j] == token;
        if (parents[j] == above && sibling < 0 && found) sibling = j;
      }
      if (sibling >= 0) token = tokens[sibling];
      if (sibling < 0 || fault_ == Fault::sibling_not_taken) {
        next_u = hex(drawn_with);
        next_from = "residual";
        emitted.push_back(token);
        break;
      }
      path.push_back(sibling);
      sibling_u.push_back(hex(drawn_with));
      emitted.push_back(fault_ == Fault::keeps_first ? tokens[first] : token);
      last = token;
    }
    last_ = emitted.back();
    Json line = {{"type", "round"}, {"round", n}, {"position", position}, {"emitted", emitted}, {"p_rows", p_rows}};
    if (!stated) return line;
    Json q_draft = Json::array(), q_rows = q_draft;
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      q_draft.push_back(hex(from[j][tokens[j]]));
      q_rows.push_back(pairs(from[j]));
    }
    const Json more = {{"draft_tokens", tokens},
                       {"draft_parents", parents},
                       {"accepted_path", path},
                       {"accepted", path.size()},
                       {"width", 6},
                       {"next_from", next_from},
                       {"q_draft", q_draft},
                       {"draft_u", coins},
                       {"p_draft", p_draft},
                       {"accept_u", accept_u},
                       {"sibling_u", sibling_u},
                       {"next_u", next_u},
                       {"q_rows", q_rows}};
    line.update(more);
    return line;
  }

  Fault fault_;
  Numbers numbers_;
  std::vector<Row> p_, q_;
  int last_ = 1;
};

using Fault = TreeEngine::Fault;

TEST(Trees, OfARightEngineOfFloatsPassAndHaveNoEvidenceAgainstThem) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const TraceReport report = report_of(TreeEngine(Fault::none, seed).trace(3000, true));
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << shown(report);
    EXPECT_TRUE(report.findings.empty());
    ASSERT_TRUE(report.token_test.has_value());
    EXPECT_LT(report.token_test->e_value, 1000);
    for (const Game& game : report.games) EXPECT_LT(game.e_value, 1000) << game.name;
  }
}

TEST(Trees, OfAWrongEngineOfFloatsAreFound) {
  const std::pair<Fault, const char*> faults[] = {{Fault::sibling_by_p, "residual"},
                                                  {Fault::sibling_not_taken, "acceptance"},
                                                  {Fault::residual_of_first, "residual"},
                                                  {Fault::keeps_first, "conservation"}};
  for (const auto& [fault, check] : faults) {
    const TraceReport report = report_of(TreeEngine(fault, 4).trace(2000, true));
    EXPECT_EQ(report.verdict(), ReportVerdict::bug_proven) << check;
    EXPECT_THAT(report.findings, Contains(testing::Field(&TraceFinding::check, testing::StrEq(check))))
        << shown(report);
  }
}

TEST(Trees, OfAWrongEngineAreFoundByTokensAndRowsAlone) {
  for (const Fault fault : {Fault::sibling_by_p, Fault::keeps_first}) {
    const TraceReport report = report_of(TreeEngine(fault, 4).trace(60000, false));
    EXPECT_EQ(report.verdict(), ReportVerdict::bug_stat) << static_cast<int>(fault) << shown(report);
  }
  // Tokens are distributed as p: the sibling is emitted, and only its draft token was wasted.
  const TraceReport report = report_of(TreeEngine(Fault::sibling_not_taken, 4).trace(60000, false));
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << shown(report);
}

TEST(Trees, ThatAreNoTreesAreRefusedWithASentence) {
  const std::string header = R"({"type":"header","schema":"spectrace/2","engine":"x","vocabulary":6,"rule":"matching",)"
                             R"("temperature":"0x1p+0","prompt":[1]})";
  const auto said = [&](const std::string& fields, const std::string& head) {
    return report_of(head +
                     "\n{\"type\":\"round\",\"round\":0,\"position\":1,\"draft_tokens\":[1,2,3],\"next_from\":"
                     "\"target\"," +
                     fields + "}\n{\"type\":\"end\",\"reason\":\"cancelled\"}\n")
        .invalid;
  };
  const std::pair<const char*, const char*> lines[] = {
      {R"("accepted":0,"emitted":[4],"draft_parents":[-1,1,0],"accepted_path":[])", "draft_parents[1]"},
      {R"("accepted":0,"emitted":[4],"draft_parents":[-1,0],"accepted_path":[])", "draft_parents"},
      {R"("accepted":0,"emitted":[4],"draft_parents":[-1,0,0])", "accepted_path"},
      {R"("accepted":1,"emitted":[2,4],"draft_parents":[-1,0,-1],"accepted_path":[1])", "is no child"},
      {R"("accepted":1,"emitted":[1,4],"draft_parents":[-1,0,-1],"accepted_path":[0,1])", "accepted_path"},
      {R"("accepted":1,"emitted":[1,4],"draft_parents":[-1,0,-1],"accepted_path":[3])", "accepted_path[0]"},
      {R"("accepted":1,"emitted":[1,4],"accepted_path":[0])", "field draft_parents is missing"},
      {R"("accepted":0,"emitted":[4],"draft_parents":[-1,0,0],"accepted_path":[],"sibling_u":[])", "rejection only"},
      {R"("accepted":0,"emitted":[4],"draft_parents":[-1,0,0],"accepted_path":[],"p_draft":["0x0p+0","0x0p+0"])",
       "p_draft"},
      {R"("accepted":0,"emitted":[4],"draft_parents":[-1,0,0],"accepted_path":[],"q_draft":["0x1p+0"])", "q_draft"},
  };
  for (const auto& [fields, why] : lines) EXPECT_THAT(said(fields, header), HasSubstr(why)) << fields;
  std::string block = header;
  block.replace(block.find("matching"), 8, "block");
  EXPECT_THAT(said(lines[0].first, block), HasSubstr("block verification is of chains"));
  EXPECT_EQ(said(R"("accepted":1,"emitted":[3,4],"draft_parents":[-1,0,-1],"accepted_path":[2])", header), "");
}

}  // namespace
}  // namespace draftproof::spectrace::tree_test
