// SPDX-License-Identifier: MIT
// Whether this build watches itself: a sanitizer takes address space and memory of its own and answers signals first,
// so what is measured or limited by them says nothing.
#pragma once

namespace draftproof::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
inline constexpr bool sanitized = true;
#elif defined(__has_feature)  // clang++
inline constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace draftproof::test
