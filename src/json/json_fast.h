/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads large bodies several times as fast as jansson, into the same tree. It reads only
 * the JSON that clients usually write. Every fault and every oddity is left to jansson.
 * Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* Reads an object or a list, as json_loadb does with JSON_REJECT_DUPLICATES and
 * JSON_ALLOW_NUL, and keeps each number as it was sent (json_digits.h). NULL: call
 * json_text_load, which may read the text or say what is wrong in it. */
json_t *json_fast_load(struct str text);
