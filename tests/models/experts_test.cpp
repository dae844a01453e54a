// SPDX-License-Identifier: MIT
// Routing to experts, and the layouts in which their weights are stored.
#include "ref/models/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/formats/gguf_bytes.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::experts_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Routing, ChoosesTheLargestLogitsAndOfEqualOnesTheSmallerId) {
  const std::vector<float> logits = {1, 3,  2, 3,  3,  //
                                     0, 0,  0, 0,  0,  //
                                     5, -1, 4, -2, 6};
  const Choices choices = choose_experts(logits.data(), 3, {.count = 5, .chosen = 2});
  EXPECT_EQ(choices.experts, (std::vector<int>{1, 3, 0, 1, 0, 4})) << "by ascending id";
  EXPECT_EQ(choices.weights[2], 0.2F) << "of all five";
}

TEST(Routing, WeightsAreTheSoftmaxOrAddUpToOne) {
  const std::vector<float> logits = {0.5F, -1, 2, 0.25F};
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  const Choices plain = choose_experts(logits.data(), 1, {.count = 4, .chosen = 2});
  EXPECT_FLOAT_EQ(plain.weights[0], static_cast<float>(std::exp(0.5) / total));
  EXPECT_FLOAT_EQ(plain.weights[1], static_cast<float>(std::exp(2.0) / total));
  const Choices normalized = choose_experts(logits.data(), 1, {.count = 4, .chosen = 2, .normalized = true});
  EXPECT_EQ(normalized.experts, plain.experts);
  EXPECT_FLOAT_EQ(normalized.weights[0], static_cast<float>(1 / (1 + std::exp(1.5))));
  const Choices one = choose_experts(logits.data(), 1, {.count = 4, .chosen = 1, .normalized = true});
  EXPECT_EQ(one.weights, std::vector<float>{1});
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Routing, ABiasChoosesAndDoesNotWeigh) {
  const std::vector<float> logits = {2, 1, 0, -1};
  const std::vector<float> bias = {-1, 0, 0, 1};
  const Experts layer = {.count = 4, .chosen = 2, .scores = RouterScores::sigmoid, .choice_bias = true};
  const Choices choices = choose_experts(logits.data(), 1, layer, {}, bias);
  EXPECT_EQ(choices.experts, (std::vector<int>{1, 3}));
  EXPECT_FLOAT_EQ(choices.weights[0], static_cast<float>(sigmoid_of(1)));
  EXPECT_FLOAT_EQ(choices.weights[1], static_cast<float>(sigmoid_of(-1)));
  Experts scaled = layer;
  scaled.normalized = true;
  scaled.scale = 2.5F;
  const Choices all = choose_experts(logits.data(), 1, scaled, {}, bias);
  EXPECT_FLOAT_EQ(all.weights[0], static_cast<float>(2.5 * sigmoid_of(1) / (sigmoid_of(1) + sigmoid_of(-1))));
  const std::vector<float> zeros(4);
  EXPECT_EQ(choose_experts(zeros.data(), 1, layer, {}, zeros).experts, (std::vector<int>{0, 1})) << "of equal ones";
}

TEST(Routing, GroupsAreChosenByTheirTwoLargestAndOfEqualOnesTheFirst) {
  const Experts layer = {
      .count = 6, .chosen = 2, .scores = RouterScores::sigmoid, .choice_bias = true, .groups = 3, .groups_chosen = 1};
  const std::vector<float> none(6);
  const std::vector<float> logits = {5, -9, 1, 1, 1, 1,  // the best one alone is not enough
                                     0, 0,  0, 0, 0, 0};
  EXPECT_EQ(choose_experts(logits.data(), 2, layer, {}, none).experts, (std::vector<int>{2, 3, 0, 1}));
}

TEST(Routing, ASumIsAtLeastItsMinimum) {
  const std::vector<float> logits = {-40, -50};
  const Experts layer = {.count = 2, .chosen = 1, .scores = RouterScores::sigmoid, .normalized = true, .sum_min = 1e-3};
  EXPECT_FLOAT_EQ(choose_experts(logits.data(), 1, layer).weights[0], static_cast<float>(sigmoid_of(-40) / 1e-3));
}

TEST(Routing, NaNGivesNaNWeightsAndChoosesEachExpertOnce) {
  for (std::size_t at = 0; at < 4; ++at) {
    std::vector<float> logits = {1, 2, 3, 4};
    logits[at] = nan;
    const Experts grouped = {
        .count = 4, .chosen = 2, .scores = RouterScores::sigmoid, .choice_bias = true, .groups = 2, .groups_chosen = 1};
    const std::vector<float> bias(4);
    const Choices of_group = choose_experts(logits.data(), 1, grouped, {}, bias);
    EXPECT_EQ(of_group.experts[0] + 1, of_group.experts[1]);
    EXPECT_TRUE(std::ranges::all_of(of_group.weights, [](float weight) { return std::isnan(weight); })) << at;
    const Choices choices = choose_experts(logits.data(), 1, {.count = 4, .chosen = 3, .normalized = true});
    EXPECT_LT(choices.experts[0], choices.experts[1]);
    EXPECT_LT(choices.experts[1], choices.experts[2]);
    EXPECT_TRUE(std::ranges::any_of(choices.weights, [](float weight) { return std::isnan(weight); })) << at;
  }
}

const std::filesystem::path separate = external_dir / "qwen3-moe-tiny-unnormalized";  // f32, experts in every layer

/// All tensors of the checkpoint whose names begin with `prefix` + id + ".", for id = 0, 1, ..., as one.
Tensor joined(const Checkpoint& from, const std::string& prefix, const std::string& part, const std::string& name) {
  Tensor all = {name, "F32", {0, 0, 0}, ""};
  for (int id = 0;; ++id) {
    const auto found = from.tensors().find(prefix + std::to_string(id) + "." + part + ".weight");
    if (found == from.tensors().end()) return all;
    ++all.shape[0];
    all.shape[1] = found->second.shape[0];
    all.shape[2] = found->second.shape[1];
    all.bytes += stored_bytes(found->second);
  }
}

/// gate and up of each expert, one below the other.
Tensor gate_over_up(const Tensor& gate, const Tensor& up, const std::string& name) {
  Tensor both = {name, "F32", {gate.shape[0], 2 * gate.shape[1], gate.shape[2]}, ""};
  const std::size_t one = gate.bytes.size() / static_cast<std::size_t>(gate.shape[0]);
  for (std::size_t at = 0; at < gate.bytes.size(); at += one) {
    both.bytes += gate.bytes.substr(at, one) + up.bytes.substr(at, one);
  }
  return both;
}

bool is_of_an_expert(const std::string& name) { return name.find(".mlp.experts.") != std::string::npos; }

std::vector<Token> text_of(const Model& model) { return some_text(20, model.vocabulary()); }

TEST(StoredExperts, OfOneTensorForAllGiveTheBitsOfExpertsStoredOneByOne) {
  const Checkpoint from(separate);
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : from.tensors()) {
    if (!is_of_an_expert(name)) tensors.push_back({name, "F32", tensor.shape, stored_bytes(tensor)});
  }
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    tensors.push_back(gate_over_up(joined(from, prefix, "gate_proj", ""), joined(from, prefix, "up_proj", ""),
                                   prefix + "gate_up_proj"));
    tensors.push_back(joined(from, prefix, "down_proj", prefix + "down_proj"));
  }
  const TemporaryFolder folder;
  folder.write("config.json", bytes_of_file(separate / "config.json"));
  folder.write("model.safetensors", safetensors(tensors));
  const auto model = load_model(from, best_kernels());
  const auto other = load_model(Checkpoint(folder.path()), best_kernels());
  EXPECT_EQ(read(*other, text_of(*model), all_layers(*model)), read(*model, text_of(*model), all_layers(*model)));
}

/// Whatever the architecture calls its experts.
TEST(StoredExperts, WithTheNamesOfMlxGiveTheBitsOfExpertsStoredOneByOne) {
  struct Names {
    const char* model;
    const char* block;
    std::pair<const char*, const char*> parts[3];
  };
  for (const Names& of :
       {Names{"qwen3-moe-tiny-unnormalized",
              ".mlp.",
              {{"gate_proj", "gate_proj"}, {"up_proj", "up_proj"}, {"down_proj", "down_proj"}}},
        {"mixtral-tiny", ".block_sparse_moe.", {{"w1", "gate_proj"}, {"w3", "up_proj"}, {"w2", "down_proj"}}}}) {
    const Checkpoint from(external_dir / of.model);
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : from.tensors()) {
      const bool of_expert = name.find(of.block + std::string("experts.")) != std::string::npos;
      if (!of_expert) tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
    }
    for (int layer = 0; layer < describe(from.config()).depth(); ++layer) {
      const std::string block = "model.layers." + std::to_string(layer) + of.block;
      for (const auto& [part, mlx] : of.parts) {
        const std::string type = from.tensors().at(block + "experts.0." + part + ".weight").type_name;
        tensors.push_back(joined(from, block + "experts.", part, block + "switch_mlp." + mlx + ".weight"));
        tensors.back().dtype = type;
      }
    }
    const TemporaryFolder folder;
    folder.write("config.json", bytes_of_file(external_dir / of.model / "config.json"));
    folder.write("model.safetensors", safetensors(tensors));
    const auto model = load_model(from, best_kernels());
    const auto other = load_model(Checkpoint(folder.path()), best_kernels());
    EXPECT_EQ(read(*other, text_of(*model), all_layers(*model)), read(*model, text_of(*model), all_layers(*model)))
        << of.model;
  }
}

constexpr std::pair<const char*, const char*> gguf_names[] = {
    {"token_embd", "model.embed_tokens"},     {"output_norm", "model.norm"},       {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},           {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},      {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"}, {"ffn_gate_inp", "mlp.gate"},
};

TEST(StoredExperts, OfAGgufGiveTheBitsOfTheFolderItWasMadeOf) {
  const Checkpoint from(separate);
  GgufBytes file;
  file.text("general.architecture", "qwen3moe");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, std::uint32_t>>{{"block_count", 2},
                                                                    {"context_length", 512},
                                                                    {"embedding_length", 24},
                                                                    {"feed_forward_length", 40},
                                                                    {"attention.head_count", 2},
                                                                    {"attention.head_count_kv", 1},
                                                                    {"attention.key_length", 16},
                                                                    {"attention.value_length", 16},
                                                                    {"expert_count", 4},
                                                                    {"expert_used_count", 3},
                                                                    {"expert_feed_forward_length", 12}}) {
    file.number(std::string("qwen3moe.") + key, value);
  }
  file.put("qwen3moe.rope.freq_base", 6, GgufBytes::raw(10000.0F));
  file.put("qwen3moe.attention.layer_norm_rms_epsilon", 6, GgufBytes::raw(1e-6F));
  std::string data;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, const std::string& bytes) {
    const std::vector<std::uint64_t> extents(shape.rbegin(), shape.rend());
    data.resize((data.size() + 31) / 32 * 32);
    file.tensor(name + ".weight", extents, 0, data.size());
    data += bytes;
  };
  const auto add_all = [&](const std::string& gguf_prefix, const std::string& prefix) {
    for (const auto& [gguf, name] : gguf_names) {
      const auto found = from.tensors().find(prefix + name + ".weight");
      if (found != from.tensors().end()) add(gguf_prefix + gguf, found->second.shape, stored_bytes(found->second));
    }
  };
  add_all("", "");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string number = std::to_string(layer) + ".";
    add_all("blk." + number, "model.layers." + number);
    for (const auto& [gguf, part] :
         {std::pair("ffn_gate_exps", "gate_proj"), {"ffn_up_exps", "up_proj"}, {"ffn_down_exps", "down_proj"}}) {
      const Tensor all = joined(from, "model.layers." + number + "mlp.experts.", part, "");
      add("blk." + number + gguf, all.shape, all.bytes);
    }
  }
  file.data(data);
  const TemporaryFolder folder;
  const auto gguf = load_model(Checkpoint(folder.write("model.gguf", file.bytes())), best_kernels());

  // llama.cpp normalizes the weights of every model of this architecture.
  std::filesystem::copy(separate / "model.safetensors", folder.path() / "model.safetensors");
  std::string config = bytes_of_file(separate / "config.json");
  const std::string unnormalized = "\"norm_topk_prob\": false";
  ASSERT_NE(config.find(unnormalized), std::string::npos);
  config.replace(config.find(unnormalized), unnormalized.size(), "\"norm_topk_prob\": true");
  folder.write("config.json", config);
  const auto model = load_model(Checkpoint(folder.path()), best_kernels());
  EXPECT_EQ(read(*gguf, text_of(*model), all_layers(*model)), read(*model, text_of(*model), all_layers(*model)));
}

}  // namespace
}  // namespace draftproof::test::experts_test
