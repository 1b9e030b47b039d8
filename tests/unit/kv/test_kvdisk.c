/* SPDX-License-Identifier: Apache-2.0
 *
 * A small store in a folder: what is written comes back after it is opened anew, every
 * byte of a file changed in turn is never believed, another user's files are left alone, and
 * keys, spaces and tokens that differ find nothing. Rooms come from the owner, and all go back.
 */
#include "kv/kvdisk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/tap.h"

enum { P = 4, PAGE = 40, STATE = 24, N = 12 };

static char dir[] = "/tmp/halod-kvdisk-XXXXXX";

static struct kvdisk *open_with(struct kvdisk_opts o)
{
	struct kvdisk *d = NULL;
	struct fail f = {0};
	o.dir = dir;
	o.limit = 1 << 20;
	o.page_size = P;
	o.page_bytes = PAGE;
	o.state_bytes = STATE;
	if (kvdisk_create(&o, &d, &f) != OK)
		printf("Bail out! %s\n", f.text), exit(1);
	return d;
}

static struct kvdisk *open_store(const char *key)
{
	return open_with((struct kvdisk_opts){.key = str_of(key)});
}

static void write_some(struct kvdisk *d, const struct kvdisk_prompt *p)
{
	struct kvdisk_run *r = kvdisk_run_create(d, p, 0, 3, 1);
	for (int i = 0; i < 3 * PAGE; i++)
		r->pages[i] = (char)(i * 7);
	memset(r->states, 9, STATE);
	r->state_at[0] = 2 * P;
	kvdisk_write(d, r);
}

/* Pages that are read and right, and 100 for the state; -1: some are wrong. */
static int read_some(struct kvdisk *d, const struct kvdisk_prompt *p)
{
	struct kvdisk_known known;
	struct kvdisk_got got;
	int n_wrong = 0;
	struct kvdisk_path *path = kvdisk_find(d, p, 0, &known);
	if (!path)
		return 0;
	struct kvdisk_read *r = kvdisk_read_begin(d, path, 0, known.n_pages, known.state_page);
	kvdisk_path_release(path);
	while (!kvdisk_read_done(d, r, &got))
		usleep(100);
	for (int i = 0; i < got.n * PAGE; i++)
		n_wrong += got.pages[i] != (char)(i * 7);
	for (int i = 0; got.state && i < STATE; i++)
		n_wrong += got.state[i] != 9;
	int n_got = got.n + (got.state ? 100 : 0);
	kvdisk_read_end(d, r);
	return n_wrong ? -1 : n_got;
}

/* The only file, whole; "" where there is none. */
static char *the_file(char *path, size_t size)
{
	DIR *folder = opendir(dir);
	path[0] = '\0';
	for (struct dirent *e; (e = readdir(folder));)
		if (e->d_name[0] != '.')
			snprintf(path, size, "%s/%s", dir, e->d_name);
	closedir(folder);
	return path;
}

static void put(const char *path, const struct buf *b)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, b->p, b->n) != (ssize_t)b->n)
		printf("Bail out! %s cannot be written\n", path), exit(1);
	close(fd);
}

/* Every byte. Short runs change one in 97 of the padding, which is most of a small file. */
static void test_flips(const struct kvdisk_prompt *p, const char *path)
{
	struct buf b = {0};
	struct fail f;
	int n_wrong = 0, n_whole = 0, n_tried = 0;
	if (file_read(path, 1 << 20, &b, &f) != OK)
		printf("Bail out! %s\n", f.text), exit(1);
	bool is_short = tap_check("short") || tap_check("races");
	size_t step = is_short ? 97 : 1;
	for (size_t i = 0; i < b.n; i += i > 400 && i < 4000 ? step : 1) {
		b.p[i] ^= 0x20;
		put(path, &b);
		b.p[i] ^= 0x20;
		struct kvdisk *d = open_store("k\n");
		int got = read_some(d, p);
		n_wrong += got < 0;
		n_whole += got == 103;
		n_tried++;
		kvdisk_destroy(d, 0);
	}
	ok(n_tried > 500, "%d bytes are changed", n_tried);
	is_int(n_wrong, 0, "no wrong byte is ever believed");
	is_int(n_whole, 0, "and each change is noticed");
	put(path, &b);
	buf_deinit(&b);
}

/* Another user's file is left alone, and so is a link to a good file. A folder of another
 * user is not opened. Only root can give a file away. */
static void test_foreign(const struct kvdisk_prompt *p, const char *path)
{
	enum { NOBODY = 65534 };
	char beside[320];
	int fd;
	struct fail f;
	snprintf(beside, sizeof beside, "%s.was", path);
	is_int(rename(path, beside) == 0 && symlink(beside, path) == 0, 1, "a link is made");
	struct kvdisk *d = open_store("k\n");
	is_int(read_some(d, p), 0, "a link is not followed");
	kvdisk_destroy(d, 0);
	is_int(unlink(path) == 0 && rename(beside, path) == 0, 1, "the file is back");
	if (geteuid() != 0) {
		ok(true, "another user's file # SKIP only root can make one");
		return;
	}
	is_int(chown(path, NOBODY, NOBODY), 0, "a file is another user's");
	d = open_store("k\n");
	is_int(read_some(d, p), 0, "it is not believed");
	kvdisk_destroy(d, 0);
	is_int(access(path, F_OK), 0, "nor removed");
	is_int(chown(path, 0, 0) | chown(dir, NOBODY, NOBODY), 0, "the folder is another user's");
	is_int(kvdisk_open_folder(dir, &fd, &f), E_CONFIG, "it is not opened");
	is_int(chown(dir, 0, 0), 0, "all is ours again");
}

/* --- buffers -------------------------------------------------------------------- */

struct giver {
	int n_given, n_back, n_may;
};

static void *give(void *ctx, size_t n)
{
	struct giver *g = ctx;
	return g->n_given < g->n_may && ++g->n_given ? malloc(n) : NULL;
}

static void take_back(void *ctx, void *p)
{
	((struct giver *)ctx)->n_back++;
	free(p);
}

/* More reads at once than there are buffers. Returns how many had pinned memory. */
static int read_at_once(struct kvdisk *d, const struct kvdisk_prompt *p, int n_reads)
{
	struct kvdisk_known known;
	struct kvdisk_read *r[8];
	struct kvdisk_got got;
	int n_pinned = 0, n_wrong = 0;
	struct kvdisk_path *path = kvdisk_find(d, p, 0, &known);
	for (int i = 0; i < n_reads; i++)
		r[i] = kvdisk_read_begin(d, path, 0, 3, 2);
	kvdisk_path_release(path);
	for (int i = 0; i < n_reads; i++) {
		while (!kvdisk_read_done(d, r[i], &got))
			usleep(100);
		n_pinned += got.is_pinned;
		n_wrong += got.n != 3 || !got.state || got.pages[3 * PAGE - 1] != (char)833;
	}
	for (int i = 0; i < n_reads; i++)
		kvdisk_read_end(d, r[i]);
	is_int(n_wrong, 0, "%d reads at once are right", n_reads);
	return n_pinned;
}

static void test_staging(const struct kvdisk_prompt *p)
{
	for (int n_may = 3; n_may >= 0; n_may -= 3) {
		struct giver g = {.n_may = n_may};
		struct kvdisk *d = open_with((struct kvdisk_opts){
			.key = STR("buffers\n"), .read_bytes = 3 * PAGE,
			.run_bytes = 3 * PAGE + STATE, .pinned = {give, take_back, &g}});
		is_int(g.n_given, n_may, "buffers for reads, a state and runs");
		int n_buffers = n_may ? KVDISK_READ_BUFFERS : 0;
		if (n_may)
			write_some(d, p);
		while (n_may && !kvdisk_await(d, 1000000))
			;
		is_int(read_at_once(d, p, 8), n_buffers, "as many as there are buffers are pinned");
		is_int(read_at_once(d, p, KVDISK_READ_BUFFERS), n_buffers, "they are free again");
		struct kvdisk_run *run[KVDISK_RUN_BUFFERS + 1];
		for (int i = 0; i <= KVDISK_RUN_BUFFERS; i++)
			run[i] = kvdisk_run_create(d, p, 0, 3, 1);
		ok(run[0]->is_pinned == (n_may > 0) && !run[KVDISK_RUN_BUFFERS]->is_pinned,
		   "so are runs, as far as there are buffers");
		for (int i = 0; i <= KVDISK_RUN_BUFFERS; i++)
			kvdisk_run_destroy(d, run[i]);
		run[0] = kvdisk_run_create(d, p, 0, 3, 4096 / STATE);
		ok(!run[0]->is_pinned, "not one that is too large");
		kvdisk_run_destroy(d, run[0]);
		kvdisk_destroy(d, 1000000);
		is_int(g.n_back, n_may, "all go back");
	}
}

int main(void)
{
	int32_t tokens[N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	const struct kvdisk_prompt p = {STR(""), tokens, N}, other = {STR("o"), tokens, N};
	char path[300];
	if (!mkdtemp(dir))
		printf("Bail out! no folder in /tmp\n"), exit(1);
	struct kvdisk *d = open_store("k\n");
	is_int(read_some(d, &p), 0, "an empty store knows nothing");
	write_some(d, &p);
	bool pages[3], states[3];
	kvdisk_kept(d, &p, pages, states);
	ok(pages[0] && pages[2] && states[1] && !states[2], "what is to be written counts as kept");
	kvdisk_destroy(d, 10000000);

	d = open_store("k\n");
	is_int(read_some(d, &p), 103, "pages and state are there after it is opened anew");
	is_int(read_some(d, &other), 0, "not in another space");
	tokens[6]++;
	is_int(read_some(d, &p), 1, "other tokens share what came before them");
	tokens[6]--;
	kvdisk_destroy(d, 0);
	d = open_store("another model\n");
	is_int(read_some(d, &p), 0, "not for another key");
	kvdisk_destroy(d, 0);
	ok(*the_file(path, sizeof path), "which leaves the file alone");

	test_foreign(&p, path);
	test_flips(&p, path);
	d = open_store("k\n");
	is_int(read_some(d, &p), 103, "as it was, it is read again");
	unlink(path);
	is_int(read_some(d, &p), 0, "a file that somebody has removed is missed, and no more");
	kvdisk_destroy(d, 0);
	test_staging(&p);
	unlink(the_file(path, sizeof path));
	chmod(dir, 0500);
	rmdir(dir);
	return tap_done();
}
