// SPDX-License-Identifier: MIT
#include "ref/text/key_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>

#include "ref/text/text_table.h"

namespace draftproof::key_table_test {
namespace {

RC_GTEST_PROP(KeyTable, EqualsAMap, ()) {
  KeyTable<int> table;
  std::map<std::uint64_t, int> map;
  const auto key = rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 40), rc::gen::inRange<std::uint64_t>(0, ~0ULL));
  for (const auto& [one, value] :
       *rc::gen::container<std::vector<std::pair<std::uint64_t, int>>>(rc::gen::pair(key, rc::gen::arbitrary<int>()))) {
    RC_ASSERT(table.insert(one, value) == map.emplace(one, value).second);
    RC_ASSERT(table.find(one) != nullptr);
    RC_ASSERT(*table.find(one) == map.at(one));
  }
  for (std::uint64_t one = 0; one < 50; ++one) RC_ASSERT((table.find(one) != nullptr) == map.contains(one));
}

RC_GTEST_PROP(TextTable, EqualsAMap, ()) {
  TextTable table;
  std::map<std::string, Token> map;
  const auto text = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab")));
  const auto texts = *rc::gen::container<std::vector<std::string>>(text);
  for (const std::string& one : texts) {
    const auto token = static_cast<Token>(map.size());
    RC_ASSERT(table.insert(one, token) == map.emplace(one, token).second);
  }
  for (const std::string& one : texts) {
    RC_ASSERT(table.find(one) == map.at(one));
    RC_ASSERT(table.find(one + "a") == (map.contains(one + "a") ? map.at(one + "a") : -1));
  }
}

}  // namespace
}  // namespace draftproof::key_table_test
