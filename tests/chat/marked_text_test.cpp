// SPDX-License-Identifier: MIT
#include "ref/chat/marked_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace draftproof::jinja::marked_text_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MarkedText, KeepsTheMarksOfWhatIsAppended) {
  MarkedText text("<a>");
  text.append(MarkedText::of_user("user"));
  text.append(MarkedText::of_user("!"));
  text.append("<b>");
  EXPECT_EQ(text.bytes(), "<a>user!<b>");
  EXPECT_THAT(text.user_ranges(), ElementsAre(ByteRange{3, 8})) << "ranges that touch are one";
  MarkedText more("x");
  more.append(text, 4, 10);
  EXPECT_EQ(more.bytes(), "xser!<b");
  EXPECT_THAT(more.user_ranges(), ElementsAre(ByteRange{1, 5}));
  EXPECT_THAT(text.part(8, 11).user_ranges(), IsEmpty());
  EXPECT_THAT(text.part(5, 6).user_ranges(), ElementsAre(ByteRange{0, 1}));
}

TEST(MarkedText, GivesEveryCharacterItsMark) {
  MarkedText text("\u00e9");
  text.append(MarkedText::of_user("\u4e16x"));
  text.append("y");
  std::vector<std::pair<char32_t, bool>> seen;
  for (MarkedCharacters characters(text); !characters.done();) {
    const auto character = characters.next();
    seen.emplace_back(character.code_point, character.by_user);
  }
  EXPECT_THAT(seen, ElementsAre(std::pair(U'\u00e9', false), std::pair(U'\u4e16', true), std::pair(U'x', true),
                                std::pair(U'y', false)));
}

}  // namespace
}  // namespace draftproof::jinja::marked_text_test
