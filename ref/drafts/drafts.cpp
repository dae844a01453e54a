// SPDX-License-Identifier: MIT
#include "ref/drafts/drafts.h"

#include <algorithm>

#include "ref/models/checkpoint_kind.h"
#include "ref/models/models.h"
#include "ref/models/mtp.h"

namespace draftproof {

std::span<const DraftKind* const> all_draft_kinds() noexcept {
  // clang-format off
  static constexpr const DraftKind* list[] = {
      &none_kind,
      &dflash_kind,
      &eagle3_kind,
      &mtp_kind,
      &medusa_kind,
      &model_kind,
      &pard_kind,
      &self_kind,
      &ngram_simple_kind,
      &ngram_map_k_kind,
      &ngram_map_k4v_kind,
      &ngram_mod_kind,
      &ngram_cache_kind,
      &suffix_kind,
      &always_reject_kind,
      &perfect_kind,
      &tree_test_kind,
  };
  // clang-format on
  return list;
}

std::string names_of_drafts() {
  std::string names;
  for (const DraftKind* const kind : all_draft_kinds()) {
    constexpr const char* paths[] = {"", "[:PATH]", "[:PATH]", ":PATH"};
    names += (names.empty() ? "" : ", ") + std::string(kind->name) + paths[static_cast<int>(kind->takes_path)];
  }
  return names;
}

std::string kind_of_draft(const Checkpoint& files) {
  const Json& config = files.config();
  if (checkpoint_kind(config) != target_checkpoint) {
    const auto recognizes = [&](const DraftKind* kind) {
      return kind->recognizes != nullptr && kind->recognizes(config);
    };
    return (*std::ranges::find_if(all_draft_kinds(), recognizes))->name;
  }
  if (config.find("pard_token")) return pard_kind.name;
  const auto in_layer = [](const auto& tensor) { return tensor.first.starts_with("model.layers.0."); };
  const bool only_heads = has_mtp_heads(files) && std::ranges::none_of(files.tensors(), in_layer);
  return only_heads ? mtp_kind.name : model_kind.name;
}

}  // namespace draftproof
