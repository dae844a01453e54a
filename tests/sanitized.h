// SPDX-License-Identifier: MIT
// Whether this build watches itself: a sanitizer takes address space and memory of its own and answers signals first,
// so what is measured or limited by them says nothing.
#pragma once

namespace draftproof::test {

#if defined(__has_feature)  // clang++
inline constexpr bool threads_sanitized = __has_feature(thread_sanitizer);
inline constexpr bool sanitized = threads_sanitized || __has_feature(address_sanitizer);
#else
#if defined(__SANITIZE_THREAD__)  // g++
inline constexpr bool threads_sanitized = true;
#else
inline constexpr bool threads_sanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = threads_sanitized;
#endif
#endif

}  // namespace draftproof::test
