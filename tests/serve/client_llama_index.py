# SPDX-License-Identifier: MIT
"""LlamaIndex against a server of ours: client_llama_index.py ADDRESS KEY

Apart from clients_of_agents.py, as it needs an older version of OpenAI's client.
"""

import sys

from checks import check
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

address, key = sys.argv[1:]
QUESTION = "How many warm days are there?"


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


model = OpenAILike(model="m", api_base=address + "/v1", api_key=key, is_chat_model=True, max_tokens=60,
                   is_function_calling_model=True, temperature=0)
answer = model.chat([ChatMessage(role="user", content=QUESTION)])
check("LlamaIndex: a chat has content", bool(answer.message.content))
parts = "".join(part.delta or "" for part in model.stream_chat([ChatMessage(role="user", content=QUESTION)]))
check("LlamaIndex: in a stream it is the same", parts == answer.message.content)
text = model.complete("Once upon a time").text
check("LlamaIndex: a text goes on", bool(text))
model.max_tokens = 300
called = model.chat_with_tools([FunctionTool.from_defaults(add)], user_msg=QUESTION, tool_required=True)
calls = model.get_tool_calls_from_response(called, error_on_no_tool_call=False)
check("LlamaIndex: the tool is called", calls and all(set(call.tool_kwargs) == {"a", "b"} for call in calls))
