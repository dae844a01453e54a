// SPDX-License-Identifier: MIT
// Ollama's API (serve/api.h has its chats and texts): what it says of the server and its model.
#pragma once

#include <span>
#include <string>

#include "serve/api.h"

namespace draftproof::serve {

/// The answers of /api/tags, /api/show, /api/ps and /api/version.
std::string ollama_tags_json(std::span<const ListedModel> models);
std::string ollama_show_json(const ServedModel& model);
std::string ollama_ps_json(std::span<const ListedModel> models);
std::string ollama_version_json();

}  // namespace draftproof::serve
