// SPDX-License-Identifier: MIT
// What a request says about how tokens are drawn, and the one table of its parameters: options, requests, files,
// traces and cases that are shrunk are made from that table. Reading a row by them is sampler.h.
#pragma once

#include <limits>
#include <tuple>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

/// Is added to the logit of a token; those of tokens beyond a row are ignored.
struct LogitBias {
  Token token = 0;
  float bias = 0;

  static constexpr float max = 100;  // of the magnitude that users may ask for, as in OpenAI's API

  bool operator==(const LogitBias&) const = default;
};

struct Sampling {
  float temperature = 0;        // 0 and below: the point distribution on the best token
  int top_k = 0;                // 0 and below, or at least the vocabulary: off
  float top_p = 1;              // outside (0, 1): off
  float min_p = 0;              // outside (0, 1]: off
  float repeat_penalty = 1;     // 0 and below, or 1: off
  float presence_penalty = 0;   // 0: off
  float frequency_penalty = 0;  // 0: off
  int repeat_last_n = 64;       // tokens of prompt and output that penalties see; below 0: all; 0: off
  std::vector<LogitBias> logit_bias = {};

  bool operator==(const Sampling&) const = default;

  bool greedy() const noexcept { return temperature <= 0; }
  bool penalizes() const noexcept {
    return repeat_last_n != 0 && (repeats() || presence_penalty != 0 || frequency_penalty != 0);
  }
  bool repeats() const noexcept { return repeat_penalty > 0 && repeat_penalty != 1; }
};

/// What is known of a parameter beside its value. The default is the value of a Sampling{}.
template <class T>
struct SamplingField {
  T Sampling::*member;
  const char* name;         // in files and traces; of its option with dashes
  T min, max;               // what users may ask for; the sampler takes any number
  T off;                    // what leaves the distribution of the logits as it is
  const char* placeholder;  // of the value, in `help`
  const char* help;
  const char* api_name = name;  // in requests of the server
  bool not_zero = false;        // users may not ask for 0, although it is the minimum: it would be off
};

inline constexpr std::tuple sampling_fields{
    SamplingField<float>{&Sampling::temperature, "temperature", 0, 1000, 1, "X", "0 is greedy"},
    SamplingField<int>{&Sampling::top_k, "top_k", 0, std::numeric_limits<int>::max(), 0, "K",
                       "keep the K most probable tokens; 0 keeps all"},
    SamplingField<float>{&Sampling::top_p, "top_p", 0, 1, 1, "P",
                         "keep the most probable tokens that sum to P; 1 keeps all"},
    SamplingField<float>{&Sampling::min_p, "min_p", 0, 1, 0, "P",
                         "drop tokens below P times the highest probability; 0 drops none"},
    SamplingField<float>{&Sampling::repeat_penalty, "repeat_penalty", 0, 100, 1, "X", "1 is off", "repetition_penalty",
                         true},
    SamplingField<float>{&Sampling::presence_penalty, "presence_penalty", -100, 100, 0, "X", "0 is off"},
    SamplingField<float>{&Sampling::frequency_penalty, "frequency_penalty", -100, 100, 0, "X", "0 is off"},
    SamplingField<int>{&Sampling::repeat_last_n, "repeat_last_n", -1, std::numeric_limits<int>::max(), 0, "N",
                       "how many tokens the penalties count; -1 is all, 0 is none"},
};

/// Calls visit(field) for every parameter but the biases, which are a list; whoever visits says what becomes of them.
template <class Visit>
void for_each_sampling_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, sampling_fields);
}

}  // namespace draftproof
