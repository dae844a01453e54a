// SPDX-License-Identifier: MIT
// Weights that are quantized on load, and weights from GGUF files written by draftproof.
#include "ref/models/weight_loader.h"

#include <functional>
#include <set>

#include "kernels/formats.h"
#include "ref/formats/gguf_writer.h"
#include "ref/formats/safetensors.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/dflash.h"
#include "ref/models/memory.h"
#include "tests/models/draft_with_sinks.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::weight_loader_test {
namespace {

const std::filesystem::path tale_dflash = source_dir / "fixtures" / "models" / "tale-dflash";

/// A tensor as stored or quantized; floats of any width have f32 names in both spellings.
GgufTensor tensor_of(const Checkpoint& from, const std::string& gguf, const std::string& name,
                     std::optional<Format> quantized = {}) {
  const std::vector<std::int64_t>& shape = from.tensors().at(name).shape;
  const int inputs = static_cast<int>(shape.back());
  const int outputs = shape.size() == 1 ? 1 : static_cast<int>(shape[0]);
  if (shape.size() == 1) {  // norms and biases are f32 in every GGUF
    return {gguf, {Format::f32, 1, inputs, [values = from.floats(name, shape)](int, int, void* to) {
                     std::memcpy(to, values.data(), values.size() * sizeof(float));
                   }}};
  }
  if (!quantized) return {gguf, from.weight(name, outputs, inputs)};
  const auto read = [values = from.floats(name, shape), quantized, inputs](int first, int count, void* to) {
    for (int i = 0; i < count; ++i) {
      quantize_row(*quantized, values.data() + static_cast<std::ptrdiff_t>(first + i) * inputs, inputs,
                   static_cast<std::byte*>(to) + static_cast<std::size_t>(i) * row_bytes(*quantized, inputs));
    }
  };
  return {gguf, {*quantized, outputs, inputs, read}};
}

struct Word {
  const char* gguf;
  const char* hugging_face;
};
constexpr Word layer_words[] = {{"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
                                {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
                                {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                                {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
                                {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                                {"ffn_down", "mlp.down_proj"}};

/// The sizes of a Qwen3-style config, with the keys of an architecture.
GgufFields fields_of(const Json& config, const std::string& architecture) {
  GgufFields fields;
  fields.text("general.architecture", architecture);
  const auto size = [&](const char* key, const char* field) {
    fields.size(architecture + "." + key, static_cast<std::uint32_t>(config.at(field).integer(1, 1 << 24)));
  };
  size("block_count", "num_hidden_layers");
  size("context_length", "max_position_embeddings");
  size("embedding_length", "hidden_size");
  size("feed_forward_length", "intermediate_size");
  size("attention.head_count", "num_attention_heads");
  size("attention.head_count_kv", "num_key_value_heads");
  size("attention.key_length", "head_dim");
  size("attention.value_length", "head_dim");
  fields.number(architecture + ".attention.layer_norm_rms_epsilon",
                static_cast<float>(config.at("rms_norm_eps").number()));
  fields.number(architecture + ".rope.freq_base", static_cast<float>(config.at("rope_theta").number()));
  return fields;
}

enum class Converter { llama_cpp, ik_llama_cpp };

/// A copy of tale-dflash, or of another draft of its shape, with the names of one of the spellings.
void write_draft(const std::filesystem::path& file, Converter converter,
                 const std::filesystem::path& folder = tale_dflash) {
  const Checkpoint from(folder);
  const Json config = from.config();
  const bool mainline = converter == Converter::llama_cpp;
  const std::string name = mainline ? "dflash" : "dflash-draft";
  GgufFields fields = fields_of(config, name);
  const Json block = config.at("dflash_config");
  std::vector<std::int32_t> taps;
  for (const std::int64_t id : block.at("target_layer_ids").integers(0, 100)) {
    taps.push_back(static_cast<std::int32_t>(id) + (mainline ? 1 : 0));
  }
  const auto block_size = static_cast<std::uint32_t>(config.at("block_size").integer(1, 100));
  const auto mask = static_cast<std::uint32_t>(block.at("mask_token_id").integer(0, 1 << 20));
  fields.size(name + (mainline ? ".block_size" : ".dflash.block_size"), block_size);
  fields.integers(name + (mainline ? ".target_layers" : ".dflash.target_layer_ids"), taps);
  fields.size(mainline ? "tokenizer.ggml.mask_token_id" : name + ".dflash.mask_token_id", mask);
  fields.size(name + ".attention.sliding_window",
              static_cast<std::uint32_t>(config.at("sliding_window").integer(1, 1 << 20)));
  std::vector<std::int32_t> slides;
  const Json types = config.at("layer_types");
  for (std::size_t i = 0; i < types.size(); ++i) slides.push_back(types[i].string() == "sliding_attention" ? 1 : 0);
  fields.integers(name + ".attention.sliding_window_pattern", slides);

  const std::string prefix = from.has("model.fc.weight") ? "model." : "";
  std::vector<GgufTensor> tensors = {
      tensor_of(from, mainline ? "fc.weight" : "dflash_fc.weight", prefix + "fc.weight"),
      tensor_of(from, mainline ? "enc.output_norm.weight" : "dflash_hidden_norm.weight", prefix + "hidden_norm.weight"),
      tensor_of(from, "output_norm.weight", prefix + "norm.weight")};
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string number = std::to_string(i) + ".";
    for (const Word& word : layer_words) {
      const bool before_mlp = word.hugging_face == std::string("post_attention_layernorm");
      tensors.push_back(
          tensor_of(from, "blk." + number + (before_mlp && !mainline ? "post_attention_norm" : word.gguf) + ".weight",
                    prefix + "layers." + number + word.hugging_face + ".weight"));
    }
    const std::string sinks = prefix + "layers." + number + "self_attn.attention_sink_bias";
    if (!from.has(sinks)) continue;
    tensors.push_back(tensor_of(from, "blk." + number + (mainline ? "attn_sinks.weight" : "attn_sinks"), sinks));
  }
  write_gguf(file, fields, tensors);
}

/// Returns the logits of two DFlash blocks and the context between them.
std::vector<float> drafted(const std::filesystem::path& path, Model& target, const LoadOptions& options) {
  DFlashNetwork draft(Checkpoint(path), target, options);
  const auto context = draft.new_context(32, 16);
  std::vector<float> features(5 * draft.config().taps.size() * static_cast<std::size_t>(target.hidden()));
  for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i * 7 % 23) / 8 - 1;
  std::vector<float> result;
  for (int round = 0; round < 2; ++round) {
    const DFlashNetwork::ContextRows rows = {context.get(), features, 5};
    draft.append(std::span(&rows, 1));
    DFlashNetwork::Block block = {context.get(), 3 + round, draft.config().block_size - 1};
    draft.compute(std::span(&block, 1));
    result.insert(result.end(), block.logits.begin(), block.logits.end());
  }
  return result;
}

TEST(GgufDraft, BothSpellingsOfNamesGiveTheBitsOfSafetensors) {
  const auto target = load_model(Checkpoint(tale_target), best_kernels());
  const std::vector<float> want = drafted(tale_dflash, *target, best_kernels());
  const TemporaryFolder folder;
  for (const Converter converter : {Converter::llama_cpp, Converter::ik_llama_cpp}) {
    const auto file = folder.path() / "draft.gguf";
    write_draft(file, converter);
    EXPECT_EQ(checkpoint_kind(Checkpoint(file).config()), dflash_checkpoint);
    EXPECT_TRUE(same_bits(drafted(file, *target, best_kernels()), want)) << static_cast<int>(converter);
  }
}

TEST(GgufDraft, SinksOfAttentionAreReadUnderBothSpellings) {
  const auto target = load_model(Checkpoint(tale_target), best_kernels());
  const TemporaryFolder folder;
  copy_with_sinks(tale_dflash, folder.path());
  const std::vector<float> want = drafted(folder.path(), *target, best_kernels());
  EXPECT_FALSE(same_bits(drafted(tale_dflash, *target, best_kernels()), want));
  for (const Converter converter : {Converter::llama_cpp, Converter::ik_llama_cpp}) {
    const auto file = folder.path() / "draft.gguf";
    write_draft(file, converter, folder.path());
    EXPECT_TRUE(same_bits(drafted(file, *target, best_kernels()), want)) << static_cast<int>(converter);
  }
}

struct Narrowing {
  Quantization quantize;
  Format layers;
  Format tables;
};

TEST(Quantize, QuantizingOnLoadEqualsLoadingAQuantizedFile) {
  const Checkpoint from(tale_target);
  const Json config = from.config();
  const int layers = static_cast<int>(config.at("num_hidden_layers").integer(1, 1000));
  const bool has_head = from.has("lm_head.weight");
  // 192 inputs are not a multiple of 256, so the embedding tables of q4 are q8_0.
  for (const Narrowing& how : {Narrowing{Quantization::q8, Format::q8_0, Format::q8_0},
                               Narrowing{Quantization::q4, Format::q4_0, Format::q8_0}}) {
    std::vector<GgufTensor> tensors = {tensor_of(from, "token_embd.weight", "model.embed_tokens.weight", how.tables),
                                       tensor_of(from, "output_norm.weight", "model.norm.weight")};
    if (has_head) tensors.push_back(tensor_of(from, "output.weight", "lm_head.weight", how.tables));
    for (int i = 0; i < layers; ++i) {
      const std::string number = std::to_string(i) + ".";
      for (const Word& word : layer_words) {
        tensors.push_back(tensor_of(from, "blk." + number + word.gguf + ".weight",
                                    "model.layers." + number + word.hugging_face + ".weight", how.layers));
      }
    }
    const TemporaryFolder folder;
    write_gguf(folder.path() / "target.gguf", fields_of(config, "qwen3"), tensors);
    const auto quantized = load_model(Checkpoint(tale_target), LoadOptions(best_kernels(), how.quantize));
    const auto stored = load_model(Checkpoint(folder.path() / "target.gguf"), best_kernels());
    const std::vector<Token> text = some_text(20, quantized->vocabulary());
    const Reading got = read(*quantized, text, all_layers(*quantized));
    EXPECT_EQ(got, read(*stored, text, all_layers(*stored)));
    const auto floats = load_model(Checkpoint(tale_target), best_kernels());
    EXPECT_FALSE(same_bits(got.logits, read(*floats, text, {}).logits)) << "nothing was quantized";
  }
}

TEST(Quantize, QuantizedWeightsAreNotQuantizedAgainUnlessTheyShall) {
  const auto file = external_dir / "llama-cpp-qwen2-q8_0" / "model.gguf";
  const auto plain = load_model(Checkpoint(file), best_kernels());
  LoadOptions options(best_kernels(), Quantization::q4);
  const std::vector<Token> text = some_text(20, plain->vocabulary());
  EXPECT_EQ(read(*plain, text, {}), read(*load_model(Checkpoint(file), options), text, {}));
  options.requantize = true;
  EXPECT_FALSE(read(*plain, text, {}) == read(*load_model(Checkpoint(file), options), text, {}));
  const MemoryNeed need = model_need(Checkpoint(file), options);
  EXPECT_TRUE(need.weights.contains("q4_0"));
  EXPECT_FALSE(need.weights.contains("f16"));
  options.small_tables = true;
  EXPECT_LT(model_need(Checkpoint(file), options).total(0), need.total(0));
  EXPECT_NO_THROW(load_model(Checkpoint(file), options));
}

TEST(Quantize, FloatsOfAQuantizedFolderStartFromTheExactValues) {
  const std::filesystem::path folder = external_dir / "quantized-folders/fp8-block";
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const Checkpoint files(folder);
  const SafeTensors values(folder / "values.safetensors");
  const std::string bytes = stored_bytes(values.tensors().at(name));
  std::vector<float> exact(bytes.size() / sizeof(float));
  std::memcpy(exact.data(), bytes.data(), bytes.size());
  const int inputs = 96;
  for (const auto& [quantize, format] : {std::pair(Quantization::f32, Format::f32),
                                         {Quantization::q8, Format::q8_0},
                                         {Quantization::q4, Format::q4_0}}) {
    const LoadOptions options(best_kernels(), quantize);
    const WeightLoader from(files, options);
    const PackedMatrix matrix = load_matrix(from, {{name, 40, 24, {64, inputs}}}, inputs);  // from row 24 on
    std::vector<float> expected(static_cast<std::size_t>(inputs));
    std::vector<float> found(expected.size());
    for (int row = 0; row < 40; ++row) {
      std::vector<std::byte> stored(row_bytes(format, inputs));
      quantize_row(format, exact.data() + std::ptrdiff_t{24 + row} * inputs, inputs, stored.data());
      dequantize_row(format, stored.data(), inputs, expected.data());
      matrix.unpack_row(best_kernels(), row, found.data());
      EXPECT_EQ(found, expected) << row << " " << traits(format).name;
    }
  }
}

/// As the keys of latent attention lie in GGUFs that have those and the values in one tensor.
TEST(WeightLoader, ColumnsOfAQuantizedTensorHaveItsValues) {
  const Checkpoint files(external_dir / "llama-cpp-qwen2-q8_0" / "model.gguf");
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  const std::vector<std::int64_t> shape = files.tensors().at(name).shape;
  const auto width = static_cast<int>(shape[1]);
  ASSERT_EQ(files.tensors().at(name).format, Format::q8_0);
  const std::vector<float> values = files.floats(name, shape);
  constexpr int before = 3;
  constexpr int inputs = 8;
  const LoadOptions options(best_kernels());
  const WeightLoader from(files, options);
  NamedMatrix columns = {name, width, 0, shape};
  columns.transposed = true;
  columns.before = before;
  const PackedMatrix matrix = load_matrix(from, {columns}, inputs);
  std::vector<float> expected(inputs);
  std::vector<float> found(inputs);
  for (int row = 0; row < width; ++row) {
    for (int i = 0; i < inputs; ++i) {
      expected[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>((before + i) * width + row)];
    }
    matrix.unpack_row(best_kernels(), row, found.data());
    EXPECT_EQ(found, expected) << row;
  }
}

TEST(Head, OfTheFirstTokensGivesTheirLogitsOfTheWholeHeadAndNoOthers) {
  const auto models = source_dir / "fixtures" / "models";
  // An embedding that is the head, a head of its own, and logits that are capped.
  for (const auto& folder : {models / "tale-small", tale_target, models / "tale-gemma"}) {
    for (const Quantization quantize : {Quantization::none, Quantization::q4}) {
      const Checkpoint files(folder);
      LoadOptions options(best_kernels(), quantize);
      const auto whole = load_model(files, options);
      const int vocabulary = whole->vocabulary();
      const std::vector<Token> text = some_text(20, vocabulary);
      const std::vector<float> expected = read(*whole, text, {}).logits;
      const std::uint64_t need = model_need(files, options).total(0);
      for (const int tokens : {1, 100, vocabulary - 1, vocabulary, vocabulary + 5}) {
        options.head_tokens = tokens;
        const auto model = load_model(files, options);
        ASSERT_EQ(model->vocabulary(), vocabulary);
        const std::vector<float> logits = read(*model, text, {}).logits;
        ASSERT_EQ(logits.size(), expected.size());
        for (std::size_t i = 0; i < logits.size(); ++i) {
          const bool known = static_cast<int>(i % static_cast<std::size_t>(vocabulary)) < tokens;
          ASSERT_EQ(logits[i], known ? expected[i] : -std::numeric_limits<float>::infinity())
              << folder << " " << tokens << " " << i;
        }
        ASSERT_TRUE(tokens < vocabulary || model_need(files, options).total(0) == need) << folder;
      }
    }
  }
}

TEST(Layers, TheFirstOfAModelAreThoseOfTheWholeModel) {
  const auto whole = load_model(Checkpoint(tale_target), best_kernels());
  LoadOptions options = best_kernels();
  options.layers = 2;
  const auto first = load_model(Checkpoint(tale_target), options);
  EXPECT_EQ(first->layers(), 2);
  const std::vector<Token> text = some_text(20, whole->vocabulary());
  EXPECT_TRUE(same_bits(read(*first, text, {0, 1}).features, read(*whole, text, {0, 1}).features));
  const Checkpoint files(tale_target);
  EXPECT_LT(model_need(files, options).total(0), model_need(files, best_kernels()).total(0));
  options.layers = 7;
  EXPECT_THAT(error_of([&] { load_model(Checkpoint(tale_target), options); }), testing::HasSubstr("it has 6"));
  options.layers = 2;
  EXPECT_THAT(error_of([&] { load_model(Checkpoint(external_dir / "gemma4-tiny-shared"), options); }),
              testing::HasSubstr("its embeddings are for all of them"));
  EXPECT_NO_THROW(load_model(Checkpoint(external_dir / "qwen35-tiny-irregular"), options));
}

TEST(WeightLoader, ReportsProgressFromStartToEndHoweverLoadingEnds) {
  std::vector<std::uint64_t> told;
  LoadOptions options = best_kernels();
  options.observer = [&](const std::filesystem::path& checkpoint, std::uint64_t done, std::uint64_t all) {
    EXPECT_EQ(checkpoint, tale_target);
    EXPECT_EQ(all, Checkpoint(tale_target).bytes());
    told.push_back(done);
  };
  load_model(Checkpoint(tale_target), options);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_GT(told.size(), 10U);
  EXPECT_EQ(told.front(), 0U);
  EXPECT_GT(told[told.size() - 2], Checkpoint(tale_target).bytes() * 9 / 10) << "norms are all that is not told of";
  EXPECT_EQ(told.back(), Checkpoint(tale_target).bytes());

  told.clear();
  try {
    const Checkpoint weights(tale_target);
    const WeightLoader from(weights, options);
    load_matrix(from, {{"no.such.weight", 8}}, 8);
    from.finish();
    FAIL();
  } catch (const Error&) {
    EXPECT_EQ(told, (std::vector<std::uint64_t>{0, Checkpoint(tale_target).bytes()}));
  }
}

TEST(Memory, IsCountedByTheDocumentedFormula) {
  const Checkpoint from(tale_target);
  const Json config = from.config();
  const MemoryNeed floats = model_need(from, in_floats(best_kernels()));
  const MemoryNeed narrow = model_need(from, LoadOptions(best_kernels(), Quantization::q4));
  const auto size = [&config](const char* field) {
    return static_cast<std::uint64_t>(config.at(field).integer(1, 1 << 24));
  };
  EXPECT_EQ(floats.cache_per_position, 8 * size("num_key_value_heads") * size("head_dim") * size("num_hidden_layers"));
  EXPECT_EQ(floats.total(11) - floats.total(10), floats.cache_per_position + floats.scratch_per_position);
  EXPECT_EQ(floats.total(10, 3) - floats.total(10), 3 * 4 * size("vocab_size")) << "a row of logits for each";
  EXPECT_GE(floats.total(0), from.bytes());
  EXPECT_LT(narrow.total(0), floats.total(0));
  EXPECT_GT(narrow.weights.at("q4_0"), narrow.weights.at("q8_0")) << "layers outweigh tables here";
}

TEST(Memory, AShortageIsAMessageWithBothNumbers) {
  EXPECT_EQ(shortage("x", 5, 5), "");
  const std::string message = shortage("models/x", std::uint64_t{3} << 30, std::uint64_t{1} << 29);
  EXPECT_THAT(message, testing::HasSubstr("models/x needs 3.00 GiB of memory, and 512.0 MiB are available"));
  EXPECT_GT(memory_available(), 0U);
}

TEST(Quantize, UnknownNamesAreRejected) {
  EXPECT_EQ(quantization_by_name("q8"), Quantization::q8);
  EXPECT_THAT(error_of([] { quantization_by_name("q5"); }), testing::HasSubstr("'q5'; there are: none f32 q8 q4"));
}

/// What loading a copy of llama-tiny-plain says that has only the tensors of these names, without the folder's name.
std::string error_without(const std::function<bool(const std::string& name)>& kept) {
  const std::filesystem::path whole = external_dir / "llama-tiny-plain";
  const Checkpoint from(whole);
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : from.tensors()) {
    if (kept(name)) tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
  }
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors(tensors));
  std::filesystem::copy(whole / "config.json", folder.path() / "config.json");
  const std::string error = error_of([&] { load_model(Checkpoint(folder.path()), best_kernels()); });
  EXPECT_TRUE(error.starts_with(folder.path().string() + ": ")) << error;
  return error.substr(folder.path().string().size() + 2);
}

TEST(WeightLoader, NamesEveryTensorThatIsMissing) {
  const std::set<std::string> missing = {"model.norm.weight", "model.layers.1.self_attn.k_proj.weight",
                                         "model.layers.2.mlp.down_proj.weight",
                                         "model.layers.2.input_layernorm.weight"};
  EXPECT_EQ(error_without([&](const std::string& name) { return !missing.contains(name); }),
            "the weights have no tensor 'model.norm.weight' of shape [48], 'model.layers.1.self_attn.k_proj.weight' of "
            "shape [48, 48], 'model.layers.2.mlp.down_proj.weight' of shape [48, 72], "
            "'model.layers.2.input_layernorm.weight' of shape [48]");
  const std::string many = error_without([](const std::string& name) { return !name.starts_with("model.layers."); });
  EXPECT_THAT(many, testing::HasSubstr("'model.layers.0.self_attn.q_proj.weight' of shape"));
  EXPECT_THAT(many, testing::HasSubstr(" more"));
}

TEST(WeightLoader, SearchesForMissingTensorsOnlyAsLongAsMemoryAllows) {
  const std::filesystem::path whole = external_dir / "llama-tiny-plain";
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors(std::vector<Tensor>{}));
  std::string config = bytes_of_file(whole / "config.json");
  const std::string vocabulary = "\"vocab_size\": ";
  const std::size_t at = config.find(vocabulary) + vocabulary.size();
  config.replace(at, config.find_first_of(",\n", at) - at, "16000000");
  folder.write("config.json", config);
  EXPECT_THAT(error_of([&] { load_model(Checkpoint(folder.path()), best_kernels()); }),
              testing::EndsWith("'model.norm.weight' of shape [48], 'model.embed_tokens.weight' of shape "
                                "[16000000, 48]"));
}

}  // namespace
}  // namespace draftproof::test::weight_loader_test
