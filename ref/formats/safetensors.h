// SPDX-License-Identifier: MIT
// safetensors, as Hugging Face writes it: 8 bytes header length, JSON header, tensor bytes. Memory-mapped, read-only.
//
// Files are untrusted: every offset, shape and size is checked before a pointer is handed out. What is wrong with a
// file is an Error that names the file, the tensor and the remedy. Only a file that another process cuts short while
// it is mapped can still end us (by a bus error).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace draftproof {

/// Element types we compute with, and everything else (whose size is checked only where the name is known).
enum class TensorType : std::uint8_t { f32, f16, bf16, other };

struct TensorView {
  TensorType type = TensorType::other;
  std::string type_name;            // as the file spells it: "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;  // outermost first
  const std::byte* data = nullptr;  // row-major, little-endian; may be unaligned
  std::size_t bytes = 0;
};

/// One file.
class SafeTensors {
 public:
  explicit SafeTensors(const std::filesystem::path& file);
  ~SafeTensors();
  SafeTensors(SafeTensors&&) noexcept;
  SafeTensors& operator=(SafeTensors&&) noexcept;

  const std::filesystem::path& file() const noexcept { return file_; }
  const std::map<std::string, TensorView>& tensors() const noexcept { return tensors_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

 private:
  void read_header();

  std::filesystem::path file_;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// The weights of a checkpoint folder: `model.safetensors`, or else the shards named by `model.safetensors.index.json`.
/// The index must tell the truth about every tensor it lists; tensors of a shard that it does not list count as well.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  /// Name to tensor over all shards.
  const std::map<std::string, const TensorView*>& tensors() const noexcept { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }

  /// The tensor, of exactly this shape and of type F32, F16 or BF16, all elements finite; else an Error naming file,
  /// tensor and what was expected.
  const TensorView& weight(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// The same, widened to float.
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape) const;

  std::uint64_t bytes() const noexcept;  // of all tensors

 private:
  std::filesystem::path folder_;
  std::vector<SafeTensors> shards_;
  std::map<std::string, const TensorView*> tensors_;
  std::map<std::string, std::filesystem::path> file_of_;
};

/// Exact widening of stored elements.
float widen_f16(std::uint16_t bits) noexcept;
float widen_bf16(std::uint16_t bits) noexcept;

}  // namespace draftproof
