// SPDX-License-Identifier: MIT
// The guarantee of speculative decoding on every architecture: each tiny target, at temperature 0 and 1 under both
// rules, with a DFlash draft, EAGLE-3 drafts of chains and of trees, a model draft and one that is always refused,
// verified in one pass and row by row, with the scalar table, the fastest one and OpenBLAS.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/models/models.h"
#include "tests/decoding/support.h"
#include "tests/folder.h"
#include "tests/formats/files.h"
#include "tests/threads.h"

namespace draftproof::architectures_test {
namespace {

const std::filesystem::path external = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external";

/// The folders of all tiny targets: those with reference outputs of a whole model.
std::vector<std::string> targets() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(external)) {
    const std::string name = entry.path().filename().string();
    const bool model = std::filesystem::exists(entry.path() / "config.json") && name.find("-tiny") != std::string::npos;
    if (model) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Floats between mean - 0.5 and mean + 0.5.
std::string floats(std::size_t count, float mean, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::string bytes(count * sizeof(float), '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const float value = mean + static_cast<float>(random() % 1024) / 1024 - 0.5F;
    std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  }
  return bytes;
}

/// The tensors of a draft with random weights and one layer of two heads of 8, one KV head, and an MLP of 12.
struct RandomWeights {
  std::vector<Tensor> tensors;

  void add(const std::string& name, std::vector<std::int64_t> shape, float mean = 0) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    tensors.push_back({name + ".weight", "F32", shape, floats(count, mean, static_cast<unsigned>(tensors.size()))});
  }
  void add_layer(const std::string& prefix, int hidden, int inputs) {
    for (const auto& [name, rows] : {std::pair("q_proj", 16), {"k_proj", 8}, {"v_proj", 8}}) {
      add(prefix + "self_attn." + name, {rows, inputs});
    }
    add(prefix + "self_attn.o_proj", {hidden, 16});
    for (const char* name : {"gate", "up"}) add(prefix + "mlp." + name + "_proj", {12, hidden});
    add(prefix + "mlp.down_proj", {hidden, 12});
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(prefix + name, {hidden}, 1);
  }
};

/// The fields of its config, without the first brace.
std::string sizes(const Model& target) {
  return fmt::format(R"("hidden_size": {}, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
 "num_key_value_heads": 1, "head_dim": 8, "hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
 "rope_theta": 10000.0, "vocab_size": {}}})",
                     target.hidden(), target.vocabulary());
}

/// Writes a DFlash draft for a target: features of its first and its last layer.
void write_dflash(const Model& target, const std::filesystem::path& folder) {
  const int hidden = target.hidden();
  RandomWeights weights;
  const std::set<int> taps = {0, target.layers() - 1};
  weights.add("fc", {hidden, static_cast<std::int64_t>(taps.size()) * hidden});
  for (const char* name : {"hidden_norm", "norm"}) weights.add(name, {hidden}, 1);
  for (const char* name : {"q_norm", "k_norm"}) weights.add(std::string("layers.0.self_attn.") + name, {8}, 1);
  weights.add_layer("layers.0.", hidden, hidden);
  test::put(folder / "model.safetensors", safetensors(weights.tensors));
  test::put(folder / "config.json",
            fmt::format(R"({{"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 4,
 "dflash_config": {{"mask_token_id": 3, "target_layer_ids": [{}]}}, {})",
                        fmt::join(taps, ", "), sizes(target)));
}

/// Writes an EAGLE-3 draft for a target, with its embedding and head: features of what leaves its first and its last
/// layer.
void write_eagle3(const Model& target, const std::filesystem::path& folder) {
  const int hidden = target.hidden();
  RandomWeights weights;
  const std::set<int> ids = {1, target.layers()};
  weights.add("fc", {hidden, static_cast<std::int64_t>(ids.size()) * hidden});
  for (const char* name : {"midlayer.hidden_norm", "norm"}) weights.add(name, {hidden}, 1);
  weights.add_layer("midlayer.", hidden, 2 * hidden);
  test::put(folder / "model.safetensors", safetensors(weights.tensors));
  test::put(folder / "config.json", fmt::format(R"({{"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
 "eagle_aux_hidden_state_layer_ids": [{}], {})",
                                                fmt::join(ids, ", "), sizes(target)));
}

/// Writes a P-EAGLE draft of two layers for a target, with its embedding and head: features of what leaves its last
/// layer.
void write_peagle(const Model& target, const std::filesystem::path& folder) {
  const int hidden = target.hidden();
  RandomWeights weights;
  weights.add("fc", {hidden, hidden});
  for (const char* name : {"layers.0.hidden_norm", "norm"}) weights.add(name, {hidden}, 1);
  for (const int layer : {0, 1}) {
    weights.add_layer("layers." + std::to_string(layer) + ".", hidden, layer == 0 ? 2 * hidden : hidden);
  }
  weights.tensors.push_back({"mask_hidden", "F32", {1, 1, hidden}, floats(static_cast<std::size_t>(hidden), 0, 99)});
  test::put(folder / "model.safetensors", safetensors(weights.tensors));
  std::string fields = sizes(target);
  fields.replace(fields.find("\"num_hidden_layers\": 1"), 22, "\"num_hidden_layers\": 2");
  test::put(folder / "config.json", fmt::format(R"({{"architectures": ["PEagleDraftModel"], "model_type": "llama",
 "mask_token_id": 3, "eagle_aux_hidden_state_layer_ids": [{}], {})",
                                                target.layers(), fields));
}

/// Writes two Medusa heads for a target, one after the other with an LM head of its own.
void write_medusa(const Model& target, const std::filesystem::path& folder) {
  const int hidden = target.hidden();
  RandomWeights weights;
  for (const std::string head : {"0.", "1."}) {
    weights.add(head + "0.linear", {hidden, hidden});
    weights.add(head + "1", {target.vocabulary(), hidden});
  }
  test::put(folder / "model.safetensors", safetensors(weights.tensors));
  test::put(folder / "config.json", R"({"medusa_num_heads": 2, "medusa_num_layers": 1})");
}

struct Setting {
  const char* name;
  Sampling sampling;
  const Rule* rule;
};

/// How a text comes about. Texts of equal keys must be equal.
using Key = std::string;

class Architecture : public testing::TestWithParam<std::string> {};

TEST_P(Architecture, SpeculatesToTheTextOfPlainDecodingHoweverItIsComputed) {
  const Threads one(1);
  const std::filesystem::path folder = external / GetParam();
  ModelFiles files(folder);
  const test::Folder dflash;
  const test::Folder eagle3;
  const test::Folder peagle;
  const test::Folder medusa;
  std::vector<const Kernels*> tables = {&kernels_by_name("scalar"), &best_kernels()};
  if (*self_test(kernels_by_name("openblas")) == '\0') tables.push_back(&kernels_by_name("openblas"));
  std::map<Key, std::vector<Token>> texts;
  int accepted = 0;
  int refused = 0;
  for (const Kernels* table : tables) {
    Engine engine(files, *table);
    if (table == tables.front()) {
      write_dflash(engine.target(), dflash.path());
      write_eagle3(engine.target(), eagle3.path());
      write_peagle(engine.target(), peagle.path());
      write_medusa(engine.target(), medusa.path());
    }
    const Setting settings[] = {{"greedy", {}, &matching},
                                {"matching at 1", {.temperature = 1}, &matching},
                                {"rejection at 1", {.temperature = 1}, &rejection}};
    for (const Setting& setting : settings) {
      const auto text_with = [&](const std::string& draft, Verification verification) {
        Asked request = asked({1, 5, 9, 2, 7, 4, 4, 8, 3}, 24, 3, setting.sampling);
        request.verification = verification;
        PhiloxSource random(11);
        const Trace trace = engine.decode(
            {.request = request, .execution = request, .draft = draft, .rule = *setting.rule, .random = random});
        if (draft == "none") return trace.output;
        EXPECT_EQ(trace.statistics.serial, verification == Verification::serial ? trace.statistics.iterations : 0);
        if (verification == Verification::batched) {
          accepted += trace.statistics.accepted;
          refused += trace.statistics.drafted - trace.statistics.accepted;
        }
        return trace.output;
      };
      const std::vector<Token> plain = text_with("none", Verification::batched);
      ASSERT_EQ(plain.size(), 24U);
      for (const std::string& draft :
           {"dflash:" + dflash.path().string(), "eagle3:" + eagle3.path().string(),
            "eagle3:" + eagle3.path().string() + "?tree=7", "medusa:" + medusa.path().string(),
            "medusa:" + medusa.path().string() + "?tree=5", "model:" + folder.string(), std::string("always-reject"),
            "eagle3:" + peagle.path().string()}) {
        // The rule of rejection draws with the draft, so each draft has a text of its own.
        const Key key = fmt::format("{} {} {}", numerics_of(*table), setting.name,
                                    setting.rule == &rejection ? draft : "any draft");
        if (setting.rule != &rejection) texts.emplace(key, plain);
        for (const Verification verification : {Verification::batched, Verification::serial}) {
          const std::vector<Token> text = text_with(draft, verification);
          EXPECT_EQ(texts.emplace(key, text).first->second, text) << table->name << ", " << key << ", " << draft;
        }
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Architecture, testing::ValuesIn(targets()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace draftproof::architectures_test
