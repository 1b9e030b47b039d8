/* SPDX-License-Identifier: Apache-2.0
 *
 * Which fields of a body mean something, by the table fields.def. What a client asks for
 * and gets not is refused by name: a client that believes its output is held to a schema
 * must not get free text. Thread: any.
 */
#pragma once
#include "api/api_dialect.h"

/* Refuses what this endpoint does not do: E_INVAL at the field. A field that the table
 * does not know is told of once (api_set_on_unknown). */
enum status fields_check(const struct json_node *body, enum dialect_column column,
			 struct fail *fail) MUST_USE;

/* Copies the fields of letter C into the rewritten body. */
void fields_copy(const struct json_node *body, enum dialect_column column,
		 struct dialect_body *to);
