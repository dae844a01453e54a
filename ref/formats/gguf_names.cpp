// SPDX-License-Identifier: MIT
#include "ref/formats/gguf_names.h"

namespace draftproof {
namespace {

constexpr std::string_view gguf_layers = "blk.";

/// The dot before "weight" or "bias"; npos when the name ends otherwise.
std::size_t ending_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view ending = dot == std::string_view::npos ? "" : name.substr(dot);
  return ending == ".weight" || ending == ".bias" ? dot : std::string_view::npos;
}

/// Translates a name inside of a layer, or outside of all, from the spelling `from` to the spelling `to`; returns an
/// empty name when the table does not have it.
GgufTranslation translated(std::span<const GgufName> names, std::string_view name, const char* GgufName::*from,
                           const char* GgufName::*to) {
  const std::size_t dot = ending_of(name);
  for (const GgufName& row : names) {
    if (row.whole && name == row.*from) return {row.*to, row.in_heads};
    if (!row.whole && dot != std::string_view::npos && name.substr(0, dot) == row.*from) {
      return {row.*to + std::string(name.substr(dot)), row.in_heads};
    }
  }
  return {};
}

/// Splits "<before>3.rest" at the number; returns the number with its dot, or nothing.
std::string_view layer_of(std::string_view name, std::string_view before) {
  if (!name.starts_with(before)) return {};
  name.remove_prefix(before.size());
  const std::size_t end = name.find('.');
  if (end == std::string_view::npos) return {};
  const std::string_view number = name.substr(0, end);
  const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos &&
                         (number == "0" || number[0] != '0');
  return is_number ? name.substr(0, end + 1) : std::string_view();
}

/// Translates a whole name between two spellings, in which names of layers begin differently.
GgufTranslation translated(const GgufNames& table, std::string_view name, std::string_view layers_from,
                           std::string_view layers_to, const char* GgufName::*from, const char* GgufName::*to) {
  const std::string_view layer = layer_of(name, layers_from);
  if (layer.empty()) return translated(table.whole, name, from, to);
  GgufTranslation found = translated(table.layer, name.substr(layers_from.size() + layer.size()), from, to);
  if (!found.name.empty()) found.name = std::string(layers_to) + std::string(layer) + found.name;
  return found;
}

}  // namespace

GgufTranslation translated(const GgufNames& table, const std::string& name) {
  return translated(table, name, gguf_layers, table.layers, &GgufName::gguf, &GgufName::hugging_face);
}

std::string name_in_gguf(const GgufNames& table, const std::string& hugging_face) {
  const std::string found =
      translated(table, hugging_face, table.layers, gguf_layers, &GgufName::hugging_face, &GgufName::gguf).name;
  return found.empty() ? hugging_face : found;
}

}  // namespace draftproof
