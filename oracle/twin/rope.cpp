// SPDX-License-Identifier: MIT
#include "oracle/twin/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

#include "kernels/math64.h"

namespace draftproof::twin {
namespace {

double given(const Json& block, const char* name, double absent) {
  const auto value = block.find(name);
  return value ? value->number() : absent;
}

std::string kind_of(const Json& block) {
  for (const char* name : {"rope_type", "type"}) {
    if (const auto kind = block.find(name)) return kind->string();
  }
  return "default";
}

/// Long wavelengths are stretched, short ones kept, those between are mixed.
double llama3(const Json& block, double frequency) {
  const double low = block.at("low_freq_factor").number();
  const double high = block.at("high_freq_factor").number();
  const double turns = block.at("original_max_position_embeddings").number() * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return (1 - kept) * frequency / block.at("factor").number() + kept * frequency;
}

/// The same with a ramp over pairs.
double yarn(const Json& block, double theta, int head_dim, int pair, double frequency) {
  const auto pair_that_turns = [&](double times) {
    const double wavelength = block.at("original_max_position_embeddings").number() / (2 * std::numbers::pi * times);
    return head_dim * log64(wavelength) / (2 * log64(theta));
  };
  double low = pair_that_turns(given(block, "beta_fast", 32));
  double high = pair_that_turns(given(block, "beta_slow", 1));
  const auto truncate = block.find("truncate");
  if (!truncate || truncate->boolean()) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  const double slowed = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return slowed * frequency / block.at("factor").number() + (1 - slowed) * frequency;
}

double yarn_magnitude(const Json& block) {
  const double factor = block.at("factor").number();
  const auto at = [&](double weight) { return factor <= 1 ? 1 : 0.1 * weight * log64(factor) + 1; };
  if (const auto stated = block.find("attention_factor")) return stated->number();
  const double mscale = given(block, "mscale", 0);
  const double all = given(block, "mscale_all_dim", 0);
  return mscale != 0 && all != 0 ? at(mscale) / at(all) : at(1);
}

/// Larger, the longer the context became.
double longrope_magnitude(const Json& config, const Json& block) {
  if (const auto stated = block.find("attention_factor")) return stated->number();
  constexpr const char* name = "original_max_position_embeddings";
  const auto own = block.find(name);
  const double original = own ? own->number() : config.at(name).number();
  const double factor = given(block, "factor", config.at("max_position_embeddings").number() / original);
  return factor <= 1 ? 1 : std::sqrt(1 + log64(factor) / log64(original));
}

}  // namespace

TwinRope rope_of(const TwinWeights& weights, const RopeFacts& of, int turned, int head_dim) {
  const auto& [theta, block, backwards] = of;
  const std::string kind = block ? kind_of(*block) : "default";
  TwinRope rope;
  for (int j = 0; j < turned / 2; ++j) {
    double frequency = 1 / power64(theta, 2.0 * j / turned);
    if (weights.has("rope_freqs.weight")) frequency /= weights["rope_freqs"](0, j);
    if (kind == "linear") frequency /= block->at("factor").number();
    else if (kind == "llama3") frequency = llama3(*block, frequency);
    else if (kind == "yarn") frequency = yarn(*block, theta, head_dim, j, frequency);
    else if (kind == "longrope")
      frequency /=
          block->at(weights.long_context() ? "long_factor" : "short_factor")[static_cast<std::size_t>(j)].number();
    else if (kind != "default") block->fail("the float64 twin does not have the RoPE '" + kind + "'");
    rope.frequencies.push_back(backwards ? -frequency : frequency);
  }
  if (kind == "yarn") rope.magnitude = yarn_magnitude(*block);
  if (kind == "longrope") rope.magnitude = longrope_magnitude(weights.config(), *block);
  return rope;
}

TwinRope gemma_rope_of(const TwinWeights& weights, bool sliding, int head_dim) {
  const Json& config = weights.config();
  const bool second = weights.family().starts_with("gemma2");
  const auto all = config.find("rope_parameters");
  auto block = all;
  if (!second && all) block = all->find(sliding ? "sliding_attention" : "full_attention");
  if (!block && !sliding) block = config.find("rope_scaling");
  const double absent = weights.number(sliding ? "rope_local_base_freq" : "rope_theta", second || sliding ? 1e4 : 1e6);
  const double theta = block ? given(*block, "rope_theta", absent) : absent;
  const std::string kind = block ? kind_of(*block) : "default";
  int turned = head_dim / 2;
  double factor = 1;
  if (kind == "proportional") turned = static_cast<int>(block->at("partial_rotary_factor").number() * head_dim) / 2;
  else if (kind == "linear") factor = block->at("factor").number();
  else if (kind != "default") block->fail("the float64 twin does not have the RoPE '" + kind + "'");
  TwinRope rope;
  rope.frequencies.assign(static_cast<std::size_t>(head_dim / 2), 0);
  const bool divided = !sliding && weights.has("rope_freqs.weight");  // of a GGUF: what it does not say in its metadata
  for (int j = 0; j < turned; ++j) {
    double& frequency = rope.frequencies[static_cast<std::size_t>(j)];
    frequency = 1 / power64(theta, 2.0 * j / head_dim) / factor;
    if (divided) frequency /= weights["rope_freqs"](0, j);
  }
  return rope;
}

void rotate(Matrix& rows, const TwinRope& rope, int head_dim, int first) {
  const auto half = static_cast<Eigen::Index>(rope.frequencies.size());
  for (Eigen::Index r = 0; r < rows.rows(); ++r) {
    for (Eigen::Index j = 0; j < half; ++j) {
      const double angle = static_cast<double>(first + r) * rope.frequencies[static_cast<std::size_t>(j)];
      const double c = cos64(angle) * rope.magnitude;
      const double s = sin64(angle) * rope.magnitude;
      for (Eigen::Index head = 0; head < rows.cols(); head += head_dim) {
        const double a = rows(r, head + j);
        const double b = rows(r, head + j + half);
        rows(r, head + j) = a * c - b * s;
        rows(r, head + j + half) = b * c + a * s;
      }
    }
  }
}

}  // namespace draftproof::twin
