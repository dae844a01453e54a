// SPDX-License-Identifier: MIT
// draftproof.Model and draftproof.Generation.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "kernels/threads.h"
#include "python/bindings.h"
#include "ref/acceptance/sampler.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/models/models.h"
#include "ref/models/read_text.h"
#include "tools/opened_model.h"
#include "tools/pair.h"

namespace draftproof {
namespace {

namespace py = pybind11;

using Prompt = std::variant<std::string, std::vector<Token>>;

/// A target with its weights, as Python holds it.
class LoadedModel {
 public:
  /// `draft`: of a text that names none.
  LoadedModel(std::string path, std::string draft, const LayoutOptions& layout, int threads)
      : path_(std::move(path)),
        draft_(std::move(draft)),
        opened_({path_, layout, {.number = threads, .max = threads_max}, true}),
        engine_(opened_.load({}, request_of_size(1, 1))) {}

  const std::string& path() const noexcept { return path_; }
  const std::string& draft() const noexcept { return draft_; }
  Engine& engine() noexcept { return engine_; }
  OpenedModel& opened() noexcept { return opened_; }
  Model& target() noexcept { return engine_.target(); }
  const Checkpoint& files() noexcept { return opened_.files().target(); }

  const Tokenizer& tokenizer() {
    if (const Tokenizer* const own = opened_.tokenizer()) return *own;
    throw Error(path_ + " has no tokenizer (tokenizer.json or tokenizer.model); give tokens instead of text");
  }

  std::vector<Token> encode(const std::string& text) { return tokenizer().encode(text); }
  std::string decode(std::span<const Token> tokens) { return tokenizer().decode(tokens); }

  std::vector<Token> tokens_of(const Prompt& prompt) {
    if (const auto* const text = std::get_if<std::string>(&prompt)) return encode(*text);
    return std::get<std::vector<Token>>(prompt);
  }

  /// Throws Error when the target cannot read these tokens.
  void require_text(const std::vector<Token>& tokens) {
    Request request;
    request.prompt = tokens;
    if (const std::string why = request_error(request, target()); !why.empty()) throw Error(why);
  }

 private:
  std::string path_;
  std::string draft_;
  OpenedModel opened_;
  Engine& engine_;
};

/// Reads the tokens in chunks, between which Ctrl-C is seen. `visit` is that of read_text, and touches nothing of
/// Python.
void read(LoadedModel& model, const std::vector<Token>& tokens, int from, const RowVisitor& visit) {
  const int length = static_cast<int>(tokens.size());
  const auto cache = compute([&] {
    model.require_text(tokens);
    return model.target().new_cache(length, std::min(length, prefill_chunk));
  });
  for (int at = 0; at < length; at += prefill_chunk) {
    let_signals_in();
    const int rows = std::min(prefill_chunk, length - at);
    const auto chunk = std::span(tokens).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows));
    compute([&] {
      with_workers([&] {
        read_text(model.target(), *cache, chunk, rows, {}, std::clamp(from - at, 0, rows),
                  [&](int row, std::span<const float> logits) { visit(at + row, logits); });
      });
    });
  }
}

/// A new numpy array. Made by numpy itself, whose version need not be one that pybind11 knows the inside of.
struct NumpyArray {
  NumpyArray(const py::tuple& shape, const char* type)
      : object(py::module_::import("numpy").attr("empty")(shape, type)), memory(object.request(true)) {}
  template <class T>
  T* values() const {
    return static_cast<T*>(memory.ptr);
  }

  py::buffer object;
  py::buffer_info memory;
};

py::object logits(LoadedModel& model, const std::vector<Token>& tokens) {
  const auto vocabulary = static_cast<std::size_t>(model.target().vocabulary());
  const NumpyArray rows(py::make_tuple(tokens.size(), vocabulary), "float32");
  if (tokens.empty()) return rows.object;
  float* const first = rows.values<float>();
  read(model, tokens, 0, [&](int row, std::span<const float> values) {
    std::ranges::copy(values, first + static_cast<std::size_t>(row) * vocabulary);
  });
  return rows.object;
}

/// Throws Error for what users may not ask for.
template <class Value>
void set_parameter(Sampling& sampling, const char* name, Value Sampling::*member, double value) {
  for_each_sampling_field([&](const auto& field) {
    if (std::string_view(field.name) == name) require_range(name, value, field.min, field.max);
  });
  sampling.*member = static_cast<Value>(value);
}

Sampling sampling_of(double temperature, int top_k, double top_p, double min_p) {
  Sampling sampling;
  set_parameter(sampling, "temperature", &Sampling::temperature, temperature);
  set_parameter(sampling, "top_k", &Sampling::top_k, top_k);
  set_parameter(sampling, "top_p", &Sampling::top_p, top_p);
  set_parameter(sampling, "min_p", &Sampling::min_p, min_p);
  return sampling;
}

py::object next_distribution(LoadedModel& model, const std::vector<Token>& tokens, double temperature, int top_k,
                             double top_p, double min_p) {
  const Sampling sampling = sampling_of(temperature, top_k, top_p, min_p);
  const auto vocabulary = static_cast<std::size_t>(model.target().vocabulary());
  const NumpyArray row(py::make_tuple(vocabulary), "float64");
  double* const first = row.values<double>();
  read(model, tokens, static_cast<int>(tokens.size()) - 1, [&](int, std::span<const float> values) {
    const Distribution p = compute_distribution(values, sampling, {tokens, {}});
    for (std::size_t token = 0; token < vocabulary; ++token) {
      first[token] =
          static_cast<double>(p.weight(static_cast<Token>(token))) / static_cast<double>(Distribution::total);
    }
  });
  return row.object;
}

void warn(const std::string& message) {
  if (PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 2) != 0) throw py::error_already_set();
}

struct GenerationOptions {
  std::vector<Token> prompt;
  CommonOptions common;  // of which max_new_tokens, sampling, rule, seed and draft_max count
  std::string draft;
};

/// A text that is decoded pass by pass, as its tokens are asked for. The model may serve other texts meanwhile.
class Generation {
 public:
  Generation(std::shared_ptr<LoadedModel> model, const GenerationOptions& options)
      : model_(std::move(model)), random_(options.common.seed) {
    const Rule& rule = rule_by_name(options.common.rule);
    Request request;
    request.prompt = options.prompt;
    request.sampling = options.common.sampling;
    request.stops = read_stop_tokens(model_->files());
    request.max_new_tokens = options.common.max_new_tokens;
    Engine& engine = model_->engine();
    if (const std::string why = request_error(request, engine.target()); !why.empty()) throw Error(why);
    draft_ = model_->opened().used_draft(options.draft, request);
    const std::string& draft = draft_.name;
    SchedulerLimits limits;
    limits.cache_bytes = engine.cache_budget(std::span(&draft, 1), limits.rows_per_pass, request.positions());
    opened_ = engine.open({.request = std::move(request),
                           .execution = execution_to_write(options.common, draft),
                           .draft = draft,
                           .rule = rule,
                           .random = random_});
    scheduler_ = std::make_unique<Scheduler>(engine.target(), limits);
    scheduler_->add(*opened_.sequence, opened_.cost);
  }

  /// Says, to whoever has the interpreter, why the draft is not used, or only for a part of the text.
  void warn_of_draft() const {
    for (const std::string& remark : {draft_.off, draft_.too_short, draft_.remark}) {
      if (!remark.empty()) warn(remark);
    }
  }

  /// Decodes until there is another token; nullopt at the end of the text.
  std::optional<Token> next() {
    return pass_by_pass<Token>([&](const Trace& trace) {
      return given_ < trace.output.size() ? std::optional(trace.output[given_++]) : std::nullopt;
    });
  }

  /// Decodes the rest, and returns what `part_of` copies of the trace.
  template <class Part>
  auto of_whole(const Part& part_of) {
    using Value = decltype(part_of(std::declval<const Trace&>()));
    const auto value = pass_by_pass<Value>([&](const Trace& trace) {
      return trace.finish != Finish::unfinished ? std::optional(part_of(trace)) : std::nullopt;
    });
    return *value;
  }

  std::string text() {
    const std::vector<Token> tokens = of_whole([](const Trace& trace) { return trace.output; });
    const StopStrings none;
    TextStream stream(model_->tokenizer(), none, true, TextPlace::continuation);
    std::string text;
    for (const Token token : tokens) text += stream.push(token);
    return text + stream.finish();
  }

 private:
  /// Runs passes until `look` finds a value or the text ends.
  template <class Value, class Look>
  std::optional<Value> pass_by_pass(const Look& look) {
    for (bool ended = false;;) {
      let_signals_in();
      const std::optional<Value> value = compute([&]() -> std::optional<Value> {
        Sequence& sequence = *opened_.sequence;
        if (const std::optional<Value> there = look(sequence.trace())) return there;
        ended = sequence.finished();
        if (ended) return std::nullopt;
        if (!sequence.error()) with_workers([&] { scheduler_->step(); });
        if (sequence.error()) std::rethrow_exception(sequence.error());
        return look(sequence.trace());
      });
      if (value || ended) return value;
    }
  }

  std::shared_ptr<LoadedModel> model_;
  PhiloxSource random_;
  OpenedModel::UsedDraft draft_;
  Engine::Opened opened_;
  std::unique_ptr<Scheduler> scheduler_;
  std::size_t given_ = 0;  // tokens that next() returned
};

std::shared_ptr<LoadedModel> loaded_model(const std::filesystem::path& path, const std::optional<std::string>& quantize,
                                          const std::optional<std::string>& kv,
                                          const std::optional<std::vector<std::string>>& lora,
                                          const std::string& kernels, const std::optional<int>& threads) {
  const int count = threads_of(threads);
  return compute([&] {
    Pair pair = read_pair(path).value_or(Pair{.target = path.string(), .draft = {}, .quantize = {}, .kv = {}});
    LayoutOptions layout = {.kernels = kernels};
    if (const auto& stated = quantize ? quantize : pair.quantize) layout.quantize = *stated;
    if (const auto& stated = kv ? kv : pair.kv) layout.kv = *stated;
    layout.lora = lora.value_or(pair.lora);
    return std::make_shared<LoadedModel>(std::move(pair.target), pair.draft.value_or("none"), layout, count);
  });
}

std::unique_ptr<Generation> generate(const std::shared_ptr<LoadedModel>& model, const Prompt& prompt,
                                     int max_new_tokens, const std::optional<std::string>& draft,
                                     const std::string& rule, double temperature, int top_k, double top_p, double min_p,
                                     double repeat_penalty, double presence_penalty, double frequency_penalty,
                                     int repeat_last_n, std::uint64_t seed, std::optional<int> draft_max) {
  GenerationOptions options;
  options.draft = draft.value_or(model->draft());
  options.common.max_new_tokens = max_new_tokens;
  options.common.sampling = sampling_of(temperature, top_k, top_p, min_p);
  set_parameter(options.common.sampling, "repeat_penalty", &Sampling::repeat_penalty, repeat_penalty);
  set_parameter(options.common.sampling, "presence_penalty", &Sampling::presence_penalty, presence_penalty);
  set_parameter(options.common.sampling, "frequency_penalty", &Sampling::frequency_penalty, frequency_penalty);
  set_parameter(options.common.sampling, "repeat_last_n", &Sampling::repeat_last_n, repeat_last_n);
  options.common.rule = rule;
  options.common.seed = seed;
  if (draft_max) {
    require_range("draft_max", *draft_max, 1, draft_max_field.max);
    options.common.draft_max.number = *draft_max;
  }
  auto generation = compute([&] {
    options.prompt = model->tokens_of(prompt);
    return std::make_unique<Generation>(model, options);
  });
  generation->warn_of_draft();
  return generation;
}

py::dict statistics(Generation& generation) {
  const Statistics counts = generation.of_whole([](const Trace& trace) { return trace.statistics; });
  py::dict named;
  named["rounds"] = counts.rounds;
  named["drafted"] = counts.drafted;
  named["accepted"] = counts.accepted;
  return named;
}

void bind_generation(py::module_& module) {
  py::class_<Generation> type(module, "Generation",
                              "A text that a model writes. Iterating gives its tokens as they are decoded; every "
                              "attribute decodes the rest first.");
  publish(type);
  type.def("__iter__", [](py::object self) { return self; });
  type.def("__next__", [](Generation& self) {
    if (const std::optional<Token> token = self.next()) return *token;
    throw py::stop_iteration();
  });
  type.def_property_readonly(
      "tokens", [](Generation& self) { return self.of_whole([](const Trace& trace) { return trace.output; }); },
      "The tokens that were written, a stop token included.");
  type.def_property_readonly("text", &Generation::text, "The text of these tokens, without the prompt.");
  type.def_property_readonly(
      "finish_reason",
      [](Generation& self) { return name_of(self.of_whole([](const Trace& trace) { return trace.finish; })); },
      "'stop' after a stop token, 'length' when all tokens asked for were written.");
  type.def_property_readonly("statistics", &statistics,
                             "Counts: rounds, draft tokens that were verified (drafted), and those that became output "
                             "(accepted).");
}

}  // namespace

void bind_model(py::module_& module) {
  bind_generation(module);
  py::class_<LoadedModel, std::shared_ptr<LoadedModel>> type(
      module, "Model",
      "A target: a folder in the style of Hugging Face, a .gguf file, or a pair of target and draft (.json), with its "
      "weights loaded.");
  publish(type);
  type.def(
      py::init(&loaded_model), py::arg("path"), py::kw_only(), py::arg("quantize") = py::none(),
      py::arg("kv") = py::none(), py::arg("lora") = py::none(), py::arg("kernels") = "",
      py::arg("threads") = py::none(),
      "Loads a model. quantize: none, f32, q8 or q4. kv: f32, bf16 or q8. lora: adapters, each a PATH or PATH=SCALE, "
      "which are merged into it. None: what the pair says, or none, bf16 and no adapters. kernels: a kernel table; "
      "the best one when empty. threads: to compute with, in the whole process; None leaves their number, at first all "
      "of the "
      "machine's. No result depends on it.");
  type.def("__repr__", [](LoadedModel& self) {
    return fmt::format("Model({})", py::repr(py::str(self.path())).cast<std::string>());
  });
  type.def_property_readonly(
      "vocabulary", [](LoadedModel& self) { return self.target().vocabulary(); }, "How many logits a row has.");
  type.def_property_readonly(
      "context", [](LoadedModel& self) { return self.target().context(); }, "The longest text, in tokens.");
  type.def_property_readonly(
      "numerics", [](LoadedModel& self) { return self.engine().numerics(); },
      "The class of equal bits: models with equal weights and equal numerics give equal logits.");
  type.def(
      "encode", [](LoadedModel& self, const std::string& text) { return compute([&] { return self.encode(text); }); },
      py::arg("text"), "Returns the tokens of a text, with those that the tokenizer puts before it.");
  type.def(
      "decode",
      [](LoadedModel& self, const std::vector<Token>& tokens) { return compute([&] { return self.decode(tokens); }); },
      py::arg("tokens"), "Returns the text of tokens, without special ones.");
  type.def(
      "generate", &generate, py::arg("prompt"), py::kw_only(), py::arg("max_new_tokens") = 64,
      py::arg("draft") = py::none(), py::arg("rule") = "matching", py::arg("temperature") = 0.0, py::arg("top_k") = 0,
      py::arg("top_p") = 1.0, py::arg("min_p") = 0.0, py::arg("repeat_penalty") = 1.0,
      py::arg("presence_penalty") = 0.0, py::arg("frequency_penalty") = 0.0, py::arg("repeat_last_n") = 64,
      py::arg("seed") = 0, py::arg("draft_max") = py::none(),
      "Continues a text or tokens. draft: as --draft of the command (docs/drafts.md); None: that of the pair, or none. "
      "rule: the acceptance rule. "
      "temperature 0 is greedy; top_k 0, top_p 1, min_p 0, repeat_penalty 1 and other penalties 0 are off; "
      "penalties see "
      "repeat_last_n tokens, -1: all. draft_max: draft tokens per round, at most.");
  type.def("logits", &logits, py::arg("tokens"),
           "Returns float32 [len(tokens), vocabulary]: the logits after every token.");
  type.def("next_distribution", &next_distribution, py::arg("tokens"), py::kw_only(), py::arg("temperature") = 1.0,
           py::arg("top_k") = 0, py::arg("top_p") = 1.0, py::arg("min_p") = 0.0,
           "Returns float64 [vocabulary]: the distribution that the token after these is drawn from. Every value is an "
           "integer over 2**52, so the sum is 1 exactly.");
}

}  // namespace draftproof
