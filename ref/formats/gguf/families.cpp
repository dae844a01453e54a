// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>

#include "ref/formats/gguf/family.h"
#include "ref/formats/printable.h"

namespace draftproof {

std::span<const GgufFamily* const> all_gguf_families() noexcept {
  // clang-format off
  static constexpr const GgufFamily* list[] = {
      &gguf_qwen3,
      &gguf_qwen3_moe,
      &gguf_qwen35,
      &gguf_qwen35_moe,
      &gguf_qwen2,
      &gguf_llama,
      &gguf_gemma2,
      &gguf_gemma3,
      &gguf_gemma3n,
      &gguf_gemma4,
      &gguf_gemma4_assistant,
      &gguf_ministral3,
      &gguf_smollm3,
      &gguf_phi3,
      &gguf_granite,
      &gguf_granitemoe,
      &gguf_qwen2_moe,
      &gguf_olmoe,
      &gguf_olmo2,
      &gguf_exaone4,
      &gguf_glm4,
      &gguf_cohere2,
      &gguf_seed_oss,
      &gguf_ernie45,
      &gguf_stablelm,
      &gguf_arcee,
      &gguf_starcoder2,
      &gguf_gpt_oss,
      &gguf_glm4_moe,
      &gguf_deepseek2,
      &gguf_kimi_linear,
      &gguf_minimax_m2,
      &gguf_ernie45_moe,
      &gguf_llama4,
      &gguf_qwen3_next,
      &gguf_lfm2,
      &gguf_lfm2_moe,
      &gguf_mamba2,
      &gguf_granite_hybrid,
      &gguf_falcon_h1,
      &gguf_nemotron_h,
      &gguf_nemotron_h_moe,
      &gguf_jamba,
      &gguf_phi2,
      &gguf_apertus,
      &gguf_bitnet,
      &gguf_eagle3,
      &gguf_dflash,
      &gguf_ik_dflash,
  };
  // clang-format on
  return list;
}

const GgufFamily& gguf_family_of(const Gguf& file) {
  const std::string key = "general.architecture";
  const std::string* const name = file.find_text(key);
  if (name == nullptr) file.fail(key, "is missing; the file is not a model");
  std::string known;
  for (const GgufFamily* const family : all_gguf_families()) {
    if (*name == family->architecture) return *family;
    known += (known.empty() ? "" : ", ") + std::string(family->architecture);
  }
  file.fail(key, in_quotes(*name) + " is not implemented; implemented are " + known);
}

const GgufFamily* find_gguf_family(const Json& config) {
  const std::string type = config.at("model_type").string();
  for (const GgufFamily* const family : all_gguf_families()) {
    const bool of_type = std::ranges::find(family->model_types, type) != family->model_types.end();
    if (of_type && (family->takes == nullptr || family->takes(config))) return family;
  }
  return nullptr;
}

}  // namespace draftproof
