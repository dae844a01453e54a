// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "tests/report/page.h"
#include "tests/report/realistic.h"
#include "tests/report/samples.h"

namespace draftproof::test::html_test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string snapshot = std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/snapshots/mutants.txt";

std::vector<Report> reports() {
  return {Report{}, verified(), failed(), checked_trace(), examined_zoo(snapshot), full_report()};
}

TEST(PageReader, RejectsEveryMalformedPage) {
  const auto fault_of = [](const std::string& body) { return Page("<!DOCTYPE html>\n" + body).fault; };
  EXPECT_EQ(fault_of("<p class=\"a b\" title=\"&lt;&#39;\">1 &amp; 2<b>3</b></p>\n<meta charset=\"utf-8\">"), "");
  EXPECT_THAT(fault_of("<p>"), HasSubstr("p is not closed"));
  EXPECT_THAT(fault_of("<p><b></p></b>"), HasSubstr("</p> closes nothing"));
  EXPECT_THAT(fault_of("<p></p></p>"), HasSubstr("closes nothing"));
  EXPECT_THAT(fault_of("<p class=a></p>"), HasSubstr("without quotes"));
  EXPECT_THAT(fault_of("<p class=\"a></p>"), HasSubstr("bare >"));
  EXPECT_THAT(fault_of("<p class=\"a\"title=\"b\"></p>"), HasSubstr("does not end"));
  EXPECT_THAT(fault_of("<p class=\"a\" class=\"b\"></p>"), HasSubstr("twice"));
  EXPECT_THAT(fault_of("<p onload=\"a\"></p>"), HasSubstr("an unknown attribute onload"));
  EXPECT_THAT(fault_of("<p style=\"a\"></p>"), HasSubstr("an unknown attribute style"));
  EXPECT_THAT(fault_of("<script></script>"), HasSubstr("an unknown element script"));
  EXPECT_THAT(fault_of("<img>"), HasSubstr("an unknown element img"));
  EXPECT_THAT(fault_of("<!-- -->"), HasSubstr("an unknown element"));
  EXPECT_THAT(fault_of("a & b"), HasSubstr("a bare &"));
  EXPECT_THAT(fault_of("a > b"), HasSubstr("a bare >"));
  EXPECT_THAT(fault_of("&nbsp;"), HasSubstr("a bare &"));
  EXPECT_THAT(fault_of("\x01"), HasSubstr("control"));
  EXPECT_THAT(fault_of("\xff"), HasSubstr("UTF-8"));
  EXPECT_THAT(Page("<p></p>").fault, HasSubstr("document type"));
  EXPECT_EQ(Page("<!DOCTYPE html>\n<p>1 &lt; 2</p>").text, "1 < 2");
}

TEST(ReportHtml, IsWellFormedAndTheSameEachTime) {
  for (const Report& report : reports()) {
    const std::string html = report_html(report);
    EXPECT_EQ(Page(html).fault, "") << report.command;
    EXPECT_EQ(html, report_html(report)) << report.command;
  }
}

TEST(ReportHtml, IsSelfContained) {
  for (const Report& report : reports()) {
    const std::string html = report_html(report);
    const std::string style = Page(html).style;
    EXPECT_GT(style.size(), 1000U);
    for (const char* what : {"url(", "@import", "@font-face", "src", "http:", "https:", "//", "expression"}) {
      EXPECT_THAT(style, Not(HasSubstr(what)));
    }
    // Elements and attributes that can ask for anything are none that Page knows. A name may speak of them.
    EXPECT_THAT(html, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    for (const char* what : {"<script", "<link", "<img", "<iframe", " src=", " href=", "@import", "url("}) {
      EXPECT_THAT(html, Not(HasSubstr(what)));
    }
  }
}

/// Every text of a report.
void put_everywhere(Report& r, const std::string& text) {
  r.command = r.version = r.subject = r.reason = text;
  for (auto& [name, value] : r.about) name = value = text;
  for (auto& [name, value] : r.examined) name = text;
  for (std::string& what : r.unproved) what = text;
  for (std::string& run : r.runs) run = text;
  for (Finding& finding : r.findings) {
    finding.check = finding.message = text;
    if (!finding.failure) continue;
    Failure& f = *finding.failure;
    f.run = f.expected = f.observed = f.blames = f.clears = f.reproduce = text;
    for (std::string& fact : f.facts) fact = text;
  }
  for (DraftReport& draft : r.drafts) draft.name = text;
  for (TokenTest& token_test : r.token_tests) token_test.suspect = text;
  for (Divergence& d : r.divergences) d.run = d.before = d.plain = d.observed = d.draft_tokens = text;
  for (TextDifference& d : r.differences) d.run = d.plain = d.observed = d.explanation = d.gap_from = text;
  for (std::string& check : r.matrix.checks) check = text;
  for (Matrix::Row& row : r.matrix.rows) {
    row.id = row.name = row.cause = row.stage = row.issue = text;
    for (std::string& check : row.expected_failures) check = text;
    for (std::string& message : row.messages) message = text;
  }
}

/// Names of elements and attributes in order, but for marks, of which a text has as many as it has.
std::string shape_of(const Page& page) {
  std::string shape;
  for (const Element& element : page.elements) {
    if (element.attribute("class") == "mark") continue;
    shape += "<" + element.name;
    for (const auto& [name, value] : element.attributes) shape += " " + name;
  }
  return shape;
}

std::vector<std::string> hostile_texts() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return {"</svg><script>alert(1)</script>",
          "\" onload=\"alert(1)",
          "' onload='alert(1)",
          "</style><style>*{}",
          "</title></head><body onload=alert(1)>",
          "<!--",
          "-->",
          "]]>",
          "<![CDATA[",
          "&",
          "&lt;",
          "&#x3c;script>",
          "<",
          "\"",
          "'",
          "`",
          "{}{0}{:d}",
          "%s%n",
          "\xff\xfe",
          "\xc3",
          "\xe2\x82",
          "\xed\xa0\x80",
          "\xf4\x90\x80\x80",
          "\u202Egnp.exe",
          "\u2028",
          "\uFEFF",
          "\u200B",
          std::string(1, '\0') + "<b>",
          bytes,
          "  a \t\n b  ",
          std::string(20000, 'W'),
          std::string(20000, ' '),
          hostile_name};
}

TEST(ReportHtml, EscapesEveryText) {
  Report plain = full_report();
  put_everywhere(plain, "word");
  const std::string shape = shape_of(Page(report_html(plain)));
  EXPECT_GT(shape.size(), 1000U);
  for (const std::string& text : hostile_texts()) {
    Report hostile = full_report();
    put_everywhere(hostile, text);
    const Page page(report_html(hostile));
    EXPECT_EQ(page.fault, "") << text.substr(0, 100);
    EXPECT_EQ(shape_of(page), shape) << text.substr(0, 100);
  }
}

TEST(ReportHtml, ShowsEveryText) {
  const std::string text = "<b>\"&'\x01\xff\u202E é</b>";
  const std::string shown = "<b>\"&'\\x01\\xff\\u{202e} é</b>";
  Report report = full_report();
  int places = 0;
  const auto expect_shown = [&](std::string& place) {
    const std::string before = std::exchange(place, text);
    const Page page(report_html(report));
    std::string all = page.text;
    for (const Element& element : page.elements) all += element.attribute("title");
    EXPECT_THAT(all, HasSubstr(shown)) << "in place of " << before;
    place = before;
    ++places;
  };
  Failure& f = *report.findings[1].failure;
  Divergence& d = report.divergences[0];
  TextDifference& parted = report.differences[0];
  put_everywhere(report, "word");
  for (std::string* place : {&report.command,
                             &report.version,
                             &report.subject,
                             &report.reason,
                             &report.about[0].first,
                             &report.about[0].second,
                             &report.examined[0].first,
                             &report.unproved[0],
                             &report.runs[0],
                             &report.findings[1].check,
                             &report.findings[1].message,
                             &f.run,
                             &f.expected,
                             &f.observed,
                             &f.facts[0],
                             &f.blames,
                             &f.clears,
                             &f.reproduce,
                             &report.drafts[0].name,
                             &report.token_tests[0].suspect,
                             &d.run,
                             &d.before,
                             &d.plain,
                             &d.observed,
                             &d.draft_tokens,
                             &parted.run,
                             &parted.plain,
                             &parted.observed,
                             &parted.explanation,
                             &parted.gap_from,
                             &report.matrix.checks[0],
                             &report.matrix.rows[0].id,
                             &report.matrix.rows[0].name,
                             &report.matrix.rows[0].harm,
                             &report.matrix.rows[0].cause,
                             &report.matrix.rows[0].stage,
                             &report.matrix.rows[0].issue}) {
    expect_shown(*place);
  }
  EXPECT_EQ(places, 37);
}

TEST(ReportHtml, BeginsWithTheVerdictAndExplainsEach) {
  std::set<std::string> messages;
  for (const ReportVerdict verdict : {ReportVerdict::pass_exact, ReportVerdict::pass_stat, ReportVerdict::bug_proven,
                                      ReportVerdict::bug_stat, ReportVerdict::undecided, ReportVerdict::vacuous,
                                      ReportVerdict::invalid_trace, ReportVerdict::perf_regression}) {
    Report report;
    report.verdict = verdict;
    const std::string html = report_html(report);
    const std::string heading = std::string("<h1>") + name_of(verdict) + "</h1>\n<p>";
    const std::size_t at = html.find(heading);
    ASSERT_NE(at, std::string::npos) << name_of(verdict);
    messages.insert(html.substr(at + heading.size(), html.find("</p>", at) - at - heading.size()));
  }
  EXPECT_EQ(messages.size(), 8U);
}

TEST(ReportHtml, ShowsFailuresFirst) {
  const std::string html = report_html(failed());
  std::size_t last = 0;
  for (const char* heading : {"How it was run", "Failures", "What was not examined", "Where the texts first differ",
                              "Acceptance", "Every check", "Drafts and speed", "Runs"}) {
    const std::size_t at = html.find(std::string("<h2>") + heading + "</h2>");
    ASSERT_NE(at, std::string::npos) << heading;
    EXPECT_GT(at, last) << heading;
    last = at;
  }
}

TEST(ReportHtml, HasNoEmptySections) {
  const std::string html = report_html(Report{});
  EXPECT_THAT(html, Not(HasSubstr("<section")));
  EXPECT_THAT(html, Not(HasSubstr("class=\"plot\"")));
  EXPECT_THAT(report_html(verified()), Not(HasSubstr("<h2>Failures</h2>")));
}

/// Coordinates are finite numbers.
void expect_places(const Page& page) {
  for (const Element& element : page.elements) {
    for (const char* name : {"d", "x", "y", "cx", "cy", "r", "width", "height"}) {
      const std::string value = element.attribute(name);
      EXPECT_EQ(value.find_first_not_of("0123456789.- MLHVZhlv"), std::string::npos) << value;
    }
  }
}

TEST(ReportHtml, StatesProofWhereATokenWasImpossible) {
  Report report = checked_trace();
  report.token_tests[0].e_value = std::numeric_limits<double>::infinity();
  report.token_tests[0].curve.emplace_back(report.token_tests[0].tokens, report.token_tests[0].e_value);
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("<dd>∞</dd>"));
  EXPECT_THAT(html, HasSubstr("class=\"beyond\""));
  EXPECT_THAT(html, HasSubstr("probability 0"));
  expect_places(Page(html));
}

TEST(ReportHtml, IsValidWithNonFiniteNumbers) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double odd : {std::nan(""), infinite, -infinite, 0.0, -1.0, 1e300, 5e-324}) {
    Report report = checked_trace();
    report.plain = {odd, odd, odd};
    report.drafts[0].seconds = report.plain;
    report.drafts[0].tokens_per_round = odd;
    report.drafts[0].depths[0].expected = odd;
    report.drafts[0].depths[1].judged = -5;
    report.drafts[0].accepted[1] = -5;
    report.examined = {{"odd", odd}};
    TokenTest& token_test = report.token_tests[0];
    token_test.alpha = token_test.slack = token_test.e_value = token_test.smallest_deviation = odd;
    token_test.curve[10].second = odd;
    expect_places(Page(report_html(report)));
    token_test.curve = {{0, odd}};
    token_test.tokens = 0;
    const Page page(report_html(report));
    EXPECT_EQ(page.fault, "") << odd;
    expect_places(page);
  }
}

TEST(ReportHtml, MarksUnexpectedOutcomes) {
  Report report = examined_zoo(snapshot);
  const auto mutants = std::ranges::count_if(report.matrix.rows, [](const auto& row) { return !row.is_control(); });
  EXPECT_THAT(report_html(report), Not(HasSubstr("should have flagged it and did not")));
  EXPECT_THAT(report_html(report), HasSubstr(fmt::format("{0} of {0} wrong decoders", mutants)));
  Matrix::Row& row = report.matrix.rows[3];
  const auto caught = std::find(row.outcomes.begin(), row.outcomes.end(), Outcome::fail);
  ASSERT_NE(caught, row.outcomes.end());
  *caught = Outcome::pass;
  row.as_expected = false;
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("should have flagged it and did not\"><i class=\"ill\">!</i>"));
  EXPECT_THAT(html, HasSubstr("<tr class=\"wrong\">"));
  EXPECT_THAT(html, HasSubstr(fmt::format("{} of {} wrong decoders", mutants - 1, mutants)));
  Matrix::Row& control = report.matrix.rows.back();
  ASSERT_TRUE(control.is_control());
  control.outcomes[0] = Outcome::fail;
  EXPECT_THAT(report_html(report), HasSubstr("flagged it, although it is right\"><i class=\"ill\">!</i>"));
}

TEST(ReportHtml, HasEveryCellOfTheMatrix) {
  const Report report = examined_zoo(snapshot);
  const Page page(report_html(report));
  const auto cells = std::count_if(page.elements.begin(), page.elements.end(), [](const Element& element) {
    return element.name == "td" && !element.attribute("title").empty();
  });
  std::ifstream file(snapshot);
  std::set<std::string> decoders;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() >= 'A' && line.front() <= 'Z') decoders.insert(line.substr(0, line.find(' ')));
  }
  EXPECT_EQ(report.matrix.rows.size(), decoders.size());
  EXPECT_GT(decoders.size(), 131U) << "decoders are only added";
  EXPECT_EQ(static_cast<std::size_t>(cells), report.matrix.rows.size() * report.matrix.checks.size());
}

/// Contrast of two colors written as #rrggbb (WCAG 2.1).
double contrast(const std::string& a, const std::string& b) {
  const auto luminance = [](const std::string& color) {
    constexpr std::array<double, 3> weights = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double c = std::stoi(color.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
      sum += weights[i] * (c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return sum + 0.05;
  };
  return std::max(luminance(a), luminance(b)) / std::min(luminance(a), luminance(b));
}

TEST(ReportHtml, IsReadableInLightAndDark) {
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-9);
  EXPECT_NEAR(contrast("#777777", "#ffffff"), 4.48, 0.01);
  const std::string style = Page(report_html(Report{})).style;
  const std::size_t dark = style.find("prefers-color-scheme: dark");
  ASSERT_NE(dark, std::string::npos);
  for (const std::size_t from : {std::size_t{0}, dark}) {
    const auto color = [&](const std::string& name) {
      const std::size_t at = style.find("--" + name + ": #", from);
      EXPECT_NE(at, std::string::npos) << name;
      return style.substr(at + name.size() + 4, 7);
    };
    for (const char* ink : {"ink", "soft", "strong", "good", "bad", "open"}) {
      for (const char* paper : {"page", "panel"}) {
        EXPECT_GE(contrast(color(ink), color(paper)), 4.5) << ink << " on " << paper;
      }
    }
    for (const char* tone : {"good", "bad", "open"}) {
      for (const std::string& ink : {std::string(tone), std::string("ink"), std::string("soft")}) {
        EXPECT_GE(contrast(color(ink), color(std::string(tone) + "-panel")), 4.5) << ink << " on " << tone;
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::test::html_test
