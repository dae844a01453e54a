// SPDX-License-Identifier: MIT
// One forward pass over segments of many texts: chunks, chains and trees of different lengths at different positions.
// Every row, tap and cache has the bits that it has when its text is read alone, with every kernel table.
#include <random>

#include "ref/models/dflash.h"
#include "ref/models/hash.h"
#include "ref/models/serial.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::batch_test {
namespace {

/// A text that is read piece by piece.
struct Reader {
  std::vector<Token> text;
  std::vector<int> taps;
  std::unique_ptr<Cache> cache;
  Reading result;

  // The piece at hand.
  std::vector<Token> tokens;
  std::vector<int> depths;
  std::vector<int> kept;
  bool logits = true;

  int left() const { return static_cast<int>(text.size()) - cache->length(); }

  /// Takes the next tokens of the text: as a chunk, with wrong tokens behind them, or as a tree.
  Segment take(int rows, int kind, int vocabulary) {
    const auto first = text.begin() + cache->length();
    tokens.assign(first, first + std::min(rows, left()));
    depths.clear();
    kept.resize(tokens.size());
    std::iota(kept.begin(), kept.end(), 0);
    if (kind == 1) {
      for (int i = 0; i < rows; ++i) tokens.push_back((tokens.back() + 3) % vocabulary);
    } else if (kind == 2) {
      const PieceOfTree tree = tree_of(tokens, 2, vocabulary);
      tokens = tree.tokens;
      depths = tree.depths;
      kept = tree.path;
    }
    return {.cache = cache.get(), .tokens = tokens, .depths = depths, .taps = taps};
  }

  void keep(const SegmentOutput& output, const Model& model) {
    const auto add = [&](std::vector<float>& to, std::span<const float> from, std::size_t width) {
      for (const int row : kept) {
        const auto one = from.subspan(static_cast<std::size_t>(row) * width, width);
        to.insert(to.end(), one.begin(), one.end());
      }
    };
    add(result.logits, output.logits, static_cast<std::size_t>(model.vocabulary()));
    add(result.features, output.features, taps.size() * static_cast<std::size_t>(model.hidden()));
  }
};

constexpr int rows_max = 40;

/// Reads all texts together, in random pieces. Returns the largest number of segments in one pass.
std::size_t read_together(Model& model, std::vector<Reader>& readers, unsigned seed) {
  std::mt19937 dice(seed);
  const auto below = [&](int bound) { return static_cast<int>(dice() % static_cast<unsigned>(bound)); };
  Outputs outputs;
  std::size_t max = 0;
  for (Reader& reader : readers) {
    const int length = static_cast<int>(reader.text.size());
    reader.cache = model.new_cache(length + rows_max + below(30), rows_max + below(30));
  }
  for (;;) {
    std::vector<Reader*> in_pass;
    for (Reader& reader : readers) {
      if (reader.left() > 0 && below(4) > 0) in_pass.push_back(&reader);
    }
    if (in_pass.empty() && std::ranges::all_of(readers, [](const Reader& reader) { return reader.left() == 0; })) break;
    std::ranges::shuffle(in_pass, dice);
    std::vector<Segment> batch;
    std::vector<Transaction> transactions;
    for (Reader* const reader : in_pass) {
      batch.push_back(reader->take(1 + below(7), below(3), model.vocabulary()));
      transactions.push_back(reader->cache->begin(batch.back().rows()));
    }
    if (batch.empty()) continue;
    model.forward(batch, outputs);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(outputs.segments[i].error, "");
      in_pass[i]->keep(outputs.segments[i], model);
      const std::vector<int>& kept = in_pass[i]->kept;
      batch[i].depths.empty() ? transactions[i].commit(static_cast<int>(kept.size())) : transactions[i].commit(kept);
    }
    max = std::max(max, batch.size());
  }
  for (Reader& reader : readers) reader.result.cache = reader.cache->digest();
  return max;
}

std::vector<Reader> some_readers(const Model& model) {
  std::vector<Reader> readers(5);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const auto length = static_cast<int>(11 + 9 * i);
    for (int k = 0; k < length; ++k) {
      readers[i].text.push_back((k * k + 3 * static_cast<int>(i) + k) % model.vocabulary());
    }
    if (i % 2 == 0) readers[i].taps = all_layers(model);
    if (i == 3 && model.layers() > 0) readers[i].taps = {model.layers() - 1};
  }
  return readers;
}

void expect_as_alone(Model& model, const std::string& which) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    std::vector<Reader> readers = some_readers(model);
    EXPECT_GT(read_together(model, readers, seed), 2U);
    for (std::size_t i = 0; i < readers.size(); ++i) {
      EXPECT_EQ(readers[i].result, read(model, readers[i].text, readers[i].taps)) << which << ", text " << i;
    }
  }
}

class Batch : public testing::TestWithParam<std::string> {};

TEST_P(Batch, ComputesEverySegmentAsAloneWithEveryTableKvFormatAndNumberOfThreads) {
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      for (const KvFormat kv : {KvFormat::f32, KvFormat::q8}) {
        const auto model = load_model(Checkpoint(external_dir / GetParam()), {*kernels, Quantization::none, kv});
        for (const int threads : {1, 3}) {
          set_threads(threads);
          expect_as_alone(*model, GetParam() + " " + kernels->name + ", " + std::to_string(threads) + " threads");
        }
        set_threads(1);
        SerialModel serial(*model);
        if (kv == KvFormat::f32) expect_as_alone(serial, GetParam() + " " + kernels->name + ", serial");
      }
    }
  }
}

class SlidingBatch : public testing::TestWithParam<std::string> {};

TEST_P(SlidingBatch, ComputesEverySegmentAsAlone) {
  for (const int window : {1, 5, 16}) {
    const WindowedCopy copy(external_dir / GetParam(), window);
    const auto model = load_model(Checkpoint(copy.path()), best_kernels());
    expect_as_alone(*model, GetParam() + ", window " + std::to_string(window));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Batch,
                         testing::Values("llama-tiny-plain", "qwen2-tiny-tied", "qwen3-tiny-odd",
                                         "mistral-tiny-windowed", "qwen3-moe-tiny-mixed", "qwen35-tiny-irregular",
                                         "lfm2-tiny", "granite-hybrid-tiny", "falcon-h1-tiny", "jamba-tiny",
                                         "deepseek-v3-tiny", "kimi-linear-tiny", "gemma4-tiny-shared"),
                         printable_name);
INSTANTIATE_TEST_SUITE_P(Targets, SlidingBatch, testing::Values("qwen3-tiny-sharded", "qwen2-tiny-tied"),
                         printable_name);

TEST(Batch, OfHashModelsIsComputedAsAlone) {
  const auto model = make_hash_model({.vocabulary = 7});
  expect_as_alone(*model, "hash");
  SerialModel serial(*model);
  expect_as_alone(serial, "hash, serial");
}

/// Contexts of several texts over one DFlash network.
TEST(DFlashBatch, DraftsBlocksAndAppendsContextAsAlone) {
  for (const char* name : {"dflash-mixed", "dflash-sliding-causal", "dflash-full"}) {
    const std::filesystem::path folder = external_dir / name;
    const std::string of_target = Hdf5::open(folder / "answers.h5").read_string_attribute("/", "target");
    const auto target = load_model(Checkpoint(external_dir / of_target), best_kernels());
    DFlashNetwork network(Checkpoint(folder), *target, best_kernels());
    const int block = network.config().block_size;
    const auto width = network.config().taps.size() * static_cast<std::size_t>(target->hidden());
    struct Text {
      std::vector<float> features;
      int rows;
      std::unique_ptr<Cache> together, alone;
    };
    std::vector<Text> texts(4);
    std::vector<DFlashNetwork::ContextRows> rows;
    std::vector<DFlashNetwork::Block> blocks;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Text& text = texts[i];
      text.rows = static_cast<int>(3 + 5 * i);
      std::vector<Token> tokens;
      for (int k = 0; k < text.rows; ++k) tokens.push_back((k * 5 + static_cast<int>(i)) % target->vocabulary());
      text.features = read(*target, tokens, network.config().taps).features;
      ASSERT_EQ(text.features.size(), width * tokens.size());
      text.together = network.new_context(text.rows + block, std::max(text.rows, block));
      text.alone = network.new_context(text.rows + block + 9, std::max(text.rows, block));
      rows.push_back({text.together.get(), text.features, text.rows});
      blocks.push_back({text.together.get(), static_cast<Token>(1 + i), 1 + static_cast<int>(i) % (block - 1)});
    }
    network.append(rows);
    network.compute(blocks);
    std::vector<std::vector<float>> logits;
    for (const DFlashNetwork::Block& one : blocks) logits.emplace_back(one.logits.begin(), one.logits.end());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const DFlashNetwork::ContextRows own_rows = {texts[i].alone.get(), texts[i].features, texts[i].rows};
      network.append(std::span(&own_rows, 1));
      EXPECT_EQ(texts[i].together->digest(), texts[i].alone->digest()) << name << ", text " << i;
      DFlashNetwork::Block own = {texts[i].alone.get(), blocks[i].anchor, blocks[i].drafts};
      network.compute(std::span(&own, 1));
      EXPECT_TRUE(same_bits(own.logits, logits[i])) << name << ", text " << i;
    }
  }
}

}  // namespace
}  // namespace draftproof::test::batch_test
