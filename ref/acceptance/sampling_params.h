// SPDX-License-Identifier: MIT
// What a request says about how tokens are drawn, and the one table of its parameters: options, requests, files,
// traces and cases that are shrunk are made from that table. Reading a row by them is sampler.h.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ref/acceptance/sampler_order.h"
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
  float top_n_sigma = 0;        // 0 and below: off
  float typical_p = 1;          // outside (0, 1): off
  float dynatemp_range = 0;     // 0 and below: off
  float dynatemp_exponent = 1;
  float xtc_probability = 0;   // 0 and below: off
  float xtc_threshold = 0.1f;  // above 0.5: off
  float dry_multiplier = 0;    // 0: off
  float dry_base = 1.75f;      // below 1: off
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;  // tokens of prompt and output that DRY sees; below 0: all; 0: off
  int mirostat = 0;             // 2: on; else off
  float mirostat_tau = 5;
  float mirostat_eta = 0.1f;
  float adaptive_target = -1;  // below 0: off
  float adaptive_decay = 0.9f;
  SamplerOrder order = transformers_order;
  std::vector<LogitBias> logit_bias = {};
  std::vector<Token> dry_breakers = {};  // ascending: no repetition that DRY sees goes on over one of them

  bool operator==(const Sampling&) const = default;

  bool greedy() const noexcept { return temperature <= 0; }
  bool penalizes() const noexcept {
    return repeat_last_n != 0 && (repeats() || presence_penalty != 0 || frequency_penalty != 0);
  }
  bool repeats() const noexcept { return repeat_penalty > 0 && repeat_penalty != 1; }
  bool dries() const noexcept { return dry_multiplier != 0 && dry_base >= 1 && dry_penalty_last_n != 0; }
  bool excludes() const noexcept { return xtc_probability > 0 && xtc_threshold <= 0.5f; }
  /// Whether what a token is drawn from depends on how likely the tokens before it were (feedback.h).
  bool feeds_back() const noexcept { return !greedy() && (mirostat == 2 || adaptive_target >= 0); }
  /// Whether this step changes a row; of a sampling that is not greedy.
  bool applies(SamplerStep step) const noexcept;

  /// Takes these steps as the order, and turns off those that are not listed.
  void apply_only(std::span<const SamplerStep> listed);
  /// The same of a list that users wrote (parse_samplers). adaptive_p may be its last name; where a list of samplers
  /// lacks it, it is off.
  void apply_named(std::vector<std::string> names);
  /// What users ask for with mirostat 2: as in llama.cpp no step but a fixed temperature applies, and no adaptive p.
  void apply_mirostat_alone();
};

/// What is known of a parameter beside its value. The default is the value of a Sampling{}.
template <class T>
struct SamplingField {
  T Sampling::*member;
  const char* name;         // in files and traces; of its option with dashes
  T min, max;               // what users may ask for; the sampler takes any number
  T off;                    // what leaves the distribution of the logits as it is; or the default
  const char* placeholder;  // of the value, in `help`
  const char* help;
  const char* api_name = name;  // in requests of the server
  bool not_zero = false;        // users may not ask for 0, although it is the minimum: it would be off
  bool rare = false;            // files and traces state it only where it is not the default
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
    SamplingField<float>{.member = &Sampling::top_n_sigma,
                         .name = "top_n_sigma",
                         .min = -1,
                         .max = 100,
                         .off = 0,
                         .placeholder = "N",
                         .help = "drop tokens whose logit is N standard deviations below the best; 0 drops none",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::typical_p,
                         .name = "typical_p",
                         .min = 0,
                         .max = 1,
                         .off = 1,
                         .placeholder = "P",
                         .help = "keep the tokens of the most typical surprise that sum to P; 1 keeps all",
                         .not_zero = true,
                         .rare = true},
    SamplingField<float>{.member = &Sampling::dynatemp_range,
                         .name = "dynatemp_range",
                         .min = 0,
                         .max = 1000,
                         .off = 0,
                         .placeholder = "X",
                         .help = "let the temperature vary by X either way, with the entropy; 0 is off",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::dynatemp_exponent,
                         .name = "dynatemp_exponent",
                         .min = 0,
                         .max = 100,
                         .off = 1,
                         .placeholder = "X",
                         .help = "exponent of the entropy there",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::xtc_probability,
                         .name = "xtc_probability",
                         .min = 0,
                         .max = 1,
                         .off = 0,
                         .placeholder = "P",
                         .help = "with this probability drop all likely tokens but the least likely of them; 0 is off",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::xtc_threshold,
                         .name = "xtc_threshold",
                         .min = 0,
                         .max = 1,
                         .off = 0.1f,
                         .placeholder = "P",
                         .help = "what is a likely token there; above 0.5 is off",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::dry_multiplier,
                         .name = "dry_multiplier",
                         .min = 0,
                         .max = 100,
                         .off = 0,
                         .placeholder = "X",
                         .help = "what DRY takes from the logit of a token that repeats a sequence; 0 is off",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::dry_base,
                         .name = "dry_base",
                         .min = 1,
                         .max = 100,
                         .off = 1.75f,
                         .placeholder = "X",
                         .help = "factor of it for each token that the sequence is longer than allowed",
                         .rare = true},
    SamplingField<int>{.member = &Sampling::dry_allowed_length,
                       .name = "dry_allowed_length",
                       .min = 0,
                       .max = std::numeric_limits<int>::max(),
                       .off = 2,
                       .placeholder = "N",
                       .help = "tokens that may be repeated before it",
                       .rare = true},
    SamplingField<int>{.member = &Sampling::dry_penalty_last_n,
                       .name = "dry_penalty_last_n",
                       .min = -1,
                       .max = std::numeric_limits<int>::max(),
                       .off = -1,
                       .placeholder = "N",
                       .help = "how many tokens DRY sees; -1 is all, 0 is none",
                       .rare = true},
    SamplingField<int>{
        .member = &Sampling::mirostat,
        .name = "mirostat",
        .min = 0,
        .max = 2,
        .off = 0,
        .placeholder = "N",
        .help = "2 keeps the surprise of tokens near a target, by the temperature and a cut alone; 0 is off",
        .rare = true},
    SamplingField<float>{.member = &Sampling::mirostat_tau,
                         .name = "mirostat_tau",
                         .min = 0,
                         .max = 100,
                         .off = 5,
                         .placeholder = "X",
                         .help = "that target, in bits",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::mirostat_eta,
                         .name = "mirostat_eta",
                         .min = 0,
                         .max = 1,
                         .off = 0.1f,
                         .placeholder = "X",
                         .help = "how fast its cut moves",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::adaptive_target,
                         .name = "adaptive_target",
                         .min = -1,
                         .max = 1,
                         .off = -1,
                         .placeholder = "P",
                         .help = "adaptive p: draw tokens of about this probability, on average; below 0 is off",
                         .rare = true},
    SamplingField<float>{.member = &Sampling::adaptive_decay,
                         .name = "adaptive_decay",
                         .min = 0,
                         .max = 0.99f,
                         .off = 0.9f,
                         .placeholder = "X",
                         .help = "how much of that average each token leaves",
                         .rare = true},
};

/// Calls visit(field) for every parameter that is a number; whoever visits says what becomes of the order, the biases
/// and the breakers.
template <class Visit>
void for_each_sampling_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, sampling_fields);
}

}  // namespace draftproof
