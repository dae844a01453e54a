// SPDX-License-Identifier: MIT
#include "ref/base/sha256.h"

#include <gtest/gtest.h>

namespace draftproof::sha256_test {
namespace {

std::string of(std::string_view bytes) {
  Sha256 sha;
  sha.add(bytes);
  return sha.hex();
}

TEST(Sha256, EqualsTheExamplesOfTheStandard) {  // FIPS 180-4's own examples
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesWereSplitForAnyLengthUpToThreeBlocks) {
  std::string text;
  for (std::size_t length = 0; length <= 192; ++length, text += static_cast<char>('a' + length % 26)) {
    for (std::size_t cut = 0; cut <= length; ++cut) {
      Sha256 sha;
      sha.add(std::string_view(text).substr(0, cut));
      sha.hex();  // reading the hash does not change the state
      sha.add(std::string_view(text).substr(cut));
      ASSERT_EQ(sha.hex(), of(text)) << length << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace draftproof::sha256_test
