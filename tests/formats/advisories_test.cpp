// SPDX-License-Identifier: MIT
// Files of the kind that other programs' advisories describe (docs/security.md): each is refused in one sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf.h"
#include "ref/formats/hdf5_reader.h"
#include "ref/formats/hdf5_seal.h"
#include "ref/formats/safetensors.h"
#include "tests/formats/files.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/sanitized.h"

namespace draftproof::advisories_test {
namespace {

using draftproof::test::GgufBytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t q4_0 = 2;
constexpr std::uint64_t two_to_62 = std::uint64_t{1} << 62;

std::string refusal(const GgufBytes& bytes) {
  const TemporaryFolder folder;
  const auto file = folder.write("x.gguf", bytes.bytes());
  return error_of([&] { Gguf open(file); });
}

/// One tensor 'a' of these extents over 32 bytes of data.
std::string refusal_of(const std::vector<std::uint64_t>& extents, std::uint32_t type) {
  return refusal(GgufBytes().tensor("a", extents, type, 0).data(std::string(32, '\0')));
}

TEST(Advisories, SizesOfGgufTensorsThatWrap) {
  // 4 (2^62 - 1) bytes are 2^64 - 4, and padded to 32 none: the padding of CVE-2025-53630 and its successors.
  EXPECT_THAT(refusal_of({two_to_62 - 1}, f32), HasSubstr("tensor 'a'"));
  // The rows of CVE-2026-33298: 2^42 + 1 of them, whose bytes together wrap.
  EXPECT_THAT(refusal_of({std::uint64_t{1} << 22, (std::uint64_t{1} << 42) + 1}, q4_0), HasSubstr("tensor 'a'"));
  // gguf-py's product of these in 64 bits is 4 (ggml-org/llama.cpp#25378).
  EXPECT_THAT(refusal_of({4194305, 4194305, 211106198978564}, f32), HasSubstr("more elements than can be counted"));
  // Each fits a 64-bit integer, their sum does not: CVE-2026-27940.
  GgufBytes many;
  for (int i = 0; i < 5; ++i) {
    many.tensor("t" + std::to_string(i), {std::uint64_t{1} << 60}, f32, i * (std::uint64_t{1} << 62));
  }
  EXPECT_THAT(refusal(many.data(std::string(32, '\0'))), HasSubstr("cut short"));
}

TEST(Advisories, GgufTensorsOfNothingDivideNothing) {  // GHSA-3p75-pq92-q28f
  const TemporaryFolder folder;
  for (const std::vector<std::uint64_t>& extents :
       {std::vector<std::uint64_t>{0}, {2, 0}, {2, 2, 0}, {2, 2, 2, 0}, {0, 0, 0, 0}}) {
    const auto file = folder.write("x.gguf", GgufBytes().tensor("a", extents, f32, 0).data(std::string(32, 0)).bytes());
    EXPECT_EQ(stored_bytes(Gguf(file).tensors().at("a")).size(), 0U);
  }
}

TEST(Advisories, LengthsInGgufMetadataThatNoFileHas) {
  // 43 bytes that gguf-py read without end (ggml-org/llama.cpp#27188), and texts longer than the file (ollama#17042).
  EXPECT_THAT(refusal(GgufBytes().put("a", 9, GgufBytes::array_head(0, std::uint64_t{1} << 63))),
              AllOf(HasSubstr("field a"), HasSubstr("9223372036854775808")));
  EXPECT_THAT(refusal(GgufBytes().put("a", 8, GgufBytes::raw(std::uint64_t{1} << 30))), HasSubstr("field a"));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += GgufBytes::array_head(9, 1);
  EXPECT_THAT(refusal(GgufBytes().put("a", 9, nested)), HasSubstr("field a"));
}

TEST(Limits, OfGgufHeaders) {
  const TemporaryFolder folder;
  const auto file = folder.write("x.gguf", GgufBytes().put("a", 8, GgufBytes::raw(std::uint64_t{600} << 20)).bytes());
  std::filesystem::resize_file(file, std::uintmax_t{1} << 30);  // sparse
  EXPECT_THAT(error_of([&] { Gguf open(file); }), HasSubstr("is a string of 629145600 bytes, too long here"));
}

TEST(Advisories, ACountOfGgufBlocksThatIsNoNumber) {  // CVE-2024-8063
  const TemporaryFolder folder;
  for (const GgufBytes& bytes : {GgufBytes().text("general.architecture", "llama").text("llama.block_count", "1"),
                                 GgufBytes().text("general.architecture", "llama").number("llama.block_count", 0),
                                 GgufBytes().text("general.architecture", "llama").truth("llama.block_count", false)}) {
    GgufBytes with_tensor = bytes;
    const auto file = folder.write("x.gguf", with_tensor.tensor("a", {2}, f32, 0).data(std::string(32, '\0')).bytes());
    EXPECT_THAT(error_of([&] { Checkpoint open(file); }), HasSubstr("field llama."));
  }
}

/// A file of `tensors` empty tensors whose header is all of it.
std::string bloated(int tensors) {
  std::string header = "{";
  for (int i = 0; i < tensors; ++i) {
    if (i > 0) header += ',';
    header += "\"t" + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  header += '}';
  return bytes_of<std::uint64_t>({header.size()}) + header;
}

TEST(Advisories, SafetensorsHeadersThatPromiseMoreThanTheFileHas) {
  const TemporaryFolder folder;
  const std::string huge = R"({"a":{"dtype":"F32","shape":[1000000,1000000,1000000],"data_offsets":[0,4]}})";
  const auto file = folder.write("x.safetensors", bytes_of<std::uint64_t>({huge.size()}) + huge + "1234");
  EXPECT_THAT(error_of([&] { SafeTensors open(file); }),
              HasSubstr("field a: shape [1000000, 1000000, 1000000] of F32 does not fill"));
  const auto many = folder.write("y.safetensors", bloated(100'000));  // takes the time of its bytes, and no more
  EXPECT_EQ(SafeTensors(many).tensors().size(), 100'000U);
}

/// Of the only process that this one has made: a line of what the kernel tells of it.
std::string status_of_child(const std::string& field) {
  std::ifstream children("/proc/thread-self/children");
  std::string child;
  children >> child;
  std::ifstream status("/proc/" + child + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":\t")) return line.substr(field.size() + 2);
  }
  return "unknown";
}

TEST(Advisories, TheLibraryOfHdf5HasNoRightsWhereItReadsAStrangersFile) {  // CVE-2019-8396 and many more
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.h5";
  {
    Hdf5 file = Hdf5::create(path);
    prepare_seal(file);
    file.write<float>("/v", {{2}, {1.0F, 2.0F}});
  }
  seal(path);
  Hdf5Reader reader(path);
  EXPECT_EQ(reader.read<float>("/v").values, (std::vector<float>{1.0F, 2.0F}));
  const std::string mode = status_of_child("Seccomp");
  if (mode == "unknown" || mode == "0") GTEST_SKIP() << "this kernel filters no calls, or does not tell";
  EXPECT_EQ(mode, "2");
  EXPECT_EQ(status_of_child("NoNewPrivs"), "1");
}

}  // namespace
}  // namespace draftproof::advisories_test
