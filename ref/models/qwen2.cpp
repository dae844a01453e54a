// SPDX-License-Identifier: MIT
#include "ref/models/qwen2.h"

#include "kernels/threads.h"
#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

constexpr const char* bias_names[] = {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"};

class Qwen2 final : public CausalTransformer {
 public:
  Qwen2(const WeightLoader& from, const Json& json)
      : CausalTransformer(from, json, read_transformer_config(json), bias_names) {
    const int widths[] = {config().heads * config().head_dim, config().kv_heads * config().head_dim,
                          config().kv_heads * config().head_dim};
    for (int i = 0; i < layers(); ++i) {
      std::vector<float>& joined = biases_.emplace_back();
      for (std::size_t part = 0; part < std::size(bias_names); ++part) {
        const std::vector<float> bias = from.weights.floats(prefix(i) + bias_names[part], {widths[part]});
        joined.insert(joined.end(), bias.begin(), bias.end());
      }
    }
  }

 private:
  void layer(const TransformerPass& pass, int i) const override {
    pass.project(weights(i));
    const std::vector<float>& bias = biases_[i];
    for_rows(pass.rows, pass.qk_work(), [&](int begin, int end) {
      for (int row = begin; row < end; ++row) pass.kernels.add(bias.data(), bias.size(), pass.q(row));
      pass.apply_rope(begin, end);
    });
    pass.attention_and_mlp(weights(i));
  }

  std::vector<std::vector<float>> biases_;  // of each layer: [q, k, v]
};

}  // namespace

std::unique_ptr<Model> load_qwen2(const WeightLoader& from, const Json& config) {
  return std::make_unique<Qwen2>(from, config);
}

}  // namespace draftproof
