/* SPDX-License-Identifier: Apache-2.0
 *
 * `kernels record` stores the launches of one step of a model in a folder (record.h).
 * `kernels replay` runs them again and compares the results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/command.h"
#include "ctl/input.h"
#include "lab/chip.h"
#include "lab/record.h"
#include "ctl/session.h"

enum { MAX_CODE = 8, MAX_PROMPT = 65536 };

struct kernels_record_args {
	struct session_opts session;
	const char *step, *out, *code;
	int64_t n_prompt;
};

/* Split a list of paths (NULL: those of this build); returns their number. */
static int find_code(const char *list, char **out)
{
	char *built = list ? NULL : chip_code_of_build();
	int n = 0;
	for (const char *p = list ? list : built; *p && n < MAX_CODE;) {
		size_t len = strcspn(p, ",");
		out[n++] = xstrndup(p, len);
		p += len + (p[len] == ',');
	}
	free(built);
	return n;
}

/* Process the prompt, and record its last part (prefill) or one more token (decode). */
static bool run_step(const struct kernels_record_args *a, struct session *s, char *const *code,
		     int n_code)
{
	struct fail fail = {0};
	struct record *r;
	int n = (int)a->n_prompt, n_launches = 0;
	bool is_decode = strcmp(a->step, "decode") == 0;
	int32_t *ids = xcalloc((size_t)n + 1, sizeof *ids);
	input_random_ids(1, s->model->config.n_vocab, ids, n + 1);
	struct engine_seq *seq = session_start(s, n + 1);
	bool good = seq && (!is_decode || session_feed(s, seq, ids, n, NULL, NULL));
	if (good && record_create(hip_of(s->backend), a->out, (const char *const *)code,
				  n_code, &r, &fail) != OK) {
		fprintf(stderr, "haloctl: %s\n", fail.text);
		good = false;
	}
	if (good) {
		char about[200];
		snprintf(about, sizeof about, "%s step, %d token%s behind %d", a->step,
			 is_decode ? 1 : n, is_decode || n == 1 ? "" : "s",
			 is_decode ? n : 0);
		good = session_feed(s, seq, is_decode ? ids + n : ids, is_decode ? 1 : n,
				    NULL, NULL);
		if (record_finish(r, about, &n_launches, &fail) != OK) {
			fprintf(stderr, "haloctl: %s\n", fail.text);
			good = false;
		} else if (good) {
			printf("%s: %d launches of a %s\n", a->out, n_launches, about);
		}
	}
	if (seq)
		engine_seq_destroy(s->engine, seq);
	free(ids);
	return good;
}

int cmd_kernels_record(int argc, char **argv)
{
	struct kernels_record_args a = {
		.session = SESSION_DEFAULTS, .step = "decode", .n_prompt = 24};
	const struct option_row rows[] = {
		SESSION_OPTIONS(a.session),
		{"step", 0, OPTION_TEXT, &a.step, 0, 0, "NAME", "decode or prefill (decode)"},
		{"prompt-tokens", 'p', OPTION_INT, &a.n_prompt, 1, MAX_PROMPT, "N",
		 "tokens of the prompt (24)"},
		{"code", 'c', OPTION_TEXT, &a.code, 0, 0, "FILE,…",
		 "code objects to copy (those of this build)"},
		{"out", 'o', OPTION_TEXT, &a.out, 0, 0, "DIR", "folder to make (needed)"},
	};
	struct option_set set = {"kernels record",
				 "Record the kernel launches of one step of a model, with "
				 "all memory they read and write.", rows, ARRAY_LEN(rows)};
	char *code[MAX_CODE];
	int rc;
	a.session.backend = "hip";
	a.session.checks.own_blocks = true;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.session.dir || !a.out)
		return options_fault(&set, "--%s is needed", a.out ? "model" : "out");
	if (strcmp(a.step, "decode") != 0 && strcmp(a.step, "prefill") != 0)
		return options_fault(&set, "--step: decode or prefill");
	if (strcmp(a.session.backend, "hip") != 0)
		return options_fault(&set, "--backend: only hip has launches");
	int n_code = find_code(a.code, code);
	if (n_code == 0)
		return options_fault(&set, "--code is needed: this build has no code "
				     "objects");
	struct session s = {0};
	rc = EXIT_USAGE;
	if (session_open(&a.session, (int)a.n_prompt + 1, &s))
		rc = run_step(&a, &s, code, n_code) ? EXIT_OK : EXIT_FAILED;
	session_close(&s);
	for (int i = 0; i < n_code; i++)
		free(code[i]);
	return rc;
}

int cmd_kernels_replay(int argc, char **argv)
{
	struct backend_opts o = {.name = "hip", .checks = {.own_blocks = true}};
	const char *dir = NULL;
	double tolerance = 0;
	const struct option_row rows[] = {
		{"in", 'i', OPTION_OPERAND, &dir, 0, 0, "DIR",
		 "the recording (needed); --in may be left out"},
		{"tolerance", 0, OPTION_NUMBER, &tolerance, 0, 1, "X",
		 "largest difference of a number, |a - b| / max(1, |b|) (0: same bits; a GPU "
		 "beside a stand-in: 1e-3)"},
		{"hip-library", 0, OPTION_TEXT, &o.hip_library, 0, 0, "FILE",
		 "the HIP runtime (libamdhip64.so of the system)"},
		{"hip-kernels", 0, OPTION_TEXT, &o.kernel_dir, 0, 0, "DIR",
		 "where the code objects are"},
	};
	struct option_set set = {"kernels replay",
				 "Run the launches of a recording and compare what they "
				 "leave in memory.\nExits with 1 where it differs by more "
				 "than the tolerance.", rows, ARRAY_LEN(rows)};
	struct replay_result r;
	struct backend *b;
	struct fail fail = {0};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!dir)
		return options_fault(&set, "the folder of a recording is needed");
	char *steps = file_join(dir, "recording.json");
	bool is_recording = file_exists(steps);
	free(steps);
	if (!is_recording) /* before the GPU is asked for: a typo is found without one, too */
		return options_fault(&set, "%s is no recording; haloctl kernels record makes one",
				     dir);
	if (hip_create(&o, &b, &fail) != OK)
		return options_failure("%s. --hip-library names a HIP runtime elsewhere",
				       fail.text);
	enum status st = replay_run(hip_of(b), dir, tolerance, &r, &fail);
	if (st == OK)
		printf("%d launches: %d the same, %d within %g (worst %.3g), %d differ\n%s%s",
		       r.n_launches, r.n_equal, r.n_close, tolerance, r.worst,
		       r.n_launches - r.n_equal - r.n_close, r.text, *r.text ? "\n" : "");
	else
		options_fault(&set, "%s", fail.text);
	backend_destroy(b);
	if (st != OK)
		return EXIT_USAGE;
	return r.n_equal + r.n_close == r.n_launches ? EXIT_OK : EXIT_FAILED;
}
