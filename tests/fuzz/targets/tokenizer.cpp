// SPDX-License-Identifier: MIT
// Tokenizers of every format, which their first bytes tell apart; those that are still tokenizers encode and decode. A
// tiktoken.model has the config beside it in the input, behind a word of our own.
#include <stdexcept>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/text/stop_strings.h"
#include "ref/text/tokenizer.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/two_parts.h"

namespace draftproof::fuzz::tokenizer_target {

const std::string texts[] = {
    "",
    " Hello, world!  It's 12345 \u00E9e\u0301 \uFF21\uFB01\n\n\tx",
    "<s>[INST] a <mask> b </s> <|im_end|> <unk> <0x41> \u2581\u2581",
    "\u4E16\u754C \U0001F600\U0001F469\u200D\U0001F4BB \u0915\u094D\u0937 \u1100\u1161",
    std::string(300, 'a') + std::string(300, ' '),
};

std::string streamed(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  const StopStrings none;
  TextStream stream(tokenizer, none);
  std::string text;
  for (const Token token : tokens) text += stream.push(token);
  return text + stream.finish();
}

void require_stream(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  if (streamed(tokenizer, tokens) != tokenizer.decode(tokens))
    throw std::runtime_error("a stream decodes another text");
}

void use(const Tokenizer& tokenizer) {
  Numbers numbers(1);
  std::vector<Token> any;
  for (int i = 0; i < 40; ++i) any.push_back(static_cast<Token>(numbers.below(tokenizer.vocabulary() + 3)));
  require_stream(tokenizer, any);
  for (const std::string& text : texts) {
    for (const bool special : {false, true}) {
      accepted([&] { require_stream(tokenizer, tokenizer.encode(text, special, !special)); });
    }
  }
}

constexpr std::string_view tiktoken = "TIKTOKEN";

bool run(const std::string& input) {
  if (input.starts_with(tiktoken)) {
    const auto [config, ranks] = parted(input.substr(tiktoken.size()));
    scratch("tokenizer_config.json", config);
    const std::filesystem::path file = scratch("tiktoken.model", ranks);
    return accepted([&] { use(Tokenizer::load(file)); });
  }
  const bool is_json =
      input.find_first_not_of(" \t\r\n\xEF\xBB\xBF") == input.find('{') && input.find('{') != input.npos;
  const char* const name = input.starts_with("GGUF") ? "vocabulary.gguf"
                           : is_json                 ? "tokenizer.json"
                                                     : "tokenizer.model";
  const std::filesystem::path file = scratch(name, input);
  return accepted([&] { use(Tokenizer::load(file)); });
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const auto& file : files_of(fixtures() / "external", {"tokenizer.json", "tokenizer.model", "vocabulary.gguf"})) {
    all.push_back(bytes_of_file(file));
  }
  const std::string config = R"({"tokenizer_class":"TikTokenTokenizer","added_tokens_decoder":)"
                             R"({"405":{"content":"<s>","special":true},"406":{"content":"x","lstrip":true}}})";
  for (const auto& file : files_of(fixtures() / "external", {"tiktoken.model"})) {
    all.push_back(std::string(tiktoken) + joined(config, bytes_of_file(file)));
  }
  return all;
}

}  // namespace draftproof::fuzz::tokenizer_target

namespace draftproof::fuzz {

const Target tokenizer = {"tokenizer", tokenizer_target::run, tokenizer_target::seeds};

}  // namespace draftproof::fuzz
