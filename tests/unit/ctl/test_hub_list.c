/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/hub_list.h"

#include <string.h>

#include "tests/tap.h"

#define SHA "0123456789012345678901234567890123456789"
#define SHA256 SHA "012345678901234567890123"
#define LFS(path) "{\"rfilename\":\"" path "\",\"size\":7,\"lfs\":{\"sha256\":\"" SHA256 "\"}}"
#define GIT(path) "{\"rfilename\":\"" path "\",\"size\":3,\"blobId\":\"" SHA "\"}"
#define LIST(files) "{\"sha\":\"" SHA "\",\"siblings\":[" files "]}"

static struct str text(const char *s)
{
	return (struct str){s, strlen(s)};
}

/* The wanted files' names, one after the other with a space behind. */
static void chosen(const char *json, const char *file, const char *want, const char *what)
{
	struct hub_list l;
	struct fail fail = {0};
	char got[1000] = "";
	enum status st = hub_list_read(text(json), &l, &fail);
	if (st == OK)
		st = hub_list_choose(&l, file, &fail);
	for (size_t i = 0; st == OK && i < l.n_files; i++)
		if (l.files[i].is_wanted) {
			strcat(got, l.files[i].path);
			strcat(got, " ");
		}
	is_str(st == OK ? got : fail.text, want, "%s", what);
	hub_list_deinit(&l);
}

static void refused(const char *json, const char *what)
{
	struct hub_list l;
	struct fail fail = {0};
	is_int(hub_list_read(text(json), &l, &fail), E_FORMAT, "%s: %s", what, fail.text);
}

int main(void)
{
	static const char hf[] = LIST(
		GIT("README.md") "," GIT("config.json") "," LFS("model.safetensors") ","
		LFS("tokenizer.json") "," LFS("consolidated.safetensors") ","
		LFS("pytorch_model.bin") "," LFS("onnx/model.safetensors") ","
		GIT("chat_template.jinja") "," GIT("original/params.json"));
	chosen(hf, NULL, "config.json model.safetensors tokenizer.json chat_template.jinja ",
	       "a folder of Hugging Face");

	static const char one[] = LIST(LFS("m-Q4_0.gguf") "," GIT("README.md") ","
				       LFS("mmproj-m-f16.gguf"));
	chosen(one, NULL, "m-Q4_0.gguf ", "one GGUF model");

	static const char many[] = LIST(
		LFS("m-Q4_K_M.gguf") "," LFS("m-Q4_K_S.gguf") ","
		LFS("Q8_0/m-Q8_0-00001-of-00002.gguf") "," LFS("Q8_0/m-Q8_0-00002-of-00002.gguf"));
	chosen(many, "Q4_K_M", "m-Q4_K_M.gguf ", "one of several");
	chosen(many, "q8_0", "Q8_0/m-Q8_0-00001-of-00002.gguf Q8_0/m-Q8_0-00002-of-00002.gguf ",
	       "in parts");
	chosen(many, NULL, "3 GGUF models fit: add a part of one's name behind a colon, as in "
	       "ORG/NAME:Q4_K_M. There are m-Q4_K_M.gguf, m-Q4_K_S.gguf, "
	       "Q8_0/m-Q8_0-00001-of-00002.gguf", "several, and none is named");
	chosen(many, "Q5_0", "no GGUF file of the model fits \"Q5_0\"; there are m-Q4_K_M.gguf, "
	       "m-Q4_K_S.gguf, Q8_0/m-Q8_0-00001-of-00002.gguf", "none fits");
	chosen(LIST(GIT("README.md")), NULL,
	       "the model has neither safetensors nor GGUF files", "no weights");

	struct hub_list l;
	is_int(hub_list_read(text(hf), &l, NULL), OK, "is read");
	is_int(hub_list_choose(&l, NULL, NULL), OK, "is chosen from");
	is_int(hub_list_wanted_bytes(&l), 7 + 7 + 3 + 3, "bytes of what is wanted");
	hub_list_deinit(&l);

	refused("", "nothing");
	refused("[]", "no object");
	refused("{\"sha\":\"../x\",\"siblings\":[]}", "a commit that is a path");
	refused(LIST(GIT("../../x")), "a path that leaves");
	refused(LIST(GIT("a/./b")), "a path with a dot");
	refused(LIST(GIT("/etc/passwd")), "an absolute path");
	refused(LIST("{\"rfilename\":\"x\",\"size\":1,\"blobId\":\"../../x\"}"),
		"a digest that is a path");
	refused(LIST("{\"rfilename\":\"x\",\"size\":-1,\"blobId\":\"" SHA "\"}"),
		"a size below nothing");
	refused(LIST("{\"rfilename\":\"x\"}"), "no size");
	return tap_done();
}
