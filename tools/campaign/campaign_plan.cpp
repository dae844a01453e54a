// SPDX-License-Identifier: MIT
#include "tools/campaign/campaign_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/kernels.h"
#include "oracle/checks/checks.h"
#include "oracle/checks/effort.h"
#include "oracle/exact/build_checks.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/sha256.h"
#include "ref/drafts/draft_spec.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "tools/compare_job.h"
#include "tools/pair.h"
#include "tools/shell_word.h"
#include "tools/version.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t campaign_bytes_max = std::size_t{1} << 26;
constexpr std::size_t trials_max = 1'000'000;
constexpr std::size_t word_bytes_max = 100'000;  // of what a command line takes

/// One value of a dimension: its words, and what it is called in a series, where it is.
struct CampaignChoice {
  Words words;
  std::string name;
};

struct CampaignSampling : CampaignChoice {
  bool greedy = true;
};

struct CampaignTarget {
  std::string path;
  Words lora;
  Words drafts;
};

/// The object, whose fields are all known.
void require_fields(const Json& json, const char* what, std::initializer_list<std::string_view> known) {
  if (!json.is_object()) json.fail(fmt::format("is no object with the fields of {}", what));
  for (const std::string& field : json.fields()) {
    if (std::ranges::find(known, field) != known.end()) continue;
    std::string list;
    for (const std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
    json.fail(fmt::format("{} has no field {}; there are {}", what, in_quotes(field), list));
  }
}

/// What `read` throws names the field.
template <class Read>
auto in_field(const Json& field, const Read& read) {
  try {
    return read();
  } catch (const Error& wrong) {
    field.fail(wrong.what());
  }
}

/// The elements of a list that has some, and none twice.
std::vector<Json> elements_of(const Json& list) {
  if (!list.is_array() || list.size() == 0) list.fail("is no list, or an empty one; write [...]");
  std::vector<Json> elements;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    elements.push_back(list[i]);
    if (!seen.insert(list[i].text()).second) list[i].fail("is in the list twice");
  }
  return elements;
}

const std::string& word_of_command(const Json& text) {
  const std::string& word = text.string();
  if (word.empty()) text.fail("is empty");
  if (word.find('\0') != std::string::npos) text.fail("has a NUL character, which no command line takes");
  if (word.size() > word_bytes_max) text.fail(fmt::format("is longer than {} bytes", word_bytes_max));
  return word;
}

/// The words of the field where it is there, as the value of this option.
void add_option(const Json& json, const char* field, const char* option, Words& words,
                const std::function<void(const std::string&)>& check = {}) {
  const auto value = json.find(field);
  if (!value) return;
  const std::string& word = word_of_command(*value);
  if (check) in_field(*value, [&] { check(word); });
  words.insert(words.end(), {option, word});
}

void add_number(const Json& json, const char* field, const char* option, std::int64_t min, std::int64_t max,
                Words& words) {
  const auto value = json.find(field);
  if (value) words.insert(words.end(), {option, std::to_string(value->integer(min, max))});
}

void add_numerics(const Json& json, Words& words) {
  add_option(json, "kernels", "--kernels", words, [](const std::string& name) { kernels_by_name(name); });
  add_option(json, "quantize", "--quantize", words, [](const std::string& name) { quantization_by_name(name); });
  add_option(json, "kv", "--kv", words, [](const std::string& name) { kv_format_by_name(name); });
  if (const auto field = json.find("long_context"); field && field->boolean()) words.emplace_back("--long-context");
}

std::string joined_words(const Words& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += word.starts_with("--") ? ", " : " ";
    text += word.starts_with("--") ? word.substr(2) : word;
  }
  return text;
}

CampaignSampling sampling_of(const Json& json) {
  CampaignSampling sampling;
  std::set<std::string> known;
  for_each_sampling_field([&](const auto& field) {
    known.insert(field.name);
    const auto value = json.find(field.name);
    if (!value) return;
    const double number = value->number();
    if (number < static_cast<double>(field.min) || number > static_cast<double>(field.max) ||
        (field.not_zero && number == 0)) {
      value->fail(fmt::format("is {}; it is from {} to {}", value->text(), field.min, field.max));
    }
    if (std::is_integral_v<std::decay_t<decltype(field.min)>>) value->integer(field.min, field.max);
    sampling.words.insert(sampling.words.end(), {"--" + with_dashes(field.name), value->text()});
    if (std::string_view(field.name) == "temperature") sampling.greedy = number <= 0;
  });
  if (!json.is_object()) json.fail("is no object of sampling parameters; write {} for greedy");
  for (const std::string& field : json.fields()) {
    if (!known.contains(field)) json.fail("sampling has no field " + in_quotes(field) + "; docs/cli.md lists them");
  }
  sampling.name = sampling.greedy ? "greedy" : joined_words(sampling.words);
  return sampling;
}

Words tokens_as_words(const Json& ids) {
  std::string list;
  for (const std::int64_t id : ids.integers(0, std::numeric_limits<Token>::max())) {
    list += (list.empty() ? "" : ",") + std::to_string(id);
  }
  if (list.empty()) ids.fail("has no tokens");
  return {"--prompt-tokens", list};
}

std::string draft_of_campaign(const Json& field) {
  const std::string& name = word_of_command(field);
  in_field(field, [&] { parse_draft_spec(name); });
  return name;
}

/// Reads the file once. The members are the dimensions; trials() multiplies them.
class CampaignFile {
 public:
  explicit CampaignFile(const std::filesystem::path& file) : json_(Json::read(file, campaign_bytes_max)) {
    plan_.sources.push_back(file.string());
  }

  CampaignPlan plan() &&;

 private:
  void read_targets();
  void read_dimensions();
  void read_prompts();
  void read_common();
  std::vector<CampaignTrial> series() const;
  void add_products();
  void add_endpoints();
  void add(CampaignTrial trial, const std::string& seed);
  /// Where the models are, each with a digest of its content.
  void read_model(const Json& field, const std::string& path, const Words& lora);
  void read_draft(const Json& field, const std::string& draft);
  std::vector<Json> list(const char* field) const {
    const auto value = json_.find(field);
    return value ? elements_of(*value) : std::vector<Json>();
  }

  Json json_;
  CampaignPlan plan_;
  std::vector<CampaignTarget> targets_;
  std::vector<CampaignChoice> rules_;
  std::vector<CampaignSampling> samplings_;
  std::vector<CampaignChoice> numerics_;
  std::vector<CampaignChoice> prompts_;
  Words seeds_;
  Words common_;  // of every trial with drafts
  Words length_;  // of every trial
  std::set<std::string> skipped_;
  std::set<std::string> ids_;
  std::map<std::string, std::string> models_;  // by path
};

void CampaignFile::read_model(const Json& field, const std::string& path, const Words& lora) {
  const auto pair = in_field(field, [&] { return read_pair(path); });
  std::string name = pair ? pair->target : path;
  for (const std::string& adapter : lora) name += "\n" + adapter;
  if (models_.contains(name)) return;
  models_[name] = in_field(field, [&] {
    LayoutOptions layout;
    layout.lora = lora.empty() && pair ? pair->lora : lora;
    const Checkpoint files = with_adapters(Checkpoint(pair ? pair->target : path), layout);
    for (const std::string& source : paths_of_adapters(layout)) plan_.sources.push_back(source);
    return weights_fingerprint(files);
  });
  plan_.sources.push_back(path);
}

void CampaignFile::read_draft(const Json& field, const std::string& draft) {
  for (const std::string& path : parse_draft_spec(draft).paths()) {
    if (models_.contains(path)) continue;
    if (!is_present(path)) field.fail("there is no " + in_quotes(path));
    models_[path] = in_field(field, [&] { return weights_fingerprint(std::filesystem::path(path)); });
    plan_.sources.push_back(path);
  }
}

void CampaignFile::read_targets() {
  Words shared;
  for (const Json& field : list("drafts")) {
    shared.push_back(draft_of_campaign(field));
    read_draft(field, shared.back());
  }
  for (const Json& field : list("targets")) {
    CampaignTarget target;
    target.drafts = shared;
    if (field.is_string()) {
      target.path = word_of_command(field);
    } else {
      require_fields(field, "a target", {"target", "drafts", "lora"});
      target.path = word_of_command(field.at("target"));
      if (const auto own = field.find("drafts")) {
        for (const Json& draft : elements_of(*own)) {
          const std::string name = draft_of_campaign(draft);
          read_draft(draft, name);
          if (std::ranges::find(shared, name) == shared.end()) target.drafts.push_back(name);
        }
      }
      if (const auto lora = field.find("lora")) {
        for (const Json& adapter : elements_of(*lora)) target.lora.push_back(word_of_command(adapter));
      }
    }
    read_model(field, target.path, target.lora);
    if (target.drafts.empty()) field.fail("has no drafts: give it some, or the campaign; [\"none\"] is none");
    targets_.push_back(std::move(target));
  }
}

void CampaignFile::read_dimensions() {
  for (const Json& field : list("rules")) {
    const std::string& name = word_of_command(field);
    in_field(field, [&] { rule_by_name(name); });
    rules_.push_back({{"--rule", name}, "rule " + name});
  }
  if (rules_.empty()) rules_.push_back({{"--rule", "matching"}, "rule matching"});
  for (const Json& field : list("sampling")) samplings_.push_back(sampling_of(field));
  if (samplings_.empty()) samplings_.push_back({{{}, "greedy"}, true});
  for (const Json& field : list("numerics")) {
    require_fields(field, "numerics", {"kernels", "quantize", "kv", "long_context"});
    CampaignChoice choice;
    add_numerics(field, choice.words);
    choice.name = joined_words(choice.words);
    numerics_.push_back(std::move(choice));
  }
  if (numerics_.empty()) numerics_.emplace_back();
  for (const Json& field : list("seeds")) {
    seeds_.push_back(std::to_string(field.integer(0, std::numeric_limits<std::int64_t>::max())));
  }
  if (seeds_.empty()) seeds_.emplace_back("0");
}

void CampaignFile::read_prompts() {
  const auto field = json_.find("prompts");
  if (field && field->is_string()) {
    const std::string& file = field->string();
    for (const EnginePrompt& prompt : in_field(*field, [&] { return read_prompt_lines(file); })) {
      std::string ids;
      for (const Token token : prompt.tokens) ids += (ids.empty() ? "" : ",") + std::to_string(token);
      prompts_.push_back({ids.empty() ? Words{"--prompt=" + prompt.text} : Words{"--prompt-tokens", ids}, ""});
    }
    plan_.sources.push_back(file);
    return;
  }
  for (const Json& prompt : list("prompts")) {
    if (prompt.is_array()) {
      prompts_.push_back({tokens_as_words(prompt), ""});
    } else {
      prompts_.push_back({{"--prompt=" + word_of_command(prompt)}, ""});
    }
  }
  if (prompts_.empty()) prompts_.push_back({{"--prompt=Once upon a time"}, ""});
}

void CampaignFile::read_common() {
  constexpr std::int64_t int_max = std::numeric_limits<int>::max();
  add_number(json_, "max_new_tokens", "--max-new-tokens", 1, int_max, length_);
  add_number(json_, "draft_max", "--draft-max", 1, draft_max_field.max, common_);
  common_.emplace_back("--effort");
  const auto effort = json_.find("effort");
  common_.push_back(effort ? effort->string() : "quick");
  if (effort) in_field(*effort, [&] { effort_by_name(effort->string()); });
  add_number(json_, "sequences", "--sequences", 2, 64, common_);
  for (const Json& field : list("skip_checks")) {
    const std::string& name = field.string();
    const auto is_it = [&](const Check* check) { return check->name == name; };
    if (std::ranges::none_of(all_checks(), is_it) && std::ranges::none_of(build_checks(), is_it)) {
      field.fail("there is no check " + in_quotes(name) + "; docs/checks.md lists them");
    }
    skipped_.insert(name);
  }
}

/// Numbers the random draws of a trial by all that it is, so those of different trials are independent.
void CampaignFile::add(CampaignTrial trial, const std::string& seed) {
  const auto digest_of = [&](const std::string& last) {
    Sha256 digest;
    for (const std::string& word : trial.words) digest.add(word + '\0');
    digest.add(last);
    return digest.hex().substr(0, 16);
  };
  trial.words.insert(trial.words.end(), {"--seed", std::to_string(std::stoull(digest_of(seed), nullptr, 16))});
  trial.id = digest_of("");
  if (!ids_.insert(trial.id).second) json_.fail("asks for the same trial twice: " + in_quotes(trial.command()));
  plan_.trials.push_back(std::move(trial));
  if (plan_.trials.size() > trials_max) json_.fail(fmt::format("asks for more than {} trials", trials_max));
}

/// A trial of each series, without prompt and seed.
std::vector<CampaignTrial> CampaignFile::series() const {
  std::vector<CampaignTrial> all;
  const auto add_series = [&](const CampaignTarget& target, const CampaignChoice& numerics, const std::string& draft,
                              const CampaignChoice& rule, const CampaignSampling& sampling) {
    CampaignTrial trial;
    trial.sampled = !sampling.greedy;
    trial.words = {"verify", target.path, "--draft", draft, "--threads", "1"};
    trial.series = fmt::format("{}, draft {}, {}, {}", target.path, draft, rule.name, sampling.name);
    if (!numerics.name.empty()) trial.series += ", " + numerics.name;
    for (const std::string& adapter : target.lora) {
      trial.words.insert(trial.words.end(), {"--lora", adapter});
      trial.series += ", lora " + adapter;
    }
    for (const Words* more : {&rule.words, &sampling.words, &numerics.words, &length_, &common_}) {
      trial.words.insert(trial.words.end(), more->begin(), more->end());
    }
    if (trial.sampled) trial.words.emplace_back("--bets");
    all.push_back(std::move(trial));
  };
  for (const CampaignTarget& target : targets_) {
    for (const CampaignChoice& numerics : numerics_) {
      for (const std::string& draft : target.drafts) {
        for (const CampaignChoice& rule : rules_) {
          for (const CampaignSampling& sampling : samplings_) add_series(target, numerics, draft, rule, sampling);
        }
      }
    }
  }
  return all;
}

void CampaignFile::add_products() {
  std::set<std::string> rules_seen;
  for (const CampaignTrial& like : series()) {
    for (const CampaignChoice& prompt : prompts_) {
      for (const std::string& seed : seeds_) {
        CampaignTrial trial = like;
        std::set<std::string> skipped = skipped_;
        // The checks of the build depend on the rule alone: one trial makes them.
        if (!rules_seen.insert(*(std::ranges::find(like.words, "--rule") + 1)).second) {
          for (const Check* const check : build_checks()) skipped.insert(check->name);
        }
        for (const std::string& name : skipped) trial.words.insert(trial.words.end(), {"--skip-check", name});
        trial.words.insert(trial.words.end(), prompt.words.begin(), prompt.words.end());
        add(std::move(trial), seed);
        if (!like.sampled) break;  // a seed changes nothing
      }
    }
  }
}

void CampaignFile::add_endpoints() {
  for (const Json& field : list("endpoints")) {
    require_fields(field, "an endpoint",
                   {"url", "target", "requests", "clients", "answer_seconds", "kernels", "quantize", "kv"});
    const std::string url = word_of_command(field.at("url"));
    const std::string target = word_of_command(field.at("target"));
    read_model(field.at("target"), target, {});
    CampaignTrial like;
    like.of_endpoint = true;
    like.series = url;
    like.words = {"verify", target, "--endpoint", url};
    add_numerics(field, like.words);
    add_number(field, "requests", "--requests", 1, 1'000'000, like.words);
    add_number(field, "clients", "--clients", 1, 256, like.words);
    add_number(field, "answer_seconds", "--answer-seconds", 1, 1'000'000, like.words);
    like.words.insert(like.words.end(), length_.begin(), length_.end());
    like.words.insert(like.words.end(), {"--threads", "1"});
    for (const std::string& seed : seeds_) add(like, seed);
  }
}

CampaignPlan CampaignFile::plan() && {
  require_fields(json_, "a campaign",
                 {"targets", "drafts", "rules", "sampling", "numerics", "seeds", "prompts", "max_new_tokens",
                  "draft_max", "effort", "sequences", "skip_checks", "endpoints"});
  if (!json_.find("targets") && !json_.find("endpoints")) json_.fail("has no targets and no endpoints; give some");
  read_dimensions();
  read_prompts();
  read_common();
  read_targets();
  add_products();
  add_endpoints();
  Sha256 digest;
  digest.add(fmt::format("{} {}\n", DRAFTPROOF_VERSION, commit));
  for (const CampaignTrial& trial : plan_.trials) digest.add(trial.id + "\n");
  for (const auto& [path, content] : models_) digest.add(path + "\n" + content + "\n");
  plan_.digest = digest.hex();
  return std::move(plan_);
}

}  // namespace

std::string CampaignTrial::command() const {
  std::string line = "draftproof";
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

CampaignPlan read_campaign(const std::filesystem::path& file) { return CampaignFile(file).plan(); }

}  // namespace draftproof
