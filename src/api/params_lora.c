/* SPDX-License-Identifier: Apache-2.0
 *
 * Which LoRA adapter answers: the one that `model` names, as vLLM has it, or the one in `lora`, a
 * list of {id, scale} as llama-server has it. An id is the adapter's index in the setting `lora`.
 * Adapters that the list leaves out, or has with scale 0, add nothing. Where both are there, the
 * list gives the scale of the adapter that `model` names: the answer says that name.
 */
#include "api/fields.h"
#include "api/params.h"

#define MAX_LISTED 1000
#define MAX_SCALE 1000

int api_lora_named(const struct api *a, struct str name)
{
	for (int i = 0; i < a->n_loras; i++)
		if (api_is_named(name, a->loras[i].name))
			return i;
	return -1;
}

/* Reads item i of the list. *io: 1 + the id that counts so far, or 0. */
static enum status read_item(const struct json_node *list, size_t i, const struct api *a,
			     int64_t *io, double *out_scale, struct fail *fail)
{
	struct json_node item = json_read_item(list, i);
	struct json_node id_at = json_read_get(&item, "id");
	struct json_node scale_at = json_read_get(&item, "scale");
	int64_t id = 0;
	double scale = 0;
	enum status st = json_read_need_object(&item, fail);
	if (st == OK)
		st = json_read_need(&id_at, fail);
	if (st == OK && !a->n_loras)
		return json_read_fail(&id_at, fail, "is no adapter: the setting `lora` names none");
	if (st == OK)
		st = json_read_int(&id_at, 0, a->n_loras - 1, &id, fail);
	if (st == OK)
		st = json_read_need(&scale_at, fail);
	if (st == OK)
		st = json_read_num(&scale_at, -MAX_SCALE, MAX_SCALE, &scale, fail);
	if (st != OK || (float)scale == 0)
		return st;
	if (*io)
		return json_read_fail(&item, fail, "is the second adapter with a scale: a request "
				      "has one adapter");
	*io = id + 1;
	*out_scale = scale;
	return OK;
}

enum status params_read_lora(const struct json_node *body, struct api_call *c, struct fail *fail)
{
	struct json_node at = json_read_get(body, "lora");
	struct request *r = c->request;
	size_t n = 0;
	int64_t id = 0;
	double scale = 1;
	if (!at.v || json_is_null(at.v) || fields_is_neutral("lora", at.v))
		return OK;
	enum status st = json_read_list(&at, MAX_LISTED, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++)
		st = read_item(&at, i, c->api, &id, &scale, fail);
	if (st == OK && r->lora && id != r->lora)
		return json_read_fail(&at, fail, id ? "has another adapter than `model`"
				      : "must give the adapter of `model` a scale that is not 0");
	if (st != OK)
		return st;
	r->lora = (int)id;
	r->lora_scale = (float)scale;
	return OK;
}
