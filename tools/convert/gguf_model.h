// SPDX-License-Identifier: MIT
// What a GGUF of a checkpoint holds: llama.cpp's names, keys, order of rows and of values, so that llama.cpp loads the
// file and Checkpoint reads the same model from it.
//
// Of Llama and Mistral the rows of q and k are interleaved in each head. Weights of norms that a model adds 1 to are
// stored with the 1. Of Qwen3.5 value heads are dealt out to key heads, and A_log becomes -exp(A_log). Experts become
// one tensor. RoPE of the kind "llama3" becomes the tensor rope_freqs. MTP heads become blocks behind the layers, also
// of a checkpoint that has nothing else. Of a draft d2t holds tokens, not offsets. Vision is left out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf/family.h"
#include "ref/formats/gguf_writer.h"

namespace draftproof {

/// DFlash drafts have one form for llama.cpp and another for ik_llama.cpp. Checkpoint reads both.
enum class GgufReader { llama_cpp, ik_llama_cpp };

/// Returns the family that a checkpoint with this config is written as. Throws Error when there is none.
const GgufFamily& gguf_family_for(const Json& config, GgufReader reader = GgufReader::llama_cpp);

/// Adds what is general, and the keys of the family. Throws Error, naming the field, for what a GGUF of this family
/// cannot say. `target_layers`: of a draft's target; 0: not known.
void add_model_fields(const Checkpoint& from, const GgufFamily& family, Format type, GgufFields& fields,
                      int target_layers = 0);

/// Returns the tokenizer.json of a folder, or else its tokenizer.model. Throws Error when it has neither.
std::filesystem::path tokenizer_file(const std::filesystem::path& folder);

/// Adds the tokenizer of a folder, with its chat templates and what its tokenizer_config.json says of special
/// tokens. `vocabulary`: the rows of the model's embedding; ids without a token become unused ones. Throws Error for a
/// tokenizer that GGUF files cannot hold.
void add_vocabulary(const std::filesystem::path& folder, const std::string& architecture, int vocabulary,
                    GgufFields& fields);

/// Returns the tensors in the order of the layers. Matrices have the type, but those of experts' routers and of
/// convolutions, which are f32, as are all vectors; where the inputs of a matrix do not fit the type it is q8_0, and
/// where they do not fit that either, f32. Embedding and head have q6_k beside types of four and five bits. `from`
/// outlives the result. Throws Error for a tensor that has no name there.
std::vector<GgufTensor> gguf_tensors(const Checkpoint& from, const GgufFamily& family, Format type);

}  // namespace draftproof
