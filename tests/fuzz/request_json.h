// SPDX-License-Identifier: MIT
// Sound bodies of requests, and what takes the place of a value in them.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/damage.h"

namespace draftproof::serve {

inline const std::vector<std::string> completion_bodies = {
    R"({"prompt":"Once upon a time","max_tokens":4,"temperature":0.5,"top_p":0.9,"seed":7,"n":2,"stop":["x","yz"]})",
    R"({"prompt":[1,2,3],"max_tokens":3,"logprobs":2,"logit_bias":{"5":1.5,"7":-100},"stream":true})",
    R"({"prompt":"a","max_tokens":5,"grammar":"root ::= (\"a\" | [b-d]+ x?){2,3}\nx ::= \"\\u00e4\" | root \"e\""})",
};
inline const std::vector<std::string> chat_bodies = {
    R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"x"}]}],)"
    R"("max_tokens":4,"stream":true,"stream_options":{"include_usage":true},"return_tokens":true})",
    R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":6,"response_format":{"type":"json_schema",)"
    R"("json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"type":"integer","minimum":-5,)"
    R"("maximum":70},"b":{"anyOf":[{"enum":["p","q"]},{"$ref":"#/$defs/t"}]}},"required":["a"],)"
    R"("$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":3}}}}}})",
};

inline void replace_value(std::string& body, Numbers& numbers) {
  static const std::string values[] = {"null",
                                       "true",
                                       "-1",
                                       "1e999",
                                       "1.5",
                                       "\"\"",
                                       "[]",
                                       "{}",
                                       "9999999999999999999",
                                       "\"\\ud800\"",
                                       "\xFF",
                                       "[[[[",
                                       "{\"a\":1,\"a\":2}",
                                       "0",
                                       "\"x\"",
                                       "NaN"};
  const std::size_t at = body.find_first_of(":,[{", numbers.below(body.size() + 1));
  if (at == std::string::npos) return;
  const std::size_t end = std::min(body.find_first_of(",]}", at + 1), body.size());
  body.replace(at + 1, end - at - 1, values[numbers.below(std::size(values))]);
}

}  // namespace draftproof::serve
