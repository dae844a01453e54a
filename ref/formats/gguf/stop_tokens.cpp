// SPDX-License-Identifier: MIT
#include "ref/formats/gguf/stop_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace draftproof {
namespace {

/// Tokens that llama.cpp (llama-vocab.cpp) treats as stop tokens by their text, whatever their type. Without those of
/// tokenizers whose architectures are not supported here (gpt-oss, Solar); of Gemma 4 the end of a turn, as the others
/// are stop tokens only in combination.
constexpr std::string_view stop_texts[] = {"<|eot_id|>",
                                           "<|im_end|>",
                                           "<|end|>",
                                           "<end_of_turn>",
                                           "<|endoftext|>",
                                           "</s>",
                                           "<|eom_id|>",
                                           "<EOT>",
                                           "_<EOT>",
                                           "[EOT]",
                                           "[EOS]",
                                           "<|end_of_text|>",
                                           "<end_of_utterance>",
                                           "<eos>",
                                           "<turn|>",
                                           "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
                                           "[e~["};

/// Fill-in-the-middle tokens: padding, next repository, next file. They are stop tokens as well. A key takes precedence
/// over the texts.
struct MiddleToken {
  const char* key;
  std::vector<std::string_view> texts;
};
const std::vector<MiddleToken>& middle_tokens() {
  static const std::vector<MiddleToken> tokens = {
      {"tokenizer.ggml.fim_pad_token_id", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {"tokenizer.ggml.fim_rep_token_id", {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {"tokenizer.ggml.fim_sep_token_id", {"<|file_sep|>"}}};
  return tokens;
}

}  // namespace

void put_stop_tokens(const Gguf& file, nlohmann::ordered_json& config) {
  std::vector<std::string_view> texts(std::begin(stop_texts), std::end(stop_texts));
  for (const char* key : {"eos", "eot", "eom"}) {
    const auto id = file.find_integer(std::string("tokenizer.ggml.") + key + "_token_id");
    if (id) config["eos_token_id"].push_back(*id);
  }
  for (const MiddleToken& token : middle_tokens()) {
    if (const auto id = file.find_integer(token.key)) config["eos_token_id"].push_back(*id);
    else texts.insert(texts.end(), token.texts.begin(), token.texts.end());
  }
  const auto found = file.metadata().find("tokenizer.ggml.tokens");
  if (found == file.metadata().end()) return;
  const auto* const tokens = std::get_if<std::vector<std::string>>(&found->second);
  if (tokens == nullptr) file.fail(found->first, "must be an array of strings");
  for (std::size_t id = 0; id < tokens->size(); ++id) {
    if (std::ranges::find(texts, (*tokens)[id]) != texts.end()) config["eos_token_id"].push_back(id);
  }
}

}  // namespace draftproof
