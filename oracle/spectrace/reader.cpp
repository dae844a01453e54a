// SPDX-License-Identifier: MIT
#include "oracle/spectrace/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "oracle/spectrace/row_parts.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

constexpr std::int64_t position_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t exact_max = std::int64_t{1} << 53;  // integers that every reader of JSON keeps
constexpr std::int64_t draft_tokens_max = 1 << 16;

using Names = std::set<std::string, std::less<>>;

/// A misspelt field would be evidence that nobody looks at.
void refuse_unknown(const Json& line, const Names& known) {
  for (const std::string& name : line.fields()) {
    if (known.contains(name) || name.starts_with("x_")) continue;
    line.fail("field " + in_quotes(name) + " is not one of spectrace/1; names of your own begin with x_");
  }
}

/// A C99 hexadecimal float in a string, such as "0x1.8p-1": what one side writes the other reads to the last bit. What
/// printf makes of no number is read as such: that an engine has one is its fault, not the file's.
double real_or_not(const Json& value) {
  const std::string& text = value.string();
  std::string_view digits = text;
  for (const char* name : {"nan", "-nan", "inf", "-inf"}) {
    if (text != name) continue;
    using Limits = std::numeric_limits<double>;
    const double value = text.ends_with("nan") ? Limits::quiet_NaN() : Limits::infinity();
    return *name == '-' ? -value : value;
  }
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  double real = 0;
  const bool prefixed = digits.starts_with("0x") && digits.size() > 2 && digits[2] != '-';
  if (prefixed) digits.remove_prefix(2);
  const char* const last = digits.data() + digits.size();
  const auto [end, failure] = std::from_chars(digits.data(), last, real, std::chars_format::hex);
  if (!prefixed || failure != std::errc() || end != last || !std::isfinite(real)) {
    value.fail("must be a hexadecimal float such as \"0x1.8p-1\", but is " + in_quotes(text));
  }
  return negative ? -real : real;
}

double real_of(const Json& value) {
  const double real = real_or_not(value);
  if (!std::isfinite(real)) value.fail("must be a number, but is " + in_quotes(value.string()));
  return real;
}

double real_in(const Json& value, double least, double most) {
  const double real = real_of(value);
  if (!(real >= least && real <= most)) {
    value.fail("must lie in [" + std::to_string(least) + ", " + std::to_string(most) + "], but is " +
               std::to_string(real));
  }
  return real;
}

std::uint64_t whole_in(const Json& value, std::uint64_t least, std::uint64_t most) {
  return static_cast<std::uint64_t>(value.integer(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)));
}

template <class Read>
auto list_of(const Json& list, Read read) {
  std::vector<decltype(read(list))> values;
  const std::size_t count = list.size();
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) values.push_back(read(list[i]));
  return values;
}

void expect_size(const Json& line, const char* field, std::size_t size, std::size_t least, std::size_t most) {
  if (size >= least && size <= most) return;
  const std::string wanted =
      least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
  line.at(field).fail("has " + std::to_string(size) + " elements, but " + wanted + " belong to this round");
}
template <class Value>
void expect_size(const Json& line, const char* field, const std::vector<Value>& values, std::size_t least,
                 std::size_t most) {
  expect_size(line, field, values.size(), least, most);
}

class LineReader {
 public:
  explicit LineReader(const Header& header) : header_(header) {}

  Token token(const Json& value) const { return static_cast<Token>(value.integer(0, header_.vocabulary - 1)); }
  std::vector<Token> tokens(const Json& list) const {
    return list_of(list, [&](const Json& value) { return token(value); });
  }
  Fingerprint fingerprint(const Json& value) const {
    const std::string& text = value.string();
    Fingerprint result;
    const auto part = [&](std::size_t from, std::uint64_t& number) {
      const auto [end, failure] = std::from_chars(text.data() + from, text.data() + from + 16, number, 16);
      return failure == std::errc() && end == text.data() + from + 16;
    };
    if (text.size() != 32 || !part(0, result.high) || !part(16, result.low) || result.hex() != text) {
      value.fail("must be 32 lower-case hexadecimal digits, but is " + in_quotes(text));
    }
    return result;
  }
 protected:
  const Header& header_;

  /// [token, weight, token, weight, ...].
  template <class Weight, class Read>
  RowParts<Weight> parts_of(const Json& list, const Read& read) const {
    const std::size_t count = list.size();
    if (count == 0 || count % 2 != 0) list.fail("must be a list of tokens, each followed by its weight");
    RowParts<Weight> parts(header_);
    for (std::size_t i = 0; i < count; i += 2) {
      if (const char* wrong = parts.add_token(token(list[i]))) list[i].fail(wrong);
      if (const char* wrong = parts.add_weight(read(list[i + 1]))) list[i + 1].fail(wrong);
    }
    if (const std::string wrong = parts.fault(); !wrong.empty()) list.fail(wrong);
    return parts;
  }
};

JudgedBy rule_of(const Json& value) {
  const std::string& name = value.string();
  constexpr std::string_view lossy = "lossy:";
  if (name.starts_with(lossy) && name.size() > lossy.size()) return {Judging::lossy, name.substr(lossy.size())};
  for (const Judging rule : {Judging::matching, Judging::rejection, Judging::greedy, Judging::block}) {
    if (name == name_of(rule)) return {rule, ""};
  }
  value.fail("must be matching, rejection, greedy, block or lossy:NAME, but is " + in_quotes(name));
}

const Names header_names = {"t", "schema", "engine", "weights", "vocab", "rule", "W", "dtype", "rng", "rows"};
const Names opening_names = {"t",      "s",       "key",      "rule",      "prompt", "stops",        "stop_strings",
                             "max",    "k",       "verify",   "draft",     "T",      "stop_emitted", "kernels",
                             "top_k",  "top_p",   "min_p",    "repeat",    "order",  "numerics",     "presence",
                             "last_n", "lp_of",   "frequency"};

std::uint64_t seed_of(const Json& value) {
  const std::string& text = value.string();
  std::uint64_t seed = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) {
    value.fail("must be a decimal number below 2^64 in a string, but is " + in_quotes(text));
  }
  return seed;
}

/// A trace may come from anywhere: it must not make us read what does not belong to it.
std::string name_beside(const Json& value) {
  const std::string& name = value.string();
  if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string("/\0", 2)) != std::string::npos) {
    value.fail("must be the name of a file beside the trace, without folders, but is " + in_quotes(name));
  }
  return name;
}

Header header_of(const Json& line) {
  Names known = header_names;
  if (line.find("prompt")) known.insert(opening_names.begin(), opening_names.end());
  refuse_unknown(line, known);
  Header header;
  if (const Json schema = line.at("schema"); schema.string() != schema_name) {
    schema.fail("this program reads " + std::string(schema_name) + ", not " + in_quotes(schema.string()));
  }
  header.engine = line.at("engine").string();
  if (const auto weights = line.find("weights")) header.weights = weights->string();
  header.vocabulary = static_cast<int>(line.at("vocab").integer(1, position_max));
  if (const auto rule = line.find("rule")) header.judged_by = rule_of(*rule);
  if (const auto total = line.find("W")) header.total = whole_in(*total, 1, Distribution::total);
  if (const auto type = line.find("dtype")) {
    const std::string& name = type->string();
    if (name == "f64") header.unit = 0x1p-52;
    else if (name == "f32") header.unit = 0x1p-23;
    else if (name == "f16") header.unit = 0x1p-10;
    else if (name == "bf16") header.unit = 0x1p-7;
    else type->fail("must be f64, f32, f16 or bf16, but is " + in_quotes(name));
  }
  if (const auto rng = line.find("rng")) {
    refuse_unknown(*rng, {"alg", "seed", "bits"});
    if (const auto bits = rng->find("bits")) header.coin_bits = static_cast<int>(bits->integer(1, 64));
    header.generator = rng->at("alg").string();
    if (const auto seed = rng->find("seed")) header.seed = seed_of(*seed);
  }
  if (const auto rows = line.find("rows")) header.rows = name_beside(*rows);
  return header;
}

class OpeningReader : LineReader {
 public:
  using LineReader::LineReader;

  Opening read(const Json& line) const {
    Opening opening;
    if (const auto id = line.find("s")) opening.sequence = id->integer(0, exact_max);
    if (const auto key = line.find("key")) opening.key = static_cast<std::int32_t>(key->integer(0, position_max));
    if (const auto rule = line.find("rule")) opening.judged_by = rule_of(*rule);
    else if (header_.judged_by) opening.judged_by = *header_.judged_by;
    else line.at("rule");  // fails
    opening.prompt = tokens(line.at("prompt"));
    if (opening.prompt.empty()) line.at("prompt").fail("must hold at least one token, the one that is continued");
    if (const auto stops = line.find("stops")) opening.stops = tokens(*stops);
    if (const auto texts = line.find("stop_strings")) {
      opening.stop_strings = texts->size() > 0;
      for (std::size_t i = 0; i < texts->size(); ++i) (*texts)[i].string();
    }
    if (const auto emitted = line.find("stop_emitted")) opening.stop_emitted = emitted->boolean();
    if (const auto order = line.find("order")) {
      opening.order = list_of(*order, [](const Json& name) { return name.string(); });
    }
    if (const auto of = line.find("lp_of")) {
      if (of->string() != "p" && of->string() != "logits") {
        of->fail("must be p or logits, but is " + in_quotes(of->string()));
      }
      opening.logprobs_after_sampling = of->string() == "p";
    }
    if (const auto most = line.find("max")) opening.budget = most->integer(0, position_max);
    if (const auto most = line.find("k")) opening.draft_max = most->integer(0, draft_tokens_max);
    if (const auto verify = line.find("verify")) {
      const bool batched = verify->string() == name_of(Verification::batched);
      if (!batched && verify->string() != name_of(Verification::serial)) {
        verify->fail("must be batched or serial, but is " + in_quotes(verify->string()));
      }
      opening.verification = batched ? Verification::batched : Verification::serial;
    }
    if (const auto draft = line.find("draft")) opening.draft = draft->string();
    if (const auto kernels = line.find("kernels")) opening.kernels = kernels->string();
    if (const auto numerics = line.find("numerics")) opening.numerics = numerics->string();
    opening.sampling = sampling(line);
    return opening;
  }

 private:
  static Sampling sampling(const Json& line) {
    Sampling sampling;
    const auto real = [&](const char* name, float& value) {
      const auto field = line.find(name);
      if (!field) return;
      constexpr double most = std::numeric_limits<float>::max();
      value = static_cast<float>(real_in(*field, -most, most));
    };
    const auto whole = [&](const char* name, int& value) {
      if (const auto field = line.find(name)) value = static_cast<int>(field->integer(-position_max, position_max));
    };
    line.at("T");
    real("T", sampling.temperature);
    whole("top_k", sampling.top_k);
    real("top_p", sampling.top_p);
    real("min_p", sampling.min_p);
    real("repeat", sampling.repeat_penalty);
    real("presence", sampling.presence_penalty);
    real("frequency", sampling.frequency_penalty);
    whole("last_n", sampling.repeat_last_n);
    return sampling;
  }
};

/// A round. What its engine should not have said is kept as a Fault, with something harmless in its place.
class StepReader : LineReader {
 public:
  /// `rows`: null where the header names no file of them.
  StepReader(const Header& header, RowsReader* rows, Judging rule) : LineReader(header), rows_(rows), rule_(rule) {}

  Step read(const Json& line) {
    static const Names names = {"t", "s", "n",  "pos", "w",  "d",  "a",   "last", "o",  "q",  "p", "u", "b",
                                "y", "ur", "qc", "qb",  "rc", "top", "h",   "ph",   "qh", "P",  "Q", "lp", "top_lp"};
    refuse_unknown(line, names);
    if (const auto id = line.find("s")) step_.sequence = id->integer(0, exact_max);
    step_.round = line.at("n").integer(0, exact_max);
    step_.position = line.at("pos").integer(1, position_max);
    step_.emitted = engines_tokens(line.at("o"), "o");
    if (step_.emitted.empty()) line.at("o").fail("a round emits at least one token");
    step_.judged = line.find("d").has_value();
    const std::size_t emitted = step_.emitted.size();
    if (step_.judged) {
      read_judging(line);
      read_weights(line);
      read_evidence(line);
      const std::size_t accepted = static_cast<std::size_t>(step_.accepted);
      read_target_rows(line, accepted + 1, step_.draft_tokens.size() + 1);
      read_draft_rows(line);
    } else {
      static const Names of_tokens = {"t", "s", "n", "pos", "o", "P", "lp", "top_lp"};
      for (const std::string& name : line.fields()) {
        if (of_tokens.contains(name) || name.starts_with("x_")) continue;
        line.fail("field " + name + " says something of draft tokens, but field d is missing");
      }
      read_target_rows(line, emitted, emitted);
    }
    read_logprobs(line);
    return std::move(step_);
  }

 private:
  void fault(const char* check, const std::string& field, std::size_t place, const std::string& observed) {
    step_.faults.push_back({check, field + "[" + std::to_string(place) + "]", observed});
  }

  std::vector<Token> engines_tokens(const Json& list, const char* name) {
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::int64_t token = list[i].integer(std::numeric_limits<std::int32_t>::min(), position_max);
      if (token < 0 || token >= header_.vocabulary) fault("token", name, i, "token " + std::to_string(token));
      tokens.push_back(static_cast<Token>(token));
    }
    return tokens;
  }

  /// A probability, or a coin, which lies below 1.
  double engines_real(const Json& value, const char* name, std::size_t place, bool below_1 = false) {
    const double real = real_or_not(value);
    if (real >= 0 && (below_1 ? real < 1 : real <= 1)) return real;
    fault("number", name, place, value.string());
    return 0;
  }

  void read_judging(const Json& line) {
    step_.draft_tokens = engines_tokens(line.at("d"), "d");
    expect_size(line, "d", step_.draft_tokens, 0, static_cast<std::size_t>(draft_tokens_max));
    step_.accepted = static_cast<int>(line.at("a").integer(0, static_cast<std::int64_t>(step_.draft_tokens.size())));
    step_.width = static_cast<int>(line.at("w").integer(1, 1 + static_cast<std::int64_t>(step_.draft_tokens.size())));
    const Json last = line.at("last");
    bool known = false;
    for (const Last kind : {Last::residual, Last::own, Last::bonus, Last::greedy}) {
      if (last.string() != name_of(kind)) continue;
      step_.last = kind;
      known = true;
    }
    if (!known) last.fail("must be res, own, bonus or greedy, but is " + in_quotes(last.string()));
    if (step_.emitted.size() > static_cast<std::size_t>(step_.accepted) + 1) {
      line.at("o").fail("holds more than the draft tokens that stand and one token");
    }
  }

  std::optional<std::uint64_t> coin_below(const Json& value, std::uint64_t bound) const {
    if (value.is_null()) return std::nullopt;
    if (bound == 0) value.fail("there is no coin below 0");
    return whole_in(value, 0, bound - 1);
  }

  std::vector<Quantity> amounts(const Json& list, const char* name) {
    std::vector<Quantity> values;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (header_.total > 0) values.push_back({whole_in(list[i], 0, header_.total), 0});
      else values.push_back({0, engines_real(list[i], name, i)});
    }
    return values;
  }

  std::vector<std::uint64_t> wholes(const Json& list) const {
    if (header_.total == 0) list.fail("needs integer weights, but the header has no W");
    return list_of(list, [&](const Json& v) { return whole_in(v, 0, header_.total); });
  }

  /// `bound`: of the i-th, where they are integers.
  std::vector<std::optional<Quantity>> coins(const Json& list, const char* name, const auto& bound) {
    std::vector<std::optional<Quantity>> coins;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Json value = list[i];
      if (value.is_null()) coins.emplace_back();
      else if (header_.total == 0) coins.push_back(Quantity{0, engines_real(value, name, i, true)});
      else coins.push_back(Quantity{*coin_below(value, bound(i)), 0});
    }
    return coins;
  }

  /// Weights of the draft tokens, and the coins they were drawn and judged with.
  void read_weights(const Json& line) {
    const std::size_t draft_tokens = step_.draft_tokens.size();
    const std::size_t accepted = static_cast<std::size_t>(step_.accepted);
    // A block is judged as a whole, a lossy rule as it likes.
    const bool by_one = rule_ != Judging::block && rule_ != Judging::lossy;
    const std::size_t judged = by_one ? std::min(accepted + 1, draft_tokens) : 0;
    if (const auto q = line.find("q")) {
      step_.q = amounts(*q, "q");
      expect_size(line, "q", *step_.q, draft_tokens, draft_tokens);
    }
    if (const auto p = line.find("p")) {
      step_.p = amounts(*p, "p");
      expect_size(line, "p", *step_.p, judged, draft_tokens);
    }
    if (const auto u = line.find("u")) {
      if (rule_ == Judging::greedy) u->fail("greedy judgement has no coins");
      const bool matching = rule_ == Judging::matching;
      step_.coins = coins(*u, "u", [&](std::size_t i) {
        const bool below_q = rule_ == Judging::rejection && step_.q && i < step_.q->size();
        return below_q ? (*step_.q)[i].whole : header_.total;
      });
      expect_size(line, "u", *step_.coins, matching ? accepted : judged, matching ? accepted : draft_tokens);
    }
    if (const auto before = line.find("b")) {
      if (rule_ != Judging::matching) before->fail("belongs to the rule matching only");
      step_.before = wholes(*before);
      expect_size(line, "b", *step_.before, accepted, accepted);
    }
    if (const auto list = line.find("qc")) {
      step_.draft_coins = coins(*list, "qc", [&](std::size_t) { return header_.total; });
      expect_size(line, "qc", *step_.draft_coins, draft_tokens, draft_tokens);
    }
    if (const auto before = line.find("qb")) {
      step_.draft_before = wholes(*before);
      expect_size(line, "qb", *step_.draft_before, draft_tokens, draft_tokens);
    }
    if (const auto y = line.find("y")) step_.next = draw(*y);
    if (!line.has("ur")) return;
    if (header_.total > 0) line.fail("field ur is the coin of real weights, but the header has W; integers have y");
    step_.next_coin.emplace();
    if (const auto coin = line.find("ur")) *step_.next_coin = engines_real(*coin, "ur", 0, true);
  }

  void read_evidence(const Json& line) {
    const std::size_t draft_tokens = step_.draft_tokens.size();
    if (const auto keys = line.find("rc")) step_.keys = keys_asked(*keys);
    const auto rows = [&](const char* name, auto& values, std::size_t least, std::size_t most, auto read) {
      const auto list = line.find(name);
      if (!list) return;
      values = list_of(*list, read);
      expect_size(line, name, values, least, most);
    };
    const std::size_t target_rows = static_cast<std::size_t>(step_.accepted) + 1;
    rows("h", step_.logits, target_rows, draft_tokens + 1, [&](const Json& v) { return fingerprint(v); });
    rows("ph", step_.targets, target_rows, draft_tokens + 1, [&](const Json& v) { return fingerprint(v); });
    rows("top", step_.best, target_rows, draft_tokens + 1, [&](const Json& v) { return best(v); });
    rows("qh", step_.drafts, draft_tokens, draft_tokens, [&](const Json& v) { return fingerprint(v); });
  }

  void read_target_rows(const Json& line, std::size_t least, std::size_t most) {
    read_rows(line, "P", least, most, step_.target_rows, step_.target_reals);
  }
  void read_draft_rows(const Json& line) {
    read_rows(line, "Q", step_.draft_tokens.size(), step_.draft_tokens.size(), step_.draft_rows, step_.draft_reals);
  }

  /// Rows that stand in the line, or in the file beside the trace.
  void read_rows(const Json& line, const char* name, std::size_t least, std::size_t most,
                 std::vector<Distribution>& wholes, std::vector<RealRow>& reals) {
    const auto field = line.find(name);
    if (!field) return;
    if (header_.total > 0 && header_.total != Distribution::total) field->fail("rows are read where W is 2^52 only");
    if (!field->is_object()) {
      if (header_.total > 0) wholes = list_of(*field, [&](const Json& v) { return row(v); });
      else reals = list_of(*field, [&](const Json& v) { return real_row(v, name); });
      expect_size(line, name, header_.total > 0 ? wholes.size() : reals.size(), least, most);
      return;
    }
    refuse_unknown(*field, {"row", "n", "sha256"});
    if (rows_ == nullptr) field->fail("rows stand in a file beside the trace, but the header has no field rows");
    const RowsPlace place{whole_in(field->at("row"), 0, exact_max),
                          static_cast<std::size_t>(whole_in(field->at("n"), least, most)),
                          field->at("sha256").string()};
    try {
      if (header_.total > 0) wholes = rows_->distributions(place);
      else reals = rows_->reals(place);
    } catch (const Error& wrong) {
      field->fail(wrong.what());
    }
  }

  Distribution row(const Json& list) const {
    const auto parts =
        parts_of<std::uint64_t>(list, [](const Json& value) { return whole_in(value, 1, Distribution::total); });
    return Distribution::exact(parts.tokens, parts.weights);
  }

  RealRow real_row(const Json& list, const char* name) {
    for (std::size_t i = 1; i < list.size(); i += 2) {
      if (std::isfinite(real_or_not(list[i]))) continue;
      fault("number", name, i, list[i].string());
      return {};
    }
    auto parts = parts_of<double>(list, [](const Json& value) { return real_in(value, 0, 1); });
    return {std::move(parts.tokens), std::move(parts.weights)};
  }

  void read_logprobs(const Json& line) {
    const std::size_t emitted = step_.emitted.size();
    const auto read = [&](const Json& value, const char* name, std::size_t place) {
      const double log = real_or_not(value);
      if (log <= header_.unit) return log;  // minus infinity is one
      fault("number", name, place, value.string());
      return 0.0;
    };
    if (const auto list = line.find("lp")) {
      for (std::size_t i = 0; i < list->size(); ++i) step_.logprobs.push_back(read((*list)[i], "lp", i));
      expect_size(line, "lp", step_.logprobs.size(), emitted, emitted);
    }
    const auto lists = line.find("top_lp");
    if (!lists) return;
    for (std::size_t i = 0; i < lists->size(); ++i) {
      const Json list = (*lists)[i];
      if (list.size() % 2 != 0) list.fail("must be a list of tokens, each followed by its log-probability");
      std::map<Token, double> logs;
      for (std::size_t k = 0; k < list.size(); k += 2) {
        if (logs.emplace(token(list[k]), read(list[k + 1], "top_lp", i)).second) continue;
        list[k].fail("is listed twice");
      }
      RealRow row;
      for (const auto& [listed, log] : logs) {
        row.tokens.push_back(listed);
        row.weights.push_back(log);
      }
      step_.top_logprobs.push_back(std::move(row));
    }
    expect_size(line, "top_lp", step_.top_logprobs.size(), emitted, emitted);
  }

  Draw draw(const Json& value) const {
    refuse_unknown(value, {"id", "c", "of", "at", "wt", "p", "q"});
    if (header_.total == 0) value.fail("needs integer weights, but the header has no W");
    Draw draw;
    draw.token = token(value.at("id"));
    draw.bound = whole_in(value.at("of"), 1, header_.total);
    draw.weight = whole_in(value.at("wt"), 1, draw.bound);
    draw.before = whole_in(value.at("at"), 0, draw.bound - draw.weight);
    if (const auto coin = value.find("c")) draw.coin = coin_below(*coin, draw.bound);
    if (const auto p = value.find("p")) draw.p = whole_in(*p, 0, header_.total);
    if (const auto q = value.find("q")) draw.q = whole_in(*q, 0, header_.total);
    return draw;
  }

  static KeysAsked keys_asked(const Json& value) {
    KeysAsked keys;
    refuse_unknown(value, {"target", "draft", "accept", "residual"});
    for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
      if (const auto list = value.find(name_of(purpose))) keys.of(purpose) = list->integers(0, position_max);
    }
    return keys;
  }

  Best best(const Json& list) const {
    if (list.size() != 4) list.fail("must be [token, logit, token, logit], the best first");
    return {token(list[0]), token(list[2]), real_of(list[1]), real_of(list[3])};
  }

  RowsReader* rows_;
  Judging rule_;
  Step step_;
};

class EndingReader : LineReader {
 public:
  using LineReader::LineReader;

  Ending read(const Json& line) const {
    refuse_unknown(line, {"t", "s", "reason", "count", "o", "stats", "sha256"});
    Ending ending;
    if (const auto id = line.find("s")) ending.sequence = id->integer(0, exact_max);
    const Json reason = line.at("reason");
    for (const Finish finish : {Finish::stop, Finish::length, Finish::cancelled}) {
      if (reason.string() == name_of(finish)) ending.reason = finish;
    }
    constexpr std::string_view other = "other:";
    if (reason.string().starts_with(other)) ending.other = reason.string().substr(other.size());
    if (ending.reason == Finish::unfinished && ending.other.empty()) {
      reason.fail("must be stop, length, cancelled or other:NAME, but is " + in_quotes(reason.string()));
    }
    if (const auto count = line.find("count")) ending.count = count->integer(0, position_max);
    if (const auto emitted = line.find("o")) ending.emitted = tokens(*emitted);
    if (const auto counts = line.find("stats")) ending.statistics = statistics(*counts);
    if (const auto digest = line.find("sha256")) ending.digest = digest->string();
    return ending;
  }

 private:
  static Statistics statistics(const Json& value) {
    refuse_unknown(value, {"rounds", "iterations", "drafted", "accepted", "mismatches", "all_accepted", "batched",
                           "serial"});
    Statistics counts;
    const auto read = [&](const char* name, int& count) {
      count = static_cast<int>(value.at(name).integer(0, position_max));
    };
    read("rounds", counts.rounds);
    read("iterations", counts.iterations);
    read("drafted", counts.drafted);
    read("accepted", counts.accepted);
    read("mismatches", counts.mismatches);
    read("all_accepted", counts.all_accepted);
    read("batched", counts.batched);
    read("serial", counts.serial);
    return counts;
  }
};

}  // namespace

Reader::Reader(const std::string& file) : file_(file) {
  std::error_code failure;
  const auto status = std::filesystem::status(file_, failure);
  if (!std::filesystem::exists(status)) throw InvalidTrace(file_ + ": no such file");
  if (std::filesystem::is_directory(status)) throw InvalidTrace(file_ + ": a folder, not a file");
  try {
    bytes_.emplace(file_);
  } catch (const Error& wrong) {
    throw InvalidTrace(wrong.what());
  }
  if (!read_line()) throw InvalidTrace(file_ + ": empty; a trace begins with a hdr line");
  try {
    const Json line = Json::parse(text_, file_ + ":" + std::to_string(line_));
    if (const Json kind = line.at("t"); kind.string() != "hdr") kind.fail("a trace begins with a hdr line");
    header_ = header_of(line);
    if (line.find("prompt")) opened_by_header_ = OpeningReader(header_).read(line);
  } catch (const InvalidTrace&) {
    throw;
  } catch (const Error& wrong) {
    throw InvalidTrace(wrong.what());
  }
  if (opened_by_header_) follow(*opened_by_header_);
  if (!header_.rows.empty()) open_rows();
}

void Reader::open_rows() {
  std::error_code failure;
  const std::filesystem::path file = rows_beside(file_, header_.rows);
  try {
    const auto status = std::filesystem::symlink_status(file, failure);
    if (std::filesystem::is_symlink(status)) throw Error(file.string() + ": a link; the rows lie beside the trace");
    rows_.emplace(file, header_);
  } catch (const Error& wrong) {
    fail("rows", wrong.what());
  }
}

void Reader::fail(const std::string& field, const std::string& what) const {
  throw InvalidTrace(file_ + ":" + std::to_string(line_) + ": field " + field + ": " + what);
}

bool Reader::read_line() {
  if (line_ > 0) {
    before_.add(text_);
    before_.add("\n");
  }
  text_.clear();
  ++line_;
  while (true) {
    const int byte = bytes_->sbumpc();
    if (byte == std::char_traits<char>::eof()) break;
    if (byte == '\n') return true;
    if (text_.size() == line_bytes_max) {
      throw InvalidTrace(file_ + ":" + std::to_string(line_) + ": longer than " + std::to_string(line_bytes_max) +
                         " bytes; it is no line of a trace");
    }
    text_ += static_cast<char>(byte);
  }
  if (text_.empty()) return false;
  throw InvalidTrace(file_ + ":" + std::to_string(line_) +
                     ": the file ends within a line; it was cut short, or its writer did not end");
}

std::optional<Event> Reader::next() {
  if (opened_by_header_) return Event{line_, *std::exchange(opened_by_header_, std::nullopt)};
  if (!read_line()) return std::nullopt;
  Event event{line_, Ending{}};
  try {
    const Json line = Json::parse(text_, file_ + ":" + std::to_string(line_));
    const Json kind = line.at("t");
    if (kind.string() == "step") {
      event.what = StepReader(header_, rows_ ? &*rows_ : nullptr, judging_of(line)).read(line);
    } else if (kind.string() == "seq") {
      refuse_unknown(line, opening_names);
      event.what = OpeningReader(header_).read(line);
    } else if (kind.string() == "end") {
      event.what = EndingReader(header_).read(line);
    } else if (kind.string() == "hdr") {
      kind.fail("a second header; a file holds one trace, give each its own file");
    } else {
      kind.fail("must be seq, step or end, but is " + in_quotes(kind.string()));
    }
  } catch (const InvalidTrace&) {
    throw;
  } catch (const Error& wrong) {
    throw InvalidTrace(wrong.what());
  }
  if (const auto* opening = std::get_if<Opening>(&event.what)) follow(*opening);
  if (const auto* step = std::get_if<Step>(&event.what)) follow(*step);
  if (const auto* ending = std::get_if<Ending>(&event.what)) follow(*ending);
  return event;
}

/// Of a round's sequence; of one that is not open, which follow() refuses, any.
Judging Reader::judging_of(const Json& line) const {
  const auto id = line.find("s");
  const auto found = open_.find(id ? id->integer(0, exact_max) : 0);
  return found == open_.end() ? Judging::rejection : found->second.rule;
}

void Reader::follow(const Opening& opening) {
  if (opening.sequence <= last_opened_) {
    fail("s", "sequence " + std::to_string(opening.sequence) + " is opened after " + std::to_string(last_opened_) +
                  "; every sequence has a name of its own, and they ascend");
  }
  if (open_.size() == open_sequences_max) {
    fail("s", "more than " + std::to_string(open_sequences_max) +
                  " sequences are open at once; each needs its end line");
  }
  last_opened_ = opening.sequence;
  Progress& progress = open_[opening.sequence];
  progress.rule = opening.judged_by.rule;
  progress.position = static_cast<std::int64_t>(opening.prompt.size()) - 1;
  keep(progress, opening.prompt.size() + (opening.stops ? opening.stops->size() : 0), "prompt");
}

void Reader::keep(Progress& progress, std::size_t tokens, const char* field) {
  progress.tokens += tokens;
  open_tokens_ += tokens;
  if (open_tokens_ <= open_tokens_max) return;
  fail(field, "the sequences that are open have more than " + std::to_string(open_tokens_max) +
                  " tokens; each needs its end line");
}

void Reader::follow(const Step& step) {
  const auto found = open_.find(step.sequence);
  if (found == open_.end()) fail("s", "sequence " + std::to_string(step.sequence) + " is not open here");
  Progress& progress = found->second;
  if (step.round != progress.rounds) {
    fail("n", "round " + std::to_string(progress.rounds) + " of sequence " + std::to_string(step.sequence) +
                  " comes next, but this is " + std::to_string(step.round) +
                  "; a line is missing, doubled or in another place");
  }
  if (step.position <= progress.position) {
    fail("pos", "must grow from round to round, but " + std::to_string(step.position) + " comes after " +
                    std::to_string(progress.position));
  }
  ++progress.rounds;
  progress.position = step.position;
  keep(progress, step.emitted.size(), "o");
}

void Reader::follow(const Ending& ending) {
  const auto found = open_.find(ending.sequence);
  if (found == open_.end()) fail("s", "sequence " + std::to_string(ending.sequence) + " is not open here");
  open_tokens_ -= found->second.tokens;
  open_.erase(found);
  if (!ending.digest.empty() && ending.digest != before_.hex()) {
    fail("sha256", "the lines before this one have the digest " + before_.hex() +
                       "; one of them was changed after it was written");
  }
}

}  // namespace draftproof::spectrace
