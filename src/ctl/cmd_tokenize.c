/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands tokenize and detokenize. They read only the tokenizer of a folder or
 * of a GGUF file.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "ctl/command.h"
#include "ctl/input.h"
#include "ctl/options.h"
#include "model/gguf_model.h"
#include "model/tensors.h"

struct tokenize_args {
	const char *dir, *text;
	bool json, special;
};

static void print(struct buf *out)
{
	fwrite(out->p ? out->p : "", 1, out->n, stdout);
	buf_deinit(out);
}

static void print_ids(const struct tokenizer *t, const struct ids *ids, bool json)
{
	struct buf out = {0};
	if (!json) {
		for (size_t i = 0; i < ids->n; i++)
			buf_addf(&out, "%s%d", i ? " " : "", ids->p[i]);
		buf_add_c(&out, '\n');
		print(&out);
		return;
	}
	buf_addf(&out, "{\"count\":%zu,\"ids\":", ids->n);
	input_add_ids(&out, ids);
	buf_add_z(&out, ",\"pieces\":[");
	for (size_t i = 0; i < ids->n; i++) {
		if (i)
			buf_add_c(&out, ',');
		buf_add_json(&out, tokenizer_bytes(t, ids->p[i]));
	}
	buf_add_z(&out, "]}\n");
	print(&out);
}

/* What a command does with its input. */
typedef int (*work_fn)(const struct option_set *set, const struct tokenizer *t,
		       struct str input, const struct tokenize_args *a);

static int encode(const struct option_set *set, const struct tokenizer *t,
		  struct str input, const struct tokenize_args *a)
{
	struct ids ids = {0};
	struct fail fail = {0};
	enum status st = tokenizer_encode(
		t, input, a->special ? TRUST_TEMPLATE : TRUST_USER, &ids, &fail);
	if (st == OK)
		print_ids(t, &ids, a->json);
	else
		options_failure("%s", fail.text);
	ids_deinit(&ids);
	return st == OK ? EXIT_OK : EXIT_USAGE;
}

static void print_text(const struct tokenizer *t, const struct ids *ids,
		       const struct tokenize_args *a)
{
	struct buf text = {0}, out = {0};
	tokenizer_decode(t, ids->p, ids->n, !a->special, &text);
	if (a->json) {
		buf_add_z(&out, "{\"text\":");
		buf_add_json(&out, buf_str(&text));
		buf_add_z(&out, "}\n");
	} else {
		buf_add_str(&out, buf_str(&text));
	}
	print(&out);
	buf_deinit(&text);
}

static int decode(const struct option_set *set, const struct tokenizer *t,
		  struct str input, const struct tokenize_args *a)
{
	struct ids ids = {0};
	int rc = EXIT_OK;
	if (!input_ids(input, &ids))
		rc = options_fault(set, "the input is not a list of token ids");
	for (size_t i = 0; rc == EXIT_OK && i < ids.n; i++)
		if (ids.p[i] >= tokenizer_n_ids(t))
			rc = options_fault(set, "there is no token %d, only 0 to %d",
					   ids.p[i], tokenizer_n_ids(t) - 1);
	if (rc == EXIT_OK)
		print_text(t, &ids, a);
	ids_deinit(&ids);
	return rc;
}

/* Loads the tokenizer of a folder, which need not have other files, or of a GGUF file. The
 * model's architecture may be one that halod does not run. */
static enum status cmd_tokenize_load(const char *dir, struct tokenizer_files *files,
				     struct fail *fail)
{
	char *gguf = NULL;
	const struct model_opts opts = {.use_mmap = true};
	struct tensors *ts = NULL;
	enum status st = gguf_model_find(dir, &gguf, fail);
	if (st == OK && !gguf)
		return tokenizer_hf_load(dir, files, fail);
	if (st == OK)
		st = tensors_open_gguf(gguf, &opts, gguf_names_hf, &ts, fail);
	if (st == OK)
		st = gguf_tokenizer_load(tensors_gguf(ts), gguf, files, fail);
	tensors_close(ts);
	free(gguf);
	return st;
}

static int cmd_tokenize_run(const struct option_set *set, struct tokenize_args *a, int argc,
			    char **argv, work_fn work)
{
	struct tokenizer_files files = {0};
	struct buf input = {0};
	struct fail fail = {0};
	int rc;
	if (!options_parse(set, argc, argv, &rc))
		return rc;
	if (!a->dir)
		return options_fault(set, "--model is needed");
	enum status st = cmd_tokenize_load(a->dir, &files, &fail);
	if (st != OK) {
		fail_default(&fail, st);
		return options_failure("%s", fail.text);
	}
	if (files.note)
		fprintf(stderr, "haloctl: %s: %s\n", a->dir, files.note);
	rc = EXIT_USAGE;
	if (a->text)
		buf_add_z(&input, a->text);
	if (a->text || input_stdin(&input))
		rc = work(set, files.tokenizer, buf_str(&input), a);
	buf_deinit(&input);
	tokenizer_files_deinit(&files);
	return rc;
}

int cmd_tokenize(int argc, char **argv)
{
	struct tokenize_args a = {0};
	const struct option_row rows[] = {
		MODEL_OPTION(a.dir),
		{"text", 'p', OPTION_TEXT, &a.text, 0, 0, "TEXT",
		 "the text, instead of stdin"},
		{"special", 's', OPTION_FLAG, &a.special, 0, 0, NULL,
		 "control tokens spelled in the text are control tokens"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL,
		 "print an object with count, ids, pieces"},
	};
	struct option_set set = {"tokenize", "Token ids of a text.", rows,
				 ARRAY_LEN(rows)};
	return cmd_tokenize_run(&set, &a, argc, argv, encode);
}

int cmd_detokenize(int argc, char **argv)
{
	struct tokenize_args a = {0};
	const struct option_row rows[] = {
		MODEL_OPTION(a.dir),
		{"ids", 'i', OPTION_TEXT, &a.text, 0, 0, "IDS",
		 "the ids, instead of stdin: 1 2 3 or [1,2,3]"},
		{"special", 's', OPTION_FLAG, &a.special, 0, 0, NULL,
		 "print control tokens too"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL,
		 "print an object with text"},
	};
	struct option_set set = {"detokenize", "Text of token ids.", rows,
				 ARRAY_LEN(rows)};
	return cmd_tokenize_run(&set, &a, argc, argv, decode);
}
