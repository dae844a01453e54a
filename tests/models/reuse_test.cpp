// SPDX-License-Identifier: MIT
// The causal law across requests: a text continued from a prefix cache has the bits of one that was read from its
// start, in layers of full attention and of sliding windows, in every KV format.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ref/caches/prefix_cache.h"
#include "ref/models/read_text.h"
#include "tests/models/fixtures.h"

namespace draftproof::reuse_test {
namespace {

using namespace test;

/// Reads the tokens that the cache does not hold; returns the logits of all of them.
std::vector<float> logits_of(Model& model, Cache& cache, const std::vector<Token>& text, int chunk) {
  std::vector<float> logits;
  const auto rest = std::span(text).subspan(static_cast<std::size_t>(cache.length()));
  draftproof::read_text(model, cache, rest, chunk, {}, 0,
                        [&](int, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
  return logits;
}

void expect_equal_bits(Model& model, const std::string& name) {
  const std::vector<Token> text = some_text(60, model.vocabulary());
  const auto cold = model.new_cache(60, 60);
  const std::vector<float> all = logits_of(model, *cold, text, 60);
  PrefixCache prefixes(std::size_t{1} << 30);
  int reused = 0;
  // Other texts that part from this one, then the text itself.
  for (const int common : {3, 17, 31, 32, 50, 59}) {
    std::vector<Token> other(text.begin(), text.begin() + common);
    for (int i = 0; i < 3; ++i) other.push_back((text[static_cast<std::size_t>(common)] + 1 + i) % model.vocabulary());
    for (const std::vector<Token>& next : {other, std::vector<Token>(text.begin(), text.begin() + common), text}) {
      const auto warm = model.new_cache(64 + common, 9);
      const int limit = static_cast<int>(next.size()) - 1;
      {
        const PrefixCache::Lease lease = prefixes.find(next, limit, {"target"});
        prefixes.restore(lease, {{"target", warm.get()}});
        reused += lease.length();
      }
      const int from = warm->length();
      const std::vector<float> logits = logits_of(model, *warm, next, 9);
      prefixes.insert(next, {{"target", warm.get()}});
      if (next != text) continue;
      ASSERT_TRUE(same_bits(logits, std::span(all).subspan(static_cast<std::size_t>(from * model.vocabulary()))))
          << name << ", " << from << " positions reused";
      ASSERT_EQ(warm->digest(), cold->digest()) << name << ", " << from << " positions reused";
    }
  }
  EXPECT_GT(reused, 200) << name;
}

TEST(Reuse, ATextContinuedFromAPrefixHasTheBitsOfOneReadFromItsStart) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::q8}) {
    const LoadOptions options(best_kernels(), Quantization::none, format);
    for (const std::string& name : varied_targets) {
      expect_equal_bits(*load_model(Checkpoint(external_dir / name), options), name);
    }
    for (const std::string& name : varied_gemma_targets) {
      expect_equal_bits(*load_model(Checkpoint(external_dir / name), options), name);
    }
    for (const std::string& name : tiny_sliding_targets) {
      for (const int window : {1, 4, 16, 40}) {
        const WindowedCopy copy(external_dir / name, window);
        expect_equal_bits(*load_model(Checkpoint(copy.path()), options), name + ", window " + std::to_string(window));
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::reuse_test
