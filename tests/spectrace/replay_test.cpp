// SPDX-License-Identifier: MIT
// Traces of the loop pass; tampered with in any one place they do not. A tampered file is sealed again, so that it is
// not the digest that speaks but what the lines say.
#include "oracle/spectrace/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/reader.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(Replay, PassesWhatTheLoopDidUnderEveryRuleAndSamplingWithTheTargetAndWithout) {
  Recorded recorded;
  for (const Case& c : cases()) {
    const File file(recorded.text(c));
    const Report held = replay(file.path(), recorded.target());
    EXPECT_EQ(held.verdict(), Verdict::pass_exact) << c.name << "\n" << report_text(held);
    EXPECT_GT(held.examined.rows, 0);
    EXPECT_GT(held.examined.accepted, 0) << c.name;
    EXPECT_GT(held.examined.guesses, held.examined.accepted) << c.name;
    const Report alone = replay(file.path());
    EXPECT_EQ(alone.verdict(), Verdict::pass_exact) << c.name << "\n" << report_text(alone);
    EXPECT_EQ(alone.examined.rows, 0);
    EXPECT_THAT(report_text(alone), HasSubstr("give --target"));
  }
}

TEST(Replay, PlainReaderSaysWhatPlainRowSaysWhateverWasReadBefore) {
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

/// Every leaf of a line: a way to it, and what it is called: its field, without places in lists.
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

/// Other values for a leaf.
std::vector<Json> others_than(const Json& leaf) {
  if (leaf.is_number()) return {leaf.get<std::int64_t>() + 1, leaf.get<std::int64_t>() - 1};
  if (leaf.is_null()) return {0, 1};
  const std::string text = leaf;
  if (text.starts_with("0x") || text.starts_with("-0x")) return {text == "0x1p-1" ? "0x1p-2" : "0x1p-1"};
  static const std::map<std::string, std::vector<Json>> names = {
      {"batched", {"serial"}},           {"serial", {"batched"}},  {"matching", {"rejection"}},
      {"rejection", {"matching"}},       {"res", {"own", "bonus"}}, {"own", {"res", "bonus"}},
      {"bonus", {"own", "res"}},         {"stop", {"length", "cancelled"}}, {"length", {"stop", "cancelled"}},
  };
  if (const auto found = names.find(text); found != names.end()) return found->second;
  if (text.empty()) return {"x"};
  std::string other = text;
  other.back() = other.back() == '7' ? '8' : '7';
  return {other};
}

TEST(Replay, NoFieldOfAnyLineCanBeChangedAndPass) {
  Recorded recorded;
  std::map<std::string, std::set<std::string>> spoke;  // by field
  std::set<std::string> passed;
  long changes = 0;
  for (const Case& c : cases()) {
    const std::vector<std::string> lines = lines_of(recorded.text(c));
    const File file;
    for (std::size_t at = 0; at < lines.size(); ++at) {
      const Json line = Json::parse(lines[at]);
      std::vector<std::pair<std::string, std::string>> leaves;
      leaves_of(line, "", line["t"], leaves);
      for (const auto& [way, name] : leaves) {
        for (const Json& other : others_than(line[Json::json_pointer(way)])) {
          Json changed = line;
          changed[Json::json_pointer(way)] = other;
          std::vector<std::string> tampered = lines;
          tampered[at] = changed.dump();
          file.put(name == "end.sha256" ? joined(tampered) : sealed(tampered));
          ++changes;
          const Report report = replay(file.path(), recorded.target());
          if (report.verdict() == Verdict::pass_exact) {
            passed.insert(name + " (" + c.name + ")");
          } else if (report.verdict() == Verdict::bug_proven) {
            spoke[name].insert(report.findings.front().check);
          } else {
            spoke[name].insert(name_of(report.verdict()));
          }
        }
      }
    }
  }
  for (const auto& [name, checks] : spoke) {
    std::string text;
    for (const std::string& check : checks) text += " " + check;
    std::printf("%s:%s\n", name.c_str(), text.c_str());
  }
  std::printf("%ld changes\n", changes);
  for (const std::string& name : passed) std::printf("passed: %s\n", name.c_str());
}

}  // namespace
}  // namespace draftproof::spectrace
