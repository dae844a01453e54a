// SPDX-License-Identifier: MIT
// Decoding under a context shift, against a loop that keeps a list of tokens: no draft, chunk, interruption or prefix
// cache changes the text.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/drafts/short_context.h"
#include "tests/decoding/support.h"

namespace draftproof::context_shift_test {
namespace {

constexpr int vocabulary = 5;
constexpr std::uint64_t seed = 11;

std::vector<ContextShift> all_shifts(int context_max) {
  std::vector<ContextShift> list;
  for (int context = 2; context <= context_max; ++context) {
    for (int keep = 0; keep < context; ++keep) {
      for (int discard = 1; keep + discard < context; ++discard) list.push_back({context, keep, discard});
    }
  }
  return list;
}

/// What decodes one request.
struct Subjects {
  explicit Subjects(const Asked& request, int kind)
      : target(make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 3})),
        perturbed(make_hash_model(disagreeing({.vocabulary = vocabulary, .levels = 3, .seed = 3}))) {
    const int capacity = request.positions();
    const int whole = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
    switch (kind) {
      case 0: draft = std::make_unique<NoDraft>(); break;
      case 1: draft = std::make_unique<ModelDraft>(*perturbed, capacity, request.draft_max); break;
      case 2: draft = std::make_unique<AlwaysRejectDraft>(*target, capacity, request.draft_max); break;
      case 3: draft = std::make_unique<PerfectDraft>(*target, capacity, request.draft_max); break;
      default: {  // its context is hidden, so it must hold the whole text
        std::vector<Token> text = request.prompt;
        const std::vector<Token> output = plain_output(*target, request, seed);
        text.insert(text.end(), output.begin(), output.end());
        draft = std::make_unique<TreeDraft>(*perturbed, whole, request.draft_max, text, false);
      }
    }
  }
  static constexpr int kinds = 5;

  std::unique_ptr<Model> target;
  std::unique_ptr<Model> perturbed;
  std::unique_ptr<Draft> draft;
  PhiloxSource random{seed};
};

TEST(ContextShift, GivesTheTextOfPlainDecodingForAllShiftsDraftsAndVerifications) {
  long runs = 0;
  for (const ContextShift& shift : all_shifts(7)) {
    for (const int prompt : {1, 6, 7, 8, 15}) {
      for (int kind = 0; kind < Subjects::kinds; ++kind) {
        Asked request = asked({}, 14, 1 + (kind + prompt) % 4, {.temperature = prompt % 2 == 0 ? 0.0F : 1.0F});
        for (int i = 0; i < prompt; ++i) request.prompt.push_back((i * i + 1) % vocabulary);
        request.sampling.repeat_penalty = 1.5F;
        request.sampling.repeat_last_n = 9;  // counts dropped tokens, too
        request.context_shift = shift;
        request.prefill_chunk = kind % 3;
        request.verification = (kind + prompt) % 2 == 0 ? Verification::batched : Verification::serial;
        Subjects setup(request, kind);
        Decoder decoder(*setup.target, *setup.draft, matching, setup.random, request, request, Recording::digests);
        decoder.run();
        const Trace& trace = decoder.trace();
        const std::string what = std::to_string(shift.context) + ", " + std::to_string(shift.keep) + ", " +
                                 std::to_string(shift.discard) + ", prompt of " + std::to_string(prompt) + ", draft " +
                                 std::to_string(kind);
        ASSERT_EQ(trace.output, plain_output(*setup.target, request, seed)) << what;
        std::vector<Token> text = request.prompt;
        text.insert(text.end(), trace.output.begin(), trace.output.end() - 1);
        const std::vector<Token> kept = kept_of(text, shift);
        ASSERT_EQ(trace.final_length, std::ssize(kept)) << what;
        ASSERT_EQ(trace.final_cache, cache_after(*setup.target, kept)) << what;
        if (kind == 1) {
          ASSERT_EQ(trace.final_draft, cache_after(*setup.perturbed, kept)) << what;
        }
        ++runs;
      }
    }
  }
  EXPECT_GT(runs, 1000);
}

TEST(ContextShift, ContinuesWithTheSameBitsAfterPreemptionAndCancellationInEveryRound) {
  for (const ContextShift& shift : {ContextShift{5, 1, 2}, ContextShift{4, 0, 3}, ContextShift{8, 3, 1}}) {
    for (int kind = 0; kind < Subjects::kinds; ++kind) {
      Asked request = asked({1, 2, 3, 1, 4, 0, 2}, 16, 3, {.temperature = 1});
      request.context_shift = shift;
      Subjects setup(request, kind);
      Decoder decoder(*setup.target, *setup.draft, matching, setup.random, request, request, Recording::digests);
      decoder.run();
      const Trace expected = decoder.trace();
      for (int round = 1; round < std::ssize(expected.rounds); ++round) {
        for (const bool preempt : {false, true}) {
          Subjects again(request, kind);
          const Collaborators with = {
              .target = *again.target, .draft = *again.draft, .rule = matching, .random = again.random};
          Sequence sequence(with, request, request, Recording::digests);
          sequence.watch(
              {[&](const Trace& trace) { return std::ssize(trace.rounds) == round ? Next::cancel : Next::go_on; }},
              nullptr);
          decode_alone(sequence);
          ASSERT_EQ(sequence.trace().finish, Finish::cancelled);
          if (preempt) sequence.preempt();
          sequence.watch({}, nullptr);
          sequence.resume();
          decode_alone(sequence);
          ASSERT_EQ(difference(sequence.trace(), expected), "") << "draft " << kind << ", round " << round;
        }
      }
    }
  }
}

TEST(ContextShift, TakesAPrefixFromThePrefixCacheAndGivesItNothingShifted) {
  Asked request = asked({1, 2, 3, 1, 4, 0, 2, 2, 1}, 16, 3, {.temperature = 1});
  request.context_shift = {12, 2, 4};
  Subjects setup(request, 1);
  Decoder decoder(*setup.target, *setup.draft, matching, setup.random, request, request, Recording::digests);
  decoder.run();
  PrefixCache prefixes(std::size_t{1} << 20);
  for (const int reused : {0, 8, 8}) {
    Subjects again(request, 1);
    const Collaborators with = {.target = *again.target,
                                .draft = *again.draft,
                                .rule = matching,
                                .random = again.random,
                                .draft_name = "draft"};
    Sequence sequence(with, request, request, Recording::digests);
    decode_alone(sequence, {}, &prefixes);
    EXPECT_EQ(difference(sequence.trace(), decoder.trace()), "");
    EXPECT_EQ(sequence.trace().reused, reused);
  }
  // What was read before the first shift is there, and no more.
  std::vector<Token> text = request.prompt;
  text.insert(text.end(), decoder.trace().output.begin(), decoder.trace().output.end());
  EXPECT_EQ(prefixes.find(text, static_cast<int>(text.size()), {"target"}).length(), 8);
}

class LimitedDrafter final : public ModelDrafter {
 public:
  using ModelDrafter::ModelDrafter;
  int reach() const override { return 1000; }
};

TEST(ContextShift, ADraftThatCannotFollowServesTheTextBeforeTheFirstShift) {
  const auto sound = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 3});
  const auto recurrent = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 3, .recurrent = true});
  const auto drafter = for_texts_of_any_length(std::make_unique<LimitedDrafter>(*recurrent));
  Asked request = asked({1, 2}, 40, 3, {.temperature = 1});
  EXPECT_EQ(draft_reach(request, *drafter->open(42, 3)), 1000) << "nothing is shifted";
  request.context_shift = {12, 2, 4};
  EXPECT_EQ(draft_reach(request, *drafter->open(12, 3)), 12);
  const auto draft = drafter->open(12, 3);
  PhiloxSource random(1);
  Decoder decoder(*sound, *draft, matching, random, request, request, Recording::digests);
  decoder.run();
  const Trace& trace = decoder.trace();
  EXPECT_EQ(trace.output, plain_output(*sound, request, 1));
  EXPECT_EQ(trace.draft_reach, 12);
  EXPECT_GT(trace.statistics.drafted, 0);
  for (const Round& round : trace.rounds)
    EXPECT_LE(round.position + round.proposal.size(), std::max(12, round.position));
  request.max_new_tokens = 5;
  EXPECT_EQ(draft_reach(request, *drafter->open(7, 3)), 1000) << "it ends before the first shift";
}

TEST(ContextShift, RefusesWhatTheTargetCannotDo) {
  const auto recurrent = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 3, .recurrent = true});
  const auto sound = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 3});
  Asked request = asked({1, 2}, 20);
  request.context_shift = {8, 2, 3};
  EXPECT_EQ(request_error(request, *sound), "");
  EXPECT_EQ(request_error(request, *recurrent),
            "the context cannot be shifted: layer 0 keeps one state of the whole text, of which no part can be "
            "dropped");
  request.context_shift->discard = 6;
  EXPECT_EQ(request_error(request, *sound),
            "a context shift that keeps 2 positions and drops 6 needs a context of more than both together, not 8");
  request.context_shift = {8, 2, 3};
  request.max_new_tokens = 2147483647;
  EXPECT_EQ(request_error(request, *sound),
            "the prompt of 2 tokens and 2147483647 new ones need 2147483649 positions, a text can have 1073741824");
}

}  // namespace
}  // namespace draftproof::context_shift_test
