// SPDX-License-Identifier: MIT
// Compiles and runs the emitters of docs/spectrace.md as printed there, each with a toy engine that shares no code with
// ours, and checks the traces they write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/spectrace/support.h"
#include "tests/tools/command.h"

namespace draftproof::spectrace::emitters_test {
namespace {

using testing::HasSubstr;

/// Returns the n-th code block of `language` in docs/spectrace.md.
std::string block_of(const std::string& language, int n = 0) {
  std::ifstream file(std::string(DRAFTPROOF_SOURCE_DIR) + "/docs/spectrace.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string fence = "```" + language + "\n";
  std::size_t from = text.find(fence);
  while (n-- > 0 && from != std::string::npos) from = text.find(fence, from + 1);
  if (from == std::string::npos) return "";
  return text.substr(from + fence.size(), text.find("```\n", from + fence.size()) - from - fence.size());
}

long lines_of_code(const std::string& text) {
  long lines = 0;
  for (const std::string& line : lines_of(text)) {
    lines += !line.empty() && !line.starts_with("#include") && !line.starts_with("import");
  }
  return lines;
}

struct Script {
  explicit Script(const std::string& text, const std::string& extension) : path(stem.path() + extension) {
    std::ofstream(path) << text;
  }
  ~Script() { std::filesystem::remove(path); }
  File stem;
  std::string path;
};

int run(const std::string& command) { return std::system(command.c_str()); }

TEST(Emitters, TheCppEmitterCompilesWithoutWarningsAndItsTraceIsCheckedAsFarAsItGoes) {
  const std::string block = block_of("cpp");
  ASSERT_FALSE(block.empty());
  EXPECT_LE(lines_of_code(block), 30);
  const Script script(block + R"(
int main(int, char** arguments) {
  SpecTrace trace(arguments[1]);
  trace.header("toy", "rejection", 4, 0.7, 5, {1, 2});
  trace.round(2, 3, 2, "bonus", {0, 1, 3}, {0, 1}, {0.5, 0.25}, {0.4, 0.5}, {0.7, 0.9});
  trace.round(5, 2, 0, "residual", {1}, {2}, {0.5}, {0.25}, {0.75});
  trace.round(6, 1, 0, "bonus", {0}, {}, {}, {}, {});
  trace.end("length", 5);
}
)",
                      ".cpp");
  const std::string program = script.path + ".out";
  ASSERT_EQ(run("c++ -std=c++17 -Wall -Wextra -Werror -o " + program + " " + script.path), 0);
  const File trace;
  ASSERT_EQ(run(program + " " + trace.path()), 0);
  std::filesystem::remove(program);
  const TraceReport report = replay(trace.path());
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << report_text(make_report(report));
  EXPECT_EQ(report.examined.draft_tokens, 3);
  EXPECT_EQ(report.examined.accepted, 2);
  EXPECT_THAT(report_text(make_report(report)),
              HasSubstr("does not state how the tokens after the draft tokens were drawn"));

  std::ifstream file(trace.path());
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string coin = "\"0x1.8p-1\"";  // 0.75 rejected the draft token
  ASSERT_NE(text.find(coin), std::string::npos) << text;
  text.replace(text.find(coin), coin.size(), "\"0x1p-2\"");
  trace.put(text);
  const TraceReport changed = replay(trace.path());
  ASSERT_EQ(changed.verdict(), ReportVerdict::bug_proven) << report_text(make_report(changed));
  EXPECT_EQ(changed.findings.front().check, std::string("acceptance"));
  EXPECT_EQ(changed.findings.front().place.position, 5);
}

/// As the page states it: with a shipped model the first example passes and its wrong sibling does not.
TEST(Emitters, TheFirstExampleIsItsFileAndPassesAndTheOneWithADoubledTokenIsProvedWrong) {
  const std::string folder = std::string(DRAFTPROOF_SOURCE_DIR) + "/docs/examples/";
  EXPECT_EQ(block_of("json"), test::text_of(folder + "tokens.jsonl"));
  const std::string model = test::fixture("models/tale-target");
  const auto right = test::run_command({"trace", "check", folder + "tokens.jsonl", "--target", model});
  EXPECT_EQ(right.status, 0) << right.out << right.err;
  EXPECT_THAT(right.out, HasSubstr("\n  PASS_STAT\n"));
  const auto wrong = test::run_command({"trace", "check", folder + "tokens_doubled.jsonl", "--target", model});
  EXPECT_EQ(wrong.status, 1) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("more than numerics explain"));
}

TEST(Emitters, TheSecondExampleIsReplayedWithoutFindings) {
  const File decisions(block_of("json", 1));
  const TraceReport of_decisions = replay(decisions.path());
  EXPECT_EQ(of_decisions.verdict(), ReportVerdict::undecided) << report_text(make_report(of_decisions));
  EXPECT_EQ(of_decisions.examined.draft_tokens, 3);
  EXPECT_EQ(of_decisions.examined.accepted, 2);
}

constexpr const char* toy_engine = R"(
import random, sys
total_weight = 1 << 52
dice = random.Random(7)

def row(seed):
    dice = random.Random(seed)
    shares = [dice.randrange(1, 9) for _ in range(4)]
    weights = [total_weight * share // sum(shares) for share in shares]
    weights[0] += total_weight - sum(weights)
    return dict(enumerate(weights))

def draw(row):
    bound = sum(row.values())
    u, before = dice.randrange(bound), 0
    for token, weight in sorted(row.items()):
        if u < before + weight:
            return token, dict(token=token, u=u, bound=bound, before=before, weight=weight)
        before += weight

def rounds(trace, sequence, prompt, most):
    text, count = list(prompt), 0
    while count < most:
        p_rows, q_rows, draft_tokens, q_draft, draft_u, q_before = [], [], [], [], [], []
        for j in range(min(2, most - count - 1)):
            q_rows.append(row("q%s" % (text + draft_tokens)))
            token, drawn = draw(q_rows[j])
            draft_tokens.append(token), q_draft.append(drawn["weight"])
            draft_u.append(drawn["u"]), q_before.append(drawn["before"])
        p_draft, accept_u, accepted = [], [], 0
        while accepted < len(draft_tokens):
            p_rows.append(row("p%s" % (text + draft_tokens[:accepted])))
            p_draft.append(p_rows[accepted][draft_tokens[accepted]])
            accept_u.append(dice.randrange(q_draft[accepted]))
            if accept_u[accepted] >= p_draft[accepted]:
                break
            accepted += 1
        rejected = accepted < len(draft_tokens)
        if rejected:
            p, q = p_rows[accepted], q_rows[accepted]
            token, next_token = draw({t: p[t] - q[t] for t in p if p[t] > q[t]})
            next_token.update(p=p[token], q=q[token])
        else:
            p_rows.append(row("p%s" % (text + draft_tokens)))
            token, next_token = draw(p_rows[accepted])
        emitted = draft_tokens[:accepted] + [token]
        trace.round(sequence, len(text), emitted, draft_tokens=draft_tokens, accepted=accepted,
                    width=len(draft_tokens) + 1, next_from="residual" if rejected else "bonus", q_draft=q_draft,
                    draft_u=draft_u, q_before=q_before, p_draft=p_draft, accept_u=accept_u, next=next_token,
                    p_rows=p_rows, q_rows=q_rows)
        text, count = text + emitted, count + len(emitted)
        yield
    trace.end(sequence, "length", count)

trace = SpecTrace(sys.argv[1], "toy", "rejection", 4, total_weight=total_weight)
trace.sequence(0, [1], 1.0, max_new_tokens=40)
trace.sequence(1, [2, 3], 0.5, max_new_tokens=30)
runs = [rounds(trace, 0, [1], 40), rounds(trace, 1, [2, 3], 30)]  # two sequences, served alternately
while runs:
    runs = [run for run in runs if next(run, "ended") != "ended"]
)";

TEST(Emitters, TracesOfThePythonEmitterAreReplayedAndPass) {
  if (run("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const std::string block = block_of("python");
  ASSERT_FALSE(block.empty());
  EXPECT_LE(lines_of_code(block), 25);
  const Script script(block + toy_engine, ".py");
  const File trace;
  ASSERT_EQ(run("python3 " + script.path + " " + trace.path()), 0);
  const TraceReport report = replay(trace.path());
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(make_report(report));
  EXPECT_EQ(report.examined.sequences, 2);
  EXPECT_EQ(report.examined.tokens, 70);
  EXPECT_GT(report.examined.accepted, 0);
  EXPECT_GT(report.examined.draft_tokens, report.examined.accepted);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  EXPECT_NE(text.find(what), std::string::npos) << what;
  return text.replace(text.find(what), what.size(), by);
}

TEST(Emitters, TracesOfThePythonEmitterWithARowsFileAreReplayedAndPass) {
  if (run("python3 -c 'import h5py' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 with h5py";
  const std::string block = block_of("python", 1);
  ASSERT_FALSE(block.empty());
  EXPECT_LE(lines_of_code(block), 35);
  std::string engine =
      replaced(toy_engine, "p_rows=p_rows, q_rows=q_rows", "p_rows=rows.add(p_rows), q_rows=rows.add(q_rows)");
  engine = replaced(engine, "total_weight=total_weight)\n",
                    "total_weight=total_weight, rows_file=name.split('/')[-1])\nrows = SpecRows(name)\n");
  engine = replaced(engine, "total_weight = 1 << 52\n", "total_weight = 1 << 52\nname = sys.argv[1] + '.h5'\n");
  const std::string last = R"(
rows.close()
rounds = [line for line in map(json.loads, open(sys.argv[1])) if line["type"] == "round"]
assert all(sum(read_row(rows.path, line["p_rows"]["row"]).values()) == total_weight for line in rounds)
)";
  const Script script(block_of("python") + block + engine + last, ".py");
  const File trace;
  ASSERT_EQ(run("python3 " + script.path + " " + trace.path()), 0);
  const TraceReport report = replay(trace.path());
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(make_report(report));
  EXPECT_EQ(report.examined.tokens, 70);
  EXPECT_FALSE(report.depths.empty());
  std::filesystem::remove(trace.path() + ".h5");
}

}  // namespace
}  // namespace draftproof::spectrace::emitters_test
