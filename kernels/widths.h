// SPDX-License-Identifier: MIT
// Plain loops, compiled once per vector width. All versions give equal bits, because nothing is contracted to FMA.
#pragma once

// No versions under these sanitizers: that of threads has not set itself up when a version is chosen, and with either
// clang 19 leaves out inline functions that only versions call.
#if defined(__SANITIZE_THREAD__)
#define DRAFTPROOF_ONE_VERSION
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(coverage_sanitizer)
#define DRAFTPROOF_ONE_VERSION
#endif
#endif

#if defined(DRAFTPROOF_ONE_VERSION)
#define DRAFTPROOF_FOR_EACH_WIDTH
#elif defined(__x86_64__) && defined(__clang__)  // it takes "arch=" for the name of one CPU
#define DRAFTPROOF_FOR_EACH_WIDTH __attribute__((target_clones("default", "avx2", "avx512bw")))
#elif defined(__x86_64__)
#define DRAFTPROOF_FOR_EACH_WIDTH __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define DRAFTPROOF_FOR_EACH_WIDTH
#endif
