/* SPDX-License-Identifier: Apache-2.0
 *
 * `haloctl first-run`: what the first owner of a chip runs, in order, with one report. A step that
 * fails does not end the run, since the next ones tell more. The report is written before and
 * after each step. So an owner who loses the machine still has it.
 */
#include <build-config.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/command.h"
#include "ctl/input.h"
#include "ctl/options.h"
#include "doctor/first_run.h"

enum { SHORT_S = 600, LONG_S = 7200 };

struct first_run {
	const char *model, *out, *hip_library, *hip_kernels, *steps;
	bool is_quick;
	char *self, *tiny;    /* this program, and halo-tiny's folder */
	char arch[32];        /* of the first GPU with kernels; "": none was seen */
	char *library;        /* the runtime that was seen */
	struct buf head, summary, details;
	int n_failed;
};

enum step_state { STEP_OK, STEP_FAILED, STEP_LEFT_OUT };
static const char *const states[] = {"ok", "FAILED", "left out"};

/* What a step came to, in a few words. */
struct step_end {
	enum step_state state;
	char note[160];
};

struct run_step {
	const char *name;
	void (*run)(struct first_run *r, struct step_end *end);
	const char *help; /* what to do where it failed */
};

__attribute__((format(printf, 3, 4)))
static void finish(struct step_end *end, enum step_state state, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	end->state = state;
	vsnprintf(end->note, sizeof end->note, fmt, ap);
	va_end(ap);
}

/* haloctl with these words, and the options of the runtime behind them. */
static struct run_command haloctl(const struct first_run *r, const char *const *words)
{
	struct run_command c = {.program = r->self};
	for (; *words; words++)
		run_add(&c, *words);
	return c;
}

static void add_hip(const struct first_run *r, struct run_command *c)
{
	if (r->hip_library) {
		run_add(c, "--hip-library");
		run_add(c, r->hip_library);
	}
	if (r->hip_kernels) {
		run_add(c, "--hip-kernels");
		run_add(c, r->hip_kernels);
	}
}

/* Run a command, and put it with its output into the report. True: it ended well. */
static bool run_shown(struct first_run *r, const struct run_command *c, int limit_s,
		      struct run_result *out)
{
	run_say(c, &r->details);
	run_command_for(c, limit_s, out);
	buf_add(&r->details, out->out.p, out->out.n);
	if (out->is_late)
		buf_addf(&r->details, "(ended after %d s)\n", limit_s);
	else if (out->rc)
		buf_addf(&r->details, "(status %d)\n", out->rc);
	return !out->is_late && out->rc == 0;
}

static const char *text_of(const struct run_result *result)
{
	return result->out.p ? result->out.p : "";
}

/* The usual end of a step that is one command. */
static void end_of(const struct run_result *result, bool is_ok, struct step_end *end)
{
	if (is_ok)
		finish(end, STEP_OK, "%.1f s", result->seconds);
	else if (result->is_late)
		finish(end, STEP_FAILED, "did not end in %.0f s", result->seconds);
	else if (result->rc > 128)
		finish(end, STEP_FAILED, "ended by signal %d", result->rc - 128);
	else
		finish(end, STEP_FAILED, "status %d", result->rc);
}

static void run_doctor(struct first_run *r, struct step_end *end)
{
	struct run_result result;
	struct run_command c =
		haloctl(r, (const char *[]){"doctor", "--backend", "hip", NULL});
	if (r->model) {
		run_add(&c, "--model");
		run_add(&c, r->model);
	}
	if (r->is_quick)
		run_add(&c, "--quick");
	add_hip(r, &c);
	bool is_ok = run_shown(r, &c, SHORT_S, &result);
	end_of(&result, is_ok, end);
	buf_deinit(&result.out);
}

/* Also learns which chip and which runtime there are: "LIBRARY, HIP 7.2", then a GPU a line. */
static void run_devices(struct first_run *r, struct step_end *end)
{
	struct run_result result;
	struct run_command c = haloctl(r, (const char *[]){"devices", NULL});
	add_hip(r, &c);
	bool is_ok = run_shown(r, &c, SHORT_S, &result);
	end_of(&result, is_ok, end);
	char *at = result.out.p, *line, *arch;
	for (bool is_first = true; is_ok && (line = strsep(&at, "\n")); is_first = false) {
		if (is_first) {
			char *library_end = strstr(line, ", HIP ");
			if (library_end)
				*library_end = '\0';
			r->library = xstrdup(line);
		} else if (!*r->arch && !strstr(line, "no kernels") &&
			   (arch = strstr(line, "(gfx")) != NULL) {
			sscanf(arch, "(%31[^)]", r->arch);
			finish(end, STEP_OK, "%.100s", line);
		}
	}
	buf_deinit(&result.out);
}

/* verify with these settings: which of them change what is wrong? And the launches of a step. */
static void find_cause(struct first_run *r)
{
	static const char *const envs[] = {"AMD_SERIALIZE_KERNEL=3", "HSA_ENABLE_SDMA=0", NULL};
	struct run_result result;
	for (size_t i = 0; i < ARRAY_LEN(envs); i++) {
		struct run_command c = haloctl(r, (const char *[]){
			"verify", "--model", r->tiny, "--backend", "hip", "--max-delta", "0.05",
			envs[i] ? NULL : "--no-graphs", NULL});
		c.env = envs[i];
		add_hip(r, &c);
		run_shown(r, &c, SHORT_S, &result);
		buf_deinit(&result.out);
	}
	struct buf folder = {0};
	buf_addf(&folder, "%s.recorded", r->out);
	struct run_command c = haloctl(r, (const char *[]){
		"kernels", "record", "--model", r->tiny, "--backend", "hip", "--step", "prefill",
		"--out", folder.p, NULL});
	add_hip(r, &c);
	if (run_shown(r, &c, SHORT_S, &result))
		buf_addf(&r->details, "The launches are in %s: send this folder, too.\n",
			 folder.p);
	buf_deinit(&result.out);
	buf_deinit(&folder);
}

static void run_verify(struct first_run *r, struct step_end *end)
{
	int n = r->is_quick ? 2 : 10, i;
	bool is_same = true;
	struct run_result result, first;
	struct run_command c = haloctl(r, (const char *[]){
		"verify", "--model", r->tiny, "--backend", "hip", "--max-delta", "0.05", NULL});
	add_hip(r, &c);
	bool is_ok = run_shown(r, &c, SHORT_S, &first);
	end_of(&first, is_ok, end);
	for (i = 1; i < n && is_ok && is_same; i++) {
		run_command_for(&c, SHORT_S, &result);
		is_ok = !result.is_late && result.rc == 0;
		if (!is_ok)
			end_of(&result, false, end);
		is_same = strcmp(text_of(&first), text_of(&result)) == 0;
		if (!is_ok || !is_same)
			buf_addf(&r->details, "Run %d:\n%s", i + 1, text_of(&result));
		buf_deinit(&result.out);
	}
	if (!is_same)
		finish(end, STEP_FAILED, "run %d of %d differs from the first", i, n);
	else if (is_ok)
		finish(end, STEP_OK, "%d runs, all the same", n);
	if (end->state == STEP_FAILED && *r->arch)
		find_cause(r);
	buf_deinit(&first.out);
}

/* The programs of `make check` that compare each kernel with its reference. */
static void run_kernels(struct first_run *r, struct step_end *end)
{
	static const char *const programs[] = {"tests/kernel/run_fibers",
					       "tests/kernel/run_shapes", "tests/kernel/run_forms"};
	int n_run = 0, n_bad = 0;
	struct buf env = {0};
	buf_addf(&env, "HALOD_TEST_HIP_LIBRARY=%s", r->library ? r->library : "");
	for (size_t i = 0; i < ARRAY_LEN(programs) && !r->is_quick && r->library; i++) {
		char *path = file_beside_program(&programs[i], 1);
		struct run_command c = {.program = path, .env = env.p};
		struct run_result result;
		if (!path)
			continue;
		n_bad += !run_shown(r, &c, LONG_S, &result);
		n_run++;
		buf_deinit(&result.out);
		free(path);
	}
	buf_deinit(&env);
	if (n_run)
		finish(end, n_bad ? STEP_FAILED : STEP_OK, "%d of %d programs", n_run - n_bad,
		       n_run);
	else
		finish(end, STEP_LEFT_OUT, r->is_quick ? "--quick"
			: r->library ? "they are in a build folder alone, made by make check TESTS="
				     : "no runtime");
}

static void run_lasts(struct first_run *r, struct step_end *end)
{
	struct run_result result;
	struct run_command c = haloctl(r, (const char *[]){
		"bench", "model", "--model", r->tiny, "--backend", "hip", "-p",
		r->is_quick ? "8" : "128", "--decode", r->is_quick ? "4" : "3000", "-r", "1",
		NULL});
	add_hip(r, &c);
	bool is_ok = run_shown(r, &c, SHORT_S, &result);
	end_of(&result, is_ok, end);
	buf_deinit(&result.out);
}

static void run_launches(struct first_run *r, struct step_end *end)
{
	const char *shapes = r->is_quick ? "tiny" : "qwen3-30b-a3b,qwen3.5-35b-a3b,qwen3-8b";
	struct run_result measured, predicted;
	struct run_command c = haloctl(r, (const char *[]){
		"kernels", "bench", "--csv", "-m", shapes, "--cold-mb", r->is_quick ? "1" : "512",
		"-r", r->is_quick ? "1" : "7", NULL});
	add_hip(r, &c);
	bool is_ok = run_shown(r, &c, SHORT_S, &measured);
	end_of(&measured, is_ok, end);
	if (!is_ok) {
		buf_deinit(&measured.out);
		return;
	}
	c = haloctl(r, (const char *[]){"kernels", "report", "-k", "none", "-g", "-j", "-m", shapes,
					"-t", "1", NULL});
	run_say(&c, &r->details);
	run_command_for(&c, SHORT_S, &predicted);
	int n = first_run_launches(text_of(&measured), text_of(&predicted), r->arch, &r->details);
	if (n == 0)
		finish(end, STEP_FAILED, "nothing to compare: %.100s", text_of(&predicted));
	else
		finish(end, STEP_OK, "%d operations beside their predictions", n);
	buf_deinit(&measured.out);
	buf_deinit(&predicted.out);
}

static void run_speed(struct first_run *r, struct step_end *end)
{
	const char *model = r->model ? r->model : r->tiny, *prompt = r->is_quick ? "16" : "2048";
	const char *depth = r->is_quick ? "8" : "128";
	struct run_result measured, predicted;
	struct run_command c = haloctl(r, (const char *[]){
		"bench", "model", "--model", model, "--backend", "hip", "-p", prompt, "-d", depth,
		"-n", r->is_quick ? "2" : "64", "-r", r->is_quick ? "1" : "3", "--json", NULL});
	add_hip(r, &c);
	bool is_ok = run_shown(r, &c, SHORT_S, &measured);
	end_of(&measured, is_ok, end);
	if (!is_ok || !*r->arch) {
		buf_deinit(&measured.out);
		return;
	}
	c = haloctl(r, (const char *[]){
		"kernels", "predict", "--model", model, "--chip", r->arch, "-p", prompt, "-d",
		depth, "-b", depth, "--json", NULL});
	run_say(&c, &r->details);
	run_command_for(&c, SHORT_S, &predicted);
	int n_out, n = first_run_steps(text_of(&measured), text_of(&predicted), atoi(prompt),
				       atoi(depth), &r->details, &n_out);
	if (n == 0)
		finish(end, STEP_FAILED, "no prediction: %.100s", text_of(&predicted));
	else
		finish(end, STEP_OK, "%d of %d times are outside their predicted bars", n_out, n);
	buf_deinit(&measured.out);
	buf_deinit(&predicted.out);
}

/* Lines of the kernel's log that a sound GPU does not cause. */
static void run_log(struct first_run *r, struct step_end *end)
{
	static const char *const faults[] = {"timeout", "page fault", "GPU reset"};
	struct run_command c = {.program = "dmesg"};
	struct run_result result;
	int n = 0;
	run_command_for(&c, SHORT_S, &result);
	if (result.rc != 0) {
		finish(end, STEP_LEFT_OUT, "may not read it: sudo dmesg | grep -iE 'amdgpu|kfd'");
		buf_deinit(&result.out);
		return;
	}
	char *at = result.out.p, *line;
	while (at && (line = strsep(&at, "\n"))) {
		if (!strstr(line, "amdgpu") && !strstr(line, "kfd"))
			continue;
		for (size_t i = 0; i < ARRAY_LEN(faults); i++)
			if (strstr(line, faults[i])) {
				buf_addf(&r->details, "%s\n", line);
				n++;
				break;
			}
	}
	finish(end, n ? STEP_FAILED : STEP_OK, "%d lines of faults", n);
	buf_deinit(&result.out);
}

static const struct run_step steps[] = {
	{"doctor", run_doctor, "repair what is bad: each line says what to type"},
	{"devices", run_devices, "the line above says what is missing; docs/gpu.md has a table"},
	{"verify", run_verify, "a kernel is wrong on this chip, or a result changes from run to "
	 "run: post the report, with the folder of recorded launches"},
	{"kernels", run_kernels, "a line that begins with `not ok` names the kernel and the shape"},
	{"lasts", run_lasts, "a page fault ends a process at once: see the step log"},
	{"launches", run_launches, "the output says what the runtime answered"},
	{"speed", run_speed, "the output says why; --model names another model"},
	{"log", run_log, "these lines name the fault: post the report"},
};

/* True if the list of --steps has it. `devices` always runs: the others need the chip's name. */
static bool is_asked(const struct first_run *r, const struct run_step *s)
{
	size_t n = strlen(s->name);
	for (const char *at = r->steps; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strncmp(at, s->name, n) == 0 && (at[n] == ',' || !at[n]))
			return true;
	return !r->steps || s->run == run_devices;
}

static bool write_report(const struct first_run *r, const char *running)
{
	FILE *f = fopen(r->out, "w");
	if (!f)
		return false;
	fprintf(f, "%s\n%s%s%s%s\n%s", r->head.p, r->summary.p ? r->summary.p : "",
		running ? "running   " : "", running ? running : "", running ? "\n" : "",
		r->details.p ? r->details.p : "");
	bool is_ok = !ferror(f) && fflush(f) == 0 && fsync(fileno(f)) == 0;
	return fclose(f) == 0 && is_ok;
}

static void begin_report(struct first_run *r)
{
	struct utsname u;
	buf_addf(&r->head, "haloctl first-run, halod %s\n", PACKAGE_VERSION);
	if (uname(&u) == 0)
		buf_addf(&r->head, "%s %s %s\n", u.sysname, u.release, u.machine);
}

static bool run_steps(struct first_run *r)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		const struct run_step *s = &steps[i];
		struct step_end end = {0};
		if (!is_asked(r, s))
			continue;
		if (!write_report(r, s->name))
			return false;
		buf_addf(&r->details, "\n== %s\n", s->name);
		s->run(r, &end);
		size_t from = r->summary.n;
		buf_addf(&r->summary, "%-9s %-9s %s\n", states[end.state], s->name, end.note);
		if (end.state == STEP_FAILED)
			buf_addf(&r->summary, "%-9s %-9s %s\n", "", "", s->help);
		r->n_failed += end.state == STEP_FAILED;
		fputs(r->summary.p + from, stdout);
		fflush(stdout);
	}
	return write_report(r, NULL);
}

static bool knows_steps(const struct option_set *set, const char *list)
{
	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
		size_t n = strcspn(at, ","), i = 0;
		while (i < ARRAY_LEN(steps) &&
		       (strncmp(steps[i].name, at, n) != 0 || steps[i].name[n]))
			i++;
		if (i == ARRAY_LEN(steps)) {
			options_fault(set, "--steps: there is no step %.*s", (int)n, at);
			return false;
		}
	}
	return true;
}

int cmd_first_run(int argc, char **argv)
{
	static const char *const program[] = {"haloctl"};
	struct first_run r = {.out = "first-run.txt"};
	const struct option_row rows[] = {
		{"model", 'm', OPTION_TEXT, &r.model, 0, 0, "DIR",
		 "the model whose speed is measured (halo-tiny)"},
		{"out", 'o', OPTION_TEXT, &r.out, 0, 0, "FILE", "the report (first-run.txt)"},
		{"steps", 's', OPTION_TEXT, &r.steps, 0, 0, "NAME,…",
		 "only these, and devices: doctor, verify, kernels, lasts, launches, speed, log"},
		{"hip-library", 0, OPTION_TEXT, &r.hip_library, 0, 0, "FILE",
		 "the HIP runtime (libamdhip64.so of the system)"},
		{"hip-kernels", 0, OPTION_TEXT, &r.hip_kernels, 0, 0, "DIR",
		 "where the GPU kernels are (where they were installed)"},
		{"quick", 'q', OPTION_FLAG, &r.is_quick, 0, 0, NULL,
		 "few runs of small shapes: does all of it run"},
	};
	struct option_set set = {"first-run",
				 "All that a GPU which halod has not met yet is asked, in one "
				 "run with one report:\nis the machine ready, are the kernels "
				 "right, does it last, how fast is it beside what\nwas predicted. "
				 "A step that fails does not end the run. Exits with 1 where one "
				 "did.", rows, ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!knows_steps(&set, r.steps))
		return EXIT_USAGE;
	r.self = file_beside_program(program, 1);
	r.tiny = input_halo_tiny();
	if (!r.self || !r.tiny)
		return options_failure("there is no %s beside this program",
				       r.self ? "models/halo-tiny" : "haloctl");
	begin_report(&r);
	if (!run_steps(&r)) {
		rc = options_failure("%s: %s", r.out, strerror(errno));
	} else {
		printf("%d of the steps failed. The report is %s: read it before you post it\n",
		       r.n_failed, r.out);
		rc = r.n_failed ? EXIT_FAILED : EXIT_OK;
	}
	buf_deinit(&r.head);
	buf_deinit(&r.summary);
	buf_deinit(&r.details);
	free(r.self);
	free(r.tiny);
	free(r.library);
	return rc;
}
