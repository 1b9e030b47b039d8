/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a model's folder with random weights, which halod and all other commands can open like
 * any model.
 */
#include <build-config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "ctl/command.h"
#include "ctl/input.h"
#include "ctl/options.h"
#include "bench/synth.h"

struct synth_args {
	const char *shape, *format, *out, *tokenizer;
	int64_t layers, experts, vocab, ngrams, seed;
	bool empty;
};

static enum status write_text(const char *path, const struct buf *b, struct fail *fail)
{
	FILE *f = fopen(path, "w");
	bool good = f && fwrite(b->p, 1, b->n, f) == b->n;
	if (f)
		good = fclose(f) == 0 && good;
	return good ? OK : fail_set(fail, E_IO, "%s: %s", path, strerror(errno));
}

/* Copies a file unchanged, if the other model has it. */
static enum status copy_file(const char *from, const char *to, struct fail *fail)
{
	struct buf b = {0};
	if (!file_exists(from))
		return OK;
	enum status st = file_read(from, (size_t)64 << 20, &b, fail);
	if (st == OK)
		st = write_text(to, &b, fail);
	buf_deinit(&b);
	return st;
}

static enum status write_tokenizer(const char *from, const char *to, int32_t n_vocab,
				   struct fail *fail)
{
	static const char *const others[] = {"tokenizer_config.json",
					     "generation_config.json"};
	char *src = file_join(from, "tokenizer.json");
	char *dst = file_join(to, "tokenizer.json");
	enum status st = synth_tokenizer(src, n_vocab, dst, fail);
	free(src);
	free(dst);
	for (size_t i = 0; i < ARRAY_LEN(others) && st == OK; i++) {
		src = file_join(from, others[i]);
		dst = file_join(to, others[i]);
		st = copy_file(src, dst, fail);
		free(src);
		free(dst);
	}
	return st;
}

/* Writes the tensors behind `header`, into the file `name` of the folder. */
static enum status write_tensors(const struct synth_args *a, struct synth_plan *plan,
				 const struct buf *header, const char *name, struct fail *fail)
{
	char *path = file_join(a->out, name);
	plan->is_empty = a->empty;
	int64_t t0 = clock_now_us(&clock_monotonic);
	enum status st = synth_write(plan, header, (uint64_t)a->seed, path, fail);
	double seconds = (double)(clock_now_us(&clock_monotonic) - t0) * 1e-6;
	if (st == OK)
		printf("%s: %zu tensors, %.3f GB in %.1f s (%.2f GB/s)\n", path, plan->n,
		       (double)plan->n_bytes * 1e-9, seconds,
		       (double)plan->n_bytes * 1e-9 / seconds);
	free(path);
	return st;
}

static enum status write_gguf(const struct synth_args *a, const struct synth_shape *s,
			      struct synth_format f, const char *tokenizer, struct fail *fail)
{
	struct buf header = {0};
	struct synth_plan plan;
	synth_gguf_plan(s, f, &plan);
	enum status st = synth_gguf_header(s, &plan, tokenizer, &header, fail);
	if (st == OK)
		st = write_tensors(a, &plan, &header, "model.gguf", fail);
	synth_plan_deinit(&plan);
	buf_deinit(&header);
	return st;
}

static enum status write_folder(const struct synth_args *a, const struct synth_shape *s,
				struct synth_format f, const char *tokenizer, struct fail *fail)
{
	struct buf config = {0}, header = {0};
	struct synth_plan plan;
	enum status st = write_tokenizer(tokenizer, a->out, s->n_vocab, fail);
	if (st != OK)
		return st;
	char *path = file_join(a->out, "config.json");
	synth_config(s, f, &config);
	st = write_text(path, &config, fail);
	free(path);
	buf_deinit(&config);
	synth_plan_make(s, f, &plan);
	synth_header(&plan, &header);
	if (st == OK)
		st = write_tensors(a, &plan, &header, "model.safetensors", fail);
	synth_plan_deinit(&plan);
	buf_deinit(&header);
	return st;
}

static int cmd_synth_run(const struct option_set *set, const struct synth_args *a,
			 const struct synth_shape *s, struct synth_format f)
{
	struct fail fail = {0};
	char *tokenizer = a->tokenizer ? xstrdup(a->tokenizer) : input_halo_tiny();
	if (!tokenizer)
		return options_fault(set, "--tokenizer is needed: halo-tiny is not where "
				     "it should be");
	enum status st = OK;
	if (mkdir(a->out, 0777) < 0 && errno != EEXIST)
		st = fail_set(&fail, E_IO, "%s: %s", a->out, strerror(errno));
	if (st == OK)
		st = (f.mix ? write_gguf : write_folder)(a, s, f, tokenizer, &fail);
	free(tokenizer);
	return st == OK ? EXIT_OK : options_failure("%s", fail.text);
}

static int fault_of_shape(const struct option_set *set, const char *name)
{
	struct buf names = {0};
	const struct synth_shape *s;
	for (size_t i = 0; (s = synth_shape_at(i)); i++)
		buf_addf(&names, " %s", s->name);
	int rc = options_fault(set, "--shape: \"%s\" is none of%s", name, names.p);
	buf_deinit(&names);
	return rc;
}

int cmd_synth(int argc, char **argv)
{
	struct synth_args a = {.format = "w4a16-g32", .seed = 1};
	const struct option_row rows[] = {
		{"shape", 's', OPTION_TEXT, &a.shape, 0, 0, "NAME",
		 "qwen3-30b-a3b, qwen3-8b, … (needed)"},
		{"format", 'f', OPTION_TEXT, &a.format, 0, 0, "NAME",
		 "bf16, or w4a16-g32, -g64, -g128, each also with -asym; "
		 "w4a16-g32-all: embedding and head too; or a GGUF file in q4_k_m, q5_k_m, "
		 "q6_k, q8_0, q4_0, iq4_xs, ud-q4_k_xl, mxfp4, nvfp4 (w4a16-g32)"},
		{"layers", 'l', OPTION_INT, &a.layers, 1, 1000, "N",
		 "layers (as many as the shape has)"},
		{"experts", 'e', OPTION_INT, &a.experts, 1, 100000, "N",
		 "experts, at least those a token uses (as many as the shape has)"},
		{"vocab", 'v', OPTION_INT, &a.vocab, 64, 1 << 20, "N",
		 "tokens (as many as the shape has)"},
		{"ngrams", 0, OPTION_INT, &a.ngrams, 2, 1 << 26, "N",
		 "rows of each part of a table of n-grams (as many as the shape has)"},
		{"tokenizer", 0, OPTION_TEXT, &a.tokenizer, 0, 0, "DIR",
		 "model whose tokenizer to borrow (halo-tiny)"},
		{"seed", 0, OPTION_INT, &a.seed, 0, 9007199254740992.0, "N",
		 "of the random numbers (1)"},
		{"empty", 0, OPTION_FLAG, &a.empty, 0, 0, NULL,
		 "all weights zero, in a file that takes no room: for `kernels predict`"},
		{"out", 'o', OPTION_TEXT, &a.out, 0, 0, "DIR", "folder to make (needed)"},
	};
	struct option_set set = {"synth", "Write a checkpoint of a real model's shape "
				 "with random weights, to measure speed with.", rows,
				 ARRAY_LEN(rows)};
	int rc;
	struct synth_format f;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.shape || !a.out)
		return options_fault(&set, "--%s is needed", a.shape ? "out" : "shape");
	const struct synth_shape *found = synth_shape_find(a.shape);
	if (!found)
		return fault_of_shape(&set, a.shape);
	if (!synth_format_parse(a.format, &f))
		return options_fault(&set, "--format: \"%s\" is unknown", a.format);
	struct synth_shape s = *found;
	s.n_layers = a.layers ? (int32_t)a.layers : s.n_layers;
	s.n_vocab = a.vocab ? (int32_t)a.vocab : s.n_vocab;
	if (a.experts && a.experts < s.n_used)
		return options_fault(&set, "--experts: a token uses %d", s.n_used);
	if (a.experts && !s.n_experts)
		return options_fault(&set, "--experts: %s has none", s.name);
	s.n_experts = a.experts ? (int32_t)a.experts : s.n_experts;
	if (a.ngrams && !s.n_ngrams)
		return options_fault(&set, "--ngrams: %s has none", s.name);
	s.n_ngrams = a.ngrams ? (int32_t)a.ngrams : s.n_ngrams;
	if (s.n_streams && !f.mix)
		return options_fault(&set, "--format: %s is made as a GGUF file: iq4_xs, "
				     "ud-q4_k_xl, mxfp4, …, not %s", s.name, a.format);
	return cmd_synth_run(&set, &a, &s, f);
}
