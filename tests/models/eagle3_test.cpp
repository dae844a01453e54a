// SPDX-License-Identifier: MIT
// Compares our EAGLE-3 and P-EAGLE with transformers' layers and speculators' models (float32), with the float64 twins,
// and with itself for other chunkings and trees; and what its checkpoints may say.
#include "ref/models/eagle3.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"
#include "tests/models/stored_answers.h"

namespace draftproof::test::eagle3_test {
namespace {

constexpr int case_count = 4;
constexpr int steps = 4;  // rows that follow the committed ones
constexpr float never = -std::numeric_limits<float>::infinity();

std::filesystem::path target_of(const std::filesystem::path& draft) {
  return external_dir / Hdf5::open(draft / "answers.h5").read_string_attribute("/", "target");
}

/// A target and its draft on one table.
struct Pair {
  std::unique_ptr<Model> target;
  Eagle3Head head;
  std::vector<Token> draft_tokens;
  Pair(const std::filesystem::path& folder, const Kernels& kernels)
      : target(load_model(Checkpoint(target_of(folder)), in_floats(kernels))),
        head(Checkpoint(folder), *target, in_floats(kernels)),
        draft_tokens(read_draft_vocabulary(Checkpoint(folder), head.config().draft_vocabulary, target->vocabulary())) {}
};

/// One stored input with its reference outputs.
struct Input {
  int context = 0;
  std::vector<Token> text;
  std::vector<float> tapped;
  std::string path;

  Input(const Hdf5& file, int index) : path("case" + std::to_string(index) + "/") {
    context = stored<std::int32_t>(file, path + "context_length").at(0);
    text = stored_tokens(file, "tokens");
    tapped = stored<float>(file, path + "features");
  }
  /// What rows 0, 1, ... of the twins read, of P-EAGLE without the masks.
  std::vector<Token> tokens(bool parallel) const {
    return {text.begin() + 1, text.begin() + context + (parallel ? 1 : steps)};
  }
};

struct Answer {
  std::vector<float> fused;
  std::vector<float> next_features;
  std::vector<float> logits;  // over the target's vocabulary
  Fingerprint cache;
  bool operator==(const Answer& other) const {
    return same_bits(fused, other.fused) && same_bits(next_features, other.next_features) &&
           same_bits(logits, other.logits) && cache == other.cache;
  }
};

std::unique_ptr<Cache> new_cache(const Head& head, int capacity, int pending) {
  return std::make_unique<Cache>(head.new_layers(capacity, pending), capacity, pending);
}

/// Reads the rows after the committed ones one by one, each with the feature that the one before gave.
void ask_step_by_step(Head& head, Cache& cache, std::span<const Token> tokens, std::vector<float> feature,
                      Answer& answer) {
  for (const Token& token : tokens) {
    constexpr int wanted[] = {0};
    Head::Rows one = {.cache = &cache, .tokens = std::span(&token, 1), .features = feature, .wanted = wanted};
    head.forward(std::span(&one, 1));
    EXPECT_EQ(one.error, "");
    feature.assign(one.next_features.begin(), one.next_features.end());
    answer.next_features.insert(answer.next_features.end(), feature.begin(), feature.end());
    answer.logits.insert(answer.logits.end(), one.logits.begin(), one.logits.end());
  }
}

/// Reads the anchor's row and those of masks, in one pass.
void ask_in_parallel(Head& head, Cache& cache, Token anchor, std::vector<float> features, Answer& answer) {
  std::vector<Token> tokens(steps, head.mask()->token);
  tokens[0] = anchor;
  std::vector<int> wanted = {0};
  for (int step = 1; step < steps; ++step) {
    wanted.push_back(step);
    features.insert(features.end(), head.mask()->feature.begin(), head.mask()->feature.end());
  }
  Head::Rows rows = {.cache = &cache, .tokens = tokens, .features = features, .wanted = wanted};
  head.forward(std::span(&rows, 1));
  EXPECT_EQ(rows.error, "");
  answer.next_features.assign(rows.next_features.begin(), rows.next_features.end());
  answer.logits.assign(rows.logits.begin(), rows.logits.end());
}

/// Reads committed rows in pieces of these sizes, cyclically, then the rows after them. `spare`: extra capacity.
Answer ask(Eagle3Head& head, std::span<const Token> text, int context, std::span<const float> tapped,
           const std::vector<int>& pieces, int spare = 0) {
  const auto width = static_cast<std::size_t>(head.width());
  Answer answer;
  answer.fused.resize(static_cast<std::size_t>(context) * width);
  head.fuse(tapped, context, answer.fused.data());
  std::vector<float> read(width);  // by row 0
  read.insert(read.end(), answer.fused.begin(), answer.fused.end());
  const int largest = std::max(steps, *std::ranges::max_element(pieces));
  const auto cache = new_cache(head, context + steps + spare, largest + spare);
  int first = 0;
  for (std::size_t i = 0; first < context; ++i) {
    const int rows = std::min(pieces[i % pieces.size()], context - first);
    Transaction transaction = cache->begin(rows);
    Head::Rows some = {.cache = cache.get(),
                       .tokens = text.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows)),
                       .features = std::span(read).subspan(static_cast<std::size_t>(first) * width,
                                                           static_cast<std::size_t>(rows) * width)};
    head.forward(std::span(&some, 1));
    transaction.commit(rows);
    first += rows;
  }
  answer.cache = cache->digest();
  {
    const Transaction rolled_back = cache->begin(steps);
    const std::vector<float> feature(read.end() - static_cast<std::ptrdiff_t>(width), read.end());
    const auto after = text.subspan(static_cast<std::size_t>(context), steps);
    if (head.mask() != nullptr) ask_in_parallel(head, *cache, after[0], feature, answer);
    else ask_step_by_step(head, *cache, after, feature, answer);
  }
  EXPECT_EQ(cache->digest(), answer.cache) << "rows of draft tokens leave a trace";
  return answer;
}

Answer ask(Eagle3Head& head, const Input& input) {
  return ask(head, input.text, input.context, input.tapped, {input.context});
}

/// The logits of the draft's own tokens. Those of all others must be minus infinity.
std::vector<float> of_draft_tokens(const Pair& pair, const std::vector<float>& logits) {
  const auto vocabulary = static_cast<std::size_t>(pair.target->vocabulary());
  std::vector<float> own;
  for (std::size_t row = 0; row < logits.size(); row += vocabulary) {
    for (const Token token : pair.draft_tokens) own.push_back(logits[row + static_cast<std::size_t>(token)]);
    EXPECT_EQ(std::count(logits.begin() + static_cast<std::ptrdiff_t>(row),
                         logits.begin() + static_cast<std::ptrdiff_t>(row + vocabulary), never),
              static_cast<std::ptrdiff_t>(vocabulary - pair.draft_tokens.size()));
  }
  return own;
}

Rows widened(const std::vector<float>& values, int width) {
  Rows rows;
  rows.width = width;
  rows.at.assign(values.begin(), values.end());
  return rows;
}

/// Whether the draft is P-EAGLE.
bool is_parallel(const TwinEagle3& draft) { return draft.checkpoint.has("mask_hidden"); }

std::vector<Rows> twin_answers(const TwinEagle3& draft, const TwinCheckpoint& target, const Rows& tapped,
                               const Input& input, Rounding round, Mistake mistake = Mistake::none) {
  const bool parallel = is_parallel(draft);
  const std::vector<Token> tokens = input.tokens(parallel);
  return parallel ? peagle_answers(draft, target, tapped, tokens, steps, round, mistake)
                  : eagle3_answers(draft, target, tapped, tokens, round, mistake);
}

class Eagle3Fixture : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return external_dir / GetParam(); }
  Hdf5 answers() const { return Hdf5::open(folder() / "answers.h5"); }
};

constexpr const char* names[] = {"fused", "next_features", "logits"};

TEST_P(Eagle3Fixture, TheFloat64TwinEqualsTheStoredReference) {
  const Hdf5 file = answers();
  const TwinEagle3 draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  for (int i = 0; i < case_count; ++i) {
    const Input input(file, i);
    const Rows tapped = widened(input.tapped, draft.checkpoint["fc"].width);
    const auto got = twin_answers(draft, target, tapped, input, {});
    for (std::size_t a = 0; a < std::size(names); ++a) {
      const auto want = stored<double>(file, input.path + "float64/" + names[a]);
      double largest = 0;
      for (const double v : want) largest = std::max(largest, std::abs(v));
      const std::vector<double> tolerance(static_cast<std::size_t>(got[a].rows()), 1e-12 * largest);
      EXPECT_LE(worst_ratio(got[a].at, want, got[a].width, tolerance), 1) << input.path << names[a];
    }
  }
}

TEST_P(Eagle3Fixture, RowsAreWithinTheRoundingBoundOfTheStoredOutputsWithEveryTable) {
  const Hdf5 file = answers();
  const TwinEagle3 draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  std::vector<Input> inputs;
  std::vector<Bounds> bounds;
  for (int i = 0; i < case_count; ++i) {
    const Input& input = inputs.emplace_back(file, i);
    const Rows tapped = widened(input.tapped, draft.checkpoint["fc"].width);
    bounds.push_back(bounds_of([&](Rounding round) { return twin_answers(draft, target, tapped, input, round); }));
  }
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      Pair pair(folder(), *kernels);
      WorstErrors worst(file);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Answer ours = ask(pair.head, inputs[i]);
        const std::vector<float> got[] = {ours.fused, ours.next_features, of_draft_tokens(pair, ours.logits)};
        for (std::size_t a = 0; a < std::size(names); ++a) {
          worst.expect_within(got[a], inputs[i].path, names[a], bounds[i][a], kernels->name);
        }
      }
      if (kernels == &best_kernels() || numerics == std::string("openblas")) {
        worst.print(GetParam(), kernels->name, bounds.back()[2]);
      }
    }
  }
}

/// The target's streams that the draft reads, as the twin computes them.
Rows tapped_streams(const TwinEagle3& draft, const TwinCheckpoint& target, const std::vector<Token>& text,
                    Rounding round, Mistake mistake = Mistake::none) {
  const auto streams = target_answers(target, text, round);
  const std::vector<std::int64_t> ids = draft.layer_ids();
  Rows tapped(static_cast<int>(text.size()), draft.checkpoint["fc"].width);
  for (int row = 0; row < tapped.rows(); ++row) {
    double* to = tapped.row(row);
    for (const std::int64_t id : ids) {
      const auto late = static_cast<std::int64_t>(mistake == Mistake::taps_one_late);
      const Rows& stream = streams[static_cast<std::size_t>(std::min<std::int64_t>(id + late, target.layers))];
      to = std::copy_n(stream.row(row), stream.width, to);
    }
  }
  return tapped;
}

TEST_P(Eagle3Fixture, FeaturesOfOurOwnTargetServeAsWellAsTheStoredOnes) {
  const Hdf5 file = answers();
  const TwinEagle3 draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  Pair pair(folder(), best_kernels());
  for (const int i : {2, 3}) {
    const Input input(file, i);
    const std::vector<Token> committed(input.text.begin(), input.text.begin() + input.context);
    // The stored outputs were computed from the stored features, which are float32 and within the bound, as ours are.
    const auto run = [&](Rounding round, Mistake mistake) {
      return twin_answers(draft, target, tapped_streams(draft, target, committed, round, mistake), input, round);
    };
    const Bounds bounds = bounds_of([&](Rounding round) { return run(round, Mistake::none); });
    const std::vector<int> taps(pair.head.taps().begin(), pair.head.taps().end());
    const Reading reading = read(*pair.target, committed, taps);
    const Answer ours = ask(pair.head, input.text, input.context, reading.features, {3});
    const std::vector<float> got = of_draft_tokens(pair, ours.logits);
    const int width = static_cast<int>(pair.draft_tokens.size());
    const auto want = stored<double>(file, input.path + "float64/logits");
    EXPECT_LE(worst_ratio(got, want, width, bounds[2]) / 2, 1) << input.path;
    EXPECT_GT(worst_ratio(got, run({}, Mistake::taps_one_late)[2].at, width, bounds[2]), 100) << input.path;
  }
}

TEST_P(Eagle3Fixture, EveryMistakeExceedsTheBoundAHundredfold) {
  const TwinEagle3 draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  const Input input(answers(), case_count - 1);  // the longest context
  const Rows tapped = widened(input.tapped, draft.checkpoint["fc"].width);
  const auto twin = [&](Rounding round, Mistake mistake) {
    return twin_answers(draft, target, tapped, input, round, mistake);
  };
  const Bounds bounds = bounds_of([&](Rounding round) { return twin(round, Mistake::none); });
  Pair pair(folder(), best_kernels());
  const std::vector<float> ours = of_draft_tokens(pair, ask(pair.head, input).logits);

  std::vector<Mistake> mistakes = {
      Mistake::feature_first,          Mistake::other_residual,  Mistake::no_hidden_norm,
      Mistake::interleaved_rope,       Mistake::unscaled_scores, Mistake::swapped_gate_and_up,
      Mistake::keys_one_position_late,
  };
  if (is_parallel(draft)) {
    mistakes.insert(mistakes.end(), {Mistake::masks_apart, Mistake::anchor_in_masks, Mistake::last_feature_in_masks});
  } else {
    mistakes.insert(mistakes.end(), {Mistake::unshifted_pairs, Mistake::next_feature_normed});
  }
  if (draft.layers.size() > 1) {
    mistakes.insert(mistakes.end(), {Mistake::no_later_norm, Mistake::later_layers_exchanged});
  }
  if (draft.says("norm_before_fc") || draft.says("fc_norm")) mistakes.push_back(Mistake::no_tap_norms);
  const int kv_heads = draft.checkpoint.kv_heads;
  if (kv_heads > 1 && kv_heads < draft.checkpoint.heads) mistakes.push_back(Mistake::heads_dealt_out);
  if (draft.checkpoint.has(draft.layers[0] + "self_attn.q_norm.weight")) {
    mistakes.insert(mistakes.end(), {Mistake::swapped_head_norms, Mistake::no_key_norm});
  }
  double smallest = std::numeric_limits<double>::infinity();
  for (const Mistake mistake : mistakes) {
    const double ratio =
        worst_ratio(ours, twin({}, mistake)[2].at, static_cast<int>(pair.draft_tokens.size()), bounds[2]);
    EXPECT_GT(ratio, 100) << "mistake " << static_cast<int>(mistake);
    smallest = std::min(smallest, ratio);
  }
  fmt::print("{}: the smallest of {} mistakes is {:.1e} times the bound\n", GetParam(), mistakes.size(), smallest);
}

TEST_P(Eagle3Fixture, BitsDoNotDependOnChunksCapacityThreadsOrCanonicalTable) {
  const Hdf5 file = answers();
  for (int i = 0; i < case_count; ++i) {
    const Input input(file, i);
    std::vector<Answer> reference;
    for (const Kernels* kernels : usable_kernels("canonical")) {
      Pair pair(folder(), *kernels);
      for (const int count : {1, 2}) {
        const Threads guard(count);
        if (reference.empty()) reference.push_back(ask(pair.head, input));
        for (const auto& pieces : std::vector<std::vector<int>>{{1}, {2, 1, 3}, {7}, {5, 1, 16}}) {
          for (const int spare : {0, 5, 40}) {
            EXPECT_EQ(ask(pair.head, input.text, input.context, input.tapped, pieces, spare), reference[0])
                << kernels->name << " " << input.path << "pieces of " << pieces[0] << ", spare " << spare;
          }
        }
      }
    }
  }
}

/// Rows of a text of ours at once, with features that are anything.
struct Text {
  std::vector<Token> tokens;
  std::vector<float> features;
  std::unique_ptr<Cache> cache;

  Text(const Eagle3Head& head, int vocabulary, int rows, int number) : cache(new_cache(head, 64, 64)) {
    for (int i = 0; i < rows; ++i) tokens.push_back((i * 31 + number * 17) % vocabulary);
    for (int i = 0; i < rows * head.width(); ++i) {
      features.push_back(static_cast<float>((i * 37 + number * 11) % 64) / 32 - 1);
    }
  }
  Head::Rows rows(std::span<const int> wanted, std::span<const int> depths = {}) {
    return {.cache = cache.get(), .tokens = tokens, .depths = depths, .features = features, .wanted = wanted};
  }
};

std::vector<float> results(const Head::Rows& rows) {
  std::vector<float> all(rows.logits.begin(), rows.logits.end());
  all.insert(all.end(), rows.next_features.begin(), rows.next_features.end());
  return all;
}

TEST_P(Eagle3Fixture, TextsOfOnePassAreAsTheyAreAlone) {
  Pair pair(folder(), best_kernels());
  const int wanted[][3] = {{0, 1, 2}, {0, 3, 6}, {2, 4, 10}};
  std::vector<Text> together, alone;
  std::vector<Transaction> transactions;
  std::vector<Head::Rows> batch;
  for (int i = 0; i < 3; ++i) {
    together.emplace_back(pair.head, pair.target->vocabulary(), 3 + 4 * i, i);
    alone.emplace_back(pair.head, pair.target->vocabulary(), 3 + 4 * i, i);
  }
  for (int i = 0; i < 3; ++i) {
    transactions.push_back(together[i].cache->begin(11));
    batch.push_back(together[i].rows(wanted[i]));
  }
  pair.head.forward(batch);
  std::vector<std::vector<float>> got;
  for (const Head::Rows& rows : batch) got.push_back(results(rows));
  for (int i = 0; i < 3; ++i) {
    Transaction transaction = alone[i].cache->begin(11);
    Head::Rows own = alone[i].rows(wanted[i]);
    pair.head.forward(std::span(&own, 1));
    EXPECT_TRUE(same_bits(got[static_cast<std::size_t>(i)], results(own))) << i;
    transactions[static_cast<std::size_t>(i)].commit(own.rows());
    transaction.commit(own.rows());
    EXPECT_EQ(together[i].cache->digest(), alone[i].cache->digest());
  }
}

TEST_P(Eagle3Fixture, ABranchOfATreeIsAsIfItWereTheText) {
  Pair pair(folder(), best_kernels());
  const int depths[] = {0, 1, 2, 3, 2, 1, 2, 3};
  constexpr int rows = 8;
  Text tree(pair.head, pair.target->vocabulary(), rows, 5);
  int all[rows];
  std::iota(std::begin(all), std::end(all), 0);
  const Transaction transaction = tree.cache->begin(rows);
  Head::Rows asked = tree.rows(all, depths);
  pair.head.forward(std::span(&asked, 1));
  const std::vector<float> logits(asked.logits.begin(), asked.logits.end());
  const auto vocabulary = static_cast<std::size_t>(pair.target->vocabulary());
  for (int leaf = 0; leaf < rows; ++leaf) {
    Text branch(pair.head, pair.target->vocabulary(), 0, 0);
    std::vector<int> path(static_cast<std::size_t>(depths[leaf]) + 1, -1);
    for (int row = leaf; row >= 0; --row) {
      int& place = path[static_cast<std::size_t>(std::min(depths[row], depths[leaf]))];
      if (place < 0 && depths[row] <= depths[leaf] &&
          (row == leaf || path[static_cast<std::size_t>(depths[row]) + 1] >= 0)) {
        place = row;
      }
    }
    for (const int row : path) {
      branch.tokens.push_back(tree.tokens[static_cast<std::size_t>(row)]);
      const auto from = tree.features.begin() + static_cast<std::ptrdiff_t>(row) * pair.head.width();
      branch.features.insert(branch.features.end(), from, from + pair.head.width());
    }
    const int last[] = {depths[leaf]};
    const Transaction chain = branch.cache->begin(depths[leaf] + 1);
    Head::Rows own = branch.rows(last);
    pair.head.forward(std::span(&own, 1));
    const auto in_tree = std::span(logits).subspan(static_cast<std::size_t>(leaf) * vocabulary, vocabulary);
    EXPECT_TRUE(same_bits(own.logits, in_tree)) << leaf;
  }
}

TEST_P(Eagle3Fixture, NoRowButItselfSeesRow0) {
  Pair pair(folder(), best_kernels());
  const int wanted[] = {0, 1, 2, 3};
  std::vector<float> first;
  for (const int number : {1, 2}) {
    Text text(pair.head, pair.target->vocabulary(), 4, 1);
    text.tokens[0] = number;  // and nothing else
    const Transaction transaction = text.cache->begin(4);
    Head::Rows rows = text.rows(wanted);
    pair.head.forward(std::span(&rows, 1));
    const auto vocabulary = static_cast<std::size_t>(pair.target->vocabulary());
    if (first.empty()) {
      first.assign(rows.logits.begin(), rows.logits.end());
      continue;
    }
    EXPECT_FALSE(same_bits(rows.logits.first(vocabulary), std::span(first).first(vocabulary)));
    EXPECT_TRUE(same_bits(rows.logits.subspan(vocabulary), std::span<const float>(first).subspan(vocabulary)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Eagle3Fixture,
                         testing::Values("eagle3-midlayer", "eagle3-speculators", "eagle3-chunks", "eagle3-layers",
                                         "peagle-windowed", "peagle-whole"),
                         printable_name);

// --- what a checkpoint may say ---------------------------------------------------------------------------------------

using Change = std::function<void(nlohmann::ordered_json& config)>;

/// A copy of a fixture with another config, and with d2t and t2d as they are given here.
struct Copy {
  TemporaryFolder folder;

  explicit Copy(const std::string& like, const Change& change = {},
                const std::function<void(std::vector<Tensor>&)>& change_tensors = {}) {
    const auto original = external_dir / like;
    auto config = nlohmann::ordered_json::parse(bytes_of_file(original / "config.json"));
    if (change) change(config);
    folder.write("config.json", config.dump());
    const Checkpoint from(original);
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : from.tensors()) {
      tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
    }
    if (change_tensors) change_tensors(tensors);
    folder.write("model.safetensors", safetensors(tensors));
  }
};

std::string error_of(const Copy& copy, const std::string& target) {
  const auto model = load_model(Checkpoint(external_dir / target), best_kernels());
  try {
    Eagle3Head(Checkpoint(copy.folder.path()), *model, best_kernels());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// One element of the tensor, as the type.
template <class Value>
std::function<void(std::vector<Tensor>&)> with(const std::string& name, std::size_t at, Value value) {
  return [=](std::vector<Tensor>& tensors) {
    for (Tensor& tensor : tensors) {
      if (tensor.name == name) std::memcpy(tensor.bytes.data() + at * sizeof value, &value, sizeof value);
    }
  };
}

TEST(Eagle3Checkpoint, SaysWhatIsWrongWithItsFields) {
  using testing::HasSubstr;
  const auto field = [](const char* name, nlohmann::ordered_json value) {
    return [=](nlohmann::ordered_json& config) { config[name] = value; };
  };
  const auto midlayer = [&](const Change& change) {
    return error_of(Copy("eagle3-midlayer", change), "qwen3-tiny-sharded");
  };
  EXPECT_EQ(midlayer({}), "");
  EXPECT_THAT(midlayer(field("architectures", {"EagleModel"})), HasSubstr("is not an EAGLE-3 draft"));
  EXPECT_THAT(midlayer(field("vocab_size", 7)), HasSubstr("vocab_size: does not fit the target"));
  EXPECT_THAT(midlayer(field("draft_vocab_size", 0)), HasSubstr("draft_vocab_size"));
  EXPECT_THAT(midlayer(field("draft_vocab_size", 1 << 20)), HasSubstr("draft_vocab_size"));
  EXPECT_THAT(midlayer(field("target_hidden_size", 7)), HasSubstr("target_hidden_size: does not fit the target"));
  EXPECT_THAT(midlayer(field("num_hidden_layers", 2)), HasSubstr("layers.1.self_attn.q_proj.weight"));
  EXPECT_THAT(midlayer([](auto& config) { config["eagle_config"]["next_layer_regular"] = false; }),
              HasSubstr("next_layer_regular: must be true"));
  EXPECT_THAT(midlayer(field("logit_scale", 0.5)), HasSubstr("logit_scale"));
  EXPECT_THAT(midlayer([](auto& config) { config["eagle_config"]["eh_proj_before_attn"] = true; }),
              HasSubstr("eh_proj_before_attn: must be false"));
  EXPECT_THAT(midlayer(field("eagle_aux_hidden_state_layer_ids", {0, 1, 2})), HasSubstr("layer_ids[0]"));
  EXPECT_THAT(midlayer(field("eagle_aux_hidden_state_layer_ids", {1, 2, 5})), HasSubstr("layer_ids[2]"));
  EXPECT_THAT(midlayer(field("eagle_aux_hidden_state_layer_ids", {2, 2, 3})), HasSubstr("must ascend"));
  EXPECT_THAT(midlayer(field("num_target_layers", 77)), HasSubstr("does not fit the target, which has"));
  EXPECT_THAT(midlayer(field("eagle_aux_hidden_state_layer_ids", nlohmann::ordered_json::array())),
              HasSubstr("at least one layer"));
  EXPECT_THAT(midlayer(field("eagle_aux_hidden_state_layer_ids", {1, 3})), HasSubstr("fc.weight"));
  EXPECT_THAT(midlayer(field("eagle_config", nullptr)), HasSubstr("too shallow for the default"));
  EXPECT_THAT(midlayer([](auto& config) { config["eagle_config"]["use_aux_hidden_state"] = false; }),
              HasSubstr("use_aux_hidden_state: must be true"));
  EXPECT_THAT(midlayer(field("norm_before_fc", true)), HasSubstr("input_norm.weight"));
  const auto speculators = [&](const Change& change) {
    return error_of(Copy("eagle3-speculators", change), "qwen3-tiny-sharded");
  };
  EXPECT_EQ(speculators({}), "");
  EXPECT_THAT(speculators([](auto& config) { config.erase("norm_before_residual"); }),
              HasSubstr("needs norm_before_residual"));
  EXPECT_THAT(speculators(field("fc_norm", true)), HasSubstr("norm_before_fc and fc_norm"));
  EXPECT_THAT(speculators([](auto& config) { config["transformer_layer_config"]["vocab_size"] = 7; }),
              HasSubstr("transformer_layer_config.vocab_size"));
}

TEST(Eagle3Checkpoint, SaysWhatIsWrongWithParallelDrafting) {
  using testing::HasSubstr;
  const auto peagle = [&](const Change& change, const std::function<void(std::vector<Tensor>&)>& tensors = {}) {
    return error_of(Copy("peagle-windowed", change, tensors), "qwen3-tiny-sharded");
  };
  EXPECT_EQ(peagle({}), "");
  EXPECT_THAT(peagle([](auto& config) { config.erase("mask_token_id"); }), HasSubstr("needs mask_token_id"));
  EXPECT_THAT(peagle([](auto& config) { config["mask_token_id"] = 144; }), HasSubstr("mask_token_id"));
  EXPECT_THAT(peagle([](auto& config) { config["pard_token"] = 12; }),
              HasSubstr("pard_token: is another mask token than 11"));
  EXPECT_EQ(peagle([](auto& config) { config["ptd_token_id"] = 11; }), "");
  EXPECT_THAT(peagle({}, [](auto& all) { std::erase_if(all, [](auto& one) { return one.name == "mask_hidden"; }); }),
              HasSubstr("mask_hidden"));
  EXPECT_THAT(peagle({},
                     [](auto& all) {
                       for (Tensor& one : all) {
                         if (one.name != "mask_hidden") continue;
                         one.shape = {1, 1, one.shape[2] - 1};
                         one.bytes.resize(one.bytes.size() - 2);
                       }
                     }),
              HasSubstr("mask_hidden has 167 values, and 168"));
  // A head that is not one of P-EAGLE does not know the tensor.
  EXPECT_THAT(peagle([](auto& config) {
                config["speculators_model_type"] = "eagle3";
                config.erase("mask_token_id");
              }),
              HasSubstr("mask_hidden"));
}

/// The answer to the last case of a changed copy.
Answer answer_of(const Copy& copy, const std::string& like) {
  std::filesystem::copy(external_dir / like / "answers.h5", copy.folder.path() / "answers.h5",
                        std::filesystem::copy_options::overwrite_existing);
  Pair pair(copy.folder.path(), best_kernels());
  return ask(pair.head, Input(Hdf5::open(copy.folder.path() / "answers.h5"), case_count - 1));
}

/// TensorRT-LLM's names of several layers, and of the norm before the attention of later ones.
TEST(Eagle3Checkpoint, LayersHaveTheNamesOfEitherProgram) {
  const auto renamed = [](std::vector<Tensor>& tensors) {
    for (Tensor& one : tensors) {
      if (!one.name.starts_with("layers.")) continue;
      const std::string later = one.name.starts_with("layers.0.") ? "" : "input_layernorm";
      if (const auto at = one.name.find(later); !later.empty() && at != std::string::npos) {
        one.name.replace(at, later.size(), "hidden_norm");
      }
      one.name = "mid" + std::string("layer") + one.name.substr(6);
    }
  };
  for (const char* name : {"eagle3-layers", "peagle-whole"}) {
    EXPECT_EQ(answer_of(Copy(name, {}, renamed), name), answer_of(Copy(name), name)) << name;
  }
}

/// SpecForge's layout: one block of fields; and the first P-EAGLE heads, whose config only names the mask token.
TEST(Eagle3Checkpoint, ParallelHeadsHaveFlatConfigsToo) {
  const Answer want = answer_of(Copy("peagle-windowed"), "peagle-windowed");
  for (const char* architecture : {"PEagleDraftModel", "LlamaForCausalLMEagle3"}) {
    const Copy flat("peagle-windowed", [&](auto& config) {
      auto block = config["transformer_layer_config"];
      for (const char* name : {"draft_vocab_size", "eagle_aux_hidden_state_layer_ids", "norm_before_fc"}) {
        block[name] = config[name];
      }
      block["architectures"] = {architecture};
      block["ptd_token_id"] = config["mask_token_id"];
      config = block;
    });
    EXPECT_EQ(answer_of(flat, "peagle-windowed"), want) << architecture;
  }
}

/// What fc makes of mask_hidden may be stored in its place.
TEST(Eagle3Checkpoint, TheMaskMayBeStoredBehindFc) {
  const char* const name = "peagle-windowed";
  const auto target = load_model(Checkpoint(external_dir / "qwen3-tiny-sharded"), in_floats(best_kernels()));
  const Eagle3Head head(Checkpoint(external_dir / name), *target, in_floats(best_kernels()));
  const std::vector<float>& feature = head.mask()->feature;
  std::string bytes(feature.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), feature.data(), bytes.size());
  const Copy fused(name, {}, [&](std::vector<Tensor>& tensors) {
    for (Tensor& one : tensors) {
      if (one.name == "mask_hidden") one = {one.name, "F32", {1, static_cast<std::int64_t>(feature.size())}, bytes};
    }
  });
  EXPECT_EQ(answer_of(fused, name), answer_of(Copy(name), name));
}

TEST(Eagle3Checkpoint, SaysWhatIsWrongWithItsVocabulary) {
  using testing::HasSubstr;
  const auto wrong = [](const std::function<void(std::vector<Tensor>&)>& change) {
    return error_of(Copy("eagle3-speculators", {}, change), "qwen3-tiny-sharded");
  };
  EXPECT_THAT(wrong(with("d2t", 3, std::int64_t{-4})), HasSubstr("element 3 of d2t, -4, makes a token outside"));
  EXPECT_THAT(wrong(with("d2t", 3, std::int64_t{1} << 62)), HasSubstr("element 3 of d2t"));
  EXPECT_THAT(wrong(with("d2t", 49, std::int64_t{-49})), HasSubstr("t2d"));
  const Checkpoint files(external_dir / "eagle3-speculators");
  const int vocabulary = describe(Checkpoint(external_dir / "qwen3-tiny-sharded").config()).vocabulary;
  const Token second = read_draft_vocabulary(files, 50, vocabulary)[1];
  EXPECT_THAT(wrong(with("d2t", 5, std::int64_t{second} - 5)),
              HasSubstr("makes token " + std::to_string(second) + " a second time"));
  EXPECT_THAT(wrong(with("t2d", static_cast<std::size_t>(second), std::uint8_t{0})),
              HasSubstr("token " + std::to_string(second) + " is in the draft's vocabulary by one of d2t and t2d"));
  const auto without = [](const std::string& name) {
    return [=](std::vector<Tensor>& all) { std::erase_if(all, [&](const Tensor& one) { return one.name == name; }); };
  };
  EXPECT_EQ(wrong(without("t2d")), "");
  EXPECT_THAT(wrong(without("d2t")), HasSubstr("no tensor d2t that says which"));
  for (const std::string name : {"embed_tokens.weight", "lm_head.weight"}) {
    EXPECT_THAT(wrong(without(name)), HasSubstr("has no " + name + ", and the target's does not fit"));
  }
  EXPECT_THAT(wrong([](std::vector<Tensor>& tensors) {
                for (Tensor& tensor : tensors) {
                  if (tensor.name == "t2d") tensor.dtype = "U8";
                }
              }),
              HasSubstr("BOOL of shape"));
}

/// A borrowed LM head is cut to the draft's tokens.
TEST(Eagle3Checkpoint, ABorrowedHeadProposesNothingOutsideOfTheDraftsVocabulary) {
  const std::vector<std::int64_t> offsets = {5, 5, 9, 9};
  std::string bytes(sizeof(std::int64_t) * offsets.size(), '\0');
  std::memcpy(bytes.data(), offsets.data(), bytes.size());
  const Copy cut(
      "eagle3-chunks", [](auto& config) { config["draft_vocab_size"] = 4; },
      [&](std::vector<Tensor>& tensors) {
        tensors.push_back({"d2t", "I64", {4}, bytes});
      });
  std::filesystem::copy(external_dir / "eagle3-chunks" / "answers.h5", cut.folder.path() / "answers.h5");
  Pair whole(external_dir / "eagle3-chunks", best_kernels());
  Pair own(cut.folder.path(), best_kernels());
  EXPECT_THAT(own.draft_tokens, testing::ElementsAre(5, 6, 11, 12));
  const Input input(Hdf5::open(cut.folder.path() / "answers.h5"), 2);
  const Answer all = ask(whole.head, input);
  const Answer some = ask(own.head, input);
  for (std::size_t i = 0; i < all.logits.size(); ++i) {
    const auto token = static_cast<Token>(i % static_cast<std::size_t>(own.target->vocabulary()));
    const bool drafted = std::ranges::find(own.draft_tokens, token) != own.draft_tokens.end();
    ASSERT_EQ(some.logits[i], drafted ? all.logits[i] : never) << i;
  }
}

TEST(Eagle3Checkpoint, TheDefaultLayersAreTheSecondTheMiddleAndTheThirdFromTheEnd) {
  const Json config = Json::parse(R"({"architectures": ["LlamaForCausalLM"], "draft_vocab_size": 10, "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4, "max_position_embeddings": 9,
      "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 1e4})",
                                  "config.json");
  EXPECT_THAT(read_eagle3_config(config, {32, 8, 10}).taps, testing::ElementsAre(1, 15, 28)) << "what enters 2, 16, 29";
  EXPECT_THAT(read_eagle3_config(config, {7, 8, 10}).taps, testing::ElementsAre(1, 2, 3));
  EXPECT_THROW(read_eagle3_config(config, {6, 8, 10}), Error) << "2, 3, 3";
}

}  // namespace
}  // namespace draftproof::test::eagle3_test
