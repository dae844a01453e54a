// SPDX-License-Identifier: MIT
// Plain loops, compiled once per vector width. All versions give equal bits, because nothing is contracted to FMA.
#pragma once

#if defined(__has_feature)
// clang 19 leaves out inline functions that only versions call, where these sanitizers keep it from inlining them.
#if __has_feature(coverage_sanitizer) || __has_feature(thread_sanitizer)
#define DRAFTPROOF_FOR_EACH_WIDTH
#endif
#endif

#if defined(DRAFTPROOF_FOR_EACH_WIDTH)
#elif defined(__SANITIZE_THREAD__)  // the choice of a version runs before the sanitizer has set itself up
#define DRAFTPROOF_FOR_EACH_WIDTH
#elif defined(__x86_64__) && defined(__clang__)  // it takes "arch=" for the name of one CPU
#define DRAFTPROOF_FOR_EACH_WIDTH __attribute__((target_clones("default", "avx2", "avx512bw")))
#elif defined(__x86_64__)
#define DRAFTPROOF_FOR_EACH_WIDTH __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define DRAFTPROOF_FOR_EACH_WIDTH
#endif
