// SPDX-License-Identifier: MIT
// What there is to know about the architecture of a target: how it is described, loaded, and continued by MTP heads. An
// architecture defines its own, behind its layers; the list of all is in models.h.
#pragma once

#include <memory>
#include <span>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/mtp_block.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// One of the names that configs give an architecture: alone, as the text part of a larger model, with experts.
struct ArchitectureName {
  const char* model_type;
  const char* architecture;  // architectures[0]
};

struct Architecture {
  std::span<const ArchitectureName> names;
  TransformerConfig (*describe)(const Json& config);
  std::unique_ptr<Model> (*load)(const WeightLoader& from, const TransformerConfig& config);
  const MtpBlocks* mtp = nullptr;  // of those whose MTP heads are implemented
};

}  // namespace draftproof
