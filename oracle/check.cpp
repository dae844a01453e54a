// SPDX-License-Identifier: MIT
#include "oracle/check.h"

#include <set>

#include "ref/base/require.h"

namespace draftproof {

const char* name_of(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::pass: return "pass";
    case Outcome::fail: return "fail";
    case Outcome::vacuous: return "vacuous";
  }
  return "fail";
}

std::string Variation::describe() const {
  return "draft " + draft + (draft_max > 0 ? " (at most " + std::to_string(draft_max) + ")" : "") + ", " + rule->name +
         (prompt_rows > 0 ? ", prompt read " + std::to_string(prompt_rows) + " at a time" : "") + ", " +
         name_of(verification) + (kernels.empty() ? "" : ", " + kernels) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

Trial::Trial(Subject& subject_, Request request_, std::uint64_t seed_, const std::vector<Variation>& variations)
    : subject(subject_), request(std::move(request_)), seed(seed_) {
  for (const Variation& variation : variations) {
    LedgerChance chance(seed);
    Trace trace = subject.run(request, variation, chance);
    runs.push_back({variation, std::move(trace), std::move(chance).ledger()});
  }
}

const PlainRun& Trial::plain_run(const Variation& variation) {
  const auto [place, fresh] = plain_runs_.try_emplace(subject.numerics(variation));
  if (fresh) {
    SeededChance chance(seed);
    PlainRun run = plain(subject.target(variation), request, chance);
    std::vector<Token> text = request.prompt;
    for (std::size_t i = 0; i < run.output.size(); ++i) {
      rows_.emplace(std::pair(place->first, text), run.rows[i]);
      text.push_back(run.output[i]);
    }
    place->second = std::move(run);
  }
  return place->second;
}

const PlainRow& Trial::row_after(const Variation& variation, std::span<const Token> text) {
  std::pair key(subject.numerics(variation), std::vector(text.begin(), text.end()));
  const auto [place, fresh] = rows_.try_emplace(std::move(key));
  if (fresh) place->second = plain_row(subject.target(variation), request.sampling, text);
  return place->second;
}

const std::vector<Fingerprint>& Trial::cache_along(const Variation& variation, std::span<const Token> text) {
  std::pair key(subject.numerics(variation), std::vector(text.begin(), text.end()));
  const auto [place, fresh] = caches_.try_emplace(std::move(key));
  if (fresh) {
    Model& target = subject.target(variation);
    const auto cache = target.new_cache(static_cast<int>(text.size()), 1);
    Outputs outputs;
    place->second.push_back(cache->digest());
    for (std::size_t i = 0; i < text.size(); ++i) {
      Transaction window = cache->begin(1);
      target.forward({.tokens = text.subspan(i, 1), .logits_from = 1}, *cache, outputs);
      window.commit(1);
      place->second.push_back(cache->digest());
    }
  }
  return place->second;
}

std::vector<const Run*> Trial::one_per_draft() const {
  std::vector<const Run*> list;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Run& run : runs) {
    if (seen.emplace(run.variation.draft, run.variation.rule->name).second) list.push_back(&run);
  }
  return list;
}

Finding Examination::finding(const std::string& summary, const std::string& missing) && {
  if (finding_.outcome == Outcome::pass) {
    finding_.sentence = missing.empty() ? summary : missing;
    if (finding_.examined == 0 || !missing.empty()) finding_.outcome = Outcome::vacuous;
  }
  return std::move(finding_);
}

const Check* all_checks() noexcept {
  static constexpr Check list[] = {
      {"tokens_equal",
       "text is plain text, token for token: greedy, `matching` at any temperature, and without guesses",
       check_tokens_equal},
      {"logits_equal", "every row that decided a token has the bits plain decoding computes", check_logits_equal},
      {"verdict_justified", "every guess was drawn from its stated q, and every verdict follows from p, q and the keys",
       check_verdict_justified},
      {"forgetting", "after every round the cache is that of a run that never saw the refused guesses",
       check_forgetting},
      {"causality", "a row's bits depend on the text before it, not on how it was cut into calls or what came along",
       check_causality},
      {"independence", "nothing depends on draft, draft length, table, threads or batched/serial verification",
       check_independence},
      {"ledger", "every random answer serves one decision, under the key of its position and purpose", check_ledger},
      {"repeatable", "the same seed says the same again, and after other texts that begin alike", check_repeatable},
      {"pieces", "a prompt read in pieces of any size, and a run cancelled and gone on with, are the same run",
       check_pieces},
      {"together", "a text says the same while another sequence is decoded between its rounds", check_together},
      {"log_probabilities", "every log-probability that is told is that of the token in the target's row",
       check_log_probabilities},
      {"budget", "length, stop tokens, resting place and statistics are what was asked for", check_budget},
      {nullptr, nullptr, nullptr},
  };
  return list;
}

}  // namespace draftproof
