// SPDX-License-Identifier: MIT
#include "ref/models/decoder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ref/models/causal_transformer.h"
#include "ref/models/softplus.h"

namespace draftproof {
namespace {

/// The numbers of a layer's xIELU: tensors of a folder; of a GGUF lists in its metadata.
Xielu load_xielu(const WeightLoader& from, int layer, const std::string& prefix) {
  const auto number = [&](const char* name, const std::vector<std::int64_t>& shape) -> double {
    if (from.weights.metadata() != nullptr) {
      return from.weights.config().at(std::string("xielu_") + name)[static_cast<std::size_t>(layer)].number();
    }
    const std::vector<float> stored = from.floats(prefix + name, shape);
    return stored.empty() ? 0 : stored[0];  // empty where it is only counted
  };
  const double beta = number("beta", {});
  return {.positive = softplus(number("alpha_p", {1})),
          .negative = beta + softplus(number("alpha_n", {1})),
          .beta = beta,
          .epsilon = number("eps", {})};
}

class LayerStack : public CausalTransformer {
 protected:
  struct Layer {
    AttentionWeights attention;
    MlpWeights mlp;
    ExpertsWeights experts;             // in place of the MLP
    std::vector<float> attention_norm;  // [hidden]
    std::vector<float> attended_norm;
    std::vector<float> mlp_norm;
    std::vector<float> mlp_out_norm;
  };

  LayerStack(const WeightLoader& from, const TransformerConfig& description, const DecoderNames& names)
      : CausalTransformer(from, description, {.norm = names.final_norm}) {
    for (int i = 0; i < layers(); ++i) {
      const AttentionLayer& attention = config().attention(i);
      const LayerConfig& layer = config().layers[static_cast<std::size_t>(i)];
      Layer& weights = layers_.emplace_back();
      const std::string self_attn = prefix(i) + "self_attn.";
      weights.attention = load_attention(from, config(), attention, self_attn, hidden(), names.output);
      if (attention.qk_norm != QkNorm::none) {
        load_head_norms(from, config(), attention, self_attn, weights.attention);
      }
      if (layer.experts.count > 0) {
        weights.experts = load_experts(from, hidden(), layer.experts, prefix(i) + names.experts_block, names.experts);
      } else if (!layer.gated) {
        weights.mlp = load_plain_mlp(from, hidden(), layer.intermediate, layer.mlp_bias, prefix(i) + names.up,
                                     prefix(i) + names.down);
      } else {
        weights.mlp = load_mlp(from, hidden(), layer.intermediate, layer.mlp_bias, prefix(i) + names.mlp_block);
      }
      if (config().activation == Activation::xielu) weights.mlp.xielu = load_xielu(from, i, prefix(i) + "mlp.act_fn.");
      if (config().sub_norms) {
        const auto sub_norm = [&](const char* name, int width) {
          return load_norm(from, config(), prefix(i) + name + ".weight", width);
        };
        weights.attention.sub_norm = sub_norm("self_attn.attn_sub_norm", attention.q_width());
        weights.mlp.sub_norm = sub_norm("mlp.ffn_sub_norm", layer.intermediate);
      }
    }
    for (int r = 0; r < static_cast<int>(config().ropes.size()); ++r) stretch_rope(from, rope(r));
  }

  const Layer& weights(int i) const { return layers_[static_cast<std::size_t>(i)]; }

  void load_norm_of_all(const WeightLoader& from, std::vector<float> Layer::*norm, const char* name) {
    for (int i = 0; i < layers(); ++i) {
      layers_[static_cast<std::size_t>(i)].*norm = load_norm(from, config(), prefix(i) + name + ".weight", hidden());
    }
  }

  /// projected = MLP(normed), or the experts'
  void mlp(const TransformerPass& pass, int i) { feed_forward(pass, i, weights(i).mlp, weights(i).experts, scratch_); }

 private:
  std::vector<Layer> layers_;
  ExpertsScratch scratch_;
};

class PreNormDecoder final : public LayerStack {
 public:
  PreNormDecoder(const WeightLoader& from, const TransformerConfig& description, const DecoderNames& names)
      : LayerStack(from, description, names) {
    load_norm_of_all(from, &Layer::attention_norm, names.attention_norm);
    load_norm_of_all(from, &Layer::mlp_norm, names.mlp_norm);
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.normalize(weights(i).attention_norm);
    pass.self_attention(i, weights(i).attention);
    pass.add_projected();
    pass.normalize(weights(i).mlp_norm);
    mlp(pass, i);
    pass.add_projected();
  }
};

class PostNormDecoder final : public LayerStack {
 public:
  PostNormDecoder(const WeightLoader& from, const TransformerConfig& description, const DecoderNames& names)
      : LayerStack(from, description, names) {
    load_norm_of_all(from, &Layer::attended_norm, names.attended_norm);
    load_norm_of_all(from, &Layer::mlp_out_norm, names.mlp_out_norm);
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    read_stream(pass);
    pass.self_attention(i, weights(i).attention);
    pass.normalize_projected(weights(i).attended_norm);
    pass.add_projected();
    read_stream(pass);
    mlp(pass, i);
    pass.normalize_projected(weights(i).mlp_out_norm);
    pass.add_projected();
  }

  /// normed = hidden_states
  static void read_stream(const TransformerPass& pass) {
    const auto count = static_cast<std::ptrdiff_t>(pass.rows) * pass.config.hidden;
    std::copy_n(pass.scratch.hidden_states.begin(), count, pass.scratch.normed.begin());
  }
};

class SandwichDecoder final : public LayerStack {
 public:
  SandwichDecoder(const WeightLoader& from, const TransformerConfig& description, const DecoderNames& names)
      : LayerStack(from, description, names) {
    load_norm_of_all(from, &Layer::attention_norm, names.attention_norm);
    load_norm_of_all(from, &Layer::attended_norm, names.attended_norm);
    load_norm_of_all(from, &Layer::mlp_norm, names.mlp_norm);
    load_norm_of_all(from, &Layer::mlp_out_norm, names.mlp_out_norm);
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.normalize(weights(i).attention_norm);
    pass.self_attention(i, weights(i).attention);
    pass.normalize_projected(weights(i).attended_norm);
    pass.add_projected();
    pass.normalize(weights(i).mlp_norm);
    mlp(pass, i);
    pass.normalize_projected(weights(i).mlp_out_norm);
    pass.add_projected();
  }
};

class ParallelDecoder final : public LayerStack {
 public:
  ParallelDecoder(const WeightLoader& from, const TransformerConfig& description, const DecoderNames& names)
      : LayerStack(from, description, names) {
    load_norm_of_all(from, &Layer::attention_norm, names.attention_norm);
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.normalize(weights(i).attention_norm);
    pass.self_attention(i, weights(i).attention);
    pass.add_projected();
    mlp(pass, i);  // of the same rows
    pass.add_projected();
  }
};

}  // namespace

std::unique_ptr<Model> load_pre_norm_decoder(const WeightLoader& from, const TransformerConfig& config,
                                             const DecoderNames& names) {
  return std::make_unique<PreNormDecoder>(from, config, names);
}

std::unique_ptr<Model> load_pre_norm_decoder(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, {});
}

std::unique_ptr<Model> load_post_norm_decoder(const WeightLoader& from, const TransformerConfig& config,
                                              const DecoderNames& names) {
  return std::make_unique<PostNormDecoder>(from, config, names);
}

std::unique_ptr<Model> load_sandwich_decoder(const WeightLoader& from, const TransformerConfig& config,
                                             const DecoderNames& names) {
  return std::make_unique<SandwichDecoder>(from, config, names);
}

std::unique_ptr<Model> load_parallel_decoder(const WeightLoader& from, const TransformerConfig& config,
                                             const DecoderNames& names) {
  return std::make_unique<ParallelDecoder>(from, config, names);
}

}  // namespace draftproof
