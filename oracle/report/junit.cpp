// SPDX-License-Identifier: MIT
// For a CI server: a test case for each check. What is not proved is skipped, never a pass; a file that is not a trace
// is an error.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "oracle/report/markup.h"
#include "oracle/report/report.h"

namespace draftproof {
namespace {

/// Returns the message and the parts of the failure, a line each.
std::string text_of(const Finding& finding) {
  std::string text = finding.message;
  if (!finding.failure) return text;
  const Failure& failure = *finding.failure;
  for (const std::string& fact : failure.facts) text += "\n- " + fact;
  if (!failure.blames.empty()) text += "\ncan be at fault: " + failure.blames;
  if (!failure.clears.empty()) text += "\ncannot be at fault: " + failure.clears;
  if (!failure.reproduce.empty()) text += "\nreproduce: " + failure.reproduce;
  return text;
}

class Suite {
 public:
  explicit Suite(const Report& report) : report_(report) {
    // One check can find many failures in a trace: one test case has all of them.
    std::vector<std::string> order;
    std::map<std::string, std::vector<const Finding*>> by_check;
    for (const Finding& finding : report.findings) {
      auto& findings = by_check[finding.check];
      if (findings.empty()) order.push_back(finding.check);
      findings.push_back(&finding);
    }
    for (const std::string& check : order) add(check, by_check[check]);
    add_verdict();
  }

  std::string xml() const {
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuite name=\"draftproof {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n"
        "{}</testsuite>\n",
        escaped(report_.command), tests_, failures_, errors_, skipped_, cases_);
  }

 private:
  void add(const std::string& check, const std::vector<const Finding*>& findings) {
    std::string failed;
    bool vacuous = false;
    bool only_slower = true;
    for (const Finding* const finding : findings) {
      if (finding->failure) failed += (failed.empty() ? "" : "\n") + text_of(*finding);
      only_slower = only_slower && finding->outcome != Outcome::fail;
      vacuous = vacuous || finding->outcome == Outcome::vacuous;
    }
    if (!failed.empty()) {
      ++failures_;
      add_case(check,
               fmt::format("<failure message=\"{}\">{}</failure>",
                           name_of(only_slower ? ReportVerdict::perf_regression : report_.verdict), escaped(failed)));
    } else if (vacuous) {
      skip(check, findings.front()->message);
    } else {
      add_case(check, "");
    }
  }

  /// Adds the verdict, so that what no single check reports does not look like a pass.
  void add_verdict() {
    const std::string& reason = report_.reason;
    switch (report_.verdict) {
      case ReportVerdict::invalid_trace:
        ++errors_;
        add_case("verdict", fmt::format("<error message=\"INVALID_TRACE\">{}</error>", escaped(reason)));
        break;
      case ReportVerdict::bug_stat:
        ++failures_;
        add_case("verdict", fmt::format("<failure message=\"BUG_STAT\">{}</failure>", escaped(reason)));
        break;
      case ReportVerdict::bug_proven:
      case ReportVerdict::perf_regression:
        if (failures_ == 0) {
          ++failures_;
          add_case("verdict",
                   fmt::format("<failure message=\"{}\">{}</failure>", name_of(report_.verdict), escaped(reason)));
        }
        break;
      case ReportVerdict::undecided:
      case ReportVerdict::vacuous: {
        std::string why = reason;
        if (const std::string what = unproved(); !what.empty()) why += (why.empty() ? "" : "; ") + what;
        skip("verdict", std::string(name_of(report_.verdict)) + (why.empty() ? "" : ": " + why));
        break;
      }
      case ReportVerdict::pass_exact:
      case ReportVerdict::pass_stat: {
        const std::string what = unproved();
        add_case("verdict", what.empty() ? "" : "<system-out>not proved: " + escaped(what) + "</system-out>");
        break;
      }
    }
  }

  std::string unproved() const {
    std::string list;
    for (const std::string& what : report_.unproved) list += (list.empty() ? "" : "; ") + what;
    return list;
  }

  void skip(const std::string& check, const std::string& why) {
    ++skipped_;
    add_case(check, fmt::format("<skipped message=\"{}\"/>", escaped(why)));
  }

  void add_case(const std::string& name, const std::string& inside) {
    ++tests_;
    cases_ += fmt::format("  <testcase classname=\"{}\" name=\"{}\">{}</testcase>\n", escaped(report_.subject),
                          escaped(name), inside);
  }

  const Report& report_;
  std::string cases_;
  int tests_ = 0;
  int failures_ = 0;
  int errors_ = 0;
  int skipped_ = 0;
};

}  // namespace

std::string report_junit(const Report& report) { return Suite(report).xml(); }

}  // namespace draftproof
