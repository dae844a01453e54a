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
  for (const Event event : {Event::q_is_point, Event::q_is_p, Event::q_is_other}) draft_tokens += met[event];
  return draft_tokens;
}

}  // namespace

ExactAnswer compare_distributions(Subject& subject, const ExactQuestion& question) {
  ExactAnswer answer;
  TextDistribution distribution;
  Model& target = subject.target(question.variation);
  CoverageCounter coverage(target, question.request, question.variation);
  EnumeratedSource random;
  do {
    random.begin_path();
    const Trace trace = subject.run(question.request, question.variation, random);
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
    const PlainRun run = plain(target, question.request, plain_random);
    distribution[run.output] -= plain_random.probability();
  } while (plain_random.next_path());

  Rational largest = 0;
  for (const auto& [text, difference] : distribution) {
    const Rational size = abs(difference);
    answer.distance += size / 2;
    if (size > largest) {
      largest = size;
      answer.worst = text;
    }
  }
  return answer;
}

void ExactDistributionCheck::add(const ExactQuestion& question, const ExactAnswer& answer) {
  const Variation& variation = question.variation;
  ++questions_;
  paths_ += answer.paths;
  largest_ = std::max(largest_, answer.distance);
  met_.add(answer.met);
  possible_.rejection = possible_.rejection || !variation.promises_tokens();
  const bool asks_for_trees =
      variation.draft.starts_with("scripted:") && variation.draft.find_first_of("<&") != std::string::npos;
  possible_.trees = possible_.trees || asks_for_trees || answer.trees;
  judged_[variation.draft.substr(0, variation.draft.find(':')) + ", " + name_of(variation.verification)] +=
      judged(answer.met);
  examination_.expect(answer.distance == 0, [&] {
    return failure_of(variation, -1, -1, "the text has the same distribution as in plain decoding",
                      "it differs by " + decimal(answer.distance) + " in total variation",
                      {"all " + std::to_string(answer.paths) + " paths of random draws were enumerated",
                       "the text whose probability differs most is " + list_of(answer.worst)});
  });
}

Finding ExactDistributionCheck::finding() && {
  std::string missing;
  for (const auto& [way, draft_tokens] : judged_) {
    if (draft_tokens == 0) missing = "no draft token of " + way + " was ever verified";
  }
  for (const Event event : met_.missing(possible_)) {
    missing += (missing.empty() ? "the questions never met the event: " : ", ") + std::string(name_of(event));
  }
  const Event rarest = met_.rarest(possible_);
  return std::move(examination_)
      .finding(std::to_string(questions_) + " joint distributions over " + std::to_string(paths_) +
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
    nullptr};

}  // namespace draftproof
