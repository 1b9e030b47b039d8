/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "backend/hip/hip.h"
#include "base/alloc.h"
#include "ctl/command.h"
#include "ctl/options.h"

struct list {
	struct buf out;
	bool json;
	int n, n_usable;
};

static void on_device(void *ctx, const struct hip_device *d, bool has_kernels)
{
	struct list *l = ctx;
	double gib = (double)d->n_bytes / (1 << 30);
	if (l->json) {
		buf_addf(&l->out, "%s{\"index\":%d,\"name\":", l->n ? "," : "", d->index);
		buf_add_json(&l->out, str_of(d->name));
		buf_add_z(&l->out, ",\"architecture\":");
		buf_add_json(&l->out, str_of(d->arch));
		buf_addf(&l->out, ",\"compute_units\":%d,\"memory_bytes\":%zu,"
			 "\"integrated\":%s,\"kernels\":%s}", d->n_cu, d->n_bytes,
			 d->is_integrated ? "true" : "false",
			 has_kernels ? "true" : "false");
	} else {
		buf_addf(&l->out, "%d  %s (%s), %d compute units, %.1f GiB%s\n", d->index,
			 d->name, d->arch, d->n_cu, gib,
			 has_kernels ? "" : ": no kernels are installed for it");
	}
	l->n++;
	l->n_usable += has_kernels;
}

static void print_text(struct list *l, const struct hip_api *api)
{
	int version = 0;
	api->hipRuntimeGetVersion(&version);
	printf("%s, HIP %d.%d\n", api->library, version / 10000000,
	       version / 100000 % 100);
	fwrite(l->out.p, 1, l->out.n, stdout);
	if (!l->n_usable)
		puts("halod would compute on the CPU: none of these has kernels");
}

int cmd_devices(int argc, char **argv)
{
	struct backend_opts o = {.name = "hip"};
	struct list l = {0};
	const struct option_row rows[] = {
		{"hip-library", 0, OPTION_TEXT, &o.hip_library, 0, 0, "FILE",
		 "the HIP runtime (libamdhip64.so of the system)"},
		{"hip-kernels", 0, OPTION_TEXT, &o.kernel_dir, 0, 0, "DIR",
		 "where the GPU kernels are (where they were installed)"},
		{"json", 'j', OPTION_FLAG, &l.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"devices", "The GPUs that halod sees, and whether there "
				 "are kernels for them.\nExits with 1 where it can use "
				 "none.", rows, ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	struct hip_api api;
	struct fail fail = {0};
	enum status st = hip_list(&o, &api, on_device, &l, &fail);
	if (l.json) {
		struct buf all = {0};
		buf_addf(&all, "{\"devices\":[%.*s],\"error\":", (int)l.out.n,
			 l.out.p ? l.out.p : "");
		if (st == OK)
			buf_add_z(&all, "null");
		else
			buf_add_json(&all, str_of(fail.text));
		buf_add_z(&all, "}\n");
		fwrite(all.p, 1, all.n, stdout);
		buf_deinit(&all);
	} else if (st == OK) {
		print_text(&l, &api);
	} else {
		fprintf(stderr, "haloctl: %s\n", fail.text);
	}
	buf_deinit(&l.out);
	return st == OK && l.n_usable ? EXIT_OK : EXIT_FAILED;
}
