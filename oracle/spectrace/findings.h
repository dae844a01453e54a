// SPDX-License-Identifier: MIT
// The checks at one place of a trace: each is counted in the report, and one that fails becomes a finding.
//
//     const Findings findings(report, {line, sequence, round, position});
//     findings.expect_equal("count", "tokens emitted are", emitted, stated);
#pragma once

#include <cstdint>
#include <string>

#include "oracle/spectrace/trace_report.h"
#include "ref/base/token.h"

namespace draftproof::spectrace {

inline std::string number(std::uint64_t value) { return std::to_string(value); }
inline std::string number(std::int64_t value) { return std::to_string(value); }
inline std::string number(Token value) { return std::to_string(value); }

/// Ends a replay: the report has as many findings as it holds.
struct TooManyFindings {};

class Findings {
 public:
  /// `report` outlives it.
  Findings(TraceReport& report, const TracePlace& place)
      : report_(report), place_(place), before_(report.findings.size()) {}

  const TracePlace& place() const noexcept { return place_; }

  /// Counts one check; adds a finding, with `expected()` and `observed()`, unless `right`. Returns `right`. Throws
  /// TooManyFindings.
  bool expect(bool right, const char* check, const auto& expected, const auto& observed) const {
    ++report_.looked[check];
    if (right) return true;
    add({check, place_, expected(), observed()});
    return false;
  }
  template <class Value>
  bool expect_equal(const char* check, const std::string& what, Value expected, Value observed) const {
    return expect(
        expected == observed, check, [&] { return what + " " + number(expected); }, [&] { return number(observed); });
  }
  /// The same of what costs speed only, where all later rounds may be wrong for one reason: `found` says whether there
  /// is a finding of this sequence already. It never ends the replay.
  void expect_of_draft(bool right, const char* check, bool& found, const auto& expected, const auto& observed) const {
    ++report_.looked[check];
    if (right || found) return;
    found = true;
    if (report_.slower.size() < TraceReport::slower_max) {
      report_.slower.push_back({check, place_, expected(), observed()});
    }
  }

  /// Adds a finding that was made at another place. Throws TooManyFindings.
  void add(const TraceFinding& finding) const {
    report_.findings.push_back(finding);
    if (report_.findings.size() == TraceReport::findings_max) throw TooManyFindings();
  }
  /// Returns whether nothing was found since begin(), or since this was made.
  bool none() const noexcept { return report_.findings.size() == before_; }
  void begin() noexcept { before_ = report_.findings.size(); }

  /// Names a field that is present and that could not be checked.
  void unread(const char* field, const std::string& why) const {
    report_.unread.insert("field " + std::string(field) + " is not checked: " + why);
  }

 private:
  TraceReport& report_;
  TracePlace place_;
  std::size_t before_;  // findings
};

}  // namespace draftproof::spectrace
