// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replay.h"

#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/replayer.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {

TraceReport replay(const std::string& file, const TraceTarget& target) {
  TraceReport report;
  report.file = file;
  report.target_given = target.vocabulary > 0;
  report.slack = target.slack;
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
      while (const auto event = reader.next()) replayer.take(*event);
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

}  // namespace draftproof::spectrace
