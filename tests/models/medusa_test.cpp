// SPDX-License-Identifier: MIT
// Compares Medusa heads with torch's modules (float32), with the float64 twins, and with themselves in other passes;
// and what their checkpoints may say.
#include "ref/models/medusa.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"
#include "tests/models/stored_answers.h"

namespace draftproof::test::medusa_test {
namespace {

using testing::HasSubstr;

constexpr float never = -std::numeric_limits<float>::infinity();

std::filesystem::path target_of(const std::filesystem::path& draft) {
  return external_dir / Hdf5::open(draft / "answers.h5").read_string_attribute("/", "target");
}

/// A target and its heads on one table.
struct Pair {
  std::unique_ptr<Model> target;
  MedusaHeads heads;
  Pair(const std::filesystem::path& folder, const Kernels& kernels)
      : target(load_model(Checkpoint(target_of(folder)), in_floats(kernels))),
        heads(Checkpoint(folder), *target, in_floats(kernels)) {}

  /// The logits of all heads for each feature, as one pass over all of them gives them.
  std::vector<float> ask(std::span<const float> features) {
    std::vector<MedusaHeads::Text> texts;
    const auto width = static_cast<std::size_t>(heads.width());
    for (std::size_t at = 0; at < features.size(); at += width) {
      texts.push_back({features.subspan(at, width), heads.count()});
    }
    heads.compute(texts);
    std::vector<float> logits;
    for (const MedusaHeads::Text& text : texts) {
      EXPECT_EQ(text.error, "");
      logits.insert(logits.end(), text.logits.begin(), text.logits.end());
    }
    return logits;
  }
};

/// The heads of a folder, by names of their own.
struct Twin {
  struct Head {
    std::vector<std::pair<Rows, Rows>> blocks;  // weight and bias, of which there may be none
    Rows lm_head;                               // empty: the target's
  };
  std::vector<Head> heads;
  std::vector<Token> tokens;  // that are proposed
  double scale = 1;

  Twin(const std::filesystem::path& folder, int vocabulary) {
    const Checkpoint files(folder);
    const auto rows_of = [&](const std::string& name) {
      Rows rows;
      if (!files.has(name)) return rows;
      const StoredTensor& tensor = files.tensors().at(name);
      rows.width = static_cast<int>(tensor.shape.back());
      const std::vector<float> values = files.floats(name, tensor.shape);
      rows.at.assign(values.begin(), values.end());
      return rows;
    };
    const bool vllm = files.has("blocks.0.layers.0.weight");
    const std::string prefix = files.has("medusa_heads.0.0.linear.weight") ? "medusa_heads." : "";
    const auto block_name = [&](std::size_t head, std::size_t block) {
      return vllm ? fmt::format("blocks.{}.layers.{}.", head, block)
                  : fmt::format("{}{}.{}.linear.", prefix, head, block);
    };
    while (files.has(block_name(heads.size(), 0) + "weight")) {
      const std::size_t number = heads.size();
      Head& head = heads.emplace_back();
      while (files.has(block_name(number, head.blocks.size()) + "weight")) {
        const std::string name = block_name(number, head.blocks.size());
        head.blocks.emplace_back(rows_of(name + "weight"), rows_of(name + "bias"));
      }
      head.lm_head = rows_of(vllm ? fmt::format("lm_heads.{}.weight", number)
                                  : fmt::format("{}{}.{}.weight", prefix, number, head.blocks.size()));
    }
    if (files.has("token_map")) {
      const std::string bytes = stored_bytes(files.tensors().at("token_map"));
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::int64_t)) {
        std::int64_t token = 0;
        std::memcpy(&token, bytes.data() + at, sizeof token);
        tokens.push_back(static_cast<Token>(token));
      }
    } else {
      for (Token token = 0; token < vocabulary; ++token) tokens.push_back(token);
    }
    if (const auto factor = files.config().find("logit_scale")) scale = factor->number();
  }
};

enum class Slip { none, no_norm, no_residual, next_head, no_bias, no_scale, other_blocks };

/// The logits of all heads, those of a feature one after the other.
Rows answers_of(const Twin& twin, const TwinCheckpoint& target, const Rows& features, Rounding round,
                Slip slip = Slip::none) {
  const Rows normed = slip == Slip::no_norm ? features : rms_norm(features, target["norm"], target.epsilon, round);
  const int count = static_cast<int>(twin.heads.size());
  Rows logits(features.rows() * count, static_cast<int>(twin.tokens.size()));
  for (int number = 0; number < count; ++number) {
    const Twin::Head& head =
        twin.heads[static_cast<std::size_t>(slip == Slip::next_head ? (number + 1) % count : number)];
    auto blocks = head.blocks;
    if (slip == Slip::other_blocks) std::ranges::reverse(blocks);
    Rows x = normed;
    for (const auto& [weight, bias] : blocks) {
      Rows gate = times(x, weight, round);
      for (std::size_t i = 0; i < gate.at.size(); ++i) {
        double g = gate.at[i];
        if (!bias.at.empty() && slip != Slip::no_bias) g = round(g + bias.at[i % bias.at.size()]);
        gate.at[i] = round(g / round(1 + round.by(std::exp(-g), 2)));
      }
      x = slip == Slip::no_residual ? gate : sum_of(std::move(x), gate, round);
    }
    const Rows said = times(x, head.lm_head.at.empty() ? target.head() : head.lm_head, round);
    for (int r = 0; r < features.rows(); ++r) {
      for (int i = 0; i < said.width; ++i) {
        const bool scaled = twin.scale != 1 && slip != Slip::no_scale;
        logits.row(r * count + number)[i] = scaled ? round(said.row(r)[i] * twin.scale) : said.row(r)[i];
      }
    }
  }
  return logits;
}

Rows widened(const std::vector<float>& values, int width) {
  Rows rows;
  rows.width = width;
  rows.at.assign(values.begin(), values.end());
  return rows;
}

/// The logits of the tokens that are proposed. Those of all others must be minus infinity.
std::vector<float> of_draft_tokens(const Twin& twin, std::size_t vocabulary, const std::vector<float>& logits) {
  std::vector<float> own;
  for (auto row = logits.begin(); row < logits.end(); row += static_cast<std::ptrdiff_t>(vocabulary)) {
    for (const Token token : twin.tokens) own.push_back(row[token]);
    EXPECT_EQ(std::count(row, row + static_cast<std::ptrdiff_t>(vocabulary), never),
              static_cast<std::ptrdiff_t>(vocabulary - twin.tokens.size()));
  }
  return own;
}

class MedusaFixture : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return external_dir / GetParam(); }
  const Hdf5 file_ = Hdf5::open(folder() / "answers.h5");
  const TwinCheckpoint target_{target_of(folder())};
  const Twin twin_{folder(), target_.head().rows()};
  const std::vector<float> features_ = stored<float>(file_, "features");
  const Rows read_ = widened(features_, target_["norm"].width);
};

TEST_P(MedusaFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Rows got = answers_of(twin_, target_, read_, {});
  const auto want = stored<double>(file_, "float64/logits");
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  const std::vector<double> tolerance(static_cast<std::size_t>(got.rows()), 1e-12 * largest);
  EXPECT_LE(worst_ratio(got.at, want, got.width, tolerance), 1);
}

TEST_P(MedusaFixture, LogitsAreWithinTheRoundingBoundOfTheStoredOnesWithEveryTableAndEverySlipIsFarOutside) {
  const auto run = [&](Rounding round) { return std::vector<Rows>{answers_of(twin_, target_, read_, round)}; };
  const Bounds bounds = bounds_of(run);
  const auto vocabulary = static_cast<std::size_t>(target_.head().rows());
  std::vector<Slip> slips = {Slip::no_norm, Slip::no_residual, Slip::next_head};
  if (!twin_.heads[0].blocks[0].second.at.empty()) slips.push_back(Slip::no_bias);
  if (twin_.scale != 1) slips.push_back(Slip::no_scale);
  if (twin_.heads[0].blocks.size() > 1) slips.push_back(Slip::other_blocks);
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      Pair pair(folder(), *kernels);
      EXPECT_EQ(pair.heads.count(), static_cast<int>(twin_.heads.size()));
      const std::vector<float> ours = of_draft_tokens(twin_, vocabulary, pair.ask(features_));
      WorstErrors worst(file_);
      worst.expect_within(ours, "", "logits", bounds[0], kernels->name);
      if (kernels != &best_kernels()) continue;
      worst.print(GetParam(), kernels->name, bounds[0]);
      for (const Slip slip : slips) {
        const Rows wrong = answers_of(twin_, target_, read_, {}, slip);
        EXPECT_GT(worst_ratio(ours, wrong.at, wrong.width, bounds[0]), 100) << static_cast<int>(slip);
      }
    }
  }
}

TEST_P(MedusaFixture, AHeadHasTheBitsThatItHasAloneWithAnyTableAndAnyThreads) {
  const auto width = static_cast<std::size_t>(read_.width);
  std::vector<float> first;
  for (const Kernels* kernels : usable_kernels("canonical")) {
    for (const int threads : {1, 3}) {
      const Threads some(threads);
      Pair pair(folder(), *kernels);
      const std::vector<float> together = pair.ask(features_);
      if (first.empty()) first = together;
      EXPECT_TRUE(same_bits(together, first)) << kernels->name << ", " << threads << " threads";
    }
  }
  Pair pair(folder(), best_kernels());
  const std::size_t row = first.size() / (features_.size() / width);  // of one feature
  std::vector<MedusaHeads::Text> texts;                               // asked for 1, 2, ... heads
  for (std::size_t i = 0; i < features_.size() / width; ++i) {
    texts.push_back({std::span(features_).subspan(i * width, width), 1 + static_cast<int>(i) % pair.heads.count()});
  }
  pair.heads.compute(texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(same_bits(texts[i].logits, std::span<const float>(first).subspan(i * row, texts[i].logits.size())));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MedusaFixture, testing::Values("medusa-authors", "medusa-vllm", "medusa-shared"),
                         [](const auto& param) { return param.param.substr(7); });

// --- what a checkpoint may say ---------------------------------------------------------------------------------------

using Change = std::function<void(nlohmann::ordered_json& config, std::vector<Tensor>& tensors)>;

/// A changed copy of a fixture.
struct Copy {
  TemporaryFolder folder;

  Copy(const std::string& like, const Change& change) {
    const auto original = external_dir / like;
    auto config = nlohmann::ordered_json::parse(bytes_of_file(original / "config.json"));
    const Checkpoint from(original);
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : from.tensors()) {
      tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
    }
    if (change) change(config, tensors);
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", safetensors(tensors));
    std::filesystem::copy(original / "answers.h5", folder.path() / "answers.h5");
  }
};

/// What loading a changed copy throws, for its own target or another one.
std::string error_of(const std::string& like, const Change& change, const std::string& target = "") {
  const Copy copy(like, change);
  const auto of = target.empty() ? target_of(copy.folder.path()) : external_dir / target;
  const auto model = load_model(Checkpoint(of), best_kernels());
  try {
    MedusaHeads(Checkpoint(copy.folder.path()), *model, best_kernels());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Change field(const char* name, const nlohmann::ordered_json& value) {
  return [=](auto& config, auto&) { config[name] = value; };
}
Change without(const std::string& name) {
  return [=](auto&, auto& tensors) { std::erase_if(tensors, [&](const Tensor& one) { return one.name == name; }); };
}
Change renamed(const std::string& from, const std::string& to) {
  return [=](auto&, auto& tensors) {
    for (Tensor& tensor : tensors) {
      if (tensor.name.starts_with(from)) tensor.name = to + tensor.name.substr(from.size());
    }
  };
}

TEST(MedusaCheckpoint, SaysWhatIsWrongWithItsConfig) {
  EXPECT_EQ(error_of("medusa-authors", {}), "");
  EXPECT_EQ(error_of("medusa-vllm", {}), "");
  EXPECT_THAT(error_of("medusa-authors", field("medusa_num_heads", 4)),
              HasSubstr("4 Medusa heads, but the weights have 3"));
  EXPECT_THAT(error_of("medusa-authors", field("medusa_num_heads", 0)), HasSubstr("medusa_num_heads"));
  EXPECT_THAT(error_of("medusa-authors", field("medusa_num_layers", 1)), HasSubstr("0.1.linear."));
  EXPECT_THAT(error_of("medusa-authors", field("medusa_num_layers", 3)), HasSubstr("0.2.linear.weight"));
  EXPECT_THAT(error_of("medusa-authors", field("hidden_size", 7)),
              HasSubstr("does not fit the target, whose hidden_size"));
  EXPECT_THAT(error_of("medusa-shared", {}, "qwen3-tiny-sharded"),
              HasSubstr("does not fit the target, whose hidden_size"));
  EXPECT_EQ(error_of("medusa-authors", field("model_type", "llama")), "") << "the config of the base, with heads";
  EXPECT_THAT(error_of("medusa-authors", field("medusa_num_heads", nullptr)), HasSubstr("has no Medusa heads"));
  EXPECT_THAT(error_of("medusa-vllm", field("vocab_size", 51)), HasSubstr("vocab_size: does not fit the target"));
  EXPECT_THAT(error_of("medusa-vllm", field("truncated_vocab_size", 1 << 20)), HasSubstr("truncated_vocab_size"));
  EXPECT_THAT(error_of("medusa-vllm", field("truncated_vocab_size", 49)), HasSubstr("token_map is I64 of shape [50]"));
  EXPECT_THAT(error_of("medusa-vllm", field("truncated_vocab_size", nullptr)), HasSubstr("lm_heads.0.weight"));
  EXPECT_THAT(error_of("medusa-vllm", field("logit_scale", 0)), HasSubstr("logit_scale: must be a positive number"));
  EXPECT_THAT(error_of("medusa-vllm", field("medusa_fc_bias", true)), HasSubstr("blocks.0.layers.0.bias"));
}

TEST(MedusaCheckpoint, SaysWhatIsWrongWithItsTensors) {
  EXPECT_THAT(error_of("medusa-authors", renamed("0.", "x.")),
              HasSubstr("has no Medusa head; its first block is named"));
  EXPECT_THAT(error_of("medusa-authors", without("1.2.weight")), HasSubstr("no tensor 1.2.weight"));
  EXPECT_THAT(error_of("medusa-authors", without("2.1.linear.bias")), HasSubstr("2.1.linear.bias"));
  EXPECT_THAT(error_of("medusa-vllm", without("token_map")), HasSubstr("has no tensor token_map"));
  EXPECT_THAT(error_of("medusa-vllm", renamed("blocks.0.", "blocks.9.")), HasSubstr("has no Medusa head"));
  const auto with_token = [](std::int64_t token) -> Change {
    return [=](auto&, auto& tensors) {
      for (Tensor& tensor : tensors) {
        if (tensor.name == "token_map") std::memcpy(tensor.bytes.data() + 8, &token, sizeof token);
      }
    };
  };
  EXPECT_THAT(error_of("medusa-vllm", with_token(-1)), HasSubstr("element 1 of token_map, -1, makes a token outside"));
}

/// vLLM's: under the name of the first head's, or under its own.
TEST(MedusaCheckpoint, OneLmHeadOfAllHeadsIsThatOfEach) {
  const auto answer = [](const Change& change) {
    const Copy copy("medusa-vllm", change);
    return Pair(copy.folder.path(), best_kernels())
        .ask(stored<float>(Hdf5::open(copy.folder.path() / "answers.h5"), "features"));
  };
  const auto copied = answer([](auto&, auto& tensors) {
    const auto first = std::ranges::find(tensors, "lm_heads.0.weight", &Tensor::name);
    for (Tensor& tensor : tensors) {
      if (tensor.name.starts_with("lm_heads.")) tensor.bytes = std::string(first->bytes);
    }
  });
  EXPECT_TRUE(same_bits(answer(field("original_lm_head", true)), copied));
  EXPECT_TRUE(same_bits(answer(renamed("lm_heads.0.", "lm_head.")), copied));
  EXPECT_FALSE(same_bits(answer({}), copied));
}

TEST(MedusaCheckpoint, APickleIsRefusedWithTheCommandThatMakesSafetensorsOfIt) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"medusa_num_heads": 2})");
  folder.write("medusa_lm_head.pt", "PK");
  try {
    const Checkpoint files(folder.path());
    ADD_FAILURE() << "a pickle is a program";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("'medusa_lm_head.pt', a pickle"), HasSubstr("weights_only=True"),
                                             HasSubstr("medusa_lm_head.safetensors")));
  }
}

}  // namespace
}  // namespace draftproof::test::medusa_test
