// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/tools/command.h"

namespace draftproof::test::signature_test {
namespace {

std::map<std::string, std::string> lines_of(const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream stream(text);
  for (std::string numerics, digest; stream >> numerics >> digest;) lines[numerics] = digest;
  return lines;
}

TEST(SignatureSlow, OfEveryTableAndThreadCountEqualsTheSnapshot) {
  const auto expected = lines_of(text_of(fixture("snapshots/signature.txt")));
  ASSERT_TRUE(expected.contains("canonical"));
  const Outcome outcome = run_command({"signature", "--models", fixture("models")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const auto& [numerics, digest] : lines_of(outcome.out)) {
    // OpenBLAS on a core type that has no line yet has nothing to be compared with.
    if (expected.contains(numerics)) {
      EXPECT_EQ(digest, expected.at(numerics))
          << numerics << ": tokens or logits have changed; if that is meant, say why in "
          << "the commit and write `draftproof signature` to the snapshot";
    }
  }
}

}  // namespace
}  // namespace draftproof::test::signature_test
