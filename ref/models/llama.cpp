// SPDX-License-Identifier: MIT
#include "ref/models/llama.h"

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

TransformerConfig read_llama_config(const Json& json) {
  TransformerConfig config = read_transformer_config(json);
  for (const int window : config.windows) {
    if (window != AttentionCache::everything) json.fail("asks for sliding layers, which Llama does not have");
  }
  return config;
}

/// Where GGUF files, which have no word for it in their metadata, keep how RoPE is stretched: what its frequencies are
/// divided by.
constexpr const char* stretch_name = "rope_freqs.weight";

class Llama final : public CausalTransformer {
 public:
  Llama(const WeightLoader& from, const Json& json)
      : CausalTransformer(from, json, read_llama_config(json), {}, {stretch_name}) {
    if (!from.weights.has(stretch_name)) return;
    if (config().rope_scaling) throw Error(from.weights.path().string() + ": stretches RoPE twice");
    const std::vector<float> by = from.weights.floats(stretch_name, {config().head_dim / 2});
    for (const float divisor : by) {
      if (!(divisor > 0)) throw Error(from.weights.path().string() + ": tensor " + stretch_name + " must be positive");
    }
    rope().stretch(by);
  }

 private:
  void layer(const TransformerPass& pass, int i) const override {
    pass.project(weights(i));
    for_rows(pass.rows, pass.qk_work(), [&](int begin, int end) { pass.apply_rope(begin, end); });
    pass.attention_and_mlp(weights(i));
  }
};

}  // namespace

std::unique_ptr<Model> load_llama(const WeightLoader& from, const Json& config) {
  return std::make_unique<Llama>(from, config);
}

}  // namespace draftproof
