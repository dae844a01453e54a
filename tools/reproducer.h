// SPDX-License-Identifier: MIT
// A folder with the smallest case found of a failure, and the command that runs it again (docs/report.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oracle/shrink/shrink.h"
#include "ref/models/hash.h"
#include "tools/options.h"

namespace draftproof {

/// What case.json says.
struct Reproducer {
  std::string command;    // "verify", "build", "trace check", "zoo"
  std::string check;
  Failure failure;        // as it was: where, expected, observed, facts
  std::string target;     // verify; trace check, where p was held to a model
  LayoutOptions load_options;   // the same; kernels only of trace check
  double slack = 0;       // trace check, of p that is of other numerics
  double tie = 0;         // the same, of greedy tokens
  std::string rule;       // build: the one that was enumerated
  std::string mutant;     // zoo: its id
  HashShape model;        // zoo
  std::optional<Case> trial;  // verify; zoo, unless the check needs none
  std::string trace;      // trace check: the text of trace.jsonl, to be written; read by its reader alone
  std::string rows;       // trace check: the file of its rows, which is copied beside it; empty when there is none
};

/// The folder --reproducer names. Made when there is something to put in it; never one that holds anything.
class ReproducerFolder {
 public:
  /// Error when it is there and not empty, or cannot be.
  explicit ReproducerFolder(std::string path);

  /// Again writes over what it wrote.
  void write(const Reproducer& reproducer);
  /// Removes what it wrote: there is nothing to put in it after all.
  void take_back();
  std::string trace_file() const { return trace_in(path_); }
  std::string case_file() const { return case_in(path_); }
  static std::string trace_in(const std::string& folder);  // of a reproducer of `trace check`
  static constexpr const char* rows_name = "trace.rows.h5";
  static std::string case_in(const std::string& folder);
  std::string command_line() const;  // draftproof reproduce PATH

 private:
  std::string path_;
};

void add_reproducer_option(Command& command, std::string& folder);

/// case.json of a folder, and its trace. Error names file and field.
Reproducer read_reproducer(const std::string& folder);

/// The sequence of a failure in a trace, as traces of their own: cut after the line of the failure; and that round
/// alone, what was said before it being part of the prompt (empty when the line is no round). A file of rows is named
/// as a reproducer's.
struct CutTrace {
  std::string sequence;
  std::string round;
};
CutTrace cut_trace(const std::string& file, std::int64_t sequence, std::int64_t line);

}  // namespace draftproof
