// SPDX-License-Identifier: MIT
#include "ref/models/state_space.h"

#include <algorithm>
#include <variant>

#include "kernels/folds.h"
#include "kernels/math64.h"
#include "kernels/threads.h"
#include "ref/models/causal_convolution.h"
#include "ref/models/gated_delta_net.h"
#include "ref/models/softplus.h"

namespace draftproof {
namespace {

constexpr int taps_max = 64;        // no real convolution comes near it
constexpr int width_max = 1 << 24;  // nor any width

/// S = S * decay + key * value for heads [begin, end), row after row; with queries [rows][q_stride] each row's
/// out [rows][inner] = the product of its queries and S.
void fold(const StateSpaceShape& shape, const StateSpaceRows& rows, int count, int begin, int end, const float* from,
          float* to, const float* queries, std::ptrdiff_t q_stride, float* out) {
  const std::ptrdiff_t dims = shape.head_dim;
  const std::ptrdiff_t states = shape.state_size;
  for (std::ptrdiff_t head = begin; head < end; ++head) {
    const std::ptrdiff_t group = head / (shape.heads / shape.groups) * states;
    const std::ptrdiff_t at = head * states * dims;
    for (std::ptrdiff_t row = 0; row < count; ++row) {
      const float* const old = (row == 0 ? from : to) + at;
      const float* const keys = rows.keys + row * rows.stride + group;
      const float* const values = rows.values + row * rows.stride + head * dims;
      const float decay = rows.decays[row * rows.stride + head];
      const float* const of_row = out == nullptr ? nullptr : queries + row * q_stride + group;
      float* const sums = out == nullptr ? nullptr : out + row * shape.inner() + head * dims;
      fold_head(states, dims, decay, keys, values, of_row, old, to + at, sums);
    }
  }
}

void scan(const StateSpaceShape& shape, const StateSpaceRows& rows, int count, const float* from, float* to,
          const float* queries, std::ptrdiff_t q_stride, float* out) {
  const double work = 4.0 * count * shape.inner() * shape.state_size;
  parallel_ranges(shape.heads, work, shape.heads, [&](int begin, int end, int) {
    fold(shape, rows, count, begin, end, from, to, queries, q_stride, out);
  });
}

void replay(const StateSpaceShape& shape, const StateSpaceRows& rows, int count, const float* from, float* to) {
  scan(shape, rows, count, from, to, nullptr, 0, nullptr);
}

/// A pass through one layer.
struct Scan {
  const TransformerPass& pass;
  const StateSpaceShape& shape;
  const StateSpaceWeights& weights;
  StateSpaceScratch& scratch;

  int width() const { return shape.inner() + shape.channels() + shape.heads; }
  float* row_of(std::vector<float>& buffer, int row, int each) const {
    return buffer.data() + std::ptrdiff_t{row} * each;
  }
  const float* projected(int row) const { return row_of(scratch.projected, row, width()); }

  /// convolved = SiLU of the convolution of row `row` of these pending rows, which is row `at` of the pass.
  void convolve(const StateSpaceCache::Rows& pending, int row, int at) const {
    convolve_row(pass.kernels, weights.convolution, weights.conv_bias, pending, row,
                 row_of(scratch.convolved, at, shape.channels()), row_of(scratch.exponentials, at, shape.channels()));
  }

  /// Stores what row `at` of the pass folds into the states at pending row `row`.
  void store(const StateSpaceCache::Rows& pending, int row, int at) const {
    const std::ptrdiff_t to = row * pending.stride;
    const float* const x = row_of(scratch.convolved, at, shape.channels());
    std::copy_n(x + shape.inner(), shape.key_floats(), pending.keys + to);
    const float* const d = projected(at) + shape.inner() + shape.channels();
    for (int head = 0; head < shape.heads; ++head) {
      const auto h = static_cast<std::size_t>(head);
      const double exact = softplus(double{d[head]} + weights.dt_bias[h]);
      const auto step = static_cast<float>(exact);
      pending.decays[to + head] = static_cast<float>(exp64(-weights.rates[h] * exact));
      const std::ptrdiff_t first = std::ptrdiff_t{head} * shape.head_dim;
      for (std::ptrdiff_t p = first; p < first + shape.head_dim; ++p) pending.values[to + p] = step * x[p];
    }
  }

  /// gated = z, scanned + D * x
  void skip_and_gate(int row) const {
    const float* const x = row_of(scratch.convolved, row, shape.channels());
    const float* const scanned = row_of(scratch.scanned, row, shape.inner());
    float* const gated = row_of(scratch.gated, row, 2 * shape.inner());
    std::copy_n(projected(row), shape.inner(), gated);
    for (int i = 0; i < shape.inner(); ++i) {
      gated[shape.inner() + i] = scanned[i] + weights.skip[static_cast<std::size_t>(i / shape.head_dim)] * x[i];
    }
  }

  void run(const RowRange& range) const {
    StateSpaceCache& cache = *scratch.caches[static_cast<std::size_t>(range.segment)];
    cache.branch(range.position);
    const StateSpaceCache::Rows pending = cache.claim_rows(range.position, range.rows);
    for (int i = 0; i < range.rows; ++i) {
      std::copy_n(projected(range.row + i) + shape.inner(), shape.channels(), pending.inputs + i * pending.stride);
    }
    for_rows(range.rows, (20.0 + shape.conv_width) * range.rows * shape.channels(), [&](int begin, int end) {
      for (int i = begin; i < end; ++i) {
        convolve(pending, i, range.row + i);
        store(pending, i, range.row + i);
      }
    });
    const float* const queries =
        row_of(scratch.convolved, range.row, shape.channels()) + shape.inner() + shape.key_floats();
    scan(shape, pending.folded(), range.rows, pending.from, pending.to, queries, shape.channels(),
         row_of(scratch.scanned, range.row, shape.inner()));
  }

  /// Normalizes each group's part of x, whose rows are `stride` apart.
  void normalize(float* x, int stride, int rows) const {
    const int part = shape.inner() / shape.groups;
    for (int first = 0; first < shape.inner(); first += part) {
      pass.kernels.rms_norm(x + first, stride, rows, 1, part, weights.norm.data() + first, pass.config.epsilon,
                            x + first, stride);
    }
  }

  /// mixed = the norm of SiLU(z) * (scanned + D * x), or as the weights say
  void finish(int begin, int end) const {
    const int inner = shape.inner();
    for (int row = begin; row < end; ++row) skip_and_gate(row);
    float* const gated = row_of(scratch.gated, begin, 2 * inner);
    float* const mixed = row_of(scratch.mixed, begin, inner);
    const bool normed = !weights.norm.empty();
    if (normed && weights.norm_first) normalize(gated + inner, 2 * inner, end - begin);
    pass.kernels.silu_multiply(gated, end - begin, inner, 0, inner, mixed);
    if (normed && !weights.norm_first) normalize(mixed, inner, end - begin);
  }

  /// Multiplies each part of what was projected by its factor.
  void scale(int begin, int end) const {
    const int sizes[] = {shape.inner(), shape.inner(), shape.key_floats(), shape.key_floats(), shape.heads};
    for (int row = begin; row < end; ++row) {
      float* next = row_of(scratch.projected, row, width());
      for (std::size_t part = 0; part < weights.factors.size(); ++part) {
        for (int i = 0; i < sizes[part]; ++i) *next++ *= weights.factors[part];
      }
    }
  }
};

}  // namespace

StateSpaceShape read_state_space(const Json& config, int hidden, const StateSpaceFields& fields) {
  StateSpaceShape shape;
  shape.heads = positive(config, fields.heads);
  shape.head_dim = positive(config, fields.head_dim);
  shape.groups = positive(config, fields.groups);
  shape.state_size = positive(config, fields.state_size);
  shape.conv_width = static_cast<int>(config.at(fields.conv_width).integer(2, taps_max));
  if (shape.heads % shape.groups != 0) {
    config.at(fields.groups).fail("must divide the number of heads, " + std::to_string(shape.heads));
  }
  const std::int64_t inner = std::int64_t{shape.heads} * shape.head_dim;
  if (inner > width_max || std::int64_t{shape.groups} * shape.state_size > width_max) {
    config.at(fields.heads).fail("makes all heads together larger than any real model's");
  }
  const auto stated = fields.inner == nullptr ? std::nullopt : config.find(fields.inner);
  if (stated || fields.expand != nullptr) {
    const Json field = stated ? *stated : config.at(fields.expand);
    const std::int64_t width = stated ? stated->integer(1, width_max) : field.integer(1, 1 << 10) * hidden;
    if (width != inner) {
      field.fail("makes a width of " + std::to_string(width) + ", but that of the heads is " + std::to_string(inner));
    }
  }
  refuse_if_set(config, fields.proj_bias, "biased projections are not implemented");
  const auto bias = config.find(fields.conv_bias);
  if (bias && !bias->boolean()) bias->fail("a convolution without a bias is not implemented");
  if (const auto limit = config.find("time_step_limit")) {
    // transformers writes infinity as an object.
    const bool open = limit->is_array() && limit->size() == 2 && (*limit)[1].is_object();
    if (!open || (*limit)[0].number() != 0) limit->fail("limits of steps are not implemented");
  }
  return shape;
}

StateSpaceWeights load_state_space(const WeightLoader& from, int hidden, const StateSpaceShape& shape,
                                   const std::string& prefix, bool normed) {
  const int inner = shape.inner();
  const int channels = shape.channels();
  const bool gguf = from.weights.metadata() != nullptr;  // -exp(A_log), a matrix of one column, and the norm by groups
  const auto of_heads = [&](const char* name) {
    return from.floats(prefix + name,
                       gguf ? std::vector<std::int64_t>{shape.heads, 1} : std::vector<std::int64_t>{shape.heads});
  };
  StateSpaceWeights weights;
  weights.in = load_matrix(from, {{prefix + "in_proj.weight", inner + channels + shape.heads}}, hidden);
  weights.out = load_matrix(from, {{prefix + "out_proj.weight", hidden}}, inner);
  weights.convolution = load_taps(from, prefix + "conv1d.weight", channels, shape.conv_width);
  weights.conv_bias = from.floats(prefix + "conv1d.bias", {channels});
  const std::vector<float> a_log = of_heads("A_log");
  if (!gguf) weights.rates = rates_of(a_log);
  else
    for (const float rate : a_log) weights.rates.push_back(-double{rate});
  weights.dt_bias = from.floats(prefix + "dt_bias", {shape.heads});
  weights.skip = of_heads("D");
  if (!normed) return weights;
  const bool parts = gguf && shape.groups > 1;
  weights.norm =
      from.floats(prefix + "norm.weight", parts ? std::vector<std::int64_t>{shape.groups, inner / shape.groups}
                                                : std::vector<std::int64_t>{inner});
  return weights;
}

std::size_t StateSpaceScratch::bytes_per_row(const StateSpaceShape& shape) noexcept {
  return sizeof(float) * static_cast<std::size_t>(5 * shape.inner() + 3 * shape.channels() + shape.heads);
}

std::unique_ptr<StateSpaceCache> new_state_space_cache(const StateSpaceShape& shape, int max_pending_rows) {
  return std::make_unique<StateSpaceCache>(shape, max_pending_rows, replay);
}

void state_space(const TransformerPass& pass, int layer, const StateSpaceWeights& weights, StateSpaceScratch& scratch) {
  const LayerConfig& of = pass.config.layers[static_cast<std::size_t>(layer)];
  const StateSpaceShape& shape = *find_state_space(of);
  const int place = pass.config.cache_of(layer) + (of.beside ? 1 : 0);
  const Scan scan = {pass, shape, weights, scratch};
  const int rows = pass.rows;
  const int inner = shape.inner();
  scratch.caches.clear();
  for (Cache* const cache : pass.scratch.caches) scratch.caches.push_back(&cache->layer<StateSpaceCache>(place));
  reserve_rows(scratch.projected, rows, scan.width());
  reserve_rows(scratch.convolved, rows, shape.channels());
  reserve_rows(scratch.exponentials, rows, shape.channels());
  reserve_rows(scratch.scanned, rows, inner);
  reserve_rows(scratch.gated, rows, 2 * inner);
  reserve_rows(scratch.mixed, rows, inner);

  pack_activations(pass.kernels, weights.in, pass.scratch.normed.data(), weights.in.inputs(), rows,
                   scratch.activations);
  matmul(pass.kernels, weights.in, scratch.activations, scratch.projected.data(), scan.width());
  if (std::ranges::any_of(weights.factors, [](float factor) { return factor != 1; })) {
    for_rows(rows, 1.0 * rows * scan.width(), [&](int begin, int end) { scan.scale(begin, end); });
  }
  for (const RowRange& range : pass.scratch.ranges) scan.run(range);
  for_rows(rows, 30.0 * rows * inner, [&](int begin, int end) { scan.finish(begin, end); });
  pack_activations(pass.kernels, weights.out, scratch.mixed.data(), inner, rows, scratch.activations);
  matmul(pass.kernels, weights.out, scratch.activations, pass.scratch.projected.data(), weights.out.outputs());
}

}  // namespace draftproof
