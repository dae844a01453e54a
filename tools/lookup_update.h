// SPDX-License-Identifier: MIT
// --lookup-update: what followed every two tokens of texts is counted into a lookup file, which ngram-cache:FILE reads.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ref/drafts/ngram_counts.h"

namespace draftproof {

class LookupUpdate {
 public:
  /// Goes on with what the file holds, if it is there. `protected_paths`: the files and folders that the command reads
  /// or writes. Throws Error when the file is one of them, is no lookup file of so many tokens, or cannot be written.
  LookupUpdate(const std::string& file, const std::vector<std::string>& protected_paths, int vocabulary);

  void count(std::span<const Token> prompt, std::span<const Token> output);
  /// The memory of the counts.
  std::size_t bytes() const noexcept { return counts_.bytes(); }
  /// Whether so much was counted since the last save() that saving now is cheap beside it: at first after every text,
  /// later when they have grown by a few percent.
  bool worth_saving() const noexcept { return 16 * NgramCounts::bytes_per_ngram * unsaved_ >= counts_.bytes(); }
  /// The new file takes the place of the old one whole. Where nothing was counted, it stays as it is. Throws Error when
  /// it cannot be written.
  void save();

 private:
  std::string file_;
  std::vector<std::string> protected_paths_;
  NgramCounts counts_;
  std::size_t unsaved_ = 0;  // tokens that were counted since the last save()
};

}  // namespace draftproof
