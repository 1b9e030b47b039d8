/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

void api_version_format(const char *version, struct buf *out)
{
	buf_add_z(out, "{\"version\":");
	buf_add_json(out, str_of(version));
	buf_add_c(out, '}');
}
