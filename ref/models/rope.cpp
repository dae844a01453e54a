// SPDX-License-Identifier: MIT
#include "ref/models/rope.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/math64.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr double default_theta = 10000;  // transformers' of Llama, Qwen2 and Qwen3; Llama 2 was published without

/// The fields of a config that describe its RoPE. They stand in one of two blocks or in both, and must agree.
class Fields {
 public:
  explicit Fields(const Json& config) : config_(config) {
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      const auto block = config.find(name);
      if (!block) continue;
      if (!block->is_object()) block->fail("must be an object");
      if (block->find("full_attention") || block->find("sliding_attention")) {
        block->fail("one RoPE per layer type is not implemented");
      }
      blocks_.push_back(*block);
    }
  }

  std::string kind() const {
    std::optional<std::string> kind;
    for (const Json& block : blocks_) {
      for (const char* name : {"type", "rope_type"}) {
        const auto named = block.find(name);
        if (!named) continue;
        if (kind && *kind != named->string()) {
          named->fail("differs from another rope type of this config, " + *kind);
        }
        kind = named->string();
        if (*kind == "dynamic") {
          named->fail("'dynamic' RoPE cannot be implemented: its frequencies depend on how a text is divided among "
                      "calls, so speculation would change the output");
        }
        if (*kind != "default" && *kind != "linear" && *kind != "llama3" && *kind != "yarn") {
          named->fail("rope type " + in_quotes(*kind) +
                      " is not implemented; only 'default', 'linear', 'llama3' and 'yarn' are");
        }
      }
    }
    return kind.value_or("default");
  }

  /// A number of the blocks, also of the config itself when it is `flat`.
  std::optional<Json> find(const char* name, bool flat = false) const {
    std::optional<Json> found = flat ? config_.find(name) : std::nullopt;
    for (const Json& block : blocks_) {
      const auto here = block.find(name);
      if (!here) continue;
      if (found && found->number() != here->number()) {
        here->fail(std::string("differs from another ") + name + " of this config");
      }
      found = here;
    }
    return found;
  }

  /// A positive number; that of a missing field is `otherwise`, without which the field is required.
  double positive(const char* name, std::optional<double> otherwise = {}, bool flat = false) const {
    const auto found = find(name, flat);
    if (!found && otherwise) return *otherwise;
    const Json value = found ? *found : blocks_.back().at(name);
    const double number = value.number();
    if (!(number > 0 && static_cast<float>(number) > 0 && number <= std::numeric_limits<float>::max())) {
      value.fail("must be a positive float");
    }
    return number;
  }
  /// The same of a field of which 0 means that it is missing, too.
  double positive_or_default(const char* name, double otherwise) const {
    const auto found = find(name);
    return found && found->number() == 0 ? otherwise : positive(name, otherwise);
  }
  bool boolean(const char* name, bool otherwise) const {
    for (const Json& block : blocks_) {
      if (const auto found = block.find(name)) otherwise = found->boolean();
    }
    return otherwise;
  }

 private:
  const Json& config_;
  std::vector<Json> blocks_;
};

Llama3Scaling read_llama3(const Fields& fields) {
  const auto number = [&](const char* name) { return static_cast<float>(fields.positive(name)); };
  const Llama3Scaling result = {number("factor"), number("low_freq_factor"), number("high_freq_factor"),
                                number("original_max_position_embeddings")};
  if (!(result.high_factor > result.low_factor)) {
    fields.find("high_freq_factor")->fail("must be above low_freq_factor; between the two frequencies go over");
  }
  return result;
}

/// 1, or more the longer the context becomes.
double yarn_magnitude(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * log64(factor) + 1; }

YarnScaling read_yarn(const Json& config, const Fields& fields) {
  const auto context = static_cast<double>(config.at("max_position_embeddings").integer(1, std::int64_t{1} << 40));
  YarnScaling result;
  result.original_context = fields.positive("original_max_position_embeddings", context, true);
  result.factor = fields.positive("factor", context / result.original_context);
  result.beta_fast = fields.positive_or_default("beta_fast", result.beta_fast);
  result.beta_slow = fields.positive_or_default("beta_slow", result.beta_slow);
  if (result.beta_fast < result.beta_slow) {
    fields.find("beta_slow").value_or(config).fail("must not be above beta_fast");
  }
  result.truncate = fields.boolean("truncate", true);
  const auto weight = [&](const char* name) { return fields.positive_or_default(name, 0); };
  const bool both = weight("mscale") != 0 && weight("mscale_all_dim") != 0;
  const double otherwise = both ? yarn_magnitude(result.factor, weight("mscale")) /
                                      yarn_magnitude(result.factor, weight("mscale_all_dim"))
                                : yarn_magnitude(result.factor, 1);
  result.magnitude = fields.positive("attention_factor", otherwise);
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

Rope linear_rope(double theta, int width, double factor) {
  Rope rope = default_rope(theta, width);
  rope.kind = "linear";
  for (float& frequency : rope.frequencies) frequency /= static_cast<float>(factor);
  return rope;
}

Rope yarn_rope(double theta, int width, const YarnScaling& scaling) {
  Rope rope = default_rope(theta, width);
  rope.kind = "yarn";
  rope.factor = static_cast<float>(scaling.magnitude);
  /// The pair, as a real number, that turns so often in the original context.
  const auto pair_that_turns = [&](double times) {
    constexpr double turn = 6.28318530717958647693;
    return width * log64(scaling.original_context / (times * turn)) / (2 * log64(theta));
  };
  double low = pair_that_turns(scaling.beta_fast);
  double high = pair_that_turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1.0);
  if (low == high) high += 0.001;
  for (std::size_t j = 0; j < rope.frequencies.size(); ++j) {
    const auto slowed = static_cast<float>(std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0));
    float& frequency = rope.frequencies[j];
    frequency = frequency / static_cast<float>(scaling.factor) * slowed + frequency * (1 - slowed);
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

double read_rope_theta(const Json& config) {
  const auto theta = Fields(config).find("rope_theta", true);
  const double base = theta ? theta->number() : default_theta;
  if (!(base > 1 && base < 1e12)) theta->fail("must lie between 1 and 1e12");
  return base;
}

Rope read_rope(const Json& config, int width) {
  const Fields fields(config);
  const std::string kind = fields.kind();
  const double base = read_rope_theta(config);
  if (kind == "linear") return linear_rope(base, width, fields.positive("factor"));
  if (kind == "llama3") return llama3_rope(base, width, read_llama3(fields));
  if (kind == "yarn") return yarn_rope(base, width, read_yarn(config, fields));
  return default_rope(base, width);
}

}  // namespace draftproof
