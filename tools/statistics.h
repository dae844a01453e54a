// SPDX-License-Identifier: MIT
// A run's statistics as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ref/decoding/gate.h"
#include "ref/decoding/trace.h"

namespace draftproof {

std::string statistics_text(const Trace& trace, Gate gate);
nlohmann::ordered_json statistics_json(const Trace& trace);

}  // namespace draftproof
