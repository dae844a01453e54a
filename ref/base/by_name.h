// SPDX-License-Identifier: MIT
// Looks up an element of a list by its member `name`. Elements are values, or pointers to them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "ref/base/error.h"

namespace draftproof {

template <class T>
std::string_view name_in(const T& element) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return element->name;
  } else {
    return element.name;
  }
}

/// Returns nullptr when no element has the name.
template <class T>
const T* find_by_name(std::span<const T> list, std::string_view name) noexcept {
  for (const T& element : list) {
    if (name_in(element) == name) return &element;
  }
  return nullptr;
}

/// Throws Error "WHAT 'NAME' is not known; there are A, B, C" when no element has the name.
template <class T>
const T& by_name(std::span<const T> list, std::string_view name, std::string_view what) {
  if (const T* const found = find_by_name(list, name)) return *found;
  std::string known;
  for (const T& element : list) known += (known.empty() ? "" : ", ") + std::string(name_in(element));
  throw Error(std::string(what) + " '" + std::string(name) + "' is not known; there are " + known);
}

}  // namespace draftproof
