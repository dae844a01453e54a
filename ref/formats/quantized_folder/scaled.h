// SPDX-License-Identifier: MIT
// Weights of one byte, F8_E4M3 or I8, under their own names, with scales for the whole matrix, its rows, or blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ref/formats/quantized_folder/folder_tensors.h"

namespace draftproof {

/// The rows and inputs that share a scale where scales are neither of the matrix nor of its rows; 0: there are none.
struct ScaleBlock {
  std::int64_t rows = 0;
  std::int64_t inputs = 0;

  bool operator==(const ScaleBlock& other) const = default;
};

struct ScaledWeights {
  std::string_view type;
  ScaleBlock block;
  bool symmetric = true;  // zero points may be missing
};

/// Puts together all of these. Scales of "x" are "x_scale_inv" or "x_scale"; zero points "x_zero_point".
void put_scaled_matrices(FolderTensors& tensors, const ScaledWeights& weights);

/// Notes as missing the weights of scales that nothing has taken.
void need_scaled_codes(FolderTensors& tensors);

/// Takes out the scales of activations, and of keys and values.
void drop_activation_scales(FolderTensors& tensors);

/// What to say of activations that engines quantize to `to` ("fp8"), with stored scales or with those of each row.
std::string activations_text(const std::string& to, bool stored_scales);

}  // namespace draftproof
