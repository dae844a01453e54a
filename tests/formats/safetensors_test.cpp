// SPDX-License-Identifier: MIT
#include "ref/formats/safetensors.h"

#include "kernels/formats.h"
#include "ref/formats/checkpoint.h"
#include "tests/formats/files.h"

namespace draftproof::safetensors_test {
namespace {

using testing::HasSubstr;

const std::string f32_one = bytes_of<float>({1.0F});

TEST(SafeTensors, ReadsBackNamesTypesShapesAndBytes) {
  const TemporaryFolder folder;
  const std::vector<float> floats{0.0F, -0.0F, 1e-45F, 3.5F, -1.0F, 2.0F};
  const SafeTensors file(
      folder.write("x.safetensors", safetensors({{"a.weight", "F32", {2, 3}, bytes_of(floats)},
                                                 {"größe", "I64", {1}, bytes_of<std::int64_t>({7})},
                                                 {"empty", "F16", {0, 5}, ""},
                                                 {"scalar", "BF16", {}, bytes_of<std::uint16_t>({0x3F80})}})));
  ASSERT_EQ(file.tensors().size(), 4U);
  const StoredTensor& a = file.tensors().at("a.weight");
  EXPECT_EQ(a.format, Format::f32);
  EXPECT_EQ(a.type_name, "F32");
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));
  ASSERT_EQ(a.bytes, 24U);
  EXPECT_EQ(stored_bytes(a), bytes_of(floats));
  EXPECT_EQ(file.tensors().at("größe").format, std::nullopt);
  EXPECT_EQ(file.tensors().at("empty").bytes, 0U);
  EXPECT_TRUE(file.tensors().at("scalar").shape.empty());
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(SafeTensors, ReadsAFileWithoutTensors) {
  const TemporaryFolder folder;
  EXPECT_TRUE(SafeTensors(folder.write("x.safetensors", safetensors("{}", ""))).tensors().empty());
}

TEST(SafeTensors, TakesMetadataOfNullForNone) {
  const TemporaryFolder folder;
  EXPECT_TRUE(
      SafeTensors(folder.write("x.safetensors", safetensors(R"({"__metadata__":null})", ""))).metadata().empty());
}

TEST(SafeTensors, AcceptsTensorsInAnyOrderOfTheHeader) {
  const TemporaryFolder folder;
  const SafeTensors file(
      folder.write("x.safetensors", safetensors(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                                                R"("none":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                                                R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                                bytes_of<float>({1.0F, 2.0F}))));
  EXPECT_EQ(file.tensors().at("b").offset - file.tensors().at("a").offset, 4U);
}

TEST(SafeTensors, KeepsTheNameOfAnUnknownType) {
  const TemporaryFolder folder;
  const SafeTensors file(folder.write("x.safetensors", safetensors({{"a", "F4_NEW", {3}, "ab"}})));
  EXPECT_EQ(file.tensors().at("a").format, std::nullopt);
  EXPECT_EQ(file.tensors().at("a").type_name, "F4_NEW");
  EXPECT_EQ(file.tensors().at("a").bytes, 2U);
}

TEST(SafeTensors, StaysReadableAfterBeingMoved) {
  const TemporaryFolder folder;
  SafeTensors first(folder.write("x.safetensors", safetensors({{"a", "F32", {1}, f32_one}})));
  SafeTensors second(folder.write("y.safetensors", safetensors({{"b", "F32", {1}, bytes_of<float>({2.0F})}})));
  SafeTensors moved(std::move(first));
  moved = std::move(second);
  EXPECT_EQ(stored_bytes(moved.tensors().at("b")), bytes_of<float>({2.0F}));
  EXPECT_EQ(moved.file().filename(), "y.safetensors");
}

TEST(SafeTensors, NamesAFileThatIsMissingOrAFolder) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "x.safetensors";
  EXPECT_THAT(error_of([&] { SafeTensors file(missing); }), HasSubstr(missing.string() + ": cannot be opened"));
  EXPECT_EQ(error_of([&] { SafeTensors file(folder.path()); }), folder.path().string() + ": not a file");
}

BadFile bad_header(const std::string& name, const std::string& header, std::vector<std::string> words,
                   const std::string& data = f32_one) {
  return {name, safetensors(header, data), std::move(words)};
}

/// A file with one tensor 'a' whose entry has these fields, over four bytes of data.
BadFile bad_entry(const std::string& name, const std::string& fields, std::vector<std::string> words,
                  const std::string& data = f32_one) {
  return bad_header(name, R"({"a":{)" + fields + "}}", std::move(words), data);
}

std::string length_and(std::uint64_t length, const std::string& rest) {
  return bytes_of<std::uint64_t>({length}) + rest;
}

class BadSafeTensors : public testing::TestWithParam<BadFile> {};

TEST_P(BadSafeTensors, IsRejectedByName) {
  const TemporaryFolder folder;
  const auto file = folder.write("x.safetensors", GetParam().bytes);
  const std::string message = error_of([&] { SafeTensors open(file); });
  EXPECT_TRUE(message.starts_with(file.string() + ": ")) << message;
  expect_words(message, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Frame, BadSafeTensors,
    testing::Values(
        BadFile{"an_empty_file", "", {"0 bytes"}}, BadFile{"seven_bytes", "1234567", {"7 bytes"}},
        BadFile{"no_header", length_and(0, ""), {"a header of 0 bytes"}},
        BadFile{"no_header_but_data", length_and(0, "{}"), {"a header of 0 bytes"}},
        BadFile{"a_header_beyond_the_file", length_and(3, "{}"), {"a header of 3 bytes", "10"}},
        BadFile{"a_header_beyond_all_files", length_and(~std::uint64_t{0}, "{}"), {"18446744073709551615"}},
        BadFile{"a_header_length_that_wraps_around", length_and(~std::uint64_t{7}, "{}"), {"18446744073709551608"}},
        BadFile{"a_header_over_the_limit", length_and(100'000'001, "{}"), {"100000001"}},
        BadFile{"a_page_of_html", "<!DOCTYPE html><html></html>", {"not a safetensors file"}},
        BadFile{"a_pointer_of_git_lfs", "version https://git-lfs.github.com/spec/v1\n", {"not a safetensors file"}},
        bad_header("a_header_that_is_not_json", "{\"a\"", {"header: line 1, column 4"}),
        bad_header("a_header_that_is_an_array", "[]", {"must be an object"}),
        bad_header("a_header_that_is_a_number", "12", {"must be an object"}),
        bad_header("a_header_that_is_not_utf8", "{\"\xFF\":1}", {"UTF-8"}),
        bad_header("nesting", std::string(1000, '['), {"256 levels"}),
        bad_header("metadata_that_is_not_an_object", R"({"__metadata__":"pt"})", {"__metadata__", "object"}, ""),
        bad_header("metadata_with_a_number", R"({"__metadata__":{"n":1}})", {"__metadata__.n", "string"}, ""),
        bad_header("a_name_twice",
                   R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                   {"'a'", "twice"}),
        bad_header("data_but_no_tensor", "{}", {"4 bytes", "belong to none"})),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Entry, BadSafeTensors,
    testing::Values(
        bad_header("an_entry_that_is_a_list", R"({"a":[]})", {"field a", "object"}),
        bad_header("an_entry_that_is_null", R"({"a":null})", {"field a", "null"}),
        bad_entry("no_dtype", R"("shape":[1],"data_offsets":[0,4])", {"a.dtype", "missing"}),
        bad_entry("a_dtype_that_is_a_number", R"("dtype":32,"shape":[1],"data_offsets":[0,4])", {"a.dtype", "string"}),
        bad_entry("no_shape", R"("dtype":"F32","data_offsets":[0,4])", {"a.shape", "missing"}),
        bad_entry("a_shape_that_is_a_number", R"("dtype":"F32","shape":1,"data_offsets":[0,4])", {"a.shape", "array"}),
        bad_entry("a_negative_extent", R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", {"a.shape[0]", "-1"}),
        bad_entry("two_negative_extents", R"("dtype":"F32","shape":[-1,-1],"data_offsets":[0,4])", {"a.shape[0]"}),
        bad_entry("a_broken_extent", R"("dtype":"F32","shape":[0.5],"data_offsets":[0,4])", {"a.shape[0]", "0.5"}),
        bad_entry("an_extent_beyond_64_bits", R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])",
                  {"a.shape[0]", "9223372036854775808"}),
        bad_entry("a_product_that_wraps_to_one",  // 2^32 * 2^32 = 0 mod 2^64
                  R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", {"more elements"}, ""),
        bad_entry("bytes_that_wrap",  // 4 * 2^62 = 0 mod 2^64
                  R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", {"does not fill"}, ""),
        bad_entry("a_shape_too_large", R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", {"[2]", "does not fill"}),
        bad_entry("a_shape_too_small", R"("dtype":"F16","shape":[1],"data_offsets":[0,4])", {"does not fill"}),
        bad_entry("a_scalar_with_two_values", R"("dtype":"F16","shape":[],"data_offsets":[0,4])", {"does not fill"}),
        bad_entry("a_known_other_type_of_wrong_size", R"("dtype":"I64","shape":[1],"data_offsets":[0,4])",
                  {"I64", "does not fill"}),
        bad_entry("no_offsets", R"("dtype":"F32","shape":[1])", {"a.data_offsets", "missing"}),
        bad_entry("one_offset", R"("dtype":"F32","shape":[1],"data_offsets":[4])", {"a.data_offsets", "[begin, end]"}),
        bad_entry("three_offsets", R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])", {"[begin, end]"}),
        bad_entry("a_negative_offset", R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])", {"a.data_offsets[0]"}),
        bad_entry("descending_offsets", R"("dtype":"F32","shape":[1],"data_offsets":[4,0])",
                  {"bytes 4 to 0 are not inside"}),
        bad_entry("an_end_beyond_the_data", R"("dtype":"F32","shape":[1],"data_offsets":[1,5])", {"bytes 1 to 5"}),
        bad_entry("offsets_beyond_all_files",
                  R"("dtype":"X","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807])",
                  {"9223372036854775807", "4 bytes of data"}),
        bad_entry("data_cut_short", R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", {"cut short"})),
    name_of);

INSTANTIATE_TEST_SUITE_P(Coverage, BadSafeTensors,
                         testing::Values(bad_entry("trailing_bytes", R"("dtype":"U8","shape":[3],"data_offsets":[0,3])",
                                                   {"1 bytes", "belong to none"}),
                                         bad_entry("a_gap_at_the_start",
                                                   R"("dtype":"U8","shape":[3],"data_offsets":[1,4])", {"'a'", "gap"}),
                                         bad_header("a_gap_between_two",
                                                    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                                    {"'b'", "gap"}),
                                         bad_header("an_overlap",
                                                    R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                                    {"'b'", "overlaps"}),
                                         bad_header("the_same_bytes_twice",
                                                    R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                                    {"'b'", "overlaps"}),
                                         bad_header("an_unknown_type_over_others",
                                                    R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                                    R"("b":{"dtype":"NEW","shape":[9],"data_offsets":[1,2]}})",
                                                    {"'b'", "overlaps"}),
                                         bad_header("an_empty_tensor_inside_another",
                                                    R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                                    R"("b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
                                                    {"'b'", "overlaps"})),
                         name_of);

TEST(SafeTensors, SurvivesEveryFlippedBitOfTheHeaderAndEveryTruncation) {
  const TemporaryFolder folder;
  const std::string good = safetensors({{"a", "F32", {2, 1}, bytes_of<float>({1.0F, 2.0F})},
                                        {"b", "BF16", {3}, bytes_of<std::uint16_t>({1, 2, 3})},
                                        {"c", "NEW", {9}, "12"}});
  const std::size_t header_end = good.find("}}") + 2 + 8;
  std::size_t loaded = 0;
  const auto try_bytes = [&](const std::string& bytes) {
    const auto file = folder.write("model.safetensors", bytes);
    try {
      const Checkpoint checkpoint(folder.path());
      ++loaded;
      for (const auto& [name, tensor] : checkpoint.tensors()) {
        if (tensor.format) checkpoint.floats(name, tensor.shape);
      }
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith(file.string()));
    }
  };
  try_bytes(good);
  ASSERT_EQ(loaded, 1U);
  for (std::size_t i = 0; i < good.size(); ++i) {
    try_bytes(good.substr(0, i));
    if (i >= header_end) continue;
    for (const char byte : {'{', '}', '[', ']', '"', ',', ':', '-', '0', '1', '9', 'e', '.', '\\', '\0'}) {
      std::string bytes = good;
      bytes[i] = byte;
      try_bytes(bytes);
    }
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 1 << bit);
      try_bytes(bytes);
    }
  }
  EXPECT_GT(loaded, 10U);  // a changed letter of a name is accepted
}

TEST(SafeTensors, ReadsWhatHuggingFacesLibraryWrites) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(source_dir / "tests/formats/files/huggingface.safetensors",
                             folder.path() / "model.safetensors");
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensors().size(), 10U);
  EXPECT_EQ(checkpoint.floats("half", {1, 3}), (std::vector<float>{0.5F, -2.0F, 65504.0F}));
  EXPECT_EQ(checkpoint.floats("brain", {2}), (std::vector<float>{1.0F, -3.0F}));
  EXPECT_EQ(checkpoint.floats("single", {3}), (std::vector<float>{0.1F, -0.0F, 1e-45F}));
  EXPECT_EQ(checkpoint.floats("scalar", {}), (std::vector<float>{4.0F}));
  EXPECT_EQ(checkpoint.floats("nothing", {0, 7}), std::vector<float>{});
  EXPECT_EQ(checkpoint.tensors().at("eight").type_name, "F8_E4M3");
  EXPECT_EQ(checkpoint.tensors().at("flags").type_name, "BOOL");
  EXPECT_EQ(checkpoint.tensors().at("long").type_name, "I64");
  EXPECT_THAT(error_of([&] { checkpoint.floats("double", {1}); }), HasSubstr("'F64'"));
  EXPECT_THAT(error_of([&] { checkpoint.floats("infinite", {2}); }), HasSubstr("-inf as element 1"));
  EXPECT_EQ(SafeTensors(folder.path() / "model.safetensors").metadata().at("größe"), "äöü");
}

}  // namespace
}  // namespace draftproof::safetensors_test
