// SPDX-License-Identifier: MIT
// Names and flags are those of llama.cpp's llama-vocab.cpp. Expressions are those of the models' own tokenizer.json,
// which llama.cpp repeats in a form that its matcher can run; where that form differs in what it matches ("tekken",
// "gpt-4o": letters of which case outside of ASCII), a model meets here the tokens that it was trained on.
#include "ref/text/gguf_pre_tokenizers.h"

#include <algorithm>

#include "ref/text/pre_tokenizer.h"

namespace draftproof {
namespace {

const std::string contractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
const std::string words = R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)";
const std::string after_numbers = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Words that begin with capitals or are all capitals, each followed by `suffix`, then numbers.
std::string cased_words(const std::string& suffix, const std::string& numbers) {
  return R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" + suffix +
         R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" + suffix + "|" + numbers +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

// The letters with case of Unicode 11, as DeepSeek LLM lists them.
const std::string cased_letters =
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}-\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})";

const std::string deepseek_words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Letters of words are none of Han, whose runs are pieces of their own.
std::string kimi_words() {
  const std::string upper = R"((?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))";
  const std::string lower = R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))";
  const std::string before = R"(|[^\r\n\p{L}\p{N}]?)";
  return R"(\p{Han}+)" + before + upper + "*" + lower + "+" + contractions + "?" + before + upper + "+" + lower + "*" +
         contractions + "?|" + R"(\p{N}{1,3})" + after_numbers;
}

const std::string bloom_words = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

std::vector<GgufPreTokenizer> make_list() {
  return {
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
        "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"},
       {gpt2_pattern}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2"},
       {contractions + words + R"(\p{N})" + after_numbers}},
      {{"qwen35"},
       {contractions +
        R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {contractions + words + R"(\p{N}{1,3})" + after_numbers},
       true,
       true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {contractions + words + R"(\p{N}{1,3})" + after_numbers}},
      {{"tekken"}, {cased_words("", R"(\p{N})")}, true, true},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, {cased_words(contractions + "?", R"(\p{N}{1,3})")}},
      {{"deepseek-llm"},
       {R"([\r\n])", R"(\s?[)" + cased_letters + "]+", R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+(?![\s\S]))",
        "[一-龥ࠀ-一가-\uD7FF]+", R"(\p{N}+)"}},
      {{"deepseek-coder"}, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-\uD7FF]+", R"(\p{N})"}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", deepseek_words}},
      {{"falcon"},
       {R"([\p{P}\$\+<=>\^~\|`]+)", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
        "[0-9][0-9][0-9]"}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {R"(\p{N})", gpt2_pattern}},
      {{"seed-coder"}, {contractions + words + R"(\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      {{"exaone-moe"},
       {contractions + R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
                       R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {{"kimi-k2"}, {kimi_words()}, true},
      {{"minicpm5"}, {R"(\p{N}{1,3})", contractions + words + R"(\p{N}+)" + after_numbers}, true},
      {{"youtu"},
       {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
        cased_words(contractions + "?", R"(\p{N})")},
       true},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {bloom_words}},
      {{"viking"}, {bloom_words, R"(\p{N})"}},
      {{"default"},
       {R"([\p{P}\$\+<=>\^~\|]+)", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
        R"(\p{N}+)", "[0-9][0-9][0-9]"}}};
}

}  // namespace

const std::vector<GgufPreTokenizer>& gguf_pre_tokenizers() {
  static const std::vector<GgufPreTokenizer> list = make_list();
  return list;
}

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& known : gguf_pre_tokenizers()) {
    if (std::ranges::find(known.names, name) != known.names.end()) return &known;
  }
  return nullptr;
}

}  // namespace draftproof
