// SPDX-License-Identifier: MIT
// A DSpark draft that ends its proposals where its confidence head does not trust the next draft token: by `rejection`
// the text has exactly the target's distribution. The head reads the token before, so the confidence that decides on a
// draft token was known before it was drawn. Whoever decides on it by the confidence behind it, which reads it, draws
// from another distribution: the counterexample here, and that in appendix A of arXiv 2607.05147.
#include <gtest/gtest.h>

#include <set>

#include "ref/acceptance/draw.h"
#include "ref/drafts/dflash.h"
#include "ref/models/models.h"
#include "tests/decoding/exact_texts.h"
#include "tests/drafts/support.h"
#include "tests/formats/files.h"

namespace draftproof::min_confidence_test {
namespace {

constexpr int vocabulary = 3;
constexpr double min = 0.5;

/// A folder of a model of random weights, of the width 4.
class Files {
 public:
  Files(const std::string& config, unsigned seed) : state_(seed) {
    folder_.write("config.json", R"({"model_type": "qwen3", "vocab_size": 3, "hidden_size": 4, "head_dim": 4,
        "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 4, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-6, "rope_theta": 100, "hidden_act": "silu", "torch_dtype": "float32", )" +
                                     config);
  }

  void add(const std::string& name, const std::vector<std::int64_t>& shape, float spread) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    std::vector<float> values(count);
    for (float& value : values) {
      state_ = state_ * 1664525U + 1013904223U;
      const float share = static_cast<float>(state_ >> 8) / static_cast<float>(1U << 24);
      value = name.find("norm") != std::string::npos ? 0.6F + share : spread * (2 * share - 1);
    }
    tensors_.push_back({name, "F32", shape, bytes_of(values)});
  }

  void add_layer(const std::string& prefix) {
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      add(prefix + name + ".weight", {4, 4}, 1);
    }
    for (const char* name : {"input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"}) {
      add(prefix + name + ".weight", {4}, 1);
    }
  }

  Checkpoint open() const {
    folder_.write("model.safetensors", safetensors(tensors_));
    return Checkpoint(folder_.path());
  }

 private:
  TemporaryFolder folder_;
  unsigned state_;
  std::vector<Tensor> tensors_;
};

/// A target and a DSpark draft of it, whose blocks have three draft tokens.
struct Pair {
  std::unique_ptr<Model> target;
  std::unique_ptr<DFlashNetwork> network;

  Pair() {
    set_threads(1);
    const LoadOptions in_floats(best_kernels(), Quantization::f32, KvFormat::f32);
    Files of_target(R"("architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 1, "tie_word_embeddings": false})",
                    7);
    of_target.add("model.embed_tokens.weight", {vocabulary, 4}, 1);
    of_target.add("lm_head.weight", {vocabulary, 4}, 0.7F);
    of_target.add("model.norm.weight", {4}, 1);
    of_target.add_layer("model.layers.0.");
    target = load_model(of_target.open(), in_floats);
    Files of_draft(R"("architectures": ["Qwen3DSparkModel"], "num_hidden_layers": 1, "block_size": 3,
        "mask_token_id": 2, "target_layer_ids": [0], "markov_rank": 2, "markov_head_type": "vanilla",
        "enable_confidence_head": true, "confidence_head_with_markov": true})",
                   13);
    of_draft.add("fc.weight", {4, 4}, 1);
    of_draft.add("hidden_norm.weight", {4}, 1);
    of_draft.add("norm.weight", {4}, 1);
    of_draft.add_layer("layers.0.");
    of_draft.add("markov_head.markov_w1.weight", {vocabulary, 2}, 1);
    of_draft.add("markov_head.markov_w2.weight", {vocabulary, 2}, 1.5F);
    of_draft.add("confidence_head.proj.weight", {1, 6}, 2);
    of_draft.add("confidence_head.proj.bias", {1}, 0.2F);
    network = std::make_unique<DFlashNetwork>(of_draft.open(), *target, in_floats);
  }
};

/// Draws as the draft does, but adds a draft token only if the confidence behind it is enough, too.
class LooksBehindItsSample final : public Draft {
 public:
  LooksBehindItsSample(DFlashNetwork& network, RandomSource& random, int capacity)
      : network_(network), random_(random), context_(network.new_context(capacity + 8, max_chunk)) {}
  int draft_max() const override { return network_.config().longest_chain(); }
  std::span<const int> taps() const override { return network_.config().taps; }
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    const DFlashNetwork::ContextRows rows = {context_.get(), features, static_cast<int>(committed.size())};
    network_.append(std::span(&rows, 1));
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    const int position = context_->length() + 1;
    DFlashNetwork::Block block = {context_.get(), anchor, limit};
    network_.compute(std::span(&block, 1));
    const auto computed = [&](int draft, Token previous) {
      DFlashNetwork::Step step = {.block = &block, .draft = draft, .previous = previous};
      network_.step(std::span(&step, 1));
      return std::pair(std::vector<float>(step.logits.begin(), step.logits.end()), step.confidence);
    };
    for (int draft = 0; draft < limit; ++draft) {
      const auto [row, confidence] = computed(draft, anchor);
      if (confidence < min) return;
      const Distribution q = compute_distribution(row, {.temperature = 1}, {});
      const Token token = draftproof::draw(q, draft_key(0, position, draft, Purpose::draft), random_);
      if (draft + 1 < limit && computed(draft + 1, token).second < min) return;
      anchor = builder.draw(row);
      EXPECT_EQ(anchor, token);
    }
  }
  void forget() override {}
  bool needs_no_snapshot() const override { return true; }

 private:
  DFlashNetwork& network_;
  RandomSource& random_;
  std::unique_ptr<Cache> context_;
};

struct Drafted {
  ExactTexts texts;
  int accepted = 0, rejected = 0;  // of all paths
  std::set<int> lengths;           // of proposals that had room for three
};

template <class Open>
Drafted drafted_texts(Model& target, const Asked& request, const Open& open) {
  Drafted drafted;
  drafted.texts = exact_texts(target, rejection, request, open, [&](const Trace& trace) {
    drafted.accepted += trace.statistics.accepted;
    drafted.rejected += trace.statistics.mismatches;
    drafted.lengths.insert(trace.rounds[0].proposal.size());
  });
  return drafted;
}

TEST(MinConfidenceSlow, OfTheTokenBeforeLeavesTheDistributionAndOfTheTokenItselfDoesNot) {
  Pair pair;
  const Asked request = asked({0, 1}, 4, 3, {.temperature = 1});
  const ExactTexts plain = exact_plain_texts(*pair.target, request);
  EXPECT_EQ(plain.size(), 81U);
  const auto drafted = [&](const DFlashShape& shape) {
    return drafted_texts(*pair.target, request, [&](RandomSource&, int capacity) {
      return std::make_unique<DFlashDraft>(*pair.network, capacity, shape);
    });
  };
  const Drafted always = drafted({});
  const Drafted sure = drafted({.min_confidence = min});
  EXPECT_TRUE(always.texts == plain);
  EXPECT_TRUE(sure.texts == plain);
  EXPECT_EQ(always.lengths.size(), 1U);
  EXPECT_GT(sure.lengths.size(), 1U) << "the token before decides, which is drawn";
  EXPECT_GT(sure.accepted, 10);
  EXPECT_GT(sure.rejected, 10);
  const ExactTexts behind = exact_texts(*pair.target, rejection, request, [&](RandomSource& random, int capacity) {
    return std::make_unique<LooksBehindItsSample>(*pair.network, random, capacity);
  });
  EXPECT_GT(distance(behind, plain), Rational(1, 100));
}

TEST(MinConfidence, LeavesTheTextOfPlainDecodingByMatching) {
  Pair pair;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Asked request = asked({0, 1}, 30, 3, {.temperature = 1});
    PhiloxSource random(seed);
    DFlashDraft draft(*pair.network, request.positions(), {.min_confidence = min});
    Decoder decoder(*pair.target, draft, matching, random, request, request, Recording::digests);
    decoder.run();
    EXPECT_EQ(decoder.trace().output, plain_output(*pair.target, request, seed));
  }
}

/// Of two tokens 0 and 1 the target says the first with 0.7, the draft with 0.5; only behind the first one the draft is
/// sure enough.
class AppendixA final : public Draft {
 public:
  AppendixA(RandomSource& random, bool retrospective) : random_(random), retrospective_(retrospective) {}
  int draft_max() const override { return 1; }
  void observe(std::span<const Token> committed, std::span<const float>) override { observed_ += committed.size(); }
  void propose(Token, int, ProposalBuilder& builder) override {
    const std::vector<float> row(2, 0.0F);
    const Distribution q = compute_distribution(row, {.temperature = 1}, {});
    const Key key = draft_key(0, static_cast<int>(observed_) + 1, 0, Purpose::draft);
    if (retrospective_ && draftproof::draw(q, key, random_) == 1) return;
    builder.draw(row);
  }
  void forget() override { observed_ = 0; }
  bool needs_no_snapshot() const override { return true; }

 private:
  RandomSource& random_;
  bool retrospective_;
  std::size_t observed_ = 0;
};

TEST(MinConfidence, TheCounterexampleOfTheAuthorsIsOne) {
  TableModel target(2, [](std::span<const Token>) { return std::vector<float>{0.847297862F, 0.0F}; });  // log(7 / 3)
  const auto first_token = [&](bool retrospective) {
    const Asked request = asked({0}, 2, 1, {.temperature = 1});
    Rational probability = 0;
    const ExactTexts texts = exact_texts(target, rejection, request, [&](RandomSource& random, int) {
      return std::make_unique<AppendixA>(random, retrospective);
    });
    for (const auto& [text, of_text] : texts) {
      if (text[0] == 0) probability += of_text;
    }
    return probability.convert_to<double>();
  };
  EXPECT_NEAR(first_token(false), 0.7, 1e-7);
  EXPECT_NEAR(first_token(true), 0.85, 1e-7);
}

}  // namespace
}  // namespace draftproof::min_confidence_test
