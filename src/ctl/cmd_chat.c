/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation in the terminal. With --url a server answers, else a halod that this command
 * starts with --model. Reasoning is shown dim on a terminal, and not at all elsewhere. Ctrl-C
 * stops the answer; at the prompt it ends the chat.
 */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/chat_client.h"
#include "ctl/chat_server.h"
#include "ctl/command.h"
#include "ctl/options.h"
#include "ctl/post.h"

#define DIM "\033[2m"
#define PLAIN "\033[0m"

static const char help_text[] =
	"/new     begin anew\n"
	"/undo    take the last question and its answer back\n"
	"/retry   answer the last question again\n"
	"/system TEXT  say who the model is, and begin anew\n"
	"/think   show or hide the reasoning\n"
	"/stats   show or hide tokens and times behind an answer\n"
	"/quit    end (Ctrl-D does, too); Ctrl-C stops an answer\n"
	"A line that ends in \\ goes on in the next one.\n";

struct chat_session {
	struct chat_server server;
	const char *model, *system;
	char *own_model, *own_system;
	struct buf options; /* further fields of each request */
	json_t *messages;
	bool is_terminal, shows_reasoning, shows_stats;
	bool is_dim;  /* the terminal shows dim text now */
	bool has_text; /* the answer has begun */
};

static volatile sig_atomic_t stop;

static void on_interrupt(int number)
{
	(void)number;
	stop = 1;
}

/* --- output ----------------------------------------------------------------------- */

static void set_dim(struct chat_session *c, bool is_dim)
{
	if (c->is_terminal && c->is_dim != is_dim)
		fputs(is_dim ? DIM : PLAIN, stdout);
	c->is_dim = is_dim;
}

static void on_text(void *ctx, bool is_reasoning, struct str text)
{
	struct chat_session *c = ctx;
	if (is_reasoning && !c->shows_reasoning)
		return;
	if (!is_reasoning && c->is_dim && !c->has_text)
		fputs("\n\n", stdout);
	set_dim(c, is_reasoning);
	c->has_text |= !is_reasoning;
	fwrite(text.p, 1, text.n, stdout);
	fflush(stdout);
}

static void print_stats(const struct chat_answer *a)
{
	fprintf(stderr, "[%d tokens in, %d of them known; %d out; TTFT %.0f ms", a->n_prompt,
		a->n_cached, a->n_answer, a->ttft_s * 1e3);
	if (a->tpot_s > 0)
		fprintf(stderr, "; TPOT %.1f ms, %.1f tokens/s", a->tpot_s * 1e3,
			1 / a->tpot_s);
	fputs("]\n", stderr);
}

/* --- the conversation ------------------------------------------------------------- */

static void add_message(struct chat_session *c, const char *role, const char *text)
{
	json_array_append_new(c->messages, json_pack("{s:s,s:s}", "role", role, "content",
						     text));
}

static void begin_anew(struct chat_session *c)
{
	json_array_clear(c->messages);
	if (c->system)
		add_message(c, "system", c->system);
}

/* Remove messages from the end, up to and including the last one of the user. Returns its text,
 * or NULL. */
static char *take_back(struct chat_session *c)
{
	char *text = NULL;
	for (size_t n; !text && (n = json_array_size(c->messages)) > (c->system ? 1u : 0u);) {
		json_t *m = json_array_get(c->messages, n - 1);
		if (strcmp(json_string_value(json_object_get(m, "role")), "user") == 0)
			text = xstrdup(json_string_value(json_object_get(m, "content")));
		json_array_remove(c->messages, n - 1);
	}
	return text;
}

/* False: there was no answer, and the question was removed again. */
static bool answer(struct chat_session *c, const char *question)
{
	struct chat_answer a;
	struct fail fail = {0};
	add_message(c, "user", question);
	const struct chat_request r = {.model = c->model, .messages = c->messages,
				       .options = c->options.p ? c->options.p : "",
				       .stop = &stop, .on_text = on_text, .ctx = c};
	stop = 0;
	c->has_text = false;
	enum status st = chat_ask(&c->server, &r, &a, &fail);
	set_dim(c, false);
	if (st != OK) {
		free(take_back(c));
		fprintf(stderr, "haloctl: %s\n", fail.text);
		return false;
	}
	fputs("\n", stdout);
	fflush(stdout);
	if (a.is_stopped || a.is_cut)
		fprintf(stderr, "[%s]\n", a.is_stopped ? "stopped" : "cut off by its length");
	if (c->shows_stats && !a.is_stopped)
		print_stats(&a);
	add_message(c, "assistant", a.text.p ? a.text.p : "");
	chat_answer_deinit(&a);
	return true;
}

static void set_system(struct chat_session *c, const char *text)
{
	free(c->own_system);
	c->own_system = *text ? xstrdup(text) : NULL;
	c->system = c->own_system;
	begin_anew(c);
}

/* Runs a command such as /quit. False: the chat is over. */
static bool obey(struct chat_session *c, const char *line)
{
	if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
		return false;
	if (strcmp(line, "/new") == 0) {
		begin_anew(c);
	} else if (strcmp(line, "/undo") == 0) {
		free(take_back(c));
	} else if (strcmp(line, "/retry") == 0) {
		char *question = take_back(c);
		if (question)
			answer(c, question);
		free(question);
	} else if (strncmp(line, "/system", 7) == 0 && (!line[7] || line[7] == ' ')) {
		set_system(c, line + 7 + (line[7] == ' '));
	} else if (strcmp(line, "/think") == 0) {
		c->shows_reasoning = !c->shows_reasoning;
	} else if (strcmp(line, "/stats") == 0) {
		c->shows_stats = !c->shows_stats;
	} else {
		fputs(help_text, stderr);
	}
	return true;
}

/* Reads one line, or several lines that end in a backslash. False at the end of input. */
static bool read_question(struct chat_session *c, struct buf *out)
{
	char *line = NULL;
	size_t size = 0;
	bool goes_on = true;
	buf_clear(out);
	while (goes_on) {
		if (c->is_terminal)
			fputs(out->n ? ". " : "> ", stderr);
		ssize_t n = getline(&line, &size, stdin);
		if (n < 0)
			break;
		while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
			n--;
		goes_on = n > 0 && line[n - 1] == '\\';
		buf_add(out, line, (size_t)(goes_on ? n - 1 : n));
		if (goes_on)
			buf_add_c(out, '\n');
	}
	free(line);
	buf_add_z(out, "");
	return !goes_on;
}

static int converse(struct chat_session *c)
{
	struct buf question = {0};
	int rc = EXIT_OK;
	begin_anew(c);
	while (read_question(c, &question)) {
		const char *text = question.n ? question.p : "";
		if (*text == '/' && !obey(c, text))
			break;
		/* If the input is no terminal, a failed answer decides the exit status. */
		if (*text && *text != '/' && !answer(c, text) && !c->is_terminal)
			rc = EXIT_FAILED;
	}
	if (c->is_terminal)
		fputs("\n", stderr);
	buf_deinit(&question);
	return rc;
}

/* --- start -------------------------------------------------------------------------- */

struct chat_args {
	const char *url, *api_key, *name, *dir, *system, *backend, *hip_library, *hip_kernels;
	int64_t ctx, n, seed, threads;
	double temperature;
	bool no_think;
};

static bool find_name(struct chat_session *c)
{
	json_t *models;
	long status = chat_get(&c->server, "/v1/models", &models);
	const char *id = json_string_value(json_object_get(
		json_array_get(json_object_get(models, "data"), 0), "id"));
	if (id)
		c->model = c->own_model = xstrdup(id);
	else if (status == 401)
		options_failure("%s wants an API key (--api-key, OPENAI_API_KEY)", c->server.url);
	else if (status <= 0)
		options_failure("%s: %s", c->server.url, post_why((int)-status));
	else
		options_failure("%s/v1/models: HTTP %ld, and no name of a model", c->server.url,
				status);
	json_decref(models);
	return id != NULL;
}

static void set_options(struct chat_session *c, const struct chat_args *a)
{
	if (a->n > 0)
		buf_addf(&c->options, ",\"max_tokens\":%lld", (long long)a->n);
	if (a->seed >= 0)
		buf_addf(&c->options, ",\"seed\":%lld", (long long)a->seed);
	if (a->temperature >= 0) {
		buf_add_z(&c->options, ",\"temperature\":");
		buf_add_json_num(&c->options, a->temperature);
	}
	if (a->no_think)
		buf_add_z(&c->options,
			  ",\"chat_template_kwargs\":{\"enable_thinking\":false}");
	buf_add_z(&c->options, "");
}

static enum status start_server(const struct chat_args *a, struct own_server *own,
				struct fail *fail)
{
	char *argv[16], number[2][24];
	int n = 0;
	const struct { const char *flag, *value; } texts[] = {
		{"--model", a->dir}, {"--backend", a->backend},
		{"--hip-library", a->hip_library}, {"--hip-kernels", a->hip_kernels}};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i].value) {
			argv[n++] = (char *)texts[i].flag;
			argv[n++] = (char *)texts[i].value;
		}
	const struct { const char *flag; int64_t value; } numbers[] = {
		{"--ctx", a->ctx}, {"--threads", a->threads}};
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (numbers[i].value > 0) {
			snprintf(number[i], sizeof number[i], "%lld",
				 (long long)numbers[i].value);
			argv[n++] = (char *)numbers[i].flag;
			argv[n++] = number[i];
		}
	return chat_server_start(argv, n, own, fail);
}

static int cmd_chat_run(const struct chat_args *a)
{
	struct own_server own = {0};
	struct chat_session c = {.server = {.url = a->url, .api_key = a->api_key},
			 .model = a->name, .system = a->system,
			 .messages = json_array(), .is_terminal = isatty(0) && isatty(1)};
	struct fail fail = {0};
	int rc = EXIT_USAGE;
	c.shows_reasoning = c.shows_stats = c.is_terminal;
	set_options(&c, a);
	if (!a->url) {
		c.server.url = "http://halod";
		if (start_server(a, &own, &fail) != OK) {
			options_failure("%s", fail.text);
			goto out;
		}
		c.server.unix_socket = own.socket;
	}
	if (!c.model && !find_name(&c))
		goto out;
	signal(SIGPIPE, SIG_IGN);
	/* Without SA_RESTART, Ctrl-C also ends the read at the prompt, and so the chat. */
	sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
	if (c.is_terminal)
		fprintf(stderr, "%s. /help lists commands.\n", c.model);
	rc = converse(&c);
out:
	chat_server_stop(&own);
	json_decref(c.messages);
	buf_deinit(&c.options);
	free(c.own_model);
	free(c.own_system);
	return rc;
}

int cmd_chat(int argc, char **argv)
{
	struct chat_args a = {.api_key = getenv("OPENAI_API_KEY"), .seed = -1,
			      .temperature = -1};
	const struct option_row rows[] = {
		{"model", 'm', OPTION_TEXT, &a.dir, 0, 0, "DIR",
		 "load this model: a folder, a GGUF file or ORG/NAME (halo-tiny)"},
		{"url", 'u', OPTION_TEXT, &a.url, 0, 0, "URL",
		 "ask this server in place of loading a model"},
		{"api-key", 0, OPTION_TEXT, &a.api_key, 0, 0, "KEY",
		 "its API key (that of OPENAI_API_KEY)"},
		{"name", 0, OPTION_TEXT, &a.name, 0, 0, "NAME",
		 "the server's model (the first that it lists)"},
		{"system", 0, OPTION_TEXT, &a.system, 0, 0, "TEXT", "a system message"},
		{"no-think", 0, OPTION_FLAG, &a.no_think, 0, 0, NULL,
		 "enable_thinking=false for the template"},
		{"max-tokens", 'n', OPTION_INT, &a.n, 1, 1 << 26, "N",
		 "tokens of an answer at most (the server's)"},
		{"temperature", 0, OPTION_NUMBER, &a.temperature, 0, 100, "X",
		 "0 is greedy (the model's)"},
		{"seed", 0, OPTION_INT, &a.seed, 0, 9e15, "N",
		 "the same seed, the same answers (chosen anew)"},
		{"ctx", 0, OPTION_INT, &a.ctx, 1, 1 << 24, "N",
		 "of a model loaded here: tokens of the conversation at most"},
		{"backend", 0, OPTION_TEXT, &a.backend, 0, 0, "NAME",
		 "of a model loaded here: auto, cpu, hip (auto)"},
		{"threads", 't', OPTION_INT, &a.threads, 0, 1024, "N",
		 "of a model loaded here: threads of the CPU backend (0: one per CPU)"},
		{"hip-library", 0, OPTION_TEXT, &a.hip_library, 0, 0, "FILE",
		 "of a model loaded here: the HIP runtime"},
		{"hip-kernels", 0, OPTION_TEXT, &a.hip_kernels, 0, 0, "DIR",
		 "of a model loaded here: where the GPU kernels are"},
	};
	struct option_set set = {"chat", "A conversation in the terminal.", rows,
				 ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (a.url && a.dir)
		return options_fault(&set, "--model and --url exclude each other");
	char *url = a.url ? file_without_slashes(a.url) : NULL;
	a.url = url;
	rc = cmd_chat_run(&a);
	free(url);
	return rc;
}
