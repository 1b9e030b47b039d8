/* SPDX-License-Identifier: Apache-2.0
 *
 * CREATED(vision, vision_load_tower) defines vision_create: opens and loads, and closes again
 * where loading fails. The daemon counts all memory between the two.
 */
#pragma once
#include "base/status.h"

#define CREATED(kind, load)                                                               \
	static enum status kind##_create(const struct kind##_opts *o, struct kind **out,  \
					 struct fail *fail)                               \
	{                                                                                 \
		enum status st = kind##_open(o, out, fail);                               \
		if (st != OK || !*out)                                                    \
			return st;                                                        \
		st = load(*out, fail);                                                    \
		if (st != OK) {                                                           \
			kind##_destroy(*out);                                             \
			*out = NULL;                                                      \
		}                                                                         \
		return st;                                                                \
	}
