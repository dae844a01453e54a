// SPDX-License-Identifier: MIT
// A small language model for proofs, of gated delta net layers and nothing else, with random weights: embedding; layers
// x = x + gated_delta_net(rms_norm(x)); final norm, LM head. Its caches hold real states, of which any mistake in a
// rollback changes every later row.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernels.h"
#include "ref/caches/recurrent_cache.h"
#include "ref/models/model.h"

namespace draftproof {

struct DeltaNetShape {
  int vocabulary = 32;
  int context = 1 << 20;
  int hidden = 24;
  int layers = 2;
  RecurrentShape layer = {.delta = {.key_heads = 1, .value_heads = 2, .key_dim = 8, .value_dim = 20}, .conv_width = 4};
  std::uint64_t seed = 1;  // of the weights
};

std::unique_ptr<Model> make_delta_net_model(const DeltaNetShape& shape, const Kernels& kernels);

}  // namespace draftproof
