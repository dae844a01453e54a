// SPDX-License-Identifier: MIT
#include "ref/drafts/draft_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/require.h"
#include "ref/drafts/drafts.h"

namespace draftproof {
namespace {

const DraftKind* find_kind(std::string_view name) {
  for (const DraftKind* const kind : all_draft_kinds()) {
    if (name == kind->name) return kind;
  }
  return nullptr;
}

/// The name of the kind that a stage begins with, known or not.
std::string_view kind_of(std::string_view stage) { return stage.substr(0, stage.find_first_of(":?+")); }

/// Names that llama.cpp, vLLM and SGLang have for kinds, other than by "_" in place of "-". Files of these come first.
constexpr std::pair<std::string_view, const DraftKind*> names_elsewhere[] = {
    {"draft", &model_kind},         {"draft-simple", &model_kind},  {"draft-model", &model_kind},
    {"draft-dflash", &dflash_kind}, {"draft-dspark", &dflash_kind}, {"dspark", &dflash_kind},
    {"draft-eagle3", &eagle3_kind}, {"draft-mtp", &mtp_kind},       {"nextn", &mtp_kind},
};

/// The kind that a stage begins with, by one of those names; nullptr when there is none, or when the path is missing
/// that the kind needs: then it may be a path itself.
const DraftKind* kind_elsewhere(std::string_view stage) {
  std::string name(kind_of(stage));
  const bool has_path = stage.substr(name.size()).starts_with(":");
  std::ranges::replace(name, '_', '-');
  const auto* const found =
      std::ranges::find(names_elsewhere, name, &std::pair<std::string_view, const DraftKind*>::first);
  const DraftKind* const kind = found != std::end(names_elsewhere) ? found->second : find_kind(name);
  return kind == nullptr || (kind->takes_path == TakesPath::required && !has_path) ? nullptr : kind;
}

/// Whether the "+" at `plus` is a part of the stage's path: where that goes on to the end of the text and is here.
bool is_in_path(const std::string& stage, std::size_t plus) {
  const std::size_t colon = stage.find(':');
  if (colon != std::string::npos && colon > plus) return false;
  const std::string path = stage.substr(colon == std::string::npos ? 0 : colon + 1);
  return is_present(path.substr(0, path.find('?')));
}

std::vector<std::string> stages_of(const std::string& name) {
  std::vector<std::string> stages;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = name.find('+', at)) != std::string::npos; ++at) {
    const std::string_view rest = std::string_view(name).substr(at + 1);
    if (find_kind(kind_of(rest)) == nullptr) {
      if (kind_elsewhere(rest) == nullptr || is_in_path(name.substr(begin), at - begin)) continue;
    }
    stages.push_back(name.substr(begin, at - begin));
    begin = at + 1;
  }
  stages.push_back(name.substr(begin));
  return stages;
}

/// "option=value,..." as names and values; nothing when the text has another form.
std::map<std::string, std::string> options_in(const std::string& text) {
  std::map<std::string, std::string> options;
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    const std::size_t equals = item.find('=');
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    if (equals == std::string::npos || equals == 0) return {};
    if (!std::all_of(item.begin(), item.begin() + static_cast<std::ptrdiff_t>(equals), is_letter)) return {};
    options[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return options;
}

const DraftOption* find_option(const DraftKind& kind, std::string_view name) {
  const auto found = std::ranges::find(kind.options, name, [](const DraftOption& row) { return row.name; });
  return found == kind.options.end() ? nullptr : &*found;
}

std::string shown(double value) {
  std::ostringstream text;
  text.precision(10);
  text << value;
  return text.str();
}

double number_in(const std::string& text) {
  double value = NAN;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size() ? value : NAN;
}

void require_option(const std::string& draft, const DraftKind& kind, const std::string& name,
                    const std::string& value) {
  const DraftOption* const option = find_option(kind, name);
  if (option == nullptr) {
    std::string known;
    for (const DraftOption& row : kind.options) known += (known.empty() ? "" : ", ") + std::string(row.name);
    throw Error("draft '" + draft + "': " + kind.name + " has no option '" + name + "'; " +
                (known.empty() ? "it has none" : "there are " + known));
  }
  if (!option->words.empty()) {
    if (std::ranges::find(option->words, value, [](const char* word) { return std::string_view(word); }) !=
        option->words.end()) {
      return;
    }
    std::string known;
    for (const char* const word : option->words) known += std::string(" ") + word;
    throw Error("draft '" + draft + "': option " + name + " of " + kind.name + " is one of" + known + ", not '" +
                value + "'");
  }
  const double number = number_in(value);
  if (number >= option->min && number <= option->max && (!option->integer || number == std::floor(number))) return;
  throw Error("draft '" + draft + "': option " + name + " of " + kind.name + " is " +
              (option->integer ? "an integer" : "a number") + " from " + shown(option->min) + " to " +
              shown(option->max) + ", not '" + value + "'");
}

/// Reads q4=1, which type=q4 was called before, where type is not given beside it.
void rename_q4(std::map<std::string, std::string>& given, const DraftKind& kind) {
  const auto q4 = given.find("q4");
  if (q4 == given.end() || find_option(kind, "type") == nullptr || given.contains("type")) return;
  if (q4->second != "0" && q4->second != "1") return;
  if (q4->second == "1") given["type"] = "q4";
  given.erase(q4);
}

/// A stage without a kind: the path of a checkpoint, whose config says what it is, or a kind by another name.
std::string with_kind(const std::string& draft, const std::string& text) {
  const std::size_t mark = text.rfind('?');
  const bool has_options = mark != std::string::npos && !options_in(text.substr(mark + 1)).empty();
  const std::string path = has_options ? text.substr(0, mark) : text;
  if (!path.empty() && is_present(path)) return kind_of_draft(Checkpoint(path)) + ":" + text;
  if (const DraftKind* const kind = kind_elsewhere(text)) return kind->name + text.substr(kind_of(text).size());
  throw Error("draft '" + draft + "' is not known, neither as a kind nor as a folder or file; there are " +
              names_of_drafts());
}

DraftStage parse_stage(const std::string& draft, const std::string& text) {
  const std::string_view kind = kind_of(text);
  DraftStage stage = {find_kind(kind), {}, {}};
  if (stage.kind == nullptr) return parse_stage(draft, with_kind(draft, text));
  std::string rest = text.substr(kind.size());
  if (const std::size_t mark = rest.rfind('?'); mark != std::string::npos) {
    stage.given = options_in(rest.substr(mark + 1));
    if (!stage.given.empty()) rest.resize(mark);
    rename_q4(stage.given, *stage.kind);
  }
  for (const auto& [name, value] : stage.given) require_option(draft, *stage.kind, name, value);
  const std::string name = stage.kind->name;
  const bool has_path = !rest.empty() && rest[0] == ':';
  const TakesPath takes_path = stage.kind->takes_path;
  if (rest.size() < 2 && (takes_path == TakesPath::required || (takes_path != TakesPath::none && has_path))) {
    throw Error("draft '" + draft + "' needs a path: " + name + ":PATH");
  }
  if (takes_path == TakesPath::none && has_path) throw Error("draft '" + draft + "' takes no path");
  if (!has_path && !rest.empty()) {
    throw Error("draft '" + draft + "': '" + rest + "' is not a list of options like ?option=value,option=value");
  }
  if (has_path) stage.path = rest.substr(1);
  return stage;
}

}  // namespace

double DraftStage::option(std::string_view name) const {
  const DraftOption* const option = find_option(*kind, name);
  REQUIRE(option != nullptr, "an option is looked up that its kind has");
  const auto found = given.find(std::string(name));
  return found == given.end() ? option->default_value : number_in(found->second);
}

bool DraftStage::takes(std::string_view name) const { return find_option(*kind, name) != nullptr; }

std::optional<std::string> DraftStage::word(std::string_view name) const {
  REQUIRE(takes(name), "an option is looked up that its kind has");
  const auto found = given.find(std::string(name));
  return found == given.end() ? std::nullopt : std::optional(found->second);
}

std::string DraftStage::name_with(const std::filesystem::path& other) const {
  std::string name = kind->name;
  if (!other.empty()) name += ":" + other.generic_string();
  char before = '?';
  for (const auto& [option, value] : given) {
    name += before + option + "=" + value;
    before = ',';
  }
  return name;
}

bool DraftStage::trees() const { return kind->trees || (takes("tree") && option("tree") > 0); }

bool DraftSpec::none() const { return stages.front().kind == &none_kind; }

bool DraftStage::ends_early() const {
  const auto given = [&](const char* name) { return takes(name) && option(name) > 0; };
  return kind->keeps != Keeps::tokens && (given("min_prob") || given("min_confidence"));
}

bool DraftSpec::ends_early() const {
  return std::ranges::any_of(stages, [](const DraftStage& stage) { return stage.ends_early(); });
}

bool DraftSpec::trees() const {
  return std::ranges::any_of(stages, [](const DraftStage& stage) { return stage.trees(); });
}

std::vector<std::string> DraftSpec::paths() const {
  std::vector<std::string> paths;
  for (const DraftStage& stage : stages) {
    if (!stage.path.empty()) paths.push_back(stage.path.string());
  }
  return paths;
}

DraftSpec parse_draft_spec(const std::string& name) {
  DraftSpec spec;
  const DraftStage* cached = nullptr;
  for (const std::string& text : stages_of(name)) spec.stages.push_back(parse_stage(name, text));
  for (const DraftStage& stage : spec.stages) {
    if (spec.stages.size() > 1 && stage.kind == &none_kind) {
      throw Error("draft '" + name + "': none cannot be joined with other drafts");
    }
    if (stage.kind->keeps != Keeps::cache) continue;
    if (cached != nullptr) {
      throw Error("draft '" + name + "': " + cached->kind->name + " and " + stage.kind->name +
                  " both keep a cache of the text, and only one stage may; leave one of them out");
    }
    cached = &stage;
  }
  return spec;
}

void require_chains(const std::string& name, const std::string& what) {
  if (!parse_draft_spec(name).trees()) return;
  throw Error(what + " holds chains of draft tokens, but the draft '" + name + "' proposes trees; use another draft");
}

}  // namespace draftproof
