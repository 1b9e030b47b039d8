// SPDX-License-Identifier: Apache-2.0
// The official OpenAI client for Node against a running halod; see
// test_openai_node.py, which starts it. argv: node_modules, base URL.
import { createRequire } from "node:module";

const [modules, baseURL] = process.argv.slice(2);
const require = createRequire(modules + "/");
const OpenAI = require("openai").default ?? require("openai");
const client = new OpenAI({ baseURL, apiKey: "any", maxRetries: 0, timeout: 60000 });
const messages = [{ role: "user", content: "What is 2+2?" }];
const greedy = { model: "halo-tiny", temperature: 0, max_tokens: 16 };

function fact(pass, name, note = "") {
  console.log(JSON.stringify({ pass: Boolean(pass), name, note: String(note) }));
}
function equal(got, want, name) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  fact(a === b, name, `got  ${a}\nwant ${b}`);
}
const textOf = (m) => (m.reasoning_content ?? "") + (m.content ?? "");

const whole = await client.chat.completions.create({ messages, ...greedy });
fact(whole.object === "chat.completion" && textOf(whole.choices[0].message), "whole",
  JSON.stringify(whole));

let text = "", usage = null, reason = null;
for await (const chunk of await client.chat.completions.create({
  messages, ...greedy, stream: true, stream_options: { include_usage: true } })) {
  for (const choice of chunk.choices) {
    text += textOf(choice.delta);
    reason = choice.finish_reason ?? reason;
  }
  usage = chunk.usage ?? usage;
}
equal(text, textOf(whole.choices[0].message), "streamed: the same text");
equal(reason, whole.choices[0].finish_reason, "streamed: the same end");
equal(usage.completion_tokens, whole.usage.completion_tokens,
  "streamed: the same usage");

// The stream helper throws when ids change or the end is missing.
const helper = client.chat.completions.stream({ messages, ...greedy });
const final = await helper.finalChatCompletion();
equal(final.choices[0].finish_reason, whole.choices[0].finish_reason, "stream helper");

const { data } = await client.models.list();
equal(data.map((m) => m.id), ["halo-tiny"], "models.list");
equal((await client.models.retrieve("halo-tiny")).id, "halo-tiny", "models.retrieve");

const prompt = "Once upon a time";
const plain = await client.completions.create({ prompt, ...greedy });
text = "";
for await (const chunk of await client.completions.create({
  prompt, ...greedy, stream: true })) text += chunk.choices[0]?.text ?? "";
equal(text, plain.choices[0].text, "completions, whole and streamed");

async function fails(name, kind, code, param, body) {
  try {
    await client.chat.completions.create(body);
    fact(false, name, "no error");
  } catch (e) {
    fact(e instanceof kind && e.code === code && e.param === param && e.requestID, name,
      `${e.constructor.name} ${e.code} ${e.param} ${e.requestID}`);
  }
}
await fails("unknown model", OpenAI.NotFoundError, "model_not_found", "model",
  { messages, model: "gpt-5" });
await fails("wrong type", OpenAI.BadRequestError, null, "messages[0].role",
  { messages: [{ role: 7, content: "x" }], model: "halo-tiny" });

const line = { custom_id: "a", method: "POST", url: "/v1/completions",
  body: { ...greedy, prompt } };
const file = await client.files.create({
  file: await OpenAI.toFile(Buffer.from(JSON.stringify(line)), "größe \"1\".jsonl"),
  purpose: "batch" });
equal(file.status, "processed", "files.create");
let batch = await client.batches.create({ input_file_id: file.id, endpoint: "/v1/completions",
  completion_window: "24h" });
for (let i = 0; i < 3000 && batch.status !== "completed"; i++) {
  await new Promise((done) => setTimeout(done, 20));
  batch = await client.batches.retrieve(batch.id);
}
const answer = JSON.parse(await (await client.files.content(batch.output_file_id)).text());
equal(answer.response.body.choices[0].text, plain.choices[0].text, "batches: an answer");
equal((await client.batches.list()).data.map((b) => b.id), [batch.id], "batches.list");
equal((await client.files.delete(file.id)).deleted, true, "files.delete");

const stream = await client.chat.completions.create({
  messages, ...greedy, max_tokens: 3000, ignore_eos: true, stream: true });
for await (const chunk of stream) {
  fact(chunk.id, "a stream that is left early");
  break;
}
