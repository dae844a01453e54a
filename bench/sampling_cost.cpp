// SPDX-License-Identifier: MIT
// What lies between a row of logits and a token: the microseconds of reading a row as a distribution, of a draw from
// it, and of a whole guess and its judgement under both rules, for usual settings and rows of three kinds. Settings
// take turns inside one run, so that a noisy machine disturbs all alike; median (least..most).
//
//   sampling_cost [VOCABULARY [TURNS]]      default: 151936 tokens, 101 turns
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/proposal.h"
#include "ref/acceptance/rule.h"

namespace {

using namespace draftproof;

/// Numbers between 0 and 1 by key, the same on every machine.
struct Uniform {
  SeededChance chance;
  std::int32_t next = 0;
  float operator()() {
    return static_cast<float>(chance.below({0, next++, Purpose::target}, std::uint64_t{1} << 24)) * 0x1p-24f;
  }
};

/// About normal with deviation 1: a sum of twelve.
float bell(Uniform& uniform) {
  float sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

struct Kind {
  const char* name;
  std::vector<float> (*row)(std::size_t size, std::uint64_t seed);
};

/// Random weights: a bell and nothing else.
std::vector<float> flat(std::size_t size, std::uint64_t seed) {
  Uniform uniform{SeededChance(seed)};
  std::vector<float> row(size);
  for (float& z : row) z = bell(uniform);
  return row;
}

/// A trained model that hesitates: a bulk far below, some hundred candidates, a few good ones.
std::vector<float> realistic(std::size_t size, std::uint64_t seed) {
  Uniform uniform{SeededChance(seed)};
  std::vector<float> row(size);
  for (float& z : row) z = 2.5f * bell(uniform);
  float height = 22;
  for (int i = 0; i < 300 && size > 0; ++i, height -= i < 20 ? 0.3f : 0.03f)
    row[static_cast<std::size_t>(uniform() * static_cast<float>(size - 1))] = height + uniform();
  return row;
}

/// A trained model that is sure.
std::vector<float> peaked(std::size_t size, std::uint64_t seed) {
  std::vector<float> row = realistic(size, seed);
  row[size / 3] = 45;
  return row;
}

struct Setting {
  const char* name;
  Sampling sampling;
};

const std::vector<Setting> settings = {
    {"greedy", {}},
    {"temperature", {.temperature = 1}},
    {"top-k 20", {.temperature = 0.7f, .top_k = 20}},
    {"top-p 0.9", {.temperature = 1, .top_p = 0.9f}},
    {"min-p 0.05", {.temperature = 1, .min_p = 0.05f}},
    {"top-k, top-p, min-p", {.temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .min_p = 0.01f}},
    {"penalties, top-p", {.temperature = 1, .top_p = 0.9f, .repeat_penalty = 1.1f}},
};

/// One row, read again for each verdict: what a draft of one guess asks for.
class Rows final : public TargetRows {
 public:
  Rows(Sampler& sampler, const Sampling& sampling, const std::vector<std::vector<float>>& logits, Distribution& read)
      : sampler_(sampler), sampling_(sampling), logits_(logits), read_(read) {}
  const Distribution& row(int row) override {
    sampler_.read(logits_[static_cast<std::size_t>(row)], sampling_, {}, read_);
    return read_;
  }

 private:
  Sampler& sampler_;
  const Sampling& sampling_;
  const std::vector<std::vector<float>>& logits_;
  Distribution& read_;
};

std::string summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:7.1f} ({:.1f}..{:.1f})", 1e6 * values[values.size() / 2], 1e6 * values.front(),
                     1e6 * values.back());
}

void measure(const Kind& kind, std::size_t vocabulary, int turns) {
  constexpr int guesses = 4;
  std::vector<std::vector<float>> target;
  std::vector<std::vector<float>> draft;
  for (int i = 0; i <= guesses; ++i) {
    target.push_back(kind.row(vocabulary, 7));
    draft.push_back(kind.row(vocabulary, 7));
    for (std::size_t token = 0; token < vocabulary; ++token)
      draft.back()[token] += 0.01f * static_cast<float>(token % 7);
  }
  enum Part { read, drawn, matched, rejected, parts };
  std::vector<std::vector<double>> seconds(settings.size() * parts);
  SeededChance chance(1);
  Sampler sampler;
  Distribution row;
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const Sampling& sampling = settings[i].sampling;
      auto start = std::chrono::steady_clock::now();
      const auto lap = [&](Part part, double times) {
        const auto end = std::chrono::steady_clock::now();
        seconds[i * parts + part].push_back(std::chrono::duration<double>(end - start).count() / times);
        start = std::chrono::steady_clock::now();
      };
      const auto& logits = target[static_cast<std::size_t>(turn % guesses)];
      sampler.read(logits, sampling, {}, row);
      lap(read, 1);
      draw(row, {0, turn, Purpose::target}, chance);
      lap(drawn, 1);
      for (const Rule* rule : {&matching, &rejection}) {
        start = std::chrono::steady_clock::now();
        Guesses drafted(sampling, {}, 0, turn * guesses, rule->draft_noise, chance, sampler);
        for (int guess = 0; guess < guesses; ++guess) drafted.draw(draft[static_cast<std::size_t>(guess)]);
        Proposal proposal = std::move(drafted).proposal();
        Rows rows(sampler, sampling, target, row);
        rule->judge(proposal, rows, 0, turn * guesses, chance);
        sampler.give_back(proposal.drawn_from);
        lap(rule == &matching ? matched : rejected, guesses);
      }
    }
  }
  fmt::print("{} rows of {} tokens; microseconds\n  {:<20} {:>24} {:>24} {:>24} {:>24}\n", kind.name, vocabulary, "",
             "read", "draw", "a guess, matching", "a guess, rejection");
  for (std::size_t i = 0; i < settings.size(); ++i) {
    fmt::print("  {:<20}", settings[i].name);
    for (int part = 0; part < parts; ++part)
      fmt::print(" {:>24}", summary(seconds[i * parts + static_cast<std::size_t>(part)]));
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int vocabulary = argc > 1 ? std::max(1, std::atoi(argv[1])) : 151936;
  const int turns = argc > 2 ? std::max(1, std::atoi(argv[2])) : 101;
  for (const Kind& kind : {Kind{"peaked", peaked}, Kind{"realistic", realistic}, Kind{"flat", flat}})
    measure(kind, static_cast<std::size_t>(vocabulary), turns);
}
