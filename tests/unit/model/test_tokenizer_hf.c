/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are broken or not for us, and what stands beside tokenizer.json.
 */
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/tokenizer_hf.h"
#include "tests/tap.h"

/* A whole file with its parts to be replaced; ' stands for ". */
struct parts {
	const char *model, *vocab, *merges, *added, *rest;
};

static char *file_of(struct parts p)
{
	char *s = xasprintf(
		"{'model':{%s'vocab':%s,'merges':%s},'added_tokens':%s,%s}",
		p.model ? p.model : "'type':'BPE',",
		p.vocab ? p.vocab : "{'a':0,'b':1,'ab':2}",
		p.merges ? p.merges : "['a b']", p.added ? p.added : "[]",
		p.rest ? p.rest
		       : "'pre_tokenizer':{'type':'ByteLevel'},"
			 "'decoder':{'type':'ByteLevel'}");
	for (char *c = s; *c; c++)
		if (*c == '\'')
			*c = '"';
	return s;
}

static void refuse(struct parts p, enum status want, const char *place,
		   const char *words)
{
	char *text = file_of(p);
	struct tokenizer *t = NULL;
	struct fail fail = {0};
	enum status st = tokenizer_hf_parse(str_of(text), "t.json", &t, &fail);
	ok(st == want && strcmp(fail.param, place) == 0 &&
	   strstr(fail.text, words),
	   "%s: %s [%s]", status_name(want), fail.text, fail.param);
	tokenizer_destroy(t);
	free(text);
}

static struct tokenizer *parse(struct parts p)
{
	char *text = file_of(p);
	struct tokenizer *t = NULL;
	struct fail fail = {0};
	enum status st = tokenizer_hf_parse(str_of(text), "t.json", &t, &fail);
	ok(st == OK, "loads %s", fail.text);
	free(text);
	return t;
}

#define TOKEN(id, text) \
	"{'id':" id ",'content':'" text "','special':true,'lstrip':false," \
	"'rstrip':false,'single_word':false,'normalized':false}"

static void test_broken(void)
{
#define P(...) ((struct parts){__VA_ARGS__})
	refuse(P(.vocab = "[]"), E_FORMAT, "model.vocab", "not an object");
	refuse(P(.vocab = "{'a':-1}"), E_FORMAT, "model.vocab[\"a\"]", "range");
	refuse(P(.vocab = "{'a':1e3}"), E_FORMAT, "model.vocab[\"a\"]",
	       "integer");
	refuse(P(.vocab = "{'a':4000000000}"), E_FORMAT, "model.vocab[\"a\"]",
	       "range");
	refuse(P(.vocab = "{'a':2147483646}"), E_FORMAT, "model.vocab[\"a\"]",
	       "range");
	refuse(P(.vocab = "{'a':0,'b':0,'ab':2}"), E_FORMAT,
	       "model.vocab[\"b\"]", "another piece");
	refuse(P(.merges = "{}"), E_FORMAT, "model.merges", "not a list");
	refuse(P(.merges = "['a b',7]"), E_FORMAT, "model.merges[1]", "pair");
	refuse(P(.merges = "['ab']"), E_FORMAT, "model.merges[0]", "pair");
	refuse(P(.merges = "['a b c']"), E_FORMAT, "model.merges[0]", "pair");
	refuse(P(.merges = "[['a']]"), E_FORMAT, "model.merges[0]", "pair");
	refuse(P(.merges = "[['a','b','c']]"), E_FORMAT, "model.merges[0]",
	       "pair");
	refuse(P(.merges = "[['a',null]]"), E_FORMAT, "model.merges[0]", "pair");
	refuse(P(.merges = "['a x']"), E_FORMAT, "", "merge 0 needs");
	refuse(P(.merges = "['a b','b a']"), E_FORMAT, "", "merge 1 needs");
	refuse(P(.merges = "['a ']"), E_FORMAT, "", "empty side");
	refuse(P(.added = "7"), E_FORMAT, "added_tokens", "not a list");
	refuse(P(.added = "[7]"), E_FORMAT, "added_tokens[0]", "no content");
	refuse(P(.added = "[{'content':'x'}]"), E_FORMAT, "added_tokens[0]",
	       "id");
	refuse(P(.added = "[{'content':'x','id':3}]"), E_FORMAT,
	       "added_tokens[0]", "flags");
	refuse(P(.added = "[" TOKEN("-1", "x") "]"), E_FORMAT,
	       "added_tokens[0]", "range");
	refuse(P(.added = "[" TOKEN("99999999999", "x") "]"), E_FORMAT,
	       "added_tokens[0]", "range");
	refuse(P(.added = "[" TOKEN("7", "x") "]"), E_FORMAT,
	       "added_tokens[0]", "has id 7 where 3 is expected");
	refuse(P(.added = "[" TOKEN("3", "x") "," TOKEN("3", "y") "]"), E_FORMAT,
	       "added_tokens[1]", "has id 3 where 4 is expected");
	refuse(P(.added = "[" TOKEN("3", "a") "]"), E_FORMAT,
	       "added_tokens[0]", "has id 3 where 0 is expected");
	refuse(P(.vocab = "{'a':0,'b':1,'ab':5}",
		 .added = "[" TOKEN("1", "x") "]"), E_FORMAT, "",
	       "id 1 of another piece");
	refuse(P(.vocab = "{'a':0,'b':1,'ab':5}",
		 .added = "[" TOKEN("7", "x") "," TOKEN("7", "y") "]"), E_FORMAT,
	       "", "another one has id 7");
	refuse(P(.vocab = "{'a':0,'b':1,'ab':5}",
		 .added = "[" TOKEN("2000000", "x") "]"), E_FORMAT, "",
	       "out of range");
	refuse(P(.model = "'unk_token':'<unk>',"), E_FORMAT, "",
	       "254 bytes have no piece");
	refuse(P(.model = "'unk_token':7,"), E_FORMAT, "model.unk_token",
	       "string");
	refuse(P(.model = "'fuse_unk':7,"), E_FORMAT, "model.fuse_unk",
	       "true or false");
}

static void test_unsupported(void)
{
#define REST(pre, more) \
	P(.rest = "'pre_tokenizer':" pre ",'decoder':{'type':'ByteLevel'}" more)
#define BYTE_LEVEL "{'type':'ByteLevel'}"
	refuse(P(.model = "'type':'WordLevel',"), E_UNSUPPORTED, "model.type",
	       "WordLevel");
	refuse(P(.model = "'dropout':0.1,"), E_UNSUPPORTED, "model.dropout", "");
	refuse(P(.model = "'end_of_word_suffix':'</w>',"), E_UNSUPPORTED,
	       "model.end_of_word_suffix", "");
	refuse(P(.rest = "'decoder':" BYTE_LEVEL), E_UNSUPPORTED,
	       "pre_tokenizer", "null");
	refuse(P(.rest = "'pre_tokenizer':" BYTE_LEVEL), E_UNSUPPORTED,
	       "decoder", "null");
	refuse(REST("{'type':'Metaspace'}", ""), E_UNSUPPORTED, "pre_tokenizer",
	       "Metaspace");
	refuse(REST("7", ""), E_FORMAT, "pre_tokenizer", "object");
	refuse(REST("{'type':'Sequence'}", ""), E_FORMAT, "pre_tokenizer",
	       "list");
	refuse(REST("{'type':'Sequence','pretokenizers':["
		    "{'type':'Split','pattern':{'Regex':'('},"
		    "'behavior':'Isolated','invert':false}," BYTE_LEVEL "]}", ""),
	       E_FORMAT, "steps[0]", "step 0");
	refuse(REST("{'type':'Sequence','pretokenizers':["
		    "{'type':'Split','pattern':{'Regex':'a'},"
		    "'behavior':'Sideways'}]}", ""),
	       E_UNSUPPORTED, "pre_tokenizer.pretokenizers[0]", "behavior");
	refuse(REST("{'type':'Sequence','pretokenizers':["
		    "{'type':'Punctuation','behavior':'Sideways'}," BYTE_LEVEL "]}", ""),
	       E_UNSUPPORTED, "pre_tokenizer.pretokenizers[0]", "behavior");
	refuse(REST("{'type':'Split','pattern':'a','behavior':'Isolated'}", ""),
	       E_FORMAT, "pre_tokenizer", "pattern");
	refuse(REST("{'type':'Digits'}", ""), E_UNSUPPORTED, "steps[0]",
	       "ByteLevel must be");
	refuse(REST(BYTE_LEVEL, ",'normalizer':{'type':'Nmt'}"),
	       E_UNSUPPORTED, "normalizer", "Nmt");
	refuse(REST(BYTE_LEVEL, ",'normalizer':{'type':'Replace','pattern':{'Regex':'(a'},"
		    "'content':''}"), E_FORMAT, "", "normalizer step 0: regular expression");
	refuse(REST(BYTE_LEVEL, ",'normalizer':{'type':'Replace','pattern':{'String':''},"
		    "'content':''}"), E_FORMAT, "normalizer", "has no text, or no pattern");
	refuse(REST(BYTE_LEVEL, ",'normalizer':{'type':'Strip','strip_left':1}"), E_FORMAT,
	       "normalizer.strip_left", "is not true or false");
	refuse(REST(BYTE_LEVEL, ",'post_processor':{'type':'PairProcessing'}"),
	       E_UNSUPPORTED, "post_processor", "PairProcessing");
	refuse(REST(BYTE_LEVEL, ",'post_processor':{'type':"
		    "'TemplateProcessing','single':[]}"),
	       E_FORMAT, "post_processor", "one text");
	refuse(REST(BYTE_LEVEL, ",'post_processor':{'type':"
		    "'TemplateProcessing','single':[{'SpecialToken':{'id':"
		    "'x'}}]}"),
	       E_FORMAT, "post_processor", "without ids");
}

/* Steps of SentencePiece's kind that are not those which are known. */
static void test_sentencepiece(void)
{
#define U "\xE2\x96\x81"
#define REPLACE(from, to) \
	"{'type':'Replace','pattern':{'String':'" from "'},'content':'" to "'}"
#define SPACED "'normalizer':" REPLACE(" ", U) ","
#define BACK(more) "'decoder':{'type':'Sequence','decoders':[" REPLACE(U, " ") \
	",{'type':'ByteFallback'},{'type':'Fuse'}" more "]}"
#define SPM(text) P(.model = "'byte_fallback':true,", .rest = text)
	refuse(SPM(SPACED BACK("")), E_UNSUPPORTED, "", "without a piece <0x00>");
	refuse(SPM("'normalizer':{'type':'NFC'}," BACK("")), E_UNSUPPORTED, "model.byte_fallback",
	       "spaces");
	refuse(SPM("'normalizer':" REPLACE("  ", U) "," BACK("")), E_UNSUPPORTED,
	       "model.byte_fallback", "spaces");
	refuse(SPM("'normalizer':{'type':'Sequence','normalizers':[" REPLACE(" ", U)
		   ",{'type':'NFC'}]}," BACK("")), E_UNSUPPORTED, "normalizer.normalizers[1]",
	       "NFC");
	refuse(SPM(BACK("")), E_UNSUPPORTED, "model.byte_fallback", "spaces");
	refuse(SPM(SPACED "'pre_tokenizer':" BYTE_LEVEL "," BACK("")), E_UNSUPPORTED,
	       "pre_tokenizer", "ByteLevel");
	refuse(SPM(SPACED "'pre_tokenizer':{'type':'Metaspace','replacement':'" U "'},"
		   BACK("")), E_UNSUPPORTED, "pre_tokenizer", "Metaspace");
	refuse(SPM("'pre_tokenizer':{'type':'Metaspace','replacement':'_'}," BACK("")),
	       E_UNSUPPORTED, "pre_tokenizer", "replacement");
	refuse(SPM("'pre_tokenizer':{'type':'Metaspace','replacement':'" U "',"
		   "'prepend_scheme':'last'}," BACK("")), E_UNSUPPORTED, "pre_tokenizer",
	       "prepend_scheme");
	refuse(SPM(SPACED "'pre_tokenizer':{'type':'Split','pattern':{'String':'a'},"
		   "'behavior':'Isolated'}," BACK("")), E_UNSUPPORTED, "pre_tokenizer",
	       "Split");
	refuse(SPM(SPACED "'decoder':" BYTE_LEVEL), E_UNSUPPORTED, "decoder", "ByteLevel");
	refuse(SPM(SPACED "'decoder':" REPLACE(U, " ")), E_UNSUPPORTED, "decoder",
	       "ByteFallback");
	refuse(SPM(SPACED BACK(",{'type':'Strip','content':' ','start':2,'stop':0}")),
	       E_UNSUPPORTED, "decoder.decoders[3]", "Strip");
	refuse(SPM(SPACED BACK(",{'type':'Strip','content':' ','start':1,'stop':0},"
			       "{'type':'Fuse'}")),
	       E_UNSUPPORTED, "decoder.decoders[4]", "Fuse");
	refuse(P(.model = "'byte_fallback':7,"), E_FORMAT, "model.byte_fallback",
	       "true or false");
}

/* Every prefix of a good file is refused, and so is depth. */
static void test_cut(void)
{
	char *text = file_of(P(.added = "[" TOKEN("3", "x") "]"));
	size_t n = strlen(text);
	bool refused = true;
	for (size_t i = 0; i < n; i++) {
		struct tokenizer *t = NULL;
		struct fail fail = {0};
		refused &= tokenizer_hf_parse((struct str){text, i}, "t.json",
					      &t, &fail) == E_FORMAT &&
			   fail.text[0];
	}
	ok(refused, "every cut of a file is refused");
	free(text);
	struct buf deep = {0};
	buf_add_z(&deep, "{\"pre_tokenizer\":");
	for (int i = 0; i < 100000; i++)
		buf_add_z(&deep, "[");
	struct tokenizer *t = NULL;
	is_int(tokenizer_hf_parse(buf_str(&deep), "t.json", &t, NULL), E_FORMAT,
	       "a deep file is refused");
	buf_deinit(&deep);
}

static void test_template(void)
{
	struct tokenizer *t = parse(P(
		.added = "[" TOKEN("3", "<s>") "," TOKEN("4", "</s>") "]",
		.rest = "'pre_tokenizer':" BYTE_LEVEL ",'decoder':" BYTE_LEVEL ","
			"'post_processor':{'type':'Sequence','processors':["
			BYTE_LEVEL ",{'type':'TemplateProcessing','single':["
			"{'SpecialToken':{'id':'<s>'}},{'Sequence':{'id':'A'}},"
			"{'SpecialToken':{'id':'</s>'}}],'special_tokens':{"
			"'<s>':{'ids':[3]},'</s>':{'ids':[4]}}}]}"));
	struct ids ids = {0};
	tokenizer_add_prefix(t, &ids);
	ok(tokenizer_encode(t, STR("abb"), TRUST_USER, &ids, NULL) == OK,
	   "a text between");
	tokenizer_add_suffix(t, &ids);
	ok(ids.n == 4 && ids.p[0] == 3 && ids.p[1] == 2 && ids.p[2] == 1 &&
	   ids.p[3] == 4, "bos, ab, b, eos");
	ids_deinit(&ids);
	tokenizer_destroy(t);
}

/* ByteLevel that says nothing adds a space and splits words. */
static void test_defaults(void)
{
	struct tokenizer *t = parse(P(.vocab = "{'a':0,'Ġ':1,'aa':2}",
				      .merges = "['#version: 0.2','a a']"));
	struct ids ids = {0};
	ok(tokenizer_encode(t, STR("aaa a"), TRUST_USER, &ids, NULL) == OK,
	   "encodes");
	static const int32_t want[] = {1, 2, 0, 1, 0};
	ok(ids.n == 5 && memcmp(ids.p, want, sizeof want) == 0,
	   "space, aa, a, space, a");
	ids_deinit(&ids);
	tokenizer_destroy(t);
}

/* --- the folder ------------------------------------------------------------ */

static char dir[] = "tokenizer-hf-XXXXXX";

static void put(const char *name, const char *text)
{
	char *path = file_join(dir, name);
	char *s = xstrdup(text);
	for (char *c = s; *c; c++)
		if (*c == '\'')
			*c = '"';
	FILE *f = fopen(path, "w");
	if (!f || fputs(s, f) < 0 || fclose(f))
		exit(1);
	free(s);
	free(path);
}

static void drop(const char *name)
{
	char *path = file_join(dir, name);
	unlink(path);
	free(path);
}

static void check_config(const char *config, enum status want,
			 const char *template, const char *bos, const char *eos)
{
	struct tokenizer_files f = {0};
	struct fail fail = {0};
	if (config)
		put("tokenizer_config.json", config);
	enum status st = tokenizer_hf_load(dir, &f, &fail);
	is_int(st, want, "%s: %s", config ? config : "no config", fail.text);
	if (want == OK) {
		is_str(f.chat_template, template, "template");
		is_str(f.bos_text, bos, "bos");
		is_str(f.eos_text, eos, "eos");
	}
	tokenizer_files_deinit(&f);
}

static void test_folder(void)
{
	if (!mkdtemp(dir))
		exit(1);
	check_config(NULL, E_MISSING, "", "", "");
	char *text = file_of((struct parts){0});
	put("tokenizer.json", text);
	free(text);
	check_config(NULL, OK, "", "", "");
	check_config("{}", OK, "", "", "");
	check_config("{'chat_template':'{{ x }}','bos_token':'<s>',"
		     "'eos_token':{'content':'</s>'}}", OK, "{{ x }}", "<s>",
		     "</s>");
	check_config("{'chat_template':null,'bos_token':null}", OK, "", "", "");
	check_config("{'chat_template':[{'name':'tool_use','template':'t'},"
		     "{'name':'default','template':'d\\n'}]}", OK,
		     "{% if tools %}{{ '' }}t{{ '' }}{% else %}{{ '' }}d{{ '' }}{% endif %}", "",
		     "");
	check_config("{'chat_template':[{'name':'tool_use','template':'t'}]}",
		     E_FORMAT, "", "", "");
	check_config("{'chat_template':7}", E_FORMAT, "", "", "");
	check_config("{'chat_template':", E_FORMAT, "", "", "");
	put("chat_template.jinja", "from the file\n");
	check_config("{'chat_template':'x'}", OK, "from the file\n", "", "");
	drop("chat_template.jinja");
	drop("tokenizer_config.json");
	drop("tokenizer.json");
	rmdir(dir);
}

int main(void)
{
	test_broken();
	test_unsupported();
	test_sentencepiece();
	test_cut();
	test_template();
	test_defaults();
	test_folder();
	return tap_done();
}
