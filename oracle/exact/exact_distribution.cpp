// SPDX-License-Identifier: MIT
#include "oracle/exact/exact_distribution.h"

namespace draftproof {
namespace {

std::string list_of(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text;
}

std::string decimal(const Rational& value) { return std::to_string(value.convert_to<double>()); }

long judged(const Coverage& met) {
  long draft_tokens = 0;
  for (const CoverageEvent event : {CoverageEvent::q_is_point, CoverageEvent::q_is_p, CoverageEvent::q_is_other})
    draft_tokens += met[event];
  return draft_tokens;
}

/// Sets distance and worst. `difference`: the probability of each text under the subject, less that of plain decoding.
void measure(const TextDistribution& differences, ExactResult& answer) {
  Rational largest = 0;
  for (const auto& [text, difference] : differences) {
    const Rational size = abs(difference);
    answer.distance += size / 2;
    if (size > largest) {
      largest = size;
      answer.worst = text;
    }
  }
}

/// Both texts as one, with a mark between them that is no token.
std::vector<Token> joined(const std::vector<Token>& first, const std::vector<Token>& second) {
  std::vector<Token> both = first;
  both.push_back(-1);
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

}  // namespace

ExactResult compare_distributions(Subject& subject, const ExactInput& input) {
  ExactResult answer;
  TextDistribution distribution;
  Model& target = subject.target(input.variation);
  CoverageCounter coverage(target, input.request, input.variation);
  EnumeratedSource random;
  do {
    random.begin_path();
    const Trace trace = subject.run(input.request, input.variation, random);
    distribution[trace.output] += random.probability();
    ++answer.paths;
    for (const Round& round : trace.rounds) answer.trees = answer.trees || !round.proposal.is_chain();
    coverage.add(trace);
  } while (random.next_path());
  answer.texts = static_cast<long>(distribution.size());
  answer.met = coverage.met();

  EnumeratedSource plain_random;
  do {
    plain_random.begin_path();
    const PlainRun run = plain(target, input.request, plain_random);
    distribution[run.output] -= plain_random.probability();
  } while (plain_random.next_path());

  measure(distribution, answer);
  return answer;
}

std::optional<ExactResult> compare_distributions(Subject& subject, const ExactPair& pair, long& shared) {
  ExactResult answer;
  TextDistribution distribution;
  EnumeratedSource random;
  do {
    random.begin_path();
    const Companion companions[] = {
        {pair.first.request, pair.first.variation, &random},
        {pair.second.request, pair.second.variation, &random, {.joins_after = pair.joins_after}}};
    const std::optional<JointRun> run = subject.run_together(companions, {});
    if (!run) return std::nullopt;
    distribution[joined(run->traces[0].output, run->traces[1].output)] += random.probability();
    shared += run->shared;
    ++answer.paths;
  } while (random.next_path());
  answer.texts = static_cast<long>(distribution.size());

  Model& target = subject.target(pair.first.variation);
  EnumeratedSource plain_random;
  do {
    plain_random.begin_path();
    const PlainRun first = plain(target, pair.first.request, plain_random);
    const PlainRun second = plain(target, pair.second.request, plain_random);
    distribution[joined(first.output, second.output)] -= plain_random.probability();
  } while (plain_random.next_path());
  measure(distribution, answer);
  return answer;
}

void ExactDistributionCheck::ask(Subject& subject, const ExactPair& pair) {
  if (largest_ != 0) return;
  long shared = 0;
  const std::optional<ExactResult> answer = compare_distributions(subject, pair, shared);
  if (!answer) return;
  ++pairs_;
  unshared_ += shared == 0;
  paths_ += answer->paths;
  largest_ = std::max(largest_, answer->distance);
  expect_equal(pair.first.variation, *answer);
}

void ExactDistributionCheck::expect_equal(const Variation& variation, const ExactResult& answer) {
  examination_.expect(answer.distance == 0, [&] {
    return make_failure(variation, -1, -1, "the text has the same distribution as in plain decoding",
                        "it differs by " + decimal(answer.distance) + " in total variation",
                        {"all " + std::to_string(answer.paths) + " paths of random draws were enumerated",
                         "the text whose probability differs most is " + list_of(answer.worst)});
  });
}

void ExactDistributionCheck::add(const ExactInput& input, const ExactResult& answer) {
  const Variation& variation = input.variation;
  ++inputs_;
  paths_ += answer.paths;
  largest_ = std::max(largest_, answer.distance);
  met_.add(answer.met);
  possible_.rejection = possible_.rejection || !variation.promises_tokens();
  const bool asks_for_trees =
      variation.draft.starts_with("scripted:") && variation.draft.find_first_of("<&") != std::string::npos;
  possible_.trees = possible_.trees || asks_for_trees || answer.trees;
  possible_.constraints = possible_.constraints || (input.request.constraint && !input.request.stops.empty());
  judged_[variation.draft.substr(0, variation.draft.find(':')) + ", " + name_of(variation.verification)] +=
      judged(answer.met);
  expect_equal(variation, answer);
}

Finding ExactDistributionCheck::finding() && {
  std::string missing;
  for (const auto& [way, draft_tokens] : judged_) {
    if (draft_tokens == 0) missing = "no draft token of " + way + " was ever verified";
  }
  for (const CoverageEvent event : met_.missing(possible_)) {
    missing += (missing.empty() ? "the questions never met the event: " : ", ") + std::string(name_of(event));
  }
  if (unshared_ > 0) missing += (missing.empty() ? "" : "; ") + std::string("two sequences never shared a pass");
  const CoverageEvent rarest = met_.rarest(possible_);
  return std::move(examination_)
      .finding(std::to_string(inputs_) + " joint distributions" +
                   (pairs_ == 0 ? "" : ", and " + std::to_string(pairs_) + " of two sequences in one batch,") +
                   " over " + std::to_string(paths_) +
                   " paths of small models equal plain decoding's; largest deviation " +
                   (largest_ == 0 ? "0" : decimal(largest_)) + "; all coverage events were met, the rarest " +
                   std::to_string(met_[rarest]) + " times: " + name_of(rarest),
               missing);
}

const Check distribution_exact = {
    "distribution_exact",
    "the joint distribution of whole texts is that of plain decoding, every random draw enumerated",
    "the rule, the decode loop, keys of random draws, the stated q, sampling parameters on verification rows",
    "the target at hand, its kernels and KV caches, because small models are enumerated; the random generator, whose "
    "draws are enumerated; the conversion of logits to a distribution, which plain decoding shares",
    nullptr,
    nullptr};

}  // namespace draftproof
