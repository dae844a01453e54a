// SPDX-License-Identifier: MIT
#include "oracle/checks/check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "oracle/checks/checks.h"
#include "ref/models/read_text.h"

namespace draftproof {

const char* name_of(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::pass: return "pass";
    case Outcome::fail: return "fail";
    case Outcome::vacuous: return "vacuous";
    case Outcome::perf_regression: return "perf_regression";
  }
  return "fail";
}

Trial::Trial(Subject& subject_, Request request_, std::uint64_t seed_, const std::vector<Variation>& variations,
             const Effort& effort_)
    : subject(subject_), request(std::move(request_)), seed(seed_), effort(effort_) {
  for (const Variation& variation : variations) {
    RecordingSource random(seed);
    Trace trace = subject.run(request, variation, random);
    runs.push_back({variation, std::move(trace), std::move(random).draws()});
  }
}

const PlainRun& Trial::plain_run(const Variation& variation) {
  const auto [place, fresh] = plain_runs_.try_emplace(subject.numerics(variation));
  if (fresh) {
    PhiloxSource random(seed);
    PlainRun run = plain(subject.target(variation), request, random, effort.fresh_rows);
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
  const bool fresh_row = is_fresh_row(request, text.size(), effort.fresh_rows);
  const std::vector<Token> whole = fresh_row ? key.second : text_of_run(numerics, text);
  std::size_t tokens = text.size();
  for (PlainRow& row : plain_rows(subject.target(variation), request, whole, tokens, effort.fresh_rows)) {
    rows_.try_emplace({numerics, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(tokens++)}},
                      std::move(row));
  }
  return rows_.at(key);
}

std::vector<Token> Trial::text_of_run(const std::string& numerics, std::span<const Token> text) {
  std::vector<Token> longest(text.begin(), text.end());
  for (const Run& run : runs) {
    std::vector<Token> whole = request.prompt;
    whole.insert(whole.end(), run.trace.output.begin(), run.trace.output.end());
    if (!run.trace.output.empty()) whole.pop_back();  // no row follows the last token
    const bool longer = whole.size() > longest.size() && std::equal(text.begin(), text.end(), whole.begin());
    if (longer && subject.numerics(run.variation) == numerics) longest = std::move(whole);
  }
  return longest;
}

const std::vector<Fingerprint>& Trial::cache_along(const Variation& variation, std::span<const Token> text) {
  std::pair key(subject.numerics(variation), std::vector(text.begin(), text.end()));
  const auto [place, fresh] = caches_.try_emplace(std::move(key));
  if (fresh) {
    Model& target = subject.target(variation);
    const auto& shift = request.context_shift;
    const int length = static_cast<int>(text.size());
    const auto cache = target.new_cache(shift ? std::min(length, shift->context) : length, 1);
    place->second.push_back(cache->digest());
    for (std::size_t i = 0; i < text.size(); ++i) {
      read_text(target, *cache, text.subspan(i, 1), 1, shift);
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

Failure make_failure(const Variation& variation, std::int64_t round, std::int64_t position, std::string expected,
                     std::string observed, std::vector<std::string> facts) {
  return {.run = variation.describe(),
          .round = round,
          .position = position,
          .expected = std::move(expected),
          .observed = std::move(observed),
          .facts = std::move(facts)};
}

std::int64_t round_that_emitted(const Trace& trace, std::size_t at) {
  std::size_t emitted = 0;
  for (std::size_t i = 0; i < trace.rounds.size(); ++i) {
    emitted += trace.rounds[i].emitted.size();
    if (at < emitted) return static_cast<std::int64_t>(i);
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
    for (const Check* check : {&tokens_equal, &logits_equal, &acceptance_correct, &termination_and_counters}) {
      if (*standalone_failure_) break;
      *standalone_failure_ = check->examine(*this).failure;
    }
  }
  return *standalone_failure_;
}

Request another_request(const Request& asked, int vocabulary) {
  Request other = asked;
  std::reverse(other.prompt.begin(), other.prompt.end());
  other.prompt.back() = (other.prompt.back() + 1) % vocabulary;  // a palindrome stays the same when reversed
  other.sampling = {.temperature = asked.sampling.temperature == 1 ? 0.5F : 1,
                    .top_k = asked.sampling.top_k == 3 ? 4 : 3,
                    .presence_penalty = asked.sampling.penalizes() ? 0 : 0.5F};
  if (!asked.constraint) {  // it may know the stop tokens
    other.stops.clear();
    if (asked.stops.empty()) other.stops = {(asked.prompt.back() + 1) % vocabulary};
  }
  other.max_new_tokens = (asked.max_new_tokens + 1) / 2;
  other.sequence = asked.sequence + 1;
  return other;
}

Finding Examination::finding(const std::string& summary, const std::string& missing) && {
  if (finding_.outcome == Outcome::pass) {
    finding_.message = missing.empty() ? summary : missing;
    if (finding_.examined == 0 || !missing.empty()) finding_.outcome = Outcome::vacuous;
  } else {
    finding_.failure->blames = check_.blames;
    finding_.failure->clears = check_.clears;
    finding_.message = message_of(*finding_.failure);
  }
  return std::move(finding_);
}

}  // namespace draftproof
