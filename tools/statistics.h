// SPDX-License-Identifier: MIT
// The statistics of a run as text and as JSON, and JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ref/decoding/gate.h"
#include "ref/decoding/trace.h"

namespace draftproof {

std::string statistics_text(const Trace& trace, Gate gate);
nlohmann::ordered_json statistics_json(const Trace& trace);

/// Returns the JSON indented, with a newline at its end. File names need not be UTF-8: other bytes become U+FFFD.
std::string dumped(const nlohmann::ordered_json& json);

}  // namespace draftproof
