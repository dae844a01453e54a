// SPDX-License-Identifier: MIT
// The parts of the Python module draftproof._core, and what they share.
#pragma once

#include <pybind11/pybind11.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tools/options.h"

namespace draftproof {

void bind_compare(pybind11::module_& module);
void bind_model(pybind11::module_& module);
void bind_report(pybind11::module_& module);
void bind_trace(pybind11::module_& module);

/// Held while anything is computed: the computing threads are the process's, so calls of several Python threads take
/// turns. An engine that is compared may compute here as well, within the comparison.
std::recursive_mutex& computing() noexcept;

/// Runs `work` while other Python threads run. `work` touches nothing of Python.
template <class Work>
auto compute(Work&& work) {
  const pybind11::gil_scoped_release released;
  const std::lock_guard lock(computing());
  return std::forward<Work>(work)();
}

/// Throws the KeyboardInterrupt of a Ctrl-C, or whatever another signal handler raised.
inline void let_signals_in() {
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

/// Gives a type the module that users import it from.
inline void publish(const pybind11::handle& type) { type.attr("__module__") = "draftproof"; }

/// Throws Error unless low <= value <= high.
void require_range(const std::string& name, double value, double low, double high);

/// Number of threads as commands take it: 0 for None. Throws Error when it is out of range.
int threads_of(const std::optional<int>& threads);

}  // namespace draftproof
