// SPDX-License-Identifier: MIT
// draftproof._core: the engine and the oracle for Python. __init__.py gives users the names.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <csignal>
#include <string>
#include <vector>

#include "python/bindings.h"
#include "ref/base/error.h"
#include "tools/command.h"

namespace draftproof {

std::recursive_mutex& computing() noexcept {
  static std::recursive_mutex one;
  return one;
}

void require_range(const std::string& name, double value, double low, double high) {
  if (value >= low && value <= high) return;
  throw Error(fmt::format("{} is {}; give a number from {} to {}", name, value, low, high));
}

int threads_of(const std::optional<int>& threads) {
  if (!threads) return 0;
  require_range("threads", *threads, 1, threads_max);
  return *threads;
}

namespace {

/// The command, in a process that does nothing else.
int command(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pybind11::gil_scoped_release released;
  std::signal(SIGINT, SIG_DFL);  // not Python's, which waits for Python to go on
  return run_command(static_cast<int>(words.size()), arguments.data());
}

}  // namespace
}  // namespace draftproof

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  auto& error = py::register_exception<draftproof::Error>(module, "Error", PyExc_ValueError);
  draftproof::publish(error);
  error.attr("__doc__") = "Bad input: one sentence that names the file or the value, and says what to do.";
  module.attr("__version__") = DRAFTPROOF_VERSION;
  draftproof::bind_compare(module);
  draftproof::bind_model(module);
  draftproof::bind_report(module);
  draftproof::bind_trace(module);
  module.def("command", &draftproof::command, py::arg("words"));
}
