// SPDX-License-Identifier: MIT
// quant_method "fp8": weights of four bits of exponent and three of fraction, with float scales.
#include "ref/formats/quantized_folder/scaled.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {

FolderQuantization read_fp8(const Json& config, FolderTensors& tensors) {
  if (const auto format = config.find("fmt");
      format && format->string() != "e4m3" && format->string() != "float8_e4m3fn") {
    format->fail("'" + format->string() + "' is not read; only e4m3 is");
  }
  ScaleBlock block;
  std::string scheme = "fp8";
  if (const auto size = config.find("weight_block_size")) {
    const std::vector<std::int64_t> extents = size->integers(1, extent_max);
    if (extents.size() != 2) size->fail("must be [rows, inputs]");
    block = {extents[0], extents[1]};
    scheme += ", blocks of " + std::to_string(block.rows) + " x " + std::to_string(block.inputs);
  }
  const auto activations = config.find("activation_scheme");
  const bool fixed = activations && activations->string() == "static";
  if (activations && !fixed && activations->string() != "dynamic") {
    activations->fail("'" + activations->string() + "' is not read; dynamic and static are");
  }
  drop_activation_scales(tensors);
  put_scaled_matrices(tensors, {"F8_E4M3", block});
  need_scaled_codes(tensors);
  return {scheme, activations_text("fp8", fixed)};
}

}  // namespace draftproof
