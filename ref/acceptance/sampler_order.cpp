// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampler_order.h"

#include <algorithm>
#include <utility>

#include "ref/base/error.h"

namespace draftproof {
namespace {

using enum SamplerStep;

constexpr std::pair<std::string_view, SamplerStep> other_names[] = {
    {"nucleus", top_p}, {"typical_p", typ_p}, {"typical", typ_p}, {"typ", typ_p}, {"temp", temperature}};

/// Adds a step that is not there yet.
void add(std::vector<SamplerStep>& steps, SamplerStep step) {
  if (std::ranges::find(steps, step) != steps.end()) throw Error(std::string(name_of(step)) + " is listed twice");
  steps.push_back(step);
}

}  // namespace

const char* name_of(SamplerStep step) noexcept {
  switch (step) {
    case penalties: return "penalties";
    case dry: return "dry";
    case temperature: return "temperature";
    case top_n_sigma: return "top_n_sigma";
    case top_k: return "top_k";
    case top_p: return "top_p";
    case min_p: return "min_p";
    case typ_p: return "typ_p";
    case xtc: return "xtc";
  }
  return "unknown";
}

std::optional<SamplerStep> find_sampler_step(std::string_view name) {
  std::string spelled(name);
  std::ranges::replace(spelled, '-', '_');
  for (const SamplerStep step : transformers_order) {
    if (spelled == name_of(step)) return step;
  }
  for (const auto& [other, step] : other_names) {
    if (spelled == other) return step;
  }
  return std::nullopt;
}

SamplerOrder order_from(std::span<const SamplerStep> listed) {
  SamplerOrder order{};
  auto end = std::ranges::copy(listed, order.begin()).out;
  for (const SamplerStep step : transformers_order) {
    if (std::ranges::find(listed, step) == listed.end()) *end++ = step;
  }
  return order;
}

std::vector<SamplerStep> parse_samplers(std::span<const std::string> names) {
  if (names.size() == 1 && names[0] == "llama.cpp") return {llama_cpp_order.begin(), llama_cpp_order.end()};
  if (names.size() == 1 && names[0] == "transformers") return {transformers_order.begin(), transformers_order.end()};
  std::vector<SamplerStep> steps;
  for (const std::string& name : names) {
    const auto step = find_sampler_step(name);
    if (!step) {
      std::string known;
      for (const SamplerStep each : llama_cpp_order) known += std::string(known.empty() ? "" : ", ") + name_of(each);
      throw Error("there is no sampler " + name + "; the names are " + known +
                  ", or alone that of an order: llama.cpp, transformers");
    }
    add(steps, *step);
  }
  return steps;
}

std::vector<SamplerStep> parse_kobold_order(std::span<const int> numbers) {
  std::vector<SamplerStep> steps = {dry};
  for (const int number : numbers) {
    switch (number) {
      case 0: add(steps, top_k); break;
      case 1:
      case 3: break;  // top-a and tail-free sampling, which are off
      case 2:
        add(steps, top_p);
        add(steps, min_p);
        break;
      case 4: add(steps, typ_p); break;
      case 5:
        add(steps, temperature);
        add(steps, top_n_sigma);
        break;
      case 6: add(steps, penalties); break;
      default: throw Error(std::to_string(number) + " is no sampler; the numbers are 0 to 6");
    }
  }
  add(steps, xtc);
  return steps;
}

}  // namespace draftproof
