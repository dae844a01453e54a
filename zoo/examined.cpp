// SPDX-License-Identifier: MIT
// The questions that every mutant and every control is put.
#include "oracle/exact_law.h"
#include "oracle/exhaustion.h"
#include "oracle/law_questions.h"
#include "zoo/subject.h"

namespace draftproof::zoo {
namespace {

constexpr int model_vocabulary = 6;

/// Both rules; lengths 0 to 6, both ways to verify, two threads, drafts that are right, wrong and capricious.
std::vector<Variation> variations(const Parts& parts) {
  struct Row {
    const char* draft;
    int draft_max;
    Verification verification = Verification::batched;
    int threads = 1;
  };
  const std::vector<Row> chains = {
      {"none", 0}, {"dialect", 1}, {"dialect", 3}, {"dialect", 3, Verification::serial},
      {"dialect", 3, Verification::batched, 2}, {"hostile", 2}, {"oracular", 6}, {"moody", 2},
      {"moody", 2, Verification::serial}};
  const std::vector<Row> trees = {
      {"none", 0}, {"scripted:+<*", 2}, {"scripted:+&*+&*-", 5}, {"scripted:+&*+&*-", 5, Verification::serial},
      {"scripted:+&*+&*-", 5, Verification::batched, 2}, {"scripted:*<*<**<*", 5}, {"scripted:~<*<*", 3},
      {"scripted:~<*<*", 3, Verification::serial}, {"scripted:-<*-<**", 5}};
  std::vector<Variation> list;
  for (const Rule* rule : {&matching, &rejection}) {
    for (const Row& row : parts.trees ? trees : chains) {
      Variation variation;
      variation.draft = row.draft;
      variation.draft_max = row.draft_max;
      variation.rule = same_name(parts.declared, *rule) ? parts.declared : rule;
      variation.threads = row.threads;
      variation.verification = row.verification;
      if (can_run(parts, variation, model_vocabulary)) list.push_back(variation);
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

struct Question {
  HashShape model;
  Request request;
};

std::vector<Question> all_questions() {
  std::vector<Question> list;
  for (const Request& request : requests()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      list.push_back({{.vocabulary = model_vocabulary, .levels = 3, .seed = seed}, request});
    }
  }
  return list;
}

constexpr int by_number = 60;

std::vector<SmallLaw> small_laws(const Parts& parts) {
  const Sampling plain{.temperature = 1};
  const Sampling cut{.temperature = 0.7F, .min_p = 0.3F};
  const Sampling penalised{.temperature = 1, .repeat_penalty = 1.5F, .frequency_penalty = 0.5F, .repeat_last_n = 2};
  const Sampling best{.temperature = 0, .repeat_penalty = 2, .repeat_last_n = -1};
  struct Row {
    const Rule& rule;
    const Sampling& sampling;
    const char* draft = "dialect";
    Verification verification = Verification::batched;
    int draft_max = 2;
    int max_new_tokens = 3;
  };
  std::vector<SmallLaw> list;
  if (parts.trees) {
    for (const Rule* rule : {&matching, &rejection}) {
      for (const SmallLaw& law : laws_by_hand(*rule)) {
        if (can_run(parts, law.question.variation, law.vocabulary)) list.push_back(law);
      }
    }
    return list;
  }
  const auto declare = [&](SmallLaw law) {
    if (same_name(parts.declared, *law.question.variation.rule)) law.question.variation.rule = parts.declared;
    list.push_back(std::move(law));
  };
  for (const Row& row : {Row{rejection, plain}, Row{rejection, cut, "dialect", Verification::serial},
                         Row{rejection, penalised}, Row{rejection, plain, "moody"}, Row{matching, plain},
                         Row{matching, penalised}, Row{matching, best}}) {
    SmallLaw law;
    Request& request = law.question.request;
    request.prompt = {1, 2, 1};
    request.sampling = row.sampling;
    request.stops = {0};
    request.max_new_tokens = row.max_new_tokens;
    Variation& variation = law.question.variation;
    variation.draft = row.draft;
    variation.draft_max = row.draft_max;
    variation.rule = &row.rule;
    variation.verification = row.verification;
    declare(law);
  }
  for (const Rule* rule : {&rejection, &matching}) {
    // Long blocks, without chance: those with it take a wrong decoder too many paths. With one level every row is flat,
    // so they stand and fall before a target that is another one, too.
    for (const int levels : {1, 8}) {
      for (const char* draft : {"scripted:++++", "scripted:+++-", "scripted:-/-/++-", "scripted:++-/"}) {
        SmallLaw law{.vocabulary = 8, .levels = levels};
        law.question.request.prompt = {1, 2, 3, 1, 2, 1};
        law.question.request.max_new_tokens = 8;
        law.question.variation.draft = draft;
        law.question.variation.draft_max = 4;
        law.question.variation.rule = rule;
        declare(law);
      }
    }
    for (int number = 0; number < by_number; ++number) declare(law_by_number(*rule, number, 60));
  }
  return list;
}

/// Only rules can be put in place of those that are exhausted; without one the answer is the production's.
Finding exhausted(const Parts& parts) {
  static const Finding sound = check_exhaustion(production());
  if (parts.rule == nullptr) return sound;
  Primitives primitives = production();
  primitives.rules = std::span(&parts.rule, 1);
  primitives.trees = parts.trees;
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
  for (const Question& question : all_questions()) {
    ZooSubject subject(question.model, parts);
    Trial trial(subject, question.request, question.model.seed, variations(parts));
    for (const Check* check = all_checks(); check->examine != nullptr; ++check) weigh(check->examine(trial));
  }
  ExactLaws laws;
  for (const SmallLaw& law : small_laws(parts)) {
    const auto& [vocabulary, levels, spread, seed, question] = law;
    ZooSubject small({.vocabulary = vocabulary, .levels = levels, .spread = spread, .seed = seed}, parts);
    laws.ask(small, question);
  }
  weigh(std::move(laws).finding());
  weigh(exhausted(parts));
  return worst;
}

Shrunken smallest(const Parts& parts, const FailedTrial& failed, int trials_max) {
  return shrink(failed.trial, failed.finding, trials_max, [&](const Case& smaller) {
    ZooSubject subject(failed.model, parts);
    return draftproof::examined(subject, smaller);
  });
}

std::optional<FailedTrial> first_failed_trial(const Parts& parts, const std::string& check) {
  for (const Question& question : all_questions()) {
    FailedTrial failed{question.model, {check, question.request, question.model.seed, variations(parts)}, {}};
    ZooSubject subject(question.model, parts);
    failed.finding = draftproof::examined(subject, failed.trial);
    if (failed.finding.outcome == Outcome::fail) return failed;
  }
  return std::nullopt;
}

}  // namespace draftproof::zoo
