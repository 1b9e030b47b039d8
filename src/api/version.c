/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_private.h"

void api_version_format(const struct api *a, struct buf *out)
{
	buf_add_z(out, "{\"version\":");
	buf_add_json(out, str_of(a->version));
	buf_add_c(out, '}');
}
