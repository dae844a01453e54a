// SPDX-License-Identifier: MIT
// What families with experts of DeepSeek's kind, and with latent attention, share.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {

/// Reads the number of experts and of those that a row chooses, and their size, into these fields.
void put_sizes(const GgufKeys& keys, const char* count, const char* chosen, const char* size,
               nlohmann::ordered_json& config);

/// Absent, the family's own is meant.
void require_gating(const GgufKeys& keys, std::int64_t scores);

/// Adds the sizes of latent attention, and how yarn changes its scores.
void put_latent(const GgufKeys& keys, nlohmann::ordered_json& config);

/// Returns the experts of the layers that have some; all have the same. Throws Error when none has.
const GgufModel::Experts& experts_of(const GgufModel& model, const GgufKeyWriter& keys);

/// Throws Error unless the layers that have experts are those of `expected`.
void require_layers(const GgufModel& model, const GgufKeyWriter& keys, const char* field,
                    const std::function<bool(std::int64_t layer)>& expected);

/// Adds how many layers are before the first one with experts, which all behind it must have; returns it.
std::int64_t write_leading_dense(const GgufModel& model, GgufKeyWriter& keys);

/// Adds the sizes of latent attention.
void write_latent(const GgufModel& model, GgufKeyWriter& keys);

std::int64_t integer_or(const Json& config, const char* field, std::int64_t absent);

}  // namespace draftproof
