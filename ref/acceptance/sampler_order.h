// SPDX-License-Identifier: MIT
// The order in which samplers are applied to a row. It changes what a token is drawn from: after a temperature of 2 a
// top-p of 0.8 keeps many more tokens than before it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

enum class SamplerStep : std::uint8_t { penalties, dry, temperature, top_n_sigma, top_k, top_p, min_p, typ_p, xtc };

inline constexpr std::size_t sampler_steps = 9;
using SamplerOrder = std::array<SamplerStep, sampler_steps>;  // each step once, the first applied first

/// The default. Temperature comes before all cuts, as in vLLM and SGLang.
inline constexpr SamplerOrder transformers_order = {
    SamplerStep::penalties, SamplerStep::dry,   SamplerStep::temperature, SamplerStep::top_n_sigma, SamplerStep::top_k,
    SamplerStep::top_p,     SamplerStep::min_p, SamplerStep::typ_p,       SamplerStep::xtc};
/// The default of llama.cpp, and of what is built on it. Temperature comes last: cuts see the model's own distribution.
inline constexpr SamplerOrder llama_cpp_order = {SamplerStep::penalties, SamplerStep::dry,   SamplerStep::top_n_sigma,
                                                 SamplerStep::top_k,     SamplerStep::typ_p, SamplerStep::top_p,
                                                 SamplerStep::min_p,     SamplerStep::xtc,   SamplerStep::temperature};

/// Returns its name in llama.cpp.
const char* name_of(SamplerStep step) noexcept;
/// Returns the step of this name, one of those that llama.cpp knows.
std::optional<SamplerStep> find_sampler_step(std::string_view name);

/// Returns the order that begins with these steps; those that are not listed follow, in transformers_order.
SamplerOrder order_from(std::span<const SamplerStep> listed);
/// Returns the steps of a list that users wrote: of names, or of one name of an order, "llama.cpp" or "transformers".
/// Throws Error for another name and for one that is there twice.
std::vector<SamplerStep> parse_samplers(std::span<const std::string> names);
/// Returns the steps of koboldcpp's sampler_order, a list of numbers, with what it applies around them. Throws Error
/// for a number that is none of 0 to 6, and for one that is there twice.
std::vector<SamplerStep> parse_kobold_order(std::span<const int> numbers);

}  // namespace draftproof
