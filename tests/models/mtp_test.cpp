// SPDX-License-Identifier: MIT
// Compares our MTP heads with transformers' layers (float32) and with the float64 twins, and with themselves for other
// chunkings and files.
#include "ref/models/mtp.h"

#include <fmt/format.h>

#include <fstream>

#include "ref/caches/feature_cache.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"
#include "tests/models/stored_answers.h"

namespace draftproof::test::mtp_test {
namespace {

using testing::HasSubstr;

constexpr int case_count = 4;

/// Mistakes around the layer.
enum class Slip {
  none,
  swapped,    // in the concatenation
  unshifted,  // a row reads the feature of its own position
  recycled_before_norm,
  other_tap,  // the feature is the output of the last layer where it is normed, and the reverse
  no_embedding_norm,
  no_hidden_norm,
  next_head,        // of several: the one after the right one
  own_tables_only,  // of the first head for all
  row_zero_seen,    // of zeros
  no_norm_behind,
};

/// The question of one stored case.
struct Input {
  std::vector<Token> committed, chain;
  std::vector<float> tapped;

  Input(const Hdf5& file, int index) {
    const std::string path = "case" + std::to_string(index) + "/";
    const auto count = stored<std::int32_t>(file, path + "committed").at(0);
    committed = stored_tokens(file, "tokens");
    tapped = stored<float>(file, "tapped");
    tapped.resize(tapped.size() / committed.size() * static_cast<std::size_t>(count));
    committed.resize(static_cast<std::size_t>(count));
    chain = stored_tokens(file, path + "chain");
  }
};

/// Where the tensors of one head are.
struct HeadNames {
  std::string block, projection, embedding_norm, hidden_norm, norm;
  std::string experts = {};  // in a block of their own
};

HeadNames names_of(const TwinCheckpoint& twin, int head) {
  const std::string number = std::to_string(head);
  if (twin.has("mtp.fc.weight")) {
    return {"mtp.layers." + number + ".", "mtp.fc", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"};
  }
  if (twin.has("mtp_linear_proj.0.weight")) {
    return {"mtp_block." + number + ".", "mtp_linear_proj." + number, "mtp_emb_norm." + number,
            "mtp_hidden_norm." + number, ""};
  }
  if (twin.has("mtp.layers.0.eh_proj.weight")) {
    const std::string block = "mtp.layers.0.";
    return {block, block + "eh_proj", block + "enorm", block + "hnorm", "mtp.norm", "mtp.layers.1."};
  }
  const bool mimo = twin.has("mtp_layers.0.input_proj.weight");
  const std::string block = mimo ? "mtp_layers." + number + "." : "layers." + std::to_string(twin.layers + head) + ".";
  if (mimo) {
    return {block, block + "input_proj", block + "token_layernorm", block + "hidden_layernorm", block + "norm"};
  }
  return {block, block + "eh_proj", block + "enorm", block + "hnorm", block + "shared_head.norm"};
}

/// The float64 twin: features and logits of the chain's rows.
std::vector<Rows> twin_answers(const TwinCheckpoint& twin, const Input& input, Rounding round, Slip slip = Slip::none,
                               Mistake mistake = Mistake::none) {
  const bool mimo = twin.has("mtp_layers.0.input_proj.weight");
  const Rows& final_norm = twin["norm"];
  Rows tapped;
  tapped.width = final_norm.width;
  tapped.at.assign(input.tapped.begin(), input.tapped.end());
  const bool normed_tap = mimo == (slip == Slip::other_tap);
  Rows features = normed_tap ? rms_norm(tapped, final_norm, twin.epsilon, round) : tapped;
  if (slip == Slip::unshifted) {  // the last one twice, for want of one of the anchor
    features = below(std::move(features), features);
    features.at.erase(features.at.begin(), features.at.begin() + features.width);
    features.at.resize(tapped.at.size());
  }
  std::vector<Token> tokens(input.committed.begin() + 1, input.committed.end());
  int heads = 1;
  while (twin.has("layers." + std::to_string(twin.layers + heads) + ".eh_proj.weight")) ++heads;
  const int last_row = static_cast<int>(input.committed.size() + input.chain.size());
  const bool turns = twin.facts.layers[0].rope >= 0;
  const Angles angles = turns ? Angles(twin, last_row + 1, round) : Angles(twin.head_dim, {}, 0, round);
  Rows recycled, y, logits;
  for (std::size_t step = 0; step < input.chain.size(); ++step) {
    tokens.push_back(input.chain[step]);
    int head = std::min(static_cast<int>(step), heads - 1);
    if (slip == Slip::next_head) head = (head + 1) % heads;
    const HeadNames names = names_of(twin, head);
    const std::string own = slip == Slip::own_tables_only ? names_of(twin, 0).block : names.block;
    const Rows& table = twin[twin.has(own + "embed_tokens.weight") ? own + "embed_tokens" : "embed_tokens"];
    Rows embedding(static_cast<int>(tokens.size()), table.width);
    for (int row = 0; row < embedding.rows(); ++row) {
      std::copy_n(table.row(tokens[static_cast<std::size_t>(row)]), table.width, embedding.row(row));
    }
    Rows hidden = recycled.at.empty() ? features : below(features, recycled);
    if (slip != Slip::no_embedding_norm) {
      embedding = rms_norm(embedding, twin[names.embedding_norm], twin.epsilon, round);
    }
    if (slip != Slip::no_hidden_norm) {
      hidden = rms_norm(hidden, twin[names.hidden_norm], twin.epsilon, round);
    }
    if (mimo != (slip == Slip::swapped)) std::swap(embedding, hidden);
    Rows joined(embedding.rows(), 2 * embedding.width);
    for (int row = 0; row < joined.rows(); ++row) {
      std::copy_n(embedding.row(row), embedding.width, joined.row(row));
      std::copy_n(hidden.row(row), hidden.width, joined.row(row) + embedding.width);
    }
    // Row 0, which no row sees, is left out: the twin's row r is at position r + 1. Only differences turn a score.
    Rows x = times(joined, twin[names.projection], round);
    if (slip == Slip::row_zero_seen) x = below(Rows(1, x.width), x);
    for (const std::string& block : {names.block, names.experts}) {
      if (block.empty()) continue;
      x = decoder_layer(
          twin, block, std::move(x), Rows(), angles, [](int q, int k) { return k <= q; }, round, mistake);
    }
    Rows last(1, x.width);
    std::copy_n(x.row(x.rows() - 1), x.width, last.row(0));
    const Rows& norm = twin.has(names.norm + ".weight") ? twin[names.norm] : final_norm;
    const Rows normed = slip == Slip::no_norm_behind ? last : rms_norm(last, norm, twin.epsilon, round);
    const std::string lm_head = own + "shared_head.head";
    y = y.at.empty() ? normed : below(std::move(y), normed);
    const Rows row = times(normed, twin.has(lm_head + ".weight") ? twin[lm_head] : twin.head(), round);
    logits = logits.at.empty() ? row : below(std::move(logits), row);
    const Rows& next = slip == Slip::recycled_before_norm ? last : normed;
    recycled = recycled.at.empty() ? next : below(std::move(recycled), next);
  }
  return {std::move(y), std::move(logits)};
}

/// A target and its head on one table.
struct Pair {
  Checkpoint files;
  std::unique_ptr<Model> target;
  MtpHead head;
  Pair(const std::filesystem::path& path, const LoadOptions& options)
      : files(path), target(load_model(files, options)), head(files, *target, options) {}
};

struct Answer {
  std::vector<float> features, logits;  // of the rows of the chain
  Fingerprint cache;                    // of the committed rows
  bool operator==(const Answer& other) const {
    return same_bits(features, other.features) && same_bits(logits, other.logits) && cache == other.cache;
  }
};

/// Commits the rows of the text in pieces of these sizes, cyclically, and continues with the chain, row by row, in a
/// transaction that is rolled back. `spare`: extra capacity.
Answer ask(Pair& pair, const Input& input, const std::vector<int>& pieces, int spare = 0) {
  const auto width = static_cast<std::size_t>(pair.head.width());
  const std::size_t count = input.committed.size();
  std::vector<float> features(width + input.tapped.size());  // that of no position comes first
  pair.head.fuse(input.tapped, static_cast<int>(count), features.data() + width);
  const int pending = 32 + spare;
  const int capacity = static_cast<int>(count + input.chain.size()) + spare;
  Cache cache(pair.head.new_layers(capacity, pending), capacity, pending);
  std::size_t first = 0;
  for (std::size_t i = 0; first < count; ++i) {
    const std::size_t piece = std::min(static_cast<std::size_t>(pieces[i % pieces.size()]), count - first);
    Transaction transaction = cache.begin(static_cast<int>(piece));
    Head::Rows rows = {.cache = &cache,
                       .tokens = std::span(input.committed).subspan(first, piece),
                       .features = std::span(features).subspan(first * width, piece * width)};
    pair.head.forward(std::span(&rows, 1));
    transaction.commit(static_cast<int>(piece));
    first += piece;
  }
  Answer answer = {.features = {}, .logits = {}, .cache = cache.digest()};
  {
    const Transaction rolled_back = cache.begin(static_cast<int>(input.chain.size()));
    std::vector<float> feature(features.end() - static_cast<std::ptrdiff_t>(width), features.end());
    constexpr int wanted[] = {0};
    for (const Token& token : input.chain) {
      Head::Rows row = {.cache = &cache, .tokens = std::span(&token, 1), .features = feature, .wanted = wanted};
      pair.head.forward(std::span(&row, 1));
      EXPECT_EQ(row.error, "");
      answer.logits.insert(answer.logits.end(), row.logits.begin(), row.logits.end());
      feature.assign(row.next_features.begin(), row.next_features.end());
      answer.features.insert(answer.features.end(), feature.begin(), feature.end());
    }
  }
  EXPECT_EQ(cache.digest(), answer.cache) << "a chain leaves a trace in the cache";
  return answer;
}

class MtpFixture : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return external_dir / GetParam(); }
  Hdf5 answers() const { return Hdf5::open(folder() / "answers.h5"); }
};

constexpr const char* names[] = {"features", "logits"};

TEST_P(MtpFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Hdf5 file = answers();
  const TwinCheckpoint twin(folder());
  for (int i = 0; i < case_count; ++i) {
    const auto got = twin_answers(twin, Input(file, i), Rounding());
    for (std::size_t a = 0; a < std::size(names); ++a) {
      const auto want = stored<double>(file, fmt::format("case{}/float64/{}", i, names[a]));
      double largest = 0;
      for (const double v : want) largest = std::max(largest, std::abs(v));
      const std::vector<double> tolerance(static_cast<std::size_t>(got[a].rows()), 1e-12 * largest);
      EXPECT_LE(worst_ratio(got[a].at, want, got[a].width, tolerance), 1) << "case " << i << " " << names[a];
    }
  }
}

TEST_P(MtpFixture, EveryRowOfAChainIsWithinTheRoundingBoundOfTheReferenceWithEveryTable) {
  const Hdf5 file = answers();
  const TwinCheckpoint twin(folder());
  std::vector<Input> inputs;
  std::vector<Bounds> bounds;
  for (int i = 0; i < case_count; ++i) {
    const Input& input = inputs.emplace_back(file, i);
    bounds.push_back(bounds_of([&](Rounding round) { return twin_answers(twin, input, round); }));
  }
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      Pair pair(folder(), in_floats(*kernels));
      WorstErrors worst(file);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Answer ours = ask(pair, inputs[i], {static_cast<int>(inputs[i].committed.size())});
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

TEST_P(MtpFixture, EveryMistakeExceedsTheBoundAHundredfold) {
  const TwinCheckpoint twin(folder());
  const Input input(answers(), case_count - 1);
  const Bounds bounds = bounds_of([&](Rounding round) { return twin_answers(twin, input, round); });
  Pair pair(folder(), in_floats(best_kernels()));
  const Answer ours = ask(pair, input, {20});
  const auto ratio = [&](const TwinCheckpoint& of, Slip slip, Mistake mistake) {
    const Rows logits = twin_answers(of, input, Rounding(), slip, mistake)[1];
    return worst_ratio(ours.logits, logits.at, logits.width, bounds[1]);
  };
  EXPECT_LE(ratio(twin, Slip::none, Mistake::none), 1);
  for (const Slip slip : {Slip::swapped, Slip::unshifted, Slip::recycled_before_norm, Slip::other_tap,
                          Slip::no_embedding_norm, Slip::no_hidden_norm, Slip::row_zero_seen, Slip::no_norm_behind}) {
    EXPECT_GT(ratio(twin, slip, Mistake::none), 100) << "slip " << static_cast<int>(slip);
  }
  if (GetParam() == "mtp-qwen3-two") {
    EXPECT_GT(ratio(twin, Slip::next_head, Mistake::none), 100);
    EXPECT_GT(ratio(twin, Slip::own_tables_only, Mistake::none), 100);
  } else if (GetParam() == "mtp-ernie45-moe") {
    EXPECT_GT(ratio(twin, Slip::none, Mistake::interleaved_rope), 100);
  } else if (twin.has("mtp.fc.weight")) {
    for (const Mistake mistake : {Mistake::no_gate, Mistake::gates_behind_queries}) {
      EXPECT_GT(ratio(twin, Slip::none, mistake), 100) << "mistake " << static_cast<int>(mistake);
    }
    TwinCheckpoint wrong = twin;
    wrong.drop_offsets();
    EXPECT_GT(ratio(wrong, Slip::none, Mistake::none), 100) << "norms of 1 + weight";
  }
}

TEST_P(MtpFixture, ChunksAndCapacityChangeNoBit) {
  Pair pair(folder(), in_floats(best_kernels()));
  for (int i = 0; i < case_count; ++i) {
    const Input input(answers(), i);
    const Answer want = ask(pair, input, {1});
    EXPECT_EQ(ask(pair, input, {20}), want);
    EXPECT_EQ(ask(pair, input, {3, 1, 2}, 5), want);
  }
}

TEST_P(MtpFixture, RowsOfOtherTextsAndWholeChainsInOneCallChangeNoBit) {
  Pair pair(folder(), in_floats(best_kernels()));
  const auto width = static_cast<std::size_t>(pair.head.width());
  std::vector<Input> inputs;
  for (int i = 0; i < case_count; ++i) inputs.emplace_back(answers(), i);
  std::vector<std::unique_ptr<Cache>> caches;
  std::vector<std::vector<float>> features;
  std::vector<Head::Rows> batch;
  std::vector<Transaction> transactions;
  for (const Input& input : inputs) {
    const int count = static_cast<int>(input.committed.size());
    const Cache& cache = *caches.emplace_back(std::make_unique<Cache>(pair.head.new_layers(40, 32), 40, 32));
    EXPECT_EQ(cache.length(), 0);
    features.emplace_back(width + input.tapped.size());
    pair.head.fuse(input.tapped, count, features.back().data() + width);
    transactions.push_back(caches.back()->begin(count));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t count = inputs[i].committed.size();
    batch.push_back({.cache = caches[i].get(),
                     .tokens = inputs[i].committed,
                     .features = std::span(features[i]).first(count * width)});
  }
  pair.head.forward(batch);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    transactions[i].commit(static_cast<int>(inputs[i].committed.size()));
  }
  // The chains in one call; what the head returns for their rows is known.
  transactions.clear();
  constexpr int wanted[] = {1, 3};
  std::vector<Answer> want;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Answer& alone = want.emplace_back(ask(pair, inputs[i], {20}));
    EXPECT_EQ(caches[i]->digest(), alone.cache);
    features[i].erase(features[i].begin(), features[i].end() - static_cast<std::ptrdiff_t>(width));
    features[i].insert(features[i].end(), alone.features.begin(), alone.features.end());
    transactions.push_back(caches[i]->begin(4));
    batch[i] = {.cache = caches[i].get(),
                .tokens = inputs[i].chain,
                .features = std::span(features[i]).first(4 * width),
                .wanted = wanted};
  }
  pair.head.forward(batch);
  const auto vocabulary = static_cast<std::size_t>(pair.target->vocabulary());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t at = 0; at < std::size(wanted); ++at) {
      const auto row = static_cast<std::size_t>(wanted[at]);
      EXPECT_TRUE(same_bits(batch[i].logits.subspan(at * vocabulary, vocabulary),
                            std::span(want[i].logits).subspan(row * vocabulary, vocabulary)));
      EXPECT_TRUE(same_bits(batch[i].next_features.subspan(at * width, width),
                            std::span(want[i].features).subspan(row * width, width)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MtpFixture,
                         testing::Values("mtp-qwen35", "mtp-qwen35-moe", "mtp-qwen3-next", "mtp-qwen3-two",
                                         "mtp-deepseek-v3", "mtp-glm4-moe", "mtp-ernie45-moe", "mtp-mimo",
                                         "mtp-nemotron-h"),
                         printable_name);

/// The fixture mtp-qwen35 as llama.cpp converts it: the head is a block behind the layers, norms hold 1 + weight.
/// `left_out`: tensors whose names in the file contain this.
void write_gguf(const std::filesystem::path& path, const std::string& left_out = "never") {
  const Checkpoint from(external_dir / "mtp-qwen35");
  const std::pair<std::string, std::string> names[] = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"},
      {"model.layers.", "blk."},
      {"mtp.layers.0.", "blk.2."},
      {"mtp.fc.", "blk.2.nextn.eh_proj."},
      {"mtp.pre_fc_norm_embedding.", "blk.2.nextn.enorm."},
      {"mtp.pre_fc_norm_hidden.", "blk.2.nextn.hnorm."},
      {"mtp.norm.", "blk.2.nextn.shared_head_norm."},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "post_attention_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"linear_attn.in_proj_qkv", "attn_qkv"},
      {"linear_attn.in_proj_z", "attn_gate"},
      {"linear_attn.in_proj_b", "ssm_beta"},
      {"linear_attn.in_proj_a", "ssm_alpha"},
      {"linear_attn.conv1d", "ssm_conv1d"},
      {"linear_attn.norm", "ssm_norm"},
      {"linear_attn.out_proj", "ssm_out"},
      {"linear_attn.A_log", "ssm_a"},
      {"linear_attn.dt_bias", "ssm_dt.bias"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
  };
  GgufBytes file;
  file.text("general.architecture", "qwen35");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, std::uint32_t>>{{"block_count", 3},
                                                                    {"nextn_predict_layers", 1},
                                                                    {"context_length", 512},
                                                                    {"embedding_length", 16},
                                                                    {"feed_forward_length", 24},
                                                                    {"attention.head_count", 2},
                                                                    {"attention.head_count_kv", 1},
                                                                    {"attention.key_length", 16},
                                                                    {"attention.value_length", 16},
                                                                    {"rope.dimension_count", 8},
                                                                    {"ssm.conv_kernel", 4},
                                                                    {"ssm.state_size", 8},
                                                                    {"ssm.group_count", 2},
                                                                    {"ssm.time_step_rank", 2},
                                                                    {"ssm.inner_size", 16}}) {
    file.number(std::string("qwen35.") + key, value);
  }
  file.put("qwen35.attention.layer_norm_rms_epsilon", 6, GgufBytes::raw(1e-6F));
  file.integers("qwen35.attention.recurrent_layers", {0, 1, 0});
  std::string data;
  for (const auto& [name, tensor] : from.tensors()) {
    std::string in_file = name;
    for (const auto& [part, other] : names) {
      if (const std::size_t at = in_file.find(part); at != std::string::npos) in_file.replace(at, part.size(), other);
    }
    if (in_file.find(left_out) != std::string::npos) continue;
    std::vector<float> values = from.floats(name, tensor.shape);
    const bool is_norm = name.find("norm") != std::string::npos && name.find("linear_attn.norm") == std::string::npos;
    for (float& value : values) {
      if (is_norm) value += 1;
      if (name.ends_with("A_log")) value = -std::exp(value);
    }
    std::vector<std::uint64_t> extents(tensor.shape.rbegin(), tensor.shape.rend());
    if (extents.size() == 3) extents.erase(extents.begin() + 1);
    data.resize((data.size() + 31) / 32 * 32);
    file.tensor(in_file, extents, 0, data.size());
    data += bytes_of(values);
  }
  file.data(data);
  std::ofstream(path, std::ios::binary) << file.bytes();
}

TEST(MtpGguf, HasTheBitsOfTheFolder) {
  const TemporaryFolder folder;
  write_gguf(folder.path() / "model.gguf");
  Pair gguf(folder.path() / "model.gguf", in_floats(best_kernels()));
  Pair original(external_dir / "mtp-qwen35", in_floats(best_kernels()));
  const Hdf5 file = Hdf5::open(external_dir / "mtp-qwen35" / "answers.h5");
  for (int i = 0; i < case_count; ++i) {
    const Input input(file, i);
    EXPECT_EQ(ask(gguf, input, {20}), ask(original, input, {20})) << "case " << i;
  }
}

TEST(MtpGguf, FromWhichAConverterDroppedTheHeadIsATargetWithoutOne) {
  const TemporaryFolder folder;
  write_gguf(folder.path() / "model.gguf", "blk.2.");
  const Checkpoint files(folder.path() / "model.gguf");
  EXPECT_EQ(load_model(files, best_kernels())->layers(), 2);
  try {
    read_mtp_config(files);
    ADD_FAILURE() << "a head is found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no tensors of the MTP head that its config names; whoever wrote the file "
                                        "left them out; name a checkpoint that has them (mtp:PATH)"));
  }
}

/// What is thrown when a head is read from a copy of a fixture in which `from` in its config says `to`, and tensors are
/// called otherwise.
std::string error_of(const std::string& fixture, const std::string& from, const std::string& to,
                     const std::string& tensor = "", const std::string& other = "") {
  const TemporaryFolder copy;
  std::string config = bytes_of_file(external_dir / fixture / "config.json");
  EXPECT_NE(config.find(from), std::string::npos);
  copy.write("config.json", config.replace(config.find(from), from.size(), to));
  std::string weights = bytes_of_file(external_dir / fixture / "model.safetensors");
  for (std::size_t at = 0; !tensor.empty() && (at = weights.find(tensor)) != std::string::npos;) {
    weights.replace(at, tensor.size(), other);
  }
  copy.write("model.safetensors", weights);
  try {
    const Pair pair(copy.path(), in_floats(best_kernels()));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Mtp, HeadsThatAreMissingOrUnknownAreRefusedInOneSentence) {
  EXPECT_THAT(error_of("mtp-qwen35", "\"mtp_num_hidden_layers\": 1", "\"mtp_num_hidden_layers\": 0"),
              HasSubstr("has no MTP heads; name a checkpoint that has them (mtp:PATH), or choose another draft"));
  EXPECT_THAT(error_of("mtp-qwen35", "{", "{", "\"mtp.fc", "\"mtp.xx"),
              HasSubstr("has no tensors of the MTP head that its config names; whoever wrote the file left them out"));
  EXPECT_THAT(error_of("mtp-qwen3-two", "{", "{", "layers.2.eh_proj", "layers.2.xx_proj"),
              HasSubstr("has no tensors of the 2 MTP heads that its config names"));
  EXPECT_THAT(error_of("mtp-qwen35", "{", "{", "\"mtp.norm", "\"mtp.xxxx"), HasSubstr("'mtp.norm.weight'"));
  EXPECT_THAT(error_of("mtp-qwen3-two", "{", "{", "layers.3.hnorm", "layers.3.xnorm"),
              HasSubstr("'model.layers.3.hnorm.weight'"));
  EXPECT_THAT(
      error_of("mtp-qwen35", "\"mtp_use_dedicated_embeddings\": false", "\"mtp_use_dedicated_embeddings\": true"),
      HasSubstr("field mtp_use_dedicated_embeddings: embeddings of the MTP heads' own are not implemented"));
  EXPECT_THAT(error_of("mtp-mimo", "{", "{", "0.input_proj", "0.xxput_proj"),
              HasSubstr("has no tensors of the MTP head that its config names"));
  EXPECT_THAT(error_of("mtp-mimo", "{", "{", "0.final_layernorm", "0.xxxal_layernorm"),
              HasSubstr("'model.mtp_layers.0.final_layernorm.weight'"));
  EXPECT_THAT(error_of("mtp-nemotron-h", "{", "{", "0.eh_proj", "0.xx_proj"),
              HasSubstr("has no tensors of the MTP head that its config names"));
  EXPECT_THAT(error_of("mtp-nemotron-h", "\"*E\"", "\"*-\""),
              HasSubstr("field mtp_hybrid_override_pattern: must name attention, then experts"));
  EXPECT_THAT(error_of("mtp-nemotron-h", "\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 2"),
              HasSubstr("field num_nextn_predict_layers: must be 1"));
  EXPECT_THAT(error_of("mtp-nemotron-h", "{", "{", "mtp.layers.1.norm", "mtp.layers.1.xxxx"),
              HasSubstr("'mtp.layers.1.norm.weight'"));
  EXPECT_EQ(error_of("mtp-qwen3-two", "{", "{"), "");
}

TEST(Mtp, AConfigOfQwen3NextNamesNoHeadsAndItsTensorsDo) {
  EXPECT_EQ(error_of("mtp-qwen3-next", "{", "{"), "");
  EXPECT_EQ(error_of("mtp-qwen3-next", "{", R"({"mtp_num_hidden_layers": 1, )"), "");
  const std::string none = "has no MTP heads; name a checkpoint that has them (mtp:PATH), or choose another draft";
  EXPECT_THAT(error_of("mtp-qwen3-next", "{", R"({"mtp_num_hidden_layers": 0, )"), HasSubstr(none));
  EXPECT_THAT(error_of("mtp-qwen3-next", "{", "{", "mtp.fc.", "mtp.xx."), HasSubstr(none));
  EXPECT_THAT(error_of("mtp-qwen3-next", "{", R"({"num_nextn_predict_layers": 2, )"),
              HasSubstr("'mtp.layers.1.self_attn.q_proj.weight'"));
  EXPECT_THAT(error_of("mtp-qwen3-next", "{", "{", "mtp.layers.0.mlp.gate.", "mtp.layers.0.mlp.xxxx."),
              HasSubstr("'mtp.layers.0.mlp.gate.weight'"));
}

TEST(Mtp, HeadsMayComeFromAnotherCheckpointThatFitsTheTarget) {
  const Checkpoint target_files(tale_target.parent_path() / "tale-hybrid");
  const auto target = load_model(target_files, best_kernels());
  const Checkpoint other(external_dir / "mtp-qwen35");
  try {
    const MtpHead head(other, *target, best_kernels());
    ADD_FAILURE() << "a head of another width is read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("field hidden_size: does not fit the target's, 128"));
  }
}

TEST(Mtp, MemoryCountsWhatTheHeadsAddToTheTarget) {
  for (const char* fixture : {"mtp-qwen35", "mtp-qwen35-moe", "mtp-qwen3-next", "mtp-qwen3-two", "mtp-deepseek-v3",
                              "mtp-glm4-moe", "mtp-mimo", "mtp-nemotron-h"}) {
    const Checkpoint files(external_dir / fixture);
    const MemoryNeed need = MtpHead::need(files, {best_kernels(), Quantization::none, KvFormat::f32});
    const MtpConfig config = read_mtp_config(files);
    const AttentionShape& shape = config.transformer.attention(0).shape;
    const std::uint64_t of_head =
        AttentionCache::bytes_per_position(shape.kv_heads, shape.head_dim, KvFormat::f32, shape.latent);
    EXPECT_EQ(need.cache_per_position,
              config.heads.size() * of_head + FeatureCache::bytes_per_position(config.transformer.hidden));
    std::uint64_t weights = 0;
    for (const auto& [format, bytes] : need.weights) weights += bytes;
    std::uint64_t stored = 0;
    for (const auto& [name, tensor] : files.tensors()) stored += config.owns(name) ? tensor.bytes : 0;
    EXPECT_GE(weights, stored) << fixture;
    EXPECT_LT(weights, 4 * stored) << fixture;
    EXPECT_FALSE(config.owns("model.layers.3.embed_tokens.weight")) << "a copy of the model's";
  }
}

}  // namespace
}  // namespace draftproof::test::mtp_test
