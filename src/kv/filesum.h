/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of whole files, such as weights, remembered in a folder so that each file is read
 * once. A file is known again by its device, inode, size, and the times of its last write and
 * of its last change of any kind. Only the system sets the time of the last change, so a file
 * that was replaced or written to is read anew. Thread: any.
 */
#pragma once
#include "base/status.h"

struct filesum_file {
	const char *path;
	int64_t bytes, time_ns; /* as they were when it was opened (file_time_ns) */
};

/* Sum of all bytes of a file. folder: descriptor of a folder of ours alone. E_IO: it cannot be
 * read, or has changed since it was opened. A sum that cannot be remembered is computed
 * again next time. */
enum status filesum_get(int folder, const struct filesum_file *f, uint64_t *out,
			struct fail *fail) MUST_USE;
