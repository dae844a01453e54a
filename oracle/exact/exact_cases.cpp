// SPDX-License-Identifier: MIT
#include "oracle/exact/exact_cases.h"

#include <algorithm>
#include <string>

namespace draftproof {
namespace {

constexpr int draft_limit = 4;
constexpr int text_max = 6;
constexpr int vocabulary_max = 8;
/// So far apart that only the most likely tokens of a row have any weight, at temperatures up to 4: exp(-32) < 2^-40.
constexpr int spread_of_ties = 128;

const std::vector<Sampling>& samplings() {
  static const std::vector<Sampling> list = {
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 2},
      {.temperature = 1.5F, .top_p = 0.7F},
      {.temperature = 1, .min_p = 0.3F},
      {.temperature = 1,
       .repeat_penalty = 1.5F,
       .presence_penalty = 0.25F,
       .frequency_penalty = 0.5F,
       .repeat_last_n = 3},
      {.temperature = 0, .repeat_penalty = 2, .repeat_last_n = -1},
      // DRY and XTC, cuts of the model's own distribution, and a temperature that the rest of it decides.
      {.temperature = 1.5F,
       .top_p = 0.95F,
       .dynatemp_range = 0.5F,
       .xtc_probability = 0.5F,
       .xtc_threshold = 0.2F,
       .dry_multiplier = 1.5F,
       .dry_allowed_length = 1,
       .order = llama_cpp_order},
      {.temperature = 2, .top_n_sigma = 1.5F, .typical_p = 0.8F, .order = llama_cpp_order},
  };
  return list;
}

ExactInput make_input(const Rule& rule, const std::string& draft, int draft_max, Verification verification,
                      const Sampling& sampling, int max_new_tokens) {
  ExactInput input;
  input.request.prompt = {1, 2, 1};
  input.request.sampling = sampling;
  input.request.stops = {0};
  input.request.max_new_tokens = max_new_tokens;
  input.variation.draft = draft;
  input.variation.draft_max = draft_max;
  input.variation.rule = &rule;
  input.variation.verification = verification;
  return input;
}

/// Random numbers below any bound, the same for the same `number`.
class Dice {
 public:
  explicit Dice(int number) : number_(number) {}
  int below(int bound) {
    return static_cast<int>(random_.below({number_, asked_++, Purpose::target}, static_cast<std::uint64_t>(bound)));
  }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[below(static_cast<int>(list.size()))];
  }

 private:
  PhiloxSource random_{20};
  int number_;
  int asked_ = 0;
};

std::string script(Dice& dice, int vocabulary) {
  std::string text = "scripted:";
  const int rounds = 1 + dice.below(3);
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) text += '/';
    const int draft_tokens = dice.below(draft_limit + 1);
    for (int i = 0; i < draft_tokens; ++i) {
      const int letter = dice.below(9);
      text += letter < 8 ? "++++-~~?"[letter] : static_cast<char>('0' + dice.below(vocabulary));
    }
  }
  return text;
}

/// Returns a script whose rounds begin with a branch of draft tokens, some with a sibling, and continue with tokens
/// chosen by name at other positions.
std::string script_of_trees(Dice& dice, int vocabulary) {
  std::string text = "scripted:";
  const auto name = [&] {
    text += dice.below(4) > 0 ? '*' : dice.below(2) > 0 ? '-' : static_cast<char>('0' + dice.below(vocabulary));
  };
  const int rounds = 1 + dice.below(2);
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) text += '/';
    if (dice.below(6) == 0) continue;  // no draft token
    int draft_tokens = 0;
    int depth = 0;  // of the next draft token
    int drawn = 0;  // depth below the last drawn draft token
    for (const int branch = 1 + dice.below(draft_limit - 1); depth < branch && draft_tokens < draft_limit; ++depth) {
      const char letter = "+~~?-*"[dice.below(6)];
      text += letter;
      ++draft_tokens;
      if (letter != '-' && letter != '*') drawn = depth + 1;
      if (draft_tokens < draft_limit && dice.below(2) == 0) {
        text += '&';
        name();
        ++draft_tokens;
      }
    }
    for (; draft_tokens < draft_limit; ++draft_tokens, ++depth) {
      const int min = std::max(0, drawn - 1);  // no siblings are added above a drawn draft token
      for (int back = dice.below(depth - min + 1); back > 0; --back, --depth) text += '<';
      name();
    }
  }
  return text;
}

/// Estimates the paths of texts of `left` more tokens, each one of `wide`, where every round draws `draft_tokens` draft
/// tokens.
double paths(double wide, int draft_tokens, int left) {
  if (left == 0) return 1;
  const int drawn = std::min(draft_tokens, left - 1);
  double sum = wide * paths(wide, draft_tokens, left - drawn - 1);
  for (int accepted = 0; accepted < drawn; ++accepted) {
    sum += (wide - 1) * paths(wide, draft_tokens, left - accepted - 1);
  }
  for (int i = 0; i < drawn; ++i) sum *= wide;
  return sum;
}

}  // namespace

std::vector<ExactCase> handwritten_cases(const Rule& rule) {
  std::vector<ExactCase> list;
  for (const Sampling& sampling : samplings()) {
    for (const char* draft : {"perturbed", "always-reject", "perfect"}) {
      for (const int draft_max : {1, 2, 3}) {
        for (const Verification verification : {Verification::batched, Verification::serial}) {
          // Room for a fully accepted round, or for a round and what follows a rejection.
          list.push_back({.input = make_input(rule, draft, draft_max, verification, sampling, 1 + draft_max)});
        }
      }
    }
    for (const char* draft : {"scripted:+", "scripted:-", "scripted:~", "scripted:?", "scripted:0", "scripted:++-",
                              "scripted:+-/~", "scripted:-/-/+", "scripted:++//", "scripted:/~~", "scripted:+0",
                              "scripted:~0", "scripted:-0/+", "scripted:++/~~~", "scripted:~/+0"}) {
      // Batched and serial in turn; the number of scripts is odd, so each script is verified in both ways.
      const Verification verification = list.size() % 2 == 0 ? Verification::batched : Verification::serial;
      list.push_back({.input = make_input(rule, draft, draft_limit, verification, sampling, 4)});
    }
  }
  for (const Sampling& sampling : samplings()) {
    for (const char* draft : {"scripted:+<*", "scripted:~<*", "scripted:-<*", "scripted:?<*<*", "scripted:0<*",
                              "scripted:*<0", "scripted:~*<*<<*", "scripted:~<**", "scripted:-<*-<*", "scripted:-<**",
                              "scripted:~&*~", "scripted:~&0+<*", "scripted:+-<*/~<*", "scripted:*<-<-*"}) {
      const Verification verification = list.size() % 2 == 0 ? Verification::batched : Verification::serial;
      list.push_back({.input = make_input(rule, draft, draft_limit, verification, sampling, 4)});
    }
  }
  for (const char* draft : {"scripted:++++", "scripted:+++-", "scripted:++-", "scripted:~~~~", "scripted:++~/-/-",
                            "scripted:+7-", "scripted:+++0", "scripted:++//", "scripted:~/++++/+", "perturbed",
                            "scripted:-<*-<*", "scripted:~<*<**", "scripted:+&*+&*"}) {
    for (const Verification verification : {Verification::batched, Verification::serial}) {
      list.push_back({.vocabulary = vocabulary_max,
                      .levels = 4,
                      .spread = spread_of_ties,
                      .input = make_input(rule, draft, draft_limit, verification, samplings()[0], text_max)});
    }
  }
  return list;
}

ExactCase generated_case(const Rule& rule, int number, double paths_max, DraftShape drafted) {
  Dice dice(number);
  ExactCase exact_case;
  exact_case.vocabulary = 2 + dice.below(vocabulary_max - 1);
  exact_case.levels = 1 + dice.below(4);
  exact_case.seed = static_cast<std::uint64_t>(number);
  Sampling sampling{.temperature = dice.one_of<float>({0.5F, 1, 1, 1, 1.5F, 4})};
  int wide = exact_case.vocabulary;
  switch (dice.below(8)) {
    case 0: break;
    case 1: sampling.top_p = dice.one_of<float>({0.3F, 0.5F, 0.9F}); break;
    case 2: sampling.min_p = dice.one_of<float>({0.1F, 0.5F, 1}); break;
    case 3:
      sampling.temperature = 0;
      wide = 1;
      break;
    case 4:
    case 5:
      sampling.top_k = 1 + dice.below(3);
      wide = std::min(wide, sampling.top_k);
      break;
    default: exact_case.spread = spread_of_ties; wide = 1 + wide / exact_case.levels;
  }
  if (dice.below(3) == 0) {
    sampling.repeat_penalty = dice.one_of<float>({0.5F, 1, 1.5F, 3});
    sampling.presence_penalty = dice.one_of<float>({0, 0.5F, -1});
    sampling.frequency_penalty = dice.one_of<float>({0, 0.25F, 1});
    sampling.repeat_last_n = dice.one_of<int>({1, 2, 3, 5, -1});
  }
  const std::string draft = drafted == DraftShape::trees ? script_of_trees(dice, exact_case.vocabulary)
                            : dice.below(3) > 0          ? script(dice, exact_case.vocabulary)
                                                : dice.one_of<std::string>({"perturbed", "always-reject", "perfect"});
  const int draft_max = dice.one_of<int>({1, 2, 3, draft_limit, draft_limit, draft_limit});
  const Verification verification = dice.below(2) == 0 ? Verification::batched : Verification::serial;

  // A draft token chosen by name is no draw; a round without draws costs what plain decoding costs.
  int drawn = draft == "always-reject" ? 0 : draft_max;
  if (draft.starts_with("scripted:")) {
    int max = 0;
    int now = 0;
    for (const char letter : draft.substr(draft.find(':') + 1)) {
      now = letter == '/' ? 0 : now + (letter == '+' || letter == '~' || letter == '?');
      max = std::max(max, now);
    }
    drawn = std::min(drawn, max);
  }
  int text = dice.below(4) > 0 ? text_max : 1 + dice.below(text_max);
  while (text > 2 && paths(wide, drawn, text) > paths_max) --text;
  exact_case.input = make_input(rule, draft, draft_max, verification, sampling, text);
  Request& request = exact_case.input.request;
  request.prompt.clear();
  for (int i = 1 + dice.below(3); i > 0; --i) request.prompt.push_back(dice.below(exact_case.vocabulary));
  request.stops.clear();
  const int stops = std::min(dice.below(3), exact_case.vocabulary - 1);  // some token does not stop the text
  for (int i = 0; i < stops; ++i) request.stops.push_back(dice.below(exact_case.vocabulary));
  request.sequence = dice.below(2);
  exact_case.input.variation.prefill_chunk = dice.below(2);
  return exact_case;
}

std::vector<ExactPairCase> pairs_of_sequences(const Rule& rule) {
  std::vector<ExactPairCase> list;
  struct Row {
    const char* first;
    const char* second;
    int joins_after;
  };
  for (const Row& row : {Row{"perturbed", "perturbed", 0}, Row{"perturbed", "always-reject", 1},
                         Row{"perfect", "perturbed", 1}, Row{"none", "perturbed", 2}}) {
    const auto input = [&](const char* draft, const Sampling& sampling, int sequence) {
      const int draft_max = draft == std::string("none") ? 0 : 1;
      ExactInput one = make_input(rule, draft, draft_max, Verification::batched, sampling, 2);
      one.request.prompt[0] = 1 + sequence;
      one.request.sequence = sequence;
      return one;
    };
    list.push_back(
        {.pair = {input(row.first, samplings()[0], 0), input(row.second, samplings()[3], 1), row.joins_after}});
  }
  return list;
}

}  // namespace draftproof
