// SPDX-License-Identifier: MIT
// Assistants of Gemma 4, which read the target's cache, in the decoding loop: the text is that of plain decoding, and
// what they propose is a function of the committed text, however it was read, shared, preempted, restored or shifted.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>

#include "ref/decoding/batch_run.h"
#include "ref/decoding/engine.h"
#include "tests/decoding/support.h"
#include "tests/threads.h"

namespace draftproof::assistant_test {
namespace {

const std::filesystem::path external = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external";
constexpr std::uint64_t seed = 11;

/// Targets with a window of 4. The second one's last layers have no keys of their own.
struct Named {
  const char* target;
  const char* assistant;
};

class AssistantDraft : public testing::TestWithParam<Named> {
 protected:
  AssistantDraft() : files_(external / GetParam().target), engine_(files_, best_kernels()) {}

  std::string draft() const { return "mtp:" + (external / GetParam().assistant).string(); }

  /// A text of any length, whose prompt is shorter than the window, as long, or longer.
  static Asked request(int prompt, int max_new_tokens, Sampling sampling = {.temperature = 1}) {
    Asked request = asked({}, max_new_tokens, 4, sampling);
    for (int i = 0; i < prompt; ++i) request.prompt.push_back((7 * i * i + 3 * i + 5) % 48);
    return request;
  }

  Trace decode(const Asked& request, const std::string& draft, const Rule& rule = matching,
               PrefixCache* prefixes = nullptr) {
    PhiloxSource random(seed);
    return engine_.decode({.request = request,
                           .execution = request,
                           .draft = draft,
                           .rule = rule,
                           .random = random,
                           .recording = Recording::digests},
                          prefixes);
  }

  const Threads one_{1};
  ModelFiles files_;
  Engine engine_;
};

TEST_P(AssistantDraft, GivesTheTextOfPlainDecodingHoweverItIsVerified) {
  int accepted = 0;
  int refused = 0;
  for (const float temperature : {0.0F, 1.0F}) {
    for (const int prompt : {1, 2, 4, 5, 6, 20}) {
      Asked asked = request(prompt, 20, {.temperature = temperature});
      const Trace plain = decode(asked, "none");
      for (const std::string& name : {draft(), draft() + "?tree=7", "ngram-simple?n=1,m=3+" + draft()}) {
        for (const Rule* rule : {&matching, &rejection}) {
          std::vector<Token> text;
          for (const Verification verification :
               {Verification::batched, Verification::serial, Verification::redecode}) {
            asked.verification = verification;
            const Trace trace = decode(asked, name, *rule);
            if (rule == &matching || temperature == 0) {
              EXPECT_EQ(trace.output, plain.output) << name;
            }
            if (text.empty()) text = trace.output;
            EXPECT_EQ(trace.output, text) << name;
            accepted += trace.statistics.accepted;
            refused += trace.statistics.drafted - trace.statistics.accepted;
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, accepted);
}

TEST_P(AssistantDraft, ProposesWhatANewOneProposesThatReadsTheTextAtOnce) {
  for (const std::string& name : {draft(), draft() + "?tree=7"}) {
    const Asked whole = request(3, 24);
    const Trace trace = decode(whole, name);
    std::vector<Token> text = whole.prompt;
    int compared = 0;
    for (const Round& round : trace.rounds) {
      if (round.proposal.size() > 0) {
        Asked rest = whole;
        rest.prompt = text;
        rest.max_new_tokens = whole.max_new_tokens - static_cast<int>(text.size() - whole.prompt.size());
        const Trace fresh = decode(rest, name);
        ASSERT_EQ(fresh.rounds[0].proposal.tokens, round.proposal.tokens) << name << " at " << round.position;
        ASSERT_EQ(fresh.rounds[0].proposal.drawn_from, round.proposal.drawn_from);
        ASSERT_EQ(fresh.rounds[0].draft, round.draft);
        ++compared;
      }
      text.insert(text.end(), round.emitted.begin(), round.emitted.end());
    }
    EXPECT_GT(compared, 10);
  }
}

TEST_P(AssistantDraft, ProposesTheSameHoweverThePromptIsCut) {
  for (const std::string& name : {draft(), "ngram-simple?n=1,m=3+" + draft()}) {
    Asked asked = request(15, 16);
    const Trace whole = decode(asked, name);
    for (const int chunk : {1, 2, 3, 4, 5, 7}) {
      asked.prefill_chunk = chunk;
      EXPECT_EQ(difference(decode(asked, name), whole), "") << name << " in chunks of " << chunk;
    }
  }
}

/// Texts of different lengths in one pass, each with its own cache, some of which are taken and read again.
TEST_P(AssistantDraft, ProposesForEverySequenceOfABatchWhatItProposesAlone) {
  const std::string names[] = {draft(), draft(), draft() + "?tree=5", "ngram-simple?n=1,m=3+" + draft()};
  std::vector<Asked> all;
  std::vector<Trace> expected;
  for (int i = 0; i < 8; ++i) {
    Asked& asked = all.emplace_back(request(1 + 3 * i, 8 + 2 * (i % 5)));
    asked.sequence = i;
    expected.push_back(decode(asked, names[i % 4], i % 3 == 2 ? rejection : matching));
  }
  for (const int preempted_after : {0, 1, 2, 4}) {
    for (const int rows : {3, 11, 200}) {
      PhiloxSource random(seed);
      std::vector<Engine::Opened> opened;
      std::vector<Scheduled> scheduled;
      for (int i = 0; i < 8; ++i) {
        const Asked& asked = all[static_cast<std::size_t>(i)];
        opened.push_back(engine_.open({.request = asked,
                                       .execution = asked,
                                       .draft = names[i % 4],
                                       .rule = i % 3 == 2 ? rejection : matching,
                                       .random = random,
                                       .recording = Recording::digests}));
      }
      for (int i = 0; i < 8; ++i) {
        scheduled.push_back({opened[static_cast<std::size_t>(i)].sequence.get(),
                             {},
                             {.joins_after = i / 2, .preempted_after = preempted_after}});
      }
      Scheduler scheduler(engine_.target(), {.rows_per_pass = rows});
      run_batch(scheduler, scheduled);
      EXPECT_EQ(scheduler.counts().preemptions > 0, preempted_after > 0);
      for (std::size_t i = 0; i < opened.size(); ++i) {
        EXPECT_EQ(difference(opened[i].sequence->trace(), expected[i]), "")
            << "sequence " << i << ", " << rows << " rows, preempted after " << preempted_after;
      }
    }
  }
}

TEST_P(AssistantDraft, GoesOnFromThePrefixCacheAsIfItHadReadTheText) {
  for (const std::string& name : {draft(), "ngram-simple?n=1,m=3+" + draft()}) {
    const Asked shorter = request(9, 6);
    Asked longer = shorter;
    const Trace first = decode(shorter, name);
    longer.prompt.insert(longer.prompt.end(), first.output.begin(), first.output.end());
    longer.prompt.push_back(7);
    const Trace alone = decode(longer, name);
    PrefixCache prefixes(std::size_t{1} << 24);
    decode(shorter, name, matching, &prefixes);
    for (const int reused : {14, 15}) {
      const Trace trace = decode(longer, name, matching, &prefixes);
      EXPECT_GE(trace.reused, reused) << name;
      EXPECT_EQ(difference(trace, alone), "") << name;
    }
  }
}

TEST_P(AssistantDraft, ReadsTheShiftedCacheUnderAContextShift) {
  for (const ContextShift& shift : {ContextShift{24, 2, 9}, ContextShift{12, 0, 5}, ContextShift{9, 1, 1}}) {
    Asked asked = request(7, 40);
    asked.context_shift = shift;
    const Trace plain = decode(asked, "none");
    for (const std::string& name : {draft(), draft() + "?tree=7", "ngram-simple?n=1,m=3+" + draft()}) {
      const Trace whole = decode(asked, name);
      EXPECT_EQ(whole.output, plain.output) << name;
      Asked cut = asked;
      cut.prefill_chunk = 2;
      EXPECT_EQ(difference(decode(cut, name), whole), "") << name;
      for (const int round : {1, 5, 12}) {
        PhiloxSource random(seed);
        const Engine::Opened opened = engine_.open(
            {.request = asked, .execution = asked, .draft = name, .random = random, .recording = Recording::digests});
        Scheduler scheduler(engine_.target());
        std::vector<Scheduled> scheduled = {{opened.sequence.get(), {}, {.preempted_after = round}}};
        run_batch(scheduler, scheduled);
        EXPECT_EQ(scheduler.counts().preemptions, 1);
        EXPECT_EQ(difference(opened.sequence->trace(), whole), "") << name << " after round " << round;
      }
    }
  }
}

TEST_P(AssistantDraft, GoesOnAfterACancellationInEveryRound) {
  const Asked asked = request(5, 16);
  const Trace whole = decode(asked, draft());
  for (int round = 1; round < std::ssize(whole.rounds); ++round) {
    PhiloxSource random(seed);
    const Engine::Opened opened = engine_.open(
        {.request = asked, .execution = asked, .draft = draft(), .random = random, .recording = Recording::digests});
    opened.sequence->watch(
        {[&](const Trace& trace) { return std::ssize(trace.rounds) == round ? Next::cancel : Next::go_on; }}, nullptr);
    decode_alone(*opened.sequence);
    opened.sequence->watch({}, nullptr);
    opened.sequence->resume();
    decode_alone(*opened.sequence);
    EXPECT_EQ(difference(opened.sequence->trace(), whole), "");
  }
}

TEST_P(AssistantDraft, CanBeTuned) {
  Asked asked = request(6, 30, {});
  const Trace plain = decode(asked, "none");
  asked.draft_max = Execution::draft_max_auto;
  for (const std::string& name : {draft(), "ngram-simple?n=1,m=3+" + draft()}) {
    EXPECT_EQ(decode(asked, name).output, plain.output);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AssistantDraft,
                         testing::Values(Named{"gemma4-tiny", "gemma4-assistant"},
                                         Named{"gemma4-tiny-donors", "gemma4-assistant-ordered"}),
                         [](const auto& param) { return std::string(param.index == 0 ? "Plain" : "Donors"); });

}  // namespace
}  // namespace draftproof::assistant_test
