// SPDX-License-Identifier: MIT
#include "oracle/exact/exhaustive_small_cases.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "oracle/exact/enumerate.h"
#include "oracle/exact/expected_row.h"
#include "ref/acceptance/draw.h"
#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr std::uint64_t total = Distribution::total;
constexpr float infinity = std::numeric_limits<float>::infinity();

Failure failure(std::string expected, std::string observed, std::vector<std::string> facts) {
  return {.expected = std::move(expected), .observed = std::move(observed), .facts = std::move(facts)};
}

std::string listed(const auto& values) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return "(" + text + ")";
}

// Rules.

/// Returns every distribution over `vocabulary` tokens with integer weights of sum `sum`, in units of total / sum. The
/// remainder of that division goes to the first positive weight.
std::vector<Distribution> small_distributions(int vocabulary, std::uint64_t sum) {
  std::vector<Distribution> list;
  std::vector<std::uint64_t> weights;
  const std::function<void(std::uint64_t)> extend = [&](std::uint64_t left) {
    if (static_cast<int>(weights.size()) + 1 < vocabulary) {
      for (std::uint64_t weight = 0; weight <= left; ++weight) {
        weights.push_back(weight);
        extend(left - weight);
        weights.pop_back();
      }
      return;
    }
    std::vector<std::uint64_t> exact = weights;
    exact.push_back(left);
    for (std::uint64_t& weight : exact) weight *= total / sum;
    *std::find_if(exact.begin(), exact.end(), [](std::uint64_t weight) { return weight > 0; }) += total % sum;
    list.push_back(Distribution::exact({}, exact));
  };
  extend(sum);
  return list;
}

/// Returns the distributions of adversarial logits: ties, points, weights of 2^-40, disjoint and truncated supports,
/// tokens in other token blocks.
std::vector<Distribution> adversarial_distributions() {
  const float tiny = std::numeric_limits<float>::denorm_min();
  std::vector<std::vector<float>> rows = {
      {0, -0.0F, 0},
      {tiny, -tiny, 0},
      {0, -27.7F, -27.8F},
      {-infinity, 1, 1},
      {1, -infinity, -infinity},
      {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(), 0},
  };
  rows.push_back(std::vector<float>(130, -infinity));
  rows.back()[0] = rows.back()[64] = rows.back()[129] = 1;
  rows.push_back(std::vector<float>(130, -infinity));
  rows.back()[63] = rows.back()[64] = 2;
  std::vector<Distribution> list;
  for (const auto& row : rows) {
    list.push_back(compute_distribution(row, {.temperature = 1}, {}));
    list.push_back(compute_distribution(row, {.temperature = 1, .top_k = 2}, {}));
  }
  list.push_back(Distribution::exact({}, std::array{total - 1, std::uint64_t{1}}));
  list.push_back(Distribution::exact({}, std::array{std::uint64_t{1}, total - 1}));
  return list;
}

/// Returns the same weights over the same tokens in the opposite order: another row wherever p is not symmetric.
Distribution mirrored(const Distribution& p) {
  std::vector<std::uint64_t> weights = p.weights();
  std::reverse(weights.begin(), weights.end());
  return Distribution::exact(p.tokens(), weights);
}

/// p, the row after the first draft token, and the row after its sibling.
class SmallRows final : public TargetRows {
 public:
  SmallRows(const Distribution& p, const Distribution& after) : rows_{p, after, p} {}
  const Distribution& row(int row) override { return rows_[row]; }

 private:
  std::array<std::reference_wrapper<const Distribution>, 3> rows_;
};

/// Verifies one draft token from q with p; the row after an accepted one is `after`. Returns what is wrong: the first
/// token must have the distribution p, and after an accepted draft token the second must have the distribution `after`.
/// With `siblings` the next token, modulo that number, is drafted as a sibling, and the row after the sibling is p.
std::string wrong_token(const Rule& rule, const Distribution& p, const Distribution& q, const Distribution& after,
                        int siblings, long& paths) {
  constexpr int position = 3;
  std::map<Token, Rational> first;
  std::map<std::pair<int, Token>, Rational> accepted;  // which draft token
  std::map<std::pair<std::pair<int, Token>, Token>, Rational> both;
  EnumeratedSource random;
  Proposal proposal{{0}, {q}};
  if (siblings > 0) proposal = {{0, 0}, {q, q}, {0, 0}};
  SmallRows rows(p, after);
  do {
    random.begin_path();
    ++paths;
    proposal.tokens[0] = draw(q, {0, position, rule.draft_noise}, random);
    if (siblings > 0) {
      proposal.tokens[1] = (proposal.tokens[0] + 1) % siblings;
      proposal.drawn_from[1] = Distribution::point(proposal.tokens[1]);
    }
    const Verdict verdict = rule.judge(proposal, rows, 0, position, random);
    const Rational probability = random.probability();
    if (verdict.accepted == 0) {
      first[verdict.next] += probability;
      continue;
    }
    const Token draft_token = proposal.tokens.at(static_cast<std::size_t>(verdict.last));
    first[draft_token] += probability;
    accepted[{verdict.last, draft_token}] += probability;
    both[{{verdict.last, draft_token}, verdict.next}] += probability;
  } while (random.next_path());

  const auto probability = [](const Distribution& of, Token token) { return Rational(of.weight(token), total); };
  for (const Token token : p.tokens()) first[token] -= probability(p, token);
  for (const auto& [token, difference] : first) {
    if (difference != 0) return "token " + std::to_string(token) + " does not have the probability that p gives it";
  }
  for (const auto& [draft_token, weight] : accepted) {
    const Distribution& row = rows.row(draft_token.first + 1);
    for (const Token next : row.tokens()) both[{draft_token, next}] -= weight * probability(row, next);
  }
  for (const auto& [tokens, difference] : both) {
    if (difference != 0) {
      return "after the accepted draft token " + std::to_string(tokens.first.second) + ", token " +
             std::to_string(tokens.second) + " does not have the probability that the row after it gives it";
    }
  }
  return "";
}

struct Counted {
  long pairs = 0;
  long paths = 0;
  long rows = 0;
  long words = 0;
};

void try_rules(const Primitives& code, Examination& examination, Counted& counted) {
  struct Space {
    int vocabulary;
    std::uint64_t largest_sum;
  };
  const auto all_pairs = [&](const Rule& rule, const std::vector<Distribution>& list, int siblings) {
    for (const Distribution& p : list) {
      const Distribution after = mirrored(p);
      for (const Distribution& q : list) {
        ++counted.pairs;
        const std::string wrong = wrong_token(rule, p, q, after, siblings, counted.paths);
        const bool right = examination.expect(wrong.empty(), [&] {
          return failure(std::string(rule.name) + " gives every token the probability that p gives it", wrong,
                         {"p is " + listed(p.weights()) + " of tokens " + listed(p.tokens()),
                          "q is " + listed(q.weights()) + " of " + listed(q.tokens()),
                          siblings > 0 ? "the draft token has a sibling" : "there is one draft token",
                          "every random draw was enumerated"});
        });
        if (!right) return false;
      }
    }
    return true;
  };
  for (const Rule* rule : code.rules) {
    bool right = true;
    for (const Space& space : {Space{1, 6}, {2, 6}, {3, 6}, {4, 5}}) {
      for (std::uint64_t sum = 1; right && sum <= space.largest_sum; ++sum) {
        right = all_pairs(*rule, small_distributions(space.vocabulary, sum), 0);
      }
    }
    if (right) right = all_pairs(*rule, adversarial_distributions(), 0);
    for (const Space& space : {Space{2, 6}, {3, 6}}) {
      for (std::uint64_t sum = 1; right && code.trees && sum <= space.largest_sum; ++sum) {
        right = all_pairs(*rule, small_distributions(space.vocabulary, sum), space.vocabulary);
      }
    }
  }
}

// Uniform integers, and the selection of an index with one.

void try_uniform(const Primitives& code, Examination& examination, Counted& counted) {
  for (int bound = 1; bound < 256; ++bound) {
    std::array<int, 256> times{};  // by value
    int retries = 0;
    for (int word = 0; word < 256; ++word) {
      ++counted.words;
      int used = 0;
      const std::array<std::uint8_t, 2> words = {static_cast<std::uint8_t>(word), 0xff};
      const std::uint8_t value = code.below(static_cast<std::uint8_t>(bound), words, used);
      used == 1 ? ++times[value] : ++retries;
    }
    const bool even = std::all_of(times.begin(), times.begin() + bound, [&](int n) { return n == 256 / bound; });
    const bool inside = std::all_of(times.begin() + bound, times.end(), [](int n) { return n == 0; });
    examination.expect(even && inside && retries == 256 % bound, [&] {
      return failure("uniform integers below " + std::to_string(bound) + " are equally frequent",
                     "they are not equally frequent from words of 8 bits", {"all 256 words were tried"});
    });
  }
}

/// PhiloxSource::sample_index returns the weight in which the uniform integer lies; zero weights are never selected.
void try_sample_index(Examination& examination) {
  std::vector<std::vector<std::uint64_t>> lists;
  for (int code = 1; code < 256; ++code) {
    lists.push_back({code & 3u, code >> 2 & 3u, code >> 4 & 3u, code >> 6 & 3u});
  }
  lists.emplace_back(3000);  // longer than a stride
  for (std::size_t i = 0; i < lists.back().size(); ++i) lists.back()[i] = i % 5 == 3 ? 0 : i % 7;
  PhiloxSource random(11);
  for (const auto& weights : lists) {
    const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    for (int position = 0; position < 24; ++position) {
      const Key key{1, position, Purpose::residual};
      std::uint64_t rest = random.below(key, sum);
      std::size_t expected = 0;
      while (rest >= weights[expected]) rest -= weights[expected++];
      examination.expect(random.sample_index(key, weights) == expected, [&] {
        return failure(
            "sample_index selects weight " + std::to_string(expected) + " of " + std::to_string(weights.size()),
            "it selects another weight",
            {"the number of its key is " + std::to_string(random.below(key, sum)) + " below " + std::to_string(sum)});
      });
    }
  }
}

// Rows.

std::vector<Sampling> small_samplings() {
  std::vector<Sampling> list = {{}};
  for (const float temperature : {0.7F, 1.0F, 30.0F, 1e-30F}) {
    for (const int top_k : {0, 1, 2}) {
      for (const float top_p : {1.0F, 1e-9F, 0.5F}) {
        for (const float min_p : {0.0F, 0.5F, 1.0F}) {
          list.push_back({.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p});
        }
      }
    }
  }
  const Sampling others[] = {
      {.temperature = 0.7F, .top_p = 0.5F, .min_p = 0.5F},
      {.temperature = 30, .top_k = 2, .top_p = 0.5F},
      {.temperature = 1, .top_n_sigma = 1},
      {.temperature = 2, .typical_p = 0.5F},
      {.temperature = 1, .dynatemp_range = 1},
      {.temperature = 0.5F, .dynatemp_range = 0.25F, .dynatemp_exponent = 2},
      {.temperature = 2, .xtc_probability = 0.5F, .xtc_threshold = 0.3F},
      {.temperature = 1, .min_p = 0.1F, .xtc_probability = 1},
      {.temperature = 3, .top_p = 0.9F, .top_n_sigma = 1.5F, .typical_p = 0.9F, .xtc_probability = 0.3F},
  };
  for (const SamplerOrder& order : {transformers_order, llama_cpp_order}) {
    for (const Sampling& other : others) {
      list.push_back(other);
      list.back().order = order;
    }
  }
  return list;
}

std::string shown(const std::optional<Distribution>& row) {
  return row ? listed(row->weights()) + " of tokens " + listed(row->tokens()) : "an error";
}

void try_rows(const Primitives& code, Examination& examination, Counted& counted) {
  const std::array values = {-infinity, -1.0F, -std::numeric_limits<float>::denorm_min(), 0.0F, 0x1.000002p+0F, 40.0F};
  const std::vector<Sampling> all_samplings = small_samplings();
  const auto expect = [&](std::span<const float> logits, const Sampling& sampling) {
    ++counted.rows;
    const std::optional<Distribution> expected = expected_row(logits, sampling);
    std::optional<Distribution> found;
    try {
      found = code.read(logits, sampling, {});
    } catch (const Error&) {
    }
    return examination.expect(found == expected, [&] {
      return failure(
          "the logits give " + shown(expected), "they give " + shown(found),
          {"the logits are " + listed(logits),
           "temperature " + std::to_string(sampling.temperature) + ", top-k " + std::to_string(sampling.top_k) +
               ", top-p " + std::to_string(sampling.top_p) + ", min-p " + std::to_string(sampling.min_p),
           "the other samplers are top-n-sigma " + std::to_string(sampling.top_n_sigma) + ", typical-p " +
               std::to_string(sampling.typical_p) + ", dynatemp-range " + std::to_string(sampling.dynatemp_range) +
               ", xtc-probability " + std::to_string(sampling.xtc_probability) + ", in the order of " +
               (sampling.order == llama_cpp_order ? "llama.cpp" : "transformers")});
    });
  };
  for (const float a : values) {
    for (const float b : values) {
      for (const float c : values) {
        for (const Sampling& sampling : all_samplings) {
          if (!expect(std::array{a, b, c}, sampling)) return;
        }
      }
    }
  }
  for (const float fatal : {std::numeric_limits<float>::quiet_NaN(), infinity}) {
    for (std::size_t place = 0; place < 3; ++place) {
      std::array logits{0.0F, 1.0F, 2.0F};
      logits[place] = fatal;
      for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1}}) expect(logits, sampling);
    }
  }
  // More than a token block, with ties across its end.
  std::vector<float> wide(67, -2);
  wide[2] = wide[63] = wide[64] = wide[66] = 1;
  for (const Sampling& sampling : all_samplings) expect(wide, sampling);
}

}  // namespace

std::uint8_t small_uniform(std::uint8_t bound, std::span<const std::uint8_t> words, int& used) {
  return uniform_below<std::uint8_t, std::uint16_t>(bound, [&](unsigned retry) {
    used = static_cast<int>(retry) + 1;
    return words[std::min<std::size_t>(retry, words.size() - 1)];
  });
}

Primitives production() {
  const Rule* const* rules = all_rules();
  std::size_t count = 0;
  while (rules[count] != nullptr) ++count;
  return {.rules = {rules, count}};
}

Finding check_exhaustive_small_cases(const Primitives& primitives) {
  Examination examination(exhaustive_small_cases);
  Counted counted;
  try_uniform(primitives, examination, counted);
  try_sample_index(examination);
  try_rows(primitives, examination, counted);
  try_rules(primitives, examination, counted);
  return std::move(examination)
      .finding(std::to_string(counted.pairs) + " pairs of p and q over " + std::to_string(counted.paths) + " paths, " +
               std::to_string(counted.rows) + " rows of logits, " + std::to_string(counted.words) +
               " words: all exactly right");
}

const Check exhaustive_small_cases = {
    "exhaustive_small_cases",
    "the parts that decide tokens are right in every small case",
    "the rules, uniform integers, the selection of a token by weights, the conversion of logits to a distribution",
    "models, KV caches, the decode loop and drafts, because none of them runs; the exponential, because both sides "
    "take it from one function",
    nullptr,
    nullptr};

}  // namespace draftproof
