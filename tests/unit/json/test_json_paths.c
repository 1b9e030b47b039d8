/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_paths.h"

#include "tests/tap.h"

static json_t *parse(const char *text)
{
	json_t *v = NULL;
	struct fail fail;
	if (json_read_parse(str_of(text), &v, &fail) != OK)
		printf("Bail out! %s\n", fail.text);
	return v;
}

static void says(const struct json_node *at, const char *param, const char *fact)
{
	struct fail fail = {0};
	char text[100];
	json_read_fail(at, &fail, "is wrong");
	is_str(fail.param, param, "%s", fact);
	snprintf(text, sizeof text, "`%s` is wrong", param);
	is_str(fail.text, text, "%s, in words", fact);
	fail = (struct fail){0};
	json_read_locate(at, &fail);
	is_str(fail.param, param, "%s, located", fact);
}

int main(void)
{
	json_t *client = parse("{\"in\":[{\"x\":{\"y\":1}},{}],\"flag\":true}");
	json_t *made = parse("{\"a\":{\"list\":[{\"b\":{\"y\":1}},{\"c\":2}]},\"on\":true,"
			     "\"off\":true}");
	struct json_paths ps;
	json_paths_init(&ps);
	struct json_node from = json_read_root(client);
	struct json_node in = json_read_get(&from, "in");
	struct json_node in1 = json_read_item(&in, 1);
	struct json_node flag = json_read_get(&from, "flag");
	struct json_node root = {.v = made, .paths = &ps};
	struct json_node a = json_read_get(&root, "a");
	struct json_node list = json_read_get(&a, "list");
	struct json_node item0 = json_read_item(&list, 0);
	struct json_node item1 = json_read_item(&list, 1);
	struct json_node b = json_read_get(&item0, "b");
	struct json_node on = json_read_get(&root, "on");
	struct json_node off = json_read_get(&root, "off");
	struct json_node none = json_read_get(&item1, "none");
	says(&b, "a.list[0].b", "without notes it is the tree's own path");
	json_paths_add(&ps, item1.v, &in1);
	json_paths_add_field(&ps, item0.v, "b", &in);
	json_paths_add_field(&ps, made, "on", &flag);
	says(&item1, "in[1]", "a list's item");
	says(&none, "in[1].none", "what is absent in it");
	says(&item0, "a.list[0]", "its neighbour is not meant");
	struct json_node y = json_read_get(&b, "y");
	says(&y, "in.y", "behind a field");
	says(&on, "flag", "a value that all trees share");
	says(&off, "off", "is not meant in another field");
	json_paths_add(&ps, a.v, &from);
	says(&item0, "list[0]", "a part that is the whole body there");
	json_paths_deinit(&ps);
	json_decref(client);
	json_decref(made);
	return tap_done();
}
