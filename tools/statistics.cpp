// SPDX-License-Identifier: MIT
#include "tools/statistics.h"

#include <fmt/format.h>

namespace draftproof {

std::string statistics_text(const Trace& trace, Gate gate) {
  const Statistics& s = trace.statistics;
  const double seconds = s.decode_seconds();
  std::string text = fmt::format("{} tokens in {} rounds, {:.2f} tokens per round, {:.1f} tokens/s, finished by {}\n",
                                 trace.output.size(), s.rounds, trace.tokens_per_round(),
                                 seconds > 0 ? static_cast<double>(trace.output.size()) / seconds : 0.0,
                                 name_of(trace.finish));
  if (gate != Gate::open) return text + fmt::format("speculation is off: {}\n", name_of(gate));
  text += fmt::format(
      "{} draft tokens verified, {} accepted: acceptance rate {:.3f}, mean accepted length {:.2f}\n"
      "{} rounds with draft tokens ({} batched, {} serial): {} with a rejection, {} all accepted\n"
      "target {:.1f} ms, draft {:.1f} ms, acceptance rule {:.1f} ms, prefill {:.1f} ms\n",
      s.drafted, s.accepted, s.acceptance(), s.average_accepted(), s.iterations, s.batched, s.serial, s.mismatches,
      s.all_accepted, 1e3 * s.target_seconds, 1e3 * s.draft_seconds, 1e3 * s.validate_seconds, 1e3 * s.prompt_seconds);
  return text;
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json statistics_json(const Trace& trace) {
  const Statistics& s = trace.statistics;
  return {
      {"rounds", s.rounds},
      {"iterations", s.iterations},
      {"drafted", s.drafted},
      {"accepted", s.accepted},
      {"mismatches", s.mismatches},
      {"all_accepted", s.all_accepted},
      {"batched", s.batched},
      {"serial", s.serial},
      {"acceptance_rate", s.acceptance()},
      {"mean_accepted", s.average_accepted()},
      {"tokens_per_round", trace.tokens_per_round()},
      {"target_seconds", s.target_seconds},
      {"draft_seconds", s.draft_seconds},
      {"validate_seconds", s.validate_seconds},
      {"prompt_seconds", s.prompt_seconds},
  };
}

}  // namespace draftproof
