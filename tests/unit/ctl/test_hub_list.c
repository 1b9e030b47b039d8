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
static void chosen_by(const char *json, const struct hub_choice *c, const char *want,
		      const char *what)
{
	struct hub_list l;
	struct fail fail = {0};
	char got[1000] = "";
	enum status st = hub_list_read(text(json), &l, &fail);
	if (st == OK)
		st = hub_list_choose(&l, c, &fail);
	for (size_t i = 0; st == OK && i < l.n_files; i++)
		if (l.files[i].is_wanted) {
			strcat(got, l.files[i].path);
			strcat(got, " ");
		}
	is_str(st == OK ? got : fail.text, want, "%s", what);
	hub_list_deinit(&l);
}

static void chosen(const char *json, const char *file, const char *want, const char *what)
{
	chosen_by(json, &(struct hub_choice){.file = file}, want, what);
}

/* What comes with a GGUF model. */
static void beside(void)
{
	static const char towers[] = LIST(
		LFS("m-F16.gguf") "," LFS("m-Q4_0.gguf") "," LFS("mmproj-F32.gguf") ","
		LFS("mmproj-F16.gguf") "," LFS("m-MMPROJ-Q8_0.gguf"));
	chosen(towers, "Q4_0", "m-Q4_0.gguf mmproj-F16.gguf ", "a tower of 16 bits comes along");
	chosen(towers, "F16", "m-F16.gguf mmproj-F16.gguf ", "and is not the model of 16 bits");
	chosen_by(towers, &(struct hub_choice){.file = "Q4_0", .mmproj = "Q8_0"},
		  "m-Q4_0.gguf m-MMPROJ-Q8_0.gguf ", "another, by a part of its name");
	chosen_by(towers, &(struct hub_choice){.file = "Q4_0", .mmproj = "none"}, "m-Q4_0.gguf ",
		  "or none");
	chosen_by(towers, &(struct hub_choice){.file = "Q4_0", .mmproj = "Q5_0"},
		  "--mmproj Q5_0: no file fits; there are mmproj-F32.gguf, mmproj-F16.gguf, "
		  "m-MMPROJ-Q8_0.gguf", "none fits");
	chosen_by(towers, &(struct hub_choice){.file = "Q4_0", .mmproj = "mmproj"},
		  "--mmproj mmproj: several files fit: mmproj-F32.gguf, mmproj-F16.gguf, "
		  "m-MMPROJ-Q8_0.gguf", "several fit");
	chosen_by(towers, &(struct hub_choice){.file = "Q4_0", .mtp = "Q4_0"},
		  "--mtp Q4_0: the model has no MTP layer in a GGUF file", "there is none");
	chosen(towers, "mmproj-F32", "mmproj-F32.gguf ", "a tower alone");
	chosen(LIST(LFS("m.gguf") "," LFS("mmproj-Q8_0.gguf")), NULL, "m.gguf mmproj-Q8_0.gguf ",
	       "the only tower, whatever its bits");

	static const char deep[] = LIST(
		LFS("Q4_0/m.gguf") "," LFS("Q4_0/mmproj-Q8_0.gguf") "," LFS("Q8_0/m.gguf") ","
		LFS("mmproj-BF16.gguf") "," LFS("mtp-m.gguf"));
	chosen(deep, "Q4_0/m", "Q4_0/m.gguf Q4_0/mmproj-Q8_0.gguf mtp-m.gguf ",
	       "the nearest tower, and a layer from the folder above");
	chosen(deep, "Q8_0/m", "Q8_0/m.gguf mmproj-BF16.gguf mtp-m.gguf ",
	       "a tower from the folder above, none from beside it");

	static const char layers[] = LIST(
		LFS("m-Q4_0.gguf") "," LFS("m-Q8_0.gguf") "," LFS("mtp-m-Q4_0.gguf") ","
		LFS("mtp-m-F16.gguf"));
	chosen(layers, "Q4_0", "m-Q4_0.gguf mtp-m-Q4_0.gguf ", "the layer of the same name");
	chosen(layers, "Q8_0", "m-Q8_0.gguf ", "of two others none: halod would not use one");
	chosen_by(layers, &(struct hub_choice){.file = "Q8_0", .mtp = "F16"},
		  "m-Q8_0.gguf mtp-m-F16.gguf ", "but the one that is named");
	chosen_by(layers, &(struct hub_choice){.file = "Q4_0", .mtp = "none"}, "m-Q4_0.gguf ",
		  "or none");
	chosen_by(LIST(GIT("config.json") "," LFS("model.safetensors")),
		  &(struct hub_choice){.mmproj = "F16"},
		  "--mmproj is for models in GGUF files: this one is a folder, and has all in it",
		  "a folder has its tower");
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
	chosen(one, NULL, "m-Q4_0.gguf mmproj-m-f16.gguf ", "one GGUF model, and its tower");

	static const char drafts[] = LIST(LFS("m-Q4_0.gguf") "," LFS("mtp-m-Q4_0.gguf"));
	chosen(drafts, NULL, "m-Q4_0.gguf mtp-m-Q4_0.gguf ", "an MTP layer is no model");
	chosen(drafts, "Q4_0", "m-Q4_0.gguf mtp-m-Q4_0.gguf ", "nor by a part of its name");
	chosen(drafts, "mtp-m-Q4_0", "mtp-m-Q4_0.gguf ", "unless that says so");

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
	is_int(hub_list_choose(&l, &(struct hub_choice){0}, NULL), OK, "is chosen from");
	is_int(hub_list_wanted_bytes(&l), 7 + 7 + 3 + 3, "bytes of what is wanted");
	hub_list_deinit(&l);

	beside();
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
