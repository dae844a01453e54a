// SPDX-License-Identifier: MIT
// A folder with the smallest failing case found, and the command that runs it again (docs/report.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oracle/shrink/shrink.h"
#include "ref/models/hash.h"
#include "tools/options.h"

namespace draftproof {

/// The content of case.json.
struct Reproducer {
  std::string command;  // "verify", "build", "trace check" or "zoo"
  std::string check;
  Failure failure;                // as it was found: where, expected, observed, facts
  std::string target;             // of verify; of trace check when p was compared with a model
  LayoutOptions load_options;     // of the target; kernels for trace check only
  std::string reference = "f32";  // trace check: what other numerics are compared with, as ReplayJob has it
  double slack = 0;               // trace check: allowed distance of p when numerics differ
  double tie = 0;                 // trace check: allowed distance of greedy tokens when numerics differ
  std::string rule;               // build: the rule that was enumerated
  std::string mutant;             // zoo: its id
  HashShape model;                // zoo
  std::optional<Case> trial;      // verify; zoo, unless the check needs none
  std::string grammar;            // of the trial's constraint: verify: in GBNF; zoo: not empty
  std::string trace;              // trace check: the text to write to trace.jsonl; read_reproducer leaves it empty
  std::string rows;               // trace check: the rows file, which is copied beside the trace; empty without one
};

/// The folder of --reproducer. It is created by the first write, and must not exist with anything in it.
class ReproducerFolder {
 public:
  /// Throws Error when the folder exists and is not empty, or cannot be created.
  explicit ReproducerFolder(std::string path);

  /// Writes the case; a later call replaces it.
  void write(const Reproducer& reproducer);
  /// Removes everything that was written.
  void remove();
  std::string trace_file() const { return trace_in(path_); }
  std::string case_file() const { return case_in(path_); }
  static std::string trace_in(const std::string& folder);  // for `trace check` only
  static constexpr const char* rows_name = "trace.rows.h5";
  static std::string case_in(const std::string& folder);
  std::string command_line() const;  // draftproof reproduce PATH

 private:
  std::string path_;
};

void add_reproducer_option(Command& command, std::string& folder);

/// Reads case.json of a folder; the trace must be beside it when it needs one. Throws Error naming file and field.
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
