/* SPDX-License-Identifier: Apache-2.0
 *
 * The main function of halod: reads the settings, then stays in loop_run.
 */
#include <build-config.h>
#include <build-paths.h>

#include <stdio.h>

#include "base/log.h"
#include "daemon/config.h"
#include "daemon/loop.h"

static void init_log(const struct config *c)
{
	enum log_level level = LOG_INFO;
	if (strcmp(c->log_level, "error") == 0)
		level = LOG_ERROR;
	else if (strcmp(c->log_level, "warning") == 0)
		level = LOG_WARN;
	else if (strcmp(c->log_level, "debug") == 0)
		level = LOG_DEBUG;
	log_init(level, strcmp(c->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT);
}

/* Prints to stdout what the command line asks for instead of serving. */
static enum exit_code print(enum config_action action, const struct config *c)
{
	struct buf text = {0};
	if (action == CONFIG_HELP)
		config_help_format(&text);
	else if (action == CONFIG_PRINT)
		config_format(c, &text);
	else if (action == CONFIG_VERSION)
		buf_add_z(&text, "halod " PACKAGE_VERSION "\n");
	else
		buf_add_z(&text, "halod: the settings are fine\n");
	bool is_ok = fwrite(text.p, 1, text.n, stdout) == text.n &&
		     fflush(stdout) == 0;
	buf_deinit(&text);
	return is_ok ? EXIT_CODE_OK : EXIT_CODE_RUNTIME;
}

int main(int argc, char **argv)
{
	struct config c;
	struct fail fail;
	enum config_action action;
	enum exit_code code;
	log_init(LOG_INFO, LOG_TEXT);
	if (config_load(&c, argc, argv, HALOD_CONF, &action, &fail) != OK) {
		log_error("%s", fail.text);
		code = EXIT_CODE_CONFIG;
	} else if (action == CONFIG_RUN || action == CONFIG_CHECK) {
		const struct loop_opts o = {.config = &c, .argc = argc, .argv = argv,
					    .default_file = HALOD_CONF,
					    .is_check = action == CONFIG_CHECK};
		if (o.is_check)
			log_init(LOG_WARN, LOG_TEXT);
		else
			init_log(&c);
		code = loop_run(&o);
		if (o.is_check && code == EXIT_CODE_OK)
			code = print(action, &c);
	} else {
		code = print(action, &c);
	}
	config_deinit(&c);
	return code;
}
