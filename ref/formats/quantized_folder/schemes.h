// SPDX-License-Identifier: MIT
// The schemes of quantized folders: one file each, and a row in folder_quantization.cpp. A scheme finds its matrices by
// the names and the types of their tensors and puts each together under the name of its weight; modules that the folder
// does not quantize keep theirs. docs/numerics.md says what each scheme becomes and what is lost.
#pragma once

#include "ref/formats/json.h"
#include "ref/formats/quantized_folder/folder_quantization.h"
#include "ref/formats/quantized_folder/folder_tensors.h"

namespace draftproof {

/// Each returns what it found in words; the numbers are filled in by the caller.
FolderQuantization read_fp8(const Json& config, FolderTensors& tensors);
FolderQuantization read_mxfp4(const Json& config, FolderTensors& tensors);
FolderQuantization read_gptq(const Json& config, FolderTensors& tensors);
FolderQuantization read_awq(const Json& config, FolderTensors& tensors);
FolderQuantization read_compressed_tensors(const Json& config, FolderTensors& tensors);
FolderQuantization read_modelopt(const Json& config, FolderTensors& tensors);
FolderQuantization read_bitnet(const Json& config, FolderTensors& tensors);
FolderQuantization read_mlx(const Json& config, FolderTensors& tensors);

}  // namespace draftproof
