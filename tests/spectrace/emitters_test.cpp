// SPDX-License-Identifier: MIT
// The emitters of docs/spectrace.md, as printed there: compiled and run, each by a toy engine that is not ours, and
// what they write is held to the check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/spectrace/support.h"

namespace draftproof::spectrace {
namespace {

using testing::HasSubstr;

/// The n-th block of that language in the document.
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

TEST(Emitters, TheOneInCppCompilesWithoutWarningsAndIsCheckedAsFarAsItSays) {
  const std::string block = block_of("cpp");
  ASSERT_FALSE(block.empty());
  EXPECT_LE(lines_of_code(block), 30);
  const Script script(block + R"(
int main(int, char** arguments) {
  SpecTrace trace(arguments[1]);
  trace.header("toy", "rejection", 4, 0.7, 5, {1, 2});
  trace.step(2, 3, {0, 1}, {0.5, 0.25}, {0.4, 0.5}, {0.7, 0.9}, 2, "bonus", {0, 1, 3});
  trace.step(5, 2, {2}, {0.5}, {0.25}, {0.75}, 0, "res", {1});
  trace.step(6, 1, {}, {}, {}, {}, 0, "bonus", {0});
  trace.end("length", 5);
}
)", ".cpp");
  const std::string program = script.path + ".out";
  ASSERT_EQ(run("c++ -std=c++17 -Wall -Wextra -Werror -o " + program + " " + script.path), 0);
  const File trace;
  ASSERT_EQ(run(program + " " + trace.path()), 0);
  std::filesystem::remove(program);
  const Report report = replay(trace.path());
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << report_text(report_of(report));
  EXPECT_EQ(report.examined.draft_tokens, 3);
  EXPECT_EQ(report.examined.accepted, 2);
  EXPECT_THAT(report_text(report_of(report)), HasSubstr("do not say how they were drawn"));

  std::ifstream file(trace.path());
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string coin = "\"0x1.8p-1\"";  // 0.75: it fell
  ASSERT_NE(text.find(coin), std::string::npos) << text;
  text.replace(text.find(coin), coin.size(), "\"0x1p-2\"");
  trace.put(text);
  const Report changed = replay(trace.path());
  ASSERT_EQ(changed.verdict(), ReportVerdict::bug_proven) << report_text(report_of(changed));
  EXPECT_EQ(changed.findings.front().check, std::string("acceptance"));
  EXPECT_EQ(changed.findings.front().position, 5);
}

constexpr const char* toy_engine = R"(
import random, sys
W = 1 << 52
chance = random.Random(7)

def row(seed):
    dice = random.Random(seed)
    shares = [dice.randrange(1, 9) for _ in range(4)]
    weights = [W * share // sum(shares) for share in shares]
    weights[0] += W - sum(weights)
    return dict(enumerate(weights))

def draw(row):
    total = sum(row.values())
    coin, before = chance.randrange(total), 0
    for token, weight in sorted(row.items()):
        if coin < before + weight:
            return token, dict(id=token, c=coin, of=total, at=before, wt=weight)
        before += weight

def rounds(trace, s, prompt, most):
    text, out = list(prompt), 0
    while out < most:
        P, Q, d, q, qc, qb = [], [], [], [], [], []
        for j in range(min(2, most - out - 1)):
            Q.append(row("q%s" % (text + d)))
            token, drawn = draw(Q[j])
            d.append(token), q.append(drawn["wt"]), qc.append(drawn["c"]), qb.append(drawn["at"])
        p, u, a = [], [], 0
        while a < len(d):
            P.append(row("p%s" % (text + d[:a])))
            p.append(P[a][d[a]])
            u.append(chance.randrange(q[a]))
            if u[a] >= p[a]:
                break
            a += 1
        if a < len(d):
            token, y = draw({t: P[a][t] - Q[a][t] for t in P[a] if P[a][t] > Q[a][t]})
            y.update(p=P[a][token], q=Q[a][token])
        else:
            P.append(row("p%s" % (text + d)))
            token, y = draw(P[a])
        o = d[:a] + [token]
        trace.step(s, len(text), o, d=d, a=a, w=len(d) + 1, last="res" if a < len(d) else "bonus", q=q, qc=qc, qb=qb,
                   p=p, u=u, y=y, P=P, Q=Q)
        text, out = text + o, out + len(o)
        yield
    trace.end(s, "length", out)

trace = SpecTrace(sys.argv[1], "toy", "rejection", 4, W=W)
trace.open(0, [1], 1.0, max=40)
trace.open(1, [2, 3], 0.5, max=30)
runs = [rounds(trace, 0, [1], 40), rounds(trace, 1, [2, 3], 30)]  # two sequences, served in turn
while runs:
    runs = [run for run in runs if next(run, "ended") != "ended"]
)";

TEST(Emitters, TheOneInPythonWritesWhatIsReplayedAndPasses) {
  if (run("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const std::string block = block_of("python");
  ASSERT_FALSE(block.empty());
  EXPECT_LE(lines_of_code(block), 25);
  const Script script(block + toy_engine, ".py");
  const File trace;
  ASSERT_EQ(run("python3 " + script.path + " " + trace.path()), 0);
  const Report report = replay(trace.path());
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(report_of(report));
  EXPECT_EQ(report.examined.sequences, 2);
  EXPECT_EQ(report.examined.tokens, 70);
  EXPECT_GT(report.examined.accepted, 0);
  EXPECT_GT(report.examined.draft_tokens, report.examined.accepted);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  EXPECT_NE(text.find(what), std::string::npos) << what;
  return text.replace(text.find(what), what.size(), by);
}

TEST(Emitters, TheOneInPythonWithRowsBesideItWritesWhatIsReplayedAndPasses) {
  if (run("python3 -c 'import h5py' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 with h5py";
  const std::string block = block_of("python", 1);
  ASSERT_FALSE(block.empty());
  EXPECT_LE(lines_of_code(block), 35);
  std::string engine = replaced(toy_engine, "P=P, Q=Q", "P=rows.add(P), Q=rows.add(Q)");
  engine = replaced(engine, "W=W)\n", "W=W, rows=name.split('/')[-1])\nrows = SpecRows(name)\n");
  engine = replaced(engine, "W = 1 << 52\n", "W = 1 << 52\nname = sys.argv[1] + '.h5'\n");
  const std::string last = R"(
rows.close()
steps = [step for step in map(json.loads, open(sys.argv[1])) if step["t"] == "step"]
assert all(sum(read_row(rows.path, step["P"]["row"]).values()) == W for step in steps)
)";
  const Script script(block_of("python") + block + engine + last, ".py");
  const File trace;
  ASSERT_EQ(run("python3 " + script.path + " " + trace.path()), 0);
  const Report report = replay(trace.path());
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(report_of(report));
  EXPECT_EQ(report.examined.tokens, 70);
  EXPECT_FALSE(report.depths.empty());
  std::filesystem::remove(trace.path() + ".h5");
}

}  // namespace
}  // namespace draftproof::spectrace
