// SPDX-License-Identifier: MIT
// What the entries of a vocabulary mean as bytes of a text, and which spaces at its start are not part of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

class TokenDecoder {
 public:
  /// Takes an entry, or what a step before made of it.
  using Step = std::function<std::string(std::string_view)>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  std::string bytes_of(std::string_view entry) const;

 private:
  std::vector<Step> steps_;
};

/// How a text begins: encoding put spaces there that decoding takes away.
struct TextStart {
  std::size_t spaces = 0;    // as many, if there are any, before everything else
  bool whole_token = false;  // all spaces of the first token
};

namespace token_decoders {

TokenDecoder::Step byte_level();
/// "<0x41>" becomes the byte 41.
TokenDecoder::Step byte_fallback();
TokenDecoder::Step replace(const std::string& what, const std::string& with);
/// Removes up to so many times `character` at each end.
TokenDecoder::Step strip(const std::string& character, std::size_t start, std::size_t stop);

}  // namespace token_decoders

/// Returns "<0x41>" for the byte 41, the entry of a byte token in a vocabulary of characters.
std::string fallback_entry(unsigned char byte);
/// Returns the byte that an entry like "<0x41>" stands for; nothing for another entry.
std::optional<unsigned char> byte_of_fallback_entry(std::string_view entry);

}  // namespace draftproof
