// SPDX-License-Identifier: MIT
// Compares our assistants of Gemma 4 with transformers (float32) and with the float64 twin, and with themselves for
// other chunkings, batches, positions, formats and files; and what their checkpoints may say.
#include "ref/models/gemma4_assistant.h"

#include <fmt/format.h>

#include <fstream>

#include "ref/base/error.h"
#include "ref/caches/feature_cache.h"
#include "ref/models/memory.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"
#include "tests/models/gemma_twin.h"
#include "tests/models/stored_answers.h"

namespace draftproof::test::gemma4_assistant_test {
namespace {

using testing::HasSubstr;

constexpr int case_count = 5;
constexpr int steps = 4;
constexpr int window = 4;  // of the fixtures

std::filesystem::path target_of(const std::filesystem::path& assistant) {
  return external_dir / Hdf5::open(assistant / "answers.h5").read_string_attribute("/", "target");
}

/// Mistakes around the layers.
enum class Slip {
  none,
  hidden_first,        // in the concatenation
  unscaled_embedding,  // without sqrt(B)
  tap_without_norm,    // the feature is the output of the target's last layer
  feature_of_the_one_before,
  recycled_before_norm,     // post_projection of what enters the final norm
  first_feature_again,      // in every step
  advancing_position,       // step i at position n + i
  position_of_the_feature,  // n - 1
};

/// The question of one stored case.
struct Input {
  std::vector<Token> committed, chain;  // the chain: the anchor, and what is proposed greedily after it

  Input(const Hdf5& file, int index) {
    const std::string path = "case" + std::to_string(index) + "/";
    committed = stored_tokens(file, "tokens");
    committed.resize(static_cast<std::size_t>(stored<std::int32_t>(file, path + "committed").at(0)));
    chain = stored_tokens(file, path + "chain");
  }
};

Rows row_of(const Rows& rows, int row) {
  Rows one(1, rows.width);
  std::copy_n(rows.row(row), rows.width, one.row(0));
  return one;
}

/// The float64 twin: features and logits of the chain's rows.
std::vector<Rows> twin_answers(const TwinCheckpoint& target, const TwinCheckpoint& assistant, const Input& input,
                               Rounding round, Slip slip = Slip::none, Mistake mistake = Mistake::none) {
  const int n = static_cast<int>(input.committed.size());
  GemmaTwin lender(target, round, Mistake::none);
  const std::vector<Rows> read = lender.answers(input.committed);
  const Rows& features = read[static_cast<std::size_t>(target.layers) + (slip == Slip::tap_without_norm ? 0 : 1)];
  Rows feature = row_of(features, n - (slip == Slip::feature_of_the_one_before && n > 1 ? 2 : 1));
  const Rows first = feature;
  std::vector<Rows> answers(2);
  for (int step = 0; step < steps; ++step) {
    Rows embedding = embedded(target, {input.chain[static_cast<std::size_t>(step)]});
    const double scale = round(std::sqrt(static_cast<double>(embedding.width)));
    for (double& value : embedding.at) value = slip == Slip::unscaled_embedding ? value : round(value * scale);
    const Rows& hidden = slip == Slip::first_feature_again ? first : feature;
    Rows joined(1, 2 * embedding.width);
    std::copy_n(embedding.at.begin(), embedding.width,
                joined.at.begin() + (slip == Slip::hidden_first ? embedding.width : 0));
    std::copy_n(hidden.at.begin(), hidden.width, joined.at.begin() + (slip == Slip::hidden_first ? 0 : hidden.width));
    const int position = n + (slip == Slip::advancing_position ? step : slip == Slip::position_of_the_feature ? -1 : 0);
    GemmaTwin layers(assistant, round, mistake);
    const Rows x = layers.assist(lender, position, times(joined, assistant["pre_projection"], round));
    const Rows y = rms_norm(x, assistant["norm"], assistant.epsilon, round);
    feature = times(slip == Slip::recycled_before_norm ? x : y, assistant["post_projection"], round);
    answers[0] = below(std::move(answers[0]), feature);
    answers[1] = below(std::move(answers[1]), times(y, assistant["embed_tokens"], round));
  }
  return answers;
}

/// A target and its assistant on one table.
struct Pair {
  std::unique_ptr<Model> target;
  Gemma4Assistant head;
  Pair(const std::filesystem::path& target_path, const std::filesystem::path& path, const LoadOptions& options)
      : target(load_model(Checkpoint(target_path), options)), head(Checkpoint(path), *target, options) {}
  Pair(const std::filesystem::path& path, const LoadOptions& options) : Pair(target_of(path), path, options) {}
};

struct Answer {
  std::vector<float> features, logits;  // of the rows of the chain
  bool operator==(const Answer& other) const {
    return same_bits(features, other.features) && same_bits(logits, other.logits);
  }
};

/// A text that the target has read, in pieces of these sizes, cyclically, and what the head keeps of it.
struct Text {
  std::unique_ptr<Cache> target;
  std::unique_ptr<Cache> own;
  std::vector<float> feature;  // of the last position

  Text(Pair& pair, std::span<const Token> committed, const std::vector<int>& pieces, int spare = 0) {
    const int count = static_cast<int>(committed.size());
    const int capacity = count + steps + spare;
    target = pair.target->new_cache(capacity, capacity);
    std::vector<std::unique_ptr<LayerCache>> layers = pair.head.new_layers(capacity, capacity);
    EXPECT_TRUE(layers.empty());
    layers.push_back(std::make_unique<FeatureCache>(pair.head.width(), capacity));
    own = std::make_unique<Cache>(std::move(layers), capacity, capacity);
    Outputs outputs;
    for (std::size_t i = 0; target->length() < count; ++i) {
      const int first = target->length();
      const int rows = std::min(pieces[i % pieces.size()], count - first);
      const auto piece = committed.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
      Transaction reading = target->begin(rows);
      forward_alone(*pair.target,
                    {.cache = target.get(), .tokens = piece, .taps = pair.head.taps(), .logits_from = rows}, outputs);
      reading.commit(rows);
      observe(pair, piece, outputs.segments[0].features);
    }
  }

  void observe(Pair& pair, std::span<const Token> piece, std::span<const float> tapped) {
    std::vector<float> features(tapped.size());
    pair.head.fuse(tapped, static_cast<int>(piece.size()), features.data());
    Transaction keeping = own->begin(static_cast<int>(piece.size()));
    own->layer<FeatureCache>(0).write(own->length(), features);
    Head::Rows rows = {.cache = own.get(), .tokens = piece, .features = features};
    pair.head.forward(std::span(&rows, 1));
    keeping.commit(static_cast<int>(piece.size()));
    feature.assign(features.end() - pair.head.width(), features.end());
  }
};

/// Continues with the chain, row by row, in a transaction that is rolled back.
Answer ask(Pair& pair, const Text& text, std::span<const Token> chain) {
  constexpr int wanted[] = {0};
  const Fingerprint target = text.target->digest();
  const Fingerprint own = text.own->digest();
  Answer answer;
  {
    const Transaction rolled_back = text.own->begin(static_cast<int>(chain.size()));
    std::vector<float> feature = text.feature;
    for (const Token& token : chain) {
      Head::Rows row = {.cache = text.own.get(),
                        .target = text.target.get(),
                        .tokens = std::span(&token, 1),
                        .features = feature,
                        .wanted = wanted};
      pair.head.forward(std::span(&row, 1));
      EXPECT_EQ(row.error, "");
      answer.logits.insert(answer.logits.end(), row.logits.begin(), row.logits.end());
      feature.assign(row.next_features.begin(), row.next_features.end());
      answer.features.insert(answer.features.end(), feature.begin(), feature.end());
    }
  }
  EXPECT_EQ(text.target->digest(), target) << "the target's cache is only read";
  EXPECT_EQ(text.own->digest(), own) << "a chain leaves a trace";
  return answer;
}

Answer ask(Pair& pair, const Input& input, const std::vector<int>& pieces = {20}, int spare = 0) {
  return ask(pair, Text(pair, input.committed, pieces, spare), std::span(input.chain).first(steps));
}

class AssistantFixture : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return external_dir / GetParam(); }
  Hdf5 answers() const { return Hdf5::open(folder() / "answers.h5"); }
  std::vector<Input> inputs() const {
    std::vector<Input> all;
    for (int i = 0; i < case_count; ++i) all.emplace_back(answers(), i);
    return all;
  }
};

constexpr const char* names[] = {"features", "logits"};

TEST_P(AssistantFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Hdf5 file = answers();
  const TwinCheckpoint target(target_of(folder())), assistant(folder());
  for (int i = 0; i < case_count; ++i) {
    const auto got = twin_answers(target, assistant, Input(file, i), Rounding());
    for (std::size_t a = 0; a < std::size(names); ++a) {
      const auto want = stored<double>(file, fmt::format("case{}/float64/{}", i, names[a]));
      double largest = 0;
      for (const double v : want) largest = std::max(largest, std::abs(v));
      const std::vector<double> tolerance(static_cast<std::size_t>(got[a].rows()), 1e-12 * largest);
      EXPECT_LE(worst_ratio(got[a].at, want, got[a].width, tolerance), 1) << "case " << i << " " << names[a];
    }
  }
}

/// The cases have fewer positions than the window, as many, one more and many more. The bound is that of the whole
/// computation: the target's, whose keys and features are read, and the assistant's.
TEST_P(AssistantFixture, EveryRowOfAChainIsWithinTheRoundingBoundOfTheReferenceWithEveryTable) {
  const Hdf5 file = answers();
  const TwinCheckpoint target(target_of(folder())), assistant(folder());
  const std::vector<Input> asked = inputs();
  std::vector<Bounds> bounds;
  for (const Input& input : asked) {
    bounds.push_back(bounds_of([&](Rounding round) { return twin_answers(target, assistant, input, round); }));
  }
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      Pair pair(folder(), in_floats(*kernels));
      WorstErrors worst(file);
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const Answer ours = ask(pair, asked[i]);
        const std::vector<float> got[] = {ours.features, ours.logits};
        for (std::size_t a = 0; a < std::size(names); ++a) {
          worst.expect_within(got[a], fmt::format("case{}/", i), names[a], bounds[i][a], kernels->name);
        }
      }
      if (kernels == &best_kernels() || numerics == std::string("openblas")) {
        worst.print(GetParam(), kernels->name, bounds.back()[1]);
      }
    }
  }
}

/// The two forms of GELU differ by less than others.
TEST_P(AssistantFixture, EveryMistakeExceedsTheBoundManyTimes) {
  const TwinCheckpoint target(target_of(folder())), assistant(folder());
  const Input input(answers(), case_count - 1);
  const Bounds bounds = bounds_of([&](Rounding round) { return twin_answers(target, assistant, input, round); });
  Pair pair(folder(), in_floats(best_kernels()));
  const Answer ours = ask(pair, input);
  const auto ratio = [&](Slip slip, Mistake mistake) {
    const Rows logits = twin_answers(target, assistant, input, Rounding(), slip, mistake)[1];
    return worst_ratio(ours.logits, logits.at, logits.width, bounds[1]);
  };
  EXPECT_LE(ratio(Slip::none, Mistake::none), 1);
  double smallest = std::numeric_limits<double>::infinity();
  const auto expect_caught = [&](Slip slip, Mistake mistake) {
    const double found = ratio(slip, mistake);
    EXPECT_GT(found, mistake == Mistake::exact_gelu ? 10 : 100)
        << "slip " << static_cast<int>(slip) << ", mistake " << static_cast<int>(mistake);
    smallest = std::min(smallest, found);
  };
  for (const Slip slip : {Slip::hidden_first, Slip::unscaled_embedding, Slip::tap_without_norm,
                          Slip::feature_of_the_one_before, Slip::recycled_before_norm, Slip::first_feature_again,
                          Slip::advancing_position, Slip::position_of_the_feature}) {
    expect_caught(slip, Mistake::none);
  }
  for (const Mistake mistake :
       {Mistake::other_donor, Mistake::window_longer, Mistake::window_shorter, Mistake::swapped_ropes,
        Mistake::scale_of_heads, Mistake::no_layer_scalar, Mistake::scalar_on_branch, Mistake::no_post_norms,
        Mistake::swapped_layer_norms, Mistake::swapped_gate_and_up, Mistake::exact_gelu, Mistake::heads_dealt_out}) {
    if (mistake == Mistake::heads_dealt_out && assistant.heads == assistant.kv_heads) continue;
    expect_caught(Slip::none, mistake);
  }
  fmt::print("{}: the smallest mistake is {:.1e} times the bound\n", GetParam(), smallest);
}

TEST_P(AssistantFixture, ChunksCapacityThreadsAndCanonicalTablesChangeNoBit) {
  std::vector<Answer> want;
  for (const Kernels* kernels : usable_kernels("canonical")) {
    Pair pair(folder(), in_floats(*kernels));
    const std::vector<Input> asked = inputs();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (want.size() == i) want.push_back(ask(pair, asked[i], {1}));
      EXPECT_EQ(ask(pair, asked[i]), want[i]) << kernels->name;
      EXPECT_EQ(ask(pair, asked[i], {3, 1, 2}, 5), want[i]) << kernels->name;
      const Threads two(2);
      EXPECT_EQ(ask(pair, asked[i]), want[i]) << kernels->name;
    }
  }
}

TEST_P(AssistantFixture, GreedyChainsAreThoseOfTransformers) {
  Pair pair(folder(), in_floats(best_kernels()));
  for (const Input& input : inputs()) {
    const Answer ours = ask(pair, input);
    const int vocabulary = pair.target->vocabulary();
    for (int step = 0; step < steps; ++step) {
      const auto row = ours.logits.begin() + std::ptrdiff_t{step} * vocabulary;
      EXPECT_EQ(std::max_element(row, row + vocabulary) - row, input.chain[static_cast<std::size_t>(step) + 1]);
    }
  }
}

/// The rows of a tree in one call, and those of several texts, each with the feature of its parent.
TEST_P(AssistantFixture, RowsOfOtherTextsAndOtherBranchesInOneCallChangeNoBit) {
  Pair pair(folder(), in_floats(best_kernels()));
  const auto width = static_cast<std::size_t>(pair.head.width());
  const auto vocabulary = static_cast<std::size_t>(pair.target->vocabulary());
  const std::vector<Input> asked = inputs();
  std::vector<Text> texts;
  std::vector<Answer> want;
  std::vector<std::vector<Token>> tokens;
  std::vector<std::vector<float>> features;
  std::vector<Transaction> transactions;
  std::vector<Head::Rows> batch;
  const std::vector<int> depths = {0, 1, 2, 1, 2};  // a chain, and the same again as a branch beside its second row
  const std::vector<int> wanted = {0, 1, 3, 4};
  for (const Input& input : asked) {
    texts.emplace_back(pair, input.committed, std::vector<int>{20}, 4);
    want.push_back(ask(pair, texts.back(), std::span(input.chain).first(steps)));
    const auto& chain = input.chain;
    tokens.push_back({chain[0], chain[1], chain[2], chain[1], chain[2]});
    std::vector<float>& read = features.emplace_back(texts.back().feature);
    for (const int parent : {0, 1, 0, 1}) {
      const auto from = want.back().features.begin() + parent * static_cast<std::ptrdiff_t>(width);
      read.insert(read.end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    transactions.push_back(texts[i].own->begin(5));
    batch.push_back({.cache = texts[i].own.get(),
                     .target = texts[i].target.get(),
                     .tokens = tokens[i],
                     .depths = depths,
                     .features = features[i],
                     .wanted = wanted});
  }
  pair.head.forward(batch);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(batch[i].logits.size(), wanted.size() * vocabulary);
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      const auto step = static_cast<std::size_t>(depths[static_cast<std::size_t>(wanted[at])]);
      EXPECT_TRUE(same_bits(batch[i].logits.subspan(at * vocabulary, vocabulary),
                            std::span(want[i].logits).subspan(step * vocabulary, vocabulary)));
      EXPECT_TRUE(same_bits(batch[i].next_features.subspan(at * width, width),
                            std::span(want[i].features).subspan(step * width, width)));
    }
  }
}

/// Refused rows are written over positions that have left the window, and past the end.
TEST_P(AssistantFixture, ReadsCommittedRowsOnlyWhateverWasRefused) {
  Pair pair(folder(), in_floats(best_kernels()));
  for (const Input& input : inputs()) {
    const Text text(pair, input.committed, {7}, 8);
    const Answer want = ask(pair, text, std::span(input.chain).first(steps));
    Outputs outputs;
    for (int refused = 1; refused <= 2 * window; ++refused) {
      std::vector<Token> wrong;
      for (int i = 0; i < refused; ++i) wrong.push_back((input.chain[0] + 1 + i) % pair.target->vocabulary());
      {
        const Transaction rolled_back = text.target->begin(refused);
        forward_alone(*pair.target, {.cache = text.target.get(), .tokens = wrong, .logits_from = refused}, outputs);
      }
      EXPECT_EQ(ask(pair, text, std::span(input.chain).first(steps)), want) << refused << " refused";
    }
  }
}

TEST_P(AssistantFixture, ARowBeforeWhichNothingIsCommittedIsComputedFromItsTokenAlone) {
  Pair pair(folder(), in_floats(best_kernels()));
  const Text text(pair, {}, {1});
  constexpr int wanted[] = {0};
  std::vector<std::vector<float>> logits;
  for (const Token token : {3, 4}) {
    const Transaction rolled_back = text.own->begin(1);
    const std::vector<float> zeros(static_cast<std::size_t>(pair.head.width()));
    Head::Rows row = {.cache = text.own.get(),
                      .target = text.target.get(),
                      .tokens = std::span(&token, 1),
                      .features = zeros,
                      .wanted = wanted};
    pair.head.forward(std::span(&row, 1));
    EXPECT_EQ(row.error, "");
    logits.emplace_back(row.logits.begin(), row.logits.end());
  }
  EXPECT_FALSE(same_bits(logits[0], logits[1]));
}

using AssistantDeathTest = AssistantFixture;

TEST_P(AssistantDeathTest, ATargetsCacheOfAnotherTextIsAMistakeOfOurs) {
  Pair pair(folder(), in_floats(best_kernels()));
  const std::vector<Token> tokens = {1, 2, 3};
  const Text longer(pair, tokens, {3}), shorter(pair, std::span(tokens).first(2), {3});
  const auto propose = [&](const Cache* target) {
    constexpr int wanted[] = {0};
    const Transaction rolled_back = shorter.own->begin(1);
    Head::Rows row = {.cache = shorter.own.get(),
                      .target = target,
                      .tokens = std::span(tokens).first(1),
                      .features = shorter.feature,
                      .wanted = wanted};
    pair.head.forward(std::span(&row, 1));
  };
  propose(shorter.target.get());
  EXPECT_DEATH(propose(longer.target.get()), "the target's cache holds the same text");
  EXPECT_DEATH(propose(nullptr), "the target's cache holds the same text");
  const Transaction open = shorter.target->begin(1);
  EXPECT_DEATH(propose(shorter.target.get()), "pending rows are read by the model only that writes them");
}

TEST_P(AssistantFixture, EveryFormatOfKeysAndValuesCanBeRead) {
  const Input input(answers(), case_count - 1);
  Pair exact(folder(), in_floats(best_kernels()));
  const Answer want = ask(exact, input);
  for (const KvFormat format : {KvFormat::bf16, KvFormat::q8}) {
    Pair pair(folder(), LoadOptions(best_kernels(), Quantization::f32, format));
    const Answer whole = ask(pair, input);
    EXPECT_EQ(ask(pair, input, {3, 1}), whole);
    EXPECT_FALSE(whole == want) << "the format has no effect";
  }
}

INSTANTIATE_TEST_SUITE_P(All, AssistantFixture, testing::Values("gemma4-assistant", "gemma4-assistant-ordered"),
                         printable_name);
INSTANTIATE_TEST_SUITE_P(All, AssistantDeathTest, testing::Values("gemma4-assistant", "gemma4-assistant-ordered"),
                         printable_name);

/// What is thrown when an assistant is read for a target from a copy in which `from` in its config says `to`.
std::string error_of(const std::string& fixture, const std::filesystem::path& target, const std::string& from,
                     const std::string& to) {
  const TemporaryFolder copy;
  std::string config = bytes_of_file(external_dir / fixture / "config.json");
  EXPECT_NE(config.find(from), std::string::npos) << from;
  copy.write("config.json", config.replace(config.find(from), from.size(), to));
  std::filesystem::copy(external_dir / fixture / "model.safetensors", copy.path() / "model.safetensors");
  try {
    const Pair pair(target, copy.path(), in_floats(best_kernels()));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
std::string error_of(const std::string& fixture, const std::string& from, const std::string& to) {
  return error_of(fixture, target_of(external_dir / fixture), from, to);
}

TEST(Gemma4Assistant, WhatDoesNotFitTheTargetIsRefusedInOneSentence) {
  const std::string one = "gemma4-assistant";
  const std::string ordered = "gemma4-assistant-ordered";
  EXPECT_EQ(error_of(one, "{", "{"), "");
  EXPECT_EQ(error_of(ordered, "{", "{"), "");
  for (const char* other : {"qwen3-tiny-tied", "gemma3-tiny"}) {
    EXPECT_THAT(error_of(one, external_dir / other, "{", "{"),
                HasSubstr(": is an assistant of a Gemma 4, and the target is another model; name it with the target "
                          "that it was made for, or choose another draft"));
  }
  EXPECT_THAT(error_of(one, "\"backbone_hidden_size\": 16", "\"backbone_hidden_size\": 32"),
              HasSubstr("config.json: field backbone_hidden_size: makes it an assistant of a target of the hidden_size "
                        "32, but the target's is 16"));
  EXPECT_THAT(error_of(one, "\"vocab_size\": 48", "\"vocab_size\": 47"),
              HasSubstr("vocab_size: does not fit the target's vocabulary of 48"));
  EXPECT_THAT(error_of(one, "\"head_dim\": 8", "\"head_dim\": 12"),
              HasSubstr("head_dim: gives layer 0 heads of 12 values, but the keys that it reads, of the target's layer "
                        "4, have 8"));
  EXPECT_THAT(error_of(one, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"),
              HasSubstr("num_key_value_heads: gives layer 0 3 KV heads, but the keys that it reads, of the target's "
                        "layer 4, are of 2"));
  EXPECT_THAT(error_of(one, "\"sliding_window\": 4", "\"sliding_window\": 5"),
              HasSubstr("sliding_window: gives layer 0 a window of 5, but the keys that it reads, of the target's "
                        "layer 4, are kept for 4"));
  EXPECT_THAT(error_of(one, "\"num_kv_shared_layers\": 3", "\"num_kv_shared_layers\": 1"),
              HasSubstr("num_kv_shared_layers: must be the number of layers"));
  EXPECT_THAT(error_of(one, "\"enable_moe_block\": false", "\"enable_moe_block\": true"),
              HasSubstr("enable_moe_block: is not implemented for assistants"));
}

TEST(Gemma4Assistant, ATargetWithoutALayerOfTheKindIsRefused) {
  const Checkpoint assistant(external_dir / "gemma4-assistant");
  struct AllFull final : OneByOneModel {
    explicit AllFull(const TransformerConfig& config) : config_(config) {
      for (LayerConfig& layer : config_.layers) std::get<AttentionLayer>(layer.mixer).window = 0;
    }
    int vocabulary() const override { return config_.vocabulary; }
    int context() const override { return config_.context; }
    int layers() const override { return config_.depth(); }
    int hidden() const override { return config_.hidden; }
    const TransformerConfig* transformer() const override { return &config_; }
    std::unique_ptr<Cache> new_cache(int, int) const override { return nullptr; }
    void forward_one(const Segment&, Outputs&) override {}
    TransformerConfig config_;
  };
  const AllFull target(describe(Json::read(external_dir / "gemma4-tiny" / "config.json")));
  try {
    read_gemma4_assistant(assistant, target);
    ADD_FAILURE() << "a sliding layer reads keys of everything";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layer_types: gives layer 0 sliding attention, and the target has no such "
                                        "layer with keys of its own"));
  }
}

TEST(Gemma4Assistant, ReadsTheLastLayersOfEachKindThatHaveKeysOfTheirOwn) {
  const auto donors = [](const char* fixture) {
    const std::filesystem::path path = external_dir / fixture;
    const auto target = load_model(Checkpoint(target_of(path)), best_kernels());
    const TransformerConfig config = read_gemma4_assistant(Checkpoint(path), *target);
    std::vector<int> list;
    for (int i = 0; i < config.depth(); ++i) list.push_back(config.attention(i).donor);
    return list;
  };
  EXPECT_THAT(donors("gemma4-assistant"), testing::ElementsAre(4, 4, 5));
  EXPECT_THAT(donors("gemma4-assistant-ordered"), testing::ElementsAre(1, 3, 3, 1));
}

TEST(Gemma4Assistant, KeepsOneFeatureForEachPositionAndNoKeys) {
  const Checkpoint files(external_dir / "gemma4-assistant");
  const MemoryNeed need = model_need(files, best_kernels());
  EXPECT_EQ(need.cache_fixed, 0U);
  EXPECT_EQ(need.cache_per_position, 16 * sizeof(float));
  std::uint64_t weights = 0;
  for (const auto& [format, bytes] : need.weights) weights += bytes;
  EXPECT_GE(weights, files.bytes());
}

/// The assistant as llama.cpp converts it.
void write_gguf(const std::filesystem::path& path) {
  const Checkpoint from(external_dir / "gemma4-assistant");
  const std::pair<std::string, std::string> spellings[] = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"pre_projection.", "nextn.pre_projection."},
      {"post_projection.", "nextn.post_projection."},
      {"model.layers.", "blk."},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "post_attention_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"layer_scalar", "layer_output_scale.weight"},
  };
  GgufBytes file;
  const std::string prefix = "gemma4-assistant.";
  file.text("general.architecture", "gemma4-assistant");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, std::uint32_t>>{{"block_count", 3},
                                                                    {"nextn_predict_layers", 3},
                                                                    {"context_length", 512},
                                                                    {"embedding_length", 12},
                                                                    {"embedding_length_out", 16},
                                                                    {"feed_forward_length", 20},
                                                                    {"attention.head_count", 6},
                                                                    {"attention.shared_kv_layers", 3},
                                                                    {"attention.sliding_window", 4},
                                                                    {"attention.key_length", 16},
                                                                    {"attention.value_length", 16},
                                                                    {"attention.key_length_swa", 8},
                                                                    {"attention.value_length_swa", 8},
                                                                    {"rope.dimension_count", 16},
                                                                    {"rope.dimension_count_swa", 8},
                                                                    {"embedding_length_per_layer_input", 0}}) {
    file.number(prefix + key, value);
  }
  file.integers(prefix + "attention.head_count_kv", {2, 2, 1});
  file.put(prefix + "attention.sliding_window_pattern", 9, GgufBytes::array_head(7, 3) + std::string("\1\1\0", 3));
  for (const auto& [key, value] :
       {std::pair("attention.layer_norm_rms_epsilon", 1e-6F), {"rope.freq_base", 1e6F}, {"rope.freq_base_swa", 1e4F}}) {
    file.put(prefix + key, 6, GgufBytes::raw(value));
  }
  std::string data;
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> extents, const std::vector<float>& values) {
    data.resize((data.size() + 31) / 32 * 32);
    file.tensor(name, std::move(extents), 0, data.size());
    data += bytes_of(values);
  };
  for (const auto& [name, tensor] : from.tensors()) {
    std::string in_file = name;
    for (const auto& [part, other] : spellings) {
      if (const std::size_t at = in_file.find(part); at != std::string::npos) in_file.replace(at, part.size(), other);
    }
    add(in_file, {tensor.shape.rbegin(), tensor.shape.rend()}, from.floats(name, tensor.shape));
  }
  std::vector<float> factors(8, 1e30F);
  factors[0] = factors[1] = 1;
  add("rope_freqs.weight", {8}, factors);
  file.data(data);
  std::ofstream(path, std::ios::binary) << file.bytes();
}

TEST(Gemma4AssistantGguf, HasTheBitsOfTheFolder) {
  const TemporaryFolder folder;
  write_gguf(folder.path() / "assistant.gguf");
  Pair gguf(external_dir / "gemma4-tiny", folder.path() / "assistant.gguf", in_floats(best_kernels()));
  Pair original(external_dir / "gemma4-assistant", in_floats(best_kernels()));
  const Hdf5 file = Hdf5::open(external_dir / "gemma4-assistant" / "answers.h5");
  for (int i = 0; i < case_count; ++i) {
    const Input input(file, i);
    EXPECT_EQ(ask(gguf, input), ask(original, input)) << "case " << i;
  }
}

}  // namespace
}  // namespace draftproof::test::gemma4_assistant_test
