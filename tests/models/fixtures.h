// SPDX-License-Identifier: MIT
// Shared by the tests of models: the folders of reference outputs, kernel tables, runs of a text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "ref/formats/hdf5.h"
#include "ref/models/model.h"
#include "ref/models/models.h"
#include "tests/formats/files.h"
#include "tests/threads.h"

namespace draftproof::test {

inline const std::filesystem::path external_dir = source_dir / "fixtures" / "external";
inline const std::filesystem::path tale_target = source_dir / "fixtures" / "models" / "tale-target";

/// Tiny targets, at least one of every architecture, those with recurrent layers and those of Gemma apart; and those
/// whose layers a config can make slide one by one.
inline const std::string tiny_targets[] = {
    "qwen3-tiny-tied",   "qwen3-tiny-sharded", "qwen3-tiny-odd",       "qwen2-tiny-tied",
    "qwen2-tiny-untied", "llama-tiny-plain",   "llama-tiny-stretched", "llama-tiny-biased",
    "llama-tiny-linear", "llama-tiny-yarn",    "qwen2-tiny-windowed",  "mistral-tiny-windowed",
    "mistral-tiny-nemo", "ministral3-tiny",    "qwen3-moe-tiny-mixed", "qwen3-moe-tiny-unnormalized"};
inline const std::string tiny_hybrid_targets[] = {"qwen35-tiny-nested", "qwen35-tiny-irregular",
                                                  "qwen35-tiny-rectangular", "qwen35-moe-tiny"};
/// The other ones with recurrent layers (recurrent_tiny.py).
inline const std::string tiny_recurrent_targets[] = {"lfm2-tiny",
                                                     "lfm2-moe-tiny",
                                                     "qwen3-next-tiny",
                                                     "mamba2-tiny",
                                                     "granite-hybrid-tiny",
                                                     "granite-hybrid-tiny-experts",
                                                     "falcon-h1-tiny",
                                                     "falcon-h1-tiny-normed",
                                                     "nemotron-h-tiny",
                                                     "nemotron-h-tiny-experts",
                                                     "nemotron-h-tiny-latent",
                                                     "jamba-tiny",
                                                     "kimi-linear-tiny",
                                                     "kimi-linear-tiny-groups"};
inline const std::string tiny_gemma_targets[] = {"gemma2-tiny",        "gemma3-tiny",        "gemma3-tiny-nested",
                                                 "gemma4-tiny",        "gemma4-tiny-shared", "gemma4-tiny-donors",
                                                 "gemma4-tiny-experts"};
/// Those that are made of the parts of others (decoder.h).
inline const std::string tiny_variations[] = {"smollm3-tiny",
                                              "olmo2-tiny",
                                              "olmo3-tiny",
                                              "phi3-tiny",
                                              "phi3-tiny-longrope",
                                              "granite-tiny",
                                              "granitemoe-tiny",
                                              "mixtral-tiny",
                                              "qwen2-moe-tiny",
                                              "olmoe-tiny",
                                              "glm4-tiny",
                                              "cohere2-tiny",
                                              "exaone4-tiny",
                                              "seed-oss-tiny",
                                              "mimo-tiny",
                                              "ernie45-tiny",
                                              "stablelm-tiny",
                                              "stablelm-tiny-parallel",
                                              "arcee-tiny",
                                              "starcoder2-tiny",
                                              "phi-tiny",
                                              "apertus-tiny",
                                              "nanochat-tiny",
                                              "bitnet-tiny",
                                              "gemma3n-tiny",
                                              "gpt-oss-tiny",
                                              "glm4-moe-tiny",
                                              "minimax-m2-tiny",
                                              "ernie45-moe-tiny",
                                              "deepseek-v3-tiny",
                                              "deepseek-v3-tiny-biased",
                                              "deepseek-v2-tiny",
                                              "deepseek-v2-tiny-groups",
                                              "glm4-moe-lite-tiny",
                                              "llama4-tiny",
                                              "llama4-tiny-published"};
inline const std::string tiny_sliding_targets[] = {"qwen3-tiny-tied", "qwen3-tiny-sharded", "qwen3-tiny-odd",
                                                   "qwen2-tiny-tied", "qwen2-tiny-untied"};

/// The target of each architecture with the most features, for tests that take long.
inline const std::string varied_targets[] = {"qwen3-tiny-sharded",   "qwen3-tiny-odd",    "qwen2-tiny-tied",
                                             "llama-tiny-stretched", "llama-tiny-biased", "qwen2-tiny-windowed",
                                             "qwen3-moe-tiny-mixed"};
inline const std::string varied_gemma_targets[] = {"gemma2-tiny", "gemma4-tiny-shared", "gemma4-tiny-experts"};

/// Returns every table that passes its self-test on this CPU; the fastest canonical one is last.
inline std::vector<const Kernels*> usable_kernels(const std::string& numerics) {
  std::vector<const Kernels*> usable;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (numerics == (*table)->numerics && *self_test(**table) == '\0') usable.push_back(*table);
  }
  return usable;
}

/// Weights, keys and values as floats. So loaded, a model is within the bounds of float32, and equals one whose file
/// has f32.
inline LoadOptions in_floats(const Kernels& kernels) { return {kernels, Quantization::f32, KvFormat::f32}; }

/// Tests run on one thread unless they set more: for these small shapes, waking other threads costs more than it saves.
class OneThread final : public testing::Environment {
  void SetUp() override { set_threads(1); }
};
inline const testing::Environment* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

template <class T>
std::vector<T> stored(const Hdf5& file, const std::string& path) {
  return file.read<T>(path).values;
}

inline std::vector<Token> stored_tokens(const Hdf5& file, const std::string& path) {
  return stored<std::int32_t>(file, path);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// The outputs of a model for one text.
struct Reading {
  std::vector<float> logits;    // of every row
  std::vector<float> features;  // of every row
  Fingerprint cache;            // at the end
  bool operator==(const Reading& other) const {
    return same_bits(logits, other.logits) && same_bits(features, other.features) && cache == other.cache;
  }
};

/// How a text is split into calls, and which extra rows are added.
struct Division {
  int piece = 0;       // rows per call; 0: the whole text in one call
  int refused = 0;     // wrong tokens after each piece, in the same call, rolled back
  int spare = 0;       // extra positions of capacity, and extra pending rows
  bool retry = false;  // each piece is first run completely in a transaction that is rolled back
  int branch = 0;      // wrong tokens per branch of a tree: branches beside each token of a piece and after its last
  int tree_call = 0;   // rows of a tree per call; 0: the whole tree in one call
};

/// A piece of text with wrong branches, in preorder.
struct PieceOfTree {
  std::vector<Token> tokens;
  std::vector<int> depths;
  std::vector<int> path;  // the rows of the piece itself
};

/// Branches come before each token except the first, after the last, and, at depth 1, after all others.
inline PieceOfTree tree_of(std::span<const Token> piece, int branch, int vocabulary) {
  PieceOfTree tree;
  const auto add = [&](Token token, int depth) {
    tree.tokens.push_back(token);
    tree.depths.push_back(depth);
  };
  const auto add_branch = [&](Token unlike, int depth) {
    for (int i = 0; i < branch; ++i) add((unlike + 1 + i) % vocabulary, depth + i);
  };
  for (std::size_t i = 0; i < piece.size(); ++i) {
    if (i > 0) add_branch(piece[i], static_cast<int>(i));
    tree.path.push_back(static_cast<int>(tree.tokens.size()));
    add(piece[i], static_cast<int>(i));
  }
  add_branch(piece.back(), static_cast<int>(piece.size()));
  add_branch(piece.back() + 7, 1);
  return tree;
}

inline Reading read(Model& model, const std::vector<Token>& text, const std::vector<int>& taps,
                    const Division& how = {}) {
  const int length = static_cast<int>(text.size());
  const int piece = how.piece == 0 ? length : how.piece;
  const int others = how.refused + how.spare + (piece + 1) * how.branch;
  const auto cache = model.new_cache(length + others, piece + others);
  Reading result;
  Outputs outputs;
  for (int first = 0; first < length; first += piece) {
    const int rows = std::min(piece, length - first);
    std::vector<Token> tokens(text.begin() + first, text.begin() + first + rows);
    for (int i = 0; i < how.refused; ++i) {
      const Token right = first + rows + i < length ? text[first + rows + i] : 0;
      tokens.push_back((right + 1 + i) % model.vocabulary());
    }
    if (how.retry) {
      const Transaction forgotten = cache->begin(static_cast<int>(tokens.size()));
      const int unread = static_cast<int>(tokens.size());
      forward_alone(model, {.cache = cache.get(), .tokens = tokens, .taps = taps, .logits_from = unread}, outputs);
    }
    std::vector<int> kept(static_cast<std::size_t>(rows));
    std::iota(kept.begin(), kept.end(), 0);
    if (how.branch > 0) {
      const PieceOfTree tree = tree_of(tokens, how.branch, model.vocabulary());
      const int size = static_cast<int>(tree.tokens.size());
      Transaction transaction = cache->begin(size);
      Outputs all;
      for (int row = 0; row < size;) {
        const auto at = static_cast<std::size_t>(row);
        const auto count = static_cast<std::size_t>(std::min(how.tree_call == 0 ? size : how.tree_call, size - row));
        forward_alone(model,
                      {.cache = cache.get(),
                       .tokens = std::span(tree.tokens).subspan(at, count),
                       .depths = std::span(tree.depths).subspan(at, count),
                       .taps = taps},
                      outputs);
        all.logits.insert(all.logits.end(), outputs.logits.begin(), outputs.logits.end());
        all.features.insert(all.features.end(), outputs.features.begin(), outputs.features.end());
        row += static_cast<int>(count);
      }
      outputs = all;
      transaction.commit(tree.path);
      kept = tree.path;
    } else {
      Transaction transaction = cache->begin(static_cast<int>(tokens.size()));
      forward_alone(model, {.cache = cache.get(), .tokens = tokens, .taps = taps}, outputs);
      transaction.commit(rows);
    }
    const auto add = [&](std::vector<float>& to, const std::vector<float>& from, std::size_t width) {
      for (const int row : kept) {
        const auto at = from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * width);
        to.insert(to.end(), at, at + static_cast<std::ptrdiff_t>(width));
      }
    };
    add(result.logits, outputs.logits, static_cast<std::size_t>(model.vocabulary()));
    add(result.features, outputs.features, taps.size() * static_cast<std::size_t>(model.hidden()));
  }
  result.cache = cache->digest();
  return result;
}

inline std::vector<int> all_layers(const Model& model) {
  std::vector<int> taps;
  for (int i = 0; i < model.layers(); ++i) taps.push_back(i);
  return taps;
}

/// Returns tap t of features [rows][taps * hidden].
inline std::vector<float> tap_of(const std::vector<float>& features, int t, int taps, int hidden) {
  std::vector<float> tap;
  for (auto row = features.begin(); row < features.end(); row += taps * hidden) {
    tap.insert(tap.end(), row + t * hidden, row + (t + 1) * hidden);
  }
  return tap;
}

/// A copy of a tiny target in which every layer but the second attends to the last `window` positions only.
class WindowedCopy {
 public:
  WindowedCopy(const std::filesystem::path& original, int window) {
    for (const auto& entry : std::filesystem::directory_iterator(original)) {
      if (entry.path().filename() != "config.json") {
        std::filesystem::copy(entry.path(), folder_.path() / entry.path().filename());
      }
    }
    std::string config = bytes_of_file(original / "config.json");
    const auto replace = [&config](const std::string& from, const std::string& to, std::size_t after) {
      const std::size_t at = config.find(from, after);
      if (at == std::string::npos) throw std::runtime_error("the config has no " + from);
      config.replace(at, from.size(), to);
      return at + to.size();
    };
    replace("\"sliding_window\": null", "\"sliding_window\": " + std::to_string(window), 0);
    replace("\"use_sliding_window\": false", "\"use_sliding_window\": true", 0);
    std::size_t at = 0;
    const int layers = static_cast<int>(Json::read(original / "config.json").at("layer_types").size());
    for (int layer = 0; layer < layers; ++layer) {
      at = replace("full_attention", layer == 1 ? "full_attention" : "sliding_attention", at);
    }
    folder_.write("config.json", config);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

inline std::vector<Token> some_text(int length, int vocabulary) {
  std::vector<Token> text;
  for (int p = 0; p < length; ++p) text.push_back((p * p * 7 + p * 3 + 1) % vocabulary);
  return text;
}

inline std::string printable_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

}  // namespace draftproof::test
