// SPDX-License-Identifier: MIT
// An engine of other numerics than the reference: a tiny model with an 8-bit KV cache, decoding plainly, and the traces
// of tokens that it writes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oracle/plain/plain.h"
#include "oracle/spectrace/control.h"
#include "oracle/spectrace/replay.h"
#include "oracle/twin/twin.h"
#include "ref/acceptance/sampler.h"
#include "ref/models/models.h"
#include "tests/fuzz/damage.h"
#include "tests/spectrace/support.h"
#include "tests/threads.h"

namespace draftproof::spectrace {

inline const std::filesystem::path tiny =
    std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures" / "external" / "qwen3-tiny-tied";

inline std::shared_ptr<Model> tiny_model(Quantization weights, KvFormat kv) {
  return load_model(Checkpoint(tiny), {best_kernels(), weights, kv});
}

/// What the engine writes. Each text begins with other tokens.
struct Texts {
  Sampling sampling = {};
  int count = 6;
  int tokens = 100;  // of each
  int first = 0;     // number of the first text
  bool rows = false;
  bool logprobs = false;
  /// Returns what is emitted in place of a token.
  std::function<Token(const std::vector<float>& logits, std::size_t place, Token token)> emitted =
      [](const std::vector<float>&, std::size_t, Token token) { return token; };
  /// Changes what tokens are drawn from and rows are made of.
  std::function<void(std::vector<float>& logits, std::size_t place)> computed = [](std::vector<float>&, std::size_t) {};
};

/// The token that lies closest to a gap below the best.
inline Token below_by(const std::vector<float>& logits, double gap) {
  const float best = *std::ranges::max_element(logits);
  const auto off = [&](float logit) { return std::abs(static_cast<double>(best - logit) - gap); };
  return static_cast<Token>(std::ranges::min_element(logits, {}, off) - logits.begin());
}

inline std::string hex_of(double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%a", value);
  return digits;
}

inline std::string trace_of(Model& model, const Texts& how) {
  std::string text = Json({{"type", "header"},
                           {"schema", "spectrace/2"},
                           {"engine", "of other numerics"},
                           {"rule", "rejection"},
                           {"dtype", "f64"},
                           {"vocabulary", model.vocabulary()}})
                         .dump() +
                     "\n";
  for (int n = 0; n < how.count; ++n) {
    const int number = how.first + n;
    Numbers numbers(static_cast<std::uint64_t>(number) + 1);
    std::vector<Token> tokens = {1, number % model.vocabulary(), 7 * number % model.vocabulary()};
    Json sequence = {{"type", "sequence"},
                     {"sequence", n},
                     {"rng_key", n},
                     {"prompt", tokens},
                     {"temperature", hex_of(static_cast<double>(how.sampling.temperature))},
                     {"stop_tokens", Json::array()},
                     {"max_new_tokens", how.tokens}};
    if (how.sampling.top_k > 0) sequence["top_k"] = how.sampling.top_k;
    if (how.sampling.top_p < 1) sequence["top_p"] = hex_of(static_cast<double>(how.sampling.top_p));
    text += sequence.dump() + "\n";
    GrowingText growing(model, how.tokens + 4);
    for (int round = 0; round < how.tokens; ++round) {
      std::vector<float> logits = growing.logits_after(tokens);
      const auto place = static_cast<std::size_t>(n * how.tokens + round);
      how.computed(logits, place);
      const Distribution p = compute_distribution(logits, how.sampling, {tokens, {}});
      const std::uint64_t u = numbers.next() >> 12;
      std::uint64_t sum = 0;
      std::size_t drawn = 0;
      while (sum + p.weights()[drawn] <= u) sum += p.weights()[drawn++];
      const Token token = how.emitted(logits, place, p.tokens()[drawn]);
      Json line = {
          {"type", "round"}, {"sequence", n}, {"round", round}, {"position", tokens.size()}, {"emitted", {token}}};
      if (how.rows) {
        Json row = Json::array();
        for (std::size_t i = 0; i < p.tokens().size(); ++i) {
          row.push_back(p.tokens()[i]);
          row.push_back(hex_of(static_cast<double>(p.weights()[i]) * 0x1p-52));
        }
        line["p_rows"] = {row};
      }
      if (how.logprobs) line["logprobs"] = {hex_of(log_probability(logits, token))};
      text += line.dump() + "\n";
      tokens.push_back(token);
    }
    text += Json({{"type", "end"}, {"sequence", n}, {"reason", "length"}}).dump() + "\n";
  }
  return text;
}

/// The target with a reference, in floats unless other formats are named.
inline TraceTarget tiny_target(Quantization weights = Quantization::f32, KvFormat kv = KvFormat::f32) {
  TraceTarget target;
  const std::shared_ptr<Model> model = tiny_model(weights, kv);
  target.vocabulary = model->vocabulary();
  target.computing_in = [](const std::string&) { return nullptr; };
  target.computing_anyhow = [model] { return model; };
  target.twin = [] { return std::make_shared<const Twin>(Checkpoint(tiny)); };
  return target;
}

inline std::string report_shown(const TraceReport& report) { return report_text(make_report(report)); }

}  // namespace draftproof::spectrace
