// SPDX-License-Identifier: Apache-2.0
// Clients for Node other than OpenAI's against a running halod: Anthropic's, the Vercel AI
// SDK and LangChain; see test_openai_node.py, which starts it. argv: node_modules, URL.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const require = createRequire(modules + "/");
const load = async (name) => {
  const m = await import(pathToFileURL(require.resolve(name)).href);
  return m.default && typeof m.default === "object" ? { ...m.default, ...m } : m;
};

function fact(pass, name, note = "") {
  console.log(JSON.stringify({ pass: Boolean(pass), name, note: String(note) }));
}
const say = (v) => JSON.stringify(v, null, 1)?.slice(0, 2000);
async function section(name, run) {
  try {
    await run();
  } catch (e) {
    fact(false, name, e?.stack ?? e);
  }
}

const city = { type: "object", properties: { city: { type: "string" } },
  required: ["city"], additionalProperties: false };
const about = "Look up the weather";

await section("@anthropic-ai/sdk", async () => {
  const { default: Anthropic } = await load("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: url, apiKey: "any", maxRetries: 0 });
  const ask = { model: "halo-tiny", max_tokens: 120,
    messages: [{ role: "user", content: "weather in Tunis?" }] };
  const tools = [{ name: "get_current_weather", description: about, input_schema: city }];
  const greedy = { temperature: 0 };
  const whole = await client.messages.create({ ...ask, ...greedy, tools });
  const use = whole.content.find((b) => b.type === "tool_use");
  fact(whole.stop_reason === "tool_use" && use?.input.city === "Tunis",
    "Anthropic: a tool is called", say(whole));
  const stream = client.messages.stream({ ...ask, ...greedy, tools });
  const kinds = [];
  stream.on("streamEvent", (e) => kinds.push(e.type));
  const streamed = await stream.finalMessage();
  fact(streamed.content.find((b) => b.type === "tool_use")?.input.city === "Tunis" &&
    kinds[0] === "message_start" && kinds.at(-1) === "message_stop",
    "Anthropic: streamed as well", say([streamed, kinds]));
  const next = await client.messages.create({ ...ask, ...greedy, tools, messages: [
    ...ask.messages, { role: "assistant", content: whole.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: use.id,
      content: [{ type: "text", text: "sunny, 25 C" }] }] }] });
  fact(next.usage.cache_read_input_tokens > 0 && next.content.length > 0,
    "Anthropic: the result goes back, the history is in the cache", say(next));
  const forced = await client.messages.create({ ...ask, tools,
    tool_choice: { type: "tool", name: "get_current_weather" } });
  fact(typeof forced.content[0].input.city === "string",
    "Anthropic: a demanded tool", say(forced));
  const n = await client.messages.countTokens({ model: ask.model, messages: ask.messages });
  fact(n.input_tokens > 5, "Anthropic: countTokens", say(n));
  const e = await client.messages.create({ ...ask, max_tokens: -1 }).catch((e) => e);
  fact(e instanceof Anthropic.BadRequestError &&
    e.error?.error?.type === "invalid_request_error", "Anthropic: a refusal", say(e));
});

await section("ai", async () => {
  const { generateText, streamText, generateObject, streamObject, tool, jsonSchema,
    stepCountIs } = await load("ai");
  const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
  const model = createOpenAICompatible({ name: "halod", baseURL: url + "/v1",
    apiKey: "any", includeUsage: true, supportsStructuredOutputs: true })("halo-tiny");
  const ask = { model, temperature: 0, maxOutputTokens: 120, maxRetries: 0 };
  const r = await generateText({ ...ask, prompt: "What is 2+2?" });
  fact((r.text || r.reasoningText) && r.usage.outputTokens > 0 && r.finishReason,
    "AI SDK: generateText", say([r.text, r.reasoningText, r.usage]));
  const s = streamText({ ...ask, prompt: "What is 2+2?" });
  let text = "", reasoning = "";
  const faults = [];
  for await (const part of s.fullStream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "reasoning-delta") reasoning += part.text;
    if (part.type === "error") faults.push(part.error);
  }
  fact(!faults.length && text === r.text && (await s.usage).outputTokens ===
    r.usage.outputTokens, "AI SDK: streamText, the same", say([text, reasoning, faults]));
  let asked;
  const tools = { get_current_weather: tool({ description: about,
    inputSchema: jsonSchema(city),
    execute: async (input) => { asked = input; return "sunny, 25 C"; } }) };
  const loop = await generateText({ ...ask, tools, prompt: "weather in Tunis?",
    stopWhen: stepCountIs(2) });
  fact(asked?.city === "Tunis" && loop.steps.length === 2 &&
    loop.steps[0].finishReason === "tool-calls", "AI SDK: a tool runs between two steps",
    say([asked, loop.steps.map((x) => [x.finishReason, x.text])]));
  asked = undefined;
  const streamed = streamText({ ...ask, tools, prompt: "weather in Tunis?",
    stopWhen: stepCountIs(2) });
  await streamed.consumeStream();
  fact(asked?.city === "Tunis" && (await streamed.steps).length === 2,
    "AI SDK: the same streamed", say(asked));
  const schema = jsonSchema({ type: "object", properties: {
    name: { type: "string", maxLength: 8 }, age: { type: "integer", minimum: 1,
      maximum: 9 } }, required: ["name", "age"], additionalProperties: false });
  const o = await generateObject({ ...ask, schema, prompt: "Somebody." });
  fact(o.object.age >= 1 && o.object.age <= 9 && o.object.name.length <= 8,
    "AI SDK: generateObject", say(o.object));
  const so = streamObject({ ...ask, schema, prompt: "Somebody." });
  for await (const part of so.partialObjectStream) void part;
  fact((await so.object).age >= 1, "AI SDK: streamObject", say(await so.object));
});

await section("@langchain/openai", async () => {
  const { ChatOpenAI, OpenAI } = await load("@langchain/openai");
  const { HumanMessage, ToolMessage } = await load("@langchain/core/messages");
  const configuration = { baseURL: url + "/v1" };
  const chat = new ChatOpenAI({ model: "halo-tiny", apiKey: "any", temperature: 0,
    maxTokens: 120, maxRetries: 0, configuration });
  const m = await chat.invoke("What is 2+2?");
  fact(m.usage_metadata.output_tokens > 0 && m.response_metadata.finish_reason,
    "LangChain: invoke", say(m));
  let text = "";
  for await (const chunk of await chat.stream("What is 2+2?")) text += chunk.content;
  fact(text === m.content, "LangChain: stream, the same text", text);
  const tools = [{ type: "function", function: { name: "get_current_weather",
    description: about, parameters: city } }];
  const ask = new HumanMessage("weather in Tunis?");
  const call = await chat.bindTools(tools).invoke([ask]);
  fact(call.tool_calls?.[0]?.args.city === "Tunis", "LangChain: a tool is called",
    say(call));
  const answer = await chat.bindTools(tools).invoke([ask, call, new ToolMessage({
    content: "sunny, 25 C", tool_call_id: call.tool_calls[0].id })]);
  fact(answer.usage_metadata.input_token_details?.cache_read > 0,
    "LangChain: the result goes back, the history is in the cache", say(answer));
  const schema = { title: "person", type: "object", properties: {
    age: { type: "integer", minimum: 1, maximum: 9 } }, required: ["age"],
    additionalProperties: false };
  for (const method of ["jsonSchema", "functionCalling"]) {
    const o = await chat.withStructuredOutput(schema, { method, name: "person" })
      .invoke("Somebody.");
    fact(o.age >= 1 && o.age <= 9, `LangChain: structured output by ${method}`, say(o));
  }
  const responses = new ChatOpenAI({ model: "halo-tiny", apiKey: "any", temperature: 0,
    maxTokens: 60, maxRetries: 0, configuration, useResponsesApi: true });
  const r = await responses.invoke("What is 2+2?");
  fact(r.usage_metadata.output_tokens > 0, "LangChain: by the Responses API", say(r));
  const plain = new OpenAI({ model: "halo-tiny", apiKey: "any", maxTokens: 8,
    temperature: 0, maxRetries: 0, configuration });
  fact((await plain.invoke("Once upon a time")).length > 0, "LangChain: completions");
});
