// SPDX-License-Identifier: MIT
#include "oracle/exact_law.h"

namespace draftproof {
namespace {

std::string list_of(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text;
}

std::string decimal(const Rational& value) { return std::to_string(value.convert_to<double>()); }

}  // namespace

LawAnswer compare_laws(Subject& subject, const LawQuestion& question) {
  LawAnswer answer;
  Law law;
  EnumeratedChance chance;
  do {
    chance.begin_path();
    const Trace trace = subject.run(question.request, question.variation, chance);
    law[trace.output] += chance.probability();
    ++answer.paths;
    answer.accepted += trace.statistics.accepted;
    answer.refused += trace.statistics.mismatches;
    ++(trace.finish == Finish::stop ? answer.stopped : answer.cut);
  } while (chance.next_path());
  answer.texts = static_cast<long>(law.size());

  EnumeratedChance plain_chance;
  do {
    plain_chance.begin_path();
    const PlainRun run = plain(subject.target(question.variation), question.request, plain_chance);
    law[run.output] -= plain_chance.probability();
  } while (plain_chance.next_path());

  Rational largest = 0;
  for (const auto& [text, difference] : law) {
    const Rational size = abs(difference);
    answer.distance += size / 2;
    if (size > largest) {
      largest = size;
      answer.worst = text;
    }
  }
  return answer;
}

Finding check_distribution_exact(Subject& subject, std::span<const LawQuestion> questions) {
  Examination examination("distribution_exact");
  LawAnswer all;
  Rational largest = 0;
  std::map<std::string, LawAnswer> by_way;  // draft and verification: each must have been put to the test
  for (const LawQuestion& question : questions) {
    const LawAnswer answer = compare_laws(subject, question);
    all.paths += answer.paths;
    all.accepted += answer.accepted;
    all.refused += answer.refused;
    all.stopped += answer.stopped;
    all.cut += answer.cut;
    largest = std::max(largest, answer.distance);
    LawAnswer& way = by_way[question.variation.draft + ", " + name_of(question.variation.verification)];
    way.accepted += answer.accepted;
    way.refused += answer.refused;
    examination.expect(answer.distance == 0, [&] {
      return question.variation.describe() + ": the law of the text is " + decimal(answer.distance) +
             " away from plain decoding's in total variation; most at the text " + list_of(answer.worst);
    });
  }
  std::string missing;
  for (const auto& [way, answer] : by_way) {
    if (answer.accepted + answer.refused == 0) missing = "no guess of " + way + " was ever judged";
  }
  if (all.accepted == 0 || all.refused == 0 || all.stopped == 0 || all.cut == 0) {
    missing = "the questions never met an acceptance, a refusal, a stop or a cut";
  }
  return std::move(examination)
      .finding(std::to_string(questions.size()) + " joint laws over " + std::to_string(all.paths) +
                   " paths of small models equal plain decoding's; largest deviation " +
                   (largest == 0 ? "0" : decimal(largest)),
               missing);
}

}  // namespace draftproof
