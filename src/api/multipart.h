/* SPDX-License-Identifier: Apache-2.0
 *
 * A form with files (multipart/form-data, RFC 7578), taken apart when it has come whole.
 * The parts are views into the body. Pure. Thread: any.
 */
#pragma once
#include "base/buf.h"

enum {
	MULTIPART_PARTS = 64,   /* parts of a form at most */
	MULTIPART_HEAD = 4096,  /* bytes of the headers of one part at most */
	/* Bytes of a part at most, but for the part `file`: halod reads the others as text, which
	 * costs more memory than its bytes. */
	MULTIPART_TEXT = 64 << 10,
};

struct multipart_part {
	struct str name;     /* of the field, never empty */
	struct str filename; /* as sent, with escapes, also of filename*; "": no file */
	struct str type;     /* its Content-Type; "": not said */
	struct str content;
	bool is_file;        /* it has a filename, which may be empty */
};

struct multipart {
	struct multipart_part parts[MULTIPART_PARTS]; /* in the order of the body */
	int n;
};

/* type: the request's Content-Type, which names the boundary. E_MEDIA_TYPE: it is no such
 * form. E_INVAL: the form is broken, or a part is encoded. E_LIMIT: too many parts, or
 * one that is too long, which *fail names. After all three *out has the parts before. */
enum status multipart_read(struct str type, struct str body, struct multipart *out,
			   struct fail *fail) MUST_USE;
/* The first part of this name behind `after`; NULL: from the start. NULL: there is none. */
const struct multipart_part *multipart_find(const struct multipart *m, const char *name,
					    const struct multipart_part *after);
