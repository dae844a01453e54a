# SPDX-License-Identifier: MIT
"""Agents and libraries around OpenAI's API against a server of ours: clients_of_agents.py ADDRESS KEY

llm, smolagents and OpenAI's agents, each with a tool where it has some. The model is a tale model, which
knows no tools, so calls are demanded; what it writes is nonsense that follows the schema.
"""

import asyncio
import os
import sys
import tempfile

address, key = sys.argv[1:]
os.environ["LLM_USER_PATH"] = tempfile.mkdtemp()
os.environ["OPENAI_API_KEY"] = key
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import agents  # noqa: E402
import llm  # noqa: E402
import openai  # noqa: E402
import smolagents  # noqa: E402
from checks import check  # noqa: E402
from llm.default_plugins.openai_models import Chat  # noqa: E402

QUESTION = "How many warm days are there?"


def count_days(warm: bool) -> int:
    """Counts days.

    Args:
        warm: whether warm ones are counted
    """
    return 3 if warm else 4


def llm_command():
    model = Chat("tale", model_name="m", api_base=address + "/v1", supports_schema=True)
    said = model.prompt(QUESTION, stream=False, key=key, temperature=0, max_tokens=40).text()
    check("llm: a chat has content", bool(said))
    parts = "".join(model.prompt(QUESTION, stream=True, key=key, temperature=0, max_tokens=40))
    check("llm: in a stream it is the same", parts == said)
    chat = model.conversation()
    chat.prompt(QUESTION, key=key, temperature=0, max_tokens=20).text()
    check("llm: a conversation goes on", bool(chat.prompt("Why?", key=key, temperature=0, max_tokens=20).text()))
    schema = llm.schema_dsl("days int, warm bool")
    formed = model.prompt(QUESTION, schema=schema, key=key, stream=False, max_tokens=300).text()
    check("llm: a schema is followed", '"days"' in formed and '"warm"' in formed)


def smolagents_agent():
    model = smolagents.OpenAIServerModel("m", api_base=address + "/v1", api_key=key, max_tokens=150, seed=4)
    agent = smolagents.ToolCallingAgent([smolagents.tool(count_days)], model, max_steps=1, verbosity_level=0)
    agent.prompt_templates["system_prompt"] = "Use a tool."  # its own is longer than the context of the model
    agent.run(QUESTION)
    calls = [call for step in agent.memory.steps for call in getattr(step, "tool_calls", None) or []]
    check("smolagents: every call names a tool",
          calls and all(call.name in ("count_days", "final_answer") for call in calls))


async def openai_agents():
    client = openai.AsyncOpenAI(base_url=address + "/v1", api_key=key)
    for kind in (agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel):
        agent = agents.Agent("tale", instructions="Use the tool.", model=kind("m", client),
                             tools=[agents.function_tool(count_days)], tool_use_behavior="stop_on_first_tool",
                             model_settings=agents.ModelSettings(tool_choice="required", max_tokens=150,
                                                                 parallel_tool_calls=False))
        result = await agents.Runner.run(agent, QUESTION)
        check(f"OpenAI's agents, {kind.__name__}: the tool is called", str(result.final_output) in ("3", "4"))


llm_command()
smolagents_agent()
asyncio.run(openai_agents())
