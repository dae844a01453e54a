// SPDX-License-Identifier: MIT
#include "ref/models/latent_attention.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/threads.h"

namespace draftproof {
namespace {

/// The widths of what a layer computes.
struct LatentWidths {
  int heads;
  int latent;
  int turned;   // of a head's query and of the key
  int query;    // of a head
  int queries;  // of all heads
  int first;    // of the first projection of queries
  int in;
  int values;  // of all heads

  explicit LatentWidths(const AttentionLayer& layer) noexcept
      : heads(layer.shape.heads),
        latent(layer.shape.latent),
        turned(layer.shape.head_dim - latent),
        query(layer.latent->unturned + turned),
        queries(heads * query),
        first(layer.latent->q_rank > 0 ? layer.latent->q_rank : queries),
        in(first + latent + turned),
        values(heads * layer.latent->value) {}
};

void append(std::vector<float>& to, const std::vector<float>& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Copies what RoPE turns: pairs of neighbors, where they are `interleaved`, to half of it apart.
void copy_pairs(const float* from, int width, bool interleaved, float* to) {
  if (!interleaved) {
    std::copy_n(from, width, to);
    return;
  }
  for (int j = 0; j < width / 2; ++j) {
    to[j] = from[2 * j];
    to[width / 2 + j] = from[2 * j + 1];
  }
}

/// Rows of all heads: those of a head are `step` floats behind those of the one before.
struct HeadRows {
  const float* data;
  std::ptrdiff_t step;
  std::ptrdiff_t stride;
};

/// y = x . w^T for each head. The matrices are small, so a thread multiplies whole ones.
void multiply_heads(const TransformerPass& pass, const std::vector<PackedMatrix>& w, const HeadRows& x,
                    std::vector<PackedActivations>& scratch, float* y, std::ptrdiff_t y_step, std::ptrdiff_t y_stride) {
  const int heads = static_cast<int>(w.size());
  const int workers = threads();
  if (scratch.size() < static_cast<std::size_t>(workers)) scratch.resize(static_cast<std::size_t>(workers));
  for (PackedActivations& of_thread : scratch) of_thread.reserve(pass.kernels, w[0], pass.rows);
  const double work = 1.0 * pass.rows * heads * w[0].inputs() * w[0].outputs();
  parallel_ranges(heads, work, workers, [&](int begin, int end, int worker) {
    PackedActivations& packed = scratch[static_cast<std::size_t>(worker)];
    for (std::ptrdiff_t h = begin; h < end; ++h) {
      const PackedMatrix& of_head = w[static_cast<std::size_t>(h)];
      pack_activations(pass.kernels, of_head, x.data + h * x.step, x.stride, pass.rows, packed);
      matmul(pass.kernels, of_head, packed, y + h * y_step, y_stride);
    }
  });
}

/// scratch.in, normalized, and the queries of all heads, which the result points to.
struct LatentQueries {
  const float* data;
  std::ptrdiff_t stride;
};
LatentQueries project_in(const TransformerPass& pass, const AttentionLayer& layer, const LatentWeights& weights,
                         LatentScratch& scratch) {
  const LatentWidths w(layer);
  TransformerScratch& s = pass.scratch;
  const Kernels& kernels = pass.kernels;
  const float epsilon = layer.latent->epsilon;
  pack_activations(kernels, weights.in, s.normed.data(), pass.config.hidden, pass.rows, s.activations);
  matmul(kernels, weights.in, s.activations, scratch.in.data(), w.in);
  for_rows(pass.rows, 8.0 * pass.rows * w.in, [&](int begin, int end) {
    float* const rows = scratch.in.data() + std::ptrdiff_t{begin} * w.in;
    float* const latents = rows + w.first;
    const auto width = static_cast<std::ptrdiff_t>(weights.in_bias.size());
    for (int row = 0; row < end - begin && width > 0; ++row) {
      float* const biased = rows + std::ptrdiff_t{row} * w.in + w.in - width;
      kernels.add(weights.in_bias.data(), weights.in_bias.size(), biased);
    }
    if (!weights.q_norm.empty()) {
      kernels.rms_norm(rows, w.in, end - begin, 1, w.first, weights.q_norm.data(), epsilon, rows, w.in);
    }
    kernels.rms_norm(latents, w.in, end - begin, 1, w.latent, weights.latent_norm.data(), epsilon, latents, w.in);
  });
  if (layer.latent->q_rank == 0) return {scratch.in.data(), w.in};
  pack_activations(kernels, weights.queries, scratch.in.data(), w.in, pass.rows, s.activations);
  matmul(kernels, weights.queries, s.activations, scratch.queries.data(), w.queries);
  return {scratch.queries.data(), w.queries};
}

/// qkv = q and k as the cache has them: for every head, and of the key, what RoPE turns, then the latent part.
void project(const TransformerPass& pass, const AttentionLayer& layer, const LatentWeights& weights,
             LatentScratch& scratch) {
  const LatentWidths w(layer);
  TransformerScratch& s = pass.scratch;
  const Kernels& kernels = pass.kernels;
  const int unturned = layer.latent->unturned;
  const int head_dim = layer.shape.head_dim;
  const std::ptrdiff_t stride = layer.projected();
  const LatentQueries queries = project_in(pass, layer, weights, scratch);
  multiply_heads(pass, weights.keys, {queries.data, w.query, queries.stride}, scratch.of_heads, s.qkv.data() + w.turned,
                 head_dim, stride);
  const int half = w.turned / 2;
  const Turns* const turns =
      layer.rope == AttentionLayer::no_rope ? nullptr : &s.turns[static_cast<std::size_t>(layer.rope)];
  for_rows(pass.rows, 8.0 * pass.rows * w.heads * w.turned, [&](int begin, int end) {
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      float* const q = s.qkv.data() + row * stride;
      float* const k = q + layer.q_width();
      const float* const latent = scratch.in.data() + row * w.in + w.first;
      for (int h = 0; h < w.heads; ++h) {
        const float* const from = queries.data + row * queries.stride + std::ptrdiff_t{h} * w.query + unturned;
        copy_pairs(from, w.turned, layer.interleaved, q + std::ptrdiff_t{h} * head_dim);
      }
      copy_pairs(latent + w.latent, w.turned, layer.interleaved, k);
      std::copy_n(latent, w.latent, k + w.turned);
      if (turns == nullptr) continue;
      // The key lies behind the queries as the head of one more.
      kernels.rope(q, stride, 1, w.heads + 1, head_dim, half, turns->cosine.data() + row * half,
                   turns->sine.data() + row * half);
    }
  });
}

}  // namespace

int query_width(const AttentionLayer& layer) noexcept { return LatentWidths(layer).query; }

AttentionLayer read_latent_attention(const Json& config) {
  constexpr int size_max = 1 << 24;  // of all heads together
  constexpr float inner_epsilon = 1e-6F;
  LatentAttention latent = {.unturned = positive(config, "qk_nope_head_dim"), .value = positive(config, "v_head_dim")};
  const int heads = positive(config, "num_attention_heads");
  if (positive(config, "num_key_value_heads", heads) != heads) {
    config.at("num_key_value_heads").fail("must be the number of heads, " + std::to_string(heads));
  }
  const int rank = positive(config, "kv_lora_rank");
  const int turned = positive(config, "qk_rope_head_dim");
  if (turned % 2 != 0) config.at("qk_rope_head_dim").fail("must be even; RoPE turns pairs");
  if (config.find("q_lora_rank")) latent.q_rank = positive(config, "q_lora_rank");
  const std::int64_t widest = std::max({std::int64_t{rank} + turned, std::int64_t{latent.unturned} + turned,
                                        std::int64_t{latent.unturned} + latent.value});
  if (heads * widest > size_max) {
    config.at("num_attention_heads").fail("makes all heads together larger than any real model's");
  }
  const auto epsilon = config.find("latent_norm_eps");  // of a GGUF
  latent.epsilon = epsilon ? static_cast<float>(epsilon->number()) : inner_epsilon;
  if (!(latent.epsilon > 0 && latent.epsilon < 1)) epsilon->fail("must lie between 0 and 1 as a float");
  AttentionLayer layer;
  layer.shape = {.heads = heads, .kv_heads = 1, .head_dim = turned + rank, .scale = 0, .latent = rank};
  layer.latent = latent;
  return layer;
}

LatentWeights load_latent_attention(const WeightLoader& from, const TransformerConfig& config,
                                    const AttentionLayer& layer, const std::string& prefix) {
  const LatentWidths w(layer);
  const LatentAttention& latent = *layer.latent;
  LatentWeights weights;
  const auto norm = [&](const char* name, int width) { return from.floats(prefix + name, {width}); };
  const std::string key = prefix + "kv_a_proj_with_mqa";
  const std::string query = prefix + (latent.q_rank > 0 ? "q_a_proj" : "q_proj");
  weights.in = load_matrix(from, {{query + ".weight", w.first}, {key + ".weight", w.latent + w.turned}}, config.hidden);
  if (layer.qkv_bias) {
    if (latent.q_rank > 0) weights.in_bias = from.floats(query + ".bias", {w.first});
    append(weights.in_bias, from.floats(key + ".bias", {w.latent + w.turned}));
  }
  if (latent.q_rank > 0) {
    weights.q_norm = norm("q_a_layernorm.weight", latent.q_rank);
    weights.queries = load_matrix(from, {{prefix + "q_b_proj.weight", w.queries}}, latent.q_rank);
  }
  weights.latent_norm = norm("kv_a_layernorm.weight", w.latent);
  weights.attention.output = load_matrix(from, {{prefix + "o_proj.weight", config.hidden}}, w.values);
  if (layer.output_bias) weights.attention.output_bias = from.floats(prefix + "o_proj.bias", {config.hidden});
  const int unturned = latent.unturned;
  const int both = unturned + latent.value;
  const std::string joined = prefix + "kv_b_proj.weight";
  const bool apart = from.weights.has(prefix + "k_b_proj.weight");
  const Placed whole(from, Holding::whole);  // a thread multiplies all of one
  for (int h = 0; h < w.heads; ++h) {
    NamedMatrix keys = {joined, w.latent, 0, {w.heads * both, w.latent}};
    keys.transposed = true;
    keys.before = h * both;
    NamedMatrix values = {joined, latent.value, h * both + unturned, {w.heads * both, w.latent}};
    if (apart) {
      keys = {prefix + "k_b_proj.weight", w.latent, h * w.latent, {w.heads, w.latent, unturned}};
      values = {prefix + "v_b_proj.weight", latent.value, h * latent.value, {w.heads, latent.value, w.latent}};
    }
    weights.keys.push_back(load_matrix(from, {keys}, unturned));
    weights.values.push_back(load_matrix(from, {values}, w.latent));
  }
  return weights;
}

std::size_t LatentScratch::bytes_per_row(const AttentionLayer& layer) noexcept {
  const LatentWidths w(layer);
  return sizeof(float) * static_cast<std::size_t>(w.in + w.queries + w.values);
}

void latent_attention(const TransformerPass& pass, int i, const LatentWeights& weights, LatentScratch& scratch) {
  const AttentionLayer& layer = pass.config.attention(i);
  const LatentWidths w(layer);
  TransformerScratch& s = pass.scratch;
  reserve_rows(scratch.in, pass.rows, w.in);
  reserve_rows(scratch.queries, pass.rows, w.queries);
  reserve_rows(scratch.values, pass.rows, w.values);
  project(pass, layer, weights, scratch);
  pass.attend(layer, weights.attention);
  multiply_heads(pass, weights.values, {s.attended.data(), w.latent, layer.attended_width()}, scratch.of_heads,
                 scratch.values.data(), layer.latent->value, w.values);
  pass.project_attended(weights.attention, scratch.values.data());
}

}  // namespace draftproof
