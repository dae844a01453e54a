// SPDX-License-Identifier: MIT
// Gemma from GGUF files with llama.cpp's names and conventions, made of the tiny folders: the bits must be the same.
#include "tests/formats/gguf_bytes.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::gemma_gguf_test {
namespace {

/// Writes a GGUF file with the tensors of a folder, widened to float.
class Converted {
 public:
  Converted(const std::string& architecture, const std::string& folder)
      : from_(external_dir / folder), prefix_(architecture + "."), adds_one_(architecture != "gemma4") {
    file_.text("general.architecture", architecture);
    for (const auto& [name, tensor] : from_.tensors()) {
      const std::string gguf = gguf_name(name);
      if (gguf.empty()) continue;
      std::vector<float> values = from_.floats(name, tensor.shape);
      if (adds_one_ && name.ends_with("norm.weight")) {
        for (float& value : values) value += 1;
      }
      add(gguf, tensor.shape, values);
    }
  }

  void number(const char* key, std::uint32_t value) { file_.number(prefix_ + key, value); }
  void real(const char* key, float value) { file_.put(prefix_ + key, 6, GgufBytes::raw(value)); }
  void text(const char* key, const std::string& value) { file_.text(prefix_ + key, value); }
  void numbers(const char* key, const std::vector<std::uint32_t>& values) {
    std::string bytes = GgufBytes::array_head(4, values.size());
    for (const std::uint32_t value : values) bytes += GgufBytes::raw(value);
    file_.put(prefix_ + key, 9, bytes);
  }
  void booleans(const char* key, const std::string& letters, char yes) {
    std::string bytes = GgufBytes::array_head(7, letters.size());
    for (const char letter : letters) bytes += letter == yes ? '\1' : '\0';
    file_.put(prefix_ + key, 9, bytes);
  }
  void add(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    const std::vector<std::uint64_t> extents(shape.rbegin(), shape.rend());
    data_.resize((data_.size() + 31) / 32 * 32);
    tensors_.push_back({name, extents, data_.size()});
    data_ += bytes_of(values);
  }

  /// The sizes that all tiny Gemmas have.
  void put_sizes(std::uint32_t layers) {
    number("block_count", layers);
    for (const auto& [key, value] :
         std::initializer_list<std::pair<const char*, std::uint32_t>>{{"context_length", 512},
                                                                      {"embedding_length", 16},
                                                                      {"attention.head_count", 4},
                                                                      {"attention.sliding_window", 4}}) {
      number(key, value);
    }
    real("attention.layer_norm_rms_epsilon", 1e-6F);
  }

  void expect_the_bits_of_the_folder(const std::string& config = "") {
    for (const auto& [name, extents, at] : tensors_) file_.tensor(name, extents, 0, at);
    file_.data(data_);
    const TemporaryFolder folder;
    const auto gguf = load_model(Checkpoint(folder.write("model.gguf", file_.bytes())), in_floats(best_kernels()));
    const TemporaryFolder other;
    std::filesystem::copy(from_.path(), other.path());
    if (!config.empty()) other.write("config.json", config);
    const auto model = load_model(Checkpoint(other.path()), in_floats(best_kernels()));
    const std::vector<Token> text = some_text(30, model->vocabulary());
    EXPECT_EQ(read(*gguf, text, all_layers(*gguf)), read(*model, text, all_layers(*model)));
  }

  std::string config() const { return bytes_of_file(from_.path() / "config.json"); }

 private:
  static std::string gguf_name(const std::string& name) {
    const std::pair<const char*, const char*> names[] = {
        {"model.embed_tokens.weight", "token_embd.weight"},
        {"model.norm.weight", "output_norm.weight"},
        {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
        {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
        {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
        {"input_layernorm.weight", "attn_norm.weight"},
        {"self_attn.q_proj.weight", "attn_q.weight"},
        {"self_attn.k_proj.weight", "attn_k.weight"},
        {"self_attn.v_proj.weight", "attn_v.weight"},
        {"self_attn.o_proj.weight", "attn_output.weight"},
        {"self_attn.q_norm.weight", "attn_q_norm.weight"},
        {"self_attn.k_norm.weight", "attn_k_norm.weight"},
        {"post_attention_layernorm.weight", "post_attention_norm.weight"},
        {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
        {"mlp.gate_proj.weight", "ffn_gate.weight"},
        {"mlp.up_proj.weight", "ffn_up.weight"},
        {"mlp.down_proj.weight", "ffn_down.weight"},
        {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
        {"layer_scalar", "layer_output_scale.weight"},
        {"per_layer_input_gate.weight", "inp_gate.weight"},
        {"per_layer_projection.weight", "proj.weight"},
        {"post_per_layer_input_norm.weight", "post_norm.weight"},
        {"router.proj.weight", "ffn_gate_inp.weight"},
        {"router.scale", "ffn_gate_inp.scale"},
        {"router.per_expert_scale", "ffn_down_exps.scale"},
        {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
        {"experts.down_proj", "ffn_down_exps.weight"},
        {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
        {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
        {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
    };
    const std::string layers = "model.layers.";
    std::string before;
    std::string part = name;
    if (name.starts_with(layers)) {
      const std::size_t dot = name.find('.', layers.size());
      before = "blk." + name.substr(layers.size(), dot + 1 - layers.size());
      part = name.substr(dot + 1);
    }
    for (const auto& [from, to] : names) {
      if (part == from) return before + to;
    }
    return "";
  }

  struct Placed {
    std::string name;
    std::vector<std::uint64_t> extents;
    std::size_t at;
  };
  Checkpoint from_;
  std::string prefix_;
  bool adds_one_;
  GgufBytes file_;
  std::vector<Placed> tensors_;
  std::string data_;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(GemmaGguf, OfGemma2HasTheBitsOfTheFolderWithTheScaleOfLlamaCpp) {
  Converted file("gemma2", "gemma2-tiny");
  file.put_sizes(3);
  file.number("feed_forward_length", 24);
  file.number("attention.head_count_kv", 2);
  file.number("attention.key_length", 8);
  file.number("attention.value_length", 8);
  file.real("attn_logit_softcapping", 2);
  file.real("final_logit_softcapping", 3);
  file.expect_the_bits_of_the_folder(
      replaced(file.config(), "\"query_pre_attn_scalar\": 12", "\"query_pre_attn_scalar\": 8"));
}

TEST(GemmaGguf, OfGemma3HasTheBitsOfTheFolderWithTheScaleOfLlamaCpp) {
  Converted file("gemma3", "gemma3-tiny");
  file.put_sizes(7);
  file.number("feed_forward_length", 24);
  file.number("attention.head_count_kv", 2);
  file.number("attention.key_length", 8);
  file.number("attention.value_length", 8);
  file.number("attention.sliding_window_pattern", 3);
  file.real("rope.freq_base", 1e6F);
  file.text("rope.scaling.type", "linear");
  file.real("rope.scaling.factor", 8);
  file.real("final_logit_softcapping", 4);
  file.expect_the_bits_of_the_folder(
      replaced(file.config(), "\"query_pre_attn_scalar\": 20", "\"query_pre_attn_scalar\": 8"));
}

/// Gemma 4's keys; its full layers have heads of 16 values, of whose pairs two turn.
void put_gemma4(Converted& file, const std::string& kinds, std::uint32_t full_kv_heads) {
  file.put_sizes(static_cast<std::uint32_t>(kinds.size()));
  std::vector<std::uint32_t> kv_heads;
  for (const char kind : kinds) kv_heads.push_back(kind == 's' ? 2 : full_kv_heads);
  file.numbers("attention.head_count_kv", kv_heads);
  for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    file.number(key, 16);
    file.number((std::string(key) + "_swa").c_str(), 8);
  }
  file.booleans("attention.sliding_window_pattern", kinds, 's');
  file.real("rope.freq_base", 1e6F);
  file.real("rope.freq_base_swa", 1e4F);
  file.real("final_logit_softcapping", 5);
  std::vector<float> factors(8, 1e30F);
  factors[0] = factors[1] = 1;
  file.add("rope_freqs.weight", {8}, factors);
}

TEST(GemmaGguf, OfGemma4WithValuesOfTheKeysHasTheBitsOfTheFolder) {
  Converted file("gemma4", "gemma4-tiny");
  put_gemma4(file, "ssfssf", 1);
  file.number("feed_forward_length", 24);
  file.expect_the_bits_of_the_folder();
}

TEST(GemmaGguf, OfGemma4WithSharedKeysAndLayerEmbeddingsHasTheBitsOfTheFolder) {
  Converted file("gemma4", "gemma4-tiny-shared");
  put_gemma4(file, "ssfssf", 2);
  file.numbers("feed_forward_length", {24, 24, 24, 48, 48, 48});
  file.number("attention.shared_kv_layers", 3);
  file.number("embedding_length_per_layer_input", 8);
  file.expect_the_bits_of_the_folder();
}

TEST(GemmaGguf, OfGemma4WithExpertsHasTheBitsOfTheFolder) {
  Converted file("gemma4", "gemma4-tiny-experts");
  put_gemma4(file, "ssf", 2);
  file.number("feed_forward_length", 24);
  file.number("expert_count", 4);
  file.number("expert_used_count", 2);
  file.number("expert_feed_forward_length", 8);
  file.expect_the_bits_of_the_folder();
}

}  // namespace
}  // namespace draftproof::test::gemma_gguf_test
