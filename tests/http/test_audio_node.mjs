// SPDX-License-Identifier: Apache-2.0
// The official OpenAI client for Node with audio, against a running halod that hears; see
// test_openai_node.py, which starts it. argv: node_modules, URL.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { default: OpenAI, toFile } = await import(pathToFileURL(require.resolve("openai")).href)
  .then((m) => ({ default: m.default.default ?? m.default, toFile: m.toFile ?? m.default.toFile }));
const here = path.dirname(fileURLToPath(import.meta.url));
const wav = readFileSync(path.join(here, "../golden/audio/pcm16.wav"));

function fact(pass, name, note = "") {
  console.log(JSON.stringify({ pass: Boolean(pass), name,
    note: String(JSON.stringify(note, null, 1)).slice(0, 2000) }));
}

const client = new OpenAI({ baseURL: url, apiKey: "any", maxRetries: 0 });
const model = "qwen3omni";
const file = () => toFile(wav, "a.wav", { type: "audio/wav" });
try {
  const chat = await client.chat.completions.create({ model, temperature: 0, messages: [
    { role: "user", content: [
      { type: "input_audio", input_audio: { data: wav.toString("base64"), format: "wav" } },
      { type: "text", text: "What is it?" }] }] });
  fact(chat.usage.prompt_tokens_details.audio_tokens === 3, "a message with audio", chat);
  const whole = await client.audio.transcriptions.create({ model, file: await file() });
  fact(whole.text && whole.usage.input_token_details.audio_tokens === 3, "a transcript", whole);
  const words = await client.audio.transcriptions.create({ model, file: await file(),
    response_format: "text" });
  fact(words.trim() === whole.text, "as text", words);
  const stream = await client.audio.transcriptions.create({ model, file: await file(),
    stream: true });
  const events = [];
  for await (const e of stream) events.push(e);
  fact(events.at(-1).type === "transcript.text.done" && events.at(-1).text === whole.text,
    "streamed", events);
  const english = await client.audio.translations.create({ model, file: await file() });
  fact(english.text, "a translation", english);
  const e = await client.audio.transcriptions.create({ model, file: await file(),
    response_format: "vtt" }).catch((e) => e);
  fact(e.status === 400 && e.param === "response_format", "subtitles are refused", String(e));
} catch (e) {
  fact(false, "the client's calls", e?.stack ?? String(e));
}
