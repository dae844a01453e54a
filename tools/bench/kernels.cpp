// SPDX-License-Identifier: MIT
// Each operation by itself, at several numbers of rows. There are as many weights, keys and values as in a model, and
// they are used in rotation, so that the CPU caches never hold the ones needed next.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "kernels/operations.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tools/bench/bench.h"
#include "tools/statistics.h"
#include "tools/synthetic.h"

namespace draftproof {
namespace {

constexpr double rotating_bytes = 450e6;         // more than the caches of a CPU hold
constexpr double bytes_at_once = 40e6;           // one measurement repeats the operation until this much is read
constexpr double multiplications_at_once = 2e9;  // or until this many multiplications are done
constexpr const char* operation_names[] = {"matmul", "attention", "rms_norm", "rope", "silu_multiply", "add"};

// The shapes of Qwen3-0.6B.
constexpr int hidden = 1024;
constexpr int intermediate = 3072;
constexpr int model_layers = 28;
constexpr AttentionShape attention_shape = {16, 8, 128, 0.088388348F};

struct BenchKernelsOptions {
  BenchOptions bench;
  std::string kernels;
  std::vector<std::string> operations{std::begin(operation_names), std::end(operation_names)};
  std::vector<std::string> types;
  std::vector<int> rows{1, 2, 4, 8, 16, 32, 64, 128, 512};
  std::vector<int> contexts{64, 512, 2048};
  int outputs = intermediate;
  int inputs = hidden;
};

struct KernelLine {
  std::string operation;
  std::string variant;
  int rows;
  int index;
  Work work;
};

std::vector<float> random_floats(std::size_t count, std::uint64_t key) {
  std::vector<float> values(count);
  synthesize({"", Format::f32, 1, static_cast<int>(count), key}, 0, 1, values.data());
  return values;
}

/// Lines that are timed together, interleaved, and their operands.
class KernelGroup {
 public:
  KernelGroup(const BenchKernelsOptions& options, const Kernels& kernels, const Roofline& roofline)
      : options_(options), kernels_(kernels), timer_(roofline) {}

  void run() { timer_.run(options_.bench); }
  const InterleavedTimer& timer() const { return timer_; }
  const std::vector<KernelLine>& lines() const { return lines_; }

  void add_matmuls(Format format) {
    const int inputs = options_.inputs;
    const int outputs = options_.outputs;
    const auto bytes = static_cast<double>(kernels_.packed_bytes(format, outputs, inputs));
    std::vector<std::byte> rows(row_bytes(format, inputs) * static_cast<std::size_t>(outputs));
    synthesize({"", format, outputs, inputs, 1}, 0, outputs, rows.data());
    const MatrixView view = {rows.data(), format, outputs, inputs};
    const int copies = static_cast<int>(rotating_bytes / bytes) + 1;
    for (int i = 0; i < copies; ++i) weights_.emplace_back(kernels_, std::span(&view, 1));
    const std::size_t max = static_cast<std::size_t>(*std::max_element(options_.rows.begin(), options_.rows.end()));
    x_ = random_floats(max * static_cast<std::size_t>(inputs), 2);
    y_.resize(max * static_cast<std::size_t>(outputs));
    for (const int count : options_.rows) {
      Work work = {.bytes = bytes};
      work.multiply(kernels_.activation_format(format), 1.0 * count * outputs * inputs);
      add("matmul", traits(format).name, count, work, [this, count](int call) {
        const PackedMatrix& w = weights_[static_cast<std::size_t>(call) % weights_.size()];
        pack_activations(kernels_, w, x_.data(), w.inputs(), count, activations_);
        matmul(kernels_, w, activations_, y_.data(), w.outputs());
      });
    }
  }

  void add_attention(int context, KvFormat format) {
    const int max = *std::max_element(options_.rows.begin(), options_.rows.end());
    const int blocks = (context + max + lanes - 1) / lanes;
    const std::size_t bytes = key_values_bytes(format, attention_shape.kv_heads, attention_shape.head_dim, blocks);
    const int kv_width = attention_shape.kv_heads * attention_shape.head_dim;
    const std::vector<float> row = random_floats(static_cast<std::size_t>(kv_width), 3);
    for (int i = 0; i < model_layers; ++i) {
      kv_.push_back(allocate_aligned(bytes));
      layers_.push_back(
          key_values_in(kv_.back().get(), format, attention_shape.kv_heads, attention_shape.head_dim, blocks));
      const StoreJob job = {&layers_.back(), 0, context + max, row.data(), row.data()};
      store(std::span(&job, 1), 0);
    }
    constexpr int width = attention_shape.heads * attention_shape.head_dim;
    x_ = random_floats(static_cast<std::size_t>(max) * width, 2);
    y_.resize(x_.size());
    for (int r = 0; r < max; ++r) visible_.push_back({0, context + r + 1});
    scratch_.reserve(attention_shape, max, context + max);
    for (const int count : options_.rows) {
      const double seen = context + 0.5 * (count + 1);  // positions, on average over the rows
      const double read = static_cast<double>(bytes) / (blocks * lanes) * (context + count);
      const Work work = {read, 2.0 * count * seen * width, 0};
      const std::string variant = fmt::format("{}, context {}", traits(format).name, context);
      add("attention", variant, count, work, [this, count](int call) {
        const AttentionJob job = {&layers_[call % model_layers], x_.data(), visible_.data(), count, y_.data()};
        attention(kernels_, attention_shape, std::span(&job, 1), width, scratch_);
      });
    }
  }

  void add_row_operations(const std::string& name) {
    const int max = *std::max_element(options_.rows.begin(), options_.rows.end());
    x_ = random_floats(static_cast<std::size_t>(max) * 2 * intermediate, 2);
    y_ = x_;
    weight_ = random_floats(hidden, 3);
    ones_.assign(x_.size(), 1);  // cosines and sines of a rotation by 0
    zeros_.assign(x_.size(), 0);
    for (const int count : options_.rows) {
      const double values = 1.0 * count * (name == "silu_multiply" ? 3 * intermediate : 2 * hidden);
      add(name, "", count, {values * sizeof(float), 0, 0}, [this, name, count](int) { row_operation(name, count); });
    }
  }

 private:
  void row_operation(const std::string& name, int count) {
    constexpr float epsilon = 1e-6F;
    if (name == "rms_norm") {
      for_rows(count, 4.0 * count * hidden, [&](int begin, int end) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(begin) * hidden;
        kernels_.rms_norm(x_.data() + at, hidden, end - begin, 1, hidden, weight_.data(), epsilon, y_.data() + at,
                          hidden);
      });
    } else if (name == "rope") {
      constexpr int half = 64;
      for_rows(count, 4.0 * count * hidden, [&](int begin, int end) {
        kernels_.rope(y_.data() + static_cast<std::ptrdiff_t>(begin) * hidden, hidden, end - begin, hidden / (2 * half),
                      2 * half, half, ones_.data() + begin * half, zeros_.data() + begin * half);
      });
    } else if (name == "silu_multiply") {
      for_inputs(intermediate, 20.0 * count * intermediate, [&](int begin, int end) {
        kernels_.silu_multiply(x_.data(), count, intermediate, begin, end, y_.data());
      });
    } else {
      for_rows(count, 1.0 * count * hidden, [&](int begin, int end) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(begin) * hidden;
        kernels_.add(x_.data() + at, static_cast<std::size_t>(end - begin) * hidden, y_.data() + at);
      });
    }
  }

  /// `once` receives the number of the call, which increases by one each time.
  void add(const std::string& operation, const std::string& variant, int rows, const Work& work,
           std::function<void(int call)> once) {
    const double repeats = std::min(bytes_at_once / work.bytes, multiplications_at_once / (work.multiplications() + 1));
    const int times = static_cast<int>(std::clamp(repeats, 1.0, 1000.0));
    const int index = timer_.add(fmt::format("{} {} {} rows", operation, variant, rows), [this, times, once] {
      const double seconds = timed([&] {
        for (int i = 0; i < times; ++i) once(calls_++);
      });
      return seconds / times;
    });
    lines_.push_back({operation, variant, rows, index, work});
  }

  const BenchKernelsOptions& options_;
  const Kernels& kernels_;
  InterleavedTimer timer_;
  int calls_ = 0;
  std::vector<KernelLine> lines_;
  std::vector<PackedMatrix> weights_;
  std::vector<Aligned<std::byte>> kv_;  // of each layer's keys and values
  std::vector<KeyValues> layers_;
  AttentionScratch scratch_;
  std::vector<Visible> visible_;
  std::vector<float> x_, y_, weight_, ones_, zeros_;
  PackedActivations activations_;
};

std::string heading() {
  return fmt::format("{:<14} {:<14} {:>4}  {:>9}  {:<22}  {:>6}  {:>7}  {:>8}\n", "operation", "", "rows", "ms",
                     "(min..max)", "GB/s", "GFLOP/s", "of limit");
}

std::string text_of(const KernelGroup& group) {
  std::string text;
  for (const KernelLine& line : group.lines()) {
    const Spread time = group.timer().seconds(line.index);
    text += fmt::format("{:<14} {:<14} {:>4}  {:>9.4f}  {:<22}  {:>6.1f}  {:>7.1f}  {:>7.0f}%\n", line.operation,
                        line.variant, line.rows, 1e3 * time.median,
                        fmt::format("({:.4f}..{:.4f})", 1e3 * time.min, 1e3 * time.max),
                        1e-9 * line.work.bytes / time.median, 2e-9 * line.work.multiplications() / time.median,
                        100 * group.timer().seconds_min(line.work) / time.median);
  }
  return text;
}

nlohmann::ordered_json json_of(const KernelGroup& group) {
  nlohmann::ordered_json json = {{"repeats", group.timer().repeats()}, {"limits", group.timer().limits_json()}};
  for (const KernelLine& line : group.lines()) {
    nlohmann::ordered_json entry = {{"operation", line.operation}, {"variant", line.variant}, {"rows", line.rows}};
    entry.update(group.timer().rates_json(line.index, line.work));
    json["operations"].push_back(std::move(entry));
  }
  return json;
}

Exit bench_kernels(const BenchKernelsOptions& options) {
  const BenchOptions& bench = options.bench;
  if (bench.threads > 0) set_threads(bench.threads);
  const Kernels& kernels = kernels_by_name(options.kernels);
  std::vector<Format> types;
  for (const std::string& name : options.types) types.push_back(format_named(name, FormatChoice::all));
  if (types.empty()) {
    for (int i = 0; i < formats; ++i) types.push_back(static_cast<Format>(i));
  }
  for (const Format type : types) {
    if (options.inputs % traits(type).block_inputs != 0) {
      throw Error(fmt::format("--inputs {} must be a multiple of {} for type {}", options.inputs,
                              traits(type).block_inputs, traits(type).name));
    }
  }
  const auto json_file = bench_json_file(bench, {});
  const Roofline roofline(roofline_bytes);
  nlohmann::ordered_json json = {{"command", "bench kernels"},
                                 {"kernels", kernels.name},
                                 {"numerics", kernels.numerics},
                                 {"threads", threads()},
                                 {"groups", nlohmann::ordered_json::array()}};
  if (shows_text(bench)) std::cout << fmt::format("{}, {} threads\n", kernels.name, threads()) << heading();
  const auto measure = [&](const auto& fill) {
    KernelGroup group(options, kernels, roofline);
    fill(group);
    group.run();
    if (shows_text(bench)) std::cout << text_of(group) << group.timer().limits_text() << std::flush;
    json["groups"].push_back(json_of(group));
  };
  with_workers([&] {
    for (const std::string& operation : options.operations) {
      if (operation == "matmul") {
        for (const Format type : types) measure([&](KernelGroup& group) { group.add_matmuls(type); });
      } else if (operation == "attention") {
        for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::q8}) {
          for (const int context : options.contexts) {
            measure([&](KernelGroup& group) { group.add_attention(context, format); });
          }
        }
      } else {
        measure([&](KernelGroup& group) { group.add_row_operations(operation); });
      }
    }
  });
  if (json_file) json_file->write(dumped(json));
  return Exit::pass;
}

}  // namespace

void add_bench_kernels(Command& bench) {
  auto options = std::make_shared<BenchKernelsOptions>();
  Command& command = bench.subcommand("kernels", "each operation by itself");
  command.group("Measurement");
  command.option("--ops NAME", options->operations, "the operations to measure")
      .separator(',')
      .choices({std::begin(operation_names), std::end(operation_names)})
      .show_default();
  command.option("--types", options->types, "types of weights; all when left out: " + format_names(FormatChoice::all))
      .separator(',');
  command.option("--rows", options->rows, "rows of activations").separator(',').range(1, 4096).show_default();
  command.option("--contexts", options->contexts, "positions that attention sees before the rows")
      .separator(',')
      .range(1, 1 << 17)
      .show_default();
  command.option("--outputs", options->outputs, "outputs of the weight of a matmul").range(1, 1 << 18).show_default();
  command.option("--inputs", options->inputs, "inputs of the weight of a matmul").range(1, 1 << 16).show_default();
  add_kernels_option(command, options->kernels);
  add_bench_options(command, options->bench, 7);
  command.action([options] { return bench_kernels(*options); });
}

}  // namespace draftproof
