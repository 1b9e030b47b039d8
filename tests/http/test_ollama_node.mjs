// SPDX-License-Identifier: Apache-2.0
// The official Ollama client for Node against a running halod; see test_openai_node.py,
// which starts it. argv: node_modules, URL.
import { createRequire } from "node:module";

const [modules, host] = process.argv.slice(2);
const { Ollama } = createRequire(modules + "/")("ollama");
const client = new Ollama({ host });
const ask = { model: "halo-tiny", messages: [{ role: "user", content: "What is 2+2?" }],
  options: { temperature: 0, num_predict: 60 } };

function fact(pass, name, note = "") {
  console.log(JSON.stringify({ pass: Boolean(pass), name, note: String(note) }));
}

const whole = await client.chat(ask);
fact(whole.done && whole.message.content, "chat", JSON.stringify(whole));
let text = "", last;
for await (const part of await client.chat({ ...ask, stream: true })) {
  text += part.message.content;
  last = part;
}
fact(text === whole.message.content && last.eval_count === whole.eval_count, "streamed", text);
const one = await client.generate({ model: "halo-tiny", prompt: "What is 2+2?",
  options: ask.options, format: { type: "object", properties: { n: { type: "integer" } },
    required: ["n"], additionalProperties: false }, think: false });
fact(Number.isInteger(JSON.parse(one.response).n), "generate with a schema", one.response);
fact((await client.list()).models[0].name === "halo-tiny:latest", "list");
fact((await client.show({ model: "halo-tiny" })).capabilities.includes("completion"), "show");
const waiting = await client.chat({ ...ask, stream: true, options: { num_predict: 4000 } });
let n = 0, end = "";
try {
  for await (const part of waiting)
    if (++n === 3) client.abort();
} catch (e) {
  end = e.name;
}
fact(n >= 3 && end === "AbortError", "abort", `${n} ${end}`);
try {
  await client.chat({ ...ask, model: "other" });
  fact(false, "another model");
} catch (e) {
  fact(e.status_code === 404 && e.message.includes("other"), "another model", e);
}
