// SPDX-License-Identifier: MIT
// The numerics class "openblas": matmul by cblas_sgemm, an independent second opinion and the default where no vector
// table exists. Every other entry is the best canonical table's.
//
// OpenBLAS promises nothing about rows: the bits of sgemm depend on the number of rows and threads for several of its
// core types, and sgemv never equals sgemm (measured, version 0.3.21). So every call has one shape. Eight rows, padded
// with zero rows: measured safe on SkylakeX, Cooperlake, Prescott and Haswell; at 16 and more rows Haswell's sgemm
// works in blocks of 12, and a row's bits depend on where it stands. Outputs are cut at fixed multiples of 64, inputs
// at fixed multiples of 1024 (sums rest in the output tile in between), both from the start of the weight and never by
// the range or the threads asked for. One BLAS thread; operations.h runs ours over the outputs. keeps_row_law holds
// all this to its promise before first use.
//
// 8 * 64 * 1024 is below a million: up to there, and up to 1200 sums, OpenBLAS reads the weights of such a
// product where they lie (on SkylakeX and Cooperlake; it has other ways elsewhere) and beyond it copies them first, for
// other bits. So two heights, a small one for few rows and a tall one for many, would break the law where inputs or
// outputs are left over; and a tile across the border costs up to four times as much.
//
// The library is opened at first use, not linked, because two of its settings are read from the environment while it
// loads: the number of threads, and OPENBLAS_CORETYPE. Debian's build knows the CPUs of its day and falls back to
// "Prescott" (SSE3, a fifth of the speed) on newer ones; so when the user names no core type, we name the one for the
// instruction set, which is also what detection gives on CPUs that it knows.
#include "kernels/openblas.h"

#include <cblas.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/tables.h"

namespace draftproof {
namespace {

constexpr int tile_rows = 8;
constexpr int tile_outputs = 64;
constexpr int tile_inputs = 1024;

constexpr const char* core_variable = "OPENBLAS_CORETYPE";
constexpr const char* threads_variable = "OPENBLAS_NUM_THREADS";

/// Sets a variable of the environment for the life of the object, unless the user has set it.
class Suggestion {
 public:
  Suggestion(const char* name, const char* value) noexcept : name_(name), ours_(std::getenv(name) == nullptr) {
    if (ours_) setenv(name, value, 1);
  }
  ~Suggestion() {
    if (ours_) unsetenv(name_);
  }
  Suggestion(const Suggestion&) = delete;
  Suggestion& operator=(const Suggestion&) = delete;

 private:
  const char* name_;
  bool ours_;
};

/// The core type for this CPU's instruction set; nullptr where OpenBLAS's own choice is as good.
const char* fitting_core() noexcept {
  if (cpu_has_avx512()) return "SkylakeX";
  if (cpu_has_avx2()) return "Haswell";
  return nullptr;
}

struct Library {
  decltype(&cblas_sgemm) sgemm = nullptr;
  std::string core = "none";
  std::string problem;

  Library() {
    void* handle = open();
    if (handle == nullptr) {
      problem = "OpenBLAS (libopenblas.so.0) cannot be loaded: install the Debian package libopenblas0.";
      return;
    }
    sgemm = reinterpret_cast<decltype(sgemm)>(dlsym(handle, "cblas_sgemm"));
    const auto name_core = reinterpret_cast<decltype(&openblas_get_corename)>(dlsym(handle, "openblas_get_corename"));
    const auto set_threads =
        reinterpret_cast<decltype(&openblas_set_num_threads)>(dlsym(handle, "openblas_set_num_threads"));
    if (sgemm == nullptr || name_core == nullptr || set_threads == nullptr) {
      sgemm = nullptr;
      problem = "libopenblas.so.0 lacks cblas_sgemm: install the Debian package libopenblas0.";
      return;
    }
    set_threads(1);
    core = name_core();
    if (core == "Prescott" && fitting_core() != nullptr) {
      problem = "OpenBLAS runs its slow Prescott kernels on a CPU that can do more: set " + std::string(core_variable) +
                "=" + fitting_core() + ".";
    }
  }

 private:
  static void* open() noexcept {
    const Suggestion threads(threads_variable, "1");
    if (fitting_core() == nullptr) return dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    const Suggestion core(core_variable, fitting_core());
    return dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  }
};

/// Loaded once, never unloaded: its threads and thread-local memory outlive any safe moment to do so.
const Library& library() {
  static const Library* const loaded = new Library();
  return *loaded;
}

bool supported() noexcept { return library().sgemm != nullptr; }

std::size_t packed_bytes(Format, int outputs, int inputs) noexcept {
  return static_cast<std::size_t>(outputs) * static_cast<std::size_t>(inputs) * sizeof(float);
}

void pack(const MatrixView& rows, int first, void* packed) noexcept {
  const std::size_t width = static_cast<std::size_t>(rows.inputs);
  float* to = static_cast<float*>(packed) + width * static_cast<std::size_t>(first);
  const auto* from = static_cast<const std::byte*>(rows.data);
  for (int n = 0; n < rows.outputs; ++n) {
    dequantize_row(rows.format, from, rows.inputs, to);
    for (std::size_t k = 0; k < width; ++k) to[k] = std::fabs(to[k]) < 0x1p-126f ? std::copysign(0.0f, to[k]) : to[k];
    from += row_bytes(rows.format, rows.inputs);
    to += width;
  }
}

void unpack_row(const PackedView& matrix, int output, float* row) noexcept {
  const std::size_t width = static_cast<std::size_t>(matrix.inputs);
  std::memcpy(row, static_cast<const float*>(matrix.data) + width * static_cast<std::size_t>(output),
              width * sizeof(float));
}

ActivationFormat activation_format(Format) noexcept { return ActivationFormat::floats; }

/// Tiles of rows, the last one filled up with zero rows: [tile][ceil(inputs / tile_inputs)][tile_rows][its inputs].
std::size_t activation_bytes(ActivationFormat, int rows, int inputs) noexcept {
  const std::size_t padded = static_cast<std::size_t>(rows + tile_rows - 1) / tile_rows * tile_rows;
  return padded * static_cast<std::size_t>(inputs) * sizeof(float);
}

void pack_activations(ActivationFormat, const float* x, std::ptrdiff_t x_stride, int rows, int inputs, int begin, int end,
             void* activations) noexcept {
  for (int r = 0; r < rows + tile_rows - 1 - (rows - 1) % tile_rows; ++r) {
    float* const tile = static_cast<float*>(activations) + static_cast<std::ptrdiff_t>(r / tile_rows * tile_rows) * inputs;
    for (int k = begin; k < end;) {
      const int first = k / tile_inputs * tile_inputs;
      const int width = inputs - first < tile_inputs ? inputs - first : tile_inputs;
      const int last = end < first + width ? end : first + width;
      float* const to = tile + static_cast<std::ptrdiff_t>(first) * tile_rows + (r % tile_rows) * width - first;
      for (; k < last; ++k) to[k] = r < rows ? x[r * x_stride + k] : 0;
    }
  }
}

void matmul(const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t y_stride, int begin,
            int end) noexcept {
  const auto sgemm = library().sgemm;
  const float* weights = static_cast<const float*>(w.data);
  const std::ptrdiff_t width = w.inputs;
  alignas(64) float y_tile[tile_rows * tile_outputs];
  for (int n = begin; n < end; n += tile_outputs) {
    const int outputs = end - n < tile_outputs ? end - n : tile_outputs;
    for (int r = 0; r < rows; r += tile_rows) {
      const float* const x = static_cast<const float*>(activations) + r * width;
      std::memset(y_tile, 0, sizeof y_tile);
      for (int k = 0; k < w.inputs; k += tile_inputs) {
        const int inputs = w.inputs - k < tile_inputs ? w.inputs - k : tile_inputs;
        sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, tile_rows, outputs, inputs, 1.0f,
              x + std::ptrdiff_t{k} * tile_rows, inputs, weights + n * width + k, w.inputs, 1.0f, y_tile, tile_outputs);
      }
      const int present = rows - r < tile_rows ? rows - r : tile_rows;
      for (int row = 0; row < present; ++row) {
        std::memcpy(y + (r + row) * y_stride + n, y_tile + row * tile_outputs,
                    sizeof(float) * static_cast<unsigned>(outputs));
      }
    }
  }
}

Kernels table_of(const Kernels& rest) noexcept {
  Kernels table = rest;
  table.name = "openblas";
  table.numerics = "openblas";
  table.unit = tile_outputs;
  table.supported = supported;
  table.packed_bytes = packed_bytes;
  table.pack = pack;
  table.unpack_row = unpack_row;
  table.activation_format = activation_format;
  table.activation_bytes = activation_bytes;
  table.pack_activations = pack_activations;
  table.matmul = matmul;
  return table;
}

}  // namespace

const char* openblas_core() noexcept { return library().core.c_str(); }

const char* openblas_problem() noexcept { return library().problem.c_str(); }

const Kernels* openblas_kernels() noexcept {
  static const Kernels table = table_of(best_kernels());
  return &table;
}

}  // namespace draftproof
