// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replay.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "oracle/spectrace/nearby_distribution.h"
#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/replayer.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {

namespace {

TraceReport replayed_once(const std::string& file, const TraceTarget& target) {
  TraceReport report;
  report.file = file;
  report.target_given = target.vocabulary > 0;
  report.slack = target.slack;
  report.tie = target.tie;
  report.slack_basis = target.slack_basis;
  report.tie_basis = target.tie_basis;
  try {
    Reader reader(file);
    report.engine = reader.header().engine;
    report.rule = reader.header().rule ? reader.header().rule->name() : "by sequence";
    report.rows = reader.header().rows_file;
    if (report.target_given && target.vocabulary != reader.header().vocabulary) {
      reader.fail("vocabulary", "is " + number(reader.header().vocabulary) + ", but the target's vocabulary has " +
                                    number(target.vocabulary) + " tokens");
    }
    const Header header = reader.header();
    if (header.weights.starts_with("sha256:") && target.weights && target.slack == 0 && target.tie == 0) {
      if (const std::string own = target.weights(); own != header.weights) {
        reader.fail("weights", "is " + in_quotes(header.weights) + ", but the target here is '" + own +
                                   "': the trace was made with other weights; give the target it was made with");
      }
    }
    Replayer replayer(header, target, report);
    try {
      while (const auto event = reader.next()) {
        if (target.progress) target.progress(event->line);
        replayer.take(*event);
      }
      replayer.finish();
    } catch (const TooManyFindings&) {
      // The report has those that there is room for.
    }
    replayer.report_evidence();
  } catch (const InvalidTrace& wrong) {
    report.invalid = wrong.what();
  }
  return report;
}

bool is_accusation(const TraceReport& report) {
  const ReportVerdict verdict = report.verdict();
  return verdict == ReportVerdict::bug_proven || verdict == ReportVerdict::bug_stat;
}

/// Returns whether another order of samplers than the assumed one may be all that is wrong: rows of the target and what
/// they allow depend on it, and nothing else does.
bool may_be_of_order(const TraceReport& report) {
  const auto of_rows = [](const TraceFinding& finding) {
    const std::string_view check = finding.check;
    return check == "p_row" || check == "distribution";
  };
  return is_accusation(report) && !report.assumed.empty() && std::ranges::all_of(report.findings, of_rows);
}

}  // namespace

TraceReport replay(const std::string& file, const TraceTarget& target) {
  TraceReport ours = replayed_once(file, target);
  std::error_code none;
  if (!may_be_of_order(ours) || !std::filesystem::is_regular_file(file, none)) return ours;
  for (const KnownOrder& order : std::span(known_orders()).subspan(1)) {
    TraceTarget assuming = target;
    assuming.assumed = &order;
    TraceReport found = replayed_once(file, assuming);
    if (is_accusation(found)) continue;
    found.assumed.insert(std::string("this order is the engine's: it is that of ") + order.engine +
                         "; with ours the tokens would not be the target's");
    return found;
  }
  ours.assumed.insert("the order is one of the known ones, none of which fits");
  return ours;
}

}  // namespace draftproof::spectrace
