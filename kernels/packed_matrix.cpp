// SPDX-License-Identifier: MIT
#include "kernels/packed_matrix.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include "kernels/threads.h"

namespace draftproof {
namespace {

/// Bytes of a part that are read at a time, by each thread, while it is packed: few enough that they stay in its cache,
/// and that their memory costs nothing for each of hundreds of matrices.
constexpr std::size_t packing_bytes = std::size_t{1} << 17;

/// The first exception of a parallel range, kept until the range is over.
class FirstException {
 public:
  template <class Body>
  void guard(const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

std::vector<MatrixSource> sources_of(std::span<const MatrixView> parts) {
  std::vector<MatrixSource> sources;
  for (const MatrixView& part : parts) {
    const std::size_t bytes = row_bytes(part.format, part.inputs);
    const auto* const data = static_cast<const std::byte*>(part.data);
    sources.push_back({part.format, part.outputs, part.inputs, [=](int first, int count, void* rows) {
                         std::memcpy(rows, data + bytes * static_cast<std::size_t>(first),
                                     bytes * static_cast<std::size_t>(count));
                       }});
  }
  return sources;
}

}  // namespace

void PackedMatrix::lay_out(const Kernels& kernels, std::span<const MatrixSource> sources) {
  for (const MatrixSource& source : sources) {
    if (parts_.empty() || parts_.back().view.format != source.format) {
      parts_.push_back({{nullptr, source.format, 0, source.inputs}, outputs_});
    }
    parts_.back().view.outputs += source.outputs;
    outputs_ += source.outputs;
    inputs_ = source.inputs;
    wants_[static_cast<std::size_t>(kernels.activation_format(source.format))] = true;
  }
  for (const Part& part : parts_) {
    bytes_ += kernels.packed_bytes(part.view.format, part.view.outputs, part.view.inputs);
  }
}

PackedMatrix PackedMatrix::counted(const Kernels& kernels, std::span<const MatrixSource> parts) {
  PackedMatrix matrix;
  matrix.lay_out(kernels, parts);
  return matrix;
}

PackedMatrix::PackedMatrix(const Kernels& kernels, std::span<const MatrixSource> sources) {
  lay_out(kernels, sources);
  for (Part& part : parts_) {
    data_.push_back(
        allocate_shared_pages(kernels.packed_bytes(part.view.format, part.view.outputs, part.view.inputs)));
    part.view.data = data_.back().get();
  }

  std::size_t place = 0;
  int first = 0;  // output of the part that the source starts at
  FirstException failure;
  const int workers = threads();
  std::vector<std::pair<Aligned<std::byte>, std::size_t>> buffers(static_cast<std::size_t>(workers));
  for (const MatrixSource& source : sources) {
    while (first == parts_[place].view.outputs || parts_[place].view.format != source.format) {
      ++place;
      first = 0;
    }
    // Whole units, so that two threads meet in a cache line at most where a source starts inside a panel.
    const int units = (source.outputs + kernels.unit - 1) / kernels.unit;
    const std::size_t unit_bytes = row_bytes(source.format, source.inputs) * static_cast<std::size_t>(kernels.unit);
    const int together = static_cast<int>(packing_bytes / unit_bytes > 0 ? packing_bytes / unit_bytes : 1);
    const double elements = static_cast<double>(source.outputs) * source.inputs;
    const std::size_t room = unit_bytes * static_cast<std::size_t>(together < units ? together : units);
    std::byte* const packed = data_[place].get();
    parallel_ranges(units, elements, workers, [&](int begin, int end, int worker) {
      failure.guard([&] {
        auto& [rows, size] = buffers[worker];
        if (size < room) {
          rows = aligned<std::byte>(room);
          size = room;  // not before: after a failure the worker goes on with its other ranges
        }
        for (int unit = begin; unit < end; unit += together) {
          const int from = unit * kernels.unit;
          const int to = std::min((unit + together < end ? unit + together : end) * kernels.unit, source.outputs);
          source.read(from, to - from, rows.get());
          kernels.pack({rows.get(), source.format, to - from, source.inputs}, first + from, packed);
        }
      });
    });
    failure.rethrow();
    first += source.outputs;
  }
}

PackedMatrix::PackedMatrix(const Kernels& kernels, std::span<const MatrixView> parts)
    : PackedMatrix(kernels, sources_of(parts)) {}

void PackedMatrix::require_packed() const noexcept {
  if (data_.size() == parts_.size()) return;
  std::fputs("broken invariant: a matrix that was only counted is computed with\n", stderr);
  std::abort();
}

void PackedMatrix::unpack_row(const Kernels& kernels, int output, float* row) const noexcept {
  require_packed();
  const Part* part = parts_.data();
  while (output >= part->first + part->view.outputs) ++part;
  kernels.unpack_row(part->view, output - part->first, row);
}

}  // namespace draftproof
