# SPDX-License-Identifier: MIT
"""Tools through the official clients of four APIs against a server of ours: clients_with_tools.py ADDRESS KEY

Every client asks the same: whole, in a stream, without a draft where its API can say so, and beside 15 others. The model
is a tale model, which knows no tools, so calls are demanded; what it writes is nonsense that follows the schema.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import anthropic
import ollama
import openai
from checks import check
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

address, key = sys.argv[1:]
QUESTION = "How warm is it in Paris?"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FUNCTION = {"name": "get_weather", "description": "Tells the weather", "parameters": SCHEMA}


def is_call(name, arguments):
    return name == "get_weather" and set(arguments) == {"city", "days"} and 1 <= arguments["days"] <= 9


def openai_chat():
    client = openai.OpenAI(base_url=address + "/v1", api_key=key, max_retries=5)
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "seed": 4,
        "max_tokens": 200,
    }
    answer = client.chat.completions.create(**request).choices[0]
    call = answer.message.tool_calls[0].function
    check("OpenAI: a chat calls the tool", answer.finish_reason == "tool_calls")
    check("OpenAI: the call follows the schema", is_call(call.name, json.loads(call.arguments)))
    plain = client.chat.completions.create(**request, extra_body={"speculative": False}).choices[0]
    check("OpenAI: without a draft it is the same", plain.message.tool_calls[0].function == call)
    with client.chat.completions.stream(**request) as stream:
        final = stream.get_final_completion().choices[0].message.tool_calls[0].function
    check("OpenAI: in a stream it is the same", (final.name, final.arguments) == (call.name, call.arguments))

    def beside(number):
        changed = request | {"seed": number, "messages": [{"role": "user", "content": QUESTION + str(number)}]}
        return client.chat.completions.create(**(request if number == 4 else changed)).choices[0]

    with ThreadPoolExecutor(4) as pool:  # as many as the server takes
        answers = list(pool.map(beside, range(16)))
    check("OpenAI: beside 15 others it is the same", answers[4].message.tool_calls[0].function == call)
    history = request["messages"] + [answer.message, {"role": "tool", "tool_call_id": "x", "content": "21"}]
    after = client.chat.completions.create(model="m", messages=history, tools=request["tools"], max_tokens=20)
    check("OpenAI: the tool's answer is read", after.usage.completion_tokens > 0)
    return json.loads(call.arguments)


def openai_responses(expected):
    client = openai.OpenAI(base_url=address + "/v1", api_key=key, max_retries=5)
    request = {
        "model": "m",
        "input": QUESTION,
        "tools": [{"type": "function", **FUNCTION, "strict": True}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 200,
        "extra_body": {"seed": 4},
    }
    response = client.responses.create(**request)
    call = response.output[0]
    check("responses: an item is the call", call.type == "function_call" and is_call(call.name, json.loads(call.arguments)))
    with client.responses.stream(**request) as stream:
        final = stream.get_final_response()
    check("responses: in a stream it is the same", final.output[0].arguments == call.arguments)
    text = client.responses.create(model="m", input="A tale", max_output_tokens=20, instructions="Be brief.")
    check("responses: a text has its usage", text.output_text and text.usage.output_tokens <= 20)
    following = client.responses.create(
        model="m",
        max_output_tokens=20,
        tools=request["tools"],
        input=[
            {"role": "user", "content": QUESTION},
            call.model_dump(include={"type", "call_id", "name", "arguments"}),
            {"type": "function_call_output", "call_id": call.call_id, "output": "21"},
        ],
    )
    check("responses: the function's output is read", following.status in ("completed", "incomplete"))
    later = client.responses.create(model="m", input="Go on.", max_output_tokens=8, previous_response_id=text.id)
    check("responses: one goes on with an earlier one", later.usage.input_tokens > text.usage.input_tokens)
    client.responses.delete(later.id)


def anthropic_messages():
    client = anthropic.Anthropic(base_url=address, api_key=key, max_retries=5)
    request = {
        "model": "m",
        "max_tokens": 200,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"name": "get_weather", "description": "Tells the weather", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "extra_body": {"seed": 4},
    }
    message = client.messages.create(**request)
    use = message.content[0]
    check("Anthropic: a block is the call", message.stop_reason == "tool_use" and is_call(use.name, use.input))
    with client.messages.stream(**request) as stream:
        final = stream.get_final_message()
    check("Anthropic: in a stream it is the same", final.content[0].input == use.input)
    history = [
        *request["messages"],
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "21"}]},
    ]
    after = client.messages.create(model="m", max_tokens=20, messages=history, tools=request["tools"])
    check("Anthropic: the tool's result is read", after.usage.output_tokens > 0)
    counted = client.messages.count_tokens(model="m", messages=request["messages"])
    check("Anthropic: tokens are counted", counted.input_tokens > 0)
    try:
        client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": [{"type": "image"}]}])
        check("Anthropic: BadRequestError", False)
    except anthropic.BadRequestError as wrong:
        check("Anthropic: BadRequestError", "messages[0].content[0].type" in wrong.message)


def ollama_chat():
    client = ollama.Client(host=address, headers={"Authorization": "Bearer " + key})
    check("Ollama: the model is listed", len(client.list().models) == 1)
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": QUESTION}],
        "options": {"seed": 4, "num_predict": 60},
    }
    answer = client.chat(**request)
    check("Ollama: a chat has content", answer.message.content and answer.eval_count <= 60)
    pieces = "".join(part.message.content for part in client.chat(**request, stream=True))
    check("Ollama: in a stream it is the same", pieces == answer.message.content)
    formed = client.chat(**request | {"options": {"seed": 4, "num_predict": 300}}, format=SCHEMA)
    check("Ollama: a schema is followed", set(json.loads(formed.message.content)) == {"city", "days"})
    tools = [{"type": "function", "function": FUNCTION}]
    offered = client.chat(**request, tools=tools)
    check("Ollama: tools are offered", offered.prompt_eval_count > answer.prompt_eval_count)
    text = client.generate(model="m", prompt="Once upon", raw=True, options={"num_predict": 10})
    check("Ollama: a text goes on", text.response and text.done)


def langchain(expected):
    @tool("get_weather", args_schema=SCHEMA, description="Tells the weather")
    def get_weather(city: str, days: int) -> str:
        return f"{days} warm days in {city}"

    model = ChatOpenAI(model="m", base_url=address + "/v1", api_key=key, seed=4, max_tokens=200)
    bound = model.bind_tools([get_weather], tool_choice="required", parallel_tool_calls=False)
    message = bound.invoke(QUESTION)
    call = message.tool_calls[0]
    check("LangChain: the tool is called", is_call(call["name"], call["args"]))
    result = get_weather.invoke(call)
    after = model.bind_tools([get_weather]).invoke([("user", QUESTION), message, result])
    check("LangChain: its answer is read", after.usage_metadata["output_tokens"] > 0)
    merged = None
    for chunk in bound.stream(QUESTION):
        merged = chunk if merged is None else merged + chunk
    check("LangChain: in a stream it is the same", merged.tool_calls[0]["args"] == call["args"])


arguments = openai_chat()
openai_responses(arguments)
anthropic_messages()
ollama_chat()
langchain(arguments)
