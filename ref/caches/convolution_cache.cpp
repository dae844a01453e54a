// SPDX-License-Identifier: MIT
#include "ref/caches/convolution_cache.h"

namespace draftproof {

ConvolvedSizes sizes_of(const ConvolutionShape& shape) noexcept {
  return {.channels = shape.channels, .conv_width = shape.width};
}

ConvolutionCache::ConvolutionCache(const ConvolutionShape& shape, int max_pending_rows)
    : ConvolvedCache(sizes_of(shape), max_pending_rows), shape_(shape) {}

ConvolutionCache::Rows ConvolutionCache::claim_rows(int position, int rows) {
  const Pending pending = claim_pending(position, rows);
  return {pending.tail, pending.inputs, pending.stride};
}

void ConvolutionCache::replay(int, int, bool) {}  // nothing is folded

std::string ConvolutionCache::layout() const {
  return "convolution of " + std::to_string(shape_.width) + " inputs of " + std::to_string(shape_.channels);
}

void ConvolutionCache::add_to(Digest& digest, int) const { digest.add(tail()); }

}  // namespace draftproof
