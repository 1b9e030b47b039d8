/* SPDX-License-Identifier: Apache-2.0
 *
 * Two readers. One reads the ELF file, for the metadata note and the addresses of
 * functions. The other reads the note's MessagePack in one pass, and keeps the known
 * keys. Every offset is checked, because a code object may come from anywhere.
 */
#include "lab/codeobject.h"

#include <elf.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"

enum {
	MAX_FILE = 1 << 30,
	MAX_DEPTH = 16,
	NOTE_METADATA = 32, /* note type NT_AMDGPU_METADATA */
	MACHINE = 224,      /* ELF machine EM_AMDGPU */
};

/* --- MessagePack ------------------------------------------------------------------ */

struct code_reader {
	const unsigned char *p, *end;
	int depth;
};

enum code_kind { KIND_BAD, KIND_OTHER, KIND_INT, KIND_TEXT, KIND_LIST, KIND_MAP };

/* One value. For a list or map this is only the head; its n values (or pairs) follow. */
struct value {
	enum code_kind kind;
	int64_t n;       /* the number, or the length */
	const char *text;
};

static bool read_bytes(struct code_reader *r, size_t n, const unsigned char **out)
{
	*out = r->p;
	if ((size_t)(r->end - r->p) < n)
		return false;
	r->p += n;
	return true;
}

/* Read a big-endian number of `size` bytes; is_signed: two's complement. */
static bool read_number(struct code_reader *r, int size, bool is_signed, int64_t *out)
{
	const unsigned char *p;
	uint64_t v = 0;
	if (!read_bytes(r, (size_t)size, &p))
		return false;
	for (int i = 0; i < size; i++)
		v = v << 8 | p[i];
	if (is_signed && size < 8 && v >> (8 * size - 1))
		v |= ~(uint64_t)0 << 8 * size;
	*out = (int64_t)v;
	return true;
}

static struct value text_of(struct code_reader *r, int64_t n)
{
	const unsigned char *p;
	if (n < 0 || !read_bytes(r, (size_t)n, &p))
		return (struct value){KIND_BAD, 0, NULL};
	return (struct value){KIND_TEXT, n, (const char *)p};
}

static struct value sized(struct code_reader *r, enum code_kind kind, int size)
{
	int64_t n;
	if (!read_number(r, size, false, &n))
		return (struct value){KIND_BAD, 0, NULL};
	return kind == KIND_TEXT ? text_of(r, n) : (struct value){kind, n, NULL};
}

static struct value number(struct code_reader *r, int size, bool is_signed)
{
	struct value v = {KIND_INT, 0, NULL};
	if (!read_number(r, size, is_signed, &v.n))
		v.kind = KIND_BAD;
	return v;
}

static struct value next(struct code_reader *r)
{
	const unsigned char *p;
	if (!read_bytes(r, 1, &p))
		return (struct value){KIND_BAD, 0, NULL};
	int t = *p;
	if (t < 0x80)
		return (struct value){KIND_INT, t, NULL};
	if (t < 0x90)
		return (struct value){KIND_MAP, t & 15, NULL};
	if (t < 0xA0)
		return (struct value){KIND_LIST, t & 15, NULL};
	if (t < 0xC0)
		return text_of(r, t & 31);
	if (t >= 0xE0)
		return (struct value){KIND_INT, t - 256, NULL};
	if (t == 0xC0 || t == 0xC2 || t == 0xC3)
		return (struct value){KIND_OTHER, t == 0xC3, NULL};
	if (t >= 0xCC && t <= 0xCF)
		return number(r, 1 << (t - 0xCC), false);
	if (t >= 0xD0 && t <= 0xD3)
		return number(r, 1 << (t - 0xD0), true);
	if (t >= 0xD9 && t <= 0xDB)
		return sized(r, KIND_TEXT, 1 << (t - 0xD9));
	if (t == 0xDC || t == 0xDD)
		return sized(r, KIND_LIST, 2 << (t - 0xDC));
	if (t == 0xDE || t == 0xDF)
		return sized(r, KIND_MAP, 2 << (t - 0xDE));
	return (struct value){KIND_BAD, 0, NULL}; /* floats and binary data do not occur
						   * in this metadata */
}

/* Skip v and everything in it. */
static bool skip_value(struct code_reader *r, struct value v)
{
	if (v.kind == KIND_BAD || r->depth > MAX_DEPTH)
		return false;
	if (v.kind != KIND_LIST && v.kind != KIND_MAP)
		return true;
	int64_t n = v.kind == KIND_MAP ? 2 * v.n : v.n;
	bool good = true;
	r->depth++;
	for (int64_t i = 0; i < n && good; i++)
		good = skip_value(r, next(r));
	r->depth--;
	return good;
}

static bool is_key(struct value v, const char *name)
{
	return v.kind == KIND_TEXT && str_is((struct str){v.text, (size_t)v.n}, name);
}

/* --- the kernels ------------------------------------------------------------------ */

static bool read_arg(struct code_reader *r, struct code_arg *out)
{
	struct value map = next(r);
	*out = (struct code_arg){0};
	if (map.kind != KIND_MAP)
		return false;
	for (int64_t i = 0; i < map.n; i++) {
		struct value key = next(r), v = next(r);
		if (key.kind != KIND_TEXT || !skip_value(r, v))
			return false;
		if (is_key(key, ".offset"))
			out->offset = (int32_t)v.n;
		else if (is_key(key, ".size"))
			out->size = (int32_t)v.n;
		else if (is_key(key, ".value_kind") && v.kind == KIND_TEXT)
			out->is_hidden = str_starts((struct str){v.text, (size_t)v.n},
						    STR("hidden_"));
	}
	return true;
}

static bool read_args(struct code_reader *r, struct value list, struct code_kernel *k)
{
	if (list.kind != KIND_LIST || list.n > r->end - r->p)
		return false;
	k->args = xcalloc((size_t)list.n + 1, sizeof *k->args);
	for (int64_t i = 0; i < list.n; i++)
		if (!read_arg(r, &k->args[k->n_args++]))
			return false;
	return true;
}

static bool read_kernel(struct code_reader *r, struct code_kernel *k)
{
	const struct {
		const char *key;
		int32_t *at;
	} numbers[] = {
		{".vgpr_count", &k->vgprs}, {".sgpr_count", &k->sgprs},
		{".vgpr_spill_count", &k->vgpr_spills},
		{".sgpr_spill_count", &k->sgpr_spills},
		{".group_segment_fixed_size", &k->lds_bytes},
		{".private_segment_fixed_size", &k->scratch_bytes},
		{".max_flat_workgroup_size", &k->max_threads},
		{".kernarg_segment_size", &k->kernarg_bytes},
		{".wavefront_size", &k->wave},
	};
	struct value map = next(r);
	if (map.kind != KIND_MAP)
		return false;
	for (int64_t i = 0; i < map.n; i++) {
		struct value key = next(r), v = next(r);
		if (is_key(key, ".args")) {
			if (k->args || !read_args(r, v, k))
				return false;
			continue;
		}
		if (key.kind != KIND_TEXT || !skip_value(r, v))
			return false;
		if (is_key(key, ".name") && v.kind == KIND_TEXT && !k->name)
			k->name = xstrndup(v.text, (size_t)v.n);
		for (size_t j = 0; j < ARRAY_LEN(numbers); j++)
			if (v.kind == KIND_INT && is_key(key, numbers[j].key))
				*numbers[j].at = (int32_t)v.n;
	}
	return k->name != NULL;
}

static bool read_kernels(struct code_reader *r, struct value list, struct codeobject *c)
{
	if (list.kind != KIND_LIST || list.n > r->end - r->p || c->kernel)
		return false;
	c->kernel = xcalloc((size_t)list.n + 1, sizeof *c->kernel);
	for (int64_t i = 0; i < list.n; i++)
		if (!read_kernel(r, &c->kernel[c->n++]))
			return false;
	return true;
}

/* Extract the architecture from "amdgcn-amd-amdhsa--gfx1151", which may end in
 * ":sramecc+". */
static void read_target(struct value v, struct codeobject *c)
{
	struct str s = {v.text, (size_t)v.n};
	ptrdiff_t at = str_find(s, STR("--"), 0);
	size_t n = 0;
	for (size_t i = at < 0 ? s.n : (size_t)at + 2; i < s.n && s.p[i] != ':'; i++)
		if (n + 1 < sizeof c->arch)
			c->arch[n++] = s.p[i];
}

static bool read_metadata(struct str note, struct codeobject *c)
{
	struct code_reader r = {(const unsigned char *)note.p,
			   (const unsigned char *)note.p + note.n, 0};
	struct value map = next(&r);
	if (map.kind != KIND_MAP)
		return false;
	for (int64_t i = 0; i < map.n; i++) {
		struct value key = next(&r), v = next(&r);
		if (is_key(key, "amdhsa.kernels")) {
			if (!read_kernels(&r, v, c))
				return false;
			continue;
		}
		if (key.kind != KIND_TEXT || !skip_value(&r, v))
			return false;
		if (is_key(key, "amdhsa.target") && v.kind == KIND_TEXT)
			read_target(v, c);
	}
	return c->kernel != NULL;
}

/* --- ELF -------------------------------------------------------------------------- */

struct elf {
	struct str file;
	Elf64_Ehdr head;
	const char *what;
};

/* Bytes [at, at + n) of the file; empty if the file is shorter. */
static struct str file_part(struct str file, uint64_t at, uint64_t n)
{
	if (at > file.n || n > file.n - at)
		return (struct str){NULL, 0};
	return (struct str){file.p + at, n};
}

static bool section(const struct elf *e, size_t i, Elf64_Shdr *out)
{
	struct str s = file_part(e->file, e->head.e_shoff + i * sizeof *out, sizeof *out);
	if (i >= e->head.e_shnum || !s.p)
		return false;
	memcpy(out, s.p, sizeof *out);
	return true;
}

/* Find the AMDGPU metadata note in a section of notes. */
static struct str find_note(struct str notes)
{
	Elf64_Nhdr n;
	while (notes.n >= sizeof n) {
		memcpy(&n, notes.p, sizeof n);
		uint64_t name = ((uint64_t)n.n_namesz + 3) / 4 * 4;
		uint64_t body = ((uint64_t)n.n_descsz + 3) / 4 * 4;
		struct str out = file_part(notes, sizeof n + name, n.n_descsz);
		if (!out.p || n.n_type == NOTE_METADATA)
			return out;
		struct str rest = file_part(notes, sizeof n + name + body, 0);
		if (!rest.p)
			break;
		notes = (struct str){rest.p, notes.n - (size_t)(rest.p - notes.p)};
	}
	return (struct str){NULL, 0};
}

/* Set the addresses of each kernel's instructions from the symbol table. */
static void read_symbols(const struct elf *e, const Elf64_Shdr *s, struct codeobject *c)
{
	Elf64_Shdr names;
	struct str table = file_part(e->file, s->sh_offset, s->sh_size);
	if (!table.p || !section(e, s->sh_link, &names))
		return;
	struct str text = file_part(e->file, names.sh_offset, names.sh_size);
	for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.n; at += sizeof(Elf64_Sym)) {
		Elf64_Sym sym;
		memcpy(&sym, table.p + at, sizeof sym);
		if (ELF64_ST_TYPE(sym.st_info) != STT_FUNC || sym.st_name >= text.n ||
		    !memchr(text.p + sym.st_name, 0, text.n - sym.st_name))
			continue;
		for (size_t i = 0; i < c->n; i++)
			if (strcmp(c->kernel[i].name, text.p + sym.st_name) == 0) {
				c->kernel[i].begin = sym.st_value;
				c->kernel[i].end = sym.st_value + sym.st_size;
			}
	}
}

static enum status read_elf(struct elf *e, struct codeobject *c, struct fail *fail)
{
	Elf64_Shdr s;
	struct str head = file_part(e->file, 0, sizeof e->head);
	if (head.p)
		memcpy(&e->head, head.p, sizeof e->head);
	if (!head.p || memcmp(e->head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e->head.e_ident[EI_CLASS] != ELFCLASS64 || e->head.e_machine != MACHINE)
		return fail_set(fail, E_FORMAT, "%s is not a code object of an AMD GPU",
				e->what);
	for (size_t i = 0; !c->kernel && section(e, i, &s); i++) {
		struct str note = {NULL, 0};
		if (s.sh_type == SHT_NOTE)
			note = find_note(file_part(e->file, s.sh_offset, s.sh_size));
		if (note.p && !read_metadata(note, c))
			return fail_set(fail, E_FORMAT, "%s: its metadata are damaged",
					e->what);
	}
	if (!c->kernel)
		return fail_set(fail, E_FORMAT, "%s has no metadata", e->what);
	for (size_t i = 0; section(e, i, &s); i++)
		if (s.sh_type == SHT_SYMTAB || s.sh_type == SHT_DYNSYM)
			read_symbols(e, &s, c);
	return OK;
}

enum status codeobject_read(struct str bytes, const char *what, struct codeobject *out,
			    struct fail *fail)
{
	struct elf e = {.file = bytes, .what = what};
	*out = (struct codeobject){0};
	enum status st = read_elf(&e, out, fail);
	if (st != OK)
		codeobject_deinit(out);
	return st;
}

enum status codeobject_open(const char *path, struct codeobject *out, struct fail *fail)
{
	struct buf b = {0};
	enum status st = file_read(path, MAX_FILE, &b, fail);
	if (st == OK)
		st = codeobject_read(buf_str(&b), path, out, fail);
	buf_deinit(&b);
	return st;
}

void codeobject_deinit(struct codeobject *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->kernel[i].name);
		free(c->kernel[i].args);
	}
	free(c->kernel);
	*c = (struct codeobject){0};
}

const struct code_kernel *codeobject_find(const struct codeobject *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->kernel[i].name, name) == 0)
			return &c->kernel[i];
	return NULL;
}
