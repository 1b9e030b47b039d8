/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags of llama.cpp, vLLM, SGLang and ollama that newcomers try. A flag that resembles no
 * key of halod gets an answer of its own. None of them is accepted: a flag that does nearly
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
