/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags of llama.cpp, vLLM, SGLang and ollama that newcomers try. Each gets an answer of its
 * own. None of them is accepted: a flag that does nearly
 * the same would be worse than an error.
 */
#include "daemon/config_table.h"

#include "base/alloc.h"

static const struct {
	const char *flag, *instead;
} rows[] = {
	{"-m", "use --model DIR or --model FILE.gguf"},
	{"--model-path", "use --model DIR or --model FILE.gguf"},
	{"-hf", "use --model ORG/NAME; haloctl pull ORG/NAME fetches it first"},
	{"--hf-repo", "use --model ORG/NAME; haloctl pull ORG/NAME fetches it first"},
	{"-a", "use --model-name NAME"},
	{"--alias", "use --model-name NAME, or --aliases for more than one"},
	{"--served-model-name", "use --model-name NAME, or --aliases for more than one"},
	{"-p", "use --port N"},
	{"-n", "clients say max_tokens; --max-output-tokens N bounds it"},
	{"--n-predict", "clients say max_tokens; --max-output-tokens N bounds it"},
	{"--ctx-size", "use --ctx N"},
	{"--context-length", "use --ctx N"},
	{"--max-model-len", "use --ctx N"},
	{"--num-ctx", "use --ctx N"},
	{"-np", "use --max-seqs N"},
	{"--parallel", "use --max-seqs N"},
	{"--max-num-seqs", "use --max-seqs N"},
	{"--max-running-requests", "use --max-seqs N"},
	{"-b", "use --max-batch-tokens N"},
	{"--batch-size", "use --max-batch-tokens N"},
	{"--max-num-batched-tokens", "use --max-batch-tokens N"},
	{"-ub", "use --prefill-chunk N"},
	{"--ubatch-size", "use --prefill-chunk N"},
	{"--chunked-prefill-size", "use --prefill-chunk N"},
	{"--kv-cache-dtype", "use --kv-type int8, or auto for 16 bits"},
	{"--cache-type-k", "use --kv-type int8 for both keys and values, or auto for 16 bits"},
	{"--cache-type-v", "use --kv-type int8 for both keys and values, or auto for 16 bits"},
	{"-ctk", "use --kv-type int8 for both keys and values, or auto for 16 bits"},
	{"-ctv", "use --kv-type int8 for both keys and values, or auto for 16 bits"},
	{"--block-size", "use --page-size N"},
	{"--enable-prefix-caching", "--prefix-cache is on unless --no-prefix-cache is given"},
	{"--gpu-memory-utilization", "use --kv-cache SIZE, as 4G"},
	{"--mem-fraction-static", "use --kv-cache SIZE, as 4G"},
	{"-t", "use --threads N"},
	{"-ngl", "a model lies on one device as a whole; use --backend hip or cpu"},
	{"--n-gpu-layers", "a model lies on one device as a whole; use --backend hip or cpu"},
	{"--gpu-layers", "a model lies on one device as a whole; use --backend hip or cpu"},
	{"--tensor-parallel-size", "a model runs on one device"},
	{"-tp", "a model runs on one device"},
	{"--device", "use --backend auto, cpu or hip"},
	{"-fa", "attention never stores its scores; there is nothing to switch on"},
	{"--flash-attn", "attention never stores its scores; there is nothing to switch on"},
	{"--jinja", "templates are always rendered as Jinja"},
	{"--chat-template-file", "use --chat-template FILE"},
	{"--tool-call-parser", "use --tool-format NAME"},
	{"--enable-auto-tool-choice", "tool calls are always parsed; see --tool-format"},
	{"--reasoning-parser", "use --reasoning auto, on or off"},
	{"--reasoning-format", "use --reasoning auto, on or off"},
	{"--api-key", "use --api-key-file FILE: others can read a command line"},
	{"--ssl-certfile", "use --tls-cert FILE"},
	{"--ssl-cert-file", "use --tls-cert FILE"},
	{"--ssl-keyfile", "use --tls-key FILE"},
	{"--ssl-key-file", "use --tls-key FILE"},
	{"--allowed-media-domains", "use --image-urls https://HOST/"},
	{"--allowed-local-media-path", "use --image-dir DIR"},
	{"--media-path", "use --image-dir DIR"},
	{"--allowed-origins", "use --cors-origins LIST"},
	{"--temp", "use --temperature X"},
	{"--lora-modules", "use --lora NAME=PATH, with commas between several"},
	{"--lora-scaled", "use --lora NAME=PATH; a request's lora has the scale"},
	{"--enable-lora", "name the adapters: --lora NAME=PATH"},
	{"--dtype", "weights keep the format of their files"},
	{"-q", "weights keep the format of their files; a quantized model says so itself"},
	{"--quantization", "weights keep the format of their files; a quantized model says so "
			   "itself"},
	{"--load-format", "the files say what they are"},
	{"--trust-remote-code", "no code of a model is ever run"},
	{"--tokenizer", "the tokenizer is the one in the model's folder or file"},
	{"--download-dir", "haloctl pull --cache DIR fetches a model"},
	{"--revision", "haloctl pull --revision REV fetches a model"},
	{"--mlock", "weights are loaded to the device before the first request"},
	{"--enforce-eager", "use --no-hip-graphs"},
	{"--model-draft", "drafts come from the prompt and from the model's own MTP layer; see "
			  "--speculative"},
	{"-md", "drafts come from the prompt and from the model's own MTP layer; see "
		"--speculative"},
	{"--speculative-config", "use --speculative; see halod.conf(5)"},
	{"--embedding", "use --embedding-model DIR beside --model"},
	{"--embeddings", "use --embedding-model DIR beside --model"},
	{"--reranking", "use --rerank-model DIR beside --model"},
	{"-mm", "use --mmproj FILE"},
	{"-cb", "requests are always batched continuously"},
	{"--cont-batching", "requests are always batched continuously"},
	{"--timeout", "use --request-timeout SECONDS"},
	{"-to", "use --request-timeout SECONDS"},
	{"--disable-log-requests", "use --no-access-log"},
	{"--log-disable", "use --log-level error"},
	{"-v", "use --log-level debug"},
	{"--verbose", "use --log-level debug"},
	{"--metrics", "/metrics is always served"},
	{"--slots", "/slots is always served"},
	{"--webui", "--page is on unless --no-page is given"},
	{"--no-webui", "use --no-page"},
};

/* Commands of the same programs, which halod does not need. */
static const char *const commands[] = {"serve", "run", "start", "server", "launch"};

const char *config_foreign(struct str flag)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_is(flag, rows[i].flag))
			return rows[i].instead;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (str_is(flag, commands[i]))
			return "halod takes no command; it serves when it is started";
	return NULL;
}
