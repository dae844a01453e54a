// SPDX-License-Identifier: MIT
// A libopenblas.so.0 that breaks the row law: every row of a product receives a little of the row below it. With
// CROSSED_INPUTS set, only products with that many inputs are wrong, as when a library has special paths for some
// sizes. With CROSSED_CALLS set, only the first calls are, as with a data race. `verify` must find it; the rest of the
// engine is correct.
#include <cblas.h>

#include <atomic>
#include <cstdlib>

extern "C" {

char* openblas_get_corename() {
  static char name[] = "CrossedRows";
  return name;
}

void openblas_set_num_threads(int) {}

// As our table asks: row major, B transposed, C added to.
void cblas_sgemm(CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint m, blasint n, blasint k, float, const float* a,
                 blasint lda, const float* b, blasint ldb, float, float* c, blasint ldc) {
  static const char* const inputs = std::getenv("CROSSED_INPUTS");
  static const char* const calls = std::getenv("CROSSED_CALLS");
  static std::atomic<long> call = 0;
  const bool chosen = inputs == nullptr || std::atoi(inputs) == k;
  const bool crossed = chosen && (calls == nullptr || ++call <= std::atol(calls));
  for (blasint row = 0; row < m; ++row) {
    for (blasint output = 0; output < n; ++output) {
      float sum = crossed && row + 1 < m ? a[(row + 1) * lda] / 16 : 0;
      for (blasint i = 0; i < k; ++i) sum += a[row * lda + i] * b[output * ldb + i];
      c[row * ldc + output] += sum;
    }
  }
}

}  // extern "C"
