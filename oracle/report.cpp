// SPDX-License-Identifier: MIT
#include "oracle/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace draftproof {
namespace {

std::string sampling_text(const Sampling& s) {
  std::string text = s.greedy() ? "greedy" : fmt::format("temperature {:g}", s.temperature);
  if (!s.greedy() && s.top_k > 0) text += fmt::format(", top-k {}", s.top_k);
  if (!s.greedy() && s.top_p < 1) text += fmt::format(", top-p {:g}", s.top_p);
  if (!s.greedy() && s.min_p > 0) text += fmt::format(", min-p {:g}", s.min_p);
  if (s.penalises()) text += ", penalties";
  return text;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      // Control characters other than these three are not allowed in XML, however they are written.
      default: result += static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r' ? c : '?';
    }
  }
  return result;
}

nlohmann::ordered_json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.least}, {"max", spread.most}};
}

}  // namespace

const char* name_of(ReportVerdict verdict) noexcept {
  switch (verdict) {
    case ReportVerdict::pass_exact: return "PASS_EXACT";
    case ReportVerdict::bug_proven: return "BUG_PROVEN";
    case ReportVerdict::vacuous: return "VACUOUS";
  }
  return "BUG_PROVEN";
}

Spread spread_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

ReportVerdict Report::verdict() const {
  const auto any = [&](Outcome outcome) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.outcome == outcome; });
  };
  if (any(Outcome::fail)) return ReportVerdict::bug_proven;
  if (!reason.empty() || any(Outcome::vacuous)) return ReportVerdict::vacuous;
  return ReportVerdict::pass_exact;
}

std::string report_text(const Report& r) {
  std::string text =
      fmt::format("{}\n  rule {}, {}, seed {}, prompt of {} tokens, {} new; {} runs\n\n", r.target, r.rule,
                  sampling_text(r.sampling), r.seed, r.prompt_tokens, r.output_tokens, r.runs.size());
  for (const Finding& finding : r.findings) {
    text += fmt::format("  {:<18} {:<7} {}\n", finding.check, name_of(finding.outcome), finding.sentence);
  }
  text += "\n";
  const auto speed = [&](const Spread& seconds) {
    return fmt::format("{:.1f} ms, {:.0f} tokens/s", 1e3 * seconds.median,
                       static_cast<double>(r.output_tokens) / seconds.median);
  };
  if (r.plain.median > 0) text += fmt::format("  plain decoding: {}\n", speed(r.plain));
  for (const DraftReport& draft : r.drafts) {
    const Statistics& s = draft.statistics;
    if (s.iterations == 0) continue;
    text += fmt::format("  {}: mean accepted {:.2f} of {:.2f} guesses, {:.2f} tokens per round", draft.name,
                        s.average_accepted(), static_cast<double>(s.drafted) / s.iterations, draft.tokens_per_round);
    if (draft.seconds.median > 0) {
      text += fmt::format(", {}: {:.2f}x", speed(draft.seconds), r.plain.median / draft.seconds.median);
    }
    text += "\n";
  }
  return text + fmt::format("\n  {}{}\n", name_of(r.verdict()), r.reason.empty() ? "" : ": " + r.reason);
}

std::string report_json(const Report& r) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Finding& finding : r.findings) {
    checks.push_back({{"name", finding.check},
                      {"outcome", name_of(finding.outcome)},
                      {"examined", finding.examined},
                      {"sentence", finding.sentence}});
  }
  nlohmann::ordered_json drafts = nlohmann::ordered_json::array();
  for (const DraftReport& draft : r.drafts) {
    const Statistics& s = draft.statistics;
    drafts.push_back({{"name", draft.name},
                      {"mean_accepted", s.average_accepted()},
                      {"acceptance", s.acceptance()},
                      {"tokens_per_round", draft.tokens_per_round},
                      {"iterations", s.iterations},
                      {"drafted", s.drafted},
                      {"accepted", s.accepted},
                      {"logits", draft.logits.hex()},
                      {"seconds", spread_json(draft.seconds)}});
  }
  const DraftReport first = r.drafts.empty() ? DraftReport{} : r.drafts.front();
  const nlohmann::ordered_json json = {
      {"command", "verify"},
      {"version", r.version},
      {"verdict", name_of(r.verdict())},
      {"reason", r.reason},
      {"target", r.target},
      {"draft", first.name},
      {"rule", r.rule},
      {"kernels", r.kernels},
      {"numerics", r.numerics},
      {"threads", r.threads},
      {"seed", r.seed},
      {"sampling",
       {{"temperature", r.sampling.temperature},
        {"top_k", r.sampling.top_k},
        {"top_p", r.sampling.top_p},
        {"min_p", r.sampling.min_p},
        {"repeat_penalty", r.sampling.repeat_penalty},
        {"presence_penalty", r.sampling.presence_penalty},
        {"frequency_penalty", r.sampling.frequency_penalty},
        {"repeat_last_n", r.sampling.repeat_last_n}}},
      {"prompt_tokens", r.prompt_tokens},
      {"output_tokens", r.output_tokens},
      {"checks", checks},
      {"mean_accepted", first.statistics.average_accepted()},
      {"tokens_per_round", first.tokens_per_round},
      {"seconds", {{"plain", spread_json(r.plain)}, {"speculative", spread_json(first.seconds)}}},
      {"drafts", drafts},
      {"runs", r.runs},
  };
  // A path may hold bytes that are not UTF-8; a report is not the place to fail over that.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string report_junit(const Report& r) {
  std::string cases;
  int failures = 0;
  int skipped = 0;
  for (const Finding& finding : r.findings) {
    cases += fmt::format("  <testcase classname=\"{}\" name=\"{}\">", escaped(r.target), escaped(finding.check));
    if (finding.outcome == Outcome::fail) {
      ++failures;
      cases += fmt::format("<failure message=\"{}\">{}</failure>", name_of(r.verdict()), escaped(finding.sentence));
    } else if (finding.outcome == Outcome::vacuous) {
      ++skipped;
      cases += fmt::format("<skipped message=\"{}\"/>", escaped(finding.sentence));
    }
    cases += "</testcase>\n";
  }
  if (!r.reason.empty()) {  // a run that proves nothing must not look like a pass
    ++skipped;
    cases += fmt::format("  <testcase classname=\"{}\" name=\"exercised\"><skipped message=\"{}\"/></testcase>\n",
                         escaped(r.target), escaped(r.reason));
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"draftproof verify\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}</testsuite>\n",
      r.findings.size() + (r.reason.empty() ? 0 : 1), failures, skipped, cases);
}

}  // namespace draftproof
