# SPDX-License-Identifier: MIT
"""The official OpenAI client against a server of ours: openai_client.py ADDRESS KEY"""

import sys

import openai
from checks import check

address, key = sys.argv[1:]
client = openai.OpenAI(base_url=address + "/v1", api_key=key, max_retries=0)
ask = [{"role": "user", "content": "Tell me a tale"}]


def refused(error, call):
    try:
        call()
    except error as wrong:
        return wrong
    return None


model = client.models.list().data[0]
check("models.list names a model", bool(model.id) and client.models.list().object == "list")

chat = client.chat.completions.create(model=model.id, messages=ask, seed=5, max_tokens=40, logprobs=True, top_logprobs=3)
choice = chat.choices[0]
check("a chat has content, a role and a reason", choice.message.content and choice.message.role == "assistant" and
      choice.finish_reason in ("stop", "length"))
check("each token has its logprob and the three most likely", len(choice.logprobs.content) ==
      chat.usage.completion_tokens and all(len(one.top_logprobs) == 3 for one in choice.logprobs.content))
check("usage adds up", chat.usage.total_tokens == chat.usage.prompt_tokens + chat.usage.completion_tokens)

again = client.chat.completions.create(model=model.id, messages=ask, seed=5, max_tokens=40)
check("the same seed gives the same text", again.choices[0].message.content == choice.message.content)
plain = client.chat.completions.create(model=model.id, messages=ask, seed=5, max_tokens=40,
                                       extra_body={"speculative": False})
check("so does plain decoding", plain.choices[0].message.content == choice.message.content)
other = client.chat.completions.create(model=model.id, messages=ask, seed=6, max_tokens=40)
check("another seed gives another text", other.choices[0].message.content != choice.message.content)

text, last = "", None
for chunk in client.chat.completions.create(model=model.id, messages=ask, seed=5, max_tokens=40, stream=True,
                                            stream_options={"include_usage": True}):
    if chunk.choices:
        text += chunk.choices[0].delta.content or ""
    last = chunk
check("a stream is the same text", text == choice.message.content)
check("its last chunk has the usage", last.usage.completion_tokens == chat.usage.completion_tokens)

several = client.completions.create(model=model.id, prompt="Once upon a time", n=3, seed=2, max_tokens=20, logprobs=2)
check("n=3 gives three different texts", len({one.text for one in several.choices}) == 3)
check("logprobs of a completion", len(several.choices[0].logprobs.token_logprobs) ==
      len(several.choices[0].logprobs.tokens))
stopped = client.completions.create(model=model.id, prompt="Once upon a time", seed=2, max_tokens=60, stop=[" the"])
check("a stop string ends before itself", " the" not in stopped.choices[0].text)

schema = {"name": "person", "schema": {"type": "object", "required": ["name", "age"], "additionalProperties": False,
                                       "properties": {"name": {"type": "string", "maxLength": 20},
                                                      "age": {"type": "integer", "minimum": 0, "maximum": 130}}}}
person = client.chat.completions.create(model=model.id, messages=ask, seed=1, max_tokens=100,
                                        response_format={"type": "json_schema", "json_schema": schema})
check("a schema is satisfied", set(__import__("json").loads(person.choices[0].message.content)) == {"name", "age"})

wrong = refused(openai.BadRequestError, lambda: client.chat.completions.create(
    model=model.id, messages=ask, temperature=-1))
check("BadRequestError names the field", wrong is not None and "temperature" in wrong.message)
check("NotFoundError", refused(openai.NotFoundError, lambda: client.embeddings.create(model="x", input="y")) is not None)
full = {"model": model.id, "prompt": "Once upon a time", "n": 3, "max_tokens": 900,
        "extra_body": {"ignore_eos": True}}
with client.completions.create(stream=True, **full) as running:
    next(iter(running))
    check("RateLimitError", refused(openai.RateLimitError, lambda: client.completions.create(**full)) is not None)
stranger = openai.OpenAI(base_url=address + "/v1", api_key="nobody", max_retries=0)
check("AuthenticationError", refused(openai.AuthenticationError, lambda: stranger.models.list()) is not None)
