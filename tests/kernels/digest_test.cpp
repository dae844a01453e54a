// SPDX-License-Identifier: MIT
// Compares the bits of every entry, format by format, with fixtures/snapshots/kernels.txt: equal for all tables,
// compilers and architectures. tests/aarch64 runs this, too. DRAFTPROOF_ACCEPT=1 in the environment rewrites that file.
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "kernels/math64.h"
#include "support.h"

namespace draftproof::test::digest_test {
namespace {

/// Digest of a sequence of 32-bit words; every step is one to one, so a single changed bit changes it. All NaNs are
/// equal.
class Digest {
 public:
  void add(std::uint32_t word) {
    state_ = (state_ + word + 1) * 6364136223846793005u;
    state_ ^= state_ >> 32;
  }
  void add(float value) { add(std::isnan(value) ? 0x7fc00000u : bits(value)); }
  void add(double value) {
    const std::uint64_t wide = std::isnan(value) ? 0x7ff8u << 16 : __builtin_bit_cast(std::uint64_t, value);
    add(static_cast<std::uint32_t>(wide));
    add(static_cast<std::uint32_t>(wide >> 32));
  }
  void add(const std::vector<float>& values) {
    for (const float value : values) add(value);
  }
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) add(static_cast<std::uint32_t>(byte));
  }
  std::string hex() const {
    std::ostringstream text;
    text << std::hex;
    text.width(16);
    text.fill('0');
    text << state_;
    return text.str();
  }

 private:
  std::uint64_t state_ = 0;
};

using Digests = std::map<std::string, std::string>;  // keyed by the name of the digested data

Digest of_unpack_row(const Kernels& table, Format format) {
  Digest digest;
  const int block = traits(format).block_inputs;
  for (const int blocks : {1, 2, 3, 5}) {
    const Weight weight(format, 37, block == 1 ? 7 * blocks : block * blocks, 8);
    const PackedMatrix w = weight.packed(table);
    std::vector<float> row(weight.inputs);
    for (int n = 0; n < weight.outputs; ++n) {
      w.unpack_row(table, n, row.data());
      digest.add(row);
    }
  }
  return digest;
}

Digest of_matmul(const Kernels& table, Format format) {
  Digest digest;
  Numbers numbers(3);
  const int block = traits(format).block_inputs;
  for (const int outputs : {1, 15, 16, 17, 50, 131}) {
    const int inputs = block * (1 + numbers.below(block == 1 ? 300 : block == 32 ? 12 : 4));
    const Weight weight(format, outputs, inputs, 5);
    const PackedMatrix w = weight.packed(table);
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 33}) {
      std::vector<float> x = numbers.numbers(static_cast<std::size_t>(rows) * inputs, rows % 2 == 0 ? 40 : 1);
      x[0] = -0.0f;
      if (rows > 1) x.back() = rows % 3 == 0 ? infinity : 0x1p-130f;
      std::vector<float> y(static_cast<std::size_t>(rows) * outputs);
      const int cut = outputs / 2 / lanes * lanes;
      multiply(table, w, x.data(), inputs, rows, y.data(), outputs, 0, cut);
      multiply(table, w, x.data(), inputs, rows, y.data(), outputs, cut, outputs);
      digest.add(y);
    }
  }
  return digest;
}

Digest of_rms_norm(const Kernels& table) {
  Digest digest;
  for (int width = 1; width <= 130; ++width) {
    const std::vector<float> x = Numbers(width).numbers(static_cast<std::size_t>(6 * width), 40);
    std::vector<float> y(x.size());
    table.rms_norm(x.data(), 3 * width, 2, 3, width, Numbers(99).numbers(width).data(), 1e-6f, y.data(), 3 * width);
    digest.add(y);
  }
  return digest;
}

Digest of_rope(const Kernels& table) {
  Digest digest;
  for (int half = 1; half <= 66; ++half) {
    const int head_dim = 2 * half + half % 5;
    std::vector<float> x = Numbers(half).numbers(static_cast<std::size_t>(6 * head_dim));
    table.rope(x.data(), 3 * head_dim, 2, 3, head_dim, half, Numbers(1).numbers(2 * half).data(),
               Numbers(2).numbers(2 * half).data());
    digest.add(x);
  }
  return digest;
}

Digest of_gated(const Kernels& table, decltype(Kernels::silu_multiply) Kernels::*entry) {
  Digest digest;
  for (int width = 8; width <= 130; ++width) {
    std::vector<float> x = Numbers(width).numbers(static_cast<std::size_t>(4 * width), 40);
    x[0] = infinity, x[1] = -infinity, x[2] = nan, x[3] = -0.0f, x[4] = 0x1p-140f;
    std::vector<float> y(static_cast<std::size_t>(2 * width));
    (table.*entry)(x.data(), 2, width, 0, width, y.data());
    digest.add(y);
  }
  return digest;
}

Digest of_add(const Kernels& table) {
  Digest digest;
  for (std::size_t count = 1; count <= 130; ++count) {
    const std::vector<float> x = Numbers(count).numbers(count);
    std::vector<float> y = Numbers(count + 1000).numbers(count, 3);
    table.add(x.data(), count, y.data());
    digest.add(y);
  }
  return digest;
}

Digest of_causal_conv_silu(const Kernels& table) {
  Digest digest;
  Numbers numbers(31);
  for (int channels = 1; channels <= 70; ++channels) {
    const int width = 2 + channels % 4;
    const std::vector<float> tail = numbers.numbers(static_cast<std::size_t>(width - 1) * channels);
    const std::vector<float> x = numbers.numbers(static_cast<std::size_t>(5) * channels, 20);
    const std::vector<float> weight = numbers.numbers(static_cast<std::size_t>(width) * channels);
    std::vector<float> y(x.size());
    table.causal_conv_silu(tail.data(), x.data(), channels, 5, channels, width, weight.data(), 0, channels, y.data(),
                           channels);
    digest.add(y);
  }
  return digest;
}

Digest of_gated_delta_rule(const Kernels& table, bool channel_decays) {
  Digest digest;
  for (const int value_dim : {1, 16, 31, 64, 128, 150}) {
    const DeltaInputs inputs({2, 6, 1 + value_dim / 2, value_dim, false, channel_decays}, 5,
                             static_cast<std::uint64_t>(value_dim));
    digest.add(inputs.run(table, 3, 6));
  }
  return digest;
}

Digest of_exponentials(const Kernels& table) {
  std::vector<float> x;  // of all signs, exponents and some mantissas
  for (std::uint32_t word = 0; word < 0xffff0000u; word += 65521u) x.push_back(__builtin_bit_cast(float, word));
  for (int i = -3500; i < 3000; ++i) x.push_back(static_cast<float>(i) * 0x1.1p-5f);
  std::vector<float> y(x.size());
  Digest digest;
  for (const float scale : {1.0f, 0.37f}) {
    table.exponentials(x.data(), 0, scale, x.size(), y.data());
    digest.add(y);
  }
  return digest;
}

Digest of_attention(const Kernels& table, KvFormat format, float cap, bool with_sinks = false) {
  Digest digest;
  Numbers numbers(21);
  for (const int group : {1, 2, 3, 5, 8}) {
    for (const int head_dim : {8, 31, 64, 80, 128}) {
      const std::vector<float> sinks = some_sinks(2 * group);
      const AttentionShape shape = {.heads = 2 * group,
                                    .kv_heads = 2,
                                    .head_dim = head_dim,
                                    .scale = 0.37f,
                                    .cap = cap,
                                    .sinks = with_sinks ? sinks.data() : nullptr};
      const int end = 4 + numbers.below(150);
      const int first = numbers.below(end);
      const Stored stored(shape, format, (end + lanes - 1) / lanes + 1, 0, end);
      const Visible visible[] = {{0, end - 2}, {first, end - (first < end - 1 ? 1 : 0)}, {0, end}};
      const std::size_t width = static_cast<std::size_t>(shape.heads) * head_dim;
      const std::vector<float> q = Numbers(77).numbers(3 * width, 4);
      std::vector<float> out(3 * width);
      AttentionScratch scratch;
      scratch.reserve(shape, 3, end);
      const KeyValues kv = stored.view();
      const AttentionJob job = {&kv, q.data(), visible, 3, out.data()};
      attention(table, shape, std::span(&job, 1), static_cast<std::ptrdiff_t>(width), scratch);
      digest.add(out);
    }
  }
  return digest;
}

/// Returns the digests of all entries of a table.
Digests digests_of(const Kernels& table) {
  Digests digests;
  for (const Format format : all_formats) {
    digests[std::string("unpack_row/") + traits(format).name] = of_unpack_row(table, format).hex();
    digests[std::string("matmul/") + traits(format).name] = of_matmul(table, format).hex();
  }
  digests["rms_norm"] = of_rms_norm(table).hex();
  digests["rope"] = of_rope(table).hex();
  digests["silu_multiply"] = of_gated(table, &Kernels::silu_multiply).hex();
  digests["gelu_multiply"] = of_gated(table, &Kernels::gelu_multiply).hex();
  digests["add"] = of_add(table).hex();
  digests["exponentials"] = of_exponentials(table).hex();
  digests["causal_conv_silu"] = of_causal_conv_silu(table).hex();
  digests["gated_delta_rule"] = of_gated_delta_rule(table, false).hex();
  digests["gated_delta_rule_of_channels"] = of_gated_delta_rule(table, true).hex();
  for (const KvFormat format : all_kv_formats) {
    digests[std::string("attention/") + traits(format).name] = of_attention(table, format, 0).hex();
    digests[std::string("capped_attention/") + traits(format).name] = of_attention(table, format, 2).hex();
    digests[std::string("attention_with_sinks/") + traits(format).name] = of_attention(table, format, 0, true).hex();
  }
  return digests;
}

/// Returns the digests of quantize_row, dequantize_row and the math64 functions, which belong to no table.
Digests digests_beside_tables() {
  Digests digests;
  std::vector<float> row;
  Numbers numbers(6);
  for (int i = 0; i < 64; ++i) {
    for (const float value : numbers.numbers(256, i % 5 == 0 ? 1000.0f : 0.02f)) row.push_back(value);
  }
  for (const Format format : all_formats) {
    const int inputs = static_cast<int>(row.size());
    std::vector<std::byte> narrow(row_bytes(format, inputs));
    std::vector<float> wide(row.size());
    quantize_row(format, row.data(), inputs, narrow.data());
    dequantize_row(format, narrow.data(), inputs, wide.data());
    Digest digest;
    digest.add(std::span<const std::byte>(narrow));
    digest.add(wide);
    digests[std::string("narrow/") + traits(format).name] = digest.hex();
  }
  Digest digest;
  for (int i = -2000; i < 2000; ++i) {
    const double x = i * 0.37 + numbers.number();
    for (const double y : {exp64(x), log64(x), sin64(x * 1000), cos64(x * 1000), power64(10000, x / 800)}) {
      digest.add(y);
    }
  }
  digests["math64"] = digest.hex();
  return digests;
}

std::string lines_of(const Digests& digests) {
  std::string lines;
  for (const auto& [what, digest] : digests) lines += what + " " + digest + "\n";
  return lines;
}

TEST(KernelDigests, OfEveryCanonicalTableEqualTheSnapshots) {
  const std::string path = DRAFTPROOF_SOURCE_DIR "/fixtures/snapshots/kernels.txt";
  Digests found = digests_of(scalar());
  for (const Kernels* table : canonical_tables()) {
    EXPECT_EQ(lines_of(digests_of(*table)), lines_of(found)) << table->name;
  }
  found.merge(digests_beside_tables());
  if (const char* accept = std::getenv("DRAFTPROOF_ACCEPT"); accept != nullptr && std::string_view(accept) == "1") {
    std::ofstream(path) << lines_of(found);
  }
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(lines_of(found), expected.str())
      << "the bits of operations have changed, or are others on this machine; if the first and it is meant, run this "
      << "test with DRAFTPROOF_ACCEPT=1, commit " << path << " and say why";
}

/// The scalar table with a flipped last bit of the last float that each entry writes.
Kernels one_bit_off() {
  static const auto flip = [](float& value) { value = __builtin_bit_cast(float, bits(value) ^ 1u); };
  Kernels table = scalar();
  table.matmul = [](const PackedView& w, const void* x, int rows, float* y, std::ptrdiff_t stride, int begin,
                    int end) noexcept {
    scalar().matmul(w, x, rows, y, stride, begin, end);
    if (end > begin) flip(y[(rows - 1) * stride + end - 1]);
  };
  table.unpack_row = [](const PackedView& w, int output, float* row) noexcept {
    scalar().unpack_row(w, output, row);
    flip(row[w.inputs - 1]);
  };
  table.rms_norm = [](const float* x, std::ptrdiff_t x_stride, int rows, int groups, int width, const float* weight,
                      float epsilon, float* y, std::ptrdiff_t y_stride) noexcept {
    scalar().rms_norm(x, x_stride, rows, groups, width, weight, epsilon, y, y_stride);
    flip(y[(rows - 1) * y_stride + groups * width - 1]);
  };
  table.rope = [](float* x, std::ptrdiff_t stride, int rows, int heads, int head_dim, int half, const float* cosine,
                  const float* sine) noexcept {
    scalar().rope(x, stride, rows, heads, head_dim, half, cosine, sine);
    flip(x[(rows - 1) * stride + heads * head_dim - 1]);
  };
  table.silu_multiply = [](const float* x, int rows, int width, int begin, int end, float* out) noexcept {
    scalar().silu_multiply(x, rows, width, begin, end, out);
    flip(out[(rows - 1) * width + end - 1]);
  };
  table.gelu_multiply = [](const float* x, int rows, int width, int begin, int end, float* out) noexcept {
    scalar().gelu_multiply(x, rows, width, begin, end, out);
    flip(out[(rows - 1) * width + end - 1]);
  };
  table.add = [](const float* x, std::size_t count, float* y) noexcept {
    scalar().add(x, count, y);
    flip(y[count - 1]);
  };
  table.attention = [](const AttentionShape& shape, const KeyValues& memory, const float* q, std::ptrdiff_t q_stride,
                       const Visible* visible, int kv_head, int begin, int end, float* scratch, float* out) noexcept {
    scalar().attention(shape, memory, q, q_stride, visible, kv_head, begin, end, scratch, out);
    const int group = shape.heads / shape.kv_heads;
    const int head = (end - 1) / group * shape.heads + kv_head * group + (end - 1) % group;
    flip(out[(head + 1) * shape.head_dim - 1]);
  };
  table.causal_conv_silu = [](const float* tail, const float* x, std::ptrdiff_t x_stride, int rows, int channels,
                              int width, const float* weight, int begin, int end, float* out,
                              std::ptrdiff_t out_stride) noexcept {
    scalar().causal_conv_silu(tail, x, x_stride, rows, channels, width, weight, begin, end, out, out_stride);
    flip(out[(rows - 1) * out_stride + end - 1]);
  };
  table.gated_delta_rule = [](const DeltaShape& shape, const DeltaRows& folded, const float* q, std::ptrdiff_t q_stride,
                              int rows, int begin, int end, const float* from, float* to, float* out) noexcept {
    scalar().gated_delta_rule(shape, folded, q, q_stride, rows, begin, end, from, to, out);
    flip(to[delta_state_at(shape, end - 1, shape.key_dim - 1, shape.value_dim - 1)]);
  };
  table.exponentials = [](const float* x, float shift, float scale, std::size_t count, float* y) noexcept {
    scalar().exponentials(x, shift, scale, count, y);
    flip(y[count - 1]);
  };
  return table;
}

TEST(KernelDigests, DetectASingleWrongBit) {
  const Digests right = digests_of(scalar());
  for (const auto& [what, digest] : digests_of(one_bit_off())) EXPECT_NE(digest, right.at(what)) << what;
}

}  // namespace
}  // namespace draftproof::test::digest_test
