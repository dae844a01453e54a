// SPDX-License-Identifier: MIT
// The walk of docs/adding.md: a target. It is Qwen3 under another name.
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& config) { return qwen3_architecture.describe(config); }

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return qwen3_architecture.load(from, config);
}

constexpr ArchitectureName names[] = {{"renamed", "RenamedForCausalLM"}};

}  // namespace

const Architecture renamed_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
