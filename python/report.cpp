// SPDX-License-Identifier: MIT
// draftproof.check_trace and what it returns.
#include "oracle/report/report.h"

#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <optional>
#include <variant>

#include "python/bindings.h"
#include "ref/base/error.h"
#include "tools/replay_job.h"

namespace draftproof {
namespace {

namespace py = pybind11;

/// Lets others compute, among them a function of Python that is called meanwhile.
class ComputingPaused {
 public:
  ComputingPaused() { computing().unlock(); }
  ~ComputingPaused() { computing().lock(); }
  ComputingPaused(const ComputingPaused&) = delete;
  ComputingPaused& operator=(const ComputingPaused&) = delete;
};

using RealOrWord = std::variant<double, std::string>;

/// Returns the number, or nothing for the word auto. Throws Error for anything else.
std::optional<double> number_unless_auto(const char* name, const RealOrWord& value, double max) {
  if (const auto* const word = std::get_if<std::string>(&value)) {
    if (*word != "auto") throw Error(std::string(name) + " is '" + *word + "'; give a number or auto");
    return std::nullopt;
  }
  require_range(name, std::get<double>(value), 0, max);
  return std::get<double>(value);
}

Report check_trace(const std::filesystem::path& path, const std::optional<std::filesystem::path>& target,
                   const RealOrWord& stated_slack, const RealOrWord& stated_tie,
                   const std::optional<std::filesystem::path>& control, const std::vector<std::string>& suspects,
                   const std::string& reference, const std::string& quantize, const std::string& kv,
                   const std::string& kernels, const std::optional<int>& threads,
                   const std::optional<py::function>& progress) {
  const std::optional<double> slack = number_unless_auto("slack", stated_slack, 1);
  const std::optional<double> tie = number_unless_auto("tie", stated_tie, 100);
  if (reference != "f32" && reference != "f64" && reference != "own") {
    throw Error("reference is '" + reference + "'; give f32, f64 or own");
  }
  if (control && slack && tie) throw Error("control is measured for slack='auto' and tie='auto'; give one of these");
  if (tie.value_or(1) > 0 && !target) throw Error("tie is measured in the target's logits; give target, too");
  if (!suspects.empty() && !target) throw Error("suspects are compared with the target; give target, too");
  const ReplayJob job{.file = path.string(),
                      .target = target ? target->string() : "",
                      .load_options = {kernels, quantize, kv},
                      .reference = reference,
                      .threads = threads_of(threads),
                      .slack = slack.value_or(0),
                      .tie = tie.value_or(0),
                      .slack_auto = !slack,
                      .tie_auto = !tie,
                      .control = control ? control->string() : "",
                      .suspects = suspects,
                      .quiet = true,
                      .progress = [&](long line) {
                        const ComputingPaused paused;
                        const py::gil_scoped_acquire acquired;
                        let_signals_in();
                        if (progress) (*progress)(line);
                      }};
  Report report = compute([&] { return spectrace::make_report(replayed(job)); });
  report.version = DRAFTPROOF_VERSION;
  if (report.verdict == ReportVerdict::invalid_trace) throw Error(report.reason);
  return report;
}

void bind_place(py::module_& module) {
  py::class_<Failure> type(module, "Place", "Where a finding was made.");
  publish(type);
  const auto known = [](std::int64_t number) { return number < 0 ? std::nullopt : std::optional(number); };
  type.def_readonly("run", &Failure::run, "The sequence of the trace: 'sequence 0'.");
  type.def_readonly("line", &Failure::line, "The line of the trace file, counted from 1.");
  type.def_property_readonly(
      "round", [known](const Failure& self) { return known(self.round); }, "The round of the sequence.");
  type.def_property_readonly(
      "position", [known](const Failure& self) { return known(self.position); },
      "The position in the text, the prompt included.");
  type.def("__repr__", [](const Failure& self) {
    return fmt::format("Place({}, line {}, round {}, position {})", self.run, self.line, self.round, self.position);
  });
}

void bind_finding(py::module_& module) {
  py::class_<Finding> type(module, "Finding", "What one check found.");
  publish(type);
  const auto of_failure = [](std::string Failure::*part) {
    return [part](const Finding& self) { return self.failure ? std::optional((*self.failure).*part) : std::nullopt; };
  };
  type.def_readonly("check", &Finding::check, "The name of the check (docs/spectrace.md).");
  type.def_property_readonly(
      "outcome", [](const Finding& self) { return name_of(self.outcome); }, "'pass', 'fail', ...");
  type.def_readonly("examined", &Finding::examined, "How many comparisons were made.");
  type.def_readonly("message", &Finding::message, "All of it in one line.");
  type.def_property_readonly("expected", of_failure(&Failure::expected),
                             "What a right engine does; None after a pass.");
  type.def_property_readonly("observed", of_failure(&Failure::observed), "What the trace says; None after a pass.");
  type.def_readonly("place", &Finding::failure, "Where it was found; None after a pass.");
  type.def("__repr__", [](const Finding& self) {
    return fmt::format("Finding({} {}: {})", self.check, name_of(self.outcome), self.message);
  });
}

void bind_report_type(py::module_& module) {
  py::class_<Report> type(module, "Report", "The result of a check. str() is what the command prints.");
  publish(type);
  type.def_property_readonly(
      "verdict", [](const Report& self) { return name_of(self.verdict); },
      "'PASS_EXACT', 'PASS_STAT', 'BUG_PROVEN', 'BUG_STAT', 'PERF_REGRESSION', 'UNDECIDED' or 'VACUOUS'.");
  type.def_property_readonly(
      "passed", [](const Report& self) { return exit_status(self.verdict) == 0; },
      "Whether the verdict is one of the two that pass.");
  type.def_readonly("findings", &Report::findings, "What contradicts itself, then the checks that passed.");
  type.def("__str__", &report_text);
  type.def("__repr__", [](const Report& self) { return fmt::format("Report({})", name_of(self.verdict)); });
  type.def(
      "json", [](const Report& self) { return py::module_::import("json").attr("loads")(report_json(self)); },
      "Returns the report as data (docs/report.md).");
  type.def("html", &report_html, "Returns one page that needs nothing else.");
  type.def("_repr_html_", &report_html);
  type.def("junit", &report_junit, "Returns JUnit XML.");
  type.def("sarif", &report_sarif, "Returns SARIF 2.1.0.");
}

}  // namespace

void bind_report(py::module_& module) {
  bind_place(module);
  bind_finding(module);
  bind_report_type(module);
  module.def(
      "check_trace", &check_trace, py::arg("path"), py::kw_only(), py::arg("target") = py::none(),
      py::arg("slack") = 0.0, py::arg("tie") = 0.0, py::arg("control") = py::none(),
      py::arg("suspects") = std::vector<std::string>(), py::arg("reference") = "f32", py::arg("quantize") = "none",
      py::arg("kv") = "bf16", py::arg("kernels") = "", py::arg("threads") = py::none(),
      py::arg("progress") = py::none(),
      "Replays every decision of a recorded run (docs/spectrace.md). target: the model it was made with. slack: "
      "how far, in total variation, p of other numerics may be from the target's. tie: how far below the "
      "target's best, in logits, a greedy token of other numerics may be. Either may be 'auto': what control shows, a "
      "trace of the same engine without speculation. suspects: what the engine may run in place of the target, 'q8', "
      "'q4' or other models; its tokens are bet on. reference: what these are compared with, "
      "f32, f64 (exact) or own (as quantize and kv say). progress: is called with the number of each line. The others "
      "are those of Model.");
}

}  // namespace draftproof
