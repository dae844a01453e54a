// SPDX-License-Identifier: MIT
// Random sentences of grammars of JSON.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ref/grammar/grammar_states.h"
#include "tests/acceptance/numbers.h"

namespace draftproof::test {

/// A sentence, by a random walk; empty when it has not come to an end.
inline std::string sentence(const Grammar& grammar, Numbers& numbers) {
  GrammarStates states(grammar);
  int state = states.start();
  std::string text;
  while (text.size() < 400) {
    if (states.complete(state) || (states.accepts(state) && numbers.next() % 3 == 0)) return text;
    std::vector<unsigned char> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      if (states.next(state, static_cast<unsigned char>(byte)) != GrammarStates::dead) {
        bytes.push_back(static_cast<unsigned char>(byte));
      }
    }
    EXPECT_FALSE(bytes.empty()) << text << ": nothing can go on";
    if (bytes.empty()) return "";
    unsigned char byte = bytes[numbers.next() % bytes.size()];
    for (const char ends : std::string_view("\"}]")) {  // most walks should end
      const bool can = std::ranges::find(bytes, static_cast<unsigned char>(ends)) != bytes.end();
      if (can && numbers.next() % 3 == 0) byte = static_cast<unsigned char>(ends);
    }
    text += static_cast<char>(byte);
    state = states.next(state, byte);
  }
  return "";
}

}  // namespace draftproof::test
