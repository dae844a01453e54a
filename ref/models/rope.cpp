// SPDX-License-Identifier: MIT
#include "ref/models/rope.h"

#include <limits>
#include <optional>

#include "kernels/math64.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr double default_theta = 10000;  // transformers' of Llama, Qwen2 and Qwen3; Llama 2 was published without

Llama3Scaling read_llama3(const Json& block) {
  const auto positive_float = [&block](const char* field) {
    const Json value = block.at(field);
    const auto number = static_cast<float>(value.number());
    if (!(number > 0 && number <= std::numeric_limits<float>::max())) value.fail("must be a positive float");
    return number;
  };
  const Llama3Scaling result = {positive_float("factor"), positive_float("low_freq_factor"),
                                positive_float("high_freq_factor"), positive_float("original_max_position_embeddings")};
  if (!(result.high_factor > result.low_factor)) {
    block.at("high_freq_factor").fail("must be above low_freq_factor; between the two frequencies go over");
  }
  return result;
}

}  // namespace

void Rope::angles(std::span<const int> positions, std::vector<float>& cosine, std::vector<float>& sine) const {
  cosine.resize(positions.size() * frequencies.size());
  sine.resize(cosine.size());
  std::size_t at = 0;
  for (const int position : positions) {
    for (const float frequency : frequencies) {
      const double angle = static_cast<float>(position) * frequency;
      cosine[at] = static_cast<float>(cos64(angle)) * factor;
      sine[at] = static_cast<float>(sin64(angle)) * factor;
      ++at;
    }
  }
}

AttentionCache::TurnBack Rope::turn_back(const Kernels& kernels, int head_dim) const {
  Rope rope = *this;
  rope.factor = 1;
  return [rope = std::move(rope), &kernels, head_dim](float* keys, int count, int positions) {
    std::vector<float> cosine;
    std::vector<float> sine;
    const int back = -positions;
    rope.angles(std::span(&back, 1), cosine, sine);
    // One row with `count` heads, because all keys turn by the same angles.
    kernels.rope(keys, 0, 1, count, head_dim, rope.half(), cosine.data(), sine.data());
  };
}

Rope default_rope(double theta, int width) {
  Rope rope;
  for (int j = 0; j < width / 2; ++j) {
    rope.frequencies.push_back(static_cast<float>(1.0 / power64(theta, 2.0 * j / width)));
  }
  return rope;
}

Rope llama3_rope(double theta, int width, const Llama3Scaling& scaling) {
  Rope rope = default_rope(theta, width);
  rope.kind = "llama3";
  constexpr float turn = 6.28318530717958647693F;
  for (float& frequency : rope.frequencies) {
    const float wavelength = turn / frequency;
    if (wavelength < scaling.original_context / scaling.high_factor) continue;
    if (wavelength > scaling.original_context / scaling.low_factor) {
      frequency = frequency / scaling.factor;
      continue;
    }
    const float kept =
        (scaling.original_context / wavelength - scaling.low_factor) / (scaling.high_factor - scaling.low_factor);
    frequency = (1 - kept) * frequency / scaling.factor + kept * frequency;
  }
  return rope;
}

Rope read_rope(const Json& config, int width) {
  std::optional<Json> theta = config.find("rope_theta");
  std::optional<std::string> kind;
  std::optional<Llama3Scaling> llama3;
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const auto block = config.find(field);
    if (!block) continue;
    if (!block->is_object()) block->fail("must be an object");
    for (const char* type : {"type", "rope_type"}) {
      const auto named = block->find(type);
      if (!named) continue;
      const bool linear_by_1 = named->string() == "linear" && block->at("factor").number() == 1;
      if (named->string() != "default" && named->string() != "llama3" && !linear_by_1) {
        named->fail("rope type " + in_quotes(named->string()) +
                    " is not implemented; only 'default' and 'llama3' are, and 'linear' by 1");
      }
      if (kind && *kind != named->string()) named->fail("differs from another rope type of this config, " + *kind);
      kind = named->string();
      if (kind == "llama3") llama3 = read_llama3(*block);
    }
    if (const auto nested = block->find("rope_theta")) {
      if (theta && theta->number() != nested->number()) nested->fail("differs from another rope_theta of this config");
      theta = nested;
    } else if (block->find("full_attention") || block->find("sliding_attention")) {
      block->fail("one RoPE per layer type is not implemented");
    }
  }
  const double base = theta ? theta->number() : default_theta;
  if (!(base > 1 && base < 1e12)) theta->fail("must lie between 1 and 1e12");
  return llama3 ? llama3_rope(base, width, *llama3) : default_rope(base, width);
}

}  // namespace draftproof
