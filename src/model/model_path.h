/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the path of a model before it is opened, so that the message says what to do and
 * not merely which file is missing. Thread: any.
 */
#pragma once
#include "base/status.h"

/* Check that path is a model's folder or a file that may be a model. E_MISSING: there is
 * no model. E_IO: this user may not read it. E_FORMAT: it is a single file of a model
 * folder. Only names are checked; opening may still fail. */
enum status model_path_check(const char *path, struct fail *fail) MUST_USE;
