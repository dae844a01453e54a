// SPDX-License-Identifier: MIT
// For people at a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "oracle/report/report.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

/// Cuts the text to what a screen holds.
std::string shown(const std::string& text) { return printable(text, 2000); }

/// A matrix of at most so many rows is followed by the messages of its checks.
constexpr std::size_t rows_with_messages = 8;

std::string line_of(const Finding& finding) {
  return fmt::format("  {:<26} {:<7} {}\n", finding.check, name_of(finding.outcome), shown(finding.message));
}

std::string lines_of(const Finding& finding, const std::string& subject) {
  std::string text = line_of(finding);
  if (!finding.failure) return text;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:34} {}{}\n", "", what, shown(value));
  };
  if (finding.failure->line > 0) add("at ", fmt::format("{}:{}", subject, finding.failure->line));
  for (const std::string& fact : finding.failure->facts) add("- ", fact);
  add("can be at fault: ", finding.failure->blames);
  add("cannot be at fault: ", finding.failure->clears);
  add("reproduce: ", finding.failure->reproduce);
  return text;
}

/// Says nothing of speed, which runs that record everything of a model of any size do not show.
std::string drafts_text(const Report& r) {
  std::string text;
  for (const DraftReport& draft : r.drafts) {
    const Statistics& s = draft.statistics;
    if (!draft.untested.empty()) text += fmt::format("  {}: VACUOUS: {}\n", shown(draft.name), shown(draft.untested));
    if (s.iterations == 0) continue;
    text +=
        fmt::format("  {}: mean accepted {:.2f} of {:.2f} draft tokens, {:.2f} tokens per round\n", shown(draft.name),
                    s.average_accepted(), static_cast<double>(s.drafted) / s.iterations, draft.tokens_per_round);
    long judged = 0;
    long accepted = 0;
    double expected = 0;
    for (const Depth& depth : draft.depths) {
      judged += depth.judged;
      accepted += depth.accepted;
      expected += depth.expected;
    }
    if (judged > 0) {
      text += fmt::format("    {} draft tokens verified, {} accepted (expected {:.1f})\n", judged, accepted, expected);
    }
  }
  return text.empty() ? text : "\n" + text;
}

std::string token_test_text(const TokenTest& token_test) {
  return fmt::format(
      "\n  sequential test of the tokens: e-value {:.4g} after {} tokens, alarm at {:.4g}; best bet: {}"
      "\n  {}\n",
      token_test.e_value, token_test.tokens, 1 / token_test.alpha, shown(token_test.suspect),
      token_test.smallest_deviation < 1
          ? fmt::format("a known fault with total variation {:.4g} would have been found with "
                        "probability 0.99",
                        token_test.smallest_deviation)
          : "so few tokens show nothing: no deviation would have been found for certain");
}

std::string bets_text(const std::vector<Bets>& all) {
  std::string text = all.empty() ? "" : "\n";
  for (const Bets& bets : all) {
    text += fmt::format("  {}: {}{}\n", bets.about, bets.alarm ? "ALARM, " : "", shown(bets.message));
  }
  return text;
}

std::string divergence_text(const Divergence& d) {
  std::string text =
      fmt::format("\n  first divergence: {}, round {}, position {}\n", shown(d.run), d.round, d.position);
  const auto add = [&](const char* what, const std::string& value) {
    text += fmt::format("    {:<12} {}\n", what, shown(value));
  };
  add("before", d.before);
  add("plain", d.plain);
  add("observed", d.observed);
  if (!d.draft_tokens.empty()) add("draft tokens", d.draft_tokens);
  return text;
}

/// Says how every difference is explained, and shows the first ones.
std::string differences_text(const std::vector<TextDifference>& all) {
  if (all.empty()) return "";
  constexpr std::size_t lines_max = 50;
  const auto count = [&](const char* explanation) {
    return std::ranges::count(all, explanation, &TextDifference::explanation);
  };
  std::string text = fmt::format("\n  texts that part from plain decoding: {} ({} TIE, {} NOT_EXPLAINED, {} BUG)\n",
                                 all.size(), count("TIE"), count("NOT_EXPLAINED"), count("BUG"));
  for (const TextDifference& d : std::span(all).first(std::min(all.size(), lines_max))) {
    text += fmt::format("    {}, position {}: {}, {}; {} for {}\n", shown(d.run), d.position, d.explanation,
                        shown(describe_gap(d)), shown(d.observed), shown(d.plain));
  }
  if (all.size() > lines_max) text += fmt::format("    and {} more, which --json has\n", all.size() - lines_max);
  return text;
}

std::string messages_text(const Matrix& matrix) {
  std::string text;
  for (const Matrix::Row& row : matrix.rows) {
    text += fmt::format("\n{} {}\n", row.id, row.name);
    for (std::size_t i = 0; i < row.messages.size(); ++i) {
      text += fmt::format("  {:<26} {:<7} {}\n", matrix.checks[i], name_of(row.outcomes[i]), row.messages[i]);
    }
  }
  return text;
}

/// Returns the matrix of the zoo, and the decoders whose outcomes are not the expected ones.
std::string zoo_text(const Report& r) {
  std::string text = matrix_text(r.matrix);
  if (r.matrix.rows.size() <= rows_with_messages) text += messages_text(r.matrix);
  text += "\n";
  for (const auto& [name, value] : r.about) text += fmt::format("{}: {}\n", name, shown(value));
  for (const Finding& finding : r.findings) {
    if (finding.outcome != Outcome::pass) text += finding.message + "\n";
  }
  const auto count = [&](bool control, bool well_only) {
    return std::count_if(r.matrix.rows.begin(), r.matrix.rows.end(), [&](const Matrix::Row& row) {
      return row.is_control() == control && (row.as_expected || !well_only);
    });
  };
  return text + fmt::format("{} of {} mutants caught, {} of {} controls not flagged\n", count(false, true),
                            count(false, false), count(true, true), count(true, false));
}

}  // namespace

std::string matrix_text(const Matrix& matrix) {
  constexpr std::size_t name_width = 34;
  std::string text =
      "# Which check flags which decoder: X flagged, p as slower only, . found nothing, - had nothing to examine.\n";
  text += fmt::format("{:<{}}  {:<6}", "", name_width, "harm");
  for (const std::string& check : matrix.checks) text += "  " + check;
  text += "\n";
  for (const Matrix::Row& row : matrix.rows) {
    text += fmt::format("{:<{}}  {:<6}", fmt::format("{:<5} {}", row.id, row.name), name_width, row.harm);
    for (std::size_t i = 0; i < matrix.checks.size(); ++i) {
      const Outcome outcome = row.outcomes[i];
      const char mark = outcome == Outcome::fail              ? 'X'
                        : outcome == Outcome::perf_regression ? 'p'
                        : outcome == Outcome::pass            ? '.'
                                                              : '-';
      text += fmt::format("  {:<{}}", mark, matrix.checks[i].size());
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  text += "\n# The stage each breaks (zoo/zoo.h), where it was found, and how it is wrong or why it is right.\n";
  for (const Matrix::Row& row : matrix.rows) {
    text += fmt::format("{:<5} {:<3} {:<37} {}\n", row.id, row.stage, row.issue, row.cause);
  }
  return text;
}

std::string report_text(const Report& r) {
  if (!r.matrix.rows.empty()) return zoo_text(r);
  std::string text = shown(r.subject) + "\n";
  if (!r.about.empty()) text += " ";
  for (const auto& [name, value] : r.about) {
    text += fmt::format("{}{} {}", &name == &r.about.front().first ? " " : ", ", name, shown(value));
  }
  if (!r.runs.empty()) text += fmt::format("; {} runs", r.runs.size());
  if (!r.about.empty()) text += "\n";
  if (!r.examined.empty()) text += " ";
  for (const auto& [name, count] : r.examined) {
    text += fmt::format("{}{} {:.10g}", &name == &r.examined.front().first ? " " : ", ", name, count);
  }
  if (!r.examined.empty()) text += "\n";
  if (!r.findings.empty()) text += "\n";
  for (const Finding& finding : r.findings) text += lines_of(finding, r.subject);
  if (!r.unproved.empty()) text += "\n";
  for (const std::string& what : r.unproved) text += fmt::format("  not proved: {}\n", shown(what));
  for (const Divergence& divergence : r.divergences) text += divergence_text(divergence);
  text += differences_text(r.differences);
  for (const TokenTest& token_test : r.token_tests) text += token_test_text(token_test);
  text += bets_text(r.bets);
  text += drafts_text(r);
  return text + fmt::format("\n  {}{}{}\n", name_of(r.verdict), r.scope.empty() ? "" : " (" + shown(r.scope) + ")",
                            r.reason.empty() ? "" : ": " + shown(r.reason));
}

}  // namespace draftproof
