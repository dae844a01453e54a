// SPDX-License-Identifier: MIT
#include "serve/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <new>
#include <nlohmann/json.hpp>

#include "ref/formats/printable.h"

namespace draftproof::serve {
namespace {

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

LogField::LogField(const char* field, double number)
    : name(field), value(fmt::format("{:.3f}", number)), is_number(true) {}

void Log::write(const std::string& event, const std::vector<LogField>& fields) const try {
  if (format_ == LogFormat::none) return;
  const bool json = format_ == LogFormat::json;
  std::string line =
      json ? fmt::format("{{\"time\":\"{}\",\"event\":{}", now(), quoted(event)) : fmt::format("{} {}", now(), event);
  for (const LogField& field : fields) {
    if (json) {
      line += fmt::format(",\"{}\":{}", field.name, field.is_number ? field.value : quoted(field.value));
    } else if (!field.value.empty()) {
      line += fmt::format(" {}={}", field.name, field.is_number ? field.value : in_quotes(field.value));
    }
  }
  line += json ? "}\n" : "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call, so lines of several threads do not mix
} catch (const std::bad_alloc&) {                    // there is no memory for the line
}

}  // namespace draftproof::serve
