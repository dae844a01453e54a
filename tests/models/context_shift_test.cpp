// SPDX-License-Identifier: MIT
// Context shifts of transformers: the bits depend on the text alone, and keys are turned to where they move.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "ref/models/read_text.h"
#include "tests/models/fixtures.h"

namespace draftproof::context_shift_test {
namespace {

using namespace test;

struct Shifted {
  std::vector<float> logits;  // after every token
  Fingerprint cache;
};

Shifted read_shifted(Model& model, const std::vector<Token>& text, const ContextShift& shift, int chunk) {
  const auto cache = model.new_cache(shift.context, chunk);
  Shifted result;
  draftproof::read_text(model, *cache, text, chunk, shift, 0, [&](int, std::span<const float> row) {
    result.logits.insert(result.logits.end(), row.begin(), row.end());
  });
  result.cache = cache->digest();
  return result;
}

void expect_same_bits(const std::string& name, const std::filesystem::path& folder, const ContextShift& shift,
                      KvFormat format) {
  std::optional<Shifted> first;
  for (const Kernels* const kernels : usable_kernels("canonical")) {
    const auto model = load_model(Checkpoint(folder), LoadOptions(*kernels, Quantization::none, format));
    ASSERT_EQ(context_shift_error(shift, *model), "") << name;
    const std::vector<Token> text = some_text(70, model->vocabulary());
    for (const int chunk : {1, 5, 24}) {
      const Shifted read = read_shifted(*model, text, shift, chunk);
      if (!first) first = read;
      ASSERT_TRUE(same_bits(read.logits, first->logits)) << name << ", " << kernels->name << ", chunk " << chunk;
      ASSERT_EQ(read.cache, first->cache) << name << ", " << kernels->name << ", chunk " << chunk;
    }
    const Threads two(2);
    ASSERT_TRUE(same_bits(read_shifted(*model, text, shift, 5).logits, first->logits)) << name;
  }
}

constexpr ContextShift shift = {.context = 24, .keep = 3, .discard = 10};

TEST(ContextShift, GivesTheSameBitsForAllChunksTablesAndThreads) {
  const std::string& name = varied_targets[0];
  expect_same_bits(name, external_dir / name, shift, KvFormat::q8);
  const WindowedCopy windowed(external_dir / name, 4);
  expect_same_bits(name + ", window 4", windowed.path(), shift, KvFormat::f32);
}

TEST(ContextShiftSlow, GivesTheSameBitsOfEveryTarget) {
  for (const std::string& name : varied_targets) expect_same_bits(name, external_dir / name, shift, KvFormat::f32);
  for (const std::string& name : varied_gemma_targets) {
    expect_same_bits(name, external_dir / name, shift, KvFormat::f32);
  }
  for (const KvFormat format : {KvFormat::bf16, KvFormat::q8}) {
    expect_same_bits(varied_targets[0], external_dir / varied_targets[0], shift, format);
  }
  for (const std::string& name : tiny_sliding_targets) {
    for (const int window : {1, 4, 12}) {  // what is left behind the dropped positions fills the window
      const WindowedCopy copy(external_dir / name, window);
      expect_same_bits(name + ", window " + std::to_string(window), copy.path(), shift, KvFormat::f32);
    }
  }
}

/// A position of the first layer, whose keys and values depend on one token only.
struct Position {
  std::vector<float> keys, values;
};

Position first_layer_at(Cache& cache, int position) {
  const KeyValues& kv = cache.layer<AttentionCache>(0).kv();
  Position result;
  std::vector<float> key(static_cast<std::size_t>(kv.head_dim));
  std::vector<float> value(key.size());
  for (int head = 0; head < kv.kv_heads; ++head) {
    read_position(kv, position, head, key.data(), value.data());
    result.keys.insert(result.keys.end(), key.begin(), key.end());
    result.values.insert(result.values.end(), value.begin(), value.end());
  }
  return result;
}

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  float max = 0;
  for (std::size_t i = 0; i < a.size(); ++i) max = std::max(max, std::fabs(a[i] - b[i]));
  return max;
}

TEST(ContextShift, TurnsKeysOfTheFirstLayerToThoseOfTheShortenedText) {
  for (const std::string& name : tiny_targets) {
    const auto model = load_model(Checkpoint(external_dir / name), in_floats(best_kernels()));
    const std::vector<Token> text = some_text(40, model->vocabulary());
    constexpr int keep = 5;
    constexpr int discard = 17;
    std::vector<Token> shortened = text;
    shortened.erase(shortened.begin() + keep, shortened.begin() + keep + discard);
    const auto cache = model->new_cache(40, 40);
    const auto whole = model->new_cache(40, 40);
    const auto expected = model->new_cache(40, 40);
    if (cache->layer<AttentionCache>(0).window() != AttentionCache::everything) continue;  // it forgets positions
    draftproof::read_text(*model, *cache, text, 40);
    draftproof::read_text(*model, *whole, text, 40);
    draftproof::read_text(*model, *expected, shortened, 40);
    cache->discard(keep, discard);
    float turned = 0;
    for (int position = 0; position < 40 - discard; ++position) {
      const Position found = first_layer_at(*cache, position);
      const Position wanted = first_layer_at(*expected, position);
      ASSERT_EQ(found.values, wanted.values) << name << ", position " << position;
      ASSERT_LT(distance(found.keys, wanted.keys), 1e-4) << name << ", position " << position;
      if (position < keep) {
        ASSERT_EQ(found.keys, wanted.keys) << name;
      } else {
        turned = std::max(turned, distance(found.keys, first_layer_at(*whole, position + discard).keys));
      }
    }
    EXPECT_GT(turned, 0.01) << name;  // so that the comparison above means something
  }
}

TEST(ContextShift, IsRefusedWhereAWindowNoLongerKeepsWhatRowsWillSee) {
  const WindowedCopy copy(external_dir / "qwen3-tiny-tied", 16);
  const auto model = load_model(Checkpoint(copy.path()), LoadOptions(best_kernels()));
  EXPECT_EQ(context_shift_error({.context = 24, .keep = 3, .discard = 10}, *model),
            "the context cannot be shifted: layer 0 has a sliding window of 16 positions and no longer keeps position "
            "0 of 24");
  EXPECT_EQ(context_shift_error({.context = 24, .keep = 0, .discard = 20}, *model), "");
  EXPECT_EQ(context_shift_error({.context = 16, .keep = 3, .discard = 10}, *model), "");
  EXPECT_EQ(context_shift_error({.context = 1 << 20, .keep = 3, .discard = 10}, *model),
            "the context cannot be shifted at 1048576 positions; the model has " + std::to_string(model->context()));
}

TEST(ContextShift, IsRefusedWhereALayerIsRecurrent) {
  const ContextShift shift = {.context = 24, .keep = 3, .discard = 10};
  for (const auto& [name, layer] : {std::pair("qwen35-tiny-nested", 0), {"qwen35-tiny-irregular", 1}}) {
    const auto model = load_model(Checkpoint(external_dir / name), LoadOptions(best_kernels()));
    EXPECT_EQ(context_shift_error(shift, *model),
              "the context cannot be shifted: layer " + std::to_string(layer) +
                  " keeps one state of the whole text, of which no part can be dropped")
        << name;
  }
}

}  // namespace
}  // namespace draftproof::context_shift_test
