// SPDX-License-Identifier: MIT
// Whether this build watches itself: a sanitizer takes address space and memory of its own and answers signals first,
// so what is measured or limited by them says nothing.
#pragma once

namespace draftproof::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace draftproof::test
