/* SPDX-License-Identifier: Apache-2.0
 *
 * ELF, the metadata note, and kernel descriptors: "User Guide for AMDGPU Backend" of LLVM,
 * code object V5, sections "Code Object", "Metadata", "Kernel Descriptor".
 */
#include "tests/hip-on-gfx11/gfx11_code.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE = 224, NOTE_METADATA = 32, PAGE = 4096, DESCRIPTOR_BYTES = 64 };

static const char *fail(const char *why)
{
	return why;
}

/* --- MessagePack: enough to walk the note ------------------------------------------ */

struct pack {
	const unsigned char *p, *end;
	bool is_bad;
};

struct item {
	char kind; /* i number, t text, l list, m map, 0 bad */
	uint64_t n;
	const char *text;
};

static uint64_t pack_number(struct pack *r, int size)
{
	uint64_t v = 0;
	if (r->end - r->p < size) {
		r->is_bad = true;
		return 0;
	}
	while (size--)
		v = v << 8 | *r->p++;
	return v;
}

static struct item pack_text(struct pack *r, uint64_t n)
{
	struct item v = {'t', n, (const char *)r->p};
	if (r->is_bad || n > (uint64_t)(r->end - r->p)) {
		r->is_bad = true;
		return (struct item){0};
	}
	r->p += n;
	return v;
}

static struct item pack_next(struct pack *r)
{
	unsigned t = (unsigned)pack_number(r, 1);
	if (r->is_bad)
		return (struct item){0};
	if (t < 0x80)
		return (struct item){'i', t, NULL};
	if (t < 0x90)
		return (struct item){'m', t & 15, NULL};
	if (t < 0xA0)
		return (struct item){'l', t & 15, NULL};
	if (t < 0xC0)
		return pack_text(r, t & 31);
	if (t == 0xC0 || t == 0xC2 || t == 0xC3)
		return (struct item){'i', t == 0xC3, NULL};
	if (t >= 0xCC && t <= 0xCF)
		return (struct item){'i', pack_number(r, 1 << (t - 0xCC)), NULL};
	if (t >= 0xD0 && t <= 0xD3)
		return (struct item){'i', pack_number(r, 1 << (t - 0xD0)), NULL};
	if (t >= 0xD9 && t <= 0xDB)
		return pack_text(r, pack_number(r, 1 << (t - 0xD9)));
	if (t == 0xDC || t == 0xDD)
		return (struct item){'l', pack_number(r, 2 << (t - 0xDC)), NULL};
	if (t == 0xDE || t == 0xDF)
		return (struct item){'m', pack_number(r, 2 << (t - 0xDE)), NULL};
	r->is_bad = true;
	return (struct item){0};
}

static void pack_skip(struct pack *r, struct item v)
{
	uint64_t n = v.kind == 'm' ? 2 * v.n : v.kind == 'l' ? v.n : 0;
	for (uint64_t i = 0; i < n && !r->is_bad; i++)
		pack_skip(r, pack_next(r));
}

static bool is(struct item v, const char *text)
{
	return v.kind == 't' && v.n == strlen(text) && memcmp(v.text, text, v.n) == 0;
}

/* --- metadata ---------------------------------------------------------------------- */

static enum arg_kind kind_of(struct item v)
{
	static const struct {
		const char *name;
		enum arg_kind kind;
	} kinds[] = {
		{"by_value", ARG_EXPLICIT}, {"global_buffer", ARG_EXPLICIT},
		{"dynamic_shared_pointer", ARG_EXPLICIT},
		{"hidden_block_count_x", ARG_BLOCK_COUNT_X},
		{"hidden_block_count_y", ARG_BLOCK_COUNT_Y},
		{"hidden_block_count_z", ARG_BLOCK_COUNT_Z},
		{"hidden_group_size_x", ARG_GROUP_SIZE_X},
		{"hidden_group_size_y", ARG_GROUP_SIZE_Y},
		{"hidden_group_size_z", ARG_GROUP_SIZE_Z},
		{"hidden_remainder_x", ARG_ZERO}, {"hidden_remainder_y", ARG_ZERO},
		{"hidden_remainder_z", ARG_ZERO}, {"hidden_global_offset_x", ARG_ZERO},
		{"hidden_global_offset_y", ARG_ZERO}, {"hidden_global_offset_z", ARG_ZERO},
		{"hidden_none", ARG_ZERO},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (is(v, kinds[i].name))
			return kinds[i].kind;
	return ARG_UNKNOWN;
}

static void read_args(struct pack *r, struct item list, struct code_kernel *k)
{
	for (uint64_t i = 0; i < list.n && !r->is_bad; i++) {
		struct code_arg a = {.kind = ARG_UNKNOWN};
		struct item map = pack_next(r);
		r->is_bad |= map.kind != 'm' || k->n_args == MAX_CODE_ARGS;
		for (uint64_t j = 0; j < map.n && !r->is_bad; j++) {
			struct item key = pack_next(r), v = pack_next(r);
			if (is(key, ".offset"))
				a.offset = (uint32_t)v.n;
			else if (is(key, ".size"))
				a.size = (uint32_t)v.n;
			else if (is(key, ".value_kind"))
				a.kind = kind_of(v);
			pack_skip(r, v);
		}
		if (!r->is_bad)
			k->args[k->n_args++] = a;
		k->n_explicit += a.kind == ARG_EXPLICIT;
	}
}

static void read_kernel(struct pack *r, struct code_kernel *k)
{
	struct item map = pack_next(r);
	r->is_bad |= map.kind != 'm';
	for (uint64_t i = 0; i < map.n && !r->is_bad; i++) {
		struct item key = pack_next(r), v = pack_next(r);
		if (is(key, ".args") && v.kind == 'l') {
			read_args(r, v, k);
			continue;
		}
		if (is(key, ".name") && v.kind == 't')
			k->name = strndup(v.text, v.n);
		else if (is(key, ".kernarg_segment_size"))
			k->kernarg_bytes = (uint32_t)v.n;
		pack_skip(r, v);
	}
	r->is_bad |= !k->name;
}

static const char *read_metadata(const unsigned char *p, size_t n, struct code_object *c)
{
	struct pack r = {p, p + n, false};
	struct item map = pack_next(&r);
	for (uint64_t i = 0; i < map.n && !r.is_bad; i++) {
		struct item key = pack_next(&r), v = pack_next(&r);
		if (is(key, "amdhsa.kernels") && v.kind == 'l' && !c->kernels) {
			c->kernels = calloc(v.n + 1, sizeof *c->kernels);
			for (uint64_t k = 0; k < v.n && !r.is_bad; k++)
				read_kernel(&r, &c->kernels[c->n_kernels++]);
			continue;
		}
		if (is(key, "amdhsa.target") && v.kind == 't') {
			const char *at = memmem(v.text, v.n, "--", 2);
			size_t length = at ? v.n - (size_t)(at + 2 - v.text) : 0;
			snprintf(c->arch, sizeof c->arch, "%.*s", (int)length,
				 at ? at + 2 : "");
		}
		pack_skip(&r, v);
	}
	return r.is_bad || !c->kernels ? fail("the metadata note is not well formed") : NULL;
}

/* --- ELF ---------------------------------------------------------------------------- */

struct file {
	unsigned char *p;
	size_t n;
};

static const void *at(const struct file *f, uint64_t from, uint64_t n)
{
	return from <= f->n && n <= f->n - from ? f->p + from : NULL;
}

static const char *map_image(const struct file *f, const Elf64_Ehdr *h, struct code_object *c)
{
	uint64_t top = 0;
	const Elf64_Phdr *ph = at(f, h->e_phoff, (uint64_t)h->e_phnum * sizeof *ph);
	if (!ph)
		return fail("no program headers");
	for (int i = 0; i < h->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > top)
			top = ph[i].p_vaddr + ph[i].p_memsz;
	c->image_bytes = (top + PAGE - 1) / PAGE * PAGE;
	c->image = top && top < 1u << 30 ? aligned_alloc(PAGE, c->image_bytes) : NULL;
	if (!c->image)
		return fail("nothing to load");
	memset(c->image, 0, c->image_bytes);
	for (int i = 0; i < h->e_phnum; i++) {
		const void *from = at(f, ph[i].p_offset, ph[i].p_filesz);
		if (ph[i].p_type == PT_LOAD && from && ph[i].p_filesz <= ph[i].p_memsz)
			memcpy(c->image + ph[i].p_vaddr, from, ph[i].p_filesz);
		else if (ph[i].p_type == PT_LOAD)
			return fail("a segment is outside the file");
	}
	return NULL;
}

static const char *read_note(const struct file *f, const Elf64_Shdr *s, struct code_object *c)
{
	uint64_t from = s->sh_offset, end = from + s->sh_size;
	while (from + sizeof(Elf64_Nhdr) <= end) {
		const Elf64_Nhdr *n = at(f, from, sizeof *n);
		if (!n)
			return fail("a note is outside the file");
		uint64_t name = (n->n_namesz + 3ull) / 4 * 4;
		const unsigned char *body = at(f, from + sizeof *n + name, n->n_descsz);
		if (n->n_type == NOTE_METADATA)
			return body ? read_metadata(body, n->n_descsz, c)
				    : fail("the metadata is outside the file");
		from += sizeof *n + name + (n->n_descsz + 3ull) / 4 * 4;
	}
	return NULL;
}

/* name.kd: 64 bytes in the image. */
static const char *read_descriptor(struct code_object *c, struct code_kernel *k, uint64_t address)
{
	uint32_t d[16];
	if (address + DESCRIPTOR_BYTES > c->image_bytes)
		return fail("a kernel descriptor is outside the image");
	memcpy(d, c->image + address, sizeof d);
	int64_t entry = (int64_t)(d[4] | (uint64_t)d[5] << 32);
	k->lds_bytes = d[0];
	k->rsrc1 = d[12];
	k->rsrc2 = d[13];
	k->properties = d[14] & 0xFFFF;
	k->n_vgprs = ((k->rsrc1 & 63) + 1) * 8;
	k->n_user_sgprs = k->rsrc2 >> 1 & 31;
	k->begin = (uint32_t)(address + (uint64_t)entry);
	if (d[1])
		return fail("a kernel uses scratch memory");
	if (k->properties >> 16 || (k->properties & ~0x408u))
		return fail("a kernel asks for user SGPRs other than the argument pointer");
	if (!(k->properties & 0x400))
		return fail("a kernel is not wave32");
	if ((k->rsrc1 >> 12 & 0xFF) != 0xF0)
		return fail("a kernel's float mode is not nearest even with denormals");
	if (k->rsrc2 >> 11 & 3)
		return fail("a kernel asks for y or z of its thread");
	if (d[2] != k->kernarg_bytes)
		return fail("descriptor and metadata differ in the size of the arguments");
	return NULL;
}

static const char *read_symbols(const struct file *f, const Elf64_Shdr *table,
				const Elf64_Shdr *strings, struct code_object *c)
{
	const Elf64_Sym *sym = at(f, table->sh_offset, table->sh_size);
	const char *text = at(f, strings->sh_offset, strings->sh_size);
	if (!sym || !text || !strings->sh_size || text[strings->sh_size - 1])
		return fail("the symbols are outside the file");
	char name[512];
	for (size_t k = 0; k < c->n_kernels; k++) {
		const char *why = fail("a kernel has no descriptor");
		uint64_t end = 0;
		snprintf(name, sizeof name, "%s.kd", c->kernels[k].name);
		for (size_t i = 0; i < table->sh_size / sizeof *sym; i++) {
			if (sym[i].st_name >= strings->sh_size)
				continue;
			const char *s = text + sym[i].st_name;
			if (strcmp(s, name) == 0)
				why = read_descriptor(c, &c->kernels[k], sym[i].st_value);
			else if (strcmp(s, c->kernels[k].name) == 0)
				end = sym[i].st_value + sym[i].st_size;
		}
		c->kernels[k].end = (uint32_t)end;
		if (why)
			return why;
		if (end < c->kernels[k].begin || end > c->image_bytes)
			return fail("a kernel's instructions are outside the image");
	}
	return NULL;
}

static const char *parse(const struct file *f, struct code_object *c)
{
	const Elf64_Ehdr *h = at(f, 0, sizeof *h);
	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
	    h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != MACHINE)
		return fail("not a code object of an AMD GPU");
	const Elf64_Shdr *s = at(f, h->e_shoff, (uint64_t)h->e_shnum * sizeof *s);
	const char *why = map_image(f, h, c);
	if (!s || why)
		return why ? why : fail("no sections");
	for (int i = 0; i < h->e_shnum; i++) {
		if (s[i].sh_type == SHT_RELA || s[i].sh_type == SHT_REL)
			return fail("relocations are not handled");
		if (s[i].sh_flags & SHF_EXECINSTR) {
			c->text = (uint32_t)s[i].sh_addr;
			c->text_bytes = (uint32_t)s[i].sh_size;
		}
		if (s[i].sh_type == SHT_NOTE && (why = read_note(f, &s[i], c)))
			return why;
	}
	for (int i = 0; c->kernels && i < h->e_shnum; i++)
		if (s[i].sh_type == SHT_DYNSYM && s[i].sh_link < h->e_shnum)
			return read_symbols(f, &s[i], &s[s[i].sh_link], c);
	return fail("no kernels");
}

const char *code_load(const char *path, struct code_object *out)
{
	FILE *in = fopen(path, "rb");
	if (!in)
		return fail("the file cannot be opened");
	struct file f = {NULL, 0};
	fseek(in, 0, SEEK_END);
	long n = ftell(in);
	rewind(in);
	f.p = n > 0 ? malloc((size_t)n) : NULL;
	f.n = f.p ? fread(f.p, 1, (size_t)n, in) : 0;
	fclose(in);
	const char *why = f.n ? parse(&f, out) : fail("the file is empty");
	free(f.p);
	return why;
}

void code_unload(struct code_object *c)
{
	for (size_t i = 0; i < c->n_kernels; i++) {
		free(c->kernels[i].name);
		free(c->kernels[i].insts);
		free(c->kernels[i].reached);
	}
	free(c->kernels);
	free(c->image);
	*c = (struct code_object){0};
}

/* --- instructions ------------------------------------------------------------------- */

static const char *resolve(struct code_kernel *k, struct inst *p, size_t n)
{
	if (p->encoding != SOPP || p->op < OP_s_branch || p->op > OP_s_cbranch_execnz)
		return NULL;
	int64_t to = (p->address - k->begin) / 4 + 1 + (int16_t)p->imm;
	if (to < 0 || to >= (int64_t)n || !k->insts[to].size)
		return fail("a branch leaves the kernel");
	p->target = &k->insts[to];
	return NULL;
}

static const char *check_registers(const struct code_kernel *k, const struct inst *p)
{
	for (uint32_t i = k->n_vgprs; i < 256; i++)
		if (p->vgprs[i / 64] >> i % 64 & 1)
			return fail("a VGPR beyond those that the kernel asks for");
	return NULL;
}

const char *code_decode(struct code_object *c, struct code_kernel *k)
{
	if (k->insts)
		return NULL;
	size_t n = (k->end - k->begin) / 4;
	static char why[256];
	const uint32_t *words = (const uint32_t *)(const void *)(c->image + k->begin);
	k->insts = aligned_alloc(_Alignof(struct inst), (n + 1) * sizeof *k->insts);
	if (k->insts)
		memset(k->insts, 0, (n + 1) * sizeof *k->insts);
	k->reached = calloc(n + 1, 1);
	for (size_t i = 0; i < n; i += k->insts[i].size) {
		const char *bad = inst_decode(words + i, n - i, k->begin + 4 * i, &k->insts[i]);
		if (!bad)
			bad = check_registers(k, &k->insts[i]);
		if (bad) {
			snprintf(why, sizeof why, "%s: %x: %08x: %s", k->name,
				 (unsigned)(k->begin + 4 * i), words[i], bad);
			return why;
		}
	}
	for (size_t i = 0; i < n; i++) {
		const char *bad = k->insts[i].size ? resolve(k, &k->insts[i], n) : NULL;
		if (bad) {
			snprintf(why, sizeof why, "%s: %x: %s", k->name,
				 k->insts[i].address, bad);
			return why;
		}
	}
	return NULL;
}
