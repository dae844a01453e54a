// SPDX-License-Identifier: MIT
#include "tools/lookup_update.h"

#include "ref/base/presence.h"
#include "ref/drafts/lookup_file.h"
#include "tools/options.h"

namespace draftproof {

LookupUpdate::LookupUpdate(const std::string& file, const std::vector<std::string>& protected_paths, int vocabulary)
    : file_(file), protected_paths_(protected_paths) {
  if (is_present(file_)) counts_ = read_lookup_file(file_, vocabulary);
  const OutputFile writable(file_, protected_paths_);
}

void LookupUpdate::count(std::span<const Token> prompt, std::span<const Token> output) {
  std::vector<Token> text(prompt.begin(), prompt.end());
  text.insert(text.end(), output.begin(), output.end());
  count_pairs(text, counts_);
  if (text.size() > 2) unsaved_ += text.size() - 2;
}

void LookupUpdate::save() {
  if (unsaved_ == 0) return;
  OutputFile file(file_, protected_paths_);
  write_lookup_file(counts_, [&](std::string_view piece) { file.append(piece); });
  file.finish();
  unsaved_ = 0;
}

}  // namespace draftproof
