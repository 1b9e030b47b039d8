/* SPDX-License-Identifier: Apache-2.0
 *
 * disassemble FILE.hsaco: a line for each instruction of each kernel, "ADDRESS: text" in
 * the words of llvm-objdump. check_gfx11.py compares the two.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/hip-on-gfx11/gfx11_code.h"

int main(int argc, char **argv)
{
	static struct code_object code;
	const char *why = argc == 2 ? code_load(argv[1], &code) : "one file is needed";
	if (why) {
		fprintf(stderr, "disassemble: %s\n", why);
		return 2;
	}
	for (size_t i = 0; i < code.n_kernels; i++) {
		struct code_kernel *k = &code.kernels[i];
		char text[256];
		why = code_decode(&code, k);
		if (why) {
			fprintf(stderr, "disassemble: %s\n", why);
			return 1;
		}
		for (uint32_t at = k->begin; at < k->end; at += 4) {
			const struct inst *p = &k->insts[(at - k->begin) / 4];
			if (!p->size)
				continue;
			inst_text(p, text, sizeof text);
			printf("%X: %s\n", at, text);
		}
	}
	code_unload(&code);
	return 0;
}
