/* SPDX-License-Identifier: Apache-2.0
 *
 * Which fields of a body mean something, by the table fields.def. A field that asks for
 * what this server cannot do is refused by name: a client that believes its output is held
 * to a schema must not get free text. Thread: any.
 */
#pragma once
#include "api/api_dialect.h"

/* Refuses fields that this endpoint does not serve: E_INVAL at the field. A field in no row
 * of the table is ignored, see fields_ignore. */
enum status fields_check(const struct json_node *body, enum dialect_column column,
			 struct buf *ignored, struct fail *fail) MUST_USE;

/* Notes that a part of the body has no effect here: for the answer's header in *out, and once
 * for the log (api_set_on_unknown). kind: its type, which is why; "": its name is not known. */
void fields_ignore(struct buf *out, const struct json_node *at, struct str kind);

/* Does this value of a field of the table ask for nothing? */
bool fields_is_neutral(const char *name, const json_t *v);

/* Copies the fields whose letter is C into the rewritten body. */
void fields_copy(const struct json_node *body, enum dialect_column column,
		 struct dialect_body *to);
