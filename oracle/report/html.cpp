// SPDX-License-Identifier: MIT
// One self-contained page. Every element is closed and every attribute quoted, so that a strict parser can tell that no
// name, path or token broke out of its element or attribute.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math64.h"
#include "oracle/report/markup.h"
#include "oracle/report/report.h"
#include "oracle/report/style.h"
#include "oracle/report/svg.h"

namespace draftproof {
namespace {

enum class Tone { good, bad, open };

struct VerdictMeaning {
  Tone tone;
  const char* message;
};

VerdictMeaning meaning_of(const Report& r) {
  if (!r.matrix.rows.empty() && r.verdict == ReportVerdict::pass_exact) {
    return {Tone::good, "Every wrong decoder is caught by the checks that must catch it, and no right one is flagged."};
  }
  if (!r.matrix.rows.empty() && r.verdict == ReportVerdict::bug_proven) {
    return {Tone::bad, "A wrong decoder escapes a check that must catch it, or a right one is flagged."};
  }
  switch (r.verdict) {
    case ReportVerdict::pass_exact: return {Tone::good, "Everything that was examined is exactly right."};
    case ReportVerdict::pass_stat:
      return {Tone::good,
              "A sequential test of the tokens found no deviation. What it would have found is stated below."};
    case ReportVerdict::bug_proven: return {Tone::bad, "Two facts were seen that cannot both be right."};
    case ReportVerdict::bug_stat:
      return {Tone::bad,
              "A sequential test of the tokens found a deviation. Its probability of a false alarm is stated below."};
    case ReportVerdict::perf_regression:
      return {Tone::open, "No fault of the text was found, but the draft proposes worse draft tokens than it could."};
    case ReportVerdict::undecided:
      return {Tone::open, "Nothing wrong was found, but something is missing, so it could not be examined."};
    case ReportVerdict::vacuous: return {Tone::open, "Nothing was tested, so nothing is shown."};
    case ReportVerdict::invalid_trace: return {Tone::bad, "The file cannot be read as a trace."};
  }
  return {Tone::bad, ""};
}

const char* class_of(Tone tone) {
  switch (tone) {
    case Tone::good: return "good";
    case Tone::bad: return "bad";
    case Tone::open: return "open";
  }
  return "bad";
}

/// Returns a tick, a cross or a bar, so that colors are not needed.
std::string sign(Tone tone) {
  const char* path = "M7 12.5l3.5 3.5l6.5-8";
  if (tone == Tone::bad) path = "M8 8l8 8M16 8l-8 8";
  if (tone == Tone::open) path = "M7 12h10";
  return fmt::format(
      "<svg class=\"sign\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><circle cx=\"12\" cy=\"12\" "
      "r=\"11\"></circle><path d=\"{}\"></path></svg>",
      path);
}

Tone tone_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::pass: return Tone::good;
    case Outcome::fail: return Tone::bad;
    case Outcome::vacuous:
    case Outcome::perf_regression: return Tone::open;
  }
  return Tone::bad;
}

/// Returns "1 234 567", with narrow no-break spaces.
std::string grouped(long value) {
  std::string digits = fmt::to_string(value);
  for (std::size_t at = digits.size(); at > 3 && digits[at - 4] != '-'; at -= 3) digits.insert(at - 3, "\u202F");
  return digits;
}

std::string counted(long count, const char* one, const char* many) {
  return fmt::format("{} {}", grouped(count), count == 1 ? one : many);
}

/// Returns "3.2", "4.1 · 10⁷", "10⁻⁹", "∞".
std::string scientific(double value) {
  if (std::isinf(value)) return "∞";
  if (!(value > 0) || (value >= 1e-3 && value < 1e4)) return fmt::format("{:.3g}", value);
  int exponent = static_cast<int>(std::floor(svg::log10_of(value)));
  std::string digits = fmt::format("{:.2g}", value / power64(10, exponent));
  if (digits == "10") {  // rounded up
    digits = "1";
    ++exponent;
  }
  return (digits == "1" ? "" : digits + " · ") + svg::power_of_ten(exponent);
}

std::string item(const std::string& name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value);
}

std::string section(const std::string& title, const std::string& content) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", title, content);
}

std::string number(const std::string& content) { return fmt::format("<td class=\"number\">{}</td>", content); }

/// Returns a table of numbers in a box that scrolls sideways when it is too wide.
std::string table(const std::string& label, const std::vector<std::string>& names, const std::string& rows) {
  std::string head;
  for (const std::string& name : names) head += fmt::format("<th scope=\"col\">{}</th>", name);
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\"><table aria-label=\"{}\">\n<thead><tr>{}</tr></thead>\n"
      "<tbody>\n{}</tbody>\n</table></div>\n",
      label, head, rows);
}

std::string folded(const std::string& summary, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", summary, content);
}

std::string head(const Report& r) {
  const VerdictMeaning meaning = meaning_of(r);
  std::string counts;
  if (!r.findings.empty()) {
    const auto number_of = [&](Outcome outcome) {
      return std::count_if(r.findings.begin(), r.findings.end(),
                           [&](const Finding& finding) { return finding.outcome == outcome; });
    };
    const auto slow = number_of(Outcome::perf_regression);
    counts = fmt::format("<p class=\"counts\">{} failed, {} passed, {} had nothing to examine{}</p>\n",
                         number_of(Outcome::fail), number_of(Outcome::pass), number_of(Outcome::vacuous),
                         slow == 0 ? "" : fmt::format(", {} found a slower draft", slow));
  }
  return fmt::format(
      "<header>\n<p class=\"command\">draftproof {}</p>\n<p class=\"subject\">{}</p>\n"
      "<div class=\"verdict {}\">{}<div>\n<h1>{}</h1>\n<p>{}</p>\n{}{}{}</div></div>\n</header>\n",
      escaped(r.command), escaped(r.subject), class_of(meaning.tone), sign(meaning.tone), name_of(r.verdict),
      meaning.message, r.scope.empty() ? "" : fmt::format("<p class=\"reason\">{}</p>\n", escaped(r.scope)),
      r.reason.empty() ? "" : fmt::format("<p class=\"reason\">{}</p>\n", escaped(r.reason)), counts);
}

std::string about(const Report& r) {
  std::string list;
  for (const auto& [name, value] : r.about) list += item(escaped(name), escaped(value));
  return list.empty() ? "" : section("How it was run", "<dl class=\"about\">\n" + list + "</dl>\n");
}

std::string examined(const Report& r) {
  std::string list;
  for (const auto& [name, count] : r.examined) {
    const bool whole = count == std::floor(count) && std::abs(count) < 1e15;
    list += item(escaped(name), whole ? grouped(static_cast<long>(count)) : scientific(count));
  }
  return list.empty() ? "" : section("What was examined", "<dl class=\"about\">\n" + list + "</dl>\n");
}

std::string side(const char* title, const char* kind, const std::string& text) {
  return fmt::format("<div class=\"{}\"><h4>{}</h4><pre>{}</pre></div>\n", kind, title, escaped(text));
}

std::string failure(const Finding& finding) {
  std::string text =
      fmt::format("<article class=\"failure\">\n<h3>{}{}</h3>\n", sign(Tone::bad), escaped(finding.check));
  if (!finding.failure || finding.message != message_of(*finding.failure)) {  // else its parts follow
    text += fmt::format("<p>{}</p>\n", escaped(finding.message));
  }
  if (finding.failure) {
    const Failure& f = *finding.failure;
    std::string where;
    if (!f.run.empty()) where += item("run", escaped(f.run));
    if (f.line > 0) where += item("line", grouped(f.line));
    if (f.round >= 0) where += item("round", grouped(f.round));
    if (f.position >= 0) where += item("position", grouped(f.position));
    if (!where.empty()) text += "<dl class=\"where\">\n" + where + "</dl>\n";
    if (!f.expected.empty() || !f.observed.empty()) {
      text += "<div class=\"sides\">\n" + side("Expected", "must", f.expected) + side("Observed", "is", f.observed) +
              "</div>\n";
    }
    if (!f.facts.empty()) {
      std::string facts;
      for (const std::string& fact : f.facts) facts += fmt::format("<li>{}</li>\n", escaped(fact));
      text += "<h4>Why both cannot be right</h4>\n<ol>\n" + facts + "</ol>\n";
    }
    std::string parts;
    if (!f.blames.empty()) parts += item("can be at fault", escaped(f.blames));
    if (!f.clears.empty()) parts += item("cannot be at fault", escaped(f.clears));
    if (!parts.empty()) text += "<dl class=\"blame\">\n" + parts + "</dl>\n";
    if (!f.reproduce.empty()) text += side("Reproduce", "again", f.reproduce);
  }
  return text + "</article>\n";
}

std::string failures(const Report& r) {
  std::string list;
  for (const Finding& finding : r.findings) {
    if (finding.failure) list += failure(finding);
  }
  return list.empty() ? "" : section("Failures", list);
}

std::string unproved(const Report& r) {
  std::string list;
  for (const std::string& message : r.unproved) list += fmt::format("<li>{}</li>\n", escaped(message));
  return list.empty() ? "" : section("What was not examined", "<ul>\n" + list + "</ul>\n");
}

std::string divergence(const Divergence& d) {
  std::string where;
  if (!d.run.empty()) where += item("run", escaped(d.run));
  if (d.round >= 0) where += item("round", grouped(d.round));
  if (d.position >= 0) where += item("position", grouped(d.position));
  const auto text = [](const char* name, const char* kind, const std::string& value) {
    return fmt::format("<div class=\"{}\"><dt>{}</dt><dd>{}</dd></div>\n", kind, name,
                       value.empty() ? "<span class=\"none\">nothing</span>" : with_marks(value));
  };
  return section("Where the texts first differ",
                 (where.empty() ? "" : "<dl class=\"where\">\n" + where + "</dl>\n") + "<dl class=\"parting\">\n" +
                     text("both texts", "both", d.before) + text("plain decoding continues", "must", d.plain) +
                     text("this run continues", "is", d.observed) +
                     (d.draft_tokens.empty() ? "" : text("drafted in that round", "drafted", d.draft_tokens)) +
                     "</dl>\n" +
                     "<p class=\"note\">Marked: ␣ a space at an edge or next to another, ⇥ a tab, ⏎ the end of a line, "
                     "\\x1b an invisible byte or character.</p>\n");
}

std::string differences(const std::vector<TextDifference>& all) {
  if (all.empty()) return "";
  std::string rows;
  for (const TextDifference& d : all) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(d.run)) + number(grouped(d.position)) +
            fmt::format("<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", escaped(d.explanation),
                        escaped(describe_gap(d)), escaped(d.plain), escaped(d.observed));
  }
  return section("Texts that part from plain decoding",
                 table("Each text that parts from plain decoding, and how that is explained",
                       {"text", "position", "explanation", "gap", "plain", "observed"}, rows));
}

/// Returns half the width of the interval around an acceptance rate of `judged` draft tokens that misses a right
/// decoder's expectation once in a thousand (Azuma and Hoeffding: draft tokens need be neither alike nor independent).
/// It treats the number of verified draft tokens as independent of their acceptance, so it illustrates and asserts
/// nothing.
double half_interval(long judged) { return std::sqrt(log64(2 / 0.001) / (2 * static_cast<double>(judged))); }

std::string acceptance_by_depth(const DraftReport& draft) {
  std::vector<Depth> depths = draft.depths;
  while (!depths.empty() && depths.back().judged <= 0) depths.pop_back();
  if (depths.empty()) return "";
  std::vector<svg::Tick> shares;
  for (const double share : svg::round_numbers(0, 1, 6)) shares.push_back({share, svg::short_number(share)});
  svg::Plot plot("Acceptance rate by depth: " + draft.name,
                 "The acceptance rate of draft tokens at each depth of a round, with its interval, and as a line the "
                 "rate that follows from the distributions. The table has the numbers.",
                 svg::places("depth of the draft token in its round", 1, static_cast<int>(depths.size())),
                 {"acceptance rate", 0, 1, shares});
  std::vector<std::pair<double, double>> expected;
  std::string points;
  std::string rows;
  for (std::size_t i = 0; i < depths.size(); ++i) {
    const Depth& depth = depths[i];
    if (depth.judged <= 0) continue;
    const auto total = static_cast<double>(depth.judged);
    const double share = static_cast<double>(depth.accepted) / total;
    const double due = depth.expected / total;
    const double min = std::max(share - half_interval(depth.judged), 0.0);
    const double max = std::min(share + half_interval(depth.judged), 1.0);
    const auto place = static_cast<double>(i + 1);
    expected.insert(expected.end(), {{place - 0.4, due}, {place + 0.4, due}});
    plot.point(place, share, min, max,
               fmt::format("draft token {}: {} of {} accepted, {:.1f} expected", i + 1, depth.accepted, depth.judged,
                           depth.expected));
    rows += "<tr>" + fmt::format("<th scope=\"row\">{}</th>", i + 1) + number(grouped(depth.judged)) +
            number(grouped(depth.accepted)) + number(fmt::format("{:.3f}", share)) +
            number(fmt::format("{:.3f}–{:.3f}", min, max)) + number(fmt::format("{:.3f}", due)) + "</tr>\n";
  }
  plot.line("expected", expected);
  return "<figure>\n" + plot.text() +
         "<figcaption><span class=\"key point\">acceptance rate, with an interval of 99.9 %</span> "
         "<span class=\"key expected\">expected from p and q</span></figcaption>\n" +
         folded("In numbers", table("Draft tokens by their depth in the round",
                                    {"depth", "verified", "accepted", "rate", "interval", "expected"}, rows)) +
         "</figure>\n";
}

std::string accepted_lengths(const DraftReport& draft) {
  std::vector<long> rounds = draft.accepted;
  while (!rounds.empty() && rounds.back() <= 0) rounds.pop_back();
  if (rounds.empty()) return "";
  const long max = *std::max_element(rounds.begin(), rounds.end());
  svg::Plot plot("Draft tokens accepted in a round: " + draft.name,
                 "The number of rounds by how many of their draft tokens were accepted. The table has the numbers.",
                 svg::places("draft tokens accepted", 0, static_cast<int>(rounds.size()) - 1),
                 svg::amounts("rounds", static_cast<double>(max)));
  std::string rows;
  for (std::size_t n = 0; n < rounds.size(); ++n) {
    const auto at = static_cast<double>(n);
    if (rounds[n] > 0) {
      plot.bar(at - 0.4, at + 0.4, static_cast<double>(rounds[n]),
               fmt::format("{} accepted in {}", n, counted(rounds[n], "round", "rounds")));
    }
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", n) + number(grouped(rounds[n])) + "</tr>\n";
  }
  return "<figure>\n" + plot.text() +
         fmt::format("<figcaption>mean {:.2f} of {:.2f} draft tokens</figcaption>\n",
                     draft.statistics.average_accepted(),
                     draft.statistics.iterations == 0
                         ? 0.0
                         : static_cast<double>(draft.statistics.drafted) / draft.statistics.iterations) +
         folded("In numbers", table("Rounds by draft tokens accepted", {"accepted", "rounds"}, rows)) + "</figure>\n";
}

std::string plots_of_drafts(const Report& r) {
  std::string text;
  bool any_by_depth = false;
  for (const DraftReport& draft : r.drafts) {
    const std::string by_depth = acceptance_by_depth(draft);
    const std::string plots = by_depth + accepted_lengths(draft);
    if (plots.empty()) continue;
    any_by_depth = any_by_depth || !by_depth.empty();
    text += fmt::format("<h3>{}</h3>\n<div class=\"plots\">\n{}</div>\n", escaped(draft.name), plots);
  }
  if (text.empty()) return "";
  const char* note =
      "<p class=\"note\">Where the dashed line leaves the bar of a point, draft tokens were accepted more or less "
      "often than their distributions allow. For a right decoder this happens at about one depth in 1\u202F000 or "
      "fewer.</p>\n";
  return section("Acceptance", (any_by_depth ? note : "") + text);
}

std::string wealth(const TokenTest& token_test) {
  const double alarm = -svg::log10_of(token_test.alpha);
  double min = 0;
  double max = alarm;
  double last = 1;
  bool infinite = std::isinf(token_test.e_value);
  std::vector<std::pair<double, double>> line = {{0, 0}};
  for (const auto& [tokens, value] : token_test.curve) {
    last = std::max(last, static_cast<double>(tokens));
    if (std::isinf(value)) {
      infinite = true;
      break;  // proof: the curve ends
    }
    if (!(value > 0)) continue;
    const double exponent = svg::log10_of(value);
    min = std::min(min, exponent);
    max = std::max(max, exponent);
    line.emplace_back(static_cast<double>(tokens), exponent);
  }
  svg::Plot plot("Evidence against the tokens",
                 "The e-value by the number of tokens, and the value at which there is an alarm.",
                 svg::range("tokens", last), svg::powers("e-value", min, max + 0.5));
  plot.level(alarm, "alarm at " + scientific(1 / token_test.alpha));
  if (infinite) {
    line.insert(line.end(), {{last, line.back().second}, {last, std::numeric_limits<double>::infinity()}});
    plot.beyond(last, "infinite: a token with p = 0");
  }
  plot.line("wealth", line);
  return "<figure>\n" + plot.text() + "</figure>\n";
}

std::string token_test_section(const TokenTest& token_test) {
  const bool alarm = token_test.e_value * token_test.alpha >= 1;
  std::string text = fmt::format("<p>{} tested against their distribution. ",
                                 token_test.tokens == 1 ? "1 token was" : grouped(token_test.tokens) + " tokens were");
  if (std::isinf(token_test.e_value)) {
    text += "One of them has probability 0 in its distribution, which is proof.</p>\n";
  } else if (alarm) {
    text += fmt::format(
        "The e-value reached {}. With a right decoder it reaches {} with probability {} at "
        "most.</p>\n",
        scientific(token_test.e_value), scientific(1 / token_test.alpha), scientific(token_test.alpha));
  } else {
    text += fmt::format(
        "The e-value reached {}. The alarm is at {}, which a right decoder reaches with probability {} "
        "at most.</p>\n",
        scientific(token_test.e_value), scientific(1 / token_test.alpha), scientific(token_test.alpha));
  }
  text += token_test.smallest_deviation < 1
              ? fmt::format(
                    "<p>Each known fault with total variation <strong>{:.3g}</strong> or more would have been "
                    "found with probability 0.99; of smaller ones nothing is known.</p>\n",
                    token_test.smallest_deviation)
              : std::string("<p>So few tokens show nothing: no deviation would have been found for certain.</p>\n");
  std::string list = item("tokens", grouped(token_test.tokens)) + item("e-value", scientific(token_test.e_value)) +
                     item("alarm at", scientific(1 / token_test.alpha)) +
                     item("false alarm probability", scientific(token_test.alpha));
  if (token_test.slack > 0) list += item("slack for foreign numerics", scientific(token_test.slack));
  if (!token_test.suspect.empty()) list += item(alarm ? "looks like" : "best bet", escaped(token_test.suspect));
  return section("Sequential test of the tokens",
                 "<div class=\"test\">\n<div>\n" + text + "<dl class=\"where\">\n" + list + "</dl>\n</div>\n" +
                     (token_test.curve.empty() ? "" : wealth(token_test)) + "</div>\n");
}

/// Returns the outcome of a check on a decoder, and whether it is the expected one.
std::string cell_of(const Matrix::Row& row, const std::string& check, Outcome outcome) {
  const bool expected = std::count(row.expected_failures.begin(), row.expected_failures.end(), check) > 0;
  const bool slower = outcome == Outcome::perf_regression;
  const bool flagged = outcome == Outcome::fail || slower;
  const char* meaning = "had nothing to examine";
  std::string shape = "–";
  if (outcome == Outcome::pass) {
    meaning = "found nothing";
    shape = "·";
  }
  if (flagged) {
    meaning = expected ? "flagged it, as expected" : "flagged it";
    shape = expected ? "<i>×</i>" : "<i class=\"also\">×</i>";
  }
  if (slower) {
    meaning = expected ? "found a slower draft, as expected" : "found a slower draft";
    shape = expected ? "<i>p</i>" : "<i class=\"also\">p</i>";
  }
  if (flagged && row.is_control()) {
    meaning = "flagged it, although it is right";
    shape = "<i class=\"ill\">!</i>";
  }
  if (!flagged && expected) {
    meaning = "should have flagged it and did not";
    shape = "<i class=\"ill\">!</i>";
  }
  return fmt::format("<td title=\"{} {}\">{}</td>", escaped(check), meaning, shape);
}

std::string matrix_rows(const Matrix& m) {
  std::string rows;
  for (const Matrix::Row& row : m.rows) {
    rows += fmt::format("<tr{}><th scope=\"row\" title=\"{}\"><b>{}</b> {}{}</th><td class=\"harm\">{}</td>",
                        row.as_expected ? "" : " class=\"wrong\"", escaped(row.cause), escaped(row.id),
                        escaped(row.name), row.as_expected ? "" : " <em>not as expected</em>", escaped(row.harm));
    for (std::size_t i = 0; i < std::min(m.checks.size(), row.outcomes.size()); ++i) {
      rows += cell_of(row, m.checks[i], row.outcomes[i]);
    }
    rows += "</tr>\n";
  }
  return rows;
}

std::string causes_of(const Matrix& m) {
  std::string list;
  for (const Matrix::Row& row : m.rows) {
    std::string where = row.stage.empty() ? "" : "breaks " + escaped(row.stage);
    if (!row.issue.empty()) where += (where.empty() ? "" : ", ") + ("found in " + escaped(row.issue));
    list += fmt::format("<div><dt><b>{}</b> {}</dt><dd>{}: {}{}</dd></div>\n", escaped(row.id), escaped(row.name),
                        escaped(row.harm), escaped(row.cause),
                        where.empty() ? "" : " <span class=\"none\">(" + where + ")</span>");
  }
  return list;
}

std::string matrix(const Matrix& m) {
  if (m.rows.empty()) return "";
  std::string head;
  std::string totals;
  for (std::size_t i = 0; i < m.checks.size(); ++i) {
    head += fmt::format("<th scope=\"col\"><span>{}</span></th>", escaped(m.checks[i]));
    totals += fmt::format("<td>{}</td>", std::count_if(m.rows.begin(), m.rows.end(), [&](const Matrix::Row& row) {
                            return i < row.outcomes.size() &&
                                   (row.outcomes[i] == Outcome::fail || row.outcomes[i] == Outcome::perf_regression);
                          }));
  }
  const auto count = [&](bool control, bool well_only) {
    return std::count_if(m.rows.begin(), m.rows.end(), [&](const Matrix::Row& row) {
      return row.is_control() == control && (row.as_expected || !well_only);
    });
  };
  return section(
      "Decoders and checks",
      fmt::format("<p>{} of {} wrong decoders are caught by all checks that must catch them; {} of {} right ones pass "
                  "every check.</p>\n"
                  "<p class=\"legend\"><span><i>×</i> flagged, as expected</span>\n"
                  "<span><i class=\"also\">×</i> flagged as well</span>\n<span><i>p</i> as slower only</span>\n"
                  "<span>· found nothing</span>\n"
                  "<span>– had nothing to examine</span>\n<span><i class=\"ill\">!</i> not as expected</span></p>\n"
                  "<div class=\"scroll tall\" tabindex=\"0\"><table class=\"matrix\" aria-label=\"Outcome of each "
                  "check on each decoder\">\n"
                  "<thead><tr><th scope=\"col\">decoder</th><th scope=\"col\" class=\"harm\">harm</th>{}</tr></thead>\n"
                  "<tbody>\n{}</tbody>\n"
                  "<tfoot><tr><th scope=\"row\">flagged by</th><td class=\"harm\"></td>{}</tr></tfoot>\n"
                  "</table></div>\n",
                  count(false, true), count(false, false), count(true, true), count(true, false), head, matrix_rows(m),
                  totals) +
          folded("What each decoder does", "<dl class=\"causes\">\n" + causes_of(m) + "</dl>\n"));
}

/// The findings of the zoo are about decoders; the matrix shows them.
std::string checks(const Report& r) {
  if (!r.matrix.rows.empty()) return "";
  std::string rows;
  for (const Finding& finding : r.findings) {
    const Tone tone = tone_of(finding.outcome);
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"outcome {}\">{}{}</td><td class=\"number\">{}</td>"
        "<td class=\"message\">{}</td></tr>\n",
        escaped(finding.check), class_of(tone), sign(tone), name_of(finding.outcome), grouped(finding.examined),
        escaped(finding.message));
  }
  if (rows.empty()) return "";
  return section("Every check",
                 "<table class=\"checks\">\n<thead><tr><th scope=\"col\">check</th>"
                 "<th scope=\"col\">outcome</th><th scope=\"col\" class=\"number\">examined</th>"
                 "<th scope=\"col\">message</th></tr></thead>\n<tbody>\n" +
                     rows + "</tbody>\n</table>\n");
}

std::string drafts(const Report& r) {
  const auto timed = [](const Spread& seconds) { return seconds.median > 0; };
  const bool any_timed = timed(r.plain) || std::any_of(r.drafts.begin(), r.drafts.end(),
                                                       [&](const DraftReport& draft) { return timed(draft.seconds); });
  const auto speed = [&](const Spread& s) {
    if (!any_timed) return std::string();
    if (!timed(s)) return number("") + number("") + number("");
    return number(fmt::format("{:.1f} ({:.1f}–{:.1f})", 1e3 * s.median, 1e3 * s.min, 1e3 * s.max)) +
           number(fmt::format("{:.0f}", static_cast<double>(r.output_tokens) / s.median)) +
           number(timed(r.plain) ? fmt::format("{:.2f}", r.plain.median / s.median) : "");
  };
  std::string rows;
  if (timed(r.plain)) {
    rows += "<tr><th scope=\"row\">plain decoding</th>" + number("") + number("") + number("1.00") + speed(r.plain) +
            "</tr>\n";
  }
  for (const DraftReport& draft : r.drafts) {
    const std::string untested = draft.untested.empty() ? "" : ": VACUOUS: " + draft.untested;
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(draft.name + untested)) +
            number(fmt::format("{:.2f}", draft.statistics.average_accepted())) +
            number(fmt::format("{:.3f}", draft.statistics.acceptance())) +
            number(fmt::format("{:.2f}", draft.tokens_per_round)) + speed(draft.seconds) + "</tr>\n";
  }
  if (rows.empty()) return "";
  std::vector<std::string> names = {"draft", "mean accepted length", "acceptance rate", "tokens per round"};
  if (any_timed) names.insert(names.end(), {"milliseconds", "tokens per second", "speedup"});
  return section(any_timed ? "Drafts and speed" : "Drafts",
                 (any_timed ? fmt::format("<p>{}; milliseconds are the median of repeats, with the least and the most."
                                          "</p>\n",
                                          counted(static_cast<long>(r.output_tokens), "new token", "new tokens"))
                            : "") +
                     table("Results of each draft", names, rows));
}

std::string runs(const Report& r) {
  std::string list;
  for (const std::string& run : r.runs) list += fmt::format("<li>{}</li>\n", escaped(run));
  if (list.empty()) return "";
  return section("Runs", folded(counted(static_cast<long>(r.runs.size()), "run", "runs"),
                                "<ol class=\"runs\">\n" + list + "</ol>\n"));
}

}  // namespace

std::string bets_section(const std::vector<Bets>& all) {
  std::string list;
  for (const Bets& bets : all) {
    list += item(escaped(bets.about),
                 fmt::format("{}e-value {}, alarm at {}; {}", bets.alarm ? "<strong>alarm</strong>, " : "",
                             scientific(bets.e_value), scientific(1 / bets.alpha), escaped(bets.message)));
  }
  return list.empty() ? "" : section("Other sequential tests", "<dl class=\"where\">\n" + list + "</dl>\n");
}

std::string report_html(const Report& r) {
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      // A second safeguard: the browser forbids scripts and requests even if a name were not escaped.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<title>{}: {} (draftproof {})</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
      name_of(r.verdict), escaped(r.subject), escaped(r.command), report_style);
  text += head(r) + about(r) + failures(r) + unproved(r);
  for (const Divergence& d : r.divergences) text += divergence(d);
  text += differences(r.differences);
  text += plots_of_drafts(r);
  for (const TokenTest& token_test : r.token_tests) text += token_test_section(token_test);
  text += bets_section(r.bets);
  text += matrix(r.matrix) + checks(r) + examined(r) + drafts(r) + runs(r);
  return text + fmt::format("<footer>draftproof {}</footer>\n</main>\n</body>\n</html>\n", escaped(r.version));
}

}  // namespace draftproof
