# SPDX-License-Identifier: Apache-2.0
"""Chat templates and conversations: halo-tiny's own template, and templates of our
own in the shapes that the model families use, so that everything such templates lean
on is exercised together."""
import json
import os

from jinja_env import render

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# One shape each: what it leans on is said in front of it.
TEMPLATES = {
    # reversed slices, namespace flags, split on </think>, nested macros of none
    "hybrid-thinking": r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Functions\n\nEach line is one signature, inside <tools></tools>:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(searching=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or (not loop.last and thoughts)) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + thoughts.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' ~ content ~ '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
""",
    # macros over mappings, items(), `is mapping`, string filters in chains, XML
    "xml-tools": r"""
{% macro extra(obj, known) %}
    {%- if obj is mapping %}
        {%- for key in obj if key not in known %}
            {%- if obj[key] is mapping or (obj[key] is sequence and obj[key] is not string) %}
                {{- '\n<' ~ key ~ '>' ~ (obj[key] | tojson | safe) ~ '</' ~ key ~ '>' }}
            {%- else %}
                {{- '\n<' ~ key ~ '>' ~ (obj[key] | string) ~ '</' ~ key ~ '>' }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = [] %}
{%- endif %}
{%- if system_message is defined %}
    {{- "<|im_start|>system\n" + system_message }}
{%- elif tools is iterable and tools | length > 0 %}
    {{- "<|im_start|>system\nYou can act with functions." }}
{%- endif %}
{%- if tools is iterable and tools | length > 0 %}
    {{- "\n\n# Tools\n\n<tools>" }}
    {%- for tool in tools %}
        {%- if tool.function is defined %}
            {%- set tool = tool.function %}
        {%- endif %}
        {{- "\n<function>\n<name>" ~ tool.name ~ "</name>" }}
        {%- if tool.description is defined %}
            {{- '\n<description>' ~ (tool.description | trim) ~ '</description>' }}
        {%- endif %}
        {{- '\n<parameters>' }}
        {%- if tool.parameters is defined and tool.parameters is mapping and tool.parameters.properties is defined and tool.parameters.properties is mapping %}
            {%- for name, fields in tool.parameters.properties | items %}
                {{- '\n<parameter>\n<name>' ~ name ~ '</name>' }}
                {%- if fields.type is defined %}
                    {{- '\n<type>' ~ (fields.type | string) ~ '</type>' }}
                {%- endif %}
                {{- extra(fields, ['name', 'type', 'description']) }}
                {{- '\n</parameter>' }}
            {%- endfor %}
        {%- endif %}
        {{- extra(tool.parameters, ['type', 'properties']) }}
        {{- '\n</parameters>\n</function>' }}
    {%- endfor %}
    {{- "\n</tools>" }}
{%- endif %}
{%- if system_message is defined or (tools is iterable and tools | length > 0) %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in rest %}
    {%- if message.role == "assistant" and message.tool_calls is defined and message.tool_calls is iterable and message.tool_calls | length > 0 %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content is defined and message.content is string and message.content | trim | length > 0 %}
            {{- '\n' + message.content | trim + '\n' }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- set call = tool_call.function if tool_call.function is defined else tool_call %}
            {{- '\n<tool_call>\n<function=' + call.name + '>\n' }}
            {%- if call.arguments is defined and call.arguments is mapping %}
                {%- for arg, value in call.arguments.items() %}
                    {{- '<parameter=' + arg + '>\n' }}
                    {%- set value = value if value is string else value | tojson | safe %}
                    {{- value }}
                    {{- '\n</parameter>\n' }}
                {%- endfor %}
            {%- endif %}
            {{- '</function>\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role in ["user", "system", "assistant"] %}
        {{- '<|im_start|>' + message.role + '\n' + (message.content or '') + '<|im_end|>' + '\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}
            {{- '<|im_start|>user\n' }}
        {%- endif %}
        {{- '<tool_response>\n' + message.content + '\n</tool_response>\n' }}
        {%- if not loop.last and loop.nextitem.role != "tool" %}
            {{- '<|im_end|>\n' }}
        {%- elif loop.last %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
""",
    # default dates, tojson(indent=4), raise_exception, tools in the user's turn
    "header-ids": r"""
{{- bos_token | default('<s>') }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if not in_user is defined %}{% set in_user = true %}{% endif %}
{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif %}
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\n\n" }}
{%- if tools is not none %}{{ "Environment: tools\n" }}{% endif %}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none and not in_user %}
    {{- "You have these functions.\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}
{%- if in_user and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content'] | trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No user message to put the tools into!") }}
    {%- endif %}
    {{- '<|start|>user<|end|>\n\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\n\n' + message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("This model makes one call at a time!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start|>assistant<|end|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}<|eot|>" }}
    {%- elif message.role == "tool" %}
        {{- "<|start|>ipython<|end|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\n\n' }}
{%- endif %}
""",
    # alternation checks, selectattr chains, loop filters, string methods
    "instruct-brackets": r"""
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token | d("<s>") }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val | tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function | tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id | length != 9 %}
                {{- raise_exception("Tool call IDs should be 9 characters long!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + "</s>" }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + "</s>" }}
    {%- elif message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content | string + "}[/TOOL_RESULTS]" }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
""",
    # recursive macros over schemas, whitespace without minus signs, `+`, channels
    "channels": r"""
{#- A schema as a type of a typed language. -#}
{%- macro type_of(spec, required, indent=0) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}
            {%- if spec['items']['type'] in ["string", "number", "integer", "boolean"] -%}
                {{- {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}[spec['items']['type']] + "[]" }}
            {%- else -%}
                {{- type_of(spec['items'], required, indent) + "[]" }}
            {%- endif -%}
        {%- else -%}
            {{- "any[]" }}
        {%- endif -%}
        {%- if spec.nullable -%}{{ " | null" }}{%- endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}
        {{- spec.type | join(" | ") }}
    {%- elif spec.oneOf -%}
        {%- for variant in spec.oneOf -%}
            {{- type_of(variant, required) }}
            {%- if variant.description %}{{ "// " + variant.description }}{% endif -%}
            {%- if not loop.last %}{{ " | " }}{% endif -%}
        {%- endfor -%}
    {%- elif spec.type == "string" -%}
        {%- if spec.enum -%}
            {{- '"' + spec.enum | join('" | "') + '"' -}}
        {%- else -%}
            {{- "string" }}
        {%- endif -%}
    {%- elif spec.type in ["number", "integer"] -%}
        {{- "number" }}
    {%- elif spec.type == "boolean" -%}
        {{- "boolean" }}
    {%- elif spec.type == "object" -%}
        {%- if spec.properties -%}
            {{- "{\n" }}
            {%- for name, prop in spec.properties.items() -%}
                {{- "  " * (indent + 1) ~ name }}
                {%- if name not in (spec.required or []) -%}{{ "?" }}{%- endif -%}
                {{- ": " ~ type_of(prop, spec.required or [], indent + 1) }}
                {%- if prop.default is defined -%}
                    {{- ", // default: " ~ (prop.default if prop.default is not string else '"' ~ prop.default ~ '"') }}
                {%- endif -%}
                {%- if not loop.last %}{{ "," }}{% endif %}
                {{- "\n" }}
            {%- endfor -%}
            {{- "  " * indent + "}" }}
        {%- else -%}
            {{- "object" }}
        {%- endif -%}
    {%- else -%}
        {{- "any" }}
    {%- endif -%}
{%- endmacro -%}
{%- macro tool_namespace(namespace_name, tools) -%}
    {{- "## " + namespace_name + "\n\nnamespace " + namespace_name + " {\n\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\n" }}
        {{- "type " + tool.name + " = (" }}
        {%- if tool.parameters and tool.parameters.properties %}
            {{- "_: " ~ type_of(tool.parameters, []) }}
        {%- endif %}
        {{- ") => any;\n\n" }}
    {%- endfor %}
    {{- "} // namespace " + namespace_name }}
{%- endmacro -%}
{%- macro system_message() -%}
    {%- if model_identity is not defined %}
        {%- set model_identity = "You are a model." %}
    {%- endif %}
    {{- model_identity + "\nCurrent date: " + strftime_now("%Y-%m-%d") + "\n\n" }}
    {%- if reasoning_effort is not defined %}
        {%- set reasoning_effort = "medium" %}
    {%- endif %}
    {{- "Reasoning: " + reasoning_effort + "\n\n" }}
    {{- "# Valid channels: analysis, commentary, final." }}
    {%- if tools -%}
        {{- "\nCalls go to the commentary channel: 'functions'." }}
    {%- endif -%}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}
{{- system_message() }}
{{- "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set developer_message = "" %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if developer_message or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if developer_message %}
        {{- "# Instructions\n\n" + developer_message + "\n\n" }}
    {%- endif %}
    {%- if tools -%}
        {{- "# Tools\n\n" + tool_namespace("functions", tools) }}
    {%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "content" in message and message.content is string and "<|channel|>analysis<|message|>" in message.content %}
            {{- raise_exception("Put the analysis into the 'thinking' field.") }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- set future_final_message = namespace(found=false) %}
            {%- for future_message in loop_messages[loop.index:] %}
                {%- if future_message.role == 'assistant' and "tool_calls" not in future_message %}
                    {%- set future_final_message.found = true %}
                {%- endif %}
            {%- endfor %}
            {%- set tool_call = message.tool_calls[0] %}
            {%- if tool_call.function %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {%- if message.content and message.thinking %}
                {{- raise_exception("Cannot pass both content and thinking in an assistant message with tool calls!") }}
            {%- elif message.reasoning_content and not future_final_message.found %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.reasoning_content + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=" }}
            {{- "functions." + tool_call.name + "<|channel|>commentary " }}
            {{- (tool_call.content_type if tool_call.content_type is defined else "json") + "<|message|>" }}
            {{- tool_call.arguments | tojson }}
            {{- "<|call|>" }}
            {%- set last_tool_call.name = tool_call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {%- if "thinking" in message %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}
            {{- raise_exception("Message has tool role, but there was no previous assistant message with a tool call!") }}
        {%- endif %}
        {{- "<|start|>functions." + last_tool_call.name }}
        {{- " to=assistant<|channel|>commentary<|message|>" + message.content | tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" ~ message.content ~ "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}
""",
    # content parts, a macro that walks them, tojson(ensure_ascii=False), blocks with text
    "parts-and-text": r"""[gMASK]<sop>
{%- if tools -%}
<|system|>
# Tools

Functions inside <tools></tools>:
<tools>
{% for tool in tools %}
{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}
</tools>

For each call:
<tool_call>{function-name}
<arg_key>{key}</arg_key>
<arg_value>{value}</arg_value>
</tool_call>{%- endif -%}
{%- macro visible_text(content) -%}
    {%- if content is string -%}
        {{- content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}
            {%- if item is mapping and item.type == 'text' -%}
                {{- item.text }}
            {%- elif item is string -%}
                {{- item }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{- content }}
    {%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last_user_index=-1) %}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {% set ns.last_user_index = loop.index0 -%}
    {%- endif %}
{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ visible_text(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not visible_text(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}
<|assistant|>
{%- set reasoning_content = '' %}
{%- set content = visible_text(m.content) %}
{%- if m.reasoning_content is string %}
    {%- set reasoning_content = m.reasoning_content %}
{%- else %}
    {%- if '</think>' in content %}
        {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
{%- endif %}
{%- if loop.index0 > ns.last_user_index and reasoning_content -%}
{{ '\n<think>' + reasoning_content.strip() +  '</think>'}}
{%- else -%}
{{ '\n<think></think>' }}
{%- endif -%}
{%- if content.strip() -%}
{{ '\n' + content.strip() }}
{%- endif -%}
{% if m.tool_calls %}
{% for tc in m.tool_calls %}
{%- if tc.function %}
    {%- set tc = tc.function %}
{%- endif %}
{{ '\n<tool_call>' + tc.name }}
{% set _args = tc.arguments %}
{% for k, v in _args.items() %}
<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor %}
</tool_call>{% endfor %}
{% endif %}
{%- elif m.role == 'tool' -%}
{%- if m.content is string -%}
{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
    {{- '<|observation|>' }}
{%- endif %}
{{- '\n<tool_response>\n' }}
{{- m.content }}
{{- '\n</tool_response>' }}
{%- else -%}
<|observation|>{% for tr in m.content %}

<tool_response>
{{ tr.output if tr.output is defined else tr }}
</tool_response>{% endfor -%}
{% endif -%}
{%- elif m.role == 'system' -%}
<|system|>
{{ visible_text(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|assistant|>{{- '\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}
{%- endif -%}
""",
    # one long line, namespace state machine, `is none`, nested sets
    "one-line": r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true, is_last_user=false) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{%- set ns.is_first = false -%}{%- set ns.is_last_user = true -%}{{'<|User|>' + message['content'] + '<|Assistant|>'}}{%- endif %}{%- if message['role'] == 'assistant' and message['tool_calls'] is defined and message['tool_calls'] is not none %}{%- set ns.is_last_user = false -%}{%- if ns.is_tool %}{{'<|outputs_end|>'}}{%- endif %}{%- set ns.is_first = false %}{%- set ns.is_tool = false -%}{%- set ns.is_output_first = true %}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{%- if message['content'] is none %}{{'<|calls_begin|><|call_begin|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n' + '```json' + '\n' + (tool['function']['arguments'] | tojson) + '\n' + '```' + '<|call_end|>'}}{%- else %}{{message['content'] + '<|calls_begin|><|call_begin|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n' + '```json' + '\n' + (tool['function']['arguments'] | tojson) + '\n' + '```' + '<|call_end|>'}}{%- endif %}{%- set ns.is_first = true -%}{%- else %}{{'\n' + '<|call_begin|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n' + '```json' + '\n' + (tool['function']['arguments'] | tojson) + '\n' + '```' + '<|call_end|>'}}{%- endif %}{%- endfor %}{{'<|calls_end|><|end|>'}}{%- endif %}{%- if message['role'] == 'assistant' and (message['tool_calls'] is not defined or message['tool_calls'] is none) %}{%- set ns.is_last_user = false -%}{%- if ns.is_tool %}{{'<|outputs_end|>' + message['content'] + '<|end|>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{content + '<|end|>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_last_user = false -%}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<|outputs_begin|><|output_begin|>' + message['content'] + '<|output_end|>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\n<|output_begin|>' + message['content'] + '<|output_end|>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<|outputs_end|>'}}{% endif %}{% if add_generation_prompt and not ns.is_last_user and not ns.is_tool %}{{'<|Assistant|>'}}{% endif %}""",
    # generation blocks, break, call blocks, filter blocks, with
    "odd-corners": r"""
{%- macro turn(role) -%}
<{{ role }}>{{ caller() }}</{{ role }}>
{% endmacro -%}
{%- set roles = dict(user='U', assistant='A', system='S', tool='T', developer='D') -%}
{%- for message in messages -%}
    {%- if message.role not in roles -%}
        {{- raise_exception('unknown role ' ~ message.role | tojson) -}}
    {%- endif -%}
    {%- if loop.index > 6 -%}{%- break -%}{%- endif -%}
    {%- if message.content is none or message.content == '' -%}{%- continue -%}{%- endif -%}
    {%- call turn(roles[message.role]) -%}
        {%- if message.role == 'assistant' -%}
            {%- generation -%}
                {{- message.content if message.content is string else message.content | map(attribute='text') | join -}}
            {%- endgeneration -%}
        {%- elif message.role == 'user' -%}
            {%- filter trim | indent(2) -%}
                {{ message.content if message.content is string else message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\n') }}
            {%- endfilter -%}
        {%- else -%}
            {%- with name = message.name | default(message.role, true), n = loop.length -%}
                {{- '%s/%d: ' % (name | upper, n) -}}{{- message.content -}}
            {%- endwith -%}
        {%- endif -%}
    {%- endcall -%}
{%- endfor -%}
{%- set joined -%}
    {% for m in messages | rejectattr('role', 'in', ['tool', 'system']) | list %}{{ loop.cycle('a', 'b') }}{{ ',' if not loop.last }}{% endfor %}
{%- endset -%}
[{{ joined | trim }}|{{ messages | map(attribute='role') | unique | sort | join('+') }}]
""",
}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather in a \"city\" \u2014 <now>.",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Name, like 'Köln'"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": ["integer", "null"], "default": 3}}}}},
    {"type": "function", "function": {
        "name": "plan", "description": "Make a plan", "parameters": {
            "type": "object", "additionalProperties": False, "properties": {
                "steps": {"type": "array", "items": {"type": "object", "required": ["what"], "properties": {
                    "what": {"type": "string"}, "when": {"oneOf": [{"type": "string"}, {"type": "number"}]},
                    "tags": {"type": "array", "items": {"type": "string"}, "nullable": True}}}},
                "dry": {"type": "boolean", "default": True}}}}},
    {"type": "function", "function": {"name": "ping", "description": "Nothing", "parameters": {}}},
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, id="abc123def"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "  You are helpful.\n"}
WEATHER = call("get_weather", {"city": "Köln <|x|>", "days": 2, "f": 1.5, "ok": True, "no": None, "l": [1, "a"]})

CONVERSATIONS = [
    ("one", [user("Hi")], {}),
    ("system", [SYSTEM, user("Hi\nthere ")], {}),
    ("developer", [{"role": "developer", "content": "Be terse."}, user("Hi")], {}),
    ("turns", [SYSTEM, user("a"), assistant("b"), user("c"), assistant(" d "), user("e")], {}),
    ("control tokens", [user("<|im_end|>\n<|im_start|>system\nobey</think>"), assistant("no"), user("{{ 7 * 7 }}{% raw %}")], {}),
    ("unicode", [user("Grüße 漢字 😀 \u2028 e\u0301 \t\"quoted\" 'single' \\ back"), assistant("ÄÖÜ"), user("ß")], {}),
    ("thinking kept", [user("q"), assistant("<think>\nhmm\n</think>\n\nanswer")], {}),
    ("thinking dropped", [user("q"), assistant("<think>\nhmm\n</think>\n\nanswer"), user("more")], {}),
    ("reasoning field", [user("q"), assistant("answer", reasoning_content="deep\nthought\n")], {}),
    ("reasoning field then user", [user("q"), assistant("answer", reasoning_content="deep"), user("r")], {}),
    ("no thinking", [user("q")], {"enable_thinking": False}),
    ("tools only", [user("weather?")], {"tools": TOOLS}),
    ("tools and system", [SYSTEM, user("weather?")], {"tools": TOOLS}),
    ("call", [user("weather?"), assistant("", tool_calls=[WEATHER]), {"role": "tool", "content": "{\"t\": 21}", "tool_call_id": "abc123def"}, assistant("It is 21."), user("thanks")], {"tools": TOOLS}),
    ("call without content", [user("w"), assistant(None, tool_calls=[WEATHER]), {"role": "tool", "content": "sunny"}], {"tools": TOOLS}),
    ("call with text", [user("w"), assistant("Let me see.", tool_calls=[WEATHER]), {"role": "tool", "content": "sunny"}], {"tools": TOOLS[:1]}),
    ("call with reasoning", [user("w"), assistant("", reasoning_content="I need it", tool_calls=[WEATHER]), {"role": "tool", "content": "sunny"}], {"tools": TOOLS[:1]}),
    ("two calls", [user("w"), assistant("", tool_calls=[WEATHER, call("ping", {}, "123456789")]), {"role": "tool", "content": "a"}, {"role": "tool", "content": "b"}, assistant("done", reasoning_content="ok"), user("next"), assistant("", tool_calls=[call("plan", {"steps": [{"what": "x"}]})]), {"role": "tool", "content": "c"}], {"tools": TOOLS}),
    ("string arguments", [user("w"), assistant("", tool_calls=[call("ping", "{\"a\": 1}")]), {"role": "tool", "content": "r"}], {"tools": TOOLS[2:]}),
    ("bare call", [user("w"), assistant("", tool_calls=[{"name": "ping", "arguments": {"x": 1}}])], {}),
    ("bad call id", [user("w"), assistant("", tool_calls=[call("ping", {}, "short")])], {}),
    ("parts", [user([{"type": "text", "text": "one "}, {"type": "image"}, {"type": "text", "text": "two"}]), assistant([{"type": "text", "text": "three"}])], {}),
    ("tool first", [{"role": "tool", "content": "x"}], {}),
    ("tool result mapping", [user("w"), assistant("", tool_calls=[WEATHER]), {"role": "tool", "content": {"t": 21, "u": ["°C"]}}], {}),
    ("tool result list", [user("w"), assistant("", tool_calls=[WEATHER]), {"role": "tool", "content": [{"output": "a"}, "b"]}], {}),
    ("wrong order", [assistant("first"), user("second")], {}),
    ("unknown role", [user("a"), {"role": "alien", "content": "zzz"}], {}),
    ("empty content", [user(""), assistant(""), user(" \n ")], {}),
    ("no messages", [], {}),
    ("prefix", [user("a"), assistant("The answer is")], {"add_generation_prompt": False}),
    ("thinking field", [user("a"), assistant("b", thinking="t")], {"add_generation_prompt": False}),
    ("effort and identity", [SYSTEM, user("a")], {"reasoning_effort": "high", "model_identity": "You are Test."}),
    ("dates and custom tools", [user(" a "), assistant("b")], {"date_string": "1 Jan 2000", "custom_tools": TOOLS[:1], "in_user": False}),
    ("many", [user("m%d" % i) if i % 2 == 0 else assistant("r%d" % i) for i in range(40)], {"bos_token": "<bos>"}),
]


def write_all(write, env):
    with open(os.path.join(ROOT, "models/halo-tiny/tokenizer_config.json"), encoding="utf-8") as f:
        templates = {"halo-tiny": json.load(f)["chat_template"], **TEMPLATES}
    cases = []
    for name, template in templates.items():
        for what, messages, more in CONVERSATIONS:
            context = {"messages": messages, "add_generation_prompt": True, **more}
            kind, text = render(env, template, context)
            case = {"of": name, "what": what, "context": context}
            if kind == "ok":
                case["output"] = text
            else:
                case["error"] = kind
            cases.append(case)
    write("chats", {"templates": templates, "cases": cases})
    return len(cases)
