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
  double theta = 0;                // before any scaling; 0: not known
  std::vector<float> frequencies;  // [width / 2]
  float factor = 1;                // of cosine and sine, so it enters a score twice
  int context = 0;                 // the longest text that it is for; 0: any
  /// Of longrope: those for texts that may become longer, from their first position on; else empty.
  std::vector<float> long_frequencies = {};

  int half() const noexcept { return static_cast<int>(frequencies.size()); }
  /// cosine, sine: [positions][half].
  void angles(std::span<const int> positions, std::vector<float>& cosine, std::vector<float>& sine) const;
  /// Returns what turns keys of these heads back, their length unchanged: `factor` is in them already. The result holds
  /// copies, so it may outlive the rest.
  AttentionCache::TurnBack turn_back(const Kernels& kernels, int head_dim) const;
};

/// Scaling of Llama 3.1: wavelengths above original_context / low_factor become `factor` times as long, those below
/// original_context / high_factor stay, and those between are interpolated. Llama 4 has equal factors.
struct Llama3Scaling {
  float factor = 0;
  float low_factor = 0;
  float high_factor = 0;
  float original_context = 0;
};

/// YaRN (Peng et al. 2023): pairs that turn more than beta_fast times in the original context stay, those that turn
/// less than beta_slow times become `factor` times as slow, and between them the share of both goes linearly with j.
struct YarnScaling {
  double factor = 1;
  double original_context = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;  // the range of pairs between is widened to whole ones
  double magnitude = 1;  // Rope::factor
};

Rope default_rope(double theta, int width);
/// Turns the pairs j < part * width / 2 only, and those of the whole width: the others have the frequency 0.
Rope proportional_rope(double theta, int width, double part, double factor = 1);
/// Every wavelength becomes `factor` times as long.
Rope linear_rope(double theta, int width, double factor);
Rope yarn_rope(double theta, int width, const YarnScaling& scaling);
Rope llama3_rope(double theta, int width, const Llama3Scaling& scaling);

/// Reads rope_theta with rope_scaling or rope_parameters, in every published spelling, for `width` dimensions: default,
/// linear, llama3, yarn or longrope, with its short_factor. Throws Error, naming file and field, for other kinds and
/// for fields that contradict each other. `dynamic` is refused for good: its frequencies depend on the longest position
/// of a call, so the bits of a row would depend on how the text was divided among calls.
Rope read_rope(const Json& config, int width);

/// Reads what scores are multiplied by beside their scale where RoPE is stretched: of DeepSeek's mscale_all_dim,
/// else 1.
double read_score_factor(const Json& config);

/// The RoPE of the layers of one type, where a config has one for each type.
struct LayerTypeRope {
  const char* type;        // as layer_types name it
  const char* theta_name;  // of the config itself, as it was spelled before there were blocks for each type
  double theta;            // where no field says it
  bool scaled;             // rope_scaling means these layers
};
/// Reads rope_parameters.<type>, or else the old spelling; besides the above it knows proportional.
Rope read_rope(const Json& config, int width, const LayerTypeRope& of);

}  // namespace draftproof
