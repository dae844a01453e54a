// SPDX-License-Identifier: MIT
// Writes safetensors files that Hugging Face's libraries load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// A matrix, or a vector when it has one output, in f32, f16 or bf16; or a vector of integers.
struct SafeTensor {
  std::string name;
  WeightSource rows;
  std::vector<std::int64_t> integers = {};  // instead of rows, when there are any
};

/// Writes `file` completely or not at all, reading the tensors a few rows at a time. Throws Error when the file cannot
/// be written or a tensor cannot be read.
void write_safetensors(const std::filesystem::path& file, std::span<const SafeTensor> tensors);

}  // namespace draftproof
