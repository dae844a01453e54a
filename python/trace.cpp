// SPDX-License-Identifier: MIT
// The file of rows that draftproof.TraceWriter writes beside a trace.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <vector>

#include "oracle/spectrace/rows_file.h"
#include "python/bindings.h"

namespace draftproof {
namespace {

namespace py = pybind11;
using spectrace::RealRow;
using spectrace::RowsPlace;
using spectrace::RowsWriter;

py::dict reference_to(const RowsPlace& place) {
  py::dict reference;
  reference["row"] = place.first;
  reference["count"] = place.count;
  reference["sha256"] = place.digest;
  return reference;
}

}  // namespace

void bind_trace(py::module_& module) {
  using Weights = RowsWriter::Weights;
  py::class_<RowsWriter> type(module, "RowsFile", "The rows beside a trace. TraceWriter writes it.");
  type.def(py::init([](const std::filesystem::path& path, bool integers) {
             return std::make_unique<RowsWriter>(path, integers ? Weights::integers : Weights::reals);
           }),
           py::arg("path"), py::arg("integers"));
  type.def(
      "append_integers",
      [](RowsWriter& self, const std::vector<std::pair<std::vector<Token>, std::vector<std::uint64_t>>>& rows) {
        std::vector<Distribution> distributions;
        for (const auto& [tokens, weights] : rows) distributions.push_back(Distribution::exact(tokens, weights));
        return reference_to(self.append(distributions));
      },
      py::arg("rows"));
  type.def(
      "append_reals",
      [](RowsWriter& self, const std::vector<std::pair<std::vector<Token>, std::vector<double>>>& rows) {
        std::vector<RealRow> reals;
        for (const auto& [tokens, weights] : rows) reals.push_back({tokens, weights});
        return reference_to(self.append_reals(reals));
      },
      py::arg("rows"));
  type.def("finish", &RowsWriter::finish);
}

}  // namespace draftproof
