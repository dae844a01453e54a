// SPDX-License-Identifier: MIT
#include "kernels/packed_activations.h"

#include "kernels/threads.h"

namespace draftproof {
namespace {

/// Packing a row costs about as much as this many multiplications.
double packing_work(int rows, int inputs) { return 16.0 * rows * inputs; }

}  // namespace

void PackedActivations::reserve(const Kernels& kernels, const PackedMatrix& w, int rows) {
  w.require_packed();
  kernels_ = &kernels;
  rows_ = rows;
  inputs_ = w.inputs();
  for (std::size_t i = 0; i < activation_formats; ++i) {
    wanted_[i] = w.wants(static_cast<ActivationFormat>(i));
    if (!wanted_[i]) continue;
    const std::size_t bytes = kernels.activation_bytes(static_cast<ActivationFormat>(i), rows, inputs_);
    if (bytes <= bytes_[i]) continue;
    data_[i] = aligned<std::byte>(bytes);
    bytes_[i] = bytes;
  }
}

void PackedActivations::pack(const float* x, std::ptrdiff_t x_stride, int begin, int end) noexcept {
  for (std::size_t i = 0; i < activation_formats; ++i) {
    if (!wanted_[i]) continue;
    const auto format = static_cast<ActivationFormat>(i);
    kernels_->pack_activations(format, x, x_stride, rows_, inputs_, begin, end, data_[i].get());
  }
}

void pack_activations(const Kernels& kernels, const PackedMatrix& w, const float* x, std::ptrdiff_t x_stride, int rows,
                      PackedActivations& to) {
  to.reserve(kernels, w, rows);
  for_inputs(w.inputs(), packing_work(rows, w.inputs()), [&](int begin, int end) { to.pack(x, x_stride, begin, end); });
}

}  // namespace draftproof
