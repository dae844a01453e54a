// SPDX-License-Identifier: MIT
#include "oracle/twin/twin.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "oracle/twin/family.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr std::array decoders = std::to_array<std::string_view>(
    {"qwen2",      "qwen3",      "qwen3_moe",        "qwen3_5",     "qwen3_5_text",  "qwen3_5_moe", "qwen3_5_moe_text",
     "llama",      "mistral",    "ministral3",       "smollm3",     "olmo2",         "olmo3",       "phi3",
     "granite",    "granitemoe", "mixtral",          "qwen2_moe",   "olmoe",         "glm4",        "cohere2",
     "exaone4",    "seed_oss",   "ernie4_5",         "stablelm",    "arcee",         "starcoder2",  "lfm2",
     "qwen3_next", "mamba2",     "granitemoehybrid", "lfm2_moe",    "phi",           "apertus",     "nanochat",
     "bitnet",     "gpt_oss",    "glm4_moe",         "minimax_m2",  "ernie4_5_moe",  "falcon_h1",   "nemotron_h",
     "jamba",      "kimi_k2",    "deepseek_v2",      "deepseek_v3", "glm4_moe_lite", "llama4_text", "kimi_linear",
     "mimo"});
constexpr std::array<std::string_view, 6> gemmas = {"gemma2",      "gemma3", "gemma3_text",
                                                    "gemma4_text", "gemma4", "gemma4_unified_text"};

}  // namespace

Twin::Twin(const Checkpoint& checkpoint, bool long_context)
    : weights_(std::make_unique<twin::TwinWeights>(checkpoint, long_context)) {
  const std::string family = weights_->family();
  const auto is_one_of = [&](const auto& list) { return std::ranges::find(list, family) != list.end(); };
  if (is_one_of(decoders)) family_ = twin::decoder_family(*weights_);
  else if (family == "gemma3n_text") family_ = twin::gemma3n_family(*weights_);
  else if (is_one_of(gemmas)) family_ = twin::gemma_family(*weights_);
  else throw Error("the float64 twin does not have the family " + in_quotes(family) + "; the reference is float32");
}

Twin::~Twin() = default;

std::int64_t Twin::weights() const noexcept { return weights_->count(); }

TwinText::TwinText(const Twin& twin) : twin_(twin), past_(std::make_unique<twin::TextPast>()) {}

TwinText::~TwinText() = default;

std::vector<double> TwinText::read(std::span<const Token> tokens) {
  REQUIRE(!tokens.empty(), "a row follows some token");
  const twin::Row logits = twin_.family_->read(tokens, *past_);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return {logits.data(), logits.data() + logits.size()};
}

std::int64_t numbers_in(const Checkpoint& checkpoint) {
  std::int64_t numbers = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    std::int64_t size = 1;
    for (const std::int64_t dimension : tensor.shape) size *= dimension;
    numbers += size;
  }
  return numbers;
}

}  // namespace draftproof
