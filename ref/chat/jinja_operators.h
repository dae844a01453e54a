// SPDX-License-Identifier: MIT
// Python's arithmetic on values. Integers have 64 bits: a result beyond them is refused.
#pragma once

#include "ref/chat/jinja_builtins.h"
#include "ref/chat/jinja_syntax.h"

namespace draftproof::jinja {

/// `sign` is not one of the logical operators. Throws Error for types without this operation.
Value arithmetic(BinaryOperator sign, const Value& left, const Value& right, Rendering& rendering);
Value negative(const Value& value);
Value positive(const Value& value);

}  // namespace draftproof::jinja
