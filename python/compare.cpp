// SPDX-License-Identifier: MIT
// draftproof.compare: two engines in Python, plain and speculative (python/draftproof/engines.py).
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <optional>
#include <set>
#include <variant>

#include "oracle/sequential/paired_texts.h"
#include "python/bindings.h"
#include "ref/base/error.h"
#include "ref/base/stopwatch.h"
#include "tools/compare_job.h"

namespace draftproof {
namespace {

namespace py = pybind11;

/// The fields of a Request that are set, as arguments.
py::dict arguments_of(const EngineRequest& request) {
  py::dict set;
  set["prompt"] = request.prompt;
  set["max_new_tokens"] = request.max_new_tokens;
  const Sampling unset = EngineRequest().sampling;
  for_each_sampling_field([&](const auto& field) {
    const auto value = request.sampling.*field.member;
    if (value == unset.*field.member) return;
    // A float32 as people write it: 1.3, not 1.2999999523162842.
    set[field.name] = py::module_::import("builtins")
                          .attr(std::is_integral_v<decltype(field.off)> ? "int" : "float")(fmt::format("{}", value));
  });
  if (!request.sampling.logit_bias.empty()) {
    py::dict bias;
    for (const LogitBias& one : request.sampling.logit_bias) bias[py::int_(one.token)] = one.bias;
    set["logit_bias"] = bias;
  }
  if (!request.banned.empty()) set["banned_tokens"] = request.banned;
  if (request.min_tokens > 0) set["min_tokens"] = request.min_tokens;
  if (!request.stop_tokens.empty()) set["stop_tokens"] = request.stop_tokens;
  if (!request.stop_strings.empty()) set["stop"] = request.stop_strings;
  if (request.logprobs) set["logprobs"] = *request.logprobs;
  if (!request.json_schema.empty()) set["json_schema"] = request.json_schema;
  if (!request.grammar.empty()) set["grammar"] = request.grammar;
  if (request.seed) set["seed"] = *request.seed;
  if (!request.session.empty()) set["session"] = request.session;
  return set;
}

/// An attribute, or None where there is none.
py::object attribute(const py::handle& object, const char* name) { return py::getattr(object, name, py::none()); }

/// Throws Error, which says what the attribute of an Answer is.
template <class Value>
Value read_attribute(const py::handle& answer, const char* name) {
  try {
    return attribute(answer, name).cast<Value>();
  } catch (const py::cast_error&) {
    throw Error(fmt::format("an Answer's {} is {}, which is not what draftproof.engines.Answer says", name,
                            py::repr(attribute(answer, name)).cast<std::string>().substr(0, 100)));
  }
}

EngineAnswer read_answer(const py::handle& object) {
  EngineAnswer answer;
  EngineText text;
  text.tokens = read_attribute<std::vector<Token>>(object, "tokens");
  text.text = read_attribute<std::optional<std::string>>(object, "text");
  text.finish = read_attribute<std::optional<std::string>>(object, "finish_reason").value_or("");
  text.logprobs =
      read_attribute<std::optional<std::vector<double>>>(object, "logprobs").value_or(std::vector<double>());
  using Listed = std::vector<std::map<Token, double>>;
  for (const auto& place : read_attribute<std::optional<Listed>>(object, "top_logprobs").value_or(Listed())) {
    std::vector<TokenLogprob>& listed = text.top_logprobs.emplace_back();
    for (const auto& [token, logprob] : place) listed.push_back({token, logprob});
  }
  answer.completion_tokens = static_cast<long>(text.tokens.size());
  answer.drafted = read_attribute<std::optional<long>>(object, "drafted").value_or(-1);
  answer.accepted = read_attribute<std::optional<long>>(object, "accepted").value_or(-1);
  answer.texts.push_back(std::move(text));
  return answer;
}

class PythonEngine : public AskedEngine {
 public:
  PythonEngine(py::object engine, std::string role, const Tokenizer* spelling)
      : engine_(std::move(engine)), role_(std::move(role)), spelling_(spelling) {
    const py::object name = attribute(engine_, "name");
    name_ = name.is_none() ? py::str(engine_.get_type().attr("__name__")).cast<std::string>()
                           : py::str(name).cast<std::string>();
    const py::object supports = attribute(engine_, "supports");
    if (!supports.is_none()) {
      for (const py::handle& field : supports) supports_.insert(py::str(field).cast<std::string>());
    }
    if (!PyCallable_Check(attribute(engine_, "generate").ptr())) {
      throw Error(
          fmt::format("the {} engine, {}, has no method generate; give an engine as draftproof.engines.Engine "
                      "says, or one of draftproof.adapters",
                      role_, name_));
    }
  }

  std::string name() const override { return fmt::format("{} ({})", name_, role_); }
  bool supports(std::string_view field) const override { return supports_.contains(std::string(field)); }

  std::vector<EngineAnswer> ask(std::span<const EngineRequest> requests) override {
    const py::gil_scoped_acquire held;
    std::vector<EngineAnswer> answers(requests.size());
    double seconds = 0;
    try {
      const Stopwatch stopwatch(seconds);
      const py::object type = py::module_::import("draftproof.engines").attr("Request");
      py::list asked;
      for (const EngineRequest& request : requests) asked.append(type(**arguments_of(request)));
      const py::list given(engine_.attr("generate")(asked));
      if (given.size() != requests.size()) {
        throw Error(fmt::format("{} requests have {} answers", requests.size(), given.size()));
      }
      for (std::size_t i = 0; i < answers.size(); ++i) answers[i] = read_answer(given[i]);
    } catch (py::error_already_set& wrong) {
      const bool ours = wrong.matches(py::module_::import("draftproof").attr("Error"));
      const bool exception = wrong.matches(PyExc_Exception);
      if (!exception) throw;  // Ctrl-C
      const std::string said = fmt::format("{}: {}", py::str(wrong.type().attr("__name__")).cast<std::string>(),
                                           py::str(wrong.value()).cast<std::string>());
      for (EngineAnswer& answer : answers) {
        answer = EngineAnswer();
        answer.error = said;
        answer.refused = ours;
      }
    } catch (const Error& wrong) {
      for (EngineAnswer& answer : answers) {
        answer = EngineAnswer();
        answer.error = wrong.what();
      }
    }
    for (EngineAnswer& answer : answers) answer.seconds = seconds / static_cast<double>(answers.size());
    return answers;
  }

  std::string repeat(const EngineRequest& request) const override {
    const py::gil_scoped_acquire held;
    std::string arguments;
    for (const auto& [name, value] : arguments_of(request)) {
      arguments += fmt::format("{}{}={}", arguments.empty() ? "" : ", ", py::str(name).cast<std::string>(),
                               py::repr(value).cast<std::string>());
    }
    return fmt::format("{}.generate([draftproof.engines.Request({})])", role_, arguments);
  }

  std::vector<std::string> sampler_order() const override {
    const py::gil_scoped_acquire held;
    return read_attribute<std::optional<std::vector<std::string>>>(engine_, "sampler_order")
        .value_or(std::vector<std::string>());
  }

  std::string spelled(std::span<const Token> tokens) const override {
    if (spelling_ == nullptr) return AskedEngine::spelled(tokens);
    std::string bytes;
    for (const Token token : tokens) {
      if (token >= 0) spelling_->append_bytes(token, false, bytes);
    }
    return bytes;
  }

 private:
  py::object engine_;
  std::string role_;
  const Tokenizer* spelling_;
  std::string name_;
  std::set<std::string> supports_;
};

using ComparePrompt = std::variant<std::string, std::vector<Token>>;

std::vector<EnginePrompt> prompts_of(const std::optional<std::vector<ComparePrompt>>& given, CompareTarget* target) {
  std::vector<EnginePrompt> prompts;
  const auto encode = [&](const std::string& text) {
    const Tokenizer* const tokenizer = target != nullptr ? target->tokenizer() : nullptr;
    if (tokenizer == nullptr) throw Error("a prompt of text needs a target with a tokenizer; give prompts as tokens");
    prompts.push_back({tokenizer->encode(text), ""});
  };
  if (!given) {
    for (const char* const text : built_in_prompts()) encode(text);
    return prompts;
  }
  for (const ComparePrompt& prompt : *given) {
    if (const auto* const text = std::get_if<std::string>(&prompt)) encode(*text);
    else prompts.push_back({std::get<std::vector<Token>>(prompt), ""});
    if (prompts.back().tokens.empty()) throw Error("a prompt is empty; give at least one token");
  }
  return prompts;
}

Report compare(const py::object& plain, const py::object& speculative,
               const std::optional<std::vector<ComparePrompt>>& prompts,
               const std::optional<std::filesystem::path>& target, const std::vector<std::string>& matrix,
               int max_new_tokens, int pairs, int together, int context, std::uint64_t seed,
               const std::optional<std::filesystem::path>& traces, const std::string& kernels,
               const std::optional<int>& threads, const std::optional<py::function>& progress) {
  require_range("max_new_tokens", max_new_tokens, 8, 100'000);
  require_range("pairs", pairs, 0, 1'000'000);
  require_range("together", together, 1, 256);
  require_range("context", context, 0, 1e9);
  CompareJob job;
  job.target = target ? target->string() : "";
  job.kernels = kernels;
  job.threads = threads_of(threads);
  if (traces) {
    std::filesystem::create_directories(*traces);
    job.traces = traces->string();
  }
  job.setup.cases = matrix;
  job.setup.max_new_tokens = max_new_tokens;
  job.setup.pairs = pairs;
  job.setup.together = together;
  job.setup.context = context;
  job.setup.seed = seed;
  if (progress) {
    job.setup.progress = [&](const std::string& what) {
      const py::gil_scoped_acquire held;
      (*progress)(what);
    };
  }
  std::unique_ptr<CompareTarget> loaded;
  if (target) loaded = compute([&] { return std::make_unique<CompareTarget>(job); });
  const Tokenizer* const spelling = loaded ? loaded->tokenizer() : nullptr;
  PythonEngine first(plain, "plain", spelling);
  PythonEngine second(speculative, "speculative", spelling);
  job.setup.prompts = prompts_of(prompts, loaded.get());
  Report report = compute([&] { return compared(first, second, std::move(job), loaded.get()); });
  report.command = "compare";
  return report;
}

using Texts = std::vector<std::vector<Token>>;
using Logprobs = std::optional<std::vector<std::vector<double>>>;

PairedTexts compare_texts(const std::vector<std::int64_t>& requests, const Texts& first, const Texts& second,
                          const Logprobs& first_logprobs, const Logprobs& second_logprobs,
                          const std::optional<Texts>& prompts, double alpha) {
  require_range("alpha", alpha, 1e-300, 0.5);
  const auto fits = [&](const auto& list) { return list.size() == requests.size(); };
  if (!fits(first) || !fits(second) || (first_logprobs && !fits(*first_logprobs)) ||
      (second_logprobs && !fits(*second_logprobs)) || (prompts && !fits(*prompts))) {
    throw Error("there is not one text, list of logprobs and prompt for each request; give lists of equal lengths");
  }
  return compute([&] {
    PairedTexts test(alpha);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto text = [&](const Texts& texts, const Logprobs& logprobs) {
        return SampledText{texts[i], logprobs ? std::span<const double>((*logprobs)[i]) : std::span<const double>()};
      };
      test.observe(requests[i], text(first, first_logprobs), text(second, second_logprobs),
                   prompts ? std::span<const Token>((*prompts)[i]) : std::span<const Token>());
    }
    return test;
  });
}

void bind_text_comparison(py::module_& module) {
  py::class_<PairedTexts> type(module, "TextComparison", "What pairs of sampled texts show (docs/compare.md).");
  publish(type);
  type.def_property_readonly("e_value", &PairedTexts::e_value, "The largest wealth of the bets.");
  type.def_property_readonly("alarm", &PairedTexts::alarm, "Whether it reached 1 / alpha.");
  type.def_property_readonly("pairs", &PairedTexts::pairs, "How many there were.");
  type.def_property_readonly("unequal", &PairedTexts::unequal, "How many of them were bet on.");
  type.def_property_readonly("suspect", &PairedTexts::suspect, "What differs most.");
  type.def_property_readonly("share_seen", &PairedTexts::share_seen,
                             "The share of pairs that would have had to be told apart for an alarm.");
  type.def("__repr__", [](const PairedTexts& self) {
    return fmt::format("TextComparison(e-value {:.3g} after {} pairs)", self.e_value(), self.pairs());
  });
  module.def(
      "compare_texts", &compare_texts, py::arg("requests"), py::arg("first"), py::arg("second"),
      py::arg("first_logprobs") = py::none(), py::arg("second_logprobs") = py::none(), py::kw_only(),
      py::arg("prompts") = py::none(), py::arg("alpha") = 1e-9,
      "Tests whether two engines write texts of one distribution (docs/compare.md). requests: the number of the "
      "request of each pair; first, second: tokens of each text; logprobs: of each token, where known; prompts: the "
      "tokens of each pair's prompt, where known, by which a repetition penalty is seen sooner.");
}

}  // namespace

void bind_compare(py::module_& module) {
  bind_text_comparison(module);
  module.def(
      "compare", &compare, py::arg("plain"), py::arg("speculative"), py::arg("prompts") = py::none(), py::kw_only(),
      py::arg("target") = py::none(), py::arg("matrix") = std::vector<std::string>(), py::arg("max_new_tokens") = 48,
      py::arg("pairs") = 200, py::arg("together") = 8, py::arg("context") = 0, py::arg("seed") = 0,
      py::arg("traces") = py::none(), py::arg("kernels") = "", py::arg("threads") = py::none(),
      py::arg("progress") = py::none(),
      "Asks two configurations of one engine the same requests and compares their answers (docs/compare.md). "
      "plain, speculative: engines (draftproof.engines, draftproof.adapters). prompts: lists of tokens, or texts "
      "with target; None: twelve texts of our own. target: the model that both run, from which gaps and the "
      "distribution "
      "of sampled tokens are computed. matrix: names of cases; all when empty. pairs: sampled texts of each "
      "engine for every sampled case. together: requests at once. context: positions of the model, 0: not known. "
      "traces: a folder in which what was sampled is kept. progress: is called with "
      "what is done next.");
}

}  // namespace draftproof
