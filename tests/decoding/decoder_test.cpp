// SPDX-License-Identifier: MIT
// The decoding loop on a hash model: every draft, every script, every exit, compared with a plain loop of ten lines.
#include "ref/decoding/decoder.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>

#include "tests/decoding/support.h"

namespace draftproof::decoder_test {
namespace {

constexpr int vocabulary = 5;
constexpr std::uint64_t seed = 11;

/// A target, a draft model that agrees with it on half of the rows, and the plain texts, which are computed once.
class Bench {
 public:
  Bench() : target_(make_hash_model(shape(0))), perturbed_(make_hash_model(shape(77))) {}

  Model& target() { return *target_; }
  Model& perturbed() { return *perturbed_; }

  /// Returns prompt and a long plain output without stop tokens, a prefix of which is every plain text.
  const std::vector<Token>& truth(const Request& request) {
    const Sampling& s = request.sampling;
    auto& text = truths_[{request.prompt, {s.temperature, s.repeat_penalty, s.presence_penalty}}];
    if (text.empty()) {
      Request endless = request;
      endless.stops.clear();
      endless.max_new_tokens = 24;
      text = request.prompt;
      const std::vector<Token> output = plain_output(*target_, endless, seed);
      text.insert(text.end(), output.begin(), output.end());
    }
    return text;
  }

  /// Draft kinds in order: models, trees, scripts.
  static constexpr std::size_t others = 6;
  static std::vector<std::string> draft_names() {
    std::vector<std::string> names = {"none",    "perturbed", "always-reject",
                                      "perfect", "tree",      "tree beside drawn draft tokens"};
    for (const NamedScript& row : scripts()) names.push_back(row.name);
    return names;
  }

  std::unique_ptr<Draft> new_draft(std::size_t kind, const Asked& request) {
    const int capacity = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
    if (kind == 0) return std::make_unique<NoDraft>();
    if (kind == 1) return std::make_unique<ModelDraft>(*perturbed_, capacity, request.draft_max);
    if (kind == 2) return std::make_unique<AlwaysRejectDraft>(*target_, capacity, request.draft_max);
    if (kind == 3) return std::make_unique<PerfectDraft>(*target_, capacity, request.draft_max);
    if (kind < others) {
      return std::make_unique<TreeDraft>(*perturbed_, capacity, request.draft_max, truth(request), kind == 5);
    }
    const Token stop = request.stops.empty() ? 0 : request.stops.back();
    return std::make_unique<KnowingDraft>(scripts()[kind - others].script, truth(request), vocabulary,
                                          stop < vocabulary ? stop : 0, request.draft_max);
  }

 private:
  static HashShape shape(std::uint64_t perturbation) {
    return {.vocabulary = vocabulary, .levels = 3, .seed = 3, .perturbation = perturbation, .disagreement = 2};
  }
  static const std::vector<NamedScript>& scripts() {
    static const std::vector<NamedScript> list = all_scripts();
    return list;
  }

  std::unique_ptr<Model> target_;
  std::unique_ptr<Model> perturbed_;
  std::map<std::pair<std::vector<Token>, std::array<float, 3>>, std::vector<Token>> truths_;
};

constexpr std::size_t draft_kinds = Bench::others + 8 + 16;

/// One point of the sweep.
struct Case {
  Asked request;
  std::size_t draft = 0;
  const Rule* rule = &matching;

  std::string describe() const {
    std::string text = Bench::draft_names()[draft] + ", " + rule->name + ", " + name_of(request.verification);
    text += ", draft_max " + std::to_string(request.draft_max) + ", tokens " + std::to_string(request.max_new_tokens);
    text += ", prompt of " + std::to_string(request.prompt.size()) + ", stops";
    for (const Token stop : request.stops) text += " " + std::to_string(stop);
    return text + ", temperature " + std::to_string(request.sampling.temperature) +
           (request.sampling.penalizes() ? ", penalties" : "");
  }
};

/// Whether the rule guarantees the tokens of plain decoding.
bool promises_tokens(const Case& point) { return point.rule == &matching || point.request.sampling.greedy(); }

/// Checks the counts against the rounds: iterations are the rounds with draft tokens, and each either had a rejection
/// or accepted all of its path.
std::string fault_of_counts(const Trace& trace) {
  const Statistics& s = trace.statistics;
  int iterations = 0, drafted = 0, accepted = 0, rejected = 0, all = 0;
  for (const Round& round : trace.rounds) {
    if (round.proposal.tokens.empty()) continue;
    ++iterations;
    drafted += static_cast<int>(round.proposal.tokens.size());
    int accepted_count = 0;
    int last = -1;
    const int accepted_max = std::min(round.verdict.accepted, static_cast<int>(round.emitted.size()));
    for (; accepted_count < accepted_max; ++accepted_count) {
      const int draft_token = round.proposal.child(last, round.emitted[accepted_count]);
      if (draft_token == Proposal::no_node) break;
      last = draft_token;
    }
    accepted += accepted_count;
    const bool every = round.proposal.first_child(last) == Proposal::no_node;
    all += every;
    rejected += !every;
  }
  if (s.rounds != static_cast<int>(trace.rounds.size())) return "rounds";
  if (s.iterations != iterations) return "iterations";
  if (s.drafted != drafted) return "drafted";
  if (s.accepted != accepted) return "accepted";
  if (s.mismatches != rejected || s.all_accepted != all) return "mismatches or all_accepted";
  if (s.iterations != s.mismatches + s.all_accepted) return "iterations as a sum";
  const bool batched = trace.execution.verification == Verification::batched;
  if (s.batched != (batched ? iterations : 0) || s.serial != (batched ? 0 : iterations)) return "batched or serial";
  if (s.acceptance() != (drafted == 0 ? 0.0 : 1.0 * accepted / drafted)) return "acceptance";
  if (s.average_accepted() != (iterations == 0 ? 0.0 : 1.0 * accepted / iterations)) return "average accepted";
  const Statistics again = recounted(trace);
  if (again.rounds != s.rounds || again.iterations != s.iterations || again.drafted != s.drafted ||
      again.accepted != s.accepted || again.mismatches != s.mismatches || again.all_accepted != s.all_accepted ||
      again.batched != s.batched || again.serial != s.serial) {
    return "the recount";
  }
  // Every token of the output is an accepted draft token or the target's own, one a round; a drafted stop has none
  // after it.
  int own = 0;
  for (const Round& round : trace.rounds) own += static_cast<int>(round.emitted.size()) - round.accepted;
  if (accepted + own != static_cast<int>(trace.output.size())) return "the sum of the output";
  return "";
}

/// Checks the state after a run: caches, draft and output are consistent.
std::string fault_at_rest(Bench& bench, const Decoder& decoder, const WatchedDraft& draft, const Request& request) {
  std::vector<Token> text = request.prompt;
  const std::vector<Token>& output = decoder.trace().output;
  text.insert(text.end(), output.begin(), output.end());
  const int length = decoder.cache().length();
  const bool in_prompt = length < static_cast<int>(request.prompt.size()) - 1;
  if (in_prompt ? !output.empty() : length != static_cast<int>(text.size()) - 1) {
    return "the cache holds " + std::to_string(length) + " of " + std::to_string(text.size()) + " positions";
  }
  text.resize(static_cast<std::size_t>(length));
  if (!(decoder.cache().digest() == cache_after(bench.target(), text))) return "the cache saw something else";
  if (draft.observed() != text) return "the draft observed something else";
  return draft.fault();
}

/// Runs one point to its end and checks everything. Returns an empty string when all checks pass.
std::string fault_of(Bench& bench, const Case& point) {
  const Asked& request = point.request;
  WatchedDraft draft(bench.new_draft(point.draft, request));
  PhiloxSource random(seed);
  Decoder decoder(bench.target(), draft, *point.rule, random, request, request, Recording::counts);
  std::vector<Token> received;
  std::string fault;
  decoder.run({[&](const Trace& trace) {
    const Round& round = trace.rounds.back();
    received.insert(received.end(), round.emitted.begin(), round.emitted.end());
    if (round.emitted.empty()) fault = "an empty run was handed out";
    if (trace.output != received) fault = "tokens were handed out before they were recorded";
    if (!round.rows.empty()) fault = "rows were shown that nobody asked for";
    return Next::go_on;
  }});
  if (!fault.empty()) return fault;
  const Trace& trace = decoder.trace();
  if (received != trace.output) return "what was handed out is not the output";

  if (promises_tokens(point)) {
    std::vector<Token> plain(bench.truth(request).begin() + static_cast<std::ptrdiff_t>(request.prompt.size()),
                             bench.truth(request).end());
    plain.resize(static_cast<std::size_t>(request.max_new_tokens));
    const auto stop = std::find_first_of(plain.begin(), plain.end(), request.stops.begin(), request.stops.end());
    if (stop != plain.end()) plain.erase(stop + 1, plain.end());
    if (trace.output != plain) return "the output is not plain decoding's";
  }
  const auto stop =
      std::find_first_of(trace.output.begin(), trace.output.end(), request.stops.begin(), request.stops.end());
  if (stop == trace.output.end()
          ? trace.finish != Finish::length || static_cast<int>(trace.output.size()) != request.max_new_tokens
          : trace.finish != Finish::stop || stop + 1 != trace.output.end()) {
    return std::string("the text ends wrongly, by ") + name_of(trace.finish);
  }
  if (static_cast<int>(trace.output.size()) > request.max_new_tokens) return "the budget is exceeded";
  if (trace.final_length != decoder.cache().length()) return "the final length is not the cache's";
  for (const Round& round : trace.rounds) {
    if (round.proposal.size() > request.draft_max) return "more draft tokens than asked for";
    if (!round.logits.empty() || !round.targets.empty() || !(round.cache == Fingerprint{}) ||
        !(round.draft == Fingerprint{}) || !round.proposal.drawn_from.empty()) {
      return "evidence was recorded though only counts were asked for";
    }
  }
  if (const std::string counts = fault_of_counts(trace); !counts.empty()) return "the counts are off: " + counts;
  return fault_at_rest(bench, decoder, draft, request);
}

const std::vector<std::vector<Token>>& stop_sets() {
  static const std::vector<std::vector<Token>> sets = {{}, {0}, {1, 3}, {vocabulary + 2}, {0, 1, 2, 3, 4}};
  return sets;
}

std::vector<Sampling> samplings() {
  return {
      {},
      {.temperature = 1},
      {.temperature = 0.8F,
       .repeat_penalty = 1.3F,
       .presence_penalty = 0.5F,
       .frequency_penalty = 0.25F,
       .repeat_last_n = 3},
      {.repeat_penalty = 2, .repeat_last_n = -1},
  };
}

/// Visits every `stride`-th point of the whole grid.
void sweep(std::size_t stride, const std::function<void(const Case&)>& visit) {
  std::size_t next = 0;
  for (std::size_t draft = 0; draft < draft_kinds; ++draft)
    for (const Sampling& sampling : samplings())
      for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule)
        for (const Verification verification : {Verification::batched, Verification::serial})
          for (int draft_max = 1; draft_max <= 8; ++draft_max)
            for (int tokens = 0; tokens <= 12; ++tokens)
              for (const std::vector<Token>& stops : stop_sets())
                for (int prompt = 1; prompt <= 5; ++prompt) {
                  if (next++ % stride != 0) continue;
                  Case point;
                  for (int i = 0; i < prompt; ++i) point.request.prompt.push_back((prompt + i * i) % vocabulary);
                  point.request.sampling = sampling;
                  point.request.stops = stops;
                  point.request.max_new_tokens = tokens;
                  point.request.draft_max = draft_max;
                  point.request.verification = verification;
                  point.draft = draft;
                  point.rule = *rule;
                  visit(point);
                }
}

void expect_no_fault(std::size_t stride) {
  Bench bench;
  long points = 0, bad = 0;
  sweep(stride, [&](const Case& point) {
    ++points;
    const std::string fault = fault_of(bench, point);
    if (!fault.empty() && ++bad <= 5) ADD_FAILURE() << point.describe() << ": " << fault;
  });
  EXPECT_EQ(bad, 0);
  ::testing::Test::RecordProperty("points", static_cast<int>(points));
}

/// The stride is coprime to every dimension of the grid, so that the visited points mix all of them.
TEST(Decoder, EveryDraftRuleAndBudgetGivesThePlainTextAndEndsOnePositionShortOfIt) { expect_no_fault(11); }
TEST(DecoderSweep, EveryPointOfTheWholeGrid) { expect_no_fault(1); }

Trace run_of(Bench& bench, const Case& point) {
  const std::unique_ptr<Draft> draft = bench.new_draft(point.draft, point.request);
  PhiloxSource random(seed);
  Decoder decoder(bench.target(), *draft, *point.rule, random, point.request, point.request, Recording::digests);
  decoder.run();
  return decoder.trace();
}

TEST(Decoder, SerialAndBatchedVerificationGiveEqualTracesToTheLastBit) {
  Bench bench;
  long bad = 0;
  sweep(53, [&](const Case& point) {
    Case other = point;
    other.request.verification =
        point.request.verification == Verification::batched ? Verification::serial : Verification::batched;
    const std::string fault = difference(run_of(bench, point), run_of(bench, other));
    if (!fault.empty() && ++bad <= 5) ADD_FAILURE() << point.describe() << ": " << fault;
  });
  EXPECT_EQ(bad, 0);
}

TEST(Decoder, EveryRowThatDecidedATokenEqualsThePlainRowAndEveryCacheANewOne) {
  Bench bench;
  long rows = 0, bad = 0;
  sweep(211, [&](const Case& point) {
    const Trace trace = run_of(bench, point);
    std::vector<Token> text = point.request.prompt;
    for (const Round& round : trace.rounds) {
      for (std::size_t i = 0; i < round.emitted.size(); ++i) {
        const int length = static_cast<int>(text.size());
        const auto cache = bench.target().new_cache(length, length);
        const Transaction transaction = cache->begin(length);
        Outputs outputs;
        forward_alone(bench.target(), {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, outputs);
        bad += !(round.logits.at(i) == digest_of(outputs.logits));
        bad += !(round.targets.at(i) ==
                 compute_distribution(outputs.logits, point.request.sampling, {text, {}}).fingerprint());
        text.push_back(round.emitted[i]);
        ++rows;
      }
      bad += round.cache_length != static_cast<int>(text.size()) - 1;
      bad += !(round.cache == cache_after(bench.target(), std::span(text).first(text.size() - 1)));
    }
  });
  EXPECT_EQ(bad, 0);
  EXPECT_GT(rows, 10'000);
}

TEST(Decoder, AStopTokenInThePromptDoesNotEndTheText) {
  Bench bench;
  Case point;
  point.request = asked({1, 0}, 3, 2, {}, {0});
  const Trace trace = run_of(bench, point);
  EXPECT_FALSE(trace.output.empty());
}

TEST(Decoder, AStopTokenEndsTheTextAsTheFirstAcceptedALaterAndTheTargetsToken) {
  Bench bench;
  Case point;
  point.request = asked({2, 4}, 12, 4);
  const std::vector<Token> text(bench.truth(point.request).begin() + 2, bench.truth(point.request).end());
  bool as_draft_token = false, as_own = false;
  for (point.draft = 0; point.draft < draft_kinds; ++point.draft) {
    for (std::size_t at = 0; at < 12; ++at) {
      if (std::find(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), text[at]) !=
          text.begin() + static_cast<std::ptrdiff_t>(at)) {
        continue;  // the token came before
      }
      point.request.stops = {text[at]};
      const Trace trace = run_of(bench, point);
      ASSERT_EQ(trace.output.size(), at + 1) << point.describe();
      EXPECT_EQ(trace.finish, Finish::stop);
      EXPECT_EQ(trace.final_length, 2 + static_cast<int>(at));
      const Round& last = trace.rounds.back();
      const bool drafted = last.accepted == static_cast<int>(last.emitted.size());
      as_draft_token |= drafted;
      as_own |= !drafted;
    }
  }
  EXPECT_TRUE(as_draft_token);
  EXPECT_TRUE(as_own);
}

/// Nothing can follow a stop token here, so whoever reads a row behind one fails.
TEST(Decoder, ARowBehindTheStopTokenThatNobodyCanReadEndsNoRequest) {
  Bench bench;
  WatchedModel target(bench.target());
  target.change = [](std::span<const Segment> batch, Outputs& outputs) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (int row = batch[i].logits_from; row < batch[i].rows(); ++row) {
        const Token token = batch[i].tokens[static_cast<std::size_t>(row)];
        if (token != 0 && token != 3) continue;
        const auto from = static_cast<std::size_t>(row - batch[i].logits_from) * vocabulary;
        std::ranges::fill(outputs.segments[i].logits.subspan(from, vocabulary), std::nanf(""));
      }
    }
  };
  int drafted_to_the_end = 0;
  for (const float temperature : {0.0f, 1.0f}) {
    for (const Rule* const rule : {&matching, &rejection, &block}) {
      for (std::size_t draft = 0; draft < draft_kinds; ++draft) {
        const Asked request = asked({2}, 12, 8, {.temperature = temperature}, {0, 3});
        const std::unique_ptr<Draft> used = bench.new_draft(draft, request);
        PhiloxSource random(seed);
        Decoder decoder(target, *used, *rule, random, request, request, Recording::counts);
        decoder.run();
        const Trace& trace = decoder.trace();
        ASSERT_EQ(trace.finish, Finish::stop) << draft;
        if (rule == &matching) {
          EXPECT_EQ(trace.output, plain_output(bench.target(), request, seed));
        }
        const Round& last = trace.rounds.back();
        drafted_to_the_end += last.accepted == static_cast<int>(last.emitted.size());
      }
    }
  }
  EXPECT_GT(drafted_to_the_end, 0);
}

TEST(Decoder, DraftTokensAfterADraftedStopTokenAreNeverVerified) {
  Bench bench;
  Case point;
  point.request = asked({2}, 12, 8, {}, {0, 3});
  for (point.draft = 0; point.draft < draft_kinds; ++point.draft) {
    const Trace trace = run_of(bench, point);
    for (const Round& round : trace.rounds) {
      for (int draft_token = 0; draft_token < round.proposal.size(); ++draft_token) {
        const Token token = round.proposal.tokens[draft_token];
        if (token != 0 && token != 3) continue;
        EXPECT_EQ(round.proposal.first_child(draft_token), Proposal::no_node) << point.describe();
      }
      EXPECT_EQ(round.proposal.drawn_from.size(), round.proposal.tokens.size());
    }
  }
}

TEST(Decoder, TheDraftIsNotCalledForTheLastTokenNorForZeroTokens) {
  Bench bench;
  for (const int draft_max : {-3, 0, 1, 5}) {
    for (const int tokens : {0, 1, 2, 6}) {
      Case point;
      point.request = asked({1, 2}, tokens, std::max(draft_max, 1));
      WatchedDraft draft(bench.new_draft(3, point.request));
      int proposals = 0;
      draft.before = [&](WatchedDraft::Call call) { proposals += call == WatchedDraft::Call::propose; };
      point.request.draft_max = draft_max;
      PhiloxSource random(seed);
      Decoder decoder(bench.target(), draft, matching, random, point.request, point.request, Recording::counts);
      decoder.run();
      EXPECT_EQ(static_cast<int>(decoder.trace().output.size()), tokens);
      if (draft_max <= 0 || tokens <= 1) {
        EXPECT_EQ(proposals, 0);
      } else if (draft_max == 5 && tokens == 6) {
        EXPECT_EQ(proposals, 1) << "five draft tokens and the target's own token are six";
      }
    }
  }
}

/// A prompt longer than several passes.
Asked long_request() {
  Asked request;
  for (int i = 0; i < 300; ++i) request.prompt.push_back(i * i % vocabulary);
  request.max_new_tokens = 9;
  request.draft_max = 3;
  return request;
}

std::vector<Asked> interrupted_requests() {
  std::vector<Asked> requests;
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1, .presence_penalty = 0.5F}}) {
    for (const Verification verification : {Verification::batched, Verification::serial}) {
      Asked small = asked({1, 2, 1}, 12, 3, sampling);
      small.verification = verification;
      Asked stopping = small;
      stopping.stops = {0};
      Asked large = long_request();
      large.sampling = sampling;
      large.verification = verification;
      requests.insert(requests.end(), {small, stopping, large});
    }
  }
  return requests;
}

/// Both rules, some drafts. Scripts count their rounds, so a repeated round may propose other tokens: equal traces are
/// required only of drafts that are functions of the text.
template <class Visit>
void each_interrupted(const Visit& visit) {
  for (const Asked& request : interrupted_requests())
    for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule)
      for (std::size_t draft = 0; draft < 4; ++draft) visit(Case{request, draft, *rule});
}

TEST(Decoder, ARunCancelledAfterAnyRoundContinuesToTheSameTrace) {
  Bench bench;
  each_interrupted([&](const Case& point) {
    const Trace whole = run_of(bench, point);
    for (std::size_t every = 1; every <= whole.rounds.size(); ++every) {
      WatchedDraft draft(bench.new_draft(point.draft, point.request));
      PhiloxSource random(seed);
      Decoder decoder(bench.target(), draft, *point.rule, random, point.request, point.request, Recording::digests);
      std::atomic<bool> cancelled = false;
      std::size_t rounds = 0;
      int cancels = -1;
      do {
        cancelled = false;
        ++cancels;
        decoder.run({[&](const Trace&) {
                      cancelled = ++rounds % every == 0;
                      return Next::go_on;
                    }},
                    &cancelled);
        ASSERT_EQ(fault_at_rest(bench, decoder, draft, point.request), "") << point.describe();
        ASSERT_EQ(decoder.trace().final_length, decoder.cache().length());
      } while (decoder.trace().finish == Finish::cancelled);
      EXPECT_EQ(cancels, static_cast<int>((whole.rounds.size() - 1) / every)) << "the last round ends the run";
      ASSERT_EQ(difference(decoder.trace(), whole), "") << point.describe() << ", every " << every;
    }
  });
}

TEST(Decoder, ACancellationDuringARoundLetsTheRoundFinish) {
  Bench bench;
  each_interrupted([&](const Case& point) {
    const Trace whole = run_of(bench, point);
    for (std::size_t pass = 0; pass < 40; ++pass) {
      WatchedModel target(bench.target());
      WatchedDraft draft(bench.new_draft(point.draft, point.request));
      PhiloxSource random(seed);
      Decoder decoder(target, draft, *point.rule, random, point.request, point.request, Recording::digests);
      std::atomic<bool> cancelled = false;
      std::size_t passes = 0;
      target.after = [&] { cancelled = cancelled || passes++ == pass; };
      decoder.run({}, &cancelled);
      const bool prompt = decoder.trace().output.empty();
      ASSERT_EQ(fault_at_rest(bench, decoder, draft, point.request), "") << point.describe() << " pass " << pass;
      EXPECT_TRUE(!prompt || decoder.trace().finish == Finish::cancelled);
      cancelled = false;
      target.after = nullptr;
      decoder.run({}, &cancelled);
      ASSERT_EQ(difference(decoder.trace(), whole), "") << point.describe() << " pass " << pass;
    }
  });
}

TEST(Decoder, ACancellationDuringPrefillIsReportedWhateverTheBudget) {
  Bench bench;
  for (const int tokens : {0, 1, 4}) {
    Asked request = long_request();
    request.max_new_tokens = tokens;
    WatchedModel target(bench.target());
    WatchedDraft draft(bench.new_draft(1, request));
    PhiloxSource random(seed);
    Decoder decoder(target, draft, matching, random, request, request, Recording::digests);
    std::atomic<bool> cancelled = false;
    target.after = [&] { cancelled = true; };
    decoder.run({}, &cancelled);
    EXPECT_EQ(decoder.trace().finish, Finish::cancelled);
    EXPECT_EQ(decoder.cache().length(), Draft::max_chunk);
    EXPECT_EQ(decoder.trace().final_length, Draft::max_chunk);
    EXPECT_TRUE(decoder.trace().rounds.empty());
    EXPECT_EQ(fault_at_rest(bench, decoder, draft, request), "");
    cancelled = false;
    decoder.run({}, nullptr);
    EXPECT_EQ(decoder.trace().finish, Finish::length);
    EXPECT_EQ(decoder.trace().output, plain_output(bench.target(), request, seed));
  }
}

TEST(Decoder, ACancellationBeforeTheFirstPassKeepsNothingAndRunningAFinishedTextAddsNothing) {
  Bench bench;
  Case point;
  point.request = asked({3}, 4, 2);
  const auto draft = bench.new_draft(1, point.request);
  PhiloxSource random(seed);
  Decoder decoder(bench.target(), *draft, matching, random, point.request, point.request, Recording::digests);
  std::atomic<bool> cancelled = true;
  decoder.run({}, &cancelled);
  EXPECT_EQ(decoder.trace().finish, Finish::cancelled);
  EXPECT_EQ(decoder.trace().final_length, 0) << "prompt of one, no output: prompt + output - 1 = 0";
  decoder.run();
  const Trace once = decoder.trace();
  EXPECT_EQ(once.finish, Finish::length);
  decoder.run({}, &cancelled);
  EXPECT_EQ(difference(decoder.trace(), once), "") << "a finished text has ended, whatever the flag is";
}

/// Makes the k-th call of something fail, for every k, and continues after each failure.
class Failure : public std::exception {};

/// `arm` installs a failure at call k and returns a function that removes it.
template <class Arm>
void expect_step_kept(Bench& bench, const Case& point, const Arm& arm) {
  const Trace whole = run_of(bench, point);
  for (int k = 0;; ++k) {
    ASSERT_LT(k, 200) << "the failures come to an end";
    WatchedModel target(bench.target());
    WatchedModel drafts_model(point.draft == 1 ? bench.perturbed() : bench.target());
    std::unique_ptr<Draft> inner;
    const int capacity = static_cast<int>(point.request.prompt.size()) + point.request.max_new_tokens;
    if (point.draft == 0) inner = std::make_unique<NoDraft>();
    if (point.draft == 1) inner = std::make_unique<ModelDraft>(drafts_model, capacity, point.request.draft_max);
    if (point.draft == 2) inner = std::make_unique<AlwaysRejectDraft>(drafts_model, capacity, point.request.draft_max);
    if (point.draft == 3) inner = std::make_unique<PerfectDraft>(drafts_model, capacity, point.request.draft_max);
    WatchedDraft draft(std::move(inner));
    PhiloxSource random(seed);
    Decoder decoder(target, draft, *point.rule, random, point.request, point.request, Recording::digests);
    int calls = 0;
    bool failed = false;
    std::vector<Token> received;
    const auto fail = [&] {
      if (calls++ != k) return;
      failed = true;
      throw Failure();
    };
    std::function<void()> at_emit;
    arm(target, drafts_model, draft, at_emit, fail);
    const RoundCallback watch{[&](const Trace& trace) {
      const std::vector<Token>& emitted = trace.rounds.back().emitted;
      received.insert(received.end(), emitted.begin(), emitted.end());
      if (at_emit) at_emit();
      return Next::go_on;
    }};
    try {
      decoder.run(watch);
    } catch (const Failure&) {
      ASSERT_EQ(decoder.trace().finish, Finish::unfinished);
    }
    ASSERT_EQ(fault_at_rest(bench, decoder, draft, point.request), "") << point.describe() << ", call " << k;
    ASSERT_EQ(received, decoder.trace().output) << point.describe() << ", call " << k;
    if (failed) decoder.run(watch);
    ASSERT_EQ(difference(decoder.trace(), whole), "") << point.describe() << ", call " << k;
    ASSERT_EQ(fault_of_counts(decoder.trace()), "") << point.describe() << ", call " << k;
    ASSERT_EQ(received, whole.output);
    if (!failed) break;
  }
}

template <class Arm>
void expect_step_kept_everywhere(const Arm& arm) {
  Bench bench;
  each_interrupted([&](const Case& point) {
    if (!::testing::Test::HasFatalFailure()) expect_step_kept(bench, point, arm);
  });
}

TEST(Decoder, ATargetThatFailsBeforeAnyPassLeavesTheStateConsistent) {
  expect_step_kept_everywhere([](WatchedModel& target, WatchedModel&, WatchedDraft&, std::function<void()>&,
                                 const auto& fail) { target.before = fail; });
}

TEST(Decoder, ATargetThatFailsAfterWritingItsRowsLeavesTheStateConsistent) {
  expect_step_kept_everywhere([](WatchedModel& target, WatchedModel&, WatchedDraft&, std::function<void()>&,
                                 const auto& fail) { target.after = fail; });
}

TEST(Decoder, ADraftThatFailsToProposeOrObserveLeavesTheStateConsistent) {
  expect_step_kept_everywhere([](WatchedModel&, WatchedModel&, WatchedDraft& draft, std::function<void()>&,
                                 const auto& fail) { draft.before = [fail](WatchedDraft::Call) { fail(); }; });
}

TEST(Decoder, ADraftModelThatFailsDuringProposeOrObserveLeavesTheStateConsistent) {
  expect_step_kept_everywhere([](WatchedModel&, WatchedModel& model, WatchedDraft&, std::function<void()>&,
                                 const auto& fail) { model.before = fail; });
  expect_step_kept_everywhere([](WatchedModel&, WatchedModel& model, WatchedDraft&, std::function<void()>&,
                                 const auto& fail) { model.after = fail; });
}

/// A draft may compute something for its digest.
TEST(Decoder, ADigestThatFailsIsAnErrorOfItsPassWhoseRoundIsReported) {
  class Draft final : public draftproof::Draft {
   public:
    int calls_left = 4;
    int draft_max() const override { return 0; }
    void observe(std::span<const Token>, std::span<const float>) override {}
    void propose(Token, int, ProposalBuilder&) override {}
    void forget() override {}
    Fingerprint digest() const override {
      if (--const_cast<Draft*>(this)->calls_left == 0) throw Failure();
      return {};
    }
  };
  Bench bench;
  Draft draft;
  PhiloxSource random(seed);
  const Asked request = asked({1, 2, 3}, 6);
  Decoder decoder(bench.target(), draft, matching, random, request, request, Recording::digests);
  std::vector<Token> received;
  const RoundCallback watch{[&](const Trace& trace) {
    received.push_back(trace.output.back());
    return Next::go_on;
  }};
  EXPECT_THROW(decoder.run(watch), Failure);
  EXPECT_EQ(received, decoder.trace().output);
  EXPECT_LT(received.size(), 6U);
  decoder.run(watch);
  EXPECT_EQ(received, decoder.trace().output);
  EXPECT_EQ(received.size(), 6U);
}

TEST(Decoder, CountsHowOftenItsDraftFailed) {
  class Draft final : public draftproof::Draft {
   public:
    int proposals = 0;
    int observations = 0;
    int draft_max() const override { return 1; }
    void observe(std::span<const Token>, std::span<const float>) override {
      if (++observations == 3) throw Failure();
    }
    void propose(Token, int, ProposalBuilder&) override {
      if (++proposals == 2) throw Failure();
    }
    void forget() override {}
  };
  Bench bench;
  Draft draft;
  PhiloxSource random(seed);
  const Asked request = asked({1, 2, 3}, 6, 1);
  Decoder decoder(bench.target(), draft, matching, random, request, request, Recording::counts);
  for (int failed = 1; failed <= 2; ++failed) {
    EXPECT_THROW(decoder.run(), Failure);
    EXPECT_EQ(decoder.trace().draft_times[0].failed, failed);
  }
  decoder.run();
  const DraftTimes& times = decoder.trace().draft_times[0];
  EXPECT_EQ(times.failed, 2) << "once proposing, and once observing";
  EXPECT_EQ(times.asked, draft.proposals - 1) << "a proposal that failed is none";
}

TEST(Decoder, ACallbackThatFailsHasReceivedEverythingThatIsRecorded) {
  expect_step_kept_everywhere([](WatchedModel&, WatchedModel&, WatchedDraft&, std::function<void()>& at_emit,
                                 const auto& fail) { at_emit = fail; });
}

TEST(Decoder, RowsAreVisibleToTheCallbackAndNotKeptAfterwards) {
  Bench bench;
  Case point;
  point.request = asked({1, 2}, 12, 3, {.temperature = 1});
  for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
    for (const Recording recording : {Recording::counts, Recording::digests}) {
      point.rule = *rule;
      const std::unique_ptr<Draft> draft = bench.new_draft(1, point.request);
      PhiloxSource random(seed);
      Decoder decoder(bench.target(), *draft, *point.rule, random, point.request, point.request, recording);
      std::vector<Fingerprint> seen;
      const auto look = [&](const Round& round) {
        const std::size_t read = static_cast<std::size_t>(round.verdict.accepted) + 1;
        ASSERT_TRUE(round.rows.size() == read || (*rule == &block && round.rows.size() > read));
        ASSERT_EQ(round.logits.size(), round.rows.size());
        ASSERT_EQ(round.proposal.drawn_from.size(), round.proposal.tokens.size());
        for (std::size_t i = 0; i < round.rows.size(); ++i) {
          ASSERT_EQ(round.rows[i].fingerprint(), round.targets[i]);
          seen.push_back(round.targets[i]);
        }
      };
      decoder.run({[&](const Trace& trace) {
                     look(trace.rounds.back());
                     return Next::go_on;
                   },
                   true});
      std::vector<Fingerprint> kept;
      for (const Round& round : decoder.trace().rounds) {
        EXPECT_TRUE(round.rows.empty());
        EXPECT_EQ(round.proposal.drawn_from.empty(), recording == Recording::counts || round.proposal.size() == 0);
        kept.insert(kept.end(), round.targets.begin(), round.targets.end());
      }
      EXPECT_EQ(kept, recording == Recording::digests ? seen : std::vector<Fingerprint>{});
      EXPECT_GE(seen.size(), decoder.trace().rounds.size());
    }
  }
}

TEST(Decoder, LogProbabilitiesAreThoseOfTheRawRowsInDouble) {
  Bench bench;
  const Sampling sampling{.temperature = 0.7F, .top_k = 3, .repeat_penalty = 1.5F, .presence_penalty = 1};
  Asked request = asked({1, 4}, 12, 0, sampling);
  request.logprobs = true;
  NoDraft draft;
  PhiloxSource random(seed);
  Decoder decoder(bench.target(), draft, matching, random, request, request, Recording::counts);
  decoder.run();
  EXPECT_EQ(decoder.trace().output, plain_output(bench.target(), request, seed));
  std::vector<Token> text = request.prompt;
  for (const Round& round : decoder.trace().rounds) {
    const int length = static_cast<int>(text.size());
    const auto cache = bench.target().new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    Outputs outputs;
    forward_alone(bench.target(), {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, outputs);
    double sum = 0;
    for (const float logit : outputs.logits) sum += std::exp(static_cast<double>(logit));
    const double expected = outputs.logits[round.emitted.at(0)] - std::log(sum);
    EXPECT_NEAR(round.logprobs.at(0), expected, 4e-16 * 8) << "a sum of five terms, an exp and a log, each to an ulp";
    text.push_back(round.emitted[0]);
  }
}

TEST(Decoder, LogProbabilitiesAreRecordedOnlyOnRequest) {
  Bench bench;
  Case point;
  point.request = asked({1}, 3);
  for (const Round& round : run_of(bench, point).rounds) {
    EXPECT_TRUE(round.logprobs.empty());
    EXPECT_TRUE(round.top_logprobs.empty());
  }
}

/// A model whose logits are multiples of 2, so that many of them are equal.
class CoarseModel final : public OneByOneModel {
 public:
  explicit CoarseModel(Model& inner) : inner_(inner) {}
  int vocabulary() const override { return inner_.vocabulary(); }
  int context() const override { return inner_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return inner_.new_cache(capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(inner_, segment, outputs);
    for (float& logit : outputs.logits) logit = 2 * std::round(logit / 2);
  }

  Model& inner_;
};

TEST(Decoder, TopLogprobsAreTheMostLikelyTokensOfEveryPlaceWithEveryDraft) {
  Bench bench;
  CoarseModel target(bench.target());
  long ties = 0;
  for (const int count : {1, 3, 5, 20}) {
    Asked request = asked({1, 4}, 12, 3, {.temperature = 0.7F, .top_k = 3, .repeat_penalty = 1.5F});
    request.logprobs = count != 3;
    request.top_logprobs = count;
    // The places, plainly: every row from scratch.
    const std::vector<Token> output = plain_output(target, request, seed);
    std::vector<std::vector<TokenLogprob>> expected;
    std::vector<double> own;
    std::vector<Token> text = request.prompt;
    for (const Token next : output) {
      const int length = static_cast<int>(text.size());
      const auto cache = target.new_cache(length, length);
      const Transaction transaction = cache->begin(length);
      Outputs outputs;
      forward_alone(target, {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, outputs);
      const std::vector<float>& logits = outputs.logits;
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      std::vector<TokenLogprob> place;
      for (Token token = 0; token < vocabulary; ++token) place.push_back({token, logits[token] - std::log(sum)});
      own.push_back(place[next].logprob);
      std::stable_sort(place.begin(), place.end(),
                       [&](const auto& a, const auto& b) { return logits[a.token] > logits[b.token]; });
      ties += logits[place[0].token] == logits[place[1].token];
      place.resize(std::min(count, vocabulary));
      expected.push_back(place);
      text.push_back(next);
    }
    for (std::size_t kind = 0; kind < draft_kinds; ++kind) {
      for (const Verification verification : {Verification::batched, Verification::serial}) {
        request.verification = verification;
        const std::unique_ptr<Draft> draft = bench.new_draft(kind, request);
        PhiloxSource random(seed);
        Decoder decoder(target, *draft, matching, random, request, request, Recording::counts);
        decoder.run();
        ASSERT_EQ(decoder.trace().output, output);
        std::size_t i = 0;
        for (const Round& round : decoder.trace().rounds) {
          ASSERT_EQ(round.top_logprobs.size(), round.emitted.size());
          ASSERT_EQ(round.logprobs.size(), request.logprobs ? round.emitted.size() : 0);
          for (std::size_t k = 0; k < round.emitted.size(); ++k, ++i) {
            const std::vector<TokenLogprob>& place = round.top_logprobs[k];
            ASSERT_EQ(place.size(), expected[i].size());
            for (std::size_t rank = 0; rank < place.size(); ++rank) {
              EXPECT_EQ(place[rank].token, expected[i][rank].token);
              EXPECT_NEAR(place[rank].logprob, expected[i][rank].logprob, 1e-13);
              if (request.logprobs && place[rank].token == round.emitted[k]) {
                EXPECT_EQ(place[rank].logprob, round.logprobs[k]) << "to the last bit";
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(ties, 4);
}

TEST(RequestError, ExplainsInOneMessageWhyARequestIsInvalid) {
  const auto target = make_hash_model({.vocabulary = 5, .context = 10});
  const auto error_for = [&](std::vector<Token> prompt, int tokens) {
    return request_error(asked(std::move(prompt), tokens), *target);
  };
  EXPECT_EQ(error_for({}, 1), "the prompt is empty; give at least one token to continue");
  EXPECT_EQ(error_for({1, 5}, 1), "prompt token 5 lies outside the vocabulary of 5");
  EXPECT_EQ(error_for({-1}, 1), "prompt token -1 lies outside the vocabulary of 5");
  EXPECT_EQ(error_for({1}, -1), "the number of new tokens is negative");
  EXPECT_EQ(error_for({1, 2, 3}, 8), "the prompt of 3 tokens and 8 new ones need 11 positions, the target has 10");
  EXPECT_EQ(error_for(std::vector<Token>(11, 0), 0),
            "the prompt of 11 tokens and 0 new ones need 11 positions, the target has 10");
  EXPECT_EQ(error_for({1}, std::numeric_limits<int>::max()),
            "the prompt of 1 tokens and 2147483647 new ones need 2147483648 positions, the target has 10");
  for (const int count : {-1, 21}) {
    Request most_likely = asked({1}, 1);
    most_likely.top_logprobs = count;
    EXPECT_EQ(request_error(most_likely, *target),
              "the most likely tokens of a place can be 0 to 20, not " + std::to_string(count));
  }
  EXPECT_EQ(error_for({1, 2, 3}, 7), "");
  EXPECT_EQ(error_for(std::vector<Token>(10, 4), 0), "");
}

TEST(Decoder, ATextThatFillsTheWholeContextIsDecodedToTheEnd) {
  Bench bench;
  const auto target = make_hash_model({.vocabulary = vocabulary, .context = 10, .levels = 3, .seed = 3});
  for (std::size_t draft = 0; draft < 4; ++draft) {
    const Asked request = asked({1, 2, 3}, 7, 8);
    const auto drafter = bench.new_draft(draft, request);
    PhiloxSource random(seed);
    Decoder decoder(*target, *drafter, matching, random, request, request, Recording::counts);
    decoder.run();
    EXPECT_EQ(decoder.trace().output, plain_output(*target, request, seed));
  }
}

TEST(Decoder, AProposalMayHaveMoreTokensThanAPrefillChunk) {
  Bench bench;
  const Asked request = asked({1, 2, 3}, 400, 300);
  PerfectDraft draft(bench.target(), 403, 300);
  PhiloxSource random(seed);
  Decoder decoder(bench.target(), draft, matching, random, request, request, Recording::digests);
  decoder.run();
  EXPECT_EQ(decoder.trace().output, plain_output(bench.target(), request, seed));
  EXPECT_EQ(decoder.trace().rounds.size(), 2U);
  EXPECT_EQ(decoder.trace().statistics.accepted, 398);
}

TEST(Decoder, AnInvalidRequestAborts) {
  Bench bench;
  NoDraft draft;
  PhiloxSource random(seed);
  EXPECT_DEATH(Decoder(bench.target(), draft, matching, random, {}, {}, Recording::counts), "the request fits");
}

}  // namespace
}  // namespace draftproof::decoder_test
