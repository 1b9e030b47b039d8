/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/command.h"
#include "doctor/doctor.h"
#include "ctl/options.h"

/* Prints the table of haloctl verify --answers, and a line with its result. */
static void check_answers(struct doctor *d)
{
	char *argv[] = {"haloctl verify", "--answers", "--url", (char *)(uintptr_t)d->url, NULL};
	fflush(stdout);
	int rc = cmd_verify_answers((int)ARRAY_LEN(argv) - 1, argv);
	if (rc == EXIT_USAGE)
		doctor_say(d, DOCTOR_BAD, "answers", "not asked, as the line above says");
	else if (rc == EXIT_OK)
		doctor_say(d, DOCTOR_OK, "answers", "those of a sound chat model, at %s", d->url);
	else
		doctor_say(d, DOCTOR_BAD, "answers", "not those of a sound chat model, at %s. "
			   "Fix: haloctl verify --model DIR tells whether kernels are wrong; "
			   "journalctl -u halod tells more", d->url);
}

static int cmd_doctor_run(struct doctor *d)
{
	doctor_check_gpu(d);
	doctor_check_machine(d);
	doctor_check_runtime(d);
	if (d->model)
		doctor_check_model(d);
	if (d->is_here && !d->is_quick)
		doctor_check_self(d);
	if (d->url)
		check_answers(d);
	return d->n_lines[DOCTOR_BAD] ? EXIT_FAILED : EXIT_OK;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor d = {.backend = "auto", .read_mb = 1024};
	const char *root = "/";
	const struct option_row rows[] = {
		{"model", 'm', OPTION_TEXT, &d.model, 0, 0, "DIR",
		 "a model: does it fit into the memory"},
		{"draft-model", 0, OPTION_TEXT, &d.draft_model, 0, 0, "DIR",
		 "a smaller model that drafts for it"},
		{"lora", 0, OPTION_TEXT, &d.lora, 0, 0, "PATH",
		 "a LoRA adapter of it: a PEFT folder or a GGUF file"},
		{"embedding-model", 0, OPTION_TEXT, &d.embedding_model, 0, 0, "DIR",
		 "a model that gives embeddings, beside it"},
		{"rerank-model", 0, OPTION_TEXT, &d.rerank_model, 0, 0, "DIR",
		 "a model that ranks, beside it"},
		{"transcription-model", 0, OPTION_TEXT, &d.transcription_model, 0, 0, "DIR",
		 "a model that transcribes, beside it"},
		{"aligner-model", 0, OPTION_TEXT, &d.aligner_model, 0, 0, "DIR",
		 "a forced aligner for what it transcribes"},
		{"beside", 0, OPTION_TEXT, &d.beside, 0, 0, "DIR",
		 "another model that requests name: are both in memory together"},
		{"mmproj", 0, OPTION_TEXT, &d.mmproj, 0, 0, "FILE",
		 "its tower, where that is a GGUF file elsewhere"},
		{"backend", 0, OPTION_TEXT, &d.backend, 0, 0, "NAME",
		 "where halod shall compute: auto, cpu, hip (auto)"},
		{"hip-library", 0, OPTION_TEXT, &d.hip_library, 0, 0, "FILE",
		 "the HIP runtime (libamdhip64.so of the system)"},
		{"hip-kernels", 0, OPTION_TEXT, &d.hip_kernels, 0, 0, "DIR",
		 "where the GPU kernels are (where they were installed)"},
		{"quick", 'q', OPTION_FLAG, &d.is_quick, 0, 0, NULL,
		 "compute nothing: no check of halo-tiny, no rate"},
		{"url", 'u', OPTION_TEXT, &d.url, 0, 0, "URL",
		 "a running server: also check its answers, as verify --answers does"},
		{"read-mb", 0, OPTION_INT, &d.read_mb, 0, 65536, "N",
		 "MiB that the GPU reads to measure its rate (1024; 0: it does not)"},
		{"root", 0, OPTION_TEXT, &root, 0, 0, "DIR",
		 "look at a copy of another machine's /sys, /proc and /dev in DIR"},
	};
	struct option_set set = {"doctor",
				 "Check that this machine is ready for halod. Each line is "
				 "ok, warn or bad;\nwhere it is not ok, it ends with what to "
				 "type. Exits with 1 where one is bad.",
				 rows, ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (strcmp(d.backend, "auto") != 0 && strcmp(d.backend, "cpu") != 0 &&
	    strcmp(d.backend, "hip") != 0)
		return options_fault(&set, "--backend is auto, cpu or hip, not %s", d.backend);
	if (!file_exists(root))
		return options_fault(&set, "there is no folder %s", root);
	char *path = file_without_slashes(root);
	d.root = path;
	d.is_here = !*path;
	rc = cmd_doctor_run(&d);
	free(path);
	return rc;
}
