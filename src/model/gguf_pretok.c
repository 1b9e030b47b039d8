/* SPDX-License-Identifier: Apache-2.0
 *
 * Which expressions a name stands for is known from each model's tokenizer.json and from
 * llama.cpp (llama-vocab.cpp, unicode.cpp). llama.cpp has no letters in upper or lower case, no
 * sets without others, and no \b of other alphabets; where it comes near an expression with
 * such, the expression is here. Text between matches is a piece, too.
 */
#include "model/gguf_pretok.h"

#include "base/alloc.h"

#define CUTS "'s|'t|'re|'ve|'m|'ll|'d"
#define CASELESS "(?i:" CUTS ")|"
#define BLANKS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 CUTS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* digits: how many are one piece */
#define LETTERS(digits) "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+"
#define QWEN2 CASELESS LETTERS("") "[\\r\\n]*|" BLANKS
#define LLAMA3 CASELESS LETTERS("{1,3}") "[\\r\\n]*|" BLANKS
#define MANY(n) "\\s{" n "}(?!\\S)|"
#define JAIS2 CASELESS LETTERS("{1,3}") "[\\r\\n]*|\\s*[\\r\\n]+|" MANY("512") MANY("256") \
	      MANY("128") MANY("64") MANY("32") MANY("16") MANY("8") MANY("4") MANY("1,2") "\\s"
#define QWEN35 CASELESS "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}" \
	       "\\p{N}]+[\\r\\n]*|" BLANKS
#define SEED CASELESS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" BLANKS
#define BAILING "'(?i:[sdmt]|ll|ve|re)|" LETTERS("") "[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define EXAONE_MOE CASELESS "[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|" \
		   "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

/* Words that end where small letters are followed by large ones. set: around each letter. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, cuts) \
	"[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" cuts "|" \
	"[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" cuts "|"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+"
#define O200K(digits) CASED(UPPER, LOWER, "(?i:" CUTS ")?") "\\p{N}" digits SIGNS \
	      "[\\r\\n/]*|" BLANKS
#define TEKKEN CASED(UPPER, LOWER, "") "\\p{N}" SIGNS "[\\r\\n/]*|" BLANKS
#define NO_HAN(set) "(?:(?!\\p{Han})" set ")"
#define KIMI "\\p{Han}+|" CASED(NO_HAN(UPPER), NO_HAN(LOWER), "(?i:" CUTS ")?") \
	"\\p{N}{1,3}" SIGNS "[\\r\\n]*|" BLANKS

#define DIGITS3 "\\p{N}{1,3}"
#define CJK "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define PUNCT "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK3(lines) PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?" \
	"[\\p{P}\\p{S}]+" lines "|\\s+(?!\\S)|\\s+"
#define DEEPSEEK_HAN "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define DEEPSEEK_LETTERS "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-" \
	"\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386" \
	"\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556" \
	"\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-" \
	"\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57" \
	"\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-" \
	"\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107" \
	"\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139" \
	"\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee" \
	"\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-" \
	"\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f" \
	"\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2" \
	"\U000118a0-\U000118df\U0001e900-\U0001e943]+"
#define DEEPSEEK_SIGNS "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
#define YOUTU "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a" \
	"\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" CJK
#define AFMOE "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f" \
	"\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-" \
	"\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
/* Digits in threes, counted from the right. */
#define THREES "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
#define LINES "[^\\n]+|[\\n]+"

/* Rules that several names share, and long ones. */
#define RULE(name, ...) \
	static const char *const name[GGUF_PRETOK_SPLITS] = {__VA_ARGS__}
RULE(gpt2, GPT2);
RULE(fallback, "[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]");
RULE(starcoder, "\\p{N}", GPT2);
RULE(falcon, "[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]");
RULE(llama3, LLAMA3);
RULE(jais2, JAIS2);
RULE(minicpm5, DIGITS3, CASELESS LETTERS("+") "[\\r\\n]*|" BLANKS);
RULE(qwen2, QWEN2);
RULE(qwen35, QWEN35);
RULE(ufakzeka, LETTERS("") "[\\r\\n]*|" BLANKS);
RULE(laguna, LINES, QWEN2);
RULE(seed, SEED);
RULE(bailing, BAILING);
RULE(exaone_moe, EXAONE_MOE);
RULE(o200k, O200K("{1,3}"));
RULE(tekken, TEKKEN);
RULE(kimi, KIMI);
RULE(youtu, YOUTU, O200K(""));
RULE(tiny_aya, "\\d{1,3}(?=(?:\\d{3})*\\b)", O200K("{1,3}"));
RULE(deepseek3, DIGITS3, CJK, DEEPSEEK3("[\\r\\n]*|\\s*[\\r\\n]+"));
RULE(spark, DIGITS3, CJK, DEEPSEEK3("|[\\r\\n]"), "\\p{N}");
RULE(afmoe, THREES, AFMOE, DEEPSEEK3("[\\r\\n]*|\\s*[\\r\\n]+"));
RULE(deepseek_llm, "[\\r\\n]", DEEPSEEK_LETTERS, DEEPSEEK_SIGNS, "\\s+$", DEEPSEEK_HAN,
     "\\p{N}+");
RULE(deepseek_coder, "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_HAN, "\\p{N}");
RULE(bloom, BLOOM);
RULE(viking, BLOOM, "\\p{N}");
RULE(chameleon, "<sentinel:[0-9]+>", "(?:IMGIMG)(?:[A-I]{1,4})Z", "[\\t\\n]|    |  ", "\\p{N}",
     "[\\p{P}!-/:-@\\[-`{-~]", GPT2);
RULE(superbpe, "\\p{N}+", "(?=(?:\\d{3})+(?!\\d))");
RULE(none, NULL);

const char gguf_pretok_default[] = "default";

static const struct gguf_pretok rows[] = {
	{"default", fallback, 0},
	{"gpt-2", gpt2, 0},
	{"phi-2", gpt2, 0},
	{"gigachat", gpt2, 0},
	{"a.x-4.0", gpt2, 0},
	{"mellum", gpt2, 0},
	{"jais", gpt2, 0},
	{"trillion", gpt2, 0},
	{"granite-docling", gpt2, 0},
	{"exaone4", gpt2, 0},
	{"mpt", gpt2, 0},
	{"olmo", gpt2, 0},
	{"jina-es", gpt2, 0},
	{"jina-de", gpt2, 0},
	{"jina-v2-es", gpt2, 0},
	{"jina-v2-de", gpt2, 0},
	{"modern-bert", gpt2, 0},
	{"jina-v1-en", gpt2, 0},
	{"jina-v2-code", gpt2, 0},
	{"roberta-bpe", gpt2, 0},
	{"starcoder", starcoder, 0},
	{"refact", starcoder, 0},
	{"command-r", starcoder, 0},
	{"smollm", starcoder, 0},
	{"codeshell", starcoder, 0},
	{"exaone", starcoder, 0},
	{"minerva-7b", starcoder, 0},
	{"mellum2", starcoder, 0},
	{"falcon", falcon, 0},
	{"llama-bpe", llama3, PRE_WHOLE | PRE_BOS},
	{"llama3", llama3, PRE_WHOLE | PRE_BOS},
	{"llama-v3", llama3, PRE_WHOLE | PRE_BOS},
	{"falcon3", llama3, PRE_WHOLE | PRE_BOS},
	{"falcon-h1", llama3, PRE_WHOLE | PRE_BOS},
	{"pixtral", llama3, PRE_WHOLE | PRE_BOS},
	{"midm-2.0", llama3, PRE_WHOLE | PRE_BOS},
	{"lfm2", llama3, PRE_WHOLE | PRE_BOS},
	{"jina-v5-nano", llama3, PRE_WHOLE | PRE_BOS},
	{"glm4", llama3, PRE_WHOLE},
	{"glm5", llama3, PRE_WHOLE},
	{"chatglm-bpe", llama3, 0},
	{"dbrx", llama3, 0},
	{"smaug-bpe", llama3, 0},
	{"jais-2", jais2, 0},
	{"minicpm5", minicpm5, PRE_WHOLE},
	{"qwen2", qwen2, PRE_NFC},
	{"kormo", qwen2, 0},
	{"megrez", qwen2, PRE_NFC},
	{"f2llmv2", qwen2, PRE_NFC},
	{"hunyuan", qwen2, PRE_NFC},
	{"deepseek-r1-qwen", qwen2, PRE_NFC | PRE_BOS},
	{"stablelm2", qwen2, 0},
	{"solar-open", qwen2, 0},
	{"grok-2", qwen2, 0},
	{"qwen35", qwen35, PRE_NFC},
	{"ufakzeka", ufakzeka, 0},
	{"laguna", laguna, 0},
	{"seed-coder", seed, 0},
	{"bailingmoe", bailing, 0},
	{"bailingmoe2", bailing, 0},
	{"llada-moe", bailing, 0},
	{"exaone-moe", exaone_moe, 0},
	{"gpt-4o", o200k, PRE_WHOLE},
	{"llama4", o200k, PRE_WHOLE},
	{"kanana2", o200k, 0},
	{"talkie", o200k, 0},
	{"granite-embed-multi-97m", o200k, PRE_WHOLE},
	{"minimax-m2", o200k, 0},
	{"tekken", tekken, PRE_WHOLE | PRE_BOS},
	{"kimi-k2", kimi, 0},
	{"youtu", youtu, PRE_WHOLE},
	{"tiny_aya", tiny_aya, 0},
	{"cohere2moe", tiny_aya, 0},
	{"deepseek-v3", deepseek3, PRE_BOS},
	{"hunyuan-dense", deepseek3, 0},
	{"hy_v4", deepseek3, 0},
	{"joyai-llm", deepseek3, 0},
	{"spark2_5", spark, 0},
	{"afmoe", afmoe, 0},
	{"deepseek-llm", deepseek_llm, 0},
	{"deepseek-coder", deepseek_coder, 0},
	{"bloom", bloom, 0},
	{"gpt3-finnish", bloom, 0},
	{"poro-chat", bloom, 0},
	{"viking", viking, 0},
	{"chameleon", chameleon, PRE_BOS},
	{"superbpe", superbpe, 0},
	{"gemma4", none, PRE_SPACED},
	{"granite-embed-multi-311m", none, PRE_SPACED},
	{"sarvam-moe", none, PRE_SPACED},
};

const struct gguf_pretok *gguf_pretok_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_is(name, rows[i].name))
			return &rows[i];
	return NULL;
}
