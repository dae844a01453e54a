// SPDX-License-Identifier: MIT
#include "ref/formats/protobuf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/base/error.h"

namespace draftproof::protobuf_test {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename Act>
std::string error_of(const std::string& bytes, Act act) {
  try {
    ProtobufFields fields(bytes, "FILE: field f");
    while (fields.next()) act(fields);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string error_of(const std::string& bytes) {
  return error_of(bytes, [](const ProtobufFields&) {});
}

TEST(Protobuf, WalksTheFieldsOfAMessage) {
  const std::string bytes = "\x08\x96\x01\x12\x02hi\x1D\x00\x00\xC0\xBF\x21\x01\x02\x03\x04\x05\x06\x07\x08\x28\x01"s;
  ProtobufFields fields(bytes, "FILE");
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.number(), 1u);
  EXPECT_EQ(fields.integer("n"), 150);
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.text("t"), "hi");
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.real("r"), -1.5f);
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.number(), 4u);  // eight bytes that nobody reads
  ASSERT_TRUE(fields.next());
  EXPECT_TRUE(fields.truth("b"));
  EXPECT_FALSE(fields.next());
}

TEST(Protobuf, ReadsNegativeAndLargestNumbers) {
  const std::string bytes = "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s;
  ProtobufFields fields(bytes, "FILE");
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.integer("n"), -1);
}

// Whatever follows, a message that was cut is an error or shorter by whole fields.
TEST(Protobuf, EveryTruncationIsAnErrorOrEndsBetweenFields) {
  const std::string bytes = "\x08\x96\x01\x12\x02hi\x1D\x00\x00\xC0\xBF"s;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const bool between = size == 0 || size == 3 || size == 7;
    EXPECT_EQ(error_of(bytes.substr(0, size)), between ? "" : "FILE: field f: the message ends inside a field") << size;
  }
}

TEST(Protobuf, RejectsWhatIsNoMessage) {
  EXPECT_THAT(error_of("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"s), HasSubstr("longer than 64 bits"));
  EXPECT_THAT(error_of("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s), HasSubstr("longer than 64 bits"));
  EXPECT_THAT(error_of("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s), HasSubstr("ends inside a field"));
  EXPECT_THAT(error_of("\x00\x01"s), HasSubstr("without a valid number"));
  EXPECT_THAT(error_of("\x0B\x0C"s), HasSubstr("field 1 of the message has an unknown type"));
}

TEST(Protobuf, RejectsAFieldOfAnotherType) {
  const auto expect = [](const std::string& bytes, auto act, const char* what) {
    EXPECT_THAT(error_of(bytes, act), StartsWith("FILE: field f: field x ")) << what;
    EXPECT_THAT(error_of(bytes, act), HasSubstr(what));
  };
  const auto integer = [](const ProtobufFields& fields) { fields.integer("x"); };
  const auto text = [](const ProtobufFields& fields) { fields.text("x"); };
  const auto real = [](const ProtobufFields& fields) { fields.real("x"); };
  expect("\x0A\x01z"s, integer, "wrong type");
  expect("\x08\x01"s, text, "wrong type");
  expect("\x08\x01"s, real, "wrong type");
  expect("\x0A\x01\xFF"s, text, "not UTF-8");
  expect("\x0D\x00\x00\xC0\x7F"s, real, "not a finite number");
}

}  // namespace
}  // namespace draftproof::protobuf_test
