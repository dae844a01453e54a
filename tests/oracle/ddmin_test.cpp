// SPDX-License-Identifier: MIT
#include "oracle/shrink/ddmin.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace draftproof::ddmin_test {
namespace {

/// Returns the set of elements of a list of distinct 0, 1, ...
unsigned set_of(const std::vector<int>& list) {
  unsigned set = 0;
  for (const int element : list) set |= 1u << element;
  return set;
}

std::vector<int> first(int count) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(i);
  return list;
}

TEST(Ddmin, FindsAFailingPartThatNeedsEachOfItsElements) {
  for (std::uint32_t code = 0; code < 1u << 16; ++code) {  // bit s: the set s fails
    if ((code >> 15 & 1) == 0) continue;                   // the whole list must fail
    const auto fails = [&](unsigned set) { return (code >> set & 1) != 0; };
    const std::vector<int> found = ddmin(first(4), [&](const std::vector<int>& list) { return fails(set_of(list)); });
    ASSERT_TRUE(std::is_sorted(found.begin(), found.end())) << code;
    ASSERT_TRUE(fails(set_of(found))) << code;
    for (const int element : found) ASSERT_FALSE(fails(set_of(found) & ~(1u << element))) << code;
  }
}

TEST(Ddmin, FindsTheSmallestWhereOneSetOfElementsIsTheCause) {
  for (const int count : {1, 2, 3, 7, 8, 9}) {
    for (unsigned cause = 0; cause < 1u << count; ++cause) {
      const auto fails = [&](const std::vector<int>& list) { return (set_of(list) & cause) == cause; };
      ASSERT_EQ(set_of(ddmin(first(count), fails)), cause) << count;
    }
  }
}

TEST(Ddmin, KeepsTheLeastNumberOfElements) {
  const auto always = [](const std::vector<int>&) { return true; };
  EXPECT_EQ(ddmin(first(9), always).size(), 0U);
  EXPECT_EQ(ddmin(first(9), always, 1).size(), 1U);
  EXPECT_EQ(ddmin(first(9), always, 4).size(), 4U);
  EXPECT_EQ(ddmin(first(3), always, 5).size(), 3U);
}

TEST(Ddmin, ReturnsTheLastFailingListWhenStopped) {
  for (int inputs = 0; inputs < 30; ++inputs) {
    int asked = 0;
    std::vector<int> failed = first(8);
    const std::vector<int> found = ddmin(first(8), [&](const std::vector<int>& list) {
      if (++asked > inputs || (set_of(list) & 0x24u) != 0x24u) return false;
      failed = list;
      return true;
    });
    EXPECT_EQ(found, failed) << inputs;
  }
}

}  // namespace
}  // namespace draftproof::ddmin_test
