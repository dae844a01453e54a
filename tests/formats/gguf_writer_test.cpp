// SPDX-License-Identifier: MIT
#include "ref/formats/gguf_writer.h"

#include "kernels/formats.h"
#include "tests/formats/files.h"
#include "tests/formats/gguf_bytes.h"

namespace draftproof::gguf_writer_test {
namespace {

using draftproof::test::GgufBytes;

const std::filesystem::path small_file = source_dir / "fixtures/external/gguf-blocks/small.gguf";

/// Returns a tensor of a file for writing it again.
GgufTensor copy_of(const std::string& name, const StoredTensor& tensor) {
  const int inputs = static_cast<int>(tensor.shape.back());
  const int outputs = tensor.shape.size() < 2 ? 1 : static_cast<int>(tensor.shape[0]);
  return {name, {*tensor.format, outputs, inputs, [tensor, inputs](int first, int rows, void* to) {
                   const std::size_t bytes = row_bytes(*tensor.format, inputs);
                   tensor.file->read(tensor.offset + bytes * static_cast<std::size_t>(first),
                                     bytes * static_cast<std::size_t>(rows), to);
                 }}};
}

TEST(GgufWriter, WritesFilesThatTheReaderReadsBackInEveryFormat) {
  const TemporaryFolder folder;
  const Gguf small(small_file);
  GgufFields fields;
  for (const auto& [key, value] : small.metadata()) fields.copy(small, key);
  std::vector<GgufTensor> tensors;
  for (const auto& [name, tensor] : small.tensors()) {
    if (tensor.format) tensors.push_back(copy_of(name, tensor));
  }
  ASSERT_EQ(tensors.size(), 8U);
  write_gguf(folder.path() / "x.gguf", fields, tensors);
  const Gguf copy(folder.path() / "x.gguf");
  EXPECT_EQ(copy.metadata(), small.metadata());
  for (const auto& [key, value] : small.metadata()) EXPECT_EQ(copy.stored_value(key), small.stored_value(key)) << key;
  ASSERT_EQ(copy.tensors().size(), tensors.size());
  for (const GgufTensor& tensor : tensors) {
    EXPECT_EQ(copy.tensors().at(tensor.name).format, small.tensors().at(tensor.name).format);
    EXPECT_EQ(copy.tensors().at(tensor.name).shape, small.tensors().at(tensor.name).shape);
    EXPECT_EQ(stored_bytes(copy.tensors().at(tensor.name)), stored_bytes(small.tensors().at(tensor.name)));
  }
}

TEST(GgufWriter, WritesTheBytesOfTheFormat) {
  const TemporaryFolder folder;
  GgufFields fields;
  fields.text("t", "x");
  fields.size("u", 7);
  fields.number("f", 0.5F);
  fields.truth("b", true);
  fields.texts("ts", {"a", ""});
  fields.integers("is", {-1, 2});
  fields.numbers("fs", {1.5F});
  const auto floats = [](int first, int rows, void* to) {
    for (int i = 0; i < rows * 2; ++i) static_cast<float*>(to)[i] = static_cast<float>(first * 2 + i);
  };
  const std::vector<GgufTensor> tensors = {{"m", {Format::f32, 3, 2, floats}}, {"v", {Format::f32, 1, 2, floats}}};
  write_gguf(folder.path() / "x.gguf", fields, tensors);
  const std::string expected = GgufBytes()
                                   .text("t", "x")
                                   .number("u", 7)
                                   .put("f", 6, GgufBytes::raw(0.5F))
                                   .truth("b", true)
                                   .texts("ts", {"a", ""})
                                   .integers("is", {-1, 2})
                                   .put("fs", 9, GgufBytes::array_head(6, 1) + GgufBytes::raw(1.5F))
                                   .tensor("m", {2, 3}, 0, 0)
                                   .tensor("v", {2}, 0, 32)
                                   .data(bytes_of<float>({0, 1, 2, 3, 4, 5}) + std::string(8, '\0'))
                                   .data(bytes_of<float>({0, 1}) + std::string(24, '\0'))
                                   .bytes();
  EXPECT_EQ(bytes_of_file(folder.path() / "x.gguf"), expected);
}

TEST(GgufWriter, KeepsTheOldFileAndNothingElseWhenATensorCannotBeRead) {
  const TemporaryFolder folder;
  const auto file = folder.write("x.gguf", "old");
  const auto fails = [](int, int, void*) { throw Error("no tensor"); };
  const std::vector<GgufTensor> tensors = {{"m", {Format::f32, 3, 2, fails}}};
  EXPECT_EQ(error_of([&] { write_gguf(file, GgufFields(), tensors); }), "no tensor");
  EXPECT_EQ(bytes_of_file(file), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  write_gguf(file, GgufFields(), {});
  EXPECT_TRUE(Gguf(file).tensors().empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(GgufWriter, NamesAFileThatCannotBeWritten) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "no" / "x.gguf";
  EXPECT_EQ(error_of([&] { write_gguf(file, GgufFields(), {}); }),
            file.string() + ": cannot be written: No such file or directory");
  std::filesystem::create_directories(file / "full");  // a folder has this name
  EXPECT_TRUE(error_of([&] { write_gguf(file, GgufFields(), {}); }).starts_with(file.string() + ": cannot be written"));
}

}  // namespace
}  // namespace draftproof::gguf_writer_test
