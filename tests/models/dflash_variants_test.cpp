// SPDX-License-Identifier: MIT
// DFlash drafts of other layouts: of a part of the vocabulary, with a window of the text, in speculators' configs. They
// are copies of the stored drafts, whose answers other tests compare with the authors'.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "ref/models/dflash.h"
#include "ref/models/draft_tables.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::dflash_variants_test {
namespace {

using nlohmann::ordered_json;

constexpr float never = -std::numeric_limits<float>::infinity();

struct Copy {
  TemporaryFolder folder;
  Copy(const std::string& name, const std::function<void(ordered_json&, std::vector<Tensor>&)>& change) {
    const std::filesystem::path from = external_dir / name;
    ordered_json config = ordered_json::parse(bytes_of_file(from / "config.json"));
    std::vector<Tensor> tensors;
    const Checkpoint files(from);  // keeps the file of the tensors
    for (const auto& [tensor, stored] : files.tensors()) {
      tensors.push_back({tensor, stored.type_name, stored.shape, stored_bytes(stored)});
    }
    change(config, tensors);
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", safetensors(tensors));
  }
};

std::unique_ptr<Model> target_of(const std::string& draft) {
  const std::string name = Hdf5::open(external_dir / draft / "answers.h5").read_string_attribute("/", "target");
  return load_model(Checkpoint(external_dir / name), in_floats(best_kernels()));
}

std::vector<float> features_of(Model& target, const DFlashNetwork& draft, int positions) {
  std::vector<Token> text;
  for (int i = 0; i < positions; ++i) text.push_back((i * 37 + i / 5) % target.vocabulary());
  return read(target, text, draft.config().taps).features;
}

/// The logits of a whole block behind these features.
std::vector<float> logits_of(DFlashNetwork& draft, std::span<const float> features, int piece = 1) {
  const std::size_t width = draft.config().taps.size() * static_cast<std::size_t>(draft.config().transformer.hidden);
  const int rows = static_cast<int>(features.size() / width);
  const int block_size = draft.config().block_size;
  const auto context = draft.new_context(rows + block_size, std::max(piece, block_size));
  for (int first = 0; first < rows; first += piece) {
    const int count = std::min(piece, rows - first);
    const DFlashNetwork::ContextRows some = {
        context.get(),
        features.subspan(static_cast<std::size_t>(first) * width, static_cast<std::size_t>(count) * width), count};
    draft.append(std::span(&some, 1));
  }
  DFlashNetwork::Block block = {context.get(), 5, block_size - 1};
  draft.compute(std::span(&block, 1));
  return {block.logits.begin(), block.logits.end()};
}

Token token_of(int i) { return (i * 7 + 3) % 160; }  // 160 different ones, in another order

void keep_a_part(int known, ordered_json& config, std::vector<Tensor>& tensors) {
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < known; ++i) offsets.push_back(token_of(i) - i);
  config["draft_vocab_size"] = known;
  tensors.push_back({"d2t", "I64", {known}, bytes_of(offsets)});
}

/// The rows of the target's head for these tokens.
void add_head(int known, std::vector<Tensor>& tensors) {
  const Checkpoint target(external_dir / "qwen3-tiny-tied");
  const std::vector<float> table = target.floats("model.embed_tokens.weight", {160, 48});
  std::vector<float> head;
  for (int i = 0; i < known; ++i) {
    const auto row = table.begin() + static_cast<std::ptrdiff_t>(token_of(i)) * 48;
    head.insert(head.end(), row, row + 48);
  }
  tensors.push_back({"lm_head.weight", "F32", {known, 48}, bytes_of(head)});
}

TEST(DFlashPartOfTheVocabulary, HasTheLogitsOfTheWholeAndNeverProposesTheRest) {
  const auto target = target_of("dflash-full");
  for (const bool capped : {false, true}) {
    const auto cap = [&](ordered_json& config) {
      if (capped) config["final_logit_softcapping"] = 4.0;
    };
    const Copy all("dflash-full", [&](ordered_json& config, std::vector<Tensor>&) { cap(config); });
    DFlashNetwork whole(Checkpoint(all.folder.path()), *target, best_kernels());
    const std::vector<float> features = features_of(*target, whole, 11);
    const std::vector<float> want = logits_of(whole, features);
    for (const int known : {50, 160}) {
      for (const bool own_head : {false, true}) {
        const Copy copy("dflash-full", [&](ordered_json& config, std::vector<Tensor>& tensors) {
          keep_a_part(known, config, tensors);
          cap(config);
          if (own_head) add_head(known, tensors);
        });
        DFlashNetwork part(Checkpoint(copy.folder.path()), *target, best_kernels());
        EXPECT_EQ(part.config().draft_vocabulary, known);
        const std::vector<float> got = logits_of(part, features);
        std::vector<float> expected(want.size(), never);
        for (std::size_t row = 0; row < want.size(); row += 160) {
          for (int i = 0; i < known; ++i) {
            const std::size_t at = row + static_cast<std::size_t>(token_of(i));
            expected[at] = want[at];
          }
        }
        EXPECT_TRUE(same_bits(got, expected)) << known << " tokens, own head " << own_head << ", capped " << capped;
      }
    }
  }
}

TEST(DFlashPartOfTheVocabulary, IsRefusedWhenItsMapIsMissingOrWrong) {
  const auto target = target_of("dflash-full");
  const auto refusal = [&](const std::function<void(ordered_json&, std::vector<Tensor>&)>& change) {
    const Copy copy("dflash-full", change);
    return error_of([&] { DFlashNetwork(Checkpoint(copy.folder.path()), *target, best_kernels()); });
  };
  const auto with = [&](std::vector<std::int64_t> offsets) {
    return refusal([&](ordered_json& config, std::vector<Tensor>& tensors) {
      config["draft_vocab_size"] = offsets.size();
      tensors.push_back({"d2t", "I64", {std::ssize(offsets)}, bytes_of(offsets)});
    });
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal([](ordered_json& config, auto&) { config["draft_vocab_size"] = 50; }),
              HasSubstr("no tensor d2t that says which"));
  EXPECT_THAT(with({0, 0, -3}), HasSubstr("element 2 of d2t, -3, makes a token outside"));
  EXPECT_THAT(with({0, 159}), HasSubstr("element 1 of d2t, 159, makes a token outside"));
  EXPECT_THAT(with({4, 3}), HasSubstr("element 1 of d2t, 3, makes token 4 a second time"));
  EXPECT_THAT(refusal([](ordered_json& config, std::vector<Tensor>& tensors) {
                keep_a_part(50, config, tensors);
                add_head(50, tensors);
                tensors.back().shape = {49, 48};
                tensors.back().bytes.resize(tensors.back().bytes.size() - 48 * 4);
              }),
              HasSubstr("lm_head.weight"));
}

/// A GGUF file of a DFlash draft with the keys without which no file is one, and a single tensor, d2t.
std::string gguf_with_map(const std::vector<std::int64_t>& map) {
  std::string bytes = "GGUF";
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto text = [&](const std::string& value) {
    put(static_cast<std::uint64_t>(value.size()));
    bytes += value;
  };
  put(std::uint32_t{3});  // version
  const std::string sizes[] = {"embedding_length", "block_count", "context_length", "attention.head_count"};
  put(std::uint64_t{1});  // tensors
  put(std::uint64_t{2 + std::size(sizes)});
  text("general.architecture");
  put(std::uint32_t{8});  // a string
  text("dflash");
  for (const std::string& size : sizes) {
    text("dflash." + size);
    put(std::uint32_t{4});  // uint32
    put(std::uint32_t{8});
  }
  text("dflash.attention.layer_norm_rms_epsilon");
  put(std::uint32_t{6});  // float32
  put(1e-6F);
  text("d2t");
  put(std::uint32_t{1});  // dimensions
  put(static_cast<std::uint64_t>(map.size()));
  put(std::uint32_t{27});  // I64
  put(std::uint64_t{0});   // offset
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + bytes_of(map);
}

TEST(DFlashPartOfTheVocabulary, IsAListOfTokensInAGguf) {
  const auto read_map = [](const std::vector<std::int64_t>& map) {
    const TemporaryFolder folder;
    folder.write("draft.gguf", gguf_with_map(map));
    return read_draft_vocabulary(Checkpoint(folder.path() / "draft.gguf"), static_cast<int>(map.size()), 10);
  };
  EXPECT_EQ(read_map({9, 0, 4}), (std::vector<Token>{9, 0, 4}));
  using testing::HasSubstr;
  EXPECT_THAT(error_of([&] { read_map({1, 10}); }), HasSubstr("element 1 of d2t, 10, makes a token outside"));
  EXPECT_THAT(error_of([&] { read_map({1, -1}); }), HasSubstr("element 1 of d2t, -1, makes a token outside"));
  EXPECT_THAT(error_of([&] { read_map({3, 4, 3}); }), HasSubstr("element 2 of d2t, 3, makes token 3 a second time"));
}

/// The same draft as speculators would store it.
void as_speculators(ordered_json& config, std::vector<Tensor>& tensors) {
  ordered_json layer = config;
  for (const char* name : {"architectures", "block_size", "dflash_config", "num_target_layers"}) layer.erase(name);
  ordered_json ids;
  for (const auto& id : config["dflash_config"]["target_layer_ids"]) ids.push_back(id.get<int>() + 1);
  config = {{"architectures", {"DFlashDraftModel"}},
            {"speculators_model_type", "dflash"},
            {"aux_hidden_state_layer_ids", ids},
            {"block_size", config["block_size"]},
            {"draft_vocab_size", 160},
            {"mask_token_id", config["dflash_config"]["mask_token_id"]},
            {"target_hidden_size", nullptr},
            {"transformer_layer_config", layer}};
  tensors.push_back({"verifier_norm.weight", "F32", {1}, bytes_of(std::vector<float>{1})});
}

TEST(DFlashOfSpeculators, IsTheSameDraftWithLayersCountedFromOne) {
  const auto target = target_of("dflash-full");
  const Copy copy("dflash-full", as_speculators);
  DFlashNetwork theirs(Checkpoint(copy.folder.path()), *target, best_kernels());
  DFlashNetwork authors(Checkpoint(external_dir / "dflash-full"), *target, best_kernels());
  EXPECT_EQ(theirs.config().taps, authors.config().taps);
  const std::vector<float> features = features_of(*target, authors, 9);
  EXPECT_TRUE(same_bits(logits_of(theirs, features), logits_of(authors, features)));
  const auto refusal = [&](const char* missing) {
    const Copy without("dflash-full", [&](ordered_json& config, std::vector<Tensor>& tensors) {
      as_speculators(config, tensors);
      config.erase(missing);
    });
    return error_of([&] { DFlashNetwork(Checkpoint(without.folder.path()), *target, best_kernels()); });
  };
  for (const char* field : {"aux_hidden_state_layer_ids", "block_size", "draft_vocab_size", "mask_token_id"}) {
    EXPECT_THAT(refusal(field), testing::HasSubstr(field));
  }
}

TEST(DFlashOfSpeculators, HasSlidingLayersWithTheWindowOfTheAnchor) {
  const auto target = target_of("dflash-full");
  for (const bool non_causal : {false, true}) {
    const Copy copy("dflash-full", [&](ordered_json& config, std::vector<Tensor>& tensors) {
      as_speculators(config, tensors);
      config["transformer_layer_config"]["layer_types"] = {"sliding_attention", "full_attention"};
      config["transformer_layer_config"]["sliding_window"] = 6;
      config["sliding_window_non_causal"] = non_causal;
    });
    const DFlashConfig config = read_dflash_config(Checkpoint(copy.folder.path()).config(), *target);
    EXPECT_EQ(config.transformer.attention(0).window, 7) << "6 committed positions and the anchor";
    EXPECT_EQ(config.transformer.attention(1).window, AttentionCache::everything);
    EXPECT_TRUE(config.sights[0].from_anchor);
    EXPECT_EQ(config.sights[0].causal, !non_causal);
    EXPECT_FALSE(config.sights[1].causal);
  }
}

/// What the second draft token is drawn from behind the token 11, and how sure the draft is.
struct SecondStep {
  std::vector<float> logits;
  double confidence;
  bool operator==(const SecondStep& other) const {
    return same_bits(logits, other.logits) && confidence == other.confidence;
  }
};

SecondStep second_step(DFlashNetwork& draft, std::span<const float> features) {
  const std::size_t width = draft.config().taps.size() * static_cast<std::size_t>(draft.config().transformer.hidden);
  const int rows = static_cast<int>(features.size() / width);
  const auto context = draft.new_context(rows + 8, rows + 8);
  const DFlashNetwork::ContextRows all = {context.get(), features, rows};
  draft.append(std::span(&all, 1));
  DFlashNetwork::Block block = {context.get(), 5, 3};
  draft.compute(std::span(&block, 1));
  DFlashNetwork::Step step = {.block = &block, .draft = 1, .previous = 11};
  draft.step(std::span(&step, 1));
  return {{step.logits.begin(), step.logits.end()}, step.confidence};
}

/// The rows of a tensor for these tokens, in their order.
void keep_rows(int known, std::vector<Tensor>& tensors, const std::string& name) {
  Tensor& tensor = *std::ranges::find(tensors, name, &Tensor::name);
  const std::size_t row = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]);
  std::string kept;
  for (int i = 0; i < known; ++i) kept += tensor.bytes.substr(static_cast<std::size_t>(token_of(i)) * row, row);
  tensor.shape[0] = known;
  tensor.bytes = kept;
}

TEST(DSparkPartOfTheVocabulary, HasTheRowsOfTheWholeAndNeverProposesTheRest) {
  constexpr int known = 50;
  const auto target = target_of("dspark-published");
  DFlashNetwork whole(Checkpoint(external_dir / "dspark-published"), *target, in_floats(best_kernels()));
  const std::vector<float> features = features_of(*target, whole, 11);
  const SecondStep want = second_step(whole, features);
  const Copy copy("dspark-published", [](ordered_json& config, std::vector<Tensor>& tensors) {
    keep_a_part(known, config, tensors);
    for (const char* name : {"lm_head.weight", "markov_head.markov_w2.weight"}) keep_rows(known, tensors, name);
  });
  for (const int head : {0, 20}) {  // the draft's first so many tokens only
    LoadOptions options = in_floats(best_kernels());
    options.head_tokens = head;
    DFlashNetwork part(Checkpoint(copy.folder.path()), *target, options);
    SecondStep expected = {std::vector<float>(160, never), want.confidence};
    for (int i = 0; i < (head > 0 ? head : known); ++i) {
      const auto at = static_cast<std::size_t>(token_of(i));
      expected.logits[at] = want.logits[at];
    }
    EXPECT_EQ(second_step(part, features), expected) << head;
  }
}

TEST(DSparkOfSpeculators, IsTheSameDraftAndSaysWhereItsRowsBegin) {
  const auto target = target_of("dspark-published");
  DFlashNetwork authors(Checkpoint(external_dir / "dspark-published"), *target, best_kernels());
  const std::vector<float> features = features_of(*target, authors, 9);
  const auto as_theirs = [](ordered_json& config, std::vector<Tensor>&) {
    ordered_json layer = config;
    ordered_json theirs = {{"architectures", {"DSparkSpeculator"}},
                           {"speculators_model_type", "dspark"},
                           {"aux_hidden_state_layer_ids", {1, 2}},
                           {"draft_vocab_size", 160},
                           {"sample_from_anchor", true}};
    for (const char* field : {"block_size", "mask_token_id", "markov_rank", "markov_head_type",
                              "enable_confidence_head", "confidence_head_with_markov"}) {
      theirs[field] = config[field];
      layer.erase(field);
    }
    for (const char* field : {"architectures", "target_layer_ids"}) layer.erase(field);
    theirs["transformer_layer_config"] = layer;
    config = theirs;
  };
  const Copy copy("dspark-published", as_theirs);
  DFlashNetwork theirs(Checkpoint(copy.folder.path()), *target, best_kernels());
  EXPECT_EQ(second_step(theirs, features), second_step(authors, features));
  const Copy silent("dspark-published", [&](ordered_json& config, std::vector<Tensor>& tensors) {
    as_theirs(config, tensors);
    config.erase("sample_from_anchor");
  });
  EXPECT_THAT(error_of([&] { DFlashNetwork(Checkpoint(silent.folder.path()), *target, best_kernels()); }),
              testing::HasSubstr("sample_from_anchor"));
}

/// DeepSpec's own DFlash: a block that drafts from the anchor's row on, without a Markov head.
TEST(DFlashFromAnchor, DraftsFromTheFirstRowOn) {
  const auto target = target_of("dflash-full");
  DFlashNetwork behind(Checkpoint(external_dir / "dflash-full"), *target, best_kernels());
  const std::vector<float> features = features_of(*target, behind, 9);
  const Copy copy("dflash-full", [](ordered_json& config, std::vector<Tensor>&) {
    config["dflash_config"]["sample_from_anchor"] = true;
  });
  DFlashNetwork from(Checkpoint(copy.folder.path()), *target, best_kernels());
  EXPECT_EQ(from.config().longest_chain(), behind.config().longest_chain() + 1);
  const auto compute = [&](DFlashNetwork& draft) {
    const auto context = draft.new_context(20, 20);
    const DFlashNetwork::ContextRows rows = {context.get(), features, 9};
    draft.append(std::span(&rows, 1));
    DFlashNetwork::Block block = {context.get(), 5, draft.config().longest_chain()};
    draft.compute(std::span(&block, 1));
    return std::vector<float>(block.logits.begin(), block.logits.end());
  };
  std::vector<float> all = compute(from);
  EXPECT_EQ(all.size(), 4U * 160);
  all.erase(all.begin(), all.begin() + 160);
  EXPECT_TRUE(same_bits(all, compute(behind)));
}

double furthest(std::span<const float> a, std::span<const float> b) {
  double max = 0;
  for (std::size_t i = 0; i < a.size(); ++i) max = std::max(max, std::abs(static_cast<double>(a[i]) - b[i]));
  return max;
}

/// In the draft of three layers two slide, over less than the window.
TEST(DFlashWindow, SeesTheLastPositionsOfTheTextAndNoOthers) {
  constexpr int window = 12;
  for (const char* name : {"dflash-full", "dflash-mixed"}) {
    const auto target = target_of(name);
    const Checkpoint files(external_dir / name);
    DFlashNetwork full(files, *target, in_floats(best_kernels()));
    DFlashNetwork windowed(files, *target, in_floats(best_kernels()), window);
    const std::vector<float> features = features_of(*target, full, 60);
    const std::size_t width = full.config().taps.size() * static_cast<std::size_t>(target->hidden());
    const auto part = [&](int from, int rows) {
      return std::span(features).subspan(static_cast<std::size_t>(from) * width,
                                         static_cast<std::size_t>(rows) * width);
    };
    for (int length = 1; length <= window; ++length) {
      EXPECT_TRUE(same_bits(logits_of(windowed, part(0, length)), logits_of(full, part(0, length)))) << length;
    }
    for (const int length : {window + 1, window + 2, 31, 48, 60}) {
      const std::vector<float> got = logits_of(windowed, part(0, length));
      for (const int piece : {3, 16, 60}) {
        EXPECT_TRUE(same_bits(logits_of(windowed, part(0, length), piece), got)) << "in pieces of " << piece;
      }
      // Positions enter as distances only, so a draft of these rows alone has the same logits but for rounding.
      const auto alone = [&](int rows) { return furthest(logits_of(full, part(length - rows, rows)), got); };
      EXPECT_LT(alone(window), 1e-4) << name << " at " << length;
      EXPECT_GT(alone(window - 1), 1e-2) << name << " at " << length;
      EXPECT_GT(alone(window + 1), 1e-2) << name << " at " << length;

      const auto changed = [&](int position) {
        std::vector<float> other(part(0, length).begin(), part(0, length).end());
        other[static_cast<std::size_t>(position) * width] += 1;
        return !same_bits(logits_of(windowed, other), got);
      };
      EXPECT_TRUE(changed(length - window));
      for (int position = 0; position < length - window; ++position) EXPECT_FALSE(changed(position)) << position;
    }
  }
}

/// Blocks between the pieces are written and dropped again, in the smallest possible cache.
TEST(DFlashWindow, ThatWrapsItsRingAndDropsBlocksEqualsOneComputedFromScratch) {
  constexpr int positions = 90;
  for (const char* name : {"dflash-full", "dflash-mixed"}) {
    const auto target = target_of(name);
    DFlashNetwork windowed(Checkpoint(external_dir / name), *target, best_kernels(), 12);
    const std::vector<float> features = features_of(*target, windowed, positions);
    const std::size_t width = features.size() / positions;
    const int block_size = windowed.config().block_size;
    const auto context = windowed.new_context(positions + block_size, std::max(8, block_size));
    for (int length = 0, piece = 1; length < positions; piece = piece % 8 + 1) {
      const int rows = std::min(piece, positions - length);
      const DFlashNetwork::ContextRows some = {
          context.get(),
          std::span(features).subspan(static_cast<std::size_t>(length) * width, static_cast<std::size_t>(rows) * width),
          rows};
      windowed.append(std::span(&some, 1));
      length += rows;
      const Fingerprint before = context->digest();
      DFlashNetwork::Block block = {context.get(), 5, block_size - 1};
      windowed.compute(std::span(&block, 1));
      const std::vector<float> wrapped(block.logits.begin(), block.logits.end());
      EXPECT_EQ(context->digest(), before);
      EXPECT_TRUE(same_bits(
          wrapped, logits_of(windowed, std::span(features).first(static_cast<std::size_t>(length) * width), 128)))
          << name << " at " << length;
    }
  }
}

TEST(DFlashWindow, KeepsNoMoreThanItShows) {
  const auto target = target_of("dflash-full");
  const Checkpoint files(external_dir / "dflash-full");
  DFlashNetwork windowed(files, *target, best_kernels(), 12);
  const auto context = windowed.new_context(4096, 8);
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(context->layer<AttentionCache>(layer).window(), 13);
    EXPECT_LE(context->layer<AttentionCache>(layer).kv().blocks, 2) << "13 + 8 positions in blocks of 16";
  }
}

}  // namespace
}  // namespace draftproof::test::dflash_variants_test
