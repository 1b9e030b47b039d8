/* SPDX-License-Identifier: Apache-2.0
 *
 * What the settings name, before anything is loaded: is it there, is it of the right kind, and
 * does it have an effect? Thread: io.
 */
#pragma once
#include "daemon/model_list.h"

/* Logs every fault but the last, which it returns. E_CONFIG: a folder, a library or an origin
 * cannot be what its setting says, or a setting has no effect beside the others. Nothing is
 * made: a folder that is not there may be one that can be made. has_keys: clients need a key. */
enum status named_check(const struct config *c, const struct model_list *models, bool has_keys,
			struct fail *fail) MUST_USE;
