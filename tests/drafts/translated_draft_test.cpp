// SPDX-License-Identifier: MIT
#include "ref/drafts/translated_draft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "ref/base/error.h"
#include "ref/drafts/model_draft.h"
#include "ref/formats/json.h"
#include "ref/models/hash.h"
#include "ref/models/models.h"
#include "tests/drafts/support.h"
#include "tests/text/tokenizer_files.h"
#include "tests/threads.h"

namespace draftproof::translated_draft_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

/// 2048 tokens of BPE of bytes, and 512 SentencePiece pieces with byte tokens.
Tokenizer bytes() { return Tokenizer::load(models / "tale-target"); }
Tokenizer pieces() { return Tokenizer::load(models / "tale-llama"); }

TranslatedModel pieces_for_bytes(std::unique_ptr<Model> model, int target_vocabulary = 2048) {
  return {std::move(model), pieces(), bytes(), target_vocabulary};
}

std::vector<Token> proposed(Draft& draft, std::span<const Token> text, int limit) {
  PhiloxSource random(1);
  const Proposal proposal = propose(draft, text, limit, {.temperature = 1}, random);
  for (const Distribution& q : proposal.drawn_from) EXPECT_TRUE(q.is_point());
  return proposal.tokens;
}

/// A model that writes a text, whatever it has read: at the length so far it says what it would say there.
std::unique_ptr<Model> writer_of(const std::string& text) {
  const std::vector<Token> tokens = pieces().encode(text);
  return std::make_unique<TableModel>(512, [tokens](std::span<const Token> read) {
    std::vector<float> row(512, 0);
    if (read.size() < tokens.size()) row[static_cast<std::size_t>(tokens[read.size()])] = 1;
    return row;
  });
}

/// Its logits are a hash of the text; most of its tokens are characters, some special, broken or without text.
std::unique_ptr<Model> hashing(bool recurrent = false) {
  return make_hash_model({.vocabulary = 515, .levels = 64, .seed = 3, .recurrent = recurrent});
}

/// Target tokens of which many are no whole characters, special, or unknown to the tokenizer.
std::vector<Token> odd_text(int size, std::uint32_t seed) {
  std::vector<Token> text;
  for (int i = 0; i < size; ++i) {
    seed = seed * 1664525U + 1013904223U;
    const auto number = static_cast<Token>((seed >> 8) % 2050);
    text.push_back(seed % 5 == 0 ? number : seed % 3 == 0 ? number % 256 : 256 + number % 1700);
  }
  return text;
}

TEST(TranslatedDraft, ProposesItsContinuationInTheTargetsTokens) {
  const std::string tale = "Once upon a time Zoë lived near the mill of Grünau, and she had 17 clocks.";
  const std::vector<Token> tokens = bytes().encode(tale);
  const TranslatedModel shared = pieces_for_bytes(writer_of(tale));
  const std::vector<Token> written = pieces().encode(tale);
  int rounds = 0;
  for (std::size_t size = 1; size < tokens.size(); ++size) {
    const std::vector<Token> read = pieces().encode(bytes().decode(std::span(tokens).first(size)));
    if (!std::ranges::equal(read, std::span(written).first(std::min(read.size(), written.size())))) continue;
    TranslatedDraft draft(shared, 100, 60);
    if (size > 1) draft.observe(std::span(tokens).first(size - 1), {});
    EXPECT_EQ(proposed(draft, std::span(tokens).first(size), 60),
              std::vector<Token>(tokens.begin() + static_cast<std::ptrdiff_t>(size), tokens.end()));
    ++rounds;
  }
  EXPECT_GT(rounds, 10) << "the text so far is, in pieces, how the tale begins";
}

TEST(TranslatedDraft, DependsOnTheCommittedTextAndNothingElse) {
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    const TranslatedModel shared = pieces_for_bytes(hashing());
    const std::vector<Token> text = odd_text(60, seed);
    TranslatedDraft draft(shared, 100, 5);
    std::size_t done = 0;
    for (const int run : cuts(static_cast<int>(text.size()) - 1, 6, seed)) {
      const std::span<const Token> committed = std::span(text).first(done + 1);
      const int limit = 1 + static_cast<int>((seed + done) % 5);
      const std::vector<Token> found = proposed(draft, committed, limit);
      ASSERT_LE(std::ssize(found), limit);
      TranslatedDraft fresh(shared, 100, 5);
      if (done > 0) fresh.observe(committed.first(done), {});
      ASSERT_EQ(found, proposed(fresh, committed, limit)) << "seed " << seed << " after " << done;
      ASSERT_EQ(draft.digest(), fresh.digest());
      draft.observe(std::span(text).subspan(done, static_cast<std::size_t>(run)), {});
      done += static_cast<std::size_t>(run);
    }
    draft.forget();
    TranslatedDraft fresh(shared, 100, 5);
    EXPECT_EQ(draft.digest(), fresh.digest());
    EXPECT_EQ(proposed(draft, std::span(text).first(1), 5), proposed(fresh, std::span(text).first(1), 5));
  }
}

/// small_json() with "defghijklmnop" and its ends as tokens: whatever lacks the last letter is single letters.
Tokenizer long_word() {
  const std::string word = "defghijklmnop";
  std::string entries = "\"Ġa\": 258", merges = "[\"Ġ\", \"a\"]";
  for (std::size_t begin = word.size() - 2, id = 260;; --begin, ++id) {
    entries += ", \"" + word.substr(begin) + "\": " + std::to_string(id);
    merges += ", [\"" + word.substr(begin, 1) + "\", \"" + word.substr(begin + 1) + "\"]";
    if (begin == 0) break;
  }
  return test::load_json(
      test::replaced(test::replaced(test::small_json(), "\"Ġa\": 258", entries), "[\"Ġ\", \"a\"]", merges));
}

TEST(TranslatedDraft, ReadsAgainWhatALongWordHasChanged) {
  const std::string said = "x defghijklmnop. abc defghijklmnop and defghijklmnop";
  ASSERT_EQ(long_word().encode("defghijklmno").size(), 12U);
  ASSERT_EQ(long_word().encode("defghijklmnop").size(), 1U);
  for (const bool recurrent : {false, true}) {
    const TranslatedModel shared = {make_hash_model({.vocabulary = 272, .levels = 64, .recurrent = recurrent}),
                                    long_word(), test::load_json(test::small_json()), 260};
    const std::vector<Token> text = shared.target_tokenizer.encode(said);
    TranslatedDraft draft(shared, 100, 5);
    for (std::size_t size = 1; size < text.size(); ++size) {
      const std::span<const Token> committed = std::span(text).first(size);
      TranslatedDraft fresh(shared, 100, 5);
      if (size > 1) fresh.observe(committed.first(size - 1), {});
      ASSERT_EQ(proposed(draft, committed, 5), proposed(fresh, committed, 5)) << size;
      ASSERT_EQ(draft.digest(), fresh.digest()) << size;
      draft.observe(committed.last(1), {});
    }
  }
}

/// The same where a cache holds a state, which cannot forget its last tokens.
TEST(TranslatedDraft, ProposesTheSameWhateverItsCacheCanForget) {
  const TranslatedModel rows = pieces_for_bytes(hashing());
  const TranslatedModel state = pieces_for_bytes(hashing(true));
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const std::vector<Token> text = odd_text(50, seed);
    TranslatedDraft one(rows, 100, 5), other(state, 100, 5);
    for (std::size_t size = 1; size < text.size(); ++size) {
      const std::span<const Token> committed = std::span(text).first(size);
      ASSERT_EQ(proposed(one, committed, 5), proposed(other, committed, 5));
      one.observe(committed.last(1), {});
      other.observe(committed.last(1), {});
    }
  }
}

TEST(TranslatedDraft, ProposesNoTokenThatTheTargetLacks) {
  const std::string tale = "Once upon a time there was a mill.";
  const std::vector<Token> tokens = bytes().encode(tale);
  const auto found_with = [&](int target_vocabulary) {
    const TranslatedModel shared = pieces_for_bytes(writer_of(tale), target_vocabulary);
    TranslatedDraft draft(shared, 50, 5);
    draft.observe(std::span(tokens).first(1), {});
    return proposed(draft, std::span(tokens).first(2), 5);
  };
  const std::vector<Token> all = found_with(2048);
  ASSERT_EQ(all.size(), 5U);
  for (const Token token : all) {
    const std::vector<Token> kept(all.begin(), std::ranges::find_if(all, [&](Token t) { return t >= token; }));
    EXPECT_EQ(found_with(token), kept);
  }
}

TEST(TranslatedDraft, ProposesNothingWhereItsModelLacksATokenOfTheText) {
  const std::vector<Token> tokens = bytes().encode("the mill");
  const std::vector<Token> read = pieces().encode("the mill");
  const Token largest = *std::ranges::max_element(read);
  const Token favorite = 259;  // the first piece
  ASSERT_LT(favorite, largest);
  for (const int rows : {largest + 1, largest}) {
    const TranslatedModel shared = pieces_for_bytes(std::make_unique<TableModel>(rows, [&](std::span<const Token>) {
      std::vector<float> row(static_cast<std::size_t>(rows), 0);
      row[favorite] = 1;
      return row;
    }));
    TranslatedDraft draft(shared, 50, 3);
    draft.observe(std::span(tokens).first(tokens.size() - 1), {});
    EXPECT_EQ(proposed(draft, tokens, 3).empty(), rows == largest);
  }
}

TEST(TranslatedDraft, ProposesLessAndThenNothingWhenItsCacheIsFull) {
  std::string tale;
  for (int i = 0; i < 30; ++i) tale += "1234567890 ";
  const std::vector<Token> tokens = bytes().encode(tale);
  const int capacity = static_cast<int>(pieces().encode(tale).size()) / 2 / TranslatedDraft::tokens_per_position;
  const TranslatedModel shared = pieces_for_bytes(writer_of(tale));
  TranslatedDraft draft(shared, capacity, 5);
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size < tokens.size(); ++size) {
    const std::span<const Token> committed = std::span(tokens).first(size);
    sizes.push_back(proposed(draft, committed, 5).size());
    draft.observe(committed.last(1), {});
  }
  EXPECT_EQ(sizes[sizes.size() / 4], 5U);
  EXPECT_EQ(sizes.back(), 0U);
}

/// The tokens of a model under other ids.
class PermutedModel final : public OneByOneModel {
 public:
  /// Token t is token new_id[t] here.
  PermutedModel(std::unique_ptr<Model> inner, std::vector<Token> new_id)
      : inner_(std::move(inner)), new_id_(std::move(new_id)), old_id_(new_id_.size()) {
    for (std::size_t old = 0; old < new_id_.size(); ++old) {
      old_id_[static_cast<std::size_t>(new_id_[old])] = static_cast<Token>(old);
    }
  }
  int vocabulary() const override { return inner_->vocabulary(); }
  int context() const override { return inner_->context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return inner_->new_cache(capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    std::vector<Token> tokens;
    for (const Token token : segment.tokens) tokens.push_back(old_id_[static_cast<std::size_t>(token)]);
    Segment renamed = segment;
    renamed.tokens = tokens;
    forward_alone(*inner_, renamed, outputs);
    const std::vector<float> rows = outputs.logits;
    const std::size_t width = new_id_.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      outputs.logits[i / width * width + static_cast<std::size_t>(new_id_[i % width])] = rows[i];
    }
  }

  std::unique_ptr<Model> inner_;
  std::vector<Token> new_id_, old_id_;
};

/// tale-target's tokenizer with other ids: of every entry and every added token.
Tokenizer permuted_bytes(const std::vector<Token>& new_id) {
  std::ifstream file(models / "tale-target/tokenizer.json");
  std::string json((std::istreambuf_iterator<char>(file)), {});
  const Tokenizer tokenizer = bytes();
  std::string edited;
  // Each id is the number behind `": ` in the vocabulary and behind `"id": ` in the added tokens.
  const std::size_t added = json.find("\"added_tokens\""), normalizer = json.find("\"normalizer\"");
  const std::size_t vocabulary = json.find("\"vocab\""), merges = json.find("\"merges\"");
  for (std::size_t at = 0; at < json.size();) {
    const bool in_vocabulary = at > vocabulary && at < merges && at >= 3 && json.compare(at - 3, 3, "\": ") == 0;
    const bool in_added = at > added && at < normalizer && at >= 6 && json.compare(at - 6, 6, "\"id\": ") == 0;
    if ((in_vocabulary || in_added) && std::isdigit(static_cast<unsigned char>(json[at]))) {
      std::size_t end = at;
      while (std::isdigit(static_cast<unsigned char>(json[end]))) ++end;
      edited += std::to_string(new_id[static_cast<std::size_t>(std::stoi(json.substr(at, end - at)))]);
      at = end;
    } else {
      edited += json[at++];
    }
  }
  return test::load_json(edited);
}

TEST(TranslatedDraftSlow, WithAPermutedVocabularyProposesWhatTheModelProposesUntranslated) {
  const Threads one(1);
  const auto small = load_model(Checkpoint(models / "tale-small"), best_kernels());
  std::vector<Token> new_id(2048);
  std::iota(new_id.begin(), new_id.end(), 0);
  std::reverse(new_id.begin() + 7, new_id.begin() + 1900);
  std::rotate(new_id.begin(), new_id.begin() + 600, new_id.end());
  const Tokenizer permuted = permuted_bytes(new_id);
  ASSERT_EQ(permuted.text_of(new_id[300]), bytes().text_of(300));
  ASSERT_TRUE(permuted.is_special(new_id[2044]));
  const TranslatedModel shared = {
      std::make_unique<PermutedModel>(load_model(Checkpoint(models / "tale-small"), best_kernels()), new_id),
      permuted_bytes(new_id), bytes(), 2048};

  const Json greedy = Json::read(models / "tale-hybrid/training.json").at("greedy");
  std::vector<Token> text = bytes().encode(greedy.at("prompt").string());
  for (const std::int64_t id : greedy.at("tokens").integers(0, 2047)) text.push_back(static_cast<Token>(id));
  ASSERT_GT(text.size(), 60U);
  TranslatedDraft translated(shared, 300, 5);
  ModelDraft plain(*small, 300, 5);
  PhiloxSource random(1);
  for (std::size_t size = 1; size < text.size(); ++size) {
    const std::span<const Token> committed = std::span(text).first(size);
    std::vector<Token> expected = propose(plain, committed, 5, {}, random).tokens;
    const auto end = std::ranges::find_if(expected, [](Token token) { return bytes().is_special(token); });
    if (end != expected.end()) expected.erase(end + 1, expected.end());  // the text ends there
    ASSERT_EQ(proposed(translated, committed, 5), expected) << "after " << size;
    translated.observe(committed.last(1), {});
    plain.observe(committed.last(1), {});
  }
}

}  // namespace
}  // namespace draftproof::translated_draft_test
