// SPDX-License-Identifier: MIT
// From text to text, with every file that carries a tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "ref/formats/gguf.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/tools/command.h"

namespace draftproof::test::tokenizer_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

/// "▁" 259, "a" 260, "b" 261, "ab" 262, "▁a" 263 after <unk>, <s>, </s> and the 256 bytes; the rest are unused.
void put_pieces(GgufBytes& file, std::size_t count) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* digits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    types.push_back(6);
  }
  for (const char* piece : {"\u2581", "a", "b", "ab", "\u2581a"}) tokens.emplace_back(piece);
  types.resize(tokens.size(), 1);
  while (tokens.size() < count) tokens.push_back("unused " + std::to_string(tokens.size()));
  types.resize(count, 5);
  std::vector<float> scores(count, -9);
  scores[262] = -1;
  scores[263] = -2;
  file.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", tokens);
  file.integers("tokenizer.ggml.token_type", types).reals("tokenizer.ggml.scores", scores);
}

/// The weights of a small Llama with the tokenizer of SentencePiece, in one file.
std::string llama_with_pieces() {
  const Gguf source(fixture("external/llama-cpp-llama-f32/model.gguf"));
  GgufBytes file;
  for (const auto& [key, value] : source.metadata()) {
    const std::string stored = source.stored_value(key);  // the number of its type, then its bytes
    std::uint32_t type = 0;
    std::memcpy(&type, stored.data(), sizeof type);
    if (!key.starts_with("tokenizer.")) file.put(key, type, std::string_view(stored).substr(sizeof type));
  }
  put_pieces(file, static_cast<std::size_t>(source.find_integer("llama.vocab_size").value()));
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : source.tensors()) {
    file.tensor(name, {tensor.shape.rbegin(), tensor.shape.rend()}, 0, offset);
    std::string bytes(tensor.bytes, '\0');
    tensor.file->read(tensor.offset, bytes.size(), bytes.data());
    bytes.resize((bytes.size() + 31) / 32 * 32);
    offset += bytes.size();
    file.data(bytes);
  }
  return file.bytes();
}

TEST(Generate, ReadsTheSentencePieceTokenizerOfAGguf) {
  const Folder folder;
  const std::string model = (folder.path() / "model.gguf").string();
  std::ofstream(model, std::ios::binary) << llama_with_pieces();
  const auto said = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", model, "--max-new-tokens", "6", "--json", "-", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  };
  const json plain = said({"--prompt", "ab a</s>\n"});
  EXPECT_THAT(plain["prompt_tokens"], ElementsAre(1, 259, 262, 263, 3 + '<', 3 + '/', 3 + 's', 3 + '>', 3 + '\n'));
  EXPECT_TRUE(plain["text"].is_string());
  EXPECT_THAT(said({"--prompt", "ab</s>", "--parse-special"})["prompt_tokens"], ElementsAre(1, 259, 262, 2));
}

}  // namespace
}  // namespace draftproof::test::tokenizer_test
