// SPDX-License-Identifier: MIT
#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <variant>

#include "kernels/math64.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/formats/gguf/transformer.h"
#include "ref/formats/printable.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/models.h"
#include "ref/models/mtp.h"
#include "ref/models/rope.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"
#include "tools/convert/gguf_model.h"

namespace draftproof {
namespace {

/// A tensor, read as floats row by row.
struct FloatRows {
  int outputs;
  int inputs;
  std::function<void(int row, float* to)> read;
};

FloatRows rows_of(const Checkpoint& from, const std::string& name) {
  const WeightSource source = from.weight(name, from.tensors().at(name).shape);
  return {source.outputs, source.inputs, [source](int row, float* to) {
            std::vector<std::byte> stored(source.bytes_per_row());
            source.read(row, 1, stored.data());
            dequantize_row(source.format, stored.data(), source.inputs, to);
          }};
}

/// The rows of parts of one shape, one part behind the other.
FloatRows joined_rows(std::vector<FloatRows> parts) {
  const int each = parts[0].outputs;
  const int inputs = parts[0].inputs;
  const int all = each * static_cast<int>(parts.size());
  return {all, inputs, [parts = std::move(parts), each](int row, float* to) {
            parts[static_cast<std::size_t>(row / each)].read(row % each, to);
          }};
}

/// Row r of the result is row from_row(r).
FloatRows reordered(FloatRows rows, std::function<int(int)> from_row) {
  auto read = [read = std::move(rows.read), from_row = std::move(from_row)](int row, float* to) {
    read(from_row(row), to);
  };
  return {rows.outputs, rows.inputs, std::move(read)};
}

FloatRows computed(FloatRows rows, std::function<float(float)> value) {
  auto read = [read = std::move(rows.read), value = std::move(value), width = rows.inputs](int row, float* to) {
    read(row, to);
    std::transform(to, to + width, to, value);
  };
  return {rows.outputs, rows.inputs, std::move(read)};
}

/// Value i of each row of the result is value from_value(i).
FloatRows columns_reordered(FloatRows rows, std::function<int(int)> from_value) {
  const int width = rows.inputs;
  auto read = [read = std::move(rows.read), from_value = std::move(from_value), width](int row, float* to) {
    std::vector<float> values(static_cast<std::size_t>(width));
    read(row, values.data());
    for (int i = 0; i < width; ++i) to[i] = values[static_cast<std::size_t>(from_value(i))];
  };
  return {rows.outputs, width, std::move(read)};
}

/// Where row (or value) i of value heads of `width` each comes from, when head h of the result belongs to key head
/// h % key_heads; `before` of them come first and stay.
std::function<int(int)> dealt(const DeltaShape& shape, int width, int before = 0) {
  const int group = shape.value_heads / shape.key_heads;
  return [=](int i) {
    if (i < before) return i;
    const int head = (i - before) / width;
    const int from = head % shape.key_heads * group + head / shape.key_heads;
    return before + from * width + (i - before) % width;
  };
}

WeightSource written_as(Format format, FloatRows rows, const std::string& where) {
  const std::size_t bytes = row_bytes(format, rows.inputs);
  const auto write_row = [rows, format, bytes, where](int row, std::byte* to) {
    std::vector<float> values(static_cast<std::size_t>(rows.inputs));
    rows.read(row, values.data());
    quantize_row(format, values.data(), rows.inputs, to);
    if (first_not_finite(format, to, values.size()) != values.size()) {
      throw Error(where + " has values too large for " + traits(format).name + "; choose another --type");
    }
  };
  return {format, rows.outputs, rows.inputs, [write_row, bytes, width = rows.inputs](int first, int count, void* to) {
            std::mutex mutex;
            std::exception_ptr failure;  // ranges must not throw
            for_rows(count, 20.0 * count * width, [&](int begin, int end) {
              try {
                for (int row = begin; row < end; ++row) {
                  write_row(first + row, static_cast<std::byte*>(to) + bytes * static_cast<std::size_t>(row));
                }
              } catch (...) {
                const std::lock_guard lock(mutex);
                failure = std::current_exception();
              }
            });
            if (failure) std::rethrow_exception(failure);
          }};
}

bool is_few_bits(Format format) { return !is_float(format) && traits(format).code_bits < 6; }

/// Collects the tensors of one file.
class Tensors {
 public:
  Tensors(const Checkpoint& from, const GgufFamily& family, Format type)
      : from_(from),
        family_(family),
        type_(type),
        config_(checkpoint_kind(from.config()) == dflash_checkpoint ? read_transformer_config(from.config())
                                                                    : describe(from.config())),
        prefix_(from.has("model.fc.weight") ? "model." : ""),
        layers_(from.has(prefix_ + "midlayer.hidden_norm.weight") ? "midlayer." : "") {
    add_rope();
    add_all(family.names.whole, "", "");
    for (int i = 0; i < config_.depth(); ++i) {
      layer_ = &config_.layers[static_cast<std::size_t>(i)];
      const std::string number = std::to_string(i) + ".";
      add_all(family.names.layer, layers_.empty() ? family.names.layers + number : layers_, "blk." + number);
    }
    const CheckpointKind& kind = checkpoint_kind(from.config());
    if (kind == eagle3_checkpoint) add_draft_vocabulary(describe_eagle3(from.config()).draft_vocabulary);
    if (kind == dflash_checkpoint) add_draft_vocabulary(describe_dflash(from.config()).draft_vocabulary);
    if (keeps_mtp_heads(family.names) && has_mtp_heads(from)) add_heads(read_mtp_config(from));
    if (result_.empty()) throw Error(from.path().string() + ": has no tensor of the model that its config describes");
    refuse_others();
  }

  std::vector<GgufTensor> take() { return std::move(result_); }

 private:
  /// Adds the tensors of these names that the checkpoint has; of several spellings in a GGUF the first.
  void add_all(std::span<const GgufName> rows, const std::string& before, const std::string& gguf_before) {
    const auto wanted = [&](const std::string& name) {
      return from_.has(name) && !(before.empty() && is_unused(name));
    };
    for (const GgufName& row : rows) {
      const bool of_vocabulary = row.hugging_face == std::string_view("lm_head");  // it has no prefix
      const std::string name = (of_vocabulary ? std::string() : prefix_) + before + row.hugging_face;
      if (is_of_experts(row)) {
        add_experts(row, before, gguf_before);
      } else if (is_shared_mlp(row, prefix_ + before)) {
        add_shared_mlp(row, prefix_ + before, gguf_before);
      } else if (is_joined_projection(row, name)) {
        add_projection(row, name, gguf_before);
      } else if (is_latent_matrix(row, prefix_ + before)) {
        add_latent_matrix(row, prefix_ + before, gguf_before);
      } else if (from_.has(name + ".0.weight")) {
        add_list(row, name, gguf_before);
      } else if (is_unread(row, name)) {
        add_unread(row, gguf_before);
      } else if (row.hugging_face == std::string_view("d2t")) {
        continue;  // add_draft_vocabulary
      } else if (row.whole) {
        if (wanted(name)) add(row, name, gguf_before + row.gguf);
      } else {
        for (const char* ending : {".weight", ".bias"}) {
          if (wanted(name + ending)) add(row, name + ending, gguf_before + row.gguf + ending);
        }
      }
    }
  }

  /// llama.cpp asks for keys and values of all layers of Gemma 3n, also where it reads those of another layer. Newer
  /// folders do not have them; they get the ones of that layer.
  bool is_unread(const GgufName& row, const std::string& name) const {
    const auto* const attention = layer_ == nullptr ? nullptr : std::get_if<AttentionLayer>(&layer_->mixer);
    const bool shared = attention != nullptr && attention->donor != AttentionLayer::own;
    const std::string_view part = row.hugging_face;
    return shared && &family_ == &gguf_gemma3n && !from_.has(name + ".weight") &&
           (part == "self_attn.k_proj" || part == "self_attn.v_proj" || part == "self_attn.k_norm");
  }

  void add_unread(const GgufName& row, const std::string& gguf_before) {
    const std::string donor = std::to_string(std::get<AttentionLayer>(layer_->mixer).donor);
    const std::string name = family_.names.layers + donor + "." + row.hugging_face + ".weight";
    if (!from_.has(name)) throw Error(from_.path().string() + ": has no tensor " + in_quotes(name));
    FloatRows rows = rows_of(from_, name);
    const Format format = rows.outputs == 1 ? Format::f32 : format_of(rows.inputs, false);
    put(gguf_before + row.gguf + ".weight", format, std::move(rows), 1, name);
  }

  /// One tensor of those that a folder numbers.
  void add_list(const GgufName& row, const std::string& name, const std::string& gguf_before) {
    std::vector<FloatRows> parts;
    for (std::string part = name + ".0.weight"; from_.has(part);
         part = name + "." + std::to_string(parts.size()) + ".weight") {
      used_.insert(part);
      parts.push_back(rows_of(from_, part));
      require_shape_of(parts[0], parts.back(), part);
    }
    const auto count = static_cast<int>(parts.size());
    FloatRows all = joined_rows(std::move(parts));
    const Format format = format_of(all.inputs, false);
    put(gguf_before + row.gguf + ".weight", format, std::move(all), count, name + ".0.weight");
  }

  /// The blocks behind the layers. Heads with the names of Qwen3.5 share some tensors, of which each block gets one.
  /// The experts of Nemotron-H's head, a layer of their own, go into the block of its attention.
  void add_heads(const MtpConfig& heads) {
    for (std::size_t i = 0; i < heads.heads.size(); ++i) {
      const MtpNames& head = heads.heads[i];
      const std::string block = "blk." + std::to_string(config_.depth() + static_cast<int>(i)) + ".";
      layer_ = &heads.transformer.layers[i];
      LayerConfig without_experts;
      for (const auto& [gguf, name] : {std::pair("nextn.eh_proj", head.projection),
                                       {"nextn.enorm", head.embedding_norm},
                                       {"nextn.hnorm", head.hidden_norm},
                                       {"nextn.shared_head_norm", head.norm},
                                       {"nextn.embed_tokens", head.embedding},
                                       {"nextn.shared_head_head", head.lm_head}}) {
        if (name.empty()) continue;
        used_.insert(name);
        FloatRows rows = rows_of(from_, name);
        const bool norm = rows.outputs == 1;
        if (norm) rows = with_norm_offset(std::move(rows));
        const bool table = name == head.embedding || name == head.lm_head;
        put(block + gguf + ".weight", norm ? Format::f32 : format_of(rows.inputs, table), std::move(rows), 1, name);
      }
      for (const char* table : {"embed_tokens.weight", "shared_head.head.weight"}) {
        used_.insert(head.block + table);  // else it is the model's
      }
      if (!head.experts.empty()) {
        const std::string norm = head.experts + "norm.weight";
        used_.insert(norm);
        put(block + "post_attention_norm.weight", Format::f32, rows_of(from_, norm), 1, norm);
        add_all(family_.names.layer, head.experts, block);
        without_experts = *layer_;
        without_experts.experts = {};
        layer_ = &without_experts;
      }
      add_all(family_.names.layer, head.block, block);
    }
    layer_ = nullptr;
  }

  /// The target's tokens that the draft knows. What says the same in another form is left out, and what only training
  /// needs.
  void add_draft_vocabulary(int draft_vocabulary) {
    for (const auto& [name, tensor] : from_.tensors()) {
      if (name == "t2d" || name.starts_with("verifier_")) used_.insert(name);
    }
    if (!used_.insert("d2t").second || !from_.has("d2t")) return;
    const auto tokens = read_draft_vocabulary(from_, draft_vocabulary, config_.vocabulary);
    result_.push_back({.name = "d2t", .integers = {tokens.begin(), tokens.end()}});
  }

  void add(const GgufName& row, const std::string& name, const std::string& gguf) {
    if (!used_.insert(name).second) return;
    if (is_tied_head(name)) return;
    const std::vector<std::int64_t>& shape = from_.tensors().at(name).shape;
    const bool convolution = name.ends_with("conv1d.weight") || name.ends_with(".conv.weight");
    const bool kernel = name.ends_with("_conv.base_kernel");
    const bool small = shape.size() == 1 || convolution || kernel || name.ends_with(".A_log") ||
                       gguf.find("ffn_gate_inp") != std::string::npos;
    const bool of_channels = name.ends_with("_conv1d.weight");  // of Kimi Linear, a matrix for each
    const int matrices = of_channels || (shape.size() == 3 && !convolution) ? static_cast<int>(shape[0]) : 1;
    FloatRows rows = with_factors(row, stored(row, name));
    put(gguf, small ? Format::f32 : format_of(rows.inputs, is_table(name)), std::move(rows), matrices, name);
  }

  void put(const std::string& gguf, Format format, FloatRows rows, int matrices, const std::string& name) {
    const std::string where = from_.path().string() + ": tensor " + in_quotes(from_.name_in_file(name));
    result_.push_back({gguf, written_as(format, std::move(rows), where), matrices});
  }

  FloatRows with_factors(const GgufName& row, FloatRows rows) const {
    if (family_.factor == nullptr) return rows;
    auto read = [factor = family_.factor, config = from_.config(), name = row.hugging_face, all = std::move(rows.read),
                 width = rows.inputs](int r, float* to) {
      all(r, to);
      const auto by = static_cast<float>(factor(config, name, r));
      for (int i = 0; i < width; ++i) to[i] *= by;
    };
    return {rows.outputs, rows.inputs, std::move(read)};
  }

  bool is_tied_head(const std::string& name) const {
    if (family_.factor != nullptr) return false;  // both may have factors of their own
    return name == "lm_head.weight" &&
           (from_.same(name, "model.embed_tokens.weight") || from_.same(name, "model.embeddings.weight"));
  }

  bool is_unused(const std::string& name) const {
    return std::ranges::any_of(config_.unused, [&](const std::string& part) { return name.starts_with(part); });
  }

  static bool is_table(const std::string& name) {
    return name == "lm_head.weight" || name.starts_with("model.embed_tokens") || name == "model.embeddings.weight" ||
           name == "embed_tokens.weight";
  }

  Format format_of(int inputs, bool table) const {
    const auto fits = [inputs](Format format) { return inputs % traits(format).block_inputs == 0; };
    const Format wanted = table && is_few_bits(type_) ? Format::q6_k : type_;
    if (fits(wanted)) return wanted;
    return fits(Format::q8_0) ? Format::q8_0 : Format::f32;
  }

  /// The tensor in the order, and with the values, that a GGUF has.
  FloatRows stored(const GgufName& row, const std::string& name) const {
    FloatRows rows = rows_of(from_, name);
    if (family_.names.pairs_rows && row.in_heads) return in_pairs(std::move(rows));
    const auto* const recurrent = layer_ == nullptr ? nullptr : std::get_if<RecurrentShape>(&layer_->mixer);
    if (recurrent != nullptr && recurrent->delta.channel_decays && name.ends_with(".A_log")) {
      const int heads = recurrent->delta.value_heads;
      return with_rates(name, rows.outputs == heads ? std::move(rows) : in_parts(std::move(rows), heads));
    }
    if (recurrent != nullptr && name.find(".linear_attn.") != std::string::npos) {
      return family_.deals_heads ? stored_recurrent(*recurrent, name, std::move(rows))
                                 : with_rates(name, std::move(rows));
    }
    if (layer_ != nullptr && std::holds_alternative<SelectiveScanShape>(layer_->mixer)) {
      return with_rates(name, std::move(rows));
    }
    const StateSpaceShape* const space = layer_ == nullptr ? nullptr : find_state_space(*layer_);
    const bool of_space = name.find(".mixer.") != std::string::npos || name.find(".mamba.") != std::string::npos;
    if (space != nullptr && of_space) return stored_state_space(*space, name, std::move(rows));
    if (name == "model.embed_tokens_per_layer.weight") return of_all_tokens(std::move(rows));
    return name.ends_with("norm.weight") ? with_norm_offset(std::move(rows)) : rows;
  }

  /// Tokens behind the table of Gemma 3n have its first row.
  FloatRows of_all_tokens(FloatRows rows) const {
    const int known = rows.outputs;
    if (known >= config_.vocabulary) return rows;
    rows = reordered(std::move(rows), [known](int token) { return token < known ? token : 0; });
    rows.outputs = config_.vocabulary;
    return rows;
  }

  static FloatRows stored_state_space(const StateSpaceShape& shape, const std::string& name, FloatRows rows) {
    if (name.ends_with(".A_log") || name.ends_with(".D")) {
      return in_parts(with_rates(name, std::move(rows)), shape.heads);
    }
    return name.ends_with(".norm.weight") ? in_parts(std::move(rows), shape.groups) : rows;
  }

  /// A vector as a matrix of so many rows.
  static FloatRows in_parts(FloatRows rows, int parts) {
    const int width = rows.inputs / parts;
    return {parts, width, [whole = std::move(rows), width](int part, float* to) {
              std::vector<float> values(static_cast<std::size_t>(whole.inputs));
              whole.read(0, values.data());
              std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(part) * width, width, to);
            }};
  }

  FloatRows with_norm_offset(FloatRows rows) const {
    if (config_.norm_offset == 0) return rows;
    return computed(std::move(rows), [offset = config_.norm_offset](float weight) { return weight + offset; });
  }

  /// Row 2j + part of a head is its row part * (rows / 2) + j; of a bias these are values.
  FloatRows in_pairs(FloatRows rows) const {
    const int head = std::get<AttentionLayer>(layer_->mixer).shape.head_dim;
    const auto from_row = [head](int row) { return row / head * head + row % 2 * (head / 2) + row % head / 2; };
    if (rows.outputs == 1) return columns_reordered(std::move(rows), from_row);
    return reordered(std::move(rows), from_row);
  }

  static FloatRows with_rates(const std::string& name, FloatRows rows) {
    if (!name.ends_with(".A_log")) return rows;
    return computed(std::move(rows), [](float a_log) { return static_cast<float>(-exp64(a_log)); });
  }

  static FloatRows stored_recurrent(const RecurrentShape& shape, const std::string& name, FloatRows rows) {
    const DeltaShape& delta = shape.delta;
    const int dim = delta.value_dim;
    const int before = 2 * shape.key_floats();  // q and k
    const auto of = [&](const char* part) { return name.ends_with(std::string(".") + part); };
    if (of("norm.weight")) return rows;
    if (of("in_proj_qkv.weight") || of("conv1d.weight")) return reordered(std::move(rows), dealt(delta, dim, before));
    if (of("in_proj_z.weight")) return reordered(std::move(rows), dealt(delta, dim));
    if (of("out_proj.weight")) return columns_reordered(std::move(rows), dealt(delta, dim));
    rows = with_rates(name, std::move(rows));
    if (of("A_log") || of("dt_bias")) return columns_reordered(std::move(rows), dealt(delta, 1));
    return reordered(std::move(rows), dealt(delta, 1));  // one row per head: b and a
  }

  /// Qwen3-Next's q, k and v, or z, which its folders have in one tensor.
  bool is_joined_projection(const GgufName& row, const std::string& name) const {
    const std::string_view part = row.hugging_face;
    return (part == "linear_attn.in_proj_qkv" || part == "linear_attn.in_proj_z" ||
            part == "linear_attn.in_proj_qkvz") &&
           from_.has(joined_projection(name));
  }
  static std::string joined_projection(const std::string& name) {
    return name.substr(0, name.rfind('_') + 1) + "qkvz.weight";
  }

  /// The rows of q, k, v and z of each key head follow each other.
  void add_projection(const GgufName& row, const std::string& name, const std::string& gguf_before) {
    const std::string joined = joined_projection(name);
    if (name + ".weight" == joined) return;  // both of its parts have names of their own
    used_.insert(joined);
    const auto& shape = std::get<RecurrentShape>(layer_->mixer);
    const int key = shape.delta.key_dim;
    const int values = shape.value_floats() / shape.delta.key_heads;
    const int each = 2 * key + 2 * values;
    const auto of_heads = [=](int r, int before, int count) { return r / count * each + before + r % count; };
    const int keys = shape.key_floats();
    const bool z = name.ends_with("_z");
    FloatRows rows = reordered(rows_of(from_, joined), [=](int r) {
      if (z) return of_heads(r, 2 * key + values, values);
      if (r < 2 * keys) return of_heads(r % keys, r < keys ? 0 : key, key);
      return of_heads(r - 2 * keys, 2 * key, values);
    });
    rows.outputs = z ? shape.value_floats() : shape.channels();
    put(gguf_before + row.gguf + ".weight", format_of(rows.inputs, false), std::move(rows), 1, joined);
  }

  /// Granite's MLP beside experts, or alone, whose gate and up are one tensor in a folder.
  bool is_shared_mlp(const GgufName& row, const std::string& before) const {
    return std::string_view(row.hugging_face).starts_with("shared_mlp.") &&
           from_.has(before + "shared_mlp.input_linear.weight");
  }

  void add_shared_mlp(const GgufName& row, const std::string& before, const std::string& gguf_before) {
    const bool beside_experts = std::string_view(row.gguf).ends_with("_shexp");
    if (beside_experts != (layer_->experts.count > 0)) return;
    const std::string_view part = row.hugging_face;
    const bool down = part.ends_with("down_proj");
    const std::string name = before + (down ? "shared_mlp.output_linear.weight" : "shared_mlp.input_linear.weight");
    used_.insert(name);
    FloatRows rows = rows_of(from_, name);
    if (!down) {
      const int half = rows.outputs / 2;
      const int first = part.ends_with("up_proj") ? half : 0;
      rows = reordered(std::move(rows), [first](int r) { return first + r; });
      rows.outputs = half;
    }
    const Format format = format_of(rows.inputs, false);
    put(gguf_before + row.gguf + ".weight", format, std::move(rows), 1, name);
  }

  /// Whether a tensor is made of those of all experts. Gemma 4, whose experts are in no block, has them as its folder.
  static bool is_of_experts(const GgufName& row) {
    return std::string_view(row.gguf).ends_with("_exps") && !std::string_view(row.hugging_face).starts_with("experts.");
  }
  static bool is_down(const GgufName& row) { return std::string_view(row.gguf).starts_with("ffn_down"); }
  static bool is_up(const GgufName& row) { return std::string_view(row.gguf).starts_with("ffn_up"); }

  /// One tensor of all experts: from one tensor for each, or from one of all with gate and up joined; and their biases.
  void add_experts(const GgufName& row, const std::string& before, const std::string& gguf_before) {
    const int count = layer_->experts.count;
    if (count == 0) return;
    const std::string bare = before + (is_down(row) ? family_.names.fused.down : family_.names.fused.gate_up);
    const std::string joined = from_.has(bare) ? bare : bare + ".weight";
    const std::string bias = bare + "_bias";
    const bool fused = from_.has(joined);
    if (fused) used_.insert(joined);
    FloatRows all = fused ? fused_rows(row, joined) : separate_rows(before + row.hugging_face, count);
    const Format format = format_of(all.inputs, false);
    put(gguf_before + row.gguf + ".weight", format, std::move(all), count, joined);
    if (!from_.has(bias)) return;
    used_.insert(bias);
    put(gguf_before + row.gguf + ".bias", Format::f32, fused_biases(row, bias), 1, bias);
  }

  /// Parts of one tensor have one shape.
  void require_shape_of(const FloatRows& first, const FloatRows& other, const std::string& name) const {
    if (other.outputs == first.outputs && other.inputs == first.inputs) return;
    throw Error(from_.path().string() + ": tensor " + in_quotes(from_.name_in_file(name)) +
                " must have the shape of the others of its kind");
  }

  /// Those of "x.0.part.weight", "x.1.part.weight", ...; `name` is "x.part".
  FloatRows separate_rows(const std::string& name, int count) {
    const std::size_t part = name.rfind('.') + 1;
    std::vector<FloatRows> each;
    for (int id = 0; id < count; ++id) {
      const std::string own = name.substr(0, part) + std::to_string(id) + "." + name.substr(part) + ".weight";
      if (!from_.has(own)) throw Error(from_.path().string() + ": has no tensor " + from_.name_in_file(own));
      used_.insert(own);
      each.push_back(rows_of(from_, own));
      require_shape_of(each.front(), each.back(), own);
    }
    return joined_rows(std::move(each));
  }

  /// Gates, ups or what is projected down, of a tensor [experts][..][..].
  FloatRows fused_rows(const GgufName& row, const std::string& name) const {
    const GgufFusedExperts& fused = family_.names.fused;
    const std::vector<std::int64_t>& shape = from_.tensors().at(name).shape;
    if (shape.size() != 3 || shape[0] != layer_->experts.count) {
      throw Error(from_.path().string() + ": tensor " + in_quotes(from_.name_in_file(name)) + " has shape " +
                  shown(shape) + ", which is not that of " + std::to_string(layer_->experts.count) + " experts");
    }
    const bool transposed = fused.transposed && !name.ends_with(".weight");
    const auto stored_rows = static_cast<int>(shape[transposed ? 2 : 1]);
    const auto inputs = static_cast<int>(shape[transposed ? 1 : 2]);
    const int rows = is_down(row) ? stored_rows : stored_rows / 2;
    const int step = !is_down(row) && fused.interleaved ? 2 : 1;
    const int first = !is_up(row) ? 0 : fused.interleaved ? 1 : rows;
    return matrices_of(name, static_cast<int>(shape[0]), inputs, [=](int expert) {
      return NamedMatrix{name, rows, expert * stored_rows + first, shape, step, transposed};
    });
  }

  /// The rows of `count` matrices of a tensor, one behind the other.
  FloatRows matrices_of(const std::string& name, int count, int inputs,
                        const std::function<NamedMatrix(int number)>& matrix_of) const {
    /// The matrix whose rows are read: those of one that is transposed are put together once.
    struct Current {
      std::mutex mutex;
      int number = -1;
      WeightSource rows;
    };
    const auto current = std::make_shared<Current>();
    const WeightSource tensor = from_.weight(name, from_.tensors().at(name).shape);
    const int rows = matrix_of(0).outputs;
    return {rows * count, inputs, [=](int row_of_all, float* to) {
              WeightSource source;
              {
                const std::lock_guard lock(current->mutex);
                if (const int number = row_of_all / rows; current->number != number) {
                  current->rows = draftproof::rows_of(tensor, matrix_of(number), inputs);
                  current->number = number;
                }
                source = current->rows;
              }
              std::vector<std::byte> stored(source.bytes_per_row());
              source.read(row_of_all % rows, 1, stored.data());
              dequantize_row(source.format, stored.data(), inputs, to);
            }};
  }

  /// The keys' or values' matrices of the heads of latent attention, which a folder has in one tensor.
  bool is_latent_matrix(const GgufName& row, const std::string& before) const {
    const std::string_view part = row.hugging_face;
    return (part == "self_attn.k_b_proj" || part == "self_attn.v_b_proj") &&
           from_.has(before + "self_attn.kv_b_proj.weight");
  }

  void add_latent_matrix(const GgufName& row, const std::string& before, const std::string& gguf_before) {
    const std::string name = before + "self_attn.kv_b_proj.weight";
    used_.insert(name);
    const auto& layer = std::get<AttentionLayer>(layer_->mixer);
    const int unturned = layer.latent->unturned;
    const int value = layer.latent->value;
    const int rank = layer.shape.latent;
    const std::vector<std::int64_t> shape = {layer.shape.heads * (unturned + value), rank};
    const bool of_keys = std::string_view(row.hugging_face).ends_with("k_b_proj");
    FloatRows rows = matrices_of(name, layer.shape.heads, of_keys ? unturned : rank, [=](int head) {
      const int first = head * (unturned + value);
      return of_keys ? NamedMatrix{name, rank, 0, shape, 1, true, first}
                     : NamedMatrix{name, value, first + unturned, shape};
    });
    put(gguf_before + row.gguf + ".weight", format_of(rows.inputs, false), std::move(rows), layer.shape.heads, name);
  }

  FloatRows fused_biases(const GgufName& row, const std::string& name) const {
    FloatRows rows = rows_of(from_, name);
    if (is_down(row)) return rows;
    const bool interleaved = family_.names.fused.interleaved;
    const int half = rows.inputs / 2;
    const int up = is_up(row) ? 1 : 0;
    FloatRows part = columns_reordered(std::move(rows), [=](int i) {
      return i >= half ? i : interleaved ? 2 * i + up : up * half + i;
    });
    return {part.outputs, half, [read = std::move(part.read), half](int r, float* to) {
              std::vector<float> values(2 * static_cast<std::size_t>(half));
              read(r, values.data());
              std::copy_n(values.begin(), half, to);
            }};
  }

  /// What the frequencies are divided by; a pair that does not turn has a number so large that it hardly does.
  void add_rope() {
    if (config_.ropes.empty()) return;
    const Rope& rope = config_.ropes[0];
    if (rope.kind == "longrope") {
      const Json block = rope_block(from_.config());
      for (const auto& [tensor, field] :
           {std::pair("rope_factors_long.weight", "long_factor"), {"rope_factors_short.weight", "short_factor"}}) {
        const Json factors = block.at(field);
        const auto read = [factors](int, float* to) {
          for (std::size_t j = 0; j < factors.size(); ++j) to[j] = static_cast<float>(factors[j].number());
        };
        put(tensor, Format::f32, {1, rope.half(), read}, 1, tensor);
      }
      return;
    }
    if (rope.kind != "llama3" && rope.kind != "proportional") return;
    constexpr float hardly = 1e30F;
    const Rope plain = default_rope(rope.theta, 2 * rope.half());
    std::vector<float> divisors;
    for (std::size_t j = 0; j < rope.frequencies.size(); ++j) {
      divisors.push_back(rope.frequencies[j] == 0 ? hardly : plain.frequencies[j] / rope.frequencies[j]);
    }
    const FloatRows rows = {1, rope.half(), [divisors](int, float* to) { std::ranges::copy(divisors, to); }};
    put("rope_freqs.weight", Format::f32, rows, 1, "rope_freqs.weight");
  }

  void refuse_others() const {
    for (const auto& [name, tensor] : from_.tensors()) {
      if (used_.contains(name) || name.ends_with("rotary_emb.inv_freq") || is_tied_head(name)) continue;
      if (is_unused(name) || name.find(".mlp.act_fn.") != std::string::npos) continue;  // the latter are keys
      throw Error(from_.path().string() + ": tensor " + in_quotes(tensor.name) + " has no name in a GGUF of " +
                  family_.architecture);
    }
  }

  const Checkpoint& from_;
  const GgufFamily& family_;
  Format type_;
  TransformerConfig config_;
  std::string prefix_;
  std::string layers_;                  // how the only layer is called; empty: it has a number
  const LayerConfig* layer_ = nullptr;  // whose tensors are added
  std::set<std::string> used_;
  std::vector<GgufTensor> result_;
};

}  // namespace

std::vector<GgufTensor> gguf_tensors(const Checkpoint& from, const GgufFamily& family, Format type) {
  return Tensors(from, family, type).take();
}

}  // namespace draftproof
