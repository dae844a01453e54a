// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/openblas.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/decoding/engine.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/hub_cache.h"
#include "ref/formats/quantized_folder/unpacking_error.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/medusa.h"
#include "ref/models/memory.h"
#include "ref/models/models.h"
#include "ref/models/mtp.h"
#include "ref/models/transformer_config.h"
#include "ref/text/tokenizer.h"
#include "tools/commands.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr int ranks_max = 1024;

struct InspectOptions {
  std::string path;
  std::string target;  // of a draft that reads its features
  std::string draft = "none";
  int context = 0;  // positions to count memory for; 0: the model's maximum
  int ranks = 1;    // to count the memory of each
  LayoutOptions load_options;
  bool json = false;
};

ordered_json kernels_json() {
  ordered_json rows = ordered_json::array();
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    const std::string why = (*table)->supported() ? self_test(**table) : "this CPU cannot run it";
    rows.push_back({{"name", (*table)->name},
                    {"numerics", (*table)->numerics},
                    {"usable", why.empty()},
                    {"why_not", why},
                    {"default", *table == &best_kernels()}});
    if (rows.back()["numerics"] == "openblas" && why.empty()) rows.back()["core"] = openblas_core();
  }
  return rows;
}

/// Whether only a config is there: a .json file, or a folder that has one and no weights.
bool is_config_alone(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return path.extension() == ".json" && is_present(path);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const auto extension = entry.path().extension();
    if (extension == ".safetensors" || extension == ".gguf") return false;
  }
  return is_present(path / "config.json");
}

std::uint64_t total(const MemoryNeed& need, const InspectOptions& options, int positions) {
  return need.total(positions, options.draft == "none" ? 0 : counted_draft_tokens);
}

/// Returns the numbers that docs/memory.md explains, for so many positions.
ordered_json memory_json(ModelFiles& files, const InspectOptions& options, int positions) {
  const MemoryNeed need = memory_need(files, std::span(&options.draft, 1), layout_of(options.load_options));
  ordered_json up_to = ordered_json::object();
  for (const auto& [limit, bytes] : need.cache_per_position_up_to) up_to[std::to_string(limit)] = bytes;
  return {{"weights", need.weights},
          {"cache_fixed", need.cache_fixed},
          {"cache_per_position", need.cache_per_position},
          {"cache_per_position_up_to", up_to},
          {"scratch", need.scratch},
          {"scratch_per_position", need.scratch_per_position},
          {"scratch_per_draft_token", need.scratch_per_draft_token},
          {"positions", positions},
          {"total", total(need, options, positions)},
          {"available", memory_available()}};
}

/// One of several ranks, whose memory is counted.
class CountedRank final : public Ranks {
 public:
  using Ranks::Ranks;
  void exchange(void*, std::size_t, int, std::ptrdiff_t, std::span<const int>) override { std::abort(); }
  void broadcast(std::vector<std::byte>&) override { std::abort(); }
};

/// What each of several ranks holds, for so many positions.
ordered_json memory_by_rank_json(ModelFiles& files, const InspectOptions& options, int positions) {
  ordered_json json = ordered_json::object();
  for (int rank = 0; rank < options.ranks; ++rank) {
    CountedRank counted(rank, options.ranks);
    LoadOptions load_options = layout_of(options.load_options);
    load_options.ranks = &counted;
    const MemoryNeed need = memory_need(files, std::span(&options.draft, 1), load_options);
    std::uint64_t weights = 0;
    for (const auto& [format, bytes] : need.weights) weights += bytes;
    json[std::to_string(rank)] = {{"weights", weights},
                                  {"cache_fixed", need.cache_fixed},
                                  {"cache_per_position", need.cache_per_position},
                                  {"total", total(need, options, positions)}};
  }
  return json;
}

/// What loading with each --quantize takes, all in all, by the number of positions.
ordered_json memory_by_type_json(ModelFiles& files, const InspectOptions& options, int context) {
  std::set<int> positions = {std::min(context, 4096), std::min(context, 32768), context};
  if (options.context > 0) positions = {options.context};
  ordered_json json = ordered_json::object();
  LayoutOptions layout = options.load_options;
  for (const Quantization quantize : {Quantization::none, Quantization::q8, Quantization::q4}) {
    layout.quantize = name_of(quantize);
    const MemoryNeed need = memory_need(files, std::span(&options.draft, 1), layout_of(layout));
    ordered_json totals = ordered_json::object();
    for (const int count : positions) totals[std::to_string(count)] = total(need, options, count);
    json[layout.quantize] = totals;
  }
  return json;
}

struct ReadTokenizer {
  std::optional<Tokenizer> tokenizer = {};
  std::string why_not = {};  // it cannot be read; empty when it can
};

ReadTokenizer read_tokenizer(const Checkpoint& files) {
  if (!Tokenizer::is_in(files)) return {.why_not = "the checkpoint has none"};
  try {
    return {.tokenizer = Tokenizer::load(files)};
  } catch (const Error& wrong) {
    return {.why_not = wrong.what()};
  }
}

/// What this process holds: the program, and what it has read of a checkpoint without its weights.
std::uint64_t resident_bytes() {
  malloc_trim(0);  // what was only needed to read it
  std::ifstream pages("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  pages >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// What the layers of a checkpoint keep of a text.
struct Layers {
  AttentionShape attention = {};  // of the first layer that has any
  int full = 0;                   // that keep everything
  int sliding = 0;
  int recurrent = 0;
  int convolving = 0;   // whose state is a few inputs of a convolution
  int shared_full = 0;  // that read the keys and values of others
  int shared_sliding = 0;
  int experts = 0;                       // of the layer that has the most
  std::uint64_t bytes_per_position = 0;  // of keys and values in layers that keep every position
  std::uint64_t state_bytes = 0;         // of the states of a text, in recurrent layers

  Layers(const TransformerConfig& config, KvFormat kv) {
    for (const LayerConfig& layer : config.layers) {
      experts = std::max(experts, layer.experts.count);
      if (const auto sizes = recurrent_sizes(layer)) {
        ++(std::holds_alternative<ConvolutionShape>(layer.mixer) ? convolving : recurrent);
        state_bytes += sizes->fixed_bytes();
      }
      const auto* const found = std::get_if<AttentionLayer>(&layer.mixer);
      if (found == nullptr) continue;
      const AttentionShape& shape = found->shape;
      if (attention.heads == 0) attention = shape;
      const bool everything = found->window == AttentionCache::everything;
      if (!everything) ++sliding;
      if (found->donor != AttentionLayer::own) {
        ++(everything ? shared_full : shared_sliding);
      } else if (everything) {
        ++full;
        bytes_per_position += AttentionCache::bytes_per_position(shape.kv_heads, shape.head_dim, kv, shape.latent);
      }
    }
  }

  /// The kinds of caches and the number of layers with each. `lent`: what layers without one read.
  ordered_json kinds(const char* lent) const {
    ordered_json kinds = ordered_json::object();
    if (full > 0) kinds["keys and values"] = full;
    if (sliding > shared_sliding) kinds["keys and values of a window"] = sliding - shared_sliding;
    if (recurrent > 0) kinds["recurrent state"] = recurrent;
    if (convolving > 0) kinds["inputs of a convolution"] = convolving;
    if (shared_full + shared_sliding > 0) kinds[lent] = shared_full + shared_sliding;
    return kinds;
  }
};

/// What the layers and the whole of a model have besides the plainest: attention to everything, RoPE, SwiGLU.
std::vector<std::string> features_of(const TransformerConfig& config) {
  std::set<std::string> features;
  for (const Rope& rope : config.ropes) {
    if (rope.kind != "default") features.insert("RoPE " + rope.kind);
  }
  for (const LayerConfig& layer : config.layers) {
    if (!layer.gated) features.insert("MLPs without a gate");
    if (layer.mlp_bias) features.insert("biases of the MLP");
    if (layer.gate_cutoff) features.insert("sparse gates");
    if (layer.experts.count > 0) features.insert("experts");
    if (layer.experts.shared > 0) features.insert("a shared expert");
    if (layer.experts.bias) features.insert("biases of experts");
    if (layer.experts.router_bias) features.insert("bias of the router");
    if (layer.experts.scores == RouterScores::sigmoid) features.insert("sigmoid router");
    if (layer.experts.choice_bias) features.insert("experts chosen by a bias");
    if (layer.experts.groups > 1) features.insert("groups of experts");
    if (layer.experts.weighted_inputs) features.insert("experts of weighted rows");
    if (layer.experts.scale != 1) features.insert("scaled experts");
    if (layer.experts.latent > 0) features.insert("latent experts");
    if (std::holds_alternative<ConvolutionShape>(layer.mixer)) features.insert("short convolutions");
    if (std::holds_alternative<RecurrentShape>(layer.mixer)) features.insert("gated delta net");
    const auto* const delta = std::get_if<RecurrentShape>(&layer.mixer);
    if (delta != nullptr && delta->delta.channel_decays) features.insert("decays of channels");
    if (std::holds_alternative<SelectiveScanShape>(layer.mixer)) features.insert("selective scan");
    if (std::holds_alternative<NoMixer>(layer.mixer)) features.insert("layers of an MLP or experts alone");
    if (find_state_space(layer) != nullptr) features.insert("state space");
    if (layer.beside) features.insert("attention and state space side by side");
    const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
    if (attention == nullptr) continue;
    if (attention->window != AttentionCache::everything) {
      features.insert(attention->chunked ? "chunks" : "sliding windows");
    }
    if (attention->qkv_bias) features.insert("biases of q, k, v");
    if (attention->output_bias) features.insert("bias of o");
    if (attention->gate > 0) features.insert("gated attention");
    if (attention->sinks) features.insert("attention sinks");
    if (attention->shape.cap != 0) features.insert("capped scores");
    if (attention->latent) features.insert("latent attention");
    if (attention->growth.beta != 0) features.insert("queries that grow");
    if (attention->values_from_keys) features.insert("values of the keys");
    if (attention->qk_norm == QkNorm::whole) features.insert("norms of q and k, all heads together");
    if (attention->rope == AttentionLayer::no_rope) {
      features.insert("layers without RoPE");
      continue;
    }
    const Rope& rope = config.ropes[static_cast<std::size_t>(attention->rope)];
    if (2 * rope.half() != attention->shape.head_dim && !attention->latent) {
      features.insert("RoPE of a part of a head");
    }
    if (attention->interleaved) features.insert("RoPE of neighbors");
  }
  if (config.norm_offset != 0) features.insert("norms of 1 + weight");
  if (config.activation == Activation::gelu) features.insert("GELU");
  if (config.activation == Activation::relu2) features.insert("squared ReLU");
  if (config.activation == Activation::xielu) features.insert("xIELU");
  if (config.activation == Activation::clamped_swiglu) features.insert("clamped SwiGLU");
  if (config.layer_embedding > 0) features.insert("embeddings for each layer");
  if (config.norm == Norm::layer) features.insert("norms without the mean");
  if (config.norm == Norm::plain) features.insert("norms without weights");
  if (config.embedding_norm) features.insert("a norm of the embedding");
  if (config.streams > 1) features.insert("several streams");
  if (config.laurel_rank > 0) features.insert("a narrow product beside attention");
  if (config.sub_norms) features.insert("norms before o and down");
  if (config.head_bias) features.insert("bias of the logits");
  if (config.residual_scale != 1) features.insert("scaled additions");
  if (config.logit_scale != 1) features.insert("scaled logits");
  if (config.embedding_scale != 1) features.insert("scaled embedding");
  if (config.logit_cap != 0) features.insert("capped logits");
  return {features.begin(), features.end()};
}

/// "" of a draft whose config does not say it.
std::string name_of(const Json& config) {
  if (checkpoint_kind(config) == target_checkpoint) return architecture_name(config);
  const auto names = config.find("architectures");
  return names && names->is_array() && names->size() > 0 ? (*names)[0].string() : "";
}

/// What a draft that reads the target's features has besides a model's fields.
ordered_json draft_json(const Checkpoint& files, const Model& target) {
  const CheckpointKind& kind = checkpoint_kind(files.config());
  if (kind == eagle3_checkpoint) {
    const Eagle3Config draft =
        read_eagle3_config(files.config(), {target.layers(), target.hidden(), target.vocabulary()});
    const auto tokens = read_draft_vocabulary(files, draft.draft_vocabulary, target.vocabulary());
    std::vector<int> entered;  // the names of the taps in the file
    for (const int tap : draft.taps) entered.push_back(tap + 1);
    ordered_json fields = {{"draft_vocabulary", tokens.size()},
                           {"target_layer_ids", entered},
                           {"norm_before_residual", draft.norm_before_residual},
                           {"norm_before_fc", draft.norm_before_fc},
                           {"fc_norm", draft.fc_norm},
                           {"norm_output", draft.norm_output}};
    if (draft.mask_token) fields["mask_token"] = *draft.mask_token;
    return fields;
  }
  if (kind == gemma4_assistant_checkpoint) {
    const TransformerConfig draft = read_gemma4_assistant(files, target);
    std::vector<int> read;
    for (int i = 0; i < draft.depth(); ++i) read.push_back(draft.attention(i).donor);
    return {{"reads_keys_of_target_layers", read}};
  }
  if (kind == medusa_checkpoint) {
    const MedusaConfig draft = read_medusa(files, target);
    return {{"medusa_heads", draft.heads}, {"draft_vocabulary", draft.draft_vocabulary}};
  }
  const DFlashConfig draft = read_dflash_config(files.config(), target);
  ordered_json layers = ordered_json::array();
  for (std::size_t i = 0; i < draft.sights.size(); ++i) {
    layers.push_back({{"causal", draft.sights[i].causal},
                      {"from_anchor", draft.sights[i].from_anchor},
                      {"window", draft.transformer.attention(static_cast<int>(i)).window}});
  }
  ordered_json json = {{"block_size", draft.block_size},
                       {"mask_token", draft.mask},
                       {"target_layer_ids", draft.taps},
                       {"layers", layers},
                       {"draft_vocabulary", draft.draft_vocabulary}};
  if (draft.conv_taps > 0) json["convolution"] = {{"taps", draft.conv_taps}, {"group", draft.conv_group}};
  if (draft.selector_rank > 0) {
    json["candidate_selector"] = {{"rank", draft.selector_rank}, {"candidates", draft.selector_candidates}};
  }
  if (draft.from_anchor) json["sample_from_anchor"] = true;
  if (draft.markov_rank > 0) json["markov_rank"] = draft.markov_rank;
  return json;
}

/// How many MTP heads a target has, or why those that its config names cannot be used.
ordered_json mtp_heads_of(const Checkpoint& files, const TransformerConfig& model) {
  if (!files.has_weights() || (model.mtp_heads == 0 && !has_mtp_heads(files))) return model.mtp_heads;
  try {
    return read_mtp_config(files).heads.size();
  } catch (const Error& error) {
    return error.what();
  }
}

/// How a folder is quantized, what its matrices become, and what that costs; reads weights.
ordered_json quantization_json(const Checkpoint& files, const FolderQuantization& quantization) {
  const UnpackingError error = measure_unpacking(files);
  ordered_json json = {{"scheme", quantization.scheme}, {"matrices", error.matrices}};
  if (!quantization.activations.empty()) json["activations"] = quantization.activations;
  if (quantization.ignored > 0) json["ignored_scales"] = quantization.ignored;
  json["error_max"] = error.max;
  json["error_rms"] = error.rms;
  json["values_compared"] = error.values;
  return json;
}

/// What --lora changes, and what that costs where matrices are in quantization blocks.
ordered_json adapters_json(const Checkpoint& files) {
  ordered_json list = ordered_json::array();
  for (const MergedAdapter& adapter : files.adapters()) {
    list.push_back({{"path", adapter.source.path.string()},
                    {"scale", adapter.source.scale},
                    {"changed_matrices", adapter.matrices},
                    {"replaced_tensors", adapter.replaced},
                    {"matrices_that_become_bf16", adapter.widened},
                    {"bytes_more", adapter.bytes_more}});
  }
  return list;
}

/// Of a target without weights, those that its config means; of a draft without weights 0.
std::uint64_t parameters_of(const Checkpoint& files) {
  if (!files.has_weights()) {
    return checkpoint_kind(files.config()) == target_checkpoint ? parameters_by_config(files) : 0;
  }
  std::uint64_t parameters = 0;
  for (const auto& [name, tensor] : files.tensors()) {
    std::uint64_t count = 1;
    for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
    parameters += count;
  }
  return parameters;
}

/// `kv`: the format of keys and values.
ordered_json checkpoint_json(const Checkpoint& files, KvFormat kv, const std::string& tokenizer_why_not) {
  const Json& config = files.config();
  const TransformerConfig t = describe(config);
  const Layers layers(t, kv);
  const CheckpointKind& kind = checkpoint_kind(config);
  ordered_json json = {
      {"path", files.path().string()},
      {"kind", kind.name},
      {"architecture", name_of(config)},
      {"weights", files.has_weights()},
      {"layers", t.depth()},
      {"sliding_layers", layers.sliding},
      {"recurrent_layers", layers.recurrent + layers.convolving},
      {"caches", layers.kinds(kind.lender)},
      {"features", features_of(t)},
      {"mtp_heads", mtp_heads_of(files, t)},
      {"hidden", t.hidden == 0 ? ordered_json() : ordered_json(t.hidden)},  // left to the target
      {"heads", layers.attention.heads},
      {"kv_heads", layers.attention.kv_heads},
      {"head_dim", layers.attention.head_dim},
      {"intermediate", std::ranges::max(t.layers, {}, &LayerConfig::intermediate).intermediate},
      {"experts", layers.experts},
      {"vocabulary", t.vocabulary == 1 ? ordered_json() : ordered_json(t.vocabulary)},  // left to the target
      {"context", t.context},
      {"parameters", parameters_of(files)},
      {"tensors", files.tensors().size()},
      {"weight_bytes", files.bytes()},
      {"cache_bytes_per_position", layers.bytes_per_position},
      {"cache_state_bytes", layers.state_bytes},
      {"tokenizer", tokenizer_why_not.empty()},
      {"tokenizer_why_not", tokenizer_why_not},
      {"stop_tokens", read_stop_tokens(files)},
  };
  if (!files.has_weights()) {
    for (const char* const of_weights : {"tensors", "weight_bytes"}) json.erase(of_weights);
    if (kind != target_checkpoint) json.erase("parameters");
  }
  return json;
}

/// "864 bytes", "1.2 MiB".
std::string bytes_text(std::uint64_t bytes) {
  constexpr std::pair<const char*, int> units[] = {{"GiB", 30}, {"MiB", 20}, {"KiB", 10}};
  for (const auto& [unit, shift] : units) {
    const std::uint64_t size = std::uint64_t{1} << shift;
    if (bytes >= 10 * size || (bytes >= size && shift > 10)) {
      return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(size), unit);
    }
  }
  return fmt::format("{} bytes", bytes);
}

/// A value in words: "yes", "2044, 2046", "keys and values: 6". `bytes`: numbers are of bytes.
std::string shown(const ordered_json& value, bool bytes) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "that of the target";
  if (value.is_number_unsigned() && bytes) return bytes_text(value.get<std::uint64_t>());
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, part] : value.items()) {
    const std::string name = value.is_object() ? key + ": " : "";
    const std::string inside = shown(part, bytes && key != "positions");
    text += (text.empty() ? "" : ", ") + name + (part.is_structured() ? "(" + inside + ")" : inside);
  }
  return text.empty() ? "none" : text;
}

Exit inspect(const InspectOptions& options) {
  ordered_json json = {{"command", "inspect"}};
  if (!options.path.empty()) {
    const std::filesystem::path path = here_or_in_hub_cache(options.path);
    ModelFiles files(
        with_adapters(is_config_alone(path) ? Checkpoint::of_config(path) : Checkpoint(path), options.load_options));
    const int context = describe(files.target().config()).context;
    const ReadTokenizer read = read_tokenizer(files.target());
    const std::uint64_t process = resident_bytes();
    json["checkpoint"] = checkpoint_json(files.target(), layout_of(options.load_options).kv, read.why_not);
    if (const FolderQuantization* const quantization = files.target().quantization()) {
      json["quantization"] = quantization_json(files.target(), *quantization);
    }
    if (!files.target().adapters().empty()) json["adapters"] = adapters_json(files.target());
    json["memory_bytes"] = memory_json(files, options, options.context > 0 ? options.context : context);
    json["memory_bytes"]["process"] = process;
    json["memory_bytes_by_type"] = memory_by_type_json(files, options, context);
    if (options.ranks > 1) {
      json["memory_bytes_by_rank"] =
          memory_by_rank_json(files, options, options.context > 0 ? options.context : context);
    }
    if (!options.target.empty()) {
      const auto target = load_model(Checkpoint(options.target), best_kernels());
      json["fits"] = options.target;
      json.update(draft_json(files.target(), *target));
    }
  }
  json["kernels"] = kernels_json();
  if (options.json) {
    fmt::print("{}", dumped(json));
    return Exit::pass;
  }
  if (json.contains("checkpoint")) {
    if (json["checkpoint"]["weights"] == false) fmt::print("no weights are here: this is what the config says\n");
    const auto print = [](const std::string& name, const ordered_json& value) {
      if (value != "") fmt::print("{:<34} {}\n", name, shown(value, name.find("bytes") != std::string::npos));
    };
    for (const auto& [key, value] : json["checkpoint"].items()) print(key, value);
    for (const auto& [key, value] : json.items()) {
      if (key == "memory_bytes") {
        for (const auto& [part, need] : value.items()) print(part == "positions" ? part : "bytes of " + part, need);
      } else if (key == "memory_bytes_by_type") {
        for (const auto& [type, totals] : value.items()) {
          for (const auto& [positions, need] : totals.items()) {
            print(fmt::format("bytes, {}, {} positions", type == "none" ? "as stored" : type, positions), need);
          }
        }
      } else if (key == "memory_bytes_by_rank") {
        for (const auto& [rank, need] : value.items()) print("bytes of rank " + rank, need);
      } else if (key != "command" && key != "checkpoint" && key != "kernels") {
        print(key, value);
      }
    }
    fmt::print("\n");
  }
  for (const auto& row : json["kernels"]) {
    fmt::print("kernels {:<9} {:<10} {}{}{}\n", row["name"].get<std::string>(), row["numerics"].get<std::string>(),
               row["usable"].get<bool>() ? "usable" : "not usable: " + row["why_not"].get<std::string>(),
               row["default"].get<bool>() ? ", the default here" : "",
               row.contains("core") ? ", core type " + row["core"].get<std::string>() : "");
  }
  return Exit::pass;
}

}  // namespace

void add_inspect(Command& app) {
  auto options = std::make_shared<InspectOptions>();
  Command& command = app.subcommand("inspect", "describe a checkpoint and the kernels this machine can run");
  command.option("path,-m,--model MODEL", options->path,
                 "a target or a draft: a folder, a .gguf file, or a config.json alone; without it only the kernels are "
                 "listed");
  command.option("--target MODEL", options->target, "the target model that a draft of its features must fit");
  command.option("--draft DRAFT", options->draft, "count the memory of decoding with this draft").show_default();
  command.option("--context", options->context, "positions to count memory for; the model's maximum when left out")
      .range(1, std::numeric_limits<int>::max());
  command.option("--ranks", options->ranks, "count the memory of each of so many processes (docs/scale.md)")
      .range(1, ranks_max);
  add_layout_options(command, options->load_options);  // memory is counted for a model loaded this way
  command.group("Output");
  command.flag("--json", options->json, "print JSON");
  command.action([options] { return inspect(*options); });
}

}  // namespace draftproof
