// SPDX-License-Identifier: MIT
// The families of models in GGUF files, by general.architecture. A family's file says how its tensors are called, which
// config.json its keys mean, and which keys a model has. A new one is a declaration here and a row in families.cpp.
#pragma once

#include <span>
#include <string_view>

#include "ref/formats/gguf.h"
#include "ref/formats/gguf/keys.h"
#include "ref/formats/gguf/model.h"
#include "ref/formats/gguf_names.h"
#include "ref/formats/json.h"

namespace draftproof {

struct GgufFamily {
  const char* architecture;
  /// Of config.json: targets and assistants with one of these are written so.
  std::span<const char* const> model_types = {};
  GgufNames names;
  /// Returns the equivalent config.json. Errors about its fields name the GGUF key, too. Throws Error for a key that is
  /// not known.
  Json (*read)(const Gguf& file);
  /// Adds the keys. Throws Error, naming the field of the config, for what files of this family cannot say.
  void (*write)(const GgufModel& model, GgufKeyWriter& keys);
  bool deals_heads = false;  // value head h of a gated delta net belongs to key head h % key_heads
  /// What files have a row of a tensor, named as in the table, multiplied with.
  double (*factor)(const Json& config, std::string_view name, std::int64_t row) = nullptr;
  /// Which of the configs of these types it is for; absent: all.
  bool (*takes)(const Json& config) = nullptr;
};

extern const GgufFamily gguf_qwen3;
extern const GgufFamily gguf_qwen3_moe;
extern const GgufFamily gguf_qwen35;
extern const GgufFamily gguf_qwen35_moe;
extern const GgufFamily gguf_qwen2;
extern const GgufFamily gguf_llama;
extern const GgufFamily gguf_gemma2;
extern const GgufFamily gguf_gemma3;
extern const GgufFamily gguf_gemma3n;
extern const GgufFamily gguf_gemma4;
extern const GgufFamily gguf_gemma4_assistant;
extern const GgufFamily gguf_ministral3;
extern const GgufFamily gguf_smollm3;
extern const GgufFamily gguf_phi3;
extern const GgufFamily gguf_granite;
extern const GgufFamily gguf_granitemoe;
extern const GgufFamily gguf_qwen2_moe;
extern const GgufFamily gguf_olmoe;
extern const GgufFamily gguf_olmo2;
extern const GgufFamily gguf_exaone4;
extern const GgufFamily gguf_glm4;
extern const GgufFamily gguf_cohere2;
extern const GgufFamily gguf_seed_oss;
extern const GgufFamily gguf_ernie45;
extern const GgufFamily gguf_stablelm;
extern const GgufFamily gguf_arcee;
extern const GgufFamily gguf_starcoder2;
extern const GgufFamily gguf_gpt_oss;
extern const GgufFamily gguf_glm4_moe;
extern const GgufFamily gguf_deepseek2;
extern const GgufFamily gguf_kimi_linear;
extern const GgufFamily gguf_minimax_m2;
extern const GgufFamily gguf_ernie45_moe;
extern const GgufFamily gguf_llama4;
extern const GgufFamily gguf_qwen3_next;
extern const GgufFamily gguf_lfm2;
extern const GgufFamily gguf_lfm2_moe;
extern const GgufFamily gguf_mamba2;
extern const GgufFamily gguf_granite_hybrid;
extern const GgufFamily gguf_falcon_h1;
extern const GgufFamily gguf_nemotron_h;
extern const GgufFamily gguf_nemotron_h_moe;
extern const GgufFamily gguf_jamba;
extern const GgufFamily gguf_phi2;
extern const GgufFamily gguf_apertus;
extern const GgufFamily gguf_bitnet;
extern const GgufFamily gguf_eagle3;
extern const GgufFamily gguf_dflash;
extern const GgufFamily gguf_ik_dflash;  // the same drafts, as ik_llama.cpp names everything

/// Returns the families above, in that order.
std::span<const GgufFamily* const> all_gguf_families() noexcept;

/// Returns the family of the file. Throws Error when the file names none, or one that is not implemented.
const GgufFamily& gguf_family_of(const Gguf& file);

/// Returns the family that models of this config are written as; nullptr when there is none.
const GgufFamily* find_gguf_family(const Json& config);

}  // namespace draftproof
