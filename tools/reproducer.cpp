// SPDX-License-Identifier: MIT
#include "tools/reproducer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

#include "oracle/checks/checks.h"
#include "oracle/exact/build_checks.h"
#include "oracle/spectrace/replay.h"
#include "ref/acceptance/rule.h"
#include "ref/base/by_name.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "tools/shell_word.h"

namespace draftproof {
namespace {

using Written = nlohmann::ordered_json;

constexpr const char* schema = "draftproof-case/2";
constexpr int many = 1 << 20;  // more tokens or rows cannot be of a case that was shrunk

/// Without the biases, which stand beside it.
Written written(const Sampling& sampling) {
  Written json;
  for_each_sampling_field([&](const auto& field) {
    if (!field.rare || sampling.*field.member != Sampling{}.*field.member) json[field.name] = sampling.*field.member;
  });
  if (sampling.order != Sampling{}.order) {
    for (const SamplerStep step : sampling.order) json["samplers"].push_back(name_of(step));
  }
  if (!sampling.dry_breakers.empty()) json["dry_breakers"] = sampling.dry_breakers;
  return json;
}

Written written(const std::vector<LogitBias>& biases) {
  Written list = Written::array();
  for (const auto& [token, bias] : biases) list.push_back({{"token", token}, {"bias", bias}});
  return list;
}

Written written(const Variation& v) {
  Written json = {{"draft", v.draft}, {"rule", v.rule->name}, {"kernels", v.kernels}, {"threads", v.threads}};
  for_each_execution_field([&]<class T>(const ExecutionField<T>& field) {
    if constexpr (std::is_same_v<T, Verification>) json[field.name] = name_of(v.*field.member);
    else json[field.name] = v.*field.member;
  });
  return json;
}

/// Without what only some requests have.
Written written(const Request& request) {
  Written json;
  for_each_request_field([&](const auto& field) { json[field.name] = request.*field.member; });
  json["sampling"] = written(request.sampling);
  return json;
}

std::string json_of(const Reproducer& r) {
  Written json = {{"schema", schema}, {"version", DRAFTPROOF_VERSION}, {"command", r.command}, {"check", r.check}};
  if (!r.target.empty()) {
    json["target"] = r.target;
    json["quantize"] = r.load_options.quantize;
    json["kv"] = r.load_options.kv;
    if (r.load_options.long_context) json["long_context"] = true;
    if (!r.load_options.lora.empty()) json["lora"] = r.load_options.lora;
    if (r.command == "trace check") {
      json["kernels"] = r.load_options.kernels;
      json["reference"] = r.reference;
    }
  }
  if (r.command == "trace check") {
    json["slack"] = r.slack;
    json["tie"] = r.tie;
  }
  if (!r.rule.empty()) json["rule"] = r.rule;
  if (!r.mutant.empty()) {
    json["mutant"] = r.mutant;
    json["model"] = {
        {"vocabulary", r.model.vocabulary}, {"levels", r.model.levels}, {"seed", std::to_string(r.model.seed)}};
  }
  if (r.trial) {
    const Request& request = r.trial->request;
    json["seed"] = std::to_string(r.trial->seed);
    json["request"] = written(request);
    if (const auto& shift = request.context_shift) {
      json["request"]["context_shift"] = {
          {"context", shift->context}, {"keep", shift->keep}, {"discard", shift->discard}};
    }
    if (const auto& biases = request.sampling.logit_bias; !biases.empty()) {
      json["request"]["logit_bias"] = written(biases);
    }
    if (!r.grammar.empty()) json["request"]["grammar"] = r.grammar;
    json["variations"] = Written::array();
    for (const Variation& variation : r.trial->variations) json["variations"].push_back(written(variation));
  }
  Written& failure = json["failure"];
  failure["run"] = r.failure.run;
  failure["round"] = r.failure.round;
  failure["position"] = r.failure.position;
  failure["expected"] = r.failure.expected;
  failure["observed"] = r.failure.observed;
  failure["facts"] = r.failure.facts;
  return json.dump(2, ' ', false, Written::error_handler_t::replace) + "\n";
}

int count_in(const Json& value, std::int64_t min = 0, std::int64_t max = many) {
  return static_cast<int>(value.integer(min, max));
}

std::uint64_t seed_in(const Json& value) {
  const std::string& text = value.string();
  std::uint64_t seed = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (failure != std::errc() || end != text.data() + text.size() || text.empty()) {
    value.fail("must be a decimal number below 2^64 in a string, but is " + in_quotes(text));
  }
  return seed;
}

std::vector<Token> tokens_in(const Json& value, Token min, Token max) {
  std::vector<Token> tokens;
  for (const std::int64_t token : value.integers(min, max)) tokens.push_back(static_cast<Token>(token));
  return tokens;
}

double number_in(const Json& value, double min, double max) {
  const double number = value.number();
  if (number < min || number > max) {
    value.fail("must be a number from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return number;
}

float real_in(const Json& value, double min, double max) { return static_cast<float>(number_in(value, min, max)); }

/// Returns the text, which must be one of `names`.
const std::string& one_of(const Json& value, const std::vector<std::string>& names) {
  const std::string& text = value.string();
  std::string known;
  for (const std::string& name : names) {
    if (text == name) return text;
    known += (known.empty() ? "" : ", ") + name;
  }
  value.fail("must be one of " + known + ", but is " + in_quotes(text));
}

/// Fails for any other field: a misspelled one would silently change the case.
void expect_fields(const Json& object, const std::vector<std::string_view>& known) {
  for (const std::string& name : object.fields()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      object.fail("field " + in_quotes(name) + " is not one of " + schema);
    }
  }
}

Sampling sampling_in(const Json& json) {
  Sampling sampling;
  std::vector<std::string_view> names = {"samplers", "dry_breakers"};
  for_each_sampling_field([&]<class T>(const SamplingField<T>& field) {
    names.push_back(field.name);
    if (field.rare && !json.find(field.name)) return;
    const Json value = json.at(field.name);
    if constexpr (std::is_same_v<T, float>) {
      sampling.*field.member = real_in(value, field.min, field.max);
    } else {
      sampling.*field.member = count_in(value, field.min, field.max);
    }
  });
  expect_fields(json, names);
  if (const auto samplers = json.find("samplers")) {
    std::vector<std::string> steps;
    for (std::size_t i = 0; i < samplers->size(); ++i) steps.push_back((*samplers)[i].string());
    sampling.order = order_from(parse_samplers(steps));
  }
  if (const auto breakers = json.find("dry_breakers")) sampling.dry_breakers = tokens_in(*breakers, 0, many);
  return sampling;
}

Request request_in(const Json& json) {
  Request request;
  std::vector<std::string_view> names = {"sampling", "context_shift", "logit_bias", "grammar"};
  for_each_request_field([&]<class T>(const RequestField<T>& field) {
    names.push_back(field.name);
    const Json value = json.at(field.name);
    if constexpr (std::is_same_v<T, int>) {
      request.*field.member = count_in(value, field.min, std::min(field.max, many));
    } else {
      request.*field.member = tokens_in(value, field.min, field.max);
    }
  });
  expect_fields(json, names);
  if (request.prompt.empty()) json.at("prompt").fail("must hold at least one token");
  request.sampling = sampling_in(json.at("sampling"));
  if (const auto biases = json.find("logit_bias")) {
    for (std::size_t i = 0; i < biases->size(); ++i) {
      const Json one = (*biases)[i];
      expect_fields(one, {"token", "bias"});
      request.sampling.logit_bias.push_back(
          {count_in(one.at("token")), real_in(one.at("bias"), -LogitBias::max, LogitBias::max)});
    }
  }
  if (const auto shift = json.find("context_shift")) {
    expect_fields(*shift, {"context", "keep", "discard"});
    request.context_shift = {count_in(shift->at("context")), count_in(shift->at("keep")),
                             count_in(shift->at("discard"))};
    if (const std::string why = request.context_shift->error(); !why.empty()) shift->fail(why);
  }
  return request;
}

const Rule& rule_in(const Json& value) {
  const Rule* const rule = find_rule(value.string());
  if (rule == nullptr) value.fail("there is no rule named " + in_quotes(value.string()));
  return *rule;
}

Variation variation_in(const Json& json) {
  Variation v;
  std::vector<std::string_view> names = {"draft", "rule", "kernels", "threads"};
  v.draft = json.at("draft").string();
  v.rule = &rule_in(json.at("rule"));
  v.kernels = json.at("kernels").string();
  v.threads = count_in(json.at("threads"), 1, 1024);
  for_each_execution_field([&]<class T>(const ExecutionField<T>& field) {
    names.push_back(field.name);
    const Json value = json.at(field.name);
    if constexpr (std::is_same_v<T, Verification>) {
      v.*field.member = verification_by_name(one_of(value, names_of_verifications()));
    } else {
      v.*field.member = count_in(value, field.min, std::min(field.max, many));
    }
  });
  expect_fields(json, names);
  return v;
}

Case trial_in(const Json& json, const std::string& check) {
  Case failing{
      .check = check, .request = request_in(json.at("request")), .seed = seed_in(json.at("seed")), .variations = {}};
  const Json variations = json.at("variations");
  for (std::size_t i = 0; i < variations.size(); ++i) failing.variations.push_back(variation_in(variations[i]));
  if (failing.variations.empty()) variations.fail("must hold at least one variation");
  return failing;
}

}  // namespace

ReproducerFolder::ReproducerFolder(std::string path) : path_(std::move(path)) {
  std::error_code failure;
  if (!is_present(path_)) {
    const auto parent = std::filesystem::absolute(path_, failure).lexically_normal().parent_path();
    if (!std::filesystem::is_directory(parent, failure)) {
      throw Error("--reproducer " + in_quotes(path_) + ": its parent folder does not exist; create it first");
    }
    return;
  }
  if (!std::filesystem::is_directory(path_, failure)) {
    throw Error("--reproducer " + in_quotes(path_) + " is not a folder");
  }
  if (!std::filesystem::is_empty(path_, failure) || failure) {
    throw Error("--reproducer " + in_quotes(path_) + " is not empty; name a new folder");
  }
}

void ReproducerFolder::write(const Reproducer& reproducer) {
  std::error_code failure;
  std::filesystem::create_directory(path_, failure);
  if (failure) throw Error("--reproducer " + in_quotes(path_) + " cannot be created: " + failure.message());
  if (reproducer.command == "trace check") OutputFile(trace_file(), {}).write(reproducer.trace);
  if (!reproducer.rows.empty()) {
    const auto again = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(reproducer.rows, std::filesystem::path(path_) / rows_name, again, failure);
    if (failure) throw Error(reproducer.rows + " cannot be copied to " + path_ + ": " + failure.message());
  }
  OutputFile(case_file(), {}).write(json_of(reproducer));
}

void ReproducerFolder::remove() {
  std::error_code failure;  // ignored: the failed check must be reported all the same
  for (const std::string& file : {trace_file(), path_ + "/" + rows_name, case_file(), path_}) {
    std::filesystem::remove(file, failure);
  }
}

std::string ReproducerFolder::trace_in(const std::string& folder) { return folder + "/trace.jsonl"; }
std::string ReproducerFolder::case_in(const std::string& folder) { return folder + "/case.json"; }

std::string ReproducerFolder::command_line() const { return "draftproof reproduce " + shell_word(path_); }

void add_reproducer_option(Command& command, std::string& folder) {
  command.group("Output");
  command.option("--reproducer FOLDER", folder,
                 "on a failure, write the smallest failing case found to this folder, for draftproof reproduce");
}

Reproducer read_reproducer(const std::string& folder) {
  const Json json = Json::read(ReproducerFolder::case_in(folder), std::size_t{1} << 24);
  if (!json.is_object()) json.fail("must be an object");
  expect_fields(json, {"schema",       "version", "command", "check",     "target",     "quantize", "kv",
                       "long_context", "lora",    "kernels", "reference", "slack",      "tie",      "rule",
                       "mutant",       "model",   "seed",    "request",   "variations", "failure"});
  one_of(json.at("schema"), {schema});
  Reproducer r;
  r.command = one_of(json.at("command"), {"verify", "build", "trace check", "zoo"});
  r.check = json.at("check").string();
  if (const auto target = json.find("target")) {
    r.target = target->string();
    r.load_options.quantize = json.at("quantize").string();
    r.load_options.kv = json.at("kv").string();
    if (const auto long_context = json.find("long_context")) r.load_options.long_context = long_context->boolean();
    if (const auto lora = json.find("lora")) {
      for (std::size_t i = 0; i < lora->size(); ++i) r.load_options.lora.push_back((*lora)[i].string());
    }
    if (const auto kernels = json.find("kernels")) r.load_options.kernels = kernels->string();
    const auto reference = json.find("reference");  // those of older versions have none, and compared with their own
    r.reference = reference ? one_of(*reference, {"f32", "f64", "own"}) : "own";
  }
  if (const auto slack = json.find("slack")) r.slack = number_in(*slack, 0, 1);
  if (const auto tie = json.find("tie")) r.tie = number_in(*tie, 0, 100);
  if (r.command == "trace check") {
    if (!spectrace::is_check(r.check)) json.at("check").fail("a trace has no check named " + in_quotes(r.check));
    const std::string trace = ReproducerFolder::trace_in(folder);
    if (std::error_code none; !std::filesystem::is_regular_file(trace, none)) {
      throw Error(trace + " is missing; a reproducer of `trace check` needs it");
    }
    return r;
  }
  const bool of_trial = find_by_name(all_checks(), r.check) != nullptr;
  const bool of_build = find_by_name(build_checks(), r.check) != nullptr;
  if (!of_trial && !of_build) json.at("check").fail("there is no check named " + in_quotes(r.check));
  if ((r.command == "verify" && !of_trial) || (r.command == "build" && !of_build)) {
    json.at("check").fail(in_quotes(r.check) + " is not a check of draftproof " + r.command);
  }
  if (r.command == "verify" && r.target.empty()) json.at("target").fail("must name a model");
  if (r.command == "build") r.rule = rule_in(json.at("rule")).name;
  if (r.command == "zoo") {
    const Json model = json.at("model");
    expect_fields(model, {"vocabulary", "levels", "seed"});
    r.mutant = json.at("mutant").string();
    r.model.vocabulary = count_in(model.at("vocabulary"), 2, 4096);
    r.model.levels = count_in(model.at("levels"), 1, 4096);
    r.model.seed = seed_in(model.at("seed"));
  }
  if (of_trial) {
    r.trial = trial_in(json, r.check);
    if (const auto grammar = json.at("request").find("grammar")) r.grammar = grammar->string();
  }
  return r;
}

CutTrace cut_trace(const std::string& file, std::int64_t sequence, std::int64_t line) {
  std::ifstream stream(file, std::ios::binary);
  std::string header;
  std::getline(stream, header);
  Written opening = Written::parse(header);
  if (opening.contains("rows_file")) {
    opening["rows_file"] = ReproducerFolder::rows_name;
    header = opening.dump();
  }
  const bool opens = opening.contains("prompt");  // the header also opens the sequence
  std::string lines;                              // of the sequence, after its opening
  Written last;
  std::vector<Token> before;  // emitted by the rounds before the last
  std::int64_t number = 1;
  for (std::string text; number < line && std::getline(stream, text); ++number) {
    Written read = Written::parse(text);
    if (read.value("sequence", std::int64_t{0}) != sequence) continue;
    if (read["type"] == "sequence") {
      opening = std::move(read);
      continue;
    }
    if (last.is_object()) {
      for (const Written& token : last["emitted"]) before.push_back(token.get<Token>());
    }
    read.erase("sha256");  // some of the lines it covers are left out
    lines += read.dump() + "\n";
    last = std::move(read);
  }
  const std::string first = opens ? "" : header + "\n";
  CutTrace cut{.sequence = first + opening.dump() + "\n" + lines, .round = {}};
  if (!last.is_object() || last["type"] != "round") return cut;
  for (const Token token : before) opening["prompt"].push_back(token);
  if (opening.contains("grammar")) {
    opening["constrained_prompt"] = opening.value("constrained_prompt", std::size_t{0}) + before.size();
  }
  if (opening.contains("max_new_tokens")) {
    opening["max_new_tokens"] =
        opening["max_new_tokens"].get<std::int64_t>() - static_cast<std::int64_t>(before.size());
  }
  last["round"] = 0;
  cut.round = first + opening.dump() + "\n" + last.dump() + "\n";
  return cut;
}

}  // namespace draftproof
