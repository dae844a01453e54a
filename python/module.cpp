// SPDX-License-Identifier: MIT
// draftproof._core: the engine and the oracle for Python. __init__.py gives users the names.
#include <fmt/format.h>

#include "python/bindings.h"
#include "ref/base/error.h"

namespace draftproof {

std::mutex& computing() noexcept {
  static std::mutex one;
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

}  // namespace draftproof

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  auto& error = py::register_exception<draftproof::Error>(module, "Error", PyExc_ValueError);
  draftproof::publish(error);
  error.attr("__doc__") = "Bad input: one sentence that names the file or the value, and says what to do.";
  module.attr("__version__") = DRAFTPROOF_VERSION;
  draftproof::bind_model(module);
  draftproof::bind_report(module);
}
