// SPDX-License-Identifier: MIT
// The log of a server: one line on standard error for everything that happened, as text or as a JSON object.
#pragma once

#include <concepts>
#include <string>
#include <vector>

namespace draftproof::serve {

enum class LogFormat { text, json, none };

struct LogField {
  LogField(const char* field, std::string text) : name(field), value(std::move(text)), is_number(false) {}
  LogField(const char* field, const char* text) : LogField(field, std::string(text)) {}
  LogField(const char* field, std::integral auto number)
      : name(field), value(std::to_string(number)), is_number(true) {}
  LogField(const char* field, double number);

  const char* name;
  std::string value;
  bool is_number;
};

/// Thread-safe.
class Log {
 public:
  explicit Log(LogFormat format) : format_(format) {}
  void write(const std::string& event, const std::vector<LogField>& fields = {}) const;

 private:
  LogFormat format_;
};

}  // namespace draftproof::serve
