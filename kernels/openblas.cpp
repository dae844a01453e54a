// SPDX-License-Identifier: MIT
// The numerics class "openblas": matmul by cblas_sgemm. It serves as an independent second implementation, and is the
// default where no vector table exists. All other entries are those of the best canonical table.
//
// OpenBLAS guarantees nothing about rows: for several of its core types the bits of sgemm depend on the number of rows
// and threads, and sgemv never equals sgemm (measured, version 0.3.21). So every call has one shape: eight rows, padded
// with zero rows. This was measured to be safe on SkylakeX, Cooperlake, Prescott and Haswell; at 16 and more rows
// Haswell's sgemm works in blocks of 12 rows, and a row's bits depend on its place. Outputs are split at fixed
// multiples of 64 and inputs at fixed multiples of 1024 (partial sums stay in the output tile), both from the start of
// the weight, never by the requested range or the number of threads. OpenBLAS uses one thread; operations.h runs our
// threads over the outputs. keeps_row_law checks all this before first use.
//
// 8 * 64 * 1024 is below a million. Up to a million, and up to 1200 terms per sum, OpenBLAS reads the weights of such a
// product in place (on SkylakeX and Cooperlake; other core types differ); beyond that it copies them first, which gives
// other bits. So two tile heights, a small one for few rows and a tall one for many, would break the row law where
// inputs or outputs are left over; and a tile across that border costs up to four times as much.
//
// The library is opened at first use, not linked, because it reads two of its settings from the environment while it
// loads: the number of threads, and OPENBLAS_CORETYPE. Debian's build knows the CPUs of its time and falls back to
// "Prescott" (SSE3, a fifth of the speed) on newer ones. So when the user sets no core type, we set the one for the
// instruction set, which is also the one that detection gives on CPUs that it knows.
#include "kernels/openblas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <sys/mman.h>

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

/// Sets an environment variable for the lifetime of the object, unless the user has set it.
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

/// Returns the core type for this CPU's instruction set; nullptr where OpenBLAS's own choice is as good.
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
    if (!has_room()) {
      sgemm = nullptr;
      problem = "OpenBLAS needs 128 MiB at once, and the limit on memory does not leave them: raise it.";
      return;
    }
    if (core == "Prescott" && fitting_core() != nullptr) {
      problem = "OpenBLAS runs its slow Prescott kernels on a CPU that can do more: set " + std::string(core_variable) +
                "=" + fitting_core() + ".";
    }
  }

 private:
  /// OpenBLAS asks for its buffer with its first product, and for ever when it does not get it.
  static bool has_room() noexcept {
    constexpr std::size_t bytes = std::size_t{129} << 20;
    void* const buffer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) return false;
    munmap(buffer, bytes);
    return true;
  }
  static void* open() noexcept {
    const Suggestion threads(threads_variable, "1");
    if (fitting_core() == nullptr) return dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    const Suggestion core(core_variable, fitting_core());
    return dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  }
};

/// Loads the library once. It is never unloaded, because its threads and thread-local memory leave no safe moment for
/// it.
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

/// Packed activations are tiles of rows, the last one padded with zero rows: [tile][ceil(inputs /
/// tile_inputs)][tile_rows][its inputs].
std::size_t activation_bytes(ActivationFormat, int rows, int inputs) noexcept {
  const std::size_t padded = static_cast<std::size_t>(rows + tile_rows - 1) / tile_rows * tile_rows;
  return padded * static_cast<std::size_t>(inputs) * sizeof(float);
}

void pack_activations(ActivationFormat, const float* x, std::ptrdiff_t x_stride, int rows, int inputs, int begin,
                      int end, void* activations) noexcept {
  for (int r = 0; r < rows + tile_rows - 1 - (rows - 1) % tile_rows; ++r) {
    const auto first_row = static_cast<std::ptrdiff_t>(r / tile_rows * tile_rows);
    float* const tile = static_cast<float*>(activations) + first_row * inputs;
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

Kernels table_of(const Kernels& others) noexcept {
  Kernels table = others;
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
