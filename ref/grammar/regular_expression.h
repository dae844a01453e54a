// SPDX-License-Identifier: MIT
// Regular expressions as JSON schemas have them: those of ECMAScript, with the flag u. Groups, classes, counts, anchors
// and escapes; lazy counts match the same texts. Lookaround, references to groups, word boundaries, properties of
// Unicode and flags are errors that name them.
#pragma once

#include <string_view>

#include "ref/grammar/regular_language.h"

namespace draftproof {

/// The texts in which the expression matches somewhere. Throws Error, without saying where, for an expression that is
/// none, or needs what is not supported, or is too complex.
RegularLanguage texts_matching(std::string_view expression);

}  // namespace draftproof
