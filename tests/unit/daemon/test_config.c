/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <math.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "check/fit.h"
#include "daemon/config_table.h"
#include "tests/tap.h"

static char path[] = "/tmp/halod-config-XXXXXX";
static struct config c;
static struct fail fail;
static enum config_action action;

static void write_file(struct str text)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(text.p, 1, text.n, f) != text.n)
		exit(99);
	fclose(f);
}

/* Load with these arguments, NULL at the end. */
static enum status load(const char *first, ...)
{
	char *argv[20] = {(char *)"halod"};
	int argc = 1;
	va_list ap;
	va_start(ap, first);
	for (const char *a = first; a; a = va_arg(ap, const char *))
		argv[argc++] = (char *)a;
	va_end(ap);
	config_deinit(&c);
	fail = (struct fail){0};
	return config_load(&c, argc, argv, "/nonexistent/halod.conf", &action, &fail);
}

static enum status load_text(const char *text)
{
	write_file(str_of(text));
	return load("-c", path, NULL);
}

/* The message after the file's name. */
static const char *text_fault(const char *text)
{
	if (load_text(text) != E_CONFIG)
		return "no fault";
	return strncmp(fail.text, path, strlen(path)) == 0 ?
		fail.text + strlen(path) : fail.text;
}

static void test_reals(void)
{
	is_int(load_text("temperature = 0.7\ntop_p=.5\nmin_p = auto\ntop_k = 40\n"), OK,
	       "numbers with a point");
	ok(c.temperature == 0.7 && c.top_p == 0.5 && isnan(c.min_p) && c.top_k == 40,
	   "are read; auto is no number");
	is_str(text_fault("temperature = warm\n"),
	       ":1: temperature: \"warm\" is not a number such as 0.7, or auto", "a word");
	is_str(text_fault("top_p = 1.5\n"), ":1: top_p: 1.5 is out of range, 0 to 1", "too much");
	is_str(text_fault("min_p = 1e-3\n"),
	       ":1: min_p: \"1e-3\" is not a number such as 0.7, or auto", "an exponent");
	is_str(text_fault("top_k = 0\n"), ":1: top_k: 0 is out of range, 1 to 16777216", "none");
	is_int(load_text(""), OK, "nothing");
	ok(isnan(c.temperature) && c.top_k == 0, "auto is the default");
}

static void test_file(void)
{
	is_int(load_text("# comment\n"
			 "port=81 # after a value\n"
			 "  model =  /a b#c  \n"
			 "model-name = \"say \\\"hi\\\" # \\\\\"\t# comment\r\n"
			 "aliases = gpt-4, , x y,z\n"
			 "max_body = 2M\nkeepalive = 500ms\n"), E_CONFIG, "below the range");
	is_str(fail.text + strlen(path), ":7: keepalive: 500ms is out of range, 1s to 1h",
	       "names file, line, key and range");
	is_int(load_text("# comment\n"
			 "port=81 # after a value\n"
			 "  model =  /a b#c  \n"
			 "model-name = \"say \\\"hi\\\" # \\\\\"\t# comment\r\n"
			 "aliases = gpt-4, , x y,z\n"
			 "max_body = 2M\nkeepalive = 1500ms\nmmap=off\n"
			 "unix_socket = \"\""), OK, "a file");
	is_int(c.port, 81, "number before a comment");
	is_str(c.model, "/a b#c", "a # inside a word is no comment");
	is_str(c.model_name, "say \"hi\" # \\", "quotes");
	is_int(c.aliases.n, 3, "list");
	is_str(c.aliases.items[1], "x y", "an item keeps its inner space");
	is_int(c.max_body, 2 << 20, "size");
	is_int(c.keepalive, 1500000, "time");
	ok(!c.mmap && c.prefix_cache, "bool, and one left at its default");
	is_str(c.unix_socket, "", "an empty text, and no newline at the end");
}

static void test_file_faults(void)
{
	is_str(text_fault("port = 1\nmax_que = 3\n"),
	       ":2: unknown key \"max_que\"; did you mean max_queue?", "unknown key");
	is_str(text_fault("zzzzzzzzzzzz = 3\n"), ":1: unknown key \"zzzzzzzzzzzz\"",
	       "nothing is near");
	is_str(text_fault("port 3\n"), ":1: not of the form key = value", "no =");
	is_str(text_fault("port =\n"),
	       ":1: port: there is no value; an empty one is \"\"", "no value");
	is_str(text_fault("port = 1\n\nport = 2\n"), ":3: port is set already in line 1",
	       "twice");
	is_str(text_fault("port = 70000\n"),
	       ":1: port: 70000 is out of range, 0 to 65535", "range");
	is_str(text_fault("port = 12x\n"), ":1: port: \"12x\" is not a whole number",
	       "junk after a number");
	is_str(text_fault("port = -1\n"), ":1: port: \"-1\" is not a whole number",
	       "negative");
	is_str(text_fault("kv_cache = automatic\n"),
	       ":1: kv_cache: \"automatic\" is not a size such as 512K, 16M or 4G, or auto",
	       "a size that may be auto");
	is_int(load_text("kv_cache = auto\n"), OK, "auto is a size");
	is_int(c.kv_cache, 0, "namely what fits");
	is_str(text_fault("max_body = auto\n"),
	       ":1: max_body: \"auto\" is not a size such as 512K, 16M or 4G", "but not of all");
	is_str(text_fault("max_body = 99999999999999999999\n"),
	       ":1: max_body: \"99999999999999999999\" is not a size such as 512K, 16M "
	       "or 4G", "beyond 64 bits");
	is_str(text_fault("max_body = 9999999999T\n"),
	       ":1: max_body: \"9999999999T\" is not a size such as 512K, 16M or 4G",
	       "beyond 64 bits after the unit");
	is_str(text_fault("backend = auto cpu\n"),
	       ":1: backend: \"auto cpu\" is not one of: auto cpu hip", "choice");
	is_str(text_fault("mmap = maybe\n"), ":1: mmap: \"maybe\" is not on or off",
	       "bool");
	is_int(load_text("speculative = no\nimages = 0\nself_check = yes\nreasoning = true\n"), OK,
	       "choices with on or off take their other spellings");
	is_str(c.speculative, "off", "no");
	is_str(c.images, "off", "0");
	is_str(c.self_check, "on", "yes");
	is_str(c.reasoning, "on", "true");
	is_str(text_fault("backend = no\n"),
	       ":1: backend: \"no\" is not one of: auto cpu hip", "a choice without off");
	is_str(text_fault("model = \"a\n"), ":1: model: the closing quote is missing",
	       "open quote");
	is_str(text_fault("model = \"a\" b\n"), ":1: model: text after the closing quote",
	       "rest after quotes");
	is_str(text_fault("model = \"a\\n\"\n"),
	       ":1: model: in quotes, \\ must be followed by \" or \\", "escape");
	is_str(text_fault("model = \xff\n"), ":1: this is not text in UTF-8", "bytes");
	is_str(text_fault("max_seqs = 1024\nmax_batch_tokens = 512\n"),
	       "max_seqs (1024) is more than max_batch_tokens (512): each sequence needs "
	       "a token in a step",
	       "keys that contradict each other");
	write_file(STR("model = a\0b\n"));
	is_int(load("-c", path, NULL), E_CONFIG, "NUL");
	is_int(load("-c", "/nonexistent/x.conf", NULL), E_IO, "a file named must be there");
	ok(strstr(fail.text, "/nonexistent/x.conf"), "and is named");
}

static void test_flags(void)
{
	write_file(STR("port = 81\nmax_queue = 5\n"));
	is_int(load("--port", "82", "-c", path, "--max-seqs=3", "--no-mmap", "--exact",
		    "--model_name", "-x", NULL), OK, "flags");
	is_int(c.port, 82, "a flag beats the file, wherever -c stands");
	is_int(c.max_queue, 5, "the file beats the default");
	is_int(c.max_seqs, 3, "--key=value");
	ok(!c.mmap && c.exact, "--no-key and --key");
	is_str(c.model_name, "-x", "a value may look like a flag");
	is_int(action, CONFIG_RUN, "run");

	is_int(load("--port", "0", "--max-seqs", "1024", "--max-batch-tokens", "65536",
		    NULL), OK, "both ends of a range belong to it");

	is_int(load("--max-que", "1", NULL), E_CONFIG, "unknown flag");
	is_str(fail.text, "--max-que: unknown key \"max-que\"; did you mean max_queue?",
	       "with the nearest");
	is_int(load("--port", NULL), E_CONFIG, "no value");
	is_str(fail.text, "--port: its value is missing", "said so");
	is_int(load("--model", "--no-mmap", NULL), E_CONFIG, "a flag in its place");
	is_str(fail.text, "--model: its value is missing", "is no value");
	is_int(load("-c", "--check-config", NULL), E_CONFIG, "nor a file");
	is_str(fail.text, "-c: the name of a file is missing", "said so");
	is_int(load("--check-conf", NULL), E_CONFIG, "a flag that is no key");
	is_str(fail.text, "--check-conf: unknown flag; did you mean --check-config?",
	       "with the nearest");
	is_int(load("--port=x", NULL), E_CONFIG, "bad value");
	is_str(fail.text, "--port: \"x\" is not a whole number", "names the flag");
	is_int(load("--no-port", NULL), E_CONFIG, "only what is on or off has a no");
	is_int(load("frob", NULL), E_CONFIG, "a word on its own");
	is_str(fail.text, "frob: neither a flag nor the value of one; halod --help lists "
	       "the flags", "says where the flags are");
	is_int(load("-c", NULL), E_CONFIG, "-c without a file");
	is_int(load("--exact=no", NULL), OK, "bool with a value");
	ok(!c.exact, "is that value");

	is_int(load("-c", "/nonexistent/x.conf", "--help", "--bogus", NULL), OK,
	       "help helps, whatever else is wrong");
	is_int(action, CONFIG_HELP, "help");
	is_int(load("--check-config", NULL), OK, "check");
	is_int(action, CONFIG_CHECK, "check");
}

/* What people type who come from another server, and what to type here. */
static const char *const foreign[][2] = {
	{"--kv-cache-dtype",
	 "--kv-cache-dtype: unknown key; use --kv-type int8, or auto for 16 bits"},
	{"-m", "-m: use --model DIR or --model FILE.gguf"},
	{"-hf", "-hf: use --model ORG/NAME; haloctl pull ORG/NAME fetches it first"},
	{"--ctx-size", "--ctx-size: unknown key; use --ctx N"},
	{"--ctx-size=4096", "--ctx-size: unknown key; use --ctx N"},
	{"--max-model-len", "--max-model-len: unknown key; use --ctx N"},
	{"-np", "-np: use --max-seqs N"},
	{"--api-key", "--api-key: unknown key; use --api-key-file FILE: others can read a "
		      "command line"},
	{"-ngl", "-ngl: a model lies on one device as a whole; use --backend hip or cpu"},
	{"serve", "serve: halod takes no command; it serves when it is started"},
	{"Qwen/Qwen3-8B", "Qwen/Qwen3-8B: neither a flag nor the value of one; for a model, "
			  "use --model Qwen/Qwen3-8B"},
	{"x.gguf", "x.gguf: neither a flag nor the value of one; for a model, use --model "
		   "x.gguf"},
	{"--lora-modules", "--lora-modules: unknown key; use --lora NAME=PATH, with commas between "
			   "several"},
	{"--dtype", "--dtype: unknown key; weights keep the format of their files"},
	{"-md", "-md: use --draft-model DIR"},
	{"--no-mmproj", "--no-mmproj: unknown key; use --images off"},
	{"--n-cpu-moe", "--n-cpu-moe: unknown key; use --expert-memory SIZE: other experts are "
			"read from disk"},
	{"--trust-remote-code", "--trust-remote-code: unknown key; no code of a model is ever run"},
	{"--ctx-siz", "--ctx-siz: unknown key \"ctx-siz\""},
	{"-y", "-y: neither a flag nor the value of one; halod --help lists the flags"},
};

static void test_foreign(void)
{
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
		is_int(load(foreign[i][0], "1", NULL), E_CONFIG, "%s", foreign[i][0]);
		is_str(fail.text, foreign[i][1], "%s", foreign[i][0]);
	}
	/* llama.cpp's -c is the context. */
	is_int(load("-c", "4096", NULL), E_IO, "-c 4096");
	is_str(fail.text, "-c 4096: no such settings file; for a context of 4096 tokens use "
	       "--ctx 4096", "says what halod calls it");
}

/* A flag of ours must not be taken for one of theirs, and advice must name our keys. */
static void test_foreign_table(void)
{
	for (int i = 0; i < config_n_rows; i++) {
		if (config_rows[i].section)
			continue;
		char *flag = xasprintf("--%s", config_rows[i].name);
		for (char *p = flag + 2; *p; p++)
			*p = *p == '_' ? '-' : *p;
		ok(!config_foreign(str_of(flag)), "%s is ours", flag);
		free(flag);
	}
	static const char *const before[] = {"use --", "see --", "and --", "; --", "\"--", ", --"};
	struct buf source = {0};
	int n_keys = 0;
	is_int(file_read(tap_src("src/daemon/config_foreign.c"), 1 << 20, &source, &fail), OK,
	       "its source is there");
	buf_add_z(&source, "");
	for (size_t i = 0; i < ARRAY_LEN(before); i++)
		for (char *p = source.p; (p = strstr(p, before[i]));) {
			p += strlen(before[i]);
			struct str key = {p, strcspn(p, " ,;:\"")};
			bool is_row = before[i][0] == '"' && p[-4] == '{';
			n_keys += !is_row;
			ok(is_row || config_find(key) || str_starts(key, STR("no-")),
			   "--%.*s is a key", (int)key.n, key.p);
		}
	ok(n_keys > 60, "%d pieces of advice", n_keys);
	buf_deinit(&source);
}

static void test_print(void)
{
	struct buf shipped = {0}, printed = {0};
	is_int(load(NULL), OK, "defaults alone");
	config_format(&c, &printed);
	is_int(file_read(tap_src("conf/halod.conf"), 1 << 20, &shipped, &fail), OK,
	       "conf/halod.conf is there");
	ok(str_eq(buf_str(&shipped), buf_str(&printed)),
	   "conf/halod.conf is what --print-config prints (make update-conf writes it)");
	buf_deinit(&shipped);

	/* What is printed reads back as what was set. */
	is_int(load("--model", "/a \"b\" \\ #c", "--aliases", "x, y", "--max-body", "3072",
		    "--max-wait", "90s", "--drain-timeout", "1500ms", "--exact", NULL),
	       OK, "some values");
	buf_clear(&printed);
	config_format(&c, &printed);
	ok(strstr(printed.p, "\nmax_body = 3K\n") && strstr(printed.p, "\nexact = on\n") &&
	   strstr(printed.p, "\nmax_wait = 90s\n") && strstr(printed.p, "\n#port = 8080\n"),
	   "largest unit; defaults are commented out");
	is_int(load_text(printed.p), OK, "is accepted again");
	is_str(c.model, "/a \"b\" \\ #c", "quotes go both ways");
	is_int(c.aliases.n, 2, "list");
	is_int(c.drain_timeout, 1500000, "time");
	struct buf again = {0};
	config_format(&c, &again);
	is_str(again.p, printed.p, "printing is stable");
	buf_deinit(&again);
	buf_clear(&printed);
	config_help_format(&printed);
	ok(strstr(printed.p, "\n  --[no-]mmap\n") && strstr(printed.p, "\n  --max-body SIZE\n"),
	   "help names the flags");
	buf_deinit(&printed);
}

/* haloctl doctor knows no halod.conf, so it counts with what stands in check/fit.h. */
static void test_sum(void)
{
	is_int(load(NULL), OK, "defaults alone");
	is_int(c.embedding_ctx, FIT_EMBEDDING_CTX, "embedding_ctx is that of the doctor's sum");
	is_int(c.transcription_ctx, FIT_TRANSCRIPTION_CTX, "transcription_ctx");
	is_int(c.image_tokens, FIT_IMAGE_TOKENS, "image_tokens");
	is_int(c.image_cache, FIT_IMAGE_CACHE, "image_cache");
	is_int(c.audio_cache, FIT_AUDIO_CACHE, "audio_cache");
	is_int(c.max_image_bytes, FIT_IMAGE_BYTES, "max_image_bytes");
	is_int(c.max_image_side, FIT_IMAGE_SIDE, "max_image_side");
	is_int(c.max_image_pixels, FIT_IMAGE_PIXELS, "max_image_pixels");
	is_int(c.max_batch_tokens - c.max_seqs, FIT_STEP_TOKENS, "room of a step");
}

static void test_sections(void)
{
	is_int(load_text("ctx = 100\nmodel = /m\ntop_k = 7\naliases = x\n"
			 "[model a]\nctx = 200\nmodel = /a\n"
			 "[ model b ]\n"), E_CONFIG, "no space before the word");
	is_str(fail.text + strlen(path), ":8: [ model b ] is no section; one is [model NAME]",
	       "names the line");
	is_int(load_text("ctx = 100\nmodel = /m\ntop_k = 7\naliases = x\n"
			 "[model a]\nctx = 200\nmodel = /a\n"
			 "[model  b/c:d  ] # the other\ntop-k = 9\n"), OK, "sections");
	is_int(c.n_sections, 2, "two");
	const struct config *a = c.sections[0].config, *b = c.sections[1].config;
	is_str(c.sections[1].name, "b/c:d", "a name");
	is_str(a->model, "/a", "its own");
	ok(a->ctx == 200 && a->top_k == 7 && c.ctx == 100, "its own setting, and one from above");
	ok(b->ctx == 100 && b->top_k == 9, "the same of the other");
	ok(!*b->model && b->aliases.n == 0, "model and aliases are of one model");
	struct buf text = {0}, again = {0};
	config_format(&c, &text);
	ok(str_find(buf_str(&text), STR("\n[model a]\nmodel = /a\nctx = 200\n"), 0) > 0,
	   "a section is printed");
	write_file(buf_str(&text));
	is_int(load("-c", path, NULL), OK, "and read again");
	config_format(&c, &again);
	ok(str_eq(buf_str(&text), buf_str(&again)), "as it was");
	buf_deinit(&text);
	buf_deinit(&again);
	is_int(load("-c", path, "--ctx", "50", "--model", "/n", NULL), OK, "flags");
	ok(c.sections[0].config->ctx == 50, "win over a section");
	is_str(c.sections[0].config->model, "/a", "but for what is of one model");
}

static void test_section_faults(void)
{
	is_str(text_fault("[model a]\nport = 1\n"),
	       ":2: port holds for all models: set it above the first [model NAME]",
	       "what is not of a model");
	is_str(load_text("[model a]\n[model b]\n[model a]\n") == E_CONFIG &&
	       strstr(fail.text, ":3: [model a] is there already, ") ? "" : fail.text, "",
	       "a name twice");
	is_str(text_fault("[model]\n"), ":1: [model] is no section; one is [model NAME]",
	       "no name");
	is_str(text_fault("[models a]\n"), ":1: [models a] is no section; one is [model NAME]",
	       "another word");
	is_str(text_fault("[model a]\nctx = 1\nctx = 2\n"), ":3: ctx is set already in line 2",
	       "a key twice");
	is_int(load_text("ctx = 1\n[model a]\nctx = 2\n"), OK, "once above and once in it");
	is_str(text_fault("[model a]\nmax_seqs = 9\nmax_batch_tokens = 8\n"),
	       ":1: [model a]: max_seqs (9) is more than max_batch_tokens (8): each sequence needs "
	       "a token in a step", "two that do not fit together");
	struct config other;
	struct buf keys = {0};
	struct fail f;
	enum config_action what;
	char *argv[] = {(char *)"halod", (char *)"-c", path};
	load_text("[model a]\nctx = 1\n[model b]\n");
	write_file(STR("[model a]\nctx = 2\n[model c]\n"));
	is_int(config_load(&other, 3, argv, "/none", &what, &f), OK, "another file");
	config_changes_format(&c, &other, &keys);
	is_str((buf_add_z(&keys, ""), keys.p), "[model a] ctx, [model b], [model c]",
	       "what has changed");
	config_deinit(&other);
	buf_deinit(&keys);
}

int main(void)
{
	int fd = mkstemp(path);
	if (fd < 0)
		return 99;
	close(fd);
	test_reals();
	test_file();
	test_file_faults();
	test_flags();
	test_foreign();
	test_foreign_table();
	test_print();
	test_sections();
	test_section_faults();
	test_sum();
	write_file(STR("port = 99\n"));
	char *argv[] = {(char *)"halod", NULL};
	config_deinit(&c);
	is_int(config_load(&c, 1, argv, path, &action, &fail), OK, "default file");
	is_int(c.port, 99, "is read without -c");
	config_deinit(&c);
	unlink(path);
	return tap_done();
}
