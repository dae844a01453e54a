// SPDX-License-Identifier: MIT
#include "oracle/checks/check.h"

#include <algorithm>
#include <set>
#include <utility>

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
         (prefill_chunk > 0 ? ", prompt read " + std::to_string(prefill_chunk) + " at a time" : "") + ", " +
         name_of(verification) + (kernels.empty() ? "" : ", " + kernels) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

Trial::Trial(Subject& subject_, Request request_, std::uint64_t seed_, const std::vector<Variation>& variations,
             const Effort& effort_)
    : subject(subject_), request(std::move(request_)), seed(seed_), effort(effort_) {
  for (const Variation& variation : variations) {
    RecordingSource random(seed);
    Trace trace = subject.run(request, variation, random);
    runs.push_back({variation, std::move(trace), std::move(random).ledger()});
  }
}

const PlainRun& Trial::plain_run(const Variation& variation) {
  const auto [place, fresh] = plain_runs_.try_emplace(subject.numerics(variation));
  if (fresh) {
    PhiloxSource random(seed);
    PlainRun run = plain(subject.target(variation), request, random, effort.rows_afresh);
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
  const std::string numerics = subject.numerics(variation);
  const std::pair key(numerics, std::vector(text.begin(), text.end()));
  if (const auto known = rows_.find(key); known != rows_.end()) return known->second;
  const bool alone = is_read_afresh(request, text.size(), effort.rows_afresh);
  const std::vector<Token> whole = alone ? key.second : text_of_run(numerics, text);
  std::size_t tokens = text.size();
  for (PlainRow& row : plain_rows(subject.target(variation), request, whole, tokens, effort.rows_afresh)) {
    rows_.try_emplace({numerics, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(tokens++)}},
                      std::move(row));
  }
  return rows_.at(key);
}

std::vector<Token> Trial::text_of_run(const std::string& numerics, std::span<const Token> text) {
  std::vector<Token> longest(text.begin(), text.end());
  for (const Run& run : runs) {
    std::vector<Token> said = request.prompt;
    said.insert(said.end(), run.trace.output.begin(), run.trace.output.end());
    if (!run.trace.output.empty()) said.pop_back();  // no row follows the last token
    const bool longer = said.size() > longest.size() && std::equal(text.begin(), text.end(), said.begin());
    if (longer && subject.numerics(run.variation) == numerics) longest = std::move(said);
  }
  return longest;
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
      Transaction transaction = cache->begin(1);
      target.forward({.tokens = text.subspan(i, 1), .logits_from = 1}, *cache, outputs);
      transaction.commit(1);
      place->second.push_back(cache->digest());
    }
  }
  return place->second;
}

std::vector<const Run*> Trial::one_per_draft() const {
  std::vector<const Run*> list;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Run& run : runs) {
    if (static_cast<int>(list.size()) == effort.drafts_again) break;
    if (seen.emplace(run.variation.draft, run.variation.rule->name).second) list.push_back(&run);
  }
  return list;
}

Failure failure_of(const Variation& variation, std::int64_t round, std::int64_t position, std::string expected,
                   std::string observed, std::vector<std::string> facts) {
  return {.run = variation.describe(),
          .round = round,
          .position = position,
          .expected = std::move(expected),
          .observed = std::move(observed),
          .facts = std::move(facts)};
}

std::int64_t round_that_emitted(const Trace& trace, std::size_t at) {
  std::size_t said = 0;
  for (std::size_t i = 0; i < trace.rounds.size(); ++i) {
    said += trace.rounds[i].emitted.size();
    if (at < said) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::string message_of(const Failure& failure) {
  std::string place = failure.run;
  const auto add = [&](const char* what, std::int64_t number) {
    place += (place.empty() ? "" : ", ") + std::string(what) + " " + std::to_string(number);
  };
  if (failure.line > 0) add("line", failure.line);
  if (failure.round >= 0) add("round", failure.round);
  if (failure.position >= 0) add("position", failure.position);
  return place + (place.empty() ? "" : ": ") + "expected: " + failure.expected + "; observed: " + failure.observed;
}

const std::optional<Failure>& Trial::standalone_failure() {
  if (!standalone_failure_) {
    standalone_failure_.emplace();
    for (const auto check : {check_tokens_equal, check_logits_equal, check_acceptance_correct, check_termination_and_counters}) {
      if (*standalone_failure_) break;
      *standalone_failure_ = check(*this).failure;
    }
  }
  return *standalone_failure_;
}

Request another_request(const Request& asked, int vocabulary) {
  Request other = asked;
  std::reverse(other.prompt.begin(), other.prompt.end());
  other.prompt.back() = (other.prompt.back() + 1) % vocabulary;  // a prompt may read the same from both ends
  other.sampling = {.temperature = asked.sampling.temperature == 1 ? 0.5F : 1,
                    .top_k = asked.sampling.top_k == 3 ? 4 : 3,
                    .presence_penalty = asked.sampling.penalizes() ? 0 : 0.5F};
  other.stops.clear();
  if (asked.stops.empty()) other.stops = {(asked.prompt.back() + 1) % vocabulary};
  other.max_new_tokens = (asked.max_new_tokens + 1) / 2;
  other.sequence = asked.sequence + 1;
  return other;
}

Examination::Examination(const char* check) : check_(check_named(check)) { finding_.check = check; }

Finding Examination::finding(const std::string& summary, const std::string& missing) && {
  if (finding_.outcome == Outcome::pass) {
    finding_.message = missing.empty() ? summary : missing;
    if (finding_.examined == 0 || !missing.empty()) finding_.outcome = Outcome::vacuous;
  } else if (finding_.outcome == Outcome::fail) {
    finding_.failure->blames = check_.blames;
    finding_.failure->clears = check_.clears;
    finding_.message = message_of(*finding_.failure);
  }
  return std::move(finding_);
}

// What a failure can blame is what the two sides of its comparison do not share; what it clears, what they do share, or
// what is not run at all.

const Check* all_checks() noexcept {
  static constexpr Check list[] = {
      {"tokens_equal",
       "text is plain text, token for token: greedy, `matching` at any temperature, and without draft tokens",
       "the rule, the loop, the caches, the target's pass over several rows, sampling parameters on verification rows, "
       "keys of random answers",
       "what the draft draft tokens, which may change no text; the model, the reading of a row as weights and the "
       "generator, which plain decoding shares",
       check_tokens_equal},
      {"logits_equal", "every row that decided a token has the bits plain decoding computes",
       "the target's pass over several rows: positions, masks, kernels, threads; the caches it reads",
       "the rule, the draft, sampling parameters and random answers: rows are compared after the run's own text",
       check_logits_equal},
      {"acceptance_correct", "every draft token was drawn from its stated q, and every verdict follows from p, q and the keys",
       "the rule, the q that is stated, sampling parameters on verification rows, keys of random answers, what the "
       "loop emits; the target's pass where logits_equal fails as well",
       "how good the draft tokens are: any q will do that they are drawn from; the reading of a row as weights and the "
       "generator, which plain decoding shares",
       check_acceptance_correct},
      {"cache_rollback", "after every round the cache is that of a run that never saw the refused draft tokens",
       "the caches: what is kept of a window, what is rolled back, where it ends; what the target's pass writes",
       "the rule, the draft and random answers: caches are compared after the run's own text", check_cache_rollback},
      {"batch_invariance", "a row's bits depend on the text before it, not on how it was cut into calls or what came along",
       "the target's pass: masks, positions, kernels, threads; its caches",
       "the draft, the rule, the loop, sampling and random answers: none of them is run", check_batch_invariance},
      {"config_invariance", "nothing depends on draft, draft length, table, threads or batched/serial verification",
       "the loop, kernels and threads, keys of random answers, what a draft remembers of refused draft tokens",
       "what is wrong in the same way in all runs: the model, the reading of a row, the rule", check_config_invariance},
      {"rng_accounting", "every random answer serves one decision, under the key of its position and purpose",
       "keys of random answers, the rule, the draft's draws, a source beside the one given; the rows judged where "
       "logits_equal fails as well",
       "the numbers the generator gives, which are not looked at; the end of the text and its counts", check_rng_accounting},
      {"repeatable", "the same seed says the same again, also after another request that begins alike and is right too",
       "what is kept between requests: a generator, prefixes, scratch memory, what was asked; threads that race; where "
       "the other request is wrong by itself, all that tokens_equal, logits_equal, verdict_justified and budget blame",
       "what is wrong in the same way every time in this request: the model, the rule, sampling", check_repeatable},
      {"chunked_prefill_and_resume", "a prompt read in pieces of any size, and a run cancelled and gone on with, are the same run",
       "the reading of the prompt, the caches, what a cancelled run leaves, answers numbered by call",
       "what is wrong in the same way however a run is cut: the model, the rule, sampling", check_chunked_prefill_and_resume},
      {"sequence_isolation", "a text says the same while another request is decoded between its rounds, which is right too",
       "what sequences share: caches, a generator, scratch memory, what was asked; keys without their sequence; where "
       "the other request is wrong by itself, all that tokens_equal, logits_equal, verdict_justified and budget blame",
       "what is wrong in the same way in this request alone: the model, the rule, sampling", check_sequence_isolation},
      {"log_probabilities", "every log-probability that is told is that of plain decoding's token in the target's row",
       "the row a log-probability is read from, penalties or temperature in it, its arithmetic; where another token "
       "is said, the decoding without draft tokens that serves them",
       "the draft, the rule and verification: no draft token is made", check_log_probabilities},
      {"termination_and_counters", "length, stop tokens, final place and statistics are what was asked for",
       "the loop: where the text ends, how many rows and draft tokens a round has, what is counted, another run than was "
       "asked for",
       "the model, sampling and the rule's law: no probability is looked at", check_termination_and_counters},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  return list;
}

const Check* build_checks() noexcept {
  static constexpr Check list[] = {
      {"distribution_exact", "the joint law of whole texts is plain decoding's, every random answer enumerated",
       "the rule, the loop, keys of random answers, the q that is stated, sampling parameters on verification rows",
       "the target at hand, its kernels and caches: small models are enumerated; the generator, whose answers are "
       "enumerated; the reading of a row as weights, which plain decoding shares",
       nullptr},
      {"exhaustive_small_cases", "the parts that decide tokens say what they must for every small case",
       "the rules, uniform integers, the walk along weights, the reading of a row as weights",
       "models, caches, the loop and drafts: none of them is run; the exponential, which both sides take from one "
       "function",
       nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  return list;
}

const Check& check_named(std::string_view name) {
  for (const Check* list : {all_checks(), build_checks()}) {
    for (const Check* check = list; check->name != nullptr; ++check) {
      if (name == check->name) return *check;
    }
  }
  REQUIRE(false, "a check has a row in one of the two lists");
  return *all_checks();
}

}  // namespace draftproof
