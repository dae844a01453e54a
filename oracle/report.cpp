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
  std::string text = fmt::format("{}\n  draft {}, rule {}, {}, seed {}, prompt of {} tokens, {} new; {} runs\n\n",
                                 r.target, r.draft, r.rule, sampling_text(r.sampling), r.seed, r.prompt_tokens,
                                 r.output_tokens, r.runs);
  for (const Finding& finding : r.findings) {
    text += fmt::format("  {:<18} {:<7} {}\n", finding.check, name_of(finding.outcome), finding.sentence);
  }
  if (r.statistics.iterations > 0) {
    text += fmt::format("\n  mean accepted {:.2f} of {:.2f} guesses, {:.2f} tokens per round\n",
                        r.statistics.average_accepted(),
                        static_cast<double>(r.statistics.drafted) / r.statistics.iterations, r.tokens_per_round);
  }
  if (r.plain.median > 0 && r.speculative.median > 0) {
    const double tokens = static_cast<double>(r.output_tokens);
    text += fmt::format("  plain {:.1f} ms ({:.0f} tokens/s), speculative {:.1f} ms ({:.0f} tokens/s): {:.2f}x\n",
                        1e3 * r.plain.median, tokens / r.plain.median, 1e3 * r.speculative.median,
                        tokens / r.speculative.median, r.plain.median / r.speculative.median);
  }
  text += fmt::format("\n  {}{}\n", name_of(r.verdict()), r.reason.empty() ? "" : ": " + r.reason);
  return text;
}

std::string report_json(const Report& r) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Finding& finding : r.findings) {
    checks.push_back({{"name", finding.check},
                      {"outcome", name_of(finding.outcome)},
                      {"examined", finding.examined},
                      {"sentence", finding.sentence}});
  }
  const Statistics& s = r.statistics;
  const nlohmann::ordered_json json = {
      {"command", "verify"},
      {"verdict", name_of(r.verdict())},
      {"reason", r.reason},
      {"target", r.target},
      {"draft", r.draft},
      {"rule", r.rule},
      {"kernels", r.kernels},
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
      {"runs", r.runs},
      {"checks", checks},
      {"mean_accepted", s.average_accepted()},
      {"acceptance", s.acceptance()},
      {"tokens_per_round", r.tokens_per_round},
      {"iterations", s.iterations},
      {"drafted", s.drafted},
      {"accepted", s.accepted},
      {"seconds", {{"plain", spread_json(r.plain)}, {"speculative", spread_json(r.speculative)}}},
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
