/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user names as a model, looked at before it is opened, so that the message says
 * what to do and not which of its files is missed first. Thread: any.
 */
#pragma once
#include "base/status.h"

/* Is this a folder with a model or a file that may be one? E_MISSING where nothing of a
 * model is there, E_IO where this user may not read it, E_FORMAT where it is one file of
 * a folder. What passes may still be broken: only names are looked at. */
enum status model_path_check(const char *path, struct fail *fail) MUST_USE;
