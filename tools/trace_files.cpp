// SPDX-License-Identifier: MIT
#include "tools/trace_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "ref/base/error.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

std::filesystem::path rows_of(const std::string& trace) {
  std::error_code failure;
  const std::filesystem::path place = std::filesystem::weakly_canonical(trace, failure);
  const auto status = std::filesystem::status(place, failure);
  if (trace == "-" || (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))) {
    throw Error("--trace-rows puts a file beside the trace, so --trace has to name a file");
  }
  return spectrace::rows_beside(place, place.filename().string() + ".rows.h5");
}

}  // namespace

void add_trace_options(CLI::App& command, TraceFileNames& names, const std::string& what) {
  CLI::Option* const trace =
      command.add_option("--trace", names.trace, "write every decision" + what + " to this file (spectrace/1)");
  command
      .add_flag("--trace-rows", names.rows,
                "write every row of p and q, too, to FILE.rows.h5 beside the trace: evidence without the model")
      ->needs(trace);
}

TraceFiles::TraceFiles(const TraceFileNames& names, const std::vector<std::string>& sources) : names_(names) {
  if (names_.trace.empty()) return;
  trace_ = std::make_unique<OutputFile>(names_.trace, sources);
  if (!names_.rows) return;
  const std::filesystem::path rows = rows_of(names_.trace);
  std::error_code failure;
  const bool taken = std::any_of(sources.begin(), sources.end(), [&](const std::string& source) {
    return !source.empty() && std::filesystem::weakly_canonical(source, failure) == rows;
  });
  if (taken) throw Error("--trace-rows would overwrite '" + rows.string() + "', which this command uses");
  if (std::filesystem::is_directory(rows, failure)) throw Error("cannot write '" + rows.string() + "'; it is a folder");
  rows_.emplace(rows);
}

spectrace::Writer& TraceFiles::begin(const std::string& target, int vocabulary, const Rule& rule, std::uint64_t seed) {
  const auto take = [this](std::string_view line) { trace_->append(line); };
  return writer_.emplace(take, "draftproof " DRAFTPROOF_VERSION, weights_digest(target), vocabulary, rule, seed,
                         rows_ ? &*rows_ : nullptr);
}

void TraceFiles::finish() {
  if (rows_) rows_->finish();
  if (trace_) trace_->finish();
}

}  // namespace draftproof
