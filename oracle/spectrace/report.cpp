// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "oracle/spectrace/replay.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

std::string place_of(const Report& r, const Finding& f) {
  return fmt::format("{}:{}: {}: sequence {}, round {}, position {}", r.file, f.line, f.check, f.sequence, f.round,
                     f.position);
}

}  // namespace

std::string report_text(const Report& r) {
  if (!r.invalid.empty()) return fmt::format("INVALID_TRACE: {}\n", r.invalid);
  const Examined& e = r.examined;
  std::string text = fmt::format(
      "{}: {}, rule {}\n  {} sequences, {} rounds, {} tokens; {} guesses judged, {} accepted\n"
      "  {} draws replayed, {} coins computed again from the seed, {} rows of the target computed again\n",
      r.file, printable(r.engine), r.rule, e.sequences, e.rounds, e.tokens, e.guesses, e.accepted, e.draws, e.coins,
      e.rows);
  if (e.band_mass > 0) {
    text += fmt::format("  {} of {} decisions of reals lie within rounding, {:.3g} are to be expected\n", e.in_band,
                        e.reals, e.band_mass);
  }
  if (r.law) {
    text += fmt::format("  law: {}; suspect: {}; a right decoder comes to an alarm with probability {:.0e}\n",
                        r.law->sentence, r.law->suspect, r.law->alpha);
  }
  for (const Finding& f : r.findings) {
    text += fmt::format("{}: {}; the trace says: {}\n", place_of(r, f), f.expected, f.observed);
  }
  if (r.findings.size() == Report::findings_max) {
    text += fmt::format("the replay ended after {} findings\n", Report::findings_max);
  }
  for (const std::string& what : r.unsaid) text += fmt::format("  not said: {}\n", what);
  for (const std::string& what : r.unproved) text += fmt::format("  not proved: {}\n", what);
  if (!r.target_given) text += "  p is taken as the trace states it; give --target to hold it to the model\n";
  return text + name_of(r.verdict()) + "\n";
}

std::string report_json(const Report& r) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Finding& f : r.findings) {
    findings.push_back({{"check", f.check},
                        {"line", f.line},
                        {"sequence", f.sequence},
                        {"round", f.round},
                        {"position", f.position},
                        {"expected", f.expected},
                        {"observed", f.observed}});
  }
  const Examined& e = r.examined;
  nlohmann::ordered_json json = {
      {"command", "trace check"},
      {"file", r.file},
      {"verdict", name_of(r.verdict())},
      {"invalid", r.invalid},
      {"engine", r.engine},
      {"rule", r.rule},
      {"target_given", r.target_given},
      {"findings", findings},
      {"not_said", r.unsaid},
      {"not_proved", r.unproved},
      {"examined",
       {{"sequences", e.sequences},
        {"rounds", e.rounds},
        {"tokens", e.tokens},
        {"guesses", e.guesses},
        {"accepted", e.accepted},
        {"draws", e.draws},
        {"coins", e.coins},
        {"rows", e.rows},
        {"reals", e.reals},
        {"in_band", e.in_band},
        {"band_mass", e.band_mass}}},
  };
  if (r.law) {
    const LawFromTokens& law = *r.law;
    json["law"] = {{"tokens", law.tokens},
                   {"alpha", law.alpha},
                   {"slack", law.slack},
                   {"e_value", law.e_value},
                   {"smallest_deviation", law.smallest_deviation},
                   {"suspect", law.suspect},
                   {"curve", law.curve}};
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace draftproof::spectrace
