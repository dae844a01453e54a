// SPDX-License-Identifier: MIT
// A run's statistics as text and as JSON, and JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ref/decoding/gate.h"
#include "ref/decoding/trace.h"

namespace draftproof {

std::string statistics_text(const Trace& trace, Gate gate);
nlohmann::ordered_json statistics_json(const Trace& trace);

/// Indented, with a newline at the end. Names of files need not be UTF-8; what is not becomes U+FFFD.
std::string dumped(const nlohmann::ordered_json& json);

}  // namespace draftproof
