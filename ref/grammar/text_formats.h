// SPDX-License-Identifier: MIT
// The formats of JSON Schema that texts may be asked to have.
#pragma once

#include <string_view>

#include "ref/grammar/regular_language.h"

namespace draftproof {

struct TextFormat {
  std::string_view name;
  RegularLanguage texts;
  /// Whether these are all texts of the format: of some of them a part is left out, as quoted names of mailboxes.
  bool whole;
};

/// nullptr: none of this name restricts a text here. By the specification a format that is not known is a note.
const TextFormat* find_text_format(std::string_view name);

}  // namespace draftproof
