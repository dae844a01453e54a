// SPDX-License-Identifier: MIT
#include "tools/all_drafts.h"

#include <algorithm>
#include <filesystem>

#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/models/checkpoint_kind.h"

namespace draftproof {
namespace {

/// The checkpoints in the folder of the target, without it.
std::vector<std::filesystem::path> neighbors(const std::filesystem::path& target) {
  const std::filesystem::path own = std::filesystem::weakly_canonical(target);
  const std::filesystem::path given = target.lexically_normal();
  // As the user wrote it, where that names the same folder: not for ".", and not for a link.
  const std::filesystem::path named = given.has_filename() ? given.parent_path() : given.parent_path().parent_path();
  const bool same = std::filesystem::weakly_canonical(named.empty() ? "." : named) == own.parent_path();
  const std::filesystem::path folder = same ? named : own.parent_path();
  std::vector<std::filesystem::path> found;
  std::error_code unreadable;  // then there are none
  for (const auto& entry : std::filesystem::directory_iterator(own.parent_path(), unreadable)) {
    const bool is_checkpoint = entry.is_directory() || entry.path().extension() == ".gguf";
    if (is_checkpoint && entry.path() != own) found.push_back(folder / entry.path().filename());
  }
  std::ranges::sort(found);
  return found;
}

bool is_smaller_model(const Checkpoint& files, const Checkpoint& target) {
  if (checkpoint_kind(files.config()) != target_checkpoint) return false;
  const auto weights = [](const Checkpoint& one) { return model_need(one, LoadOptions(best_kernels())).weights; };
  const auto bytes = [](const auto& weights) {
    std::uint64_t sum = 0;
    for (const auto& [format, size] : weights) sum += size;
    return sum;
  };
  return bytes(weights(files)) < bytes(weights(target));
}

/// Whether the draft serves the target.
bool serves(Engine& engine, const std::string& draft) {
  try {
    return engine.gate(draft) == Gate::open;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> all_drafts(const std::string& target, const LoadOptions& load_options) {
  ModelFiles files(target);
  std::vector<std::string> drafts;
  std::string network;  // the first that keeps a cache
  for (const DraftKind* const kind : all_draft_kinds()) {
    const std::string name = kind->name;
    if (kind == &none_kind || kind == &always_reject_kind || kind == &perfect_kind) continue;
    std::vector<std::string> candidates;
    std::vector<std::string> translated;  // tried when no other serves
    if (kind->takes_path != TakesPath::required) candidates.push_back(name);
    if (kind->takes_path == TakesPath::required || kind->takes_path == TakesPath::optional_checkpoint) {
      for (const std::filesystem::path& path : neighbors(target)) {
        try {
          const Checkpoint& checkpoint = files.draft(path);
          const bool is_one = kind->recognizes != nullptr ? kind->recognizes(checkpoint.config())
                                                          : is_smaller_model(checkpoint, files.target());
          if (!is_one) continue;
          candidates.push_back(name + ":" + path.string());
          if (kind == &model_kind) translated.push_back(candidates.back() + "?translate=1");
        } catch (const Error&) {  // it is no checkpoint
        }
      }
    }
    candidates.insert(candidates.end(), translated.begin(), translated.end());
    for (const std::string& draft : candidates) {
      Engine engine(files, load_options);  // a new one for each, so that the weights of one are in memory at a time
      if (!serves(engine, draft)) continue;
      drafts.push_back(draft);
      if (network.empty() && kind->keeps == Keeps::cache && !kind->trees) network = draft;
      // The configs of these say how deep their target is; heads of another kind may fit one that they are not for.
      if (kind != &dflash_kind && kind != &eagle3_kind) break;
    }
  }
  drafts.push_back("suffix+ngram-mod");
  if (!network.empty()) {
    drafts.push_back("ngram-simple+" + network);
    drafts.push_back("suffix+ngram-mod+" + network);
  }
  return drafts;
}

}  // namespace draftproof
