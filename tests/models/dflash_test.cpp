// SPDX-License-Identifier: MIT
// Compares our DFlash with the authors' model code (float32), with the float64 twins, and with itself for other
// chunkings.
#include "ref/models/dflash.h"

#include <fmt/format.h>

#include "tests/models/draft_with_sinks.h"
#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"

namespace draftproof::test::dflash_test {
namespace {

constexpr int case_count = 8;

std::filesystem::path target_of(const std::filesystem::path& draft) {
  return external_dir / Hdf5::open(draft / "answers.h5").read_string_attribute("/", "target");
}

/// A target and its draft on one table.
struct Pair {
  std::unique_ptr<Model> target;
  DFlashNetwork draft;
  Pair(const std::filesystem::path& folder, const Kernels& kernels)
      : target(load_model(Checkpoint(target_of(folder)), in_floats(kernels))),
        draft(Checkpoint(folder), *target, in_floats(kernels)) {}
};

/// One stored input with its reference outputs.
struct Input {
  int context = 0;
  std::vector<Token> block;
  std::vector<float> features;
  std::string path;

  Input(const Hdf5& file, int index) : path("case" + std::to_string(index) + "/") {
    context = stored<std::int32_t>(file, path + "context_length").at(0);
    block = stored_tokens(file, path + "block_tokens");
    features = stored<float>(file, path + "features");
  }
  int masks() const { return static_cast<int>(block.size()) - 1; }
};

struct Answer {
  std::vector<float> context_rows;
  std::vector<float> block_rows;
  std::vector<float> logits;
  Fingerprint context;
  bool operator==(const Answer& other) const {
    return same_bits(context_rows, other.context_rows) && same_bits(block_rows, other.block_rows) &&
           same_bits(logits, other.logits) && context == other.context;
  }
};

/// Appends features in pieces of these sizes, cyclically, then runs one DFlash block. `spare`: extra capacity.
Answer ask(DFlashNetwork& draft, std::span<const float> features, Token anchor, int masks,
           const std::vector<int>& pieces, int spare = 0) {
  const std::size_t width = draft.config().taps.size() * static_cast<std::size_t>(draft.config().transformer.hidden);
  const int rows = static_cast<int>(features.size() / width);
  const int largest = *std::ranges::max_element(pieces);
  const auto context = draft.new_context(rows + 1 + masks + spare, std::max(largest, 1 + masks) + spare);
  Answer answer;
  int first = 0;
  for (std::size_t i = 0; first < rows; ++i) {
    const int piece = std::min(pieces[i % pieces.size()], rows - first);
    const DFlashNetwork::ContextRows some = {
        context.get(),
        features.subspan(static_cast<std::size_t>(first) * width, static_cast<std::size_t>(piece) * width), piece};
    draft.append(std::span(&some, 1));
    answer.context_rows.insert(answer.context_rows.end(), draft.context_rows().begin(), draft.context_rows().end());
    first += piece;
  }
  const Fingerprint before = context->digest();
  DFlashNetwork::Block block = {context.get(), anchor, masks};
  draft.compute(std::span(&block, 1));
  answer.logits.assign(block.logits.begin(), block.logits.end());
  answer.block_rows.assign(draft.block_rows().begin(), draft.block_rows().end());
  answer.context = context->digest();
  EXPECT_EQ(answer.context, before) << "a block leaves a trace in the context";
  EXPECT_EQ(context->length(), rows);
  return answer;
}

Answer ask(DFlashNetwork& draft, const Input& input) {
  return ask(draft, input.features, input.block[0], input.masks(), {input.context});
}

Rows widened(const std::vector<float>& values, int width) {
  Rows rows;
  rows.width = width;
  rows.at.assign(values.begin(), values.end());
  return rows;
}

/// The rows without row 0, that of the anchor, which the engine does not compute.
template <class T>
std::vector<T> from_row_one(std::vector<T> values, int width) {
  values.erase(values.begin(), values.begin() + width);
  return values;
}

/// What a twin computes is what the file has of it under these names.
template <class Values>
void expect_stored(const Hdf5& file, const std::string& path, std::span<const std::string> names, const Values& got) {
  for (std::size_t a = 0; a < names.size(); ++a) {
    const auto want = stored<double>(file, path + "float64/" + names[a]);
    double largest = 0;
    for (const double v : want) largest = std::max(largest, std::abs(v));
    const std::vector<double> tolerance(static_cast<std::size_t>(got[a].rows()), 1e-12 * largest);
    EXPECT_LE(worst_ratio(got[a].at, want, got[a].width, tolerance), 1) << path << names[a];
  }
}

class DFlashFixture : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return external_dir / GetParam(); }
  Hdf5 answers() const { return Hdf5::open(folder() / "answers.h5"); }
};

TEST_P(DFlashFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  for (int i = 0; i < case_count; ++i) {
    const Input input(file, i);
    const auto got = draft_answers(draft, target, widened(input.features, draft["fc"].width), input.block, {});
    const std::string names[] = {"context_rows", "final_norm", "logits"};
    expect_stored(file, input.path, names, got);
  }
}

TEST_P(DFlashFixture, BlocksAndContextRowsAreWithinTheRoundingBoundOfTheAuthorsOutputsWithEveryTable) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  std::vector<Input> inputs;
  std::vector<Bounds> bounds;
  for (int i = 0; i < case_count; ++i) {
    const Input& input = inputs.emplace_back(file, i);
    const Rows features = widened(input.features, draft["fc"].width);
    Bounds& of = bounds.emplace_back(
        bounds_of([&](Rounding round) { return draft_answers(draft, target, features, input.block, round); }));
    of[2].erase(of[2].begin());
  }
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      Pair pair(folder(), *kernels);
      const int hidden = pair.target->hidden();
      const int vocabulary = pair.target->vocabulary();
      double worst64 = 0;
      double worst32 = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Input& input = inputs[i];
        const Answer ours = ask(pair.draft, input);
        const auto check = [&](const char* name, const std::vector<float>& got, int width, std::size_t a) {
          auto want64 = stored<double>(file, input.path + "float64/" + name);
          auto want32 = stored<float>(file, input.path + "float32/" + name);
          if (a == 2) {
            want64 = from_row_one(std::move(want64), width);
            want32 = from_row_one(std::move(want32), width);
          }
          const double against64 = worst_ratio(got, want64, width, bounds[i][a]);
          const double against32 = worst_ratio(got, want32, width, bounds[i][a]) / 2;  // both have errors
          EXPECT_LE(against64, 1) << kernels->name << " " << input.path << name;
          EXPECT_LE(against32, 1) << kernels->name << " " << input.path << name;
          worst64 = std::max(worst64, against64);
          worst32 = std::max(worst32, against32);
        };
        check("context_rows", ours.context_rows, hidden, 0);
        check("final_norm", ours.block_rows, hidden, 1);
        check("logits", ours.logits, vocabulary, 2);
        const auto theirs = from_row_one(stored<float>(file, input.path + "float32/logits"), vocabulary);
        for (std::size_t row = 0; row < theirs.size(); row += static_cast<std::size_t>(vocabulary)) {
          EXPECT_EQ(std::max_element(&ours.logits[row], &ours.logits[row] + vocabulary) - &ours.logits[row],
                    std::max_element(&theirs[row], &theirs[row] + vocabulary) - &theirs[row]);
        }
      }
      if (kernels == &best_kernels() || numerics == std::string("openblas")) {
        fmt::print("{} {}: observed/bound {:.2f} of float64, {:.2f} of float32; logits bound {:.1e}\n", GetParam(),
                   kernels->name, worst64, worst32, *std::ranges::max_element(bounds.back()[2]));
      }
    }
  }
}

TEST_P(DFlashFixture, FeaturesOfOurOwnTargetServeAsWellAsTheStoredOnes) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  const auto text = stored_tokens(file, "tokens");
  const std::vector<int> taps = draft_taps(draft);
  Pair pair(folder(), best_kernels());
  ASSERT_EQ(pair.draft.config().taps, taps);
  double worst = 0;
  for (const int i : {3, 6}) {  // a short DFlash block after 5 positions, a whole one after 20
    const Input input(file, i);
    const std::vector<Token> committed(text.begin(), text.begin() + input.context);
    // The stored outputs were computed from the stored features, which are float32 and within the bound, as ours are.
    Bounds bounds = bounds_of([&](Rounding round) {
      const auto streams = target_answers(target, committed, round);
      Rows features(input.context, draft["fc"].width);
      for (int row = 0; row < input.context; ++row) {
        for (std::size_t t = 0; t < taps.size(); ++t) {
          const Rows& stream = streams[static_cast<std::size_t>(taps[t]) + 1];
          std::copy_n(stream.row(row), stream.width, features.row(row) + t * static_cast<std::size_t>(stream.width));
        }
      }
      return draft_answers(draft, target, std::move(features), input.block, round);
    });
    bounds[2].erase(bounds[2].begin());
    const Reading reading = read(*pair.target, committed, taps);
    const Answer ours = ask(pair.draft, reading.features, input.block[0], input.masks(), {input.context});
    const int vocabulary = pair.target->vocabulary();
    const auto want = from_row_one(stored<double>(file, input.path + "float64/logits"), vocabulary);
    const double ratio = worst_ratio(ours.logits, want, vocabulary, bounds[2]) / 2;
    EXPECT_LE(ratio, 1) << input.path;
    worst = std::max(worst, ratio);
  }
  fmt::print("{}: observed/bound {:.2f} from tokens to block\n", GetParam(), worst);
}

TEST_P(DFlashFixture, EveryMistakeExceedsTheBoundAHundredfold) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  const Input input(file, 6);  // the longest context, a whole DFlash block
  const Rows features = widened(input.features, draft["fc"].width);
  Bounds bounds = bounds_of([&](Rounding round) { return draft_answers(draft, target, features, input.block, round); });
  bounds[2].erase(bounds[2].begin());
  Pair pair(folder(), best_kernels());
  const Answer ours = ask(pair.draft, input);
  const int vocabulary = pair.target->vocabulary();

  std::vector<Mistake> mistakes = {
      Mistake::swapped_head_norms,  Mistake::no_key_norm,      Mistake::keys_one_position_late,
      Mistake::interleaved_rope,    Mistake::unscaled_scores,  Mistake::swapped_gate_and_up,
      Mistake::swapped_layer_norms, Mistake::no_final_norm,    Mistake::no_context_norm,
      Mistake::context_input_norm,  Mistake::context_one_late, Mistake::no_context_key_norm,
      Mistake::next_mask,           Mistake::other_causality,
  };
  // Mistakes that have no effect on some inputs are tested where they have one.
  const auto slides = [](int window) { return window != std::numeric_limits<int>::max(); };
  if (std::ranges::any_of(draft.windows, slides)) {
    mistakes.insert(mistakes.end(), {Mistake::window_longer, Mistake::window_shorter});
  }
  if (draft.kv_heads > 1 && draft.kv_heads < draft.heads) mistakes.push_back(Mistake::heads_dealt_out);
  if (draft_taps(draft).size() > 1) mistakes.push_back(Mistake::reversed_taps);
  if (draft_number(draft, "input_embedding_scale", 1) != 1) mistakes.push_back(Mistake::no_embedding_scale);
  if (draft_number(draft, "output_multiplier", 1) != 1) mistakes.push_back(Mistake::no_multiplier);
  if (draft_number(draft, "final_logit_softcapping", 0) != 0) mistakes.push_back(Mistake::no_cap);

  double smallest = std::numeric_limits<double>::infinity();
  for (const Mistake mistake : mistakes) {
    const auto wrong = draft_answers(draft, target, features, input.block, Rounding(), mistake);
    const double ratio = worst_ratio(ours.logits, from_row_one(wrong[2].at, vocabulary), vocabulary, bounds[2]);
    EXPECT_GT(ratio, 100) << "mistake " << static_cast<int>(mistake);
    smallest = std::min(smallest, ratio);
  }
  // Row i used as the output for position s + i + 1.
  auto early = draft_answers(draft, target, features, input.block, Rounding())[2].at;
  early.resize(early.size() - static_cast<std::size_t>(vocabulary));
  const double ratio = worst_ratio(ours.logits, early, vocabulary, bounds[2]);
  EXPECT_GT(ratio, 100) << "rows off by one";
  fmt::print("{}: the smallest of {} mistakes is {:.1e} times the bound\n", GetParam(), mistakes.size() + 1,
             std::min(smallest, ratio));
}

TEST_P(DFlashFixture, BitsDoNotDependOnChunksCapacityThreadsOrCanonicalTable) {
  const Hdf5 file = answers();
  for (int i = 0; i < case_count; ++i) {
    const Input input(file, i);
    std::vector<Answer> reference;
    for (const Kernels* kernels : usable_kernels("canonical")) {
      Pair pair(folder(), *kernels);
      for (const int count : {1, 2}) {
        const Threads guard(count);
        if (reference.empty()) reference.push_back(ask(pair.draft, input));
        EXPECT_EQ(ask(pair.draft, input), reference[0]) << kernels->name << " " << input.path;
        for (const auto& pieces : std::vector<std::vector<int>>{{1}, {2, 1, 3}, {7}, {5, 1, 16}}) {
          for (const int spare : {0, 5, 40}) {
            EXPECT_EQ(ask(pair.draft, input.features, input.block[0], input.masks(), pieces, spare), reference[0])
                << kernels->name << " " << input.path << "pieces of " << pieces[0] << ", spare " << spare;
          }
        }
      }
    }
  }
}

TEST_P(DFlashFixture, AContextThatWrapsItsRingEqualsOneComputedFromScratch) {
  Pair pair(folder(), best_kernels());
  const int block = pair.draft.config().block_size;
  const auto width = pair.draft.config().taps.size() * static_cast<std::size_t>(pair.target->hidden());
  constexpr int positions = 150;  // many times the sliding windows of 5 and 6 with 8 pending rows
  const std::vector<Token> text = some_text(positions, pair.target->vocabulary());
  const std::vector<float> features = read(*pair.target, text, pair.draft.config().taps).features;

  // Pieces of 1 to 8 rows with a DFlash block after each, in the smallest possible cache.
  const auto context = pair.draft.new_context(positions + block, std::max(8, block));
  for (int length = 0, piece = 1; length < positions; piece = piece % 8 + 1) {
    const int rows = std::min(piece, positions - length);
    const DFlashNetwork::ContextRows some = {
        context.get(),
        std::span(features).subspan(static_cast<std::size_t>(length) * width, static_cast<std::size_t>(rows) * width),
        rows};
    pair.draft.append(std::span(&some, 1));
    length += rows;
    const int masks = 1 + length % (block - 1);
    const Token anchor = text[static_cast<std::size_t>(length) % text.size()];
    DFlashNetwork::Block asked = {context.get(), anchor, masks};
    pair.draft.compute(std::span(&asked, 1));
    const std::vector<float> wrapped(asked.logits.begin(), asked.logits.end());
    const std::span<const float> committed = std::span(features).first(static_cast<std::size_t>(length) * width);
    const Answer scratch = ask(pair.draft, committed, anchor, masks, {length}, positions);
    EXPECT_TRUE(same_bits(wrapped, scratch.logits)) << "at " << length;
    EXPECT_EQ(context->digest(), scratch.context) << "at " << length;
  }
}

TEST_P(DFlashFixture, ALongContextIsWithinTheRoundingBoundOfTheTwin) {
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  Pair pair(folder(), best_kernels());
  const std::vector<Token> text = some_text(90, pair.target->vocabulary());
  const std::vector<float> features = read(*pair.target, text, pair.draft.config().taps).features;
  std::vector<Token> block(static_cast<std::size_t>(pair.draft.config().block_size), pair.draft.config().mask);
  block[0] = text[0];
  const Rows wide = widened(features, draft["fc"].width);
  const auto run = [&](Rounding round) { return draft_answers(draft, target, wide, block, round); };
  Bounds bounds = bounds_of(run);
  bounds[2].erase(bounds[2].begin());
  const int vocabulary = pair.target->vocabulary();
  const auto want = from_row_one(run(Rounding())[2].at, vocabulary);
  const Answer ours = ask(pair.draft, features, block[0], static_cast<int>(block.size()) - 1, {9, 1, 4});
  EXPECT_LE(worst_ratio(ours.logits, want, vocabulary, bounds[2]), 1);
}

/// A copy of a draft whose projections, those of attention and of the MLP, have biases.
void copy_with_biases(const std::filesystem::path& original, const TemporaryFolder& folder) {
  const Checkpoint from(original);
  std::vector<Tensor> tensors;
  unsigned number = 0;
  for (const auto& [name, tensor] : from.tensors()) {
    tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
    if (!name.ends_with("_proj.weight")) continue;
    std::vector<float> bias;
    for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
      bias.push_back(static_cast<float>(++number * 37 % 64) / 64 - 0.5F);
    }
    tensors.push_back({name.substr(0, name.size() - 6) + "bias", "F32", {tensor.shape[0]}, bytes_of(bias)});
  }
  folder.write("model.safetensors", safetensors(tensors));
  std::filesystem::copy(original / "answers.h5", folder.path() / "answers.h5");
  std::string config = bytes_of_file(original / "config.json");
  const std::string unbiased = "\"attention_bias\": false";
  ASSERT_NE(config.find(unbiased), std::string::npos);
  config.replace(config.find(unbiased), unbiased.size(), "\"attention_bias\": true, \"mlp_bias\": true");
  folder.write("config.json", config);
}

TEST(DFlashBiases, OfProjectionsAreAddedToBlocksAndToTheirContext) {
  const auto original = external_dir / "dflash-full";
  const TemporaryFolder folder;
  copy_with_biases(original, folder);
  const Input input(Hdf5::open(folder.path() / "answers.h5"), 6);
  const TwinCheckpoint target(target_of(folder.path()));
  const auto twin = [&, draft = TwinCheckpoint(folder.path())](Rounding round, Mistake mistake) {
    return draft_answers(draft, target, widened(input.features, draft["fc"].width), input.block, round, mistake);
  };
  Bounds bounds = bounds_of([&](Rounding round) { return twin(round, Mistake::none); });
  bounds[2].erase(bounds[2].begin());
  Pair pair(folder.path(), best_kernels());
  const Answer ours = ask(pair.draft, input);
  const auto ratio = [&](Mistake mistake) {
    const Rows logits = twin(Rounding(), mistake)[2];
    return worst_ratio(ours.logits, from_row_one(logits.at, logits.width), logits.width, bounds[2]);
  };
  EXPECT_LE(ratio(Mistake::none), 1);
  EXPECT_GT(ratio(Mistake::no_key_bias), 100);
  EXPECT_GT(ratio(Mistake::no_output_bias), 100);
  EXPECT_GT(ratio(Mistake::no_mlp_bias), 100);
}

TEST(DFlashSinks, TakeTheirShareOfEverySoftmax) {
  const auto original = external_dir / "dflash-full";
  const TemporaryFolder folder;
  copy_with_sinks(original, folder.path());
  std::filesystem::copy(original / "answers.h5", folder.path() / "answers.h5");
  const TwinCheckpoint target(target_of(folder.path()));
  const TwinCheckpoint draft(folder.path());
  for (const int number : {0, 6}) {
    const Input input(Hdf5::open(folder.path() / "answers.h5"), number);
    const auto twin = [&](Rounding round, Mistake mistake) {
      return draft_answers(draft, target, widened(input.features, draft["fc"].width), input.block, round, mistake);
    };
    Bounds bounds = bounds_of([&](Rounding round) { return twin(round, Mistake::none); });
    bounds[2].erase(bounds[2].begin());
    std::optional<Answer> first;
    for (const Kernels* kernels : usable_kernels("canonical")) {
      Pair pair(folder.path(), *kernels);
      const Answer ours = ask(pair.draft, input);
      if (!first) first = ours;
      EXPECT_EQ(ours, *first) << kernels->name;
      const auto ratio = [&](Mistake mistake) {
        const Rows logits = twin(Rounding(), mistake)[2];
        return worst_ratio(ours.logits, from_row_one(logits.at, logits.width), logits.width, bounds[2]);
      };
      EXPECT_LE(ratio(Mistake::none), 1);
      EXPECT_GT(ratio(Mistake::no_sinks), 100);
      EXPECT_GT(ratio(Mistake::sinks_of_next_heads), 100);
    }
  }
}

TEST(DFlashRope, OfADraftMayBeStretched) {
  const auto original = external_dir / "dflash-full";
  const TemporaryFolder folder;
  for (const char* name : {"answers.h5", "model.safetensors"}) {
    std::filesystem::copy(original / name, folder.path() / name);
  }
  std::string config = bytes_of_file(original / "config.json");
  const std::string plain = "\"rope_scaling\": null";
  ASSERT_NE(config.find(plain), std::string::npos);
  config.replace(config.find(plain), plain.size(),
                 R"("rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16})");
  folder.write("config.json", config);

  const Input input(Hdf5::open(folder.path() / "answers.h5"), 6);
  const TwinCheckpoint target(target_of(folder.path()));
  const auto twin_of = [&](const std::filesystem::path& of) {
    return [&, draft = TwinCheckpoint(of)](Rounding round) {
      return draft_answers(draft, target, widened(input.features, draft["fc"].width), input.block, round);
    };
  };
  const auto stretched = twin_of(folder.path());
  Bounds bounds = bounds_of(stretched);
  bounds[2].erase(bounds[2].begin());
  Pair pair(folder.path(), best_kernels());
  const Answer ours = ask(pair.draft, input);
  const auto ratio = [&](const std::vector<Rows>& answers) {
    const Rows& logits = answers[2];
    return worst_ratio(ours.logits, from_row_one(logits.at, logits.width), logits.width, bounds[2]);
  };
  EXPECT_LE(ratio(stretched(Rounding())), 1);
  EXPECT_GT(ratio(twin_of(original)(Rounding())), 100);
}

/// One stored input of a DFlash2 draft: a question, and what its candidate selector chose.
struct Choice {
  Input input;
  TwinSelection selection;

  Choice(const Hdf5& file, int index)
      : input(file, index),
        selection{stored_tokens(file, input.path + "candidates"), stored_tokens(file, input.path + "path")} {}
  int candidates() const { return static_cast<int>(selection.candidates.size()) / input.masks(); }

  std::vector<Rows> twin(const TwinCheckpoint& draft, const TwinCheckpoint& target, Rounding round,
                         Mistake mistake = Mistake::none) const {
    return draft_answers(draft, target, widened(input.features, draft["fc"].width), input.block, round, mistake,
                         &selection);
  }

  /// The engine's scores along the stored path.
  std::vector<float> scores(DFlashNetwork& draft, const DFlashNetwork::Block& block) const {
    const auto width = static_cast<std::size_t>(candidates());
    std::vector<float> scores(selection.candidates.size());
    Token previous = input.block[0];
    for (int mask = 0; mask < input.masks(); ++mask) {
      const std::size_t first = static_cast<std::size_t>(mask) * width;
      draft.score(block, mask, previous, std::span(selection.candidates).subspan(first, width),
                  std::span(scores).subspan(first, width));
      previous = selection.path[static_cast<std::size_t>(mask)];
    }
    return scores;
  }
};

constexpr int choice_count = 3;

class DFlash2Fixture : public DFlashFixture {
 protected:
  std::unique_ptr<Cache> context_of(DFlashNetwork& draft, const Input& input) const {
    auto context = draft.new_context(input.context + 16, std::max(input.context, 16));
    const DFlashNetwork::ContextRows rows = {context.get(), input.features, input.context};
    draft.append(std::span(&rows, 1));
    return context;
  }
};

TEST_P(DFlash2Fixture, TheFloat64TwinEqualsTheStoredReference) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  for (int i = 0; i < choice_count; ++i) {
    const Choice choice(file, i);
    const auto got = choice.twin(draft, target, {});
    const std::string names[] = {"context_rows", "final_norm", "logits", "scores"};
    expect_stored(file, choice.input.path, names, got);
  }
}

TEST_P(DFlash2Fixture, BlocksAndScoresAreWithinTheRoundingBoundWithEveryTableAndEveryMistakeIsFarOutsideOfIt) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  const bool capped = draft_number(draft, "final_logit_softcapping", 0) != 0;
  std::vector<Mistake> mistakes = {
      Mistake::swapped_side_and_tap,   Mistake::swapped_dynamic_side,  Mistake::kernels_of_convolved,
      Mistake::anchor_has_predecessor, Mistake::no_convolution_behind, Mistake::selector_from_anchor,
      Mistake::selector_of_next,       Mistake::no_key_norm,           Mistake::other_causality};
  if (capped) mistakes.insert(mistakes.end(), {Mistake::no_cap, Mistake::no_multiplier});
  double worst = 0;
  double smallest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < choice_count; ++i) {
    const Choice choice(file, i);
    const Bounds bounds = bounds_of([&](Rounding round) { return choice.twin(draft, target, round); });
    const std::vector<double> of_masks(bounds[2].begin() + 1, bounds[2].end());
    for (const char* numerics : {"canonical", "openblas"}) {
      for (const Kernels* kernels : usable_kernels(numerics)) {
        Pair pair(folder(), *kernels);
        const auto context = context_of(pair.draft, choice.input);
        DFlashNetwork::Block block = {context.get(), choice.input.block[0], choice.input.masks()};
        pair.draft.compute(std::span(&block, 1));
        const int vocabulary = pair.target->vocabulary();
        const std::vector<float> logits(block.logits.begin(), block.logits.end());
        const std::vector<float> scores = choice.scores(pair.draft, block);
        const auto ratios = [&](const std::vector<Rows>& of) {
          return std::max(worst_ratio(logits, from_row_one(of[2].at, vocabulary), vocabulary, of_masks),
                          worst_ratio(scores, of[3].at, choice.candidates(), bounds[3]));
        };
        const double ratio = ratios(choice.twin(draft, target, Rounding()));
        EXPECT_LE(ratio, 1) << kernels->name << " " << choice.input.path;
        worst = std::max(worst, ratio);
        if (kernels != &best_kernels()) continue;
        for (const Mistake mistake : mistakes) {
          const double wrong = ratios(choice.twin(draft, target, Rounding(), mistake));
          EXPECT_GT(wrong, 100) << "mistake " << static_cast<int>(mistake) << " " << choice.input.path;
          smallest = std::min(smallest, wrong);
        }
      }
    }
  }
  fmt::print("{}: observed/bound {:.2f}; the smallest mistake is {:.1e} times it\n", GetParam(), worst, smallest);
}

TEST_P(DFlash2Fixture, BitsDoNotDependOnBlocksBesideThreadsChunksOrCanonicalTable) {
  const Hdf5 file = answers();
  std::vector<Choice> choices;
  for (int i = 0; i < choice_count; ++i) choices.emplace_back(file, i);
  std::vector<std::vector<float>> first;
  for (const Kernels* kernels : usable_kernels("canonical")) {
    Pair pair(folder(), *kernels);
    for (const int threads : {1, 2}) {
      const Threads guard(threads);
      std::vector<std::unique_ptr<Cache>> contexts;
      std::vector<DFlashNetwork::Block> blocks;
      for (const Choice& choice : choices) {
        contexts.push_back(context_of(pair.draft, choice.input));
        blocks.push_back({contexts.back().get(), choice.input.block[0], choice.input.masks()});
      }
      pair.draft.compute(blocks);
      std::vector<std::vector<float>> together;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        together.emplace_back(blocks[i].logits.begin(), blocks[i].logits.end());
        const std::vector<float> scores = choices[i].scores(pair.draft, blocks[i]);
        together.back().insert(together.back().end(), scores.begin(), scores.end());
      }
      if (first.empty()) first = together;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        EXPECT_TRUE(same_bits(together[i], first[i])) << kernels->name << " case " << i;
        const Input& input = choices[i].input;
        for (const std::vector<int>& pieces : {std::vector<int>{1}, {2, 3}}) {
          const Answer alone = ask(pair.draft, input.features, input.block[0], input.masks(), pieces, 20);
          const std::vector<float> logits(together[i].begin(), together[i].begin() + std::ssize(alone.logits));
          EXPECT_TRUE(same_bits(logits, alone.logits)) << kernels->name << " case " << i;
        }
      }
    }
  }
}

/// One stored input of a DSpark draft: a question, and the most probable path.
struct Chain {
  Input input;
  TwinSelection selection;

  Chain(const Hdf5& file, int index)
      : input(file, index), selection{.candidates = {}, .path = stored_tokens(file, input.path + "path")} {}
  int drafts() const { return static_cast<int>(selection.path.size()); }

  std::vector<Rows> twin(const TwinCheckpoint& draft, const TwinCheckpoint& target, Rounding round,
                         Mistake mistake = Mistake::none) const {
    return draft_answers(draft, target, widened(input.features, draft["fc"].width), input.block, round, mistake,
                         &selection);
  }
};

/// What the engine draws from along the paths of several blocks, which it computes together.
struct Drawn {
  std::vector<float> rows;
  std::vector<double> confidence;  // before the sigmoid
};

std::vector<Drawn> drawn_along(DFlashNetwork& draft, const std::vector<Chain>& chains) {
  std::vector<std::unique_ptr<Cache>> contexts;
  std::vector<DFlashNetwork::Block> blocks;
  for (const Chain& chain : chains) {
    contexts.push_back(draft.new_context(chain.input.context + 16, std::max(chain.input.context, 16)));
    const DFlashNetwork::ContextRows rows = {contexts.back().get(), chain.input.features, chain.input.context};
    draft.append(std::span(&rows, 1));
    blocks.push_back({contexts.back().get(), chain.input.block[0], chain.drafts()});
  }
  draft.compute(blocks);
  std::vector<Drawn> drawn(chains.size());
  for (int depth = 0;; ++depth) {
    std::vector<DFlashNetwork::Step> steps;
    std::vector<Drawn*> of;
    for (std::size_t i = 0; i < chains.size(); ++i) {
      if (depth >= chains[i].drafts()) continue;
      const Token before =
          depth == 0 ? blocks[i].anchor : chains[i].selection.path[static_cast<std::size_t>(depth - 1)];
      steps.push_back({.block = &blocks[i], .draft = depth, .previous = before});
      of.push_back(&drawn[i]);
    }
    if (steps.empty()) return drawn;
    draft.step(steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      of[i]->rows.insert(of[i]->rows.end(), steps[i].logits.begin(), steps[i].logits.end());
      of[i]->confidence.push_back(std::log(steps[i].confidence / (1 - steps[i].confidence)));
    }
  }
}

constexpr int chain_count = 3;

class DSparkFixture : public DFlashFixture {
 protected:
  std::vector<Chain> chains() const {
    const Hdf5 file = answers();
    std::vector<Chain> chains;
    for (int i = 0; i < chain_count; ++i) chains.emplace_back(file, i);
    return chains;
  }
};

TEST_P(DSparkFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  for (const Chain& chain : chains()) {
    const auto got = chain.twin(draft, target, {});
    const std::string names[] = {"context_rows", "final_norm", "logits", "rows", "confidence"};
    expect_stored(file, chain.input.path, names, got);
  }
}

TEST_P(DSparkFixture, RowsAndConfidencesAreWithinTheRoundingBoundOfTheAuthorsAndEveryMistakeIsFarOutsideOfIt) {
  const Hdf5 file = answers();
  const TwinCheckpoint draft(folder());
  const TwinCheckpoint target(target_of(folder()));
  const std::vector<Mistake> mistakes = {
      Mistake::no_markov_bias, Mistake::markov_of_anchor,       Mistake::markov_of_own_token, Mistake::markov_exchanged,
      Mistake::rows_one_off,   Mistake::keys_one_position_late, Mistake::no_context_norm,     Mistake::other_causality};
  double worst = 0;
  double smallest = std::numeric_limits<double>::infinity();
  const std::vector<Chain> all = chains();
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      Pair pair(folder(), *kernels);
      const std::vector<Drawn> drawn = drawn_along(pair.draft, all);
      const int vocabulary = pair.target->vocabulary();
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Chain& chain = all[i];
        const Bounds bounds = bounds_of([&](Rounding round) { return chain.twin(draft, target, round); });
        const auto of_rows = [&](const auto& want) { return worst_ratio(drawn[i].rows, want, vocabulary, bounds[3]); };
        const auto of_confidence = [&](const auto& want) {
          return worst_ratio(drawn[i].confidence, want, 1, bounds[4]);
        };
        const std::vector<Rows> right = chain.twin(draft, target, Rounding());
        worst = std::max({worst, of_rows(right[3].at), of_confidence(right[4].at)});
        EXPECT_LE(of_rows(right[3].at), 1) << kernels->name << " " << chain.input.path;
        EXPECT_LE(of_confidence(right[4].at), 1) << kernels->name << " " << chain.input.path;
        EXPECT_LE(of_rows(stored<float>(file, chain.input.path + "float32/rows")) / 2, 1) << "both have errors";
        EXPECT_LE(of_confidence(stored<float>(file, chain.input.path + "float32/confidence")) / 2, 1);
        if (kernels != &best_kernels()) continue;
        for (const Mistake mistake : mistakes) {
          const double ratio = of_rows(chain.twin(draft, target, Rounding(), mistake)[3].at);
          EXPECT_GT(ratio, 100) << "mistake " << static_cast<int>(mistake) << " " << chain.input.path;
          smallest = std::min(smallest, ratio);
        }
        if (!pair.draft.config().confidence_of_token) continue;
        for (const Mistake mistake : {Mistake::markov_of_anchor, Mistake::markov_of_own_token, Mistake::rows_one_off}) {
          const double ratio = of_confidence(chain.twin(draft, target, Rounding(), mistake)[4].at);
          EXPECT_GT(ratio, 100) << "mistake " << static_cast<int>(mistake) << " of confidences " << chain.input.path;
        }
      }
    }
  }
  fmt::print("{}: observed/bound {:.2f}; the smallest mistake is {:.1e} times it\n", GetParam(), worst, smallest);
}

TEST_P(DSparkFixture, BitsDoNotDependOnBlocksBesideThreadsOrCanonicalTable) {
  const std::vector<Chain> all = chains();
  std::vector<Drawn> first;
  for (const Kernels* kernels : usable_kernels("canonical")) {
    Pair pair(folder(), *kernels);
    for (const int threads : {1, 2}) {
      const Threads guard(threads);
      const std::vector<Drawn> together = drawn_along(pair.draft, all);
      if (first.empty()) first = together;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::vector<Drawn> alone = drawn_along(pair.draft, {all[i]});
        for (const Drawn& drawn : {together[i], alone[0]}) {
          EXPECT_TRUE(same_bits(drawn.rows, first[i].rows)) << kernels->name << " case " << i;
          EXPECT_EQ(drawn.confidence, first[i].confidence) << kernels->name << " case " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DSparkFixture, testing::Values("dspark-published", "dspark-behind-anchor"),
                         printable_name);

INSTANTIATE_TEST_SUITE_P(All, DFlash2Fixture, testing::Values("dflash2-published", "dflash2-three-taps"),
                         printable_name);

INSTANTIATE_TEST_SUITE_P(All, DFlashFixture,
                         testing::Values("dflash-full", "dflash-mixed", "dflash-sliding-bidirectional",
                                         "dflash-sliding-causal", "dflash-scaled"),
                         printable_name);

}  // namespace
}  // namespace draftproof::test::dflash_test
