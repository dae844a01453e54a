// SPDX-License-Identifier: MIT
#include "kernels/packed_matrix.h"

#include <algorithm>
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

/// Outputs [begin, end) of all sources together.
std::vector<MatrixSource> between(std::span<const MatrixSource> sources, int begin, int end) {
  std::vector<MatrixSource> some;
  int first = 0;
  for (const MatrixSource& source : sources) {
    const int from = std::max(begin - first, 0);
    const int to = std::min(end - first, source.outputs);
    first += source.outputs;
    if (from >= to) continue;
    some.push_back({source.format, to - from, source.inputs, {}});
    if (source.read) {
      some.back().read = [read = source.read, from](int row, int count, void* rows) { read(from + row, count, rows); };
    }
  }
  return some;
}

/// The output that each rank begins with, so that all have as many units, or one more. Units are of neighbors of one
/// format.
std::vector<int> bounds_by_unit(std::span<const MatrixSource> sources, int unit, const Ranks& ranks) {
  std::vector<int> firsts;  // output of each unit
  int output = 0;
  for (std::size_t i = 0; i < sources.size();) {
    const Format format = sources[i].format;
    const int first = output;
    for (; i < sources.size() && sources[i].format == format; ++i) output += sources[i].outputs;
    for (int at = first; at < output; at += unit) firsts.push_back(at);
  }
  const int units = static_cast<int>(firsts.size());
  firsts.push_back(output);
  std::vector<int> bounds;
  for (int rank = 0; rank <= ranks.count(); ++rank) {
    bounds.push_back(firsts[static_cast<std::size_t>(ranks.first_of(units, rank))]);
  }
  return bounds;
}

}  // namespace

std::vector<MatrixSource> PackedMatrix::lay_out(const Kernels& kernels, std::span<const MatrixSource> sources,
                                                Ranks* ranks) {
  for (const MatrixSource& source : sources) {
    outputs_ += source.outputs;
    inputs_ = source.inputs;
  }
  std::vector<MatrixSource> own(sources.begin(), sources.end());
  int first = 0;
  if (ranks != nullptr) {
    ranks_ = ranks;
    bounds_ = bounds_by_unit(sources, kernels.unit, *ranks);
    const auto rank = static_cast<std::size_t>(ranks->rank());
    first = bounds_[rank];
    own = between(sources, first, bounds_[rank + 1]);
  }
  std::erase_if(own, [](const MatrixSource& source) { return source.outputs == 0; });
  for (const MatrixSource& source : own) {
    if (parts_.empty() || parts_.back().view.format != source.format) {
      parts_.push_back({{nullptr, source.format, 0, source.inputs}, first});
    }
    parts_.back().view.outputs += source.outputs;
    first += source.outputs;
    wants_[static_cast<std::size_t>(kernels.activation_format(source.format))] = true;
  }
  for (const Part& part : parts_) {
    bytes_ += kernels.packed_bytes(part.view.format, part.view.outputs, part.view.inputs);
  }
  return own;
}

PackedMatrix PackedMatrix::counted(const Kernels& kernels, std::span<const MatrixSource> parts, Ranks* ranks) {
  PackedMatrix matrix;
  matrix.lay_out(kernels, parts, ranks);
  return matrix;
}

PackedMatrix::PackedMatrix(const Kernels& kernels, std::span<const MatrixSource> parts, Ranks* ranks) {
  const std::vector<MatrixSource> sources = lay_out(kernels, parts, ranks);
  for (Part& part : parts_) {
    data_.push_back(allocate_shared_pages(kernels.packed_bytes(part.view.format, part.view.outputs, part.view.inputs)));
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
