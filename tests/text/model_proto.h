// SPDX-License-Identifier: MIT
// SentencePiece's ModelProto for tests, written field by field; errors in it are intended.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace draftproof::test {

class ProtoBytes {
 public:
  ProtoBytes& integer(std::uint32_t field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  ProtoBytes& text(std::uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoBytes& message(std::uint32_t field, const ProtoBytes& value) { return text(field, value.bytes_); }
  ProtoBytes& real(std::uint32_t field, float value) {
    varint(field << 3 | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>(bits >> 8 * i);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

inline ProtoBytes piece_proto(std::string_view text, float score, int type) {
  return ProtoBytes().text(1, text).real(2, score).integer(3, static_cast<std::uint64_t>(type));
}

/// <unk> 0, <s> 1, </s> 2, "▁" 3, "a" 4, "b" 5, "ab" 6, "▁a" 7: BPE without a normalization.
inline ProtoBytes small_pieces() {
  ProtoBytes model;
  model.message(1, piece_proto("<unk>", 0, 2)).message(1, piece_proto("<s>", 0, 3));
  model.message(1, piece_proto("</s>", 0, 3)).message(1, piece_proto("\u2581", -9, 1));
  model.message(1, piece_proto("a", -9, 1)).message(1, piece_proto("b", -9, 1));
  model.message(1, piece_proto("ab", -1, 1)).message(1, piece_proto("\u2581a", -2, 1));
  return model;
}

inline ProtoBytes bpe_trainer() { return ProtoBytes().integer(3, 2); }
inline ProtoBytes plain_normalizer() { return ProtoBytes().integer(4, 0); }

inline ProtoBytes small_model() { return small_pieces().message(2, bpe_trainer()).message(3, plain_normalizer()); }

}  // namespace draftproof::test
