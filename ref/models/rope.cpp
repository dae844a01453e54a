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
class RopeFields {
 public:
  explicit RopeFields(const Json& config) : config_(config) {
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

  RopeFields(const Json& config, const LayerTypeRope& of) : config_(config), theta_name_(of.theta_name) {
    kinds_.push_back("proportional");
    if (const auto all = config.find("rope_parameters")) {
      for (const std::string& name : all->fields()) {
        if (name != "full_attention" && name != "sliding_attention") {
          all->at(name).fail("is not the RoPE of a layer type; only full_attention and sliding_attention are");
        }
      }
      if (const auto block = all->find(of.type)) blocks_.push_back(*block);
    }
    const auto scaling = config.find("rope_scaling");
    if (scaling && of.scaled) blocks_.push_back(*scaling);
    for (const Json& block : blocks_) {
      if (!block.is_object()) block.fail("must be an object");
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
        if (*kind == "su") kind = "longrope";  // as it was called at first
        if (*kind == "dynamic") {
          named->fail(
              "'dynamic' RoPE cannot be implemented: its frequencies depend on how a text is divided among "
              "calls, so speculation would change the output");
        }
        if (std::ranges::find(kinds_, *kind) == kinds_.end()) {
          std::string known;
          for (const char* one : kinds_) known += (known.empty() ? "" : ", ") + in_quotes(one);
          named->fail("rope type " + in_quotes(*kind) + " is not implemented; only " + known + " are");
        }
      }
    }
    return kind.value_or("default");
  }

  /// A number of the blocks, also of the config itself when it has a name there.
  std::optional<Json> find(const char* name, const char* flat = nullptr) const {
    std::optional<Json> found = flat != nullptr ? config_.find(flat) : std::nullopt;
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

  /// A positive number; that of a missing field is `default_value`, without which the field is required.
  double positive(const char* name, std::optional<double> default_value = {}, const char* flat = nullptr) const {
    const auto found = find(name, flat);
    if (!found && default_value) return *default_value;
    const Json value = found ? *found : blocks_.back().at(name);
    const double number = value.number();
    if (!(number > 0 && static_cast<float>(number) > 0 && number <= std::numeric_limits<float>::max())) {
      value.fail("must be a positive float");
    }
    return number;
  }
  /// The same of a field of which 0 means that it is missing, too.
  double positive_or_default(const char* name, double default_value) const {
    const auto found = find(name);
    return found && found->number() == 0 ? default_value : positive(name, default_value);
  }
  /// A list of so many numbers.
  Json list(const char* name, int size) const {
    const Json value = blocks_.back().at(name);
    if (!value.is_array() || value.size() != static_cast<std::size_t>(size)) {
      value.fail("must list " + std::to_string(size) + " numbers, one for each pair that RoPE turns");
    }
    return value;
  }
  double theta(double default_value) const {
    const auto found = find("rope_theta", theta_name_);
    const double theta = found ? found->number() : default_value;
    if (!(theta > 1 && theta < 1e12)) found->fail("must lie between 1 and 1e12");
    return theta;
  }
  bool boolean(const char* name, bool default_value) const {
    for (const Json& block : blocks_) {
      if (const auto found = block.find(name)) default_value = found->boolean();
    }
    return default_value;
  }

 private:
  const Json& config_;
  const char* theta_name_ = "rope_theta";  // of the config itself
  std::vector<const char*> kinds_ = {"default", "linear", "llama3", "yarn", "longrope"};
  std::vector<Json> blocks_;
};

Llama3Scaling read_llama3(const RopeFields& fields) {
  const auto number = [&](const char* name) { return static_cast<float>(fields.positive(name)); };
  const Llama3Scaling result = {number("factor"), number("low_freq_factor"), number("high_freq_factor"),
                                number("original_max_position_embeddings")};
  if (!(result.high_factor >= result.low_factor)) {
    fields.find("high_freq_factor")->fail("must not be below low_freq_factor; between the two frequencies go over");
  }
  return result;
}

/// 1, or more the longer the context becomes.
double yarn_magnitude(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * log64(factor) + 1; }

YarnScaling read_yarn(const Json& config, const RopeFields& fields) {
  const auto context = static_cast<double>(config.at("max_position_embeddings").integer(1, std::int64_t{1} << 40));
  YarnScaling result;
  constexpr const char* original = "original_max_position_embeddings";
  result.original_context = fields.positive(original, context, original);
  result.factor = fields.positive("factor", context / result.original_context);
  result.beta_fast = fields.positive_or_default("beta_fast", result.beta_fast);
  result.beta_slow = fields.positive_or_default("beta_slow", result.beta_slow);
  if (result.beta_fast < result.beta_slow) {
    fields.find("beta_slow").value_or(config).fail("must not be above beta_fast");
  }
  result.truncate = fields.boolean("truncate", true);
  const auto weight = [&](const char* name) { return fields.positive_or_default(name, 0); };
  const bool both = weight("mscale") != 0 && weight("mscale_all_dim") != 0;
  const double default_value =
      both ? yarn_magnitude(result.factor, weight("mscale")) / yarn_magnitude(result.factor, weight("mscale_all_dim"))
           : yarn_magnitude(result.factor, 1);
  result.magnitude = fields.positive("attention_factor", default_value);
  return result;
}

/// Of the two lists of factors the short one is for texts up to the original context. Which of them a row has may not
/// depend on rows behind it, so one list is chosen when the model is loaded (LoadOptions::long_context).
Rope read_longrope(const Json& config, const RopeFields& fields, double theta, int width) {
  Rope rope = default_rope(theta, width);
  rope.kind = "longrope";
  rope.long_frequencies = rope.frequencies;
  for (const auto& [name, frequencies] :
       {std::pair("short_factor", &rope.frequencies), {"long_factor", &rope.long_frequencies}}) {
    const Json factors = fields.list(name, width / 2);
    for (std::size_t j = 0; j < frequencies->size(); ++j) {
      const auto by = static_cast<float>(factors[j].number());
      if (!(by > 0 && by <= std::numeric_limits<float>::max())) factors[j].fail("must be a positive float");
      (*frequencies)[j] /= by;
    }
  }
  const auto context = static_cast<double>(config.at("max_position_embeddings").integer(1, std::int64_t{1} << 40));
  constexpr const char* name = "original_max_position_embeddings";
  rope.context = static_cast<int>(std::min(fields.positive(name, {}, name), 1e9));
  const double factor = fields.positive("factor", context / rope.context);
  const double magnitude = factor <= 1 ? 1 : std::sqrt(1 + log64(factor) / log64(rope.context));
  rope.factor = static_cast<float>(fields.positive("attention_factor", magnitude));
  return rope;
}

Rope rope_of(const Json& config, const RopeFields& fields, double theta, int width) {
  const std::string kind = fields.kind();
  if (kind == "linear") return linear_rope(theta, width, fields.positive("factor"));
  if (kind == "llama3") return llama3_rope(theta, width, read_llama3(fields));
  if (kind == "yarn") return yarn_rope(theta, width, read_yarn(config, fields));
  if (kind == "longrope") return read_longrope(config, fields, theta, width);
  return default_rope(theta, width);
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
  rope.theta = theta;
  for (int j = 0; j < width / 2; ++j) {
    rope.frequencies.push_back(static_cast<float>(1.0 / power64(theta, 2.0 * j / width)));
  }
  return rope;
}

Rope proportional_rope(double theta, int width, double part, double factor) {
  Rope rope = linear_rope(theta, width, factor);
  rope.kind = "proportional";
  const auto turned = static_cast<std::size_t>(std::floor(part * width / 2));
  for (std::size_t j = turned; j < rope.frequencies.size(); ++j) rope.frequencies[j] = 0;
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
    if (scaling.low_factor == scaling.high_factor || wavelength > scaling.original_context / scaling.low_factor) {
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
  const RopeFields fields(config);
  return rope_of(config, fields, fields.theta(default_theta), width);
}

double read_score_factor(const Json& config) {
  const RopeFields fields(config);
  const double weight = fields.positive_or_default("mscale_all_dim", 0);
  if (fields.kind() == "default" || weight == 0) return 1;
  const double magnitude = yarn_magnitude(fields.positive("factor"), weight);
  return magnitude * magnitude;
}

Rope read_rope(const Json& config, int width, const LayerTypeRope& of) {
  const RopeFields fields(config, of);
  const double theta = fields.theta(of.theta);
  const double part = fields.positive("partial_rotary_factor", 1);
  if (part > 1) fields.find("partial_rotary_factor")->fail("must lie above 0 and not above 1");
  if (fields.kind() == "proportional") return proportional_rope(theta, width, part, fields.positive("factor", 1));
  if (part != 1) fields.find("partial_rotary_factor")->fail("is implemented for 'proportional' RoPE only");
  return rope_of(config, fields, theta, width);
}

}  // namespace draftproof
