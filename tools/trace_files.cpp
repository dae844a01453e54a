// SPDX-License-Identifier: MIT
#include "tools/trace_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/formats/printable.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

bool is_a_file(const std::string& trace) {
  std::error_code failure;
  const auto status = std::filesystem::status(trace, failure);
  return !is_standard_output(trace) &&
         (status.type() == std::filesystem::file_type::not_found || std::filesystem::is_regular_file(status));
}

/// With links resolved.
std::filesystem::path place_of(const std::string& file) {
  std::error_code failure;
  std::filesystem::path place = std::filesystem::weakly_canonical(file, failure);
  if (failure) throw Error(file + ": " + failure.message());
  return place;
}

std::filesystem::path rows_of(const std::string& trace) {
  const std::filesystem::path place = place_of(trace);
  return spectrace::rows_beside(place, place.filename().string() + ".rows.h5");
}

}  // namespace

void add_trace_options(Command& command, TraceFileNames& names, const std::string& what) {
  command.group("Output");
  Option& trace =
      command.option("--trace FILE", names.trace, "write every decision" + what + " to this file (spectrace/2)");
  command
      .flag("--trace-rows", names.rows,
            "write every row of p and q, too, to FILE.rows.h5 beside the trace: evidence without the model (under "
            "rejection and block, long rows are always written)")
      .needs(trace);
}

TraceFiles::TraceFiles(const TraceFileNames& names, const CommonOptions& common,
                       const std::vector<std::string>& sources)
    : names_(names) {
  if (names_.trace.empty()) return;
  trace_ = std::make_unique<OutputFile>(names_.trace, sources);
  const bool residuals = rule_by_name(common.rule).judge != matching.judge && !common.sampling.greedy();
  if (!names_.rows && !residuals) return;
  if (!is_a_file(names_.trace)) {
    if (!names_.rows) return;
    throw Error("--trace-rows puts a file beside the trace, so --trace has to name a file");
  }
  const std::filesystem::path rows = rows_of(names_.trace);
  const bool taken = std::ranges::any_of(
      sources, [&](const std::string& source) { return !source.empty() && place_of(source) == rows; });
  if (taken) {
    throw Error("the rows of --trace would overwrite " + in_quotes(rows.string()) + ", which this command uses");
  }
  require_replaceable(rows, {});
  rows_file_ = rows;
}

spectrace::Writer& TraceFiles::begin(const Checkpoint& target, int vocabulary, const Rule& rule, std::uint64_t seed) {
  if (!rows_file_.empty() && (names_.rows || vocabulary > static_cast<int>(spectrace::Writer::row_tokens_max))) {
    rows_.emplace(rows_file_);
  }
  const auto take = [this](std::string_view line) { trace_->append(line); };
  return writer_.emplace(take, "draftproof " DRAFTPROOF_VERSION, weights_digest(target), vocabulary, rule, seed,
                         rows_ ? &*rows_ : nullptr);
}

void TraceFiles::finish() {
  if (!trace_) return;
  trace_->flush();  // complete before its rows replace the old ones
  if (rows_) rows_->finish();
  trace_->finish();
}

}  // namespace draftproof
