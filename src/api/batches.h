/* SPDX-License-Identifier: Apache-2.0
 *
 * What GET and DELETE of /v1/files and /v1/batches answer; endpoint.def has what POST does.
 * A store that is NULL says that there is no state_dir: E_UNSUPPORTED. Thread: any.
 */
#pragma once
#include "api/api.h"

struct batch_page;
struct batch_store;
void api_files_list(struct batch_store *s, const struct batch_page *page, struct buf *out);
enum status api_file_format(struct batch_store *s, struct api_kept kept, struct buf *out,
			    struct fail *fail) MUST_USE;
/* Opens a file's bytes for reading; the caller closes *out_fd. */
enum status api_file_open(struct batch_store *s, struct api_kept kept, int *out_fd,
			  int64_t *out_n, struct fail *fail) MUST_USE;
enum status api_file_delete(struct batch_store *s, struct api_kept kept, struct buf *out,
			    struct fail *fail) MUST_USE;
void api_batches_list(struct batch_store *s, const struct batch_page *page, struct buf *out);
enum status api_batch_format(struct batch_store *s, struct api_kept kept, struct buf *out,
			     struct fail *fail) MUST_USE;
enum status api_check_batches(const struct batch_store *s, struct fail *fail) MUST_USE;
