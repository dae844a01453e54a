// SPDX-License-Identifier: MIT
// The requests that every mutant and every control decodes.
#include "oracle/checks/checks.h"
#include "oracle/exact/build_checks.h"
#include "oracle/exact/exact_cases.h"
#include "oracle/exact/exact_distribution.h"
#include "zoo/constraint.h"
#include "zoo/zoo_subject.h"

namespace draftproof::zoo {
namespace {

constexpr int model_vocabulary = 6;

/// The rules that parts are examined under; faults of `block` under that one.
std::array<const Rule*, 2> rules_of(const Parts& parts) {
  return {&matching, same_name(parts.rule, block) ? &block : &rejection};
}

/// Returns variations with both rules, draft lengths 0 to 6, batched and serial verification, one and two threads, and
/// drafts that are right, wrong and of varying length.
std::vector<Variation> variations(const Parts& parts) {
  struct Row {
    const char* draft;
    int draft_max;
    Verification verification = Verification::batched;
    int threads = 1;
  };
  const std::vector<Row> chains = {{"none", 0},
                                   {"perturbed", 1},
                                   {"perturbed", 3},
                                   {"perturbed", 3, Verification::serial},
                                   {"perturbed", 3, Verification::batched, 2},
                                   {"always-reject", 2},
                                   {"perfect", 6},
                                   {"variable-length", 2},
                                   {"variable-length", 2, Verification::serial}};
  const std::vector<Row> trees = {{"none", 0},
                                  {"scripted:+<*", 2},
                                  {"scripted:+&*+&*-", 5},
                                  {"scripted:+&*+&*-", 5, Verification::serial},
                                  {"scripted:+&*+&*-", 5, Verification::batched, 2},
                                  {"scripted:*<*<**<*", 5},
                                  {"scripted:~<*<*", 3},
                                  {"scripted:~<*<*", 3, Verification::serial},
                                  {"scripted:-<*-<**", 5}};
  std::vector<Variation> list;
  for (const Rule* rule : rules_of(parts)) {
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

/// Returns requests with a constraint, which ends their texts or lets a stop token end them, and with biases.
std::vector<Request> constrained_requests() {
  std::vector<Request> list;
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1},
                                   Sampling{.temperature = 1, .logit_bias = {{2, 1.5F}, {5, -2}, {1, -100}}}}) {
    Request request;
    request.prompt = {1, 2, 3, 1};
    request.sampling = sampling;
    request.max_new_tokens = 12;
    request.constraint = zoo_constraint(model_vocabulary, zoo_output_length);
    list.push_back(request);
    request.stops = {0};
    request.constraint = zoo_constraint(model_vocabulary, zoo_output_length, request.stops);
    list.push_back(request);
  }
  return list;
}

struct ModelRequest {
  HashShape model;
  Request request;
};

/// Whether the caches can drop positions; states and the caches of replaced models cannot.
bool can_shift(const Parts& parts) { return parts.target == nullptr && parts.draft == nullptr && !parts.recurrent; }

/// Returns requests whose context is shifted several times, in the prompt too.
std::vector<Request> shifted_requests() {
  std::vector<Request> list;
  for (const Sampling& sampling :
       {Sampling{.temperature = 1}, Sampling{.repeat_penalty = 2, .presence_penalty = 0.5F, .repeat_last_n = -1}}) {
    Request request;
    request.prompt = {1, 2, 3, 1, 4, 5, 1, 0, 2};
    request.sampling = sampling;
    request.max_new_tokens = 16;
    request.context_shift = {.context = 8, .keep = 2, .discard = 3};
    list.push_back(request);
  }
  return list;
}

std::vector<ModelRequest> all_model_requests(const Parts& parts) {
  std::vector<ModelRequest> list;
  for (const Request& request : requests()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      list.push_back({{.vocabulary = model_vocabulary, .levels = 3, .seed = seed}, request});
    }
  }
  for (const Request& request : constrained_requests()) {
    for (const std::uint64_t seed : {5, 6}) {
      list.push_back({{.vocabulary = model_vocabulary, .levels = 3, .seed = seed}, request});
    }
  }
  if (can_shift(parts)) {
    for (const Request& request : shifted_requests()) {
      list.push_back({{.vocabulary = model_vocabulary, .levels = 3, .seed = 4}, request});
    }
  }
  return list;
}

constexpr int by_number = 60;

std::vector<ExactCase> exact_cases(const Parts& parts) {
  const Sampling plain{.temperature = 1};
  const Sampling cut{.temperature = 0.7F, .top_p = 0.667F, .min_p = 0.3F};
  const Sampling penalized{.temperature = 1, .repeat_penalty = 1.5F, .frequency_penalty = 0.5F, .repeat_last_n = 2};
  const Sampling best{.temperature = 0, .repeat_penalty = 2, .repeat_last_n = -1};
  const Sampling biased{.temperature = 1, .logit_bias = {{1, 1}, {2, -1}}};
  struct Row {
    const Rule& rule;
    const Sampling& sampling;
    const char* draft = "perturbed";
    Verification verification = Verification::batched;
    int draft_max = 2;
    int max_new_tokens = 3;
    std::optional<ContextShift> context_shift = {};
    std::shared_ptr<const Constraint> constraint = {};
  };
  std::vector<ExactCase> list;
  if (parts.trees) {
    for (const Rule* rule : rules_of(parts)) {
      for (const ExactCase& exact_case : handwritten_cases(*rule)) {
        if (can_run(parts, exact_case.input.variation, exact_case.vocabulary)) list.push_back(exact_case);
      }
    }
    return list;
  }
  const auto declare = [&](ExactCase exact_case) {
    const Rule*& rule = exact_case.input.variation.rule;
    if (same_name(parts.declared, *rule)) rule = parts.declared;
    list.push_back(std::move(exact_case));
  };
  const Rule& sampling = *rules_of(parts)[1];
  std::vector<Row> rows = {{sampling, plain},     {sampling, cut, "perturbed", Verification::serial},
                           {sampling, penalized}, {sampling, plain, "variable-length"},
                           {matching, plain},     {matching, penalized},
                           {matching, best}};
  if (can_shift(parts)) {
    const ContextShift shift = {.context = 4, .keep = 1, .discard = 2};
    for (const Rule* const rule : rules_of(parts)) {
      rows.push_back({*rule, plain, "perturbed", Verification::batched, 2, 4, shift});
    }
  }
  for (const std::vector<Token>& stops : {std::vector<Token>{}, {0}}) {
    const auto constraint = zoo_constraint(ExactCase().vocabulary, 3, stops);
    for (const Rule* const rule : rules_of(parts)) {
      rows.push_back({*rule, biased, "perturbed", Verification::batched, 3, 4, {}, constraint});
      if (stops.empty()) continue;
      // A stop token is drafted where the text may end, whatever the draft in place of "perturbed" does.
      rows.push_back({*rule, biased, "scripted:/0", Verification::batched, 3, 4, {}, constraint});
    }
  }
  for (const Row& row : rows) {
    ExactCase exact_case;
    Request& request = exact_case.input.request;
    request.prompt = {1, 2, 1};
    request.sampling = row.sampling;
    request.stops = {0};
    request.max_new_tokens = row.max_new_tokens;
    request.context_shift = row.context_shift;
    request.constraint = row.constraint;
    Variation& variation = exact_case.input.variation;
    variation.draft = row.draft;
    variation.draft_max = row.draft_max;
    variation.rule = &row.rule;
    variation.verification = row.verification;
    declare(exact_case);
  }
  for (const Rule* rule : rules_of(parts)) {
    // Long rounds without random draws: with them a wrong decoder takes too many paths. With one level every row is
    // flat, so that draft tokens are accepted and rejected by a wrong target too.
    for (const int levels : {1, 8}) {
      for (const char* draft : {"scripted:++++", "scripted:+++-", "scripted:-/-/++-", "scripted:++-/"}) {
        ExactCase exact_case{.vocabulary = 8, .levels = levels};
        exact_case.input.request.prompt = {1, 2, 3, 1, 2, 1};
        exact_case.input.request.max_new_tokens = 8;
        exact_case.input.variation.draft = draft;
        exact_case.input.variation.draft_max = 4;
        exact_case.input.variation.rule = rule;
        declare(exact_case);
      }
    }
    for (int number = 0; number < by_number; ++number) declare(generated_case(*rule, number, 60));
  }
  return list;
}

/// Only the rules and the reader of the small cases can be replaced; else the finding is that of production code.
Finding small_cases(const Parts& parts) {
  static const Finding sound = check_exhaustive_small_cases(production());
  Primitives primitives = production();
  if (parts.reader != nullptr) {
    primitives.rules = {};
    primitives.read = parts.reader;
    return check_exhaustive_small_cases(primitives);
  }
  if (parts.rule == nullptr) return sound;
  primitives.rules = std::span(&parts.rule, 1);
  primitives.trees = parts.trees;
  return check_exhaustive_small_cases(primitives);
}

}  // namespace

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const auto list : {all_checks(), build_checks()}) {
    for (const Check* const check : list) names.emplace_back(check->name);
  }
  return names;
}

Findings examined(const Parts& parts) {
  Findings worst;
  const auto weigh = [&](const Finding& finding) {
    Finding& so_far = worst.try_emplace(finding.check, finding).first->second;
    const auto weight = [](const Finding& f) {
      switch (f.outcome) {
        case Outcome::vacuous: return 0;
        case Outcome::pass: return 1;
        case Outcome::perf_regression: return 2;
        case Outcome::fail: return 3;
      }
      return 3;
    };
    if (weight(finding) > weight(so_far)) so_far = finding;
  };
  if (parts.reader != nullptr) {
    weigh(small_cases(parts));
    return worst;
  }
  for (const ModelRequest& input : all_model_requests(parts)) {
    ZooSubject subject(input.model, parts);
    Trial trial(subject, input.request, input.model.seed, variations(parts));
    for (const Check* const check : all_checks()) {
      const bool can_be_asked = !parts.loop || check != &prefix_reuse;  // the small loop decodes one request at a time
      if (can_be_asked) weigh(check->examine(trial));
    }
  }
  ExactDistributionCheck cases;
  for (const ExactCase& exact_case : exact_cases(parts)) {
    const auto& [vocabulary, levels, spread, seed, input] = exact_case;
    ZooSubject small({.vocabulary = vocabulary, .levels = levels, .spread = spread, .seed = seed}, parts);
    cases.ask(small, input);
  }
  for (const Rule* const rule : rules_of(parts)) {
    if (parts.trees || (parts.declared != nullptr && same_name(parts.declared, *rule))) continue;
    for (const auto& [vocabulary, levels, seed, pair] : pairs_of_sequences(*rule)) {
      ZooSubject small({.vocabulary = vocabulary, .levels = levels, .seed = seed}, parts);
      cases.ask(small, pair);
    }
  }
  weigh(std::move(cases).finding());
  weigh(small_cases(parts));
  return worst;
}

Shrunken smallest(const Parts& parts, const FailedTrial& failed, int trials_max) {
  return shrink(failed.trial, failed.finding, trials_max, [&](const Case& smaller) {
    ZooSubject subject(failed.model, parts);
    return draftproof::examined(subject, smaller);
  });
}

std::optional<FailedTrial> first_failed_trial(const Parts& parts, const std::string& check) {
  for (const ModelRequest& input : all_model_requests(parts)) {
    FailedTrial failed{input.model, {check, input.request, input.model.seed, variations(parts)}, {}};
    ZooSubject subject(input.model, parts);
    failed.finding = draftproof::examined(subject, failed.trial);
    if (failed.finding.failure) return failed;
  }
  return std::nullopt;
}

}  // namespace draftproof::zoo
