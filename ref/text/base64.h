// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace draftproof {

/// Returns the bytes that `text` encodes in base64, padded; nothing when it is not base64.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace draftproof
