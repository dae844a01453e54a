// SPDX-License-Identifier: MIT
#include "oracle/spectrace/header_reader.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <type_traits>

#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

const Names header_names = {"type", "schema", "engine",       "weights", "vocabulary",
                            "rule", "dtype",  "total_weight", "rng",     "rows_file"};
const Names sequence_names = [] {
  Names names = {"type",           "sequence",
                 "rng_key",        "rule",
                 "prompt",         "stop_tokens",
                 "stop_strings",   "stop_token_emitted",
                 "max_new_tokens", "max_draft_tokens",
                 "verification",   "draft",
                 "kernels",        "numerics",
                 "logprobs_of",    "sampler_order",
                 "draft_costs",    "logit_bias",
                 "grammar",        "json_schema",
                 "adjustments",    "constrained_prompt",
                 "masked",         "other_sampler",
                 "continues",      "reused",
                 "dry_breakers"};
  for_each_sampling_field([&](const auto& field) { names.insert(field.name); });
  return names;
}();

DeclaredRule read_rule(const Json& value) {
  const std::string& name = value.string();
  constexpr std::string_view lossy = "lossy:";
  if (name.starts_with(lossy) && name.size() > lossy.size()) return {AcceptanceRule::lossy, name.substr(lossy.size())};
  if (name == std::string("block:") + our_block) return {AcceptanceRule::block, our_block};
  for (const AcceptanceRule rule :
       {AcceptanceRule::matching, AcceptanceRule::rejection, AcceptanceRule::greedy, AcceptanceRule::block}) {
    if (name == name_of(rule)) return {rule, ""};
  }
  value.fail("must be matching, rejection, greedy, block or lossy:NAME, but is " + in_quotes(name));
}

std::uint64_t read_seed(const Json& value) {
  const std::string& text = value.string();
  std::uint64_t seed = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) {
    value.fail("must be a decimal number below 2^64 in a string, but is " + in_quotes(text));
  }
  return seed;
}

/// Reads the name of a file in the trace's own folder. Refuses paths: a trace may come from anywhere and must not make
/// the check read other files.
std::string name_beside(const Json& value) {
  const std::string& name = value.string();
  if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string("/\0", 2)) != std::string::npos) {
    value.fail("must be the name of a file beside the trace, without folders, but is " + in_quotes(name));
  }
  return name;
}

/// Returns the rounding unit of a dtype.
double unit_of(const Json& dtype) {
  const std::string& name = dtype.string();
  if (name == "f64") return 0x1p-52;
  if (name == "f32") return 0x1p-23;
  if (name == "f16") return 0x1p-10;
  if (name == "bf16") return 0x1p-7;
  dtype.fail("must be f64, f32, f16 or bf16, but is " + in_quotes(name));
}

void expect_schema(const Json& line) {
  const Json schema = line.at("schema");
  if (schema.string() == schema_name) return;
  if (schema.string() == "spectrace/1") {
    schema.fail(
        "this program does not read spectrace/1: version 2 renamed the keys, and docs/spectrace.md has the "
        "table from version 1 keys to version 2 keys");
  }
  schema.fail("this program reads " + std::string(schema_name) + ", not " + in_quotes(schema.string()));
}

/// Reads any numbers, also those that users may not ask for: an engine states what it did.
Sampling read_sampling(const Json& line) {
  Sampling sampling;
  line.at("temperature");  // throws when it is missing
  for_each_sampling_field([&]<class T>(const SamplingField<T>& field) {
    const auto stated = line.find(field.name);
    if (!stated) return;
    constexpr double max = std::numeric_limits<float>::max();
    if constexpr (std::is_same_v<T, float>) {
      sampling.*field.member = static_cast<float>(real_in(*stated, -max, max));
    } else {
      sampling.*field.member = static_cast<int>(stated->integer(-position_max, position_max));
    }
  });
  return sampling;
}

/// Returns the order of these names. What is not known here is no step of it.
SamplerOrder stated_order(const std::vector<std::string>& names) {
  std::vector<SamplerStep> steps;
  for (const std::string& name : names) {
    const auto step = find_sampler_step(name);
    if (step && std::ranges::find(steps, *step) == steps.end()) steps.push_back(*step);
  }
  return order_from(steps);
}

/// Reads {"id": bias, ...}, as OpenAI's API has it. A bias is an integer or a real.
std::vector<LogitBias> logit_bias_of(const Header& header, const Json& value) {
  std::vector<LogitBias> biases;
  for (const std::string& name : value.fields()) {
    const Json bias = value.at(name);
    Token token = -1;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (failure != std::errc() || end != name.data() + name.size() || token < 0 || token >= header.vocabulary) {
      bias.fail("is not the bias of a token of the vocabulary");
    }
    constexpr double max = std::numeric_limits<float>::max();
    biases.push_back({token, bias.is_integer() ? static_cast<float>(bias.integer(-exact_max, exact_max))
                                               : static_cast<float>(real_in(bias, -max, max))});
  }
  return biases;
}

/// Reads what the output may be, and what else changes the logits.
void read_adjustments(const Header& header, const Json& line, SequenceEvent& declared) {
  if (const auto biases = line.find("logit_bias")) declared.sampling.logit_bias = logit_bias_of(header, *biases);
  if (const auto grammar = line.find("grammar")) {
    declared.grammar = grammar->string();
    if (declared.grammar.empty()) grammar->fail("is empty; leave it out where there is no grammar");
  }
  if (const auto prompt = line.find("constrained_prompt")) {
    if (declared.grammar.empty()) prompt->fail("needs the field grammar");
    declared.constrained_prompt = prompt->integer(0, static_cast<std::int64_t>(declared.prompt.size()));
  }
  if (const auto names = line.find("adjustments")) {
    declared.adjustments = read_list(*names, [](const Json& name) { return name.string(); });
  }
  if (const auto masked = line.find("masked")) declared.masked = masked->boolean();
  if (const auto sampler = line.find("other_sampler")) {
    declared.other_sampler = sampler->string();
    if (declared.other_sampler.empty()) sampler->fail("is empty; leave it out where tokens are drawn as declared");
  }
  // Engines differ in the texts that they allow for one schema.
  if (line.find("json_schema") && declared.grammar.empty()) declared.adjustments.emplace_back("json_schema");
}

Verification read_verification(const Json& value) {
  for (const Verification verification : all_verifications) {
    if (value.string() == name_of(verification)) return verification;
  }
  value.fail("must be batched, serial or redecode, but is " + in_quotes(value.string()));
}

/// Returns whether logprobs are of the distribution that tokens are drawn from.
bool after_sampling(const Json& logprobs_of) {
  const std::string& name = logprobs_of.string();
  if (name != "p" && name != "logits") logprobs_of.fail("must be p or logits, but is " + in_quotes(name));
  return name == "p";
}

ProposalWork read_work(const Json& value) {
  for (const ProposalWork work :
       {ProposalWork::none, ProposalWork::one_pass, ProposalWork::passes, ProposalWork::as_asked}) {
    if (value.string() == name_of(work)) return work;
  }
  value.fail("must be none, one_pass, passes or as_asked, but is " + in_quotes(value.string()));
}

DraftCosts read_draft_costs(const Json& value) {
  refuse_unknown(value, {"verify", "draft", "reading", "work"});
  constexpr double max = 1e9;
  const auto costs_in = [](const Json& list) {
    return read_list(list, [](const Json& cost) { return real_in(cost, 0, max); });
  };
  DraftCosts costs;
  costs.verify = costs_in(value.at("verify"));
  expect_size(value, "verify", costs.verify, 2, 1 + tuned_draft_tokens_max);
  if (costs.verify.front() < 1e-9) value.at("verify").fail("must say what a pass without draft tokens costs");
  costs.draft = read_list(value.at("draft"), costs_in);
  expect_size(value, "draft", costs.draft, 1, stages_max);
  for (const std::vector<double>& stage : costs.draft) {
    expect_size(value, "draft", stage, 2, costs.verify.size());
  }
  costs.reading = costs_in(value.at("reading"));
  expect_size(value, "reading", costs.reading, costs.draft.size(), costs.draft.size());
  if (const auto work = value.find("work")) {
    costs.work = read_list(*work, read_work);
    expect_size(value, "work", costs.work, costs.draft.size(), costs.draft.size());
  }
  return costs;
}

StatedCounts read_counts(const Json& value) {
  refuse_unknown(value,
                 {"rounds", "iterations", "drafted", "accepted", "mismatches", "all_accepted", "batched", "serial"});
  const auto count = [&](const char* name) -> std::optional<int> {
    const auto field = value.find(name);
    return field ? std::optional(static_cast<int>(field->integer(0, position_max))) : std::nullopt;
  };
  return {count("rounds"),     count("iterations"),   count("drafted"), count("accepted"),
          count("mismatches"), count("all_accepted"), count("batched"), count("serial")};
}

}  // namespace

Header read_header(const Json& line) {
  if (line.find("schema")) expect_schema(line);  // before its keys, which another version names otherwise
  if (const Json type = line.at("type"); type.string() != "header") type.fail("a trace begins with a header line");
  Names known = header_names;
  if (line.find("prompt")) known.insert(sequence_names.begin(), sequence_names.end());
  refuse_unknown(line, known);
  Header header;
  expect_schema(line);
  header.engine = line.at("engine").string();
  if (const auto weights = line.find("weights")) header.weights = weights->string();
  header.vocabulary = static_cast<int>(line.at("vocabulary").integer(1, position_max));
  if (const auto rule = line.find("rule")) header.rule = read_rule(*rule);
  if (const auto total = line.find("total_weight")) header.total = integer_in(*total, 1, Distribution::total);
  if (const auto dtype = line.find("dtype")) header.unit = unit_of(*dtype);
  if (const auto rng = line.find("rng")) {
    refuse_unknown(*rng, {"algorithm", "seed", "bits"});
    if (const auto bits = rng->find("bits")) header.u_bits = static_cast<int>(bits->integer(1, 64));
    header.generator = rng->at("algorithm").string();
    if (const auto seed = rng->find("seed")) header.seed = read_seed(*seed);
  }
  if (const auto rows = line.find("rows_file")) header.rows_file = name_beside(*rows);
  return header;
}

SequenceEvent read_sequence(const Header& header, const Json& line) {
  if (line.at("type").string() == "sequence") refuse_unknown(line, sequence_names);  // else read_header has
  const LineReader reader(header);
  SequenceEvent declared;
  if (const auto id = line.find("sequence")) declared.sequence = id->integer(0, exact_max);
  if (const auto key = line.find("rng_key")) {
    declared.rng_key = static_cast<std::int32_t>(key->integer(0, position_max));
    declared.rng_key_stated = true;
  }
  if (const auto rule = line.find("rule")) declared.rule = read_rule(*rule);
  else if (header.rule) declared.rule = *header.rule;
  else line.at("rule");  // throws: it is missing
  declared.prompt = reader.tokens(line.at("prompt"));
  if (declared.prompt.empty()) line.at("prompt").fail("must hold at least one token, the one that is continued");
  if (const auto stops = line.find("stop_tokens")) declared.stop_tokens = reader.tokens(*stops);
  if (const auto texts = line.find("stop_strings")) {
    declared.stop_strings = texts->size() > 0;
    for (std::size_t i = 0; i < texts->size(); ++i) (*texts)[i].string();
  }
  if (const auto emitted = line.find("stop_token_emitted")) declared.stop_token_emitted = emitted->boolean();
  if (const auto order = line.find("sampler_order")) {
    declared.sampler_order = read_list(*order, [](const Json& name) { return name.string(); });
  }
  if (const auto of = line.find("logprobs_of")) declared.logprobs_after_sampling = after_sampling(*of);
  if (const auto max = line.find("max_new_tokens")) declared.max_new_tokens = max->integer(0, position_max);
  if (const auto max = line.find("max_draft_tokens")) declared.max_draft_tokens = max->integer(0, draft_tokens_max);
  if (const auto verification = line.find("verification")) declared.verification = read_verification(*verification);
  if (const auto costs = line.find("draft_costs")) declared.draft_costs = read_draft_costs(*costs);
  if (const auto earlier = line.find("continues")) {
    declared.continues = earlier->integer(0, exact_max);
    if (*declared.continues >= declared.sequence) earlier->fail("must be the number of an earlier sequence");
    line.at("reused");  // throws where it is missing
  }
  if (const auto reused = line.find("reused")) declared.reused = reused->integer(0, position_max);
  if (const auto draft = line.find("draft")) declared.draft = draft->string();
  if (const auto kernels = line.find("kernels")) declared.kernels = kernels->string();
  if (const auto numerics = line.find("numerics")) declared.numerics = numerics->string();
  declared.sampling = read_sampling(line);
  if (const int mirostat = declared.sampling.mirostat; mirostat != 0 && mirostat != 2) {
    line.at("mirostat").fail("must be 0 or 2; name another one in other_sampler");
  }
  if (const auto breakers = line.find("dry_breakers")) {
    declared.sampling.dry_breakers = reader.tokens(*breakers);
    std::ranges::sort(declared.sampling.dry_breakers);
  }
  if (declared.sampler_order) declared.sampling.order = stated_order(*declared.sampler_order);
  read_adjustments(header, line, declared);
  return declared;
}

ShiftEvent read_shift(const Json& line) {
  refuse_unknown(line, {"type", "sequence", "tokens_read", "keep", "discard"});
  ShiftEvent shift;
  if (const auto id = line.find("sequence")) shift.sequence = id->integer(0, exact_max);
  shift.tokens_read = line.at("tokens_read").integer(1, position_max);
  shift.keep = line.at("keep").integer(0, position_max);
  shift.discard = line.at("discard").integer(1, position_max);
  return shift;
}

EndEvent read_end(const Header& header, const Json& line) {
  refuse_unknown(line, {"type", "sequence", "reason", "emitted_count", "emitted", "statistics", "sha256"});
  EndEvent end;
  if (const auto id = line.find("sequence")) end.sequence = id->integer(0, exact_max);
  const Json reason = line.at("reason");
  for (const Finish finish : {Finish::stop, Finish::length, Finish::cancelled}) {
    if (reason.string() == name_of(finish)) end.reason = finish;
  }
  constexpr std::string_view other = "other:";
  if (reason.string().starts_with(other)) end.other = reason.string().substr(other.size());
  if (end.reason == Finish::unfinished && end.other.empty()) {
    reason.fail("must be stop, length, cancelled or other:NAME, but is " + in_quotes(reason.string()));
  }
  if (const auto count = line.find("emitted_count")) end.emitted_count = count->integer(0, position_max);
  if (const auto emitted = line.find("emitted")) end.emitted = LineReader(header).tokens(*emitted);
  if (const auto counts = line.find("statistics")) end.statistics = read_counts(*counts);
  if (const auto digest = line.find("sha256")) end.digest = digest->string();
  return end;
}

}  // namespace draftproof::spectrace
