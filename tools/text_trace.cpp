// SPDX-License-Identifier: MIT
#include "tools/text_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"

namespace draftproof {
namespace {

using TraceJson = nlohmann::ordered_json;

void append_line(std::string& lines, const TraceJson& json) {
  lines += json.dump(-1, ' ', false, TraceJson::error_handler_t::replace) + "\n";
}

TraceJson sequence_line(const TextTrace& about, const EngineRequest& request, bool stop_token_emitted) {
  TraceJson line = {{"type", "sequence"}, {"prompt", request.prompt}};
  const Sampling unset;
  for_each_sampling_field([&](const auto& field) {
    const auto value = request.sampling.*field.member;
    const bool always = std::string_view(field.name) == "temperature";
    if (!always && (value == unset.*field.member || value == field.off)) return;
    if constexpr (std::is_floating_point_v<decltype(field.off)>) {
      line[field.name] = fmt::format("{:a}", static_cast<double>(value));
    } else {
      line[field.name] = value;
    }
  });
  line["max_new_tokens"] = request.max_new_tokens;
  line["stop_tokens"] = about.stops;
  if (!about.sampler_order.empty()) line["sampler_order"] = about.sampler_order;
  if (!stop_token_emitted) line["stop_token_emitted"] = false;
  return line;
}

}  // namespace

std::string text_trace(const TextTrace& about, std::span<const WrittenText> texts) {
  const auto is_stop = [&](Token token) { return std::ranges::find(about.stops, token) != about.stops.end(); };
  const bool stop_token_emitted = std::ranges::none_of(texts, [&](const WrittenText& each) {
    const std::vector<Token>& tokens = each.text.tokens;
    return each.text.finish == "stop" && (tokens.empty() || !is_stop(tokens.back()));
  });
  std::string lines;
  append_line(lines, {{"type", "header"},
                      {"schema", "spectrace/2"},
                      {"engine", about.engine},
                      {"vocabulary", about.vocabulary},
                      {"rule", "rejection"}});
  int sequence = 0;
  for (const WrittenText& each : texts) {
    const auto valid = [&](Token token) { return token >= 0 && token < about.vocabulary; };
    if (!std::ranges::all_of(each.text.tokens, valid)) {
      throw Error(
          fmt::format("{} writes a token that is not below the target's vocabulary, {}; give the model that is "
                      "served",
                      about.engine, about.vocabulary));
    }
    if (each.text.tokens.empty() || each.request.prompt.empty()) continue;
    TraceJson opening = sequence_line(about, each.request, stop_token_emitted);
    TraceJson line = {{"type", "sequence"}, {"sequence", sequence}};
    line.update(opening);
    append_line(lines, line);
    append_line(lines, {{"type", "round"},
                        {"sequence", sequence},
                        {"round", 0},
                        {"position", each.request.prompt.size()},
                        {"emitted", each.text.tokens}});
    append_line(lines,
                {{"type", "end"}, {"sequence", sequence}, {"reason", each.text.finish == "stop" ? "stop" : "length"}});
    ++sequence;
  }
  return lines;
}

}  // namespace draftproof
