// SPDX-License-Identifier: MIT
// Rotary position embedding as data: a model has one or several, and each attention layer names the one it uses.
//
// A head's dimensions [0, width) are turned in pairs (j, j + width / 2) by the angle position * frequencies[j]; the
// others stay. Rounded as the reference implementations do: the frequency theta^(-2j / width) to float, its scaling and
// the product with the position in float, cosine and sine of that product to float, then times `factor`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "ref/caches/attention_cache.h"
#include "ref/formats/json.h"

namespace draftproof {

struct Rope {
  std::string kind = "default";    // as configs name it
  std::vector<float> frequencies;  // [width / 2]
  float factor = 1;                // of cosine and sine, so it enters a score twice

  int half() const noexcept { return static_cast<int>(frequencies.size()); }
  /// cosine, sine: [positions][half].
  void angles(std::span<const int> positions, std::vector<float>& cosine, std::vector<float>& sine) const;
  /// Returns what turns keys of these heads back, their length unchanged: `factor` is in them already. The result holds
  /// copies, so it may outlive the rest.
  AttentionCache::TurnBack turn_back(const Kernels& kernels, int head_dim) const;
};

/// Scaling of Llama 3.1: wavelengths above original_context / low_factor become `factor` times as long, those below
/// original_context / high_factor stay, and those between are interpolated.
struct Llama3Scaling {
  float factor = 0;
  float low_factor = 0;
  float high_factor = 0;
  float original_context = 0;
};

Rope default_rope(double theta, int width);
Rope llama3_rope(double theta, int width, const Llama3Scaling& scaling);

/// Reads rope_theta with rope_scaling or rope_parameters, in every published spelling, for `width` dimensions. Throws
/// Error, naming file and field, for kinds that are not implemented and for fields that contradict each other.
Rope read_rope(const Json& config, int width);

}  // namespace draftproof
