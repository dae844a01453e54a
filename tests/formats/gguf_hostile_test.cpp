// SPDX-License-Identifier: MIT
// Invalid GGUF files: each is rejected with a message that names file and key or tensor, and none crashes the reader.
#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf.h"
#include "tests/formats/files.h"
#include "tests/formats/gguf_bytes.h"

namespace draftproof::gguf_hostile_test {
namespace {

using draftproof::test::GgufBytes;
using ::testing::HasSubstr;

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t q8_0 = 8;
constexpr std::uint32_t i64 = 27;
constexpr std::uint64_t huge = std::uint64_t{1} << 62;

/// Two tensors, 8 and 34 bytes, in 32 + 34 bytes of data.
GgufBytes good() {
  return GgufBytes()
      .text("general.architecture", "x")
      .texts("texts", {"a", "bc"})
      .integers("integers", {1, -2})
      .tensor("a", {2}, f32, 0)
      .tensor("b", {32}, q8_0, 32)
      .data(std::string(66, '\0'));
}

/// One tensor 'a' over 32 bytes of data, with these fields.
std::string one(const std::vector<std::uint64_t>& extents, std::uint32_t type, std::uint64_t offset) {
  return GgufBytes().tensor("a", extents, type, offset).data(std::string(32, '\0')).bytes();
}

std::string counts(std::uint64_t tensors, std::uint64_t keys) {
  return "GGUF" + GgufBytes::raw(std::uint32_t{3}) + GgufBytes::raw(tensors) + GgufBytes::raw(keys);
}

std::string aligned(std::uint32_t alignment) {
  return GgufBytes().number("general.alignment", alignment).tensor("a", {2}, f32, 0).data(std::string(32, 0)).bytes();
}

std::string tensors(const std::vector<std::pair<std::string, std::uint64_t>>& names_and_offsets) {
  GgufBytes file;
  for (const auto& [name, offset] : names_and_offsets) file.tensor(name, {16}, f32, offset);
  return file.data(std::string(128, '\0')).bytes();
}

class BadGguf : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadGguf, IsRejectedByName) {
  const TemporaryFolder folder;
  const auto file = folder.write("x.gguf", GetParam().bytes);
  const std::string message = error_of([&] { Gguf open(file); });
  EXPECT_TRUE(message.starts_with(file.string() + ": ")) << message;
  expect_words(message, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Frame, BadGguf,
    ::testing::Values(BadFile{"an_empty_file", "", {"is not GGUF"}}, BadFile{"three_bytes", "GGU", {"is not GGUF"}},
                      BadFile{"another_magic", "GGML" + counts(0, 0).substr(4), {"is not GGUF"}},
                      BadFile{"a_page_of_html", "<!DOCTYPE html><html></html>", {"is not GGUF"}},
                      BadFile{"a_pointer_of_git_lfs", "version https://git-lfs.github.com/spec/v1\n", {"is not GGUF"}},
                      BadFile{"only_the_magic", "GGUF", {"beyond the end"}},
                      BadFile{"version_0", good().bytes(0), {"version 0"}},
                      BadFile{"version_1", good().bytes(1), {"version 1"}},
                      BadFile{"version_4", good().bytes(4), {"version 4"}},
                      BadFile{"big_endian_2", good().bytes(0x02000000), {"big-endian", "little-endian"}},
                      BadFile{"big_endian_3", good().bytes(0x03000000), {"big-endian", "little-endian"}},
                      BadFile{"no_counts", counts(0, 0).substr(0, 12), {"beyond the end"}},
                      BadFile{"more_keys_than_anybody_has", counts(0, huge), {"metadata keys"}},
                      BadFile{"more_tensors_than_anybody_has", counts(huge, 0), {"tensors"}},
                      BadFile{"keys_that_are_not_there", counts(0, 3), {"metadata key 0", "beyond the end"}},
                      BadFile{"tensors_that_are_not_there", counts(3, 0), {"tensor 0", "beyond the end"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Metadata, BadGguf,
    ::testing::Values(
        BadFile{"a_key_longer_than_the_file", counts(0, 1) + GgufBytes::raw(huge), {"metadata key 0", "too long"}},
        BadFile{"a_key_without_name", GgufBytes().number("", 1).bytes(), {"metadata key 0", "not a name"}},
        BadFile{"a_key_with_a_newline", GgufBytes().number("a\nb", 1).bytes(), {"metadata key 0", "not a name"}},
        BadFile{"a_key_beyond_ascii", GgufBytes().number("\xFF\xFE", 1).bytes(), {"metadata key 0", "not a name"}},
        BadFile{"a_key_twice", GgufBytes().number("k", 1).number("k", 2).bytes(), {"field k", "twice"}},
        BadFile{"an_alignment_of_zero", aligned(0), {"field general.alignment", "0"}},
        BadFile{"an_alignment_of_48", aligned(48), {"field general.alignment", "power of two", "48"}},
        BadFile{"an_alignment_of_2_gib", aligned(1U << 31), {"field general.alignment", "2147483648"}},
        BadFile{"an_alignment_in_words",
                GgufBytes().text("general.alignment", "32").bytes(),
                {"field general.alignment", "integer"}},
        BadFile{"a_negative_alignment",
                GgufBytes().put("general.alignment", 5, GgufBytes::raw(-32)).bytes(),
                {"field general.alignment", "-32"}},
        BadFile{"a_part_beyond_its_count",
                GgufBytes().number("split.no", 2).number("split.count", 2).bytes(),
                {"field split.no", "2"}},
        BadFile{"ten_thousand_parts", GgufBytes().number("split.count", 10'000).bytes(), {"field split.count"}},
        BadFile{"a_count_of_parts_in_words", GgufBytes().text("split.count", "2").bytes(), {"field split.count"}},
        BadFile{"a_part_of_another_name",
                GgufBytes().number("split.no", 0).number("split.count", 2).bytes(),
                {"part 1 of 2", "-00001-of-00002.gguf"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadGguf,
    ::testing::Values(
        BadFile{"a_name_too_long", GgufBytes().tensor(std::string(65, 'n'), {1}, f32, 0).bytes(), {"tensor 0", "65"}},
        BadFile{"no_name", GgufBytes().tensor("", {1}, f32, 0).bytes(), {"tensor 0", "not a name"}},
        BadFile{"a_name_with_a_nul", GgufBytes().tensor(std::string("a\0b", 3), {1}, f32, 0).bytes(), {"not a name"}},
        BadFile{"a_name_twice", tensors({{"a", 0}, {"a", 64}}), {"tensor 'a'", "twice"}},
        BadFile{"five_extents", one({1, 1, 1, 1, 1}, f32, 0), {"tensor 'a'", "5 extents"}},
        BadFile{"four_billion_extents",
                counts(1, 0) + GgufBytes::raw_text("a") + "\xFF\xFF\xFF\xFF",
                {"tensor 'a'", "4294967295 extents"}},
        BadFile{
            "an_extent_beyond_63_bits", one({std::uint64_t{1} << 63}, f32, 0), {"tensor 'a'", "9223372036854775808"}},
        BadFile{"a_product_that_wraps_to_zero",
                one({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, f32, 0),
                {"tensor 'a'", "more elements than can be counted"}},
        BadFile{"a_product_that_wraps_to_one", one({0xFFFFFFFF, 0x100000001, 1, 1}, f32, 0), {"tensor 'a'"}},
        BadFile{"bytes_that_wrap", one({huge}, f32, 0), {"tensor 'a'", "more elements than can be counted"}},
        BadFile{"bytes_that_wrap_in_blocks",
                one({32, huge / 16}, q8_0, 0),
                {"tensor 'a'", "more elements than can be counted"}},
        BadFile{"a_broken_block", one({33}, q8_0, 0), {"tensor 'a'", "33", "Q8_0"}},
        BadFile{"a_scalar_in_blocks", one({}, q8_0, 0), {"tensor 'a'", "Q8_0"}},
        BadFile{"a_type_we_do_not_read", one({256}, 15, 0), {"tensor 'a'", "Q8_K", "Q6_K"}},
        BadFile{"a_type_that_was_removed", one({32}, 4, 0), {"tensor 'a'", "number 4"}},
        BadFile{"a_type_from_nowhere", one({1}, 0xFFFFFFFF, 0), {"tensor 'a'", "4294967295"}},
        BadFile{"an_offset_between_alignments", one({2}, f32, 8), {"tensor 'a'", "8", "aligned to 32"}},
        BadFile{"an_offset_beyond_the_file", one({2}, f32, 1 << 20), {"tensor 'a'", "1048576", "cut short"}},
        BadFile{"an_offset_that_wraps", one({2}, f32, ~std::uint64_t{31}), {"tensor 'a'", "cut short"}},
        BadFile{"data_that_is_cut_short", one({9}, f32, 0), {"tensor 'a'", "cut short"}},
        BadFile{"no_data", GgufBytes().tensor("a", {2}, f32, 0).bytes(), {"tensor 'a'", "cut short"}},
        BadFile{"a_listed_type_cut_short", one({5}, i64, 0), {"tensor 'a'", "cut short"}},
        BadFile{"two_at_one_place", tensors({{"a", 0}, {"b", 0}}), {"tensor 'b'", "overlaps tensor 'a'"}},
        BadFile{"two_that_overlap", tensors({{"b", 32}, {"a", 64}}), {"tensor 'a'", "overlaps tensor 'b'"}}),
    name_of);

/// Opens a file and reads all of it. Returns whether the file was accepted.
bool survives(const TemporaryFolder& folder, const std::string& bytes) {
  const auto file = folder.write("x.gguf", bytes);
  try {
    const Gguf gguf(file);
    for (const auto& [name, tensor] : gguf.tensors()) stored_bytes(tensor);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(file.string())) << error.what();
    return false;
  }
}

TEST(HostileGguf, RejectsEveryTruncation) {
  const TemporaryFolder folder;
  const std::string bytes = good().bytes();
  ASSERT_TRUE(survives(folder, bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(survives(folder, bytes.substr(0, length))) << length;
  }
}

TEST(HostileGguf, SurvivesEveryChangedByteAndEveryExtremeNumber) {
  const TemporaryFolder folder;
  const std::string bytes = good().bytes();
  const std::size_t header = bytes.size() - 66;
  int accepted = 0;
  for (std::size_t at = 0; at < header; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      accepted += survives(folder, changed) ? 1 : 0;
    }
    for (const std::uint64_t number : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63, huge}) {
      for (const std::size_t size : {4, 8}) {
        if (at + size > header) continue;
        std::string changed = bytes;
        std::memcpy(changed.data() + at, &number, size);
        accepted += survives(folder, changed) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(accepted, 10) << "a changed letter of a name harms nobody";
}

class SplitGguf : public ::testing::Test {
 protected:
  static GgufBytes part(std::uint32_t number, std::uint32_t count, std::uint32_t tensors) {
    return GgufBytes()
        .put("split.no", 2, GgufBytes::raw(static_cast<std::uint16_t>(number)))
        .put("split.count", 2, GgufBytes::raw(static_cast<std::uint16_t>(count)))
        .put("split.tensors.count", 5, GgufBytes::raw(static_cast<std::int32_t>(tensors)));
  }
  void write(int number, const GgufBytes& bytes) const {
    folder.write("m-0000" + std::to_string(number) + "-of-00002.gguf", bytes.bytes());
  }
  std::filesystem::path path(int number) const {
    return folder.path() / ("m-0000" + std::to_string(number) + "-of-00002.gguf");
  }
  void SetUp() override {
    write(1, part(0, 2, 2).tensor("a", {2}, f32, 0).data("12345678"));
    write(2, part(1, 2, 2).tensor("b", {2}, f32, 0).data("abcdefgh"));
  }
  std::string refusal(int number = 1) const {
    return error_of([&] { Gguf file(path(number)); });
  }
  TemporaryFolder folder;
};

TEST_F(SplitGguf, IsOpenedByItsFirstPart) {
  const Gguf file(path(1));
  EXPECT_EQ(stored_bytes(file.tensors().at("a")), "12345678");
  EXPECT_EQ(stored_bytes(file.tensors().at("b")), "abcdefgh");
  EXPECT_THAT(refusal(2), HasSubstr("part 2 of 2 of a split; open the first, m-00001-of-00002.gguf"));
}

TEST_F(SplitGguf, NamesThePartThatIsMissing) {
  std::filesystem::remove(path(2));
  EXPECT_THAT(refusal(), HasSubstr(path(2).string() + ": is missing, part 2 of 2"));
}

TEST_F(SplitGguf, NamesThePartWhoseMetadataContradictItsName) {
  write(2, part(0, 2, 2).tensor("b", {2}, f32, 0).data("abcdefgh"));
  EXPECT_THAT(refusal(), HasSubstr(path(2).string() + ": states that it is part 1 of 2"));
  write(2, part(1, 3, 2).tensor("b", {2}, f32, 0).data("abcdefgh"));
  EXPECT_THAT(refusal(), HasSubstr(path(2).string() + ": states that it is part 2 of 3"));
  write(2, GgufBytes().tensor("b", {2}, f32, 0).data("abcdefgh"));
  EXPECT_THAT(refusal(), HasSubstr(path(2).string() + ": states that it is part 1 of 1"));
}

TEST_F(SplitGguf, RejectsPartsOfAnotherSplit) {
  write(2, part(1, 2, 3).tensor("b", {2}, f32, 0).data("abcdefgh"));
  EXPECT_THAT(refusal(), HasSubstr(path(2).string() + ": field split.tensors.count"));
  write(1, part(0, 2, 3).tensor("a", {2}, f32, 0).data("12345678"));
  EXPECT_THAT(refusal(), HasSubstr(path(1).string() + ": field split.tensors.count: is 3, but the parts hold 2"));
  SetUp();
  write(2, part(1, 2, 2).tensor("a", {2}, f32, 0).data("abcdefgh"));
  EXPECT_THAT(refusal(), HasSubstr(path(2).string() + ": tensor 'a': is also in " + path(1).string()));
}

TEST_F(SplitGguf, NamesThePartThatIsDamaged) {
  write(2, part(1, 2, 2).tensor("b", {2}, f32, 0).data("abc"));
  EXPECT_THAT(refusal(), HasSubstr(path(2).string() + ": tensor 'b': claims bytes"));
}

/// The keys of a small model; the others of its architecture are added to it.
GgufBytes keys_of(const std::string& architecture, std::uint64_t layers) {
  GgufBytes keys;
  keys.text("general.architecture", architecture).tensor("token_embd.weight", {2, 4}, f32, 0).data(std::string(32, 0));
  const auto number = [&](const char* name, std::uint32_t value) { keys.number(architecture + "." + name, value); };
  for (const char* size : {"context_length", "embedding_length", "feed_forward_length", "attention.head_count",
                           "attention.head_count_kv", "attention.key_length", "attention.value_length"}) {
    number(size, 2);
  }
  keys.put(architecture + ".attention.layer_norm_rms_epsilon", 6, GgufBytes::raw(1e-5F));
  return keys.put(architecture + ".block_count", 10, GgufBytes::raw(layers));
}

TEST(GgufFamilies, TakeNoMemoryForMoreLayersThanAModelCanHave) {
  const TemporaryFolder folder;
  for (const char* const architecture : {"llama", "lfm2", "granitehybrid", "gemma4", "qwen35"}) {
    const auto file = folder.write("x.gguf", keys_of(architecture, huge).bytes());
    EXPECT_THAT(error_of([&] { Checkpoint open(file); }),
                ::testing::AllOf(HasSubstr(std::string(architecture) + ".block_count"), HasSubstr("any real model's")));
  }
}

TEST(GgufFamilies, CountSharedExpertsWithoutOverflow) {
  const TemporaryFolder folder;
  const std::string name = "ernie4_5-moe.";
  GgufBytes keys = keys_of("ernie4_5-moe", 2);
  for (const char* size : {"expert_count", "expert_used_count"}) keys.number(name + size, 2);
  keys.put(name + "expert_shared_count", 10, GgufBytes::raw(huge));
  keys.put(name + "expert_feed_forward_length", 10, GgufBytes::raw(huge));
  keys.put(name + "expert_shared_feed_forward_length", 10, GgufBytes::raw(std::uint64_t{2}));
  const auto file = folder.write("x.gguf", keys.bytes());
  EXPECT_THAT(error_of([&] { Checkpoint open(file); }), HasSubstr("expert_shared_feed_forward_length"));
}

}  // namespace
}  // namespace draftproof::gguf_hostile_test
