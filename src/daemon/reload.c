/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reload.h"

#include <stdio.h>

#include "base/log.h"

/* Adds half a sentence on a reload to the line that systemctl status shows. */
static void add_note(struct buf *note, const char *text)
{
	buf_addf(note, "; %s", text);
}

/* Tells the keys that were read again, or what is wrong with them. systemd copies a credential
 * when the unit starts, and only newer versions copy it again on a reload, so keys that have not
 * changed may be an old copy. Of a file with a fault the keys that it does not hold are valid no
 * more: who empties or removes it wants nobody to get in. */
static void reload_keys(const struct reload *r, struct buf *note)
{
	struct fail f;
	struct http_reload keys;
	char text[sizeof f.text + 120];
	if (!r->has_keys)
		return;
	enum status st = http_reload_keys(r->http, &keys, &f);
	if (st != OK && keys.n == 0)
		snprintf(text, sizeof text, "%s: no API key is valid now, and no client gets in",
			 f.text);
	else if (st != OK)
		snprintf(text, sizeof text, "%s: the %d API key%s in the other lines %s valid",
			 f.text, keys.n, log_plural(keys.n), keys.n == 1 ? "is" : "are");
	else if (!*r->config->api_key_file && !keys.has_changed)
		snprintf(text, sizeof text, "the %d API key%s of the systemd credential %s as at "
			 "the start; a key that was added or revoked since then needs a restart "
			 "of the unit. Keys of api_key_file are read again",
			 keys.n, log_plural(keys.n), keys.n == 1 ? "is" : "are");
	else {
		log_info("SIGHUP: %d API key%s, %s", keys.n, log_plural(keys.n),
			 keys.has_changed ? "changed" : "none of them new, none gone");
		return;
	}
	log_error("SIGHUP: %s", text);
	add_note(note, text);
}

static void reload_tls(const struct reload *r, struct buf *note)
{
	struct fail f;
	if (!*r->config->tls_cert)
		return;
	if (http_reload_tls(r->http, &f) == OK) {
		log_info("SIGHUP: new connections get the certificate that tls_cert holds now");
		return;
	}
	log_error("SIGHUP: the certificate stays as it was, and clients get the old one: %s",
		  f.text);
	add_note(note, "the last reload kept the old certificate: ");
	buf_add_z(note, f.text);
}

/* Tells what else has changed in the settings file, which a running server does not take up. */
static void reload_settings(const struct reload *r, struct buf *note)
{
	struct fail f;
	struct config now;
	struct model_list models;
	struct buf keys = {0};
	enum config_action action;
	if (config_load(&now, r->argc, r->argv, r->default_file, &action, &f) != OK) {
		log_error("SIGHUP: the settings have a fault, and a restart would fail: %s",
			  f.text);
		add_note(note, "the settings have a fault, and a restart would fail");
	} else {
		config_changes_format(r->config, &now, &keys);
		if (model_list_find(&now, &models, &f) != OK) {
			log_error("SIGHUP: a restart would fail: %s", f.text);
			add_note(note, "a restart would fail: ");
			buf_add_z(note, f.text);
		}
		model_list_deinit(&models);
		if (model_list_find(r->config, &models, &f) == OK &&
		    !model_list_is_same(r->models, &models))
			buf_addf(&keys, "%smodels_dir (other models are in it)",
				 keys.n ? ", " : "");
		model_list_deinit(&models);
	}
	if (keys.n) {
		buf_add_z(&keys, "");
		log_warn("SIGHUP: changed, and in effect only after a restart: %s", keys.p);
		add_note(note, "only a restart takes up ");
		buf_add_z(note, keys.p);
	}
	buf_deinit(&keys);
	config_deinit(&now);
}

void reload_run(const struct reload *r, struct buf *note)
{
	reload_settings(r, note);
	reload_tls(r, note);
	reload_keys(r, note);
	if (note->n == 0 && !r->has_keys && !*r->config->tls_cert)
		log_info("SIGHUP: no setting has changed");
}
