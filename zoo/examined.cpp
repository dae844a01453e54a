// SPDX-License-Identifier: MIT
// The questions that every mutant and every control is put.
#include "oracle/exact_law.h"
#include "oracle/exhaustion.h"
#include "zoo/subject.h"

namespace draftproof::zoo {
namespace {

/// Both rules; lengths 0 to 6, both ways to verify, two threads, drafts that are right, wrong and capricious.
std::vector<Variation> variations(const Parts& parts) {
  struct Row {
    const char* draft;
    int draft_max;
    Verification verification = Verification::batched;
    int threads = 1;
  };
  std::vector<Variation> list;
  for (const Rule* rule : {&matching, &rejection}) {
    for (const Row& row :
         {Row{"none", 0}, Row{"dialect", 1}, Row{"dialect", 3}, Row{"dialect", 3, Verification::serial},
          Row{"dialect", 3, Verification::batched, 2}, Row{"hostile", 2}, Row{"oracular", 6}, Row{"moody", 2},
          Row{"moody", 2, Verification::serial}}) {
      Variation variation;
      variation.draft = row.draft;
      variation.draft_max = row.draft_max;
      variation.rule = same_name(parts.declared, *rule) ? parts.declared : rule;
      variation.threads = row.threads;
      variation.verification = row.verification;
      list.push_back(variation);
    }
  }
  return list;
}

std::vector<Request> requests() {
  const Sampling samplings[] = {
      {},
      {.temperature = 0, .repeat_penalty = 2, .presence_penalty = 0.5F, .repeat_last_n = 4},
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 4, .min_p = 0.3F},
      {.temperature = 1.5F, .repeat_penalty = 1.5F, .frequency_penalty = 0.5F, .repeat_last_n = 3},
  };
  std::vector<Request> list;
  struct Row {
    std::vector<Token> stops;
    int max_new_tokens;
  };
  const Row rows[] = {{{}, 12}, {{0}, 12}, {{0, 5}, 4}};
  for (const Sampling& sampling : samplings) {
    for (const Row& row : rows) {
      Request request;
      request.prompt = {1, 2, 3, 1};
      request.sampling = sampling;
      request.stops = row.stops;
      request.max_new_tokens = row.max_new_tokens;
      request.sequence = static_cast<int>(list.size() % 2);
      list.push_back(request);
    }
  }
  return list;
}

std::vector<LawQuestion> questions(const Parts& parts) {
  const Sampling plain{.temperature = 1};
  const Sampling cut{.temperature = 0.7F, .min_p = 0.3F};
  const Sampling penalised{.temperature = 1, .repeat_penalty = 1.5F, .frequency_penalty = 0.5F, .repeat_last_n = 2};
  struct Row {
    const Rule& rule;
    const Sampling& sampling;
    const char* draft = "dialect";
    Verification verification = Verification::batched;
  };
  std::vector<LawQuestion> list;
  for (const Row& row : {Row{rejection, plain}, Row{rejection, cut, "dialect", Verification::serial},
                         Row{rejection, penalised}, Row{rejection, plain, "moody"}, Row{matching, plain},
                         Row{matching, penalised}}) {
    Request request;
    request.prompt = {1, 2, 1};
    request.sampling = row.sampling;
    request.stops = {0};
    request.max_new_tokens = 3;
    Variation variation;
    variation.draft = row.draft;
    variation.draft_max = 2;
    variation.rule = same_name(parts.declared, row.rule) ? parts.declared : &row.rule;
    variation.verification = row.verification;
    list.push_back({request, variation});
  }
  return list;
}

/// Only rules can be put in place of those that are exhausted; without one the answer is the production's.
Finding exhausted(const Parts& parts) {
  static const Finding sound = check_exhaustion(production());
  if (parts.rule == nullptr) return sound;
  Primitives primitives = production();
  primitives.rules = std::span(&parts.rule, 1);
  return check_exhaustion(primitives);
}

}  // namespace

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const Check* check = all_checks(); check->examine != nullptr; ++check) names.emplace_back(check->name);
  names.emplace_back("distribution_exact");
  names.emplace_back("exhaustion");
  return names;
}

Findings examined(const Parts& parts) {
  Findings worst;
  const auto weigh = [&](const Finding& finding) {
    Finding& so_far = worst.try_emplace(finding.check, finding).first->second;
    const auto weight = [](const Finding& f) { return f.outcome == Outcome::fail ? 2 : f.outcome == Outcome::pass; };
    if (weight(finding) > weight(so_far)) so_far = finding;
  };
  for (const Request& request : requests()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      ZooSubject subject({.vocabulary = 6, .levels = 3, .seed = seed}, parts);
      Trial trial(subject, request, seed, variations(parts));
      for (const Check* check = all_checks(); check->examine != nullptr; ++check) weigh(check->examine(trial));
    }
  }
  ZooSubject small({.vocabulary = 3, .levels = 3, .seed = 5}, parts);
  weigh(check_distribution_exact(small, questions(parts)));
  weigh(exhausted(parts));
  return worst;
}

}  // namespace draftproof::zoo
