// SPDX-License-Identifier: MIT
// Qwen3, dense (Hugging Face `qwen3`): GQA with per-head q and k norms, RoPE, SwiGLU, tied or untied head, full or
// sliding layers. Source: transformers, models/qwen3.
#pragma once

#include <filesystem>
#include <memory>

#include "kernels/kernels.h"
#include "ref/formats/json.h"
#include "ref/models/model.h"

namespace draftproof {

std::unique_ptr<Model> load_qwen3(const std::filesystem::path& folder, const Json& config, const Kernels& kernels);

}  // namespace draftproof
