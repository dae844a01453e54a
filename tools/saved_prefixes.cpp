// SPDX-License-Identifier: MIT
#include "tools/saved_prefixes.h"

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "tools/options.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

/// Identifies the weights of the target by their content, and the draft by its kind, its options and its content.
std::string model_of(const Checkpoint& target, const std::string& draft) {
  std::string model = weights_fingerprint(target) + ", draft";
  for (const DraftStage& stage : parse_draft_spec(draft).stages) {
    model += " " + stage.name_with({});
    if (!stage.path.empty()) model += " " + weights_fingerprint(stage.path);
  }
  return model;
}

}  // namespace

void add_prefix_cache_options(Command& command, PrefixCacheOptions& options) {
  command.group("Prompt");
  Option& file = command.option("--prefix-cache FILE", options.file,
                                "keep the KV caches of texts in this file, for later prompts that begin in the same "
                                "way; of one target, one draft and one numerics class");
  command
      .option("--prefix-cache-size", options.size,
              "memory that the prefix cache may have; what was used least recently is dropped")
      .show_default()
      .needs(file);
}

SavedPrefixes::SavedPrefixes(const PrefixCacheOptions& options, const std::vector<std::string>& protected_paths)
    : cache_(options.size.bytes) {
  if (is_standard_output(options.file)) throw Error("--prefix-cache has to name a file, not standard output");
  require_replaceable(options.file, {});
  const OutputFile can_be_written(options.file, protected_paths);
  file_ = std::filesystem::weakly_canonical(options.file);
}

void SavedPrefixes::begin(const Engine& engine, const std::string& draft) {
  origin_ = {model_of(engine.checkpoint(), draft), engine.numerics()};
}

void SavedPrefixes::load(Engine& engine, const std::string& draft) {
  if (is_present(file_)) engine.load_prefixes(cache_, origin_, draft, file_);
}

void SavedPrefixes::save() const { save_prefix_cache(cache_, origin_, file_); }

}  // namespace draftproof
