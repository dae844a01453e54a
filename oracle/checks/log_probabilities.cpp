// SPDX-License-Identifier: MIT
// Requests logprobs, of plain decoding and with every draft that promises plain decoding's tokens. The text must be
// plain decoding's, and each logprob, of the token and of the most likely tokens at its place, is recomputed from the
// row of the token, to the bit. The same holds for the tokens of the prompt.
#include <algorithm>
#include <map>
#include <set>

#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

constexpr int top_asked = 5;

/// "7: -0.25, 3: -1.5"
std::string text_of(std::span<const TokenLogprob> list) {
  std::string text;
  for (const auto& [token, logprob] : list) {
    text += (text.empty() ? "" : ", ") + std::to_string(token) + ": " + std::to_string(logprob);
  }
  return text.empty() ? "none" : text;
}

/// Returns one variation without a draft for each kernel table and number of threads, and one for each draft under a
/// rule that promises tokens.
std::vector<Variation> plan_variations(Trial& trial) {
  std::vector<Variation> list;
  std::set<std::pair<std::string, int>> seen;
  for (const Run& run : trial.runs) {
    if (!seen.emplace(run.variation.kernels, run.variation.threads).second) continue;
    Variation variation;
    variation.rule = run.variation.rule;
    variation.kernels = run.variation.kernels;
    variation.threads = run.variation.threads;
    list.push_back(variation);
  }
  for (const Run* const run : trial.one_per_draft()) {
    if (run->variation.draft != "none" && trial.promises_tokens(run->variation)) list.push_back(run->variation);
  }
  return list;
}

/// What rows of plain decoding say of the prompt's tokens behind the first, by the places of these: of all, or of so
/// many that are spread evenly and end with the last: by an odd step, so that no size of chunks keeps out of the way.
std::map<std::size_t, PromptLogprob> plain_prompt_logprobs(Trial& trial, const Variation& variation) {
  const std::span<const Token> prompt = trial.request.prompt;
  const auto max = static_cast<std::size_t>(trial.effort.fresh_rows);
  const std::size_t stride = (prompt.size() / max + (prompt.size() % max != 0 ? 1 : 0)) | 1;
  GrowingText text(trial.subject.target(variation), static_cast<int>(prompt.size()), trial.request.context_shift);
  std::map<std::size_t, PromptLogprob> rows;
  for (std::size_t read = 1; read < prompt.size(); ++read) {
    if ((prompt.size() - 1 - read) % stride != 0) continue;
    rows[read] = prompt_logprob(text.logits_after(prompt.first(read)), prompt[read], top_asked);
  }
  return rows;
}

/// Returns the number of tokens of the prompt whose logprobs were compared.
long examine_prompt(const Trial& trial, const Variation& variation, const std::vector<PromptLogprob>& reported,
                    const std::map<std::size_t, PromptLogprob>& expected, Examination& examination) {
  examination.expect(reported.size() + 1 == trial.request.prompt.size(), [&] {
    return make_failure(
        variation, -1, -1, "each token of the prompt but the first has a logprob",
        std::to_string(reported.size()) + " of " + std::to_string(trial.request.prompt.size()) + " tokens have one",
        {"they were asked for"});
  });
  long compared = 0;
  for (const auto& [place, row] : expected) {
    const auto shown = [](const PromptLogprob& one) {
      return std::to_string(one.logprob) + " with rank " + std::to_string(one.rank) + ", beside " + text_of(one.top);
    };
    const bool known = place <= reported.size();
    const bool equal = examination.expect(known && reported[place - 1] == row, [&] {
      return make_failure(
          variation, -1, static_cast<std::int64_t>(place),
          "token " + std::to_string(trial.request.prompt[place]) + " of the prompt has logprob " + shown(row),
          known ? "reported is " + shown(reported[place - 1]) : std::string("none is reported"),
          {"the row is that after the prompt's tokens before it", "neither penalties nor temperature apply"});
    });
    if (!equal) break;
    ++compared;
  }
  return compared;
}

/// Compares one run with plain decoding. Returns the number of tokens whose logprobs were compared.
long examine_run(Trial& trial, const Variation& variation, const std::map<std::size_t, PromptLogprob>& prompt,
                 Examination& examination) {
  Request request = trial.request;
  request.logprobs = true;
  request.top_logprobs = top_asked;
  request.prompt_logprobs = true;
  PhiloxSource random(trial.seed);
  const Trace trace = trial.subject.run(request, variation, random);
  const PlainRun& expected = trial.plain_run(variation);
  std::vector<double> logprobs;
  std::vector<std::vector<TokenLogprob>> top_logprobs;
  for (const Round& round : trace.rounds) {
    logprobs.insert(logprobs.end(), round.logprobs.begin(), round.logprobs.end());
    top_logprobs.insert(top_logprobs.end(), round.top_logprobs.begin(), round.top_logprobs.end());
    top_logprobs.resize(std::max(top_logprobs.size(), logprobs.size()));  // what a round leaves out is missing there
  }
  long compared = examine_prompt(trial, variation, trace.prompt_logprobs, prompt, examination);
  for (std::size_t i = 0; i < expected.output.size(); ++i) {
    const auto failure = [&](std::string should, std::string is, std::vector<std::string> facts) {
      return make_failure(variation, round_that_emitted(trace, i), static_cast<std::int64_t>(request.prompt.size() + i),
                          std::move(should), std::move(is), std::move(facts));
    };
    const std::string token = "token " + std::to_string(expected.output[i]);
    const bool emitted = i < trace.output.size() && trace.output[i] == expected.output[i];
    const bool equal = examination.expect(emitted && i < logprobs.size(), [&] {
      return failure(
          "plain decoding emits " + token,
          !emitted ? "with logprobs requested, output " + std::to_string(i) + " is " +
                         (i < trace.output.size() ? "token " + std::to_string(trace.output[i]) : std::string("the end"))
                   : "the round reports no logprob for it",
          {"the text before the position is the same in both"});
    });
    if (!equal) break;
    ++compared;
    examination.expect(logprobs[i] == expected.logprobs[i], [&] {
      return failure(token + " has logprob " + std::to_string(expected.logprobs[i]) + " in the target's row",
                     "the reported logprob is " + std::to_string(logprobs[i]),
                     {"text and token are the same in both", "neither penalties nor temperature apply"});
    });
    const std::span<const TokenLogprob> all = expected.top_logprobs[i];
    const auto top = all.first(std::min(all.size(), static_cast<std::size_t>(top_asked)));
    const auto reported = i < top_logprobs.size() ? top_logprobs[i] : std::vector<TokenLogprob>();
    examination.expect(std::ranges::equal(reported, top), [&] {
      return failure("the most likely tokens in the target's row, with their logprobs, are " + text_of(top),
                     "reported are " + text_of(reported),
                     {"the text before the position is the same in both",
                      "the order is by descending logit, of equal ones the smaller token first"});
    });
  }
  return compared;
}

Finding examine_log_probabilities(Trial& trial) {
  Examination examination(log_probabilities);
  long compared = 0;
  std::map<std::string, std::map<std::size_t, PromptLogprob>> prompts;  // by numerics class
  for (const Variation& variation : plan_variations(trial)) {
    const auto [prompt, fresh] = prompts.try_emplace(trial.subject.numerics(variation));
    if (fresh) prompt->second = plain_prompt_logprobs(trial, variation);
    compared += examine_run(trial, variation, prompt->second, examination);
  }
  return std::move(examination).finding(std::to_string(compared) + " tokens have the logprobs of the target's rows");
}

}  // namespace

const Check log_probabilities = {
    "log_probabilities",
    "every reported logprob is that of plain decoding's token, or of one of the most likely, in the target's row; so "
    "is "
    "every one of the prompt's tokens",
    "the row a logprob is read from, penalties or temperature applied to it, its arithmetic, the choice and order of "
    "the most likely tokens; where the token itself differs, what requesting logprobs changes",
    "the rows themselves and the tokens, which other checks compare",
    examine_log_probabilities,
    [](const TrialCosts& trial) {
      const double rows = std::min(trial.prompt, static_cast<double>(trial.effort.fresh_rows));
      return trial.ways * (trial.plain_run + rows * trial.plain_token) + trial.loading + trial.repeated_runs;
    }};

}  // namespace draftproof
