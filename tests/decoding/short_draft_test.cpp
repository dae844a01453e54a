// SPDX-License-Identifier: MIT
// Trained drafts that were given 48 positions beside a target of 1024: whatever the draft, the rule, the temperature
// and how many texts there are, a text crosses its end as plain decoding does.
#include "ref/decoding/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "ref/decoding/batch_run.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/support.h"
#include "tests/folder.h"
#include "tests/threads.h"

namespace draftproof::short_draft_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";
constexpr int reach = 48;

/// Copies of shipped drafts whose config states 48 positions.
class ShortDrafts : public ::testing::Test {
 protected:
  std::string short_copy(const std::string& name) {
    const auto copy = folder_.path() / name;
    if (std::filesystem::exists(copy)) return copy.string();
    std::filesystem::copy(models / name, copy, std::filesystem::copy_options::recursive);
    const std::regex positions("\"max_position_embeddings\": *[0-9]+");
    test::put(copy / "config.json", std::regex_replace(test::text_of(copy / "config.json"), positions,
                                                       "\"max_position_embeddings\": " + std::to_string(reach)));
    return copy.string();
  }
  std::vector<std::string> drafts() {
    return {"dflash:" + short_copy("tale-dflash"),
            "dflash:" + short_copy("tale-dflash") + "?window=16",
            "dflash:" + short_copy("tale-dspark"),
            "eagle3:" + short_copy("tale-eagle3"),
            "eagle3:" + short_copy("tale-eagle3") + "?tree=8",
            "eagle3:" + short_copy("tale-peagle"),
            "mtp:" + short_copy("tale-mtp"),
            "pard:" + short_copy("tale-pard"),
            "model:" + short_copy("tale-small"),
            "model:" + short_copy("tale-small") + "?translate=1",
            "suffix+eagle3:" + short_copy("tale-eagle3")};
  }

  /// Of a translated draft it is the length of the first text that does not fit.
  static int reach_of(const std::string& draft) { return draft.ends_with("translate=1") ? reach + 1 : reach; }

  static Asked tale(const std::string& prompt, int max_new_tokens) {
    return asked(Tokenizer::load(models / "tale-target").encode(prompt), max_new_tokens);
  }

  const Threads one_{1};
  test::Folder folder_;
  ModelFiles files_{models / "tale-target"};
  Engine engine_{files_, best_kernels()};
  PhiloxSource random_{1};
};

using ShortDraftsSlow = ShortDrafts;

TEST_F(ShortDraftsSlow, TextsGoOnToTheTargetsLastPositionAsPlainDecodingDoes) {
  Asked request = tale("Once upon a time there was a king who", 0);
  for (const float temperature : {0.0F, 1.0F}) {
    request.sampling.temperature = temperature;
    request.max_new_tokens = temperature == 0 ? 1024 - static_cast<int>(request.prompt.size()) : 4 * reach;
    const Trace plain = engine_.decode({.request = request, .random = random_});
    ASSERT_EQ(plain.output.size(), static_cast<std::size_t>(request.max_new_tokens));
    for (const std::string& draft : drafts()) {
      const Trace trace = engine_.decode({.request = request, .draft = draft, .random = random_});
      EXPECT_EQ(trace.output, plain.output) << draft;
      EXPECT_GT(trace.statistics.drafted, 0) << draft;
      EXPECT_EQ(trace.draft_reach, reach_of(draft)) << draft;
      EXPECT_GT(rounds_beyond_draft(trace), 0) << draft;
      const bool has_other_stages = draft.starts_with("suffix+");
      for (const Round& round : trace.rounds) {
        if (has_other_stages) break;
        ASSERT_LE(round.position + round.proposal.size(), std::max(reach, round.position)) << draft;
      }
    }
  }
}

/// Which ones, of which target.
struct OfTarget {
  const char* target;
  std::vector<const char*> drafts;
};

class ShortDraftsOf : public ShortDrafts, public ::testing::WithParamInterface<OfTarget> {
 protected:
  /// The kind, a copy of the folder, and options.
  std::string short_draft(const std::string& name) {
    const auto path = name.find("tale-");
    if (path == std::string::npos) return name;
    const auto options = std::min(name.find('?', path), name.size());
    return name.substr(0, path) + short_copy(name.substr(path, options - path)) + name.substr(options);
  }
};

/// A round of each text crosses the end in its middle: the draft tokens of one end at its last position, or before.
TEST_P(ShortDraftsOf, EachOfFourTextsCrossesTheEndAsItDoesAlone) {
  ModelFiles files(models / GetParam().target);
  Engine engine(files, best_kernels());
  std::vector<Asked> requests;
  for (const char* prompt : {"Once upon a time", "Once upon a time there was a king who", "The fox said", "A"}) {
    requests.push_back(asked(Tokenizer::load(models / GetParam().target).encode(prompt), 2 * reach));
  }
  for (const char* const named : GetParam().drafts) {
    const std::string draft = short_draft(named);
    for (const Rule* const rule : {&matching, &rejection}) {
      for (const float temperature : {0.0F, 1.0F}) {
        std::vector<Trace> alone;
        std::vector<Engine::Opened> together;
        std::vector<Scheduled> scheduled;
        for (Asked& request : requests) {
          request.sampling.temperature = temperature;
          const Trace plain = engine.decode({.request = request, .random = random_});
          const auto job = [&] {
            return DecodeJob{
                .request = request, .draft = draft, .rule = *rule, .random = random_, .recording = Recording::digests};
          };
          alone.push_back(engine.decode(job()));
          if (rule == &matching || temperature == 0) {
            EXPECT_EQ(alone.back().output, plain.output) << draft;
          }
          EXPECT_GT(alone.back().statistics.drafted, 0) << draft;
          together.push_back(engine.open(job()));
          scheduled.push_back({together.back().sequence.get(), {}, {}});
        }
        Scheduler scheduler(engine.target());
        run_batch(scheduler, scheduled);
        for (std::size_t i = 0; i < alone.size(); ++i) {
          engine.sign(alone[i]);
          Trace trace = together[i].sequence->trace();
          engine.sign(trace);
          EXPECT_EQ(difference(trace, alone[i]), "") << draft << ", text " << i;
          if (draft == named || draft.starts_with("medusa:")) continue;  // has no end of its own
          EXPECT_EQ(trace.draft_reach, reach_of(draft)) << draft;
          EXPECT_GT(rounds_beyond_draft(trace), 0) << draft;
          for (const Round& round : trace.rounds) {
            EXPECT_TRUE(round.proposal.size() == 0 || !is_beyond_draft(trace, round)) << draft;
          }
        }
      }
    }
  }
}

const OfTarget all_targets[] = {
    {"tale-target",
     {"dflash:tale-dflash", "dflash:tale-dspark?min_confidence=0.5", "eagle3:tale-eagle3", "eagle3:tale-eagle3?tree=8",
      "eagle3:tale-peagle", "eagle3:tale-peagle?tree=8", "mtp:tale-mtp", "model:tale-small",
      "model:tale-small?translate=1", "pard:tale-pard", "pard:tale-pard?tree=8", "self", "medusa:tale-medusa",
      "medusa:tale-medusa?tree=8"}},
    {"tale-hybrid", {"dflash:tale-hybrid-dflash", "eagle3:tale-hybrid-eagle3", "mtp:tale-hybrid-mtp"}},
    {"tale-gemma", {"mtp:tale-gemma-assistant", "mtp:tale-gemma-assistant?tree=8"}},
};
std::string name_of_target(const testing::TestParamInfo<OfTarget>& test) {
  std::string name = test.param.target;
  name.erase(name.find('-'), 1);
  return name;
}
INSTANTIATE_TEST_SUITE_P(SlowAll, ShortDraftsOf, testing::ValuesIn(all_targets), name_of_target);

TEST_F(ShortDrafts, PromptsThatAreLongerThanTheDraftAreServedAndTheirPrefixesReused) {
  const Asked request = tale(
      "Once upon a time there was a king who had three sons, and the youngest of them lived in "
      "a small house beside the river with an old dog, a gray cat and a clock that never told "
      "the right time, though he wound it every morning before he went to the market.",
      20);
  ASSERT_GT(request.prompt.size(), static_cast<std::size_t>(reach));
  const Trace plain = engine_.decode({.request = request, .random = random_});
  for (const std::string& draft : drafts()) {
    PrefixCache prefixes(std::size_t{1} << 26);
    for (const bool again : {false, true}) {
      const Trace trace = engine_.decode(
          {.request = request, .draft = draft, .random = random_, .recording = Recording::digests}, &prefixes);
      EXPECT_EQ(trace.output, plain.output) << draft;
      EXPECT_EQ(trace.reused > reach, again) << draft;
    }
  }
}

TEST_F(ShortDrafts, ATextThatOutgrowsTheDraftIsReusedUpToWhereBothHoldIt) {
  const Asked request = tale("Once upon a time there was a king who", 100);
  const Trace plain = engine_.decode({.request = request, .random = random_});
  for (const std::string& draft : drafts()) {
    PrefixCache prefixes(std::size_t{1} << 26);
    const auto decode = [&] {
      return engine_.decode({.request = request, .draft = draft, .random = random_, .recording = Recording::digests},
                            &prefixes);
    };
    const Trace first = decode();
    const Trace again = decode();
    EXPECT_EQ(again.output, plain.output) << draft;
    EXPECT_GT(again.reused, 0) << draft;
    ASSERT_EQ(again.rounds.size(), first.rounds.size()) << draft;
    for (std::size_t i = 0; i < again.rounds.size(); ++i) {
      EXPECT_EQ(again.rounds[i].proposal.tokens, first.rounds[i].proposal.tokens) << draft;
    }
  }
}

TEST_F(ShortDrafts, AContextShiftBehindTheDraftsLastPositionGivesTheTextOfPlainDecoding) {
  Asked request = tale("Once upon a time there was a king who", 150);
  request.context_shift = ContextShift{.context = 100, .keep = 4, .discard = 40};
  const Trace plain = engine_.decode({.request = request, .random = random_});
  for (const std::string& draft : drafts()) {
    EXPECT_EQ(engine_.decode({.request = request, .draft = draft, .random = random_}).output, plain.output) << draft;
  }
}

}  // namespace
}  // namespace draftproof::short_draft_test
